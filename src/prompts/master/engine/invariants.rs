//! The invariants of a prompt master, for tests and debug builds.

use std::collections::BTreeSet;

use super::peer::State;
use super::{Master, Timer};

impl Master {
    /// Checks all invariants.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn sanity_check(&self) {
        self.files.sanity_check();
        self.progress.sanity_check();
        self.peers.sanity_check();
        let mut names = BTreeSet::new();
        for (connection, peer) in self.peers.iter() {
            let is = |timer| self.timers.is_set(&timer);
            for request in peer.outstanding().keys() {
                assert!(is(Timer::Acknowledge(connection, request.clone())), "{request} is outstanding forever");
            }
            assert_eq!(is(Timer::Join(connection)), peer.state == State::Stranger, "{connection:?}");
            assert_eq!(is(Timer::Refuse(connection)), peer.state == State::Guessed, "{connection:?}");
            assert_eq!(is(Timer::Pause(connection)), peer.is_quiet(), "{connection:?}");
            assert_eq!(is(Timer::Rest(connection)), peer.state == State::Resting, "{connection:?}");
            assert_eq!(is(Timer::Disconnect(connection)), peer.state == State::Disconnecting, "{connection:?}");
            if !matches!(peer.state, State::Working(..)) {
                assert!(!is(Timer::Run(connection)), "{connection:?} runs nothing");
            }
            if peer.state == State::Claiming {
                let claims = self.dispatch.claim().is_some_and(|claim| claim.connection == connection);
                assert!(claims, "{connection:?} waits for a claim that does not exist");
            }
            if let Some(held) = peer.held() {
                assert!(names.insert(&held.file), "{} is held twice", held.file);
            }
        }
        for (run, orphan) in &self.orphans {
            assert!(
                self.timers.is_set(&Timer::Lease(run.clone())),
                "{} waits forever for its worker",
                orphan.held.file
            );
            assert!(names.insert(&orphan.held.file), "{} is held twice", orphan.held.file);
        }
        for file in self.files.leaving() {
            assert!(names.insert(file), "{file} is held and leaves");
        }
        let claimed = self.dispatch.claim().map(|claim| &claim.file);
        for file in self.files.noted() {
            assert!(names.contains(file) || claimed == Some(file), "{file} is noted forever");
        }
        for gate in self.gates.closed() {
            assert!(self.timers.is_set(&Timer::Gate(gate.clone())), "gate {gate} is closed forever");
        }
        if self.may_claim() {
            let waits = self.files.has_next(|gates| self.gates.may_start(gates));
            assert!(!waits || self.peers.next_idle().is_none(), "a worker is idle while a file waits");
        }
    }
}
