//! The guard of an agent without a supervisor: started first, started again when it is gone, released last.
//!
//! The guard or the supervisor of an agent also gets the end of the lease of an exclusive run, and ends the run if the agent is
//! stopped by then. The supervisor gets it as a line on the standard output.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use super::process;
use crate::slot::Hold;
use base::Mono;
use proc::guard::{Guard, GuardError, GuardPlan};
use proc::supervised::{is_supervised, lease_line};
use proc::{clock, readable};

/// Minimum time between two starts, so that a guard that cannot live costs little.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The guard of an agent, or none for one that has a supervisor.
pub(super) struct GuardKeeper {
    plan: Option<GuardPlan>,
    guard: Option<Guard>,
    started: Mono,
    has_supervisor: bool,
    /// Wakes the agent at the end of a lease, even after a suspend of the machine, which a poll time-out does not.
    alarm: Option<OwnedFd>,
}

impl GuardKeeper {
    /// Starts the guard. Call it before the agent becomes a subreaper. A failure does not stop the agent, because the next
    /// start of any agent does the work of the guard: it is logged and tried again.
    pub(super) fn start(plan: Option<GuardPlan>) -> Self {
        // In a pid namespace, the end of the first process, which adopts every orphan, makes the kernel end all others.
        let plan = plan.filter(|_| std::process::id() != 1);
        let guard = plan.as_ref().and_then(|plan| logged(plan.start()));
        let has_supervisor = plan.is_none() && is_supervised();
        Self { plan, guard, started: clock::now().mono, has_supervisor, alarm: None }
    }

    /// Descriptors that wake the agent: the guard is gone, or a lease has expired. No data is read from them.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let guard = self.guard.as_ref().map(AsFd::as_fd);
        guard.into_iter().chain(self.alarm.as_ref().map(AsFd::as_fd))
    }

    /// Sends the guard or supervisor the end of the lease of the run. A failure means that the guard has ended, which is handled
    /// elsewhere.
    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        let kill_at = hold.map(|hold| clock::from_boot(hold.kill_at));
        if let Some(guard) = &mut self.guard {
            guard.set_lease(kill_at);
        }
        if self.has_supervisor {
            say_to_supervisor(&lease_line(kill_at));
        }
        if let Err(error) = self.set_alarm(hold.map(|hold| clock::from_boot(hold.until))) {
            log::debug!("no alarm for a lease after a suspend: {error}");
        }
    }

    fn set_alarm(&mut self, until: Option<Duration>) -> rustix::io::Result<()> {
        let Some(until) = until else {
            // Other runs must not pay for it.
            self.alarm = None;
            return Ok(());
        };
        let alarm = match self.alarm.take() {
            Some(alarm) => alarm,
            None => timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?,
        };
        let it_value = readable::timespec(until).unwrap_or_default();
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&alarm, TimerfdTimerFlags::ABSTIME, &once)?;
        self.alarm = Some(alarm);
        Ok(())
    }

    /// Replaces a guard that was killed, but not during a run.
    pub(super) fn replace_guard(&mut self, now: Mono, is_idle: bool) {
        if let Some(alarm) = &self.alarm {
            // The alarm only wakes the loop.
            let _ = rustix::io::read(alarm, &mut [0; 8]);
        }
        let Some(plan) = &self.plan else { return };
        if self.guard.take_if(|guard| guard.is_gone()).is_some() {
            log::warn!("the guard of this agent was killed; it gets another one before its next task");
        }
        if self.guard.is_none() && is_idle && now >= self.started + RESTART_PAUSE {
            self.started = now;
            match process::without_adoption(|| plan.start()) {
                Ok(started) => self.guard = logged(started),
                Err(error) => log::error!("cannot start a guard: {error}"),
            }
        }
    }

    /// The agent leaves no process behind.
    pub(super) fn release(self) {
        if let Some(guard) = self.guard {
            guard.release();
        }
    }
}

/// Writes at once or not at all: a supervisor that does not read, because it is stopped itself, must not block the agent.
fn say_to_supervisor(line: &str) {
    let out = std::io::stdout();
    let written = rustix::io::ioctl_fionbio(&out, true).and_then(|()| rustix::io::write(&out, line.as_bytes()));
    if let Err(error) = written {
        log::warn!("cannot tell the supervisor of a lease: {error}");
    }
}

fn logged(started: Result<Guard, GuardError>) -> Option<Guard> {
    started
        .inspect_err(|error| log::error!("{error}; what this agent leaves if it is killed stays until the next start"))
        .ok()
}
