//! Whether this controller takes tasks and gives them out, and why not.

pub(crate) mod idle;
pub(crate) mod outdated;

use base::{Epoch, Wall};
use outdated::Start;

/// A pause of the service that a client repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paused {
    pub(crate) since: Wall,
    pub(crate) until: Wall,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Mode {
    /// The start of this controller, and how old its store is.
    start: Start,
    is_stopping: bool,
    /// The present pause, in which no task is handed out.
    paused: Option<Paused>,
    /// Why no submit can be accepted, while the store cannot be written.
    store_trouble: Option<String>,
}

impl Mode {
    /// Agents know this life of the controller by `id`.
    pub(crate) fn of_start(id: u64) -> Self {
        Self { start: Start::new(id), ..Self::default() }
    }

    pub(crate) const fn controller_id(&self) -> u64 {
        self.start.id
    }

    pub(crate) const fn started_at(&self) -> Wall {
        self.start.at
    }

    /// The epoch, for the answer to a heartbeat.
    pub(crate) const fn epoch(&self) -> Option<Epoch> {
        self.start.epoch
    }

    /// Whether the store is from a backup or another machine.
    pub(crate) const fn is_from_elsewhere(&self) -> bool {
        self.start.is_from_elsewhere
    }

    /// Why this controller gives out no tasks and takes none, if another one has its agents.
    pub(crate) fn outdated(&self) -> Option<&str> {
        self.start.outdated.as_deref()
    }

    /// Whether tasks are handed out.
    pub(crate) const fn gives_out(&self) -> bool {
        self.paused.is_none() && self.start.outdated.is_none()
    }

    pub(crate) const fn paused(&self) -> Option<Paused> {
        self.paused
    }

    /// Begins a pause, prolongs or ends it. Returns the one before.
    pub(crate) const fn set_paused(&mut self, paused: Option<Paused>) -> Option<Paused> {
        std::mem::replace(&mut self.paused, paused)
    }

    pub(crate) const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// No submit is accepted from here on.
    pub(crate) const fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Why the store takes no submit.
    pub(crate) fn store_trouble(&self) -> Option<&str> {
        self.store_trouble.as_deref()
    }

    pub(crate) fn set_store_trouble(&mut self, trouble: Option<String>) {
        self.store_trouble = trouble;
    }
}
