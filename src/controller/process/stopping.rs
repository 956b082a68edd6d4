//! The end of a controller: by a signal, or because another program takes its place.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{ControllerError, Service};
use api::config::Config;
use api::reload::Reload;
use base::{IncidentKind, Mono};
use proc::signals::RETIRE;
use proc::takeover::Successor;
use proc::{clock, incidents, takeover};
use zmtp::port::Suspension;

/// How long the answers to accepted requests may delay a stop: searches and orders about many tasks.
const ANSWERS_MAX: Duration = Duration::from_secs(1);

/// Why a controller stops.
pub(super) enum Ending {
    /// A signal.
    Stopped,
    /// It has had nothing to do for long.
    Idle,
    /// This program is to take its place, in the same process.
    Succeeded(Successor),
}

impl Service {
    /// Handles the signals of a controller. Returns why it must end, if it must.
    pub(super) fn ending(&mut self, signals: &[Signal], config: &Config, reload: &Reload) -> Option<Ending> {
        if let Some(signal) = signals.iter().find(|signal| ![RETIRE, Signal::SIGHUP].contains(signal)) {
            log::info!("{signal}: stopping");
            return Some(Ending::Stopped);
        }
        if signals.contains(&Signal::SIGHUP) {
            incidents::note(IncidentKind::Reloaded, reload.reload(&config.log));
        }
        if !signals.contains(&RETIRE) {
            return None;
        }
        let state_dir = &config.paths.state_dir;
        // The same signal tells of incidents that the supervisor has left.
        incidents::take_left(state_dir);
        // It also tells of another limit for a time without work.
        if let Some(idle) = &mut self.idle {
            idle.read_again();
        }
        match Successor::take(state_dir, takeover::CONTROLLER) {
            Ok(successor) => {
                log::info!("making room for {}", successor.program.display());
                Some(Ending::Succeeded(successor))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                log::error!("a signal asks for another program, but which one cannot be read: {error}");
                None
            }
        }
    }

    /// Answers every request, stores all decisions, and delivers the queued pushes. Connections are closed, unless a successor
    /// continues them.
    pub(super) fn stop(mut self, ending: &Ending) -> Result<Option<Suspension>, ControllerError> {
        let has_successor = matches!(ending, Ending::Succeeded(_));
        let until = clock::now().mono + ANSWERS_MAX;
        if has_successor {
            // Submits that have not been decided would be refused below.
            let is_decided =
                |service: &mut Self| service.documents.is_idle() && !service.sequencer.controller().has_postponed();
            self.turns_until(until, is_decided)?;
        }
        self.sequencer.handle_stop();
        if matches!(ending, Ending::Stopped) {
            self.receive(clock::now());
        }
        self.turns_until(until, |service| service.sequencer.unanswered() == 0 && service.history.is_idle())?;
        while !self.sequencer.is_at_rest() {
            self.closing_turn(None)?;
        }
        let counts = self.pusher.stop();
        log::info!("stopped; {} replies and {} pushes were not delivered", self.dropped, counts.dropped());
        log::debug!("pushes: {counts:?}");
        let suspension = if has_successor {
            Some(self.doors.suspend())
        } else {
            self.doors.close();
            None
        };
        if !has_successor {
            self.writer.resign();
        }
        // The thread of the writer has the other end of the history.
        drop(self.writer);
        self.history.stop(clock::now());
        Ok(suspension)
    }

    /// Serves without new requests.
    fn turns_until(&mut self, until: Mono, is_done: impl Fn(&mut Self) -> bool) -> Result<(), ControllerError> {
        self.depart(clock::now());
        while !is_done(self) && clock::now().mono < until {
            self.closing_turn(Some(until))?;
        }
        Ok(())
    }

    fn closing_turn(&mut self, until: Option<Mono>) -> Result<(), ControllerError> {
        let deadline = self.sequencer.poll_timeout().map(|(at, _)| at).into_iter().chain(until).min();
        let fds = [self.writer.as_fd(), self.documents.as_fd(), self.archives.as_fd(), self.history.as_fd()];
        self.doors.wait_unheard(clock::now().mono, deadline, &fds);
        let now = clock::now();
        self.take_documents(now);
        self.take_archives(now);
        self.take_history(now);
        self.take_outcome(now)?;
        self.sequencer.controller().handle_timeout(now);
        self.depart(now);
        Ok(())
    }
}
