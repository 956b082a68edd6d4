//! An agent that has no supervisor looks after its guard: started first, started again when it is gone, released last.
//!
//! Whoever guards the agent, that guard or its supervisor, also knows until when the run of an exclusive task may go on, and
//! ends it should the agent be stopped then. The supervisor is told by a line on the standard output.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use super::process;
use crate::engine::slot::Hold;
use crate::shell::clock;
use crate::shell::guard::{Guard, GuardError, GuardPlan};
use crate::shell::readable;
use crate::shell::supervisor::{self, lease_line};
use crate::types::Mono;

/// Between two starts at the least, so that a guard that cannot live costs little.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The guard of an agent, or none for one that has a supervisor.
pub(super) struct GuardKeeper {
    plan: Option<GuardPlan>,
    guard: Option<Guard>,
    started: Mono,
    has_supervisor: bool,
    /// Wakes the agent at the end of a lease also when the machine was suspended until then, which no poll does.
    alarm: Option<OwnedFd>,
}

impl GuardKeeper {
    /// Starts the guard. Call it before the agent becomes a subreaper. What goes wrong does not stop the agent, because the
    /// next start of any agent does what the guard would have done: it is said and tried again.
    pub(super) fn start(plan: Option<GuardPlan>) -> Self {
        // The kernel ends everything in a pid namespace whose first process ends, and that one adopts every orphan.
        let plan = plan.filter(|_| std::process::id() != 1);
        let guard = plan.as_ref().and_then(|plan| logged(plan.start()));
        let has_supervisor = plan.is_none() && supervisor::is_parent();
        Self { plan, guard, started: clock::now().mono, has_supervisor, alarm: None }
    }

    /// What to wake up for: the guard is gone, or a lease is over. Nothing is asked of them but that.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let guard = self.guard.as_ref().map(AsFd::as_fd);
        guard.into_iter().chain(self.alarm.as_ref().map(AsFd::as_fd))
    }

    /// Tells whoever guards this agent until when its run may go on. What has gone wrong is the guard's end, and seen to.
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
            // Other runs shall not pay for it.
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

    /// Replaces a guard that was killed; while a run is on, that waits.
    pub(super) fn replace_guard(&mut self, now: Mono, is_idle: bool) {
        if let Some(alarm) = &self.alarm {
            // It has done its work when the loop is awake.
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

    /// The agent leaves nothing behind.
    pub(super) fn release(self) {
        if let Some(guard) = self.guard {
            guard.release();
        }
    }
}

/// At once or not at all: a supervisor that does not read, because it is stopped itself, must not hold the agent up.
fn say_to_supervisor(line: &str) {
    let out = std::io::stdout();
    let written = rustix::io::ioctl_fionbio(&out, true).and_then(|()| rustix::io::write(&out, line.as_bytes()));
    if let Err(error) = written {
        log::warn!("the supervisor does not hear of a lease: {error}");
    }
}

fn logged(started: Result<Guard, GuardError>) -> Option<Guard> {
    started
        .inspect_err(|error| log::error!("{error}; what this agent leaves if it is killed stays until the next start"))
        .ok()
}
