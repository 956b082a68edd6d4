//! Ends a controller that has had nothing to do for as long as its supervisor allows.
//!
//! The decision is made at the end of a turn: every request that was read before it has had its answer, and none is read after it.
//! So no task is accepted and then left behind.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Service;
use api::config::Config;
use base::{Mono, Role};
use proc::idle_stop;
use proc::idle_stop::IDLE_LINE;
use proc::supervised::is_supervised;

/// Watches for how long the controller has had nothing to do.
pub(super) struct Idle {
    state_dir: PathBuf,
    limit: Option<Duration>,
    since: Option<Mono>,
}

impl Idle {
    /// A hosted server has peers and work of its own, so it keeps the service running. A controller without a supervisor ends by a
    /// signal.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let hosts = config.prompt.hosted || config.lists.dir.is_some() || config.tdf.pool.is_some();
        let state_dir: &Path = &config.paths.state_dir;
        (is_supervised() && !hosts).then(|| Self {
            state_dir: state_dir.to_owned(),
            limit: idle_stop::read(state_dir),
            since: None,
        })
    }

    /// Reads the limit again, because the supervisor may have set another one.
    pub(super) fn read_again(&mut self) {
        self.limit = idle_stop::read(&self.state_dir);
    }

    /// When the controller ends, unless something comes.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        Some(self.since? + self.limit?)
    }

    /// A turn has ended; true if the controller is to end.
    pub(super) fn handle_turn(&mut self, now: Mono, is_idle: impl FnOnce() -> bool) -> bool {
        if self.limit.is_none() || !is_idle() {
            self.since = None;
            return false;
        }
        self.since.get_or_insert(now);
        self.poll_timeout().is_some_and(|at| at <= now)
    }
}

impl Service {
    /// Whether nothing is left to do, and no peer is connected that may want something.
    pub(super) fn is_idle(&mut self) -> bool {
        self.sequencer.controller().is_idle(|agent| Role::is_named(agent.as_str()))
            && self.sequencer.is_at_rest()
            && self.documents.is_idle()
            && self.pusher.is_drained()
            && !self.doors.have_guests()
    }

    /// Tells the supervisor that this controller ends, and is not to be started again.
    pub(super) fn tell_idle() {
        let mut out = std::io::stdout();
        if let Err(error) = writeln!(out, "{IDLE_LINE}").and_then(|()| out.flush()) {
            log::error!("cannot tell the supervisor of an end without work: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> Mono {
        Mono::default() + Duration::from_secs(seconds)
    }

    #[test]
    fn what_has_nothing_to_do_for_long_enough_ends() {
        let mut idle = Idle { state_dir: PathBuf::new(), limit: Some(LIMIT), since: None };
        assert!(!idle.handle_turn(at(0), || true));
        assert!(!idle.handle_turn(at(599), || false), "something has come");
        assert_eq!(idle.poll_timeout(), None);
        assert!(!idle.handle_turn(at(600), || true));
        assert_eq!(idle.poll_timeout(), Some(at(1200)));
        assert!(!idle.handle_turn(at(1199), || true));
        assert!(idle.handle_turn(at(1200), || true));
        let mut kept = Idle { limit: None, ..idle };
        assert!(!kept.handle_turn(at(9999), || unreachable!("without a limit it is not looked at")));
    }

    #[test]
    fn a_limit_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(idle_stop::read(folder.path()), None);
        for limit in [Some(LIMIT), None, Some(Duration::from_millis(1500))] {
            idle_stop::write(folder.path(), limit).unwrap();
            assert_eq!(idle_stop::read(folder.path()), limit);
        }
    }
}
