//! Whether this controller takes tasks and gives them out, and why not.

pub(in crate::engine) mod idle;
pub(in crate::engine) mod outdated;

use base::Wall;
use outdated::Start;

/// A pause of the service that a client repeats.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Paused {
    pub(in crate::engine) since: Wall,
    pub(in crate::engine) until: Wall,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Mode {
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
    pub(in crate::engine) fn of_start(id: u64) -> Self {
        Self { start: Start::new(id), ..Self::default() }
    }

    pub(in crate::engine) const fn controller_id(&self) -> u64 {
        self.start.id
    }

    pub(in crate::engine) const fn started_at(&self) -> Wall {
        self.start.at
    }

    /// Whether tasks are handed out.
    pub(in crate::engine) const fn gives_out(&self) -> bool {
        self.paused.is_none() && self.start.outdated().is_none()
    }

    pub(in crate::engine) const fn paused(&self) -> Option<Paused> {
        self.paused
    }

    /// Begins a pause, prolongs or ends it. Returns the one before.
    pub(in crate::engine) const fn set_paused(&mut self, paused: Option<Paused>) -> Option<Paused> {
        std::mem::replace(&mut self.paused, paused)
    }

    pub(in crate::engine) const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// No submit is accepted from here on.
    pub(in crate::engine) const fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Why the store takes no submit.
    pub(in crate::engine) fn store_trouble(&self) -> Option<&str> {
        self.store_trouble.as_deref()
    }

    pub(in crate::engine) fn set_store_trouble(&mut self, trouble: Option<String>) {
        self.store_trouble = trouble;
    }
}
