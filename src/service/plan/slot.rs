//! One process of a plan: whether it is running, and when it may be started again.

use std::time::Duration;

use base::Mono;

/// The first pause before a process is started again: short enough to go unnoticed, long enough not to spin.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause. It is short, so that the service recovers soon after a cause such as a full disk has gone.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The longest pause of a process that had been ready: its start works, and the service lacks it.
pub(super) const PAUSE_READY_MAX: Duration = Duration::from_secs(1);

/// A process that lived this long did not die of its start, so its pauses begin again with the shortest.
pub(super) const LIFE_MIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Slot {
    state: State,
    /// The next pause.
    pause: Duration,
    /// When the lease of its run finally ends.
    lease: Option<Mono>,
}

#[derive(Debug)]
enum State {
    Down,
    Pausing { until: Mono },
    Running { since: Mono, ready: bool },
}

impl Default for Slot {
    fn default() -> Self {
        Self { state: State::Down, pause: PAUSE_MIN, lease: None }
    }
}

impl Slot {
    /// Starts the process; `false` if it runs already.
    pub(super) fn start(&mut self, now: Mono) -> bool {
        let start = !self.is_running();
        if start {
            self.state = State::Running { since: now, ready: false };
        }
        start
    }

    pub(super) const fn set_ready(&mut self) {
        if let State::Running { ready, .. } = &mut self.state {
            *ready = true;
        }
    }

    pub(super) fn end(&mut self, now: Mono, again: bool) {
        let State::Running { since, ready } = self.state else { return };
        self.lease = None;
        if !again {
            self.state = State::Down;
            return;
        }
        if now.since(since) >= LIFE_MIN {
            self.pause = PAUSE_MIN;
        }
        if ready {
            self.pause = self.pause.min(PAUSE_READY_MAX);
        }
        self.state = State::Pausing { until: now + self.pause };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// The process has ended to make room for its successor.
    pub(super) fn end_for_successor(&mut self, now: Mono) {
        if self.is_running() {
            *self = Self { state: State::Pausing { until: now }, ..Self::default() };
        }
    }

    pub(super) fn set_lease(&mut self, end: Option<Mono>) {
        self.lease = end.filter(|_| self.is_running());
    }

    pub(super) const fn lease(&self) -> Option<Mono> {
        self.lease
    }

    pub(super) fn take_lease_that_is_over(&mut self, now: Mono) -> bool {
        self.lease.take_if(|end| *end <= now).is_some()
    }

    pub(super) const fn stay_down(&mut self) {
        if let State::Pausing { .. } = self.state {
            self.state = State::Down;
        }
    }

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Running { ready: true, .. })
    }

    pub(super) const fn pause_until(&self) -> Option<Mono> {
        match self.state {
            State::Pausing { until } => Some(until),
            State::Down | State::Running { .. } => None,
        }
    }
}
