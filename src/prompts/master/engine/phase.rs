//! The life of a master: it runs until no file is left, or until it is stopped, and exits when its connections are closed.

use base::Mono;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// By order: stops when no prompt is running any more.
    Draining,
    /// Since this moment; only connections are closed.
    Stopping(Mono),
    /// [`super::Effect::Exit`] has followed, after this beginning of the stop.
    Exited(Mono),
}

impl Phase {
    /// Start of the stop, if it has started.
    pub(super) const fn stopped(self) -> Option<Mono> {
        match self {
            Self::Running | Self::Draining => None,
            Self::Stopping(since) | Self::Exited(since) => Some(since),
        }
    }

    pub(super) const fn is_stopping(self) -> bool {
        self.stopped().is_some()
    }

    /// An order to drain, or to resume, which a stop outlasts.
    pub(super) const fn drain(&mut self, drains: bool) {
        if !self.is_stopping() {
            *self = if drains { Self::Draining } else { Self::Running };
        }
    }

    /// False if the stop has already started.
    pub(super) const fn stop(&mut self, now: Mono) -> bool {
        let starts = !self.is_stopping();
        if starts {
            *self = Self::Stopping(now);
        }
        starts
    }

    pub(super) const fn exit(&mut self) {
        if let Self::Stopping(since) = *self {
            *self = Self::Exited(since);
        }
    }
}
