//! Whether this controller accepts tasks and hands them out, and why not.

pub(crate) mod idle;
pub(crate) mod outdated;

use api::wire::requests::status::QueueView;
use base::Wall;
use outdated::Start;

/// A pause of the service that lasts only as long as a client repeats it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paused {
    pub(crate) since: Wall,
    pub(crate) until: Wall,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Mode {
    /// The start of this controller, and how old its store is.
    pub(crate) start: Start,
    /// Whether the supervisor has died, so that no process of the service is started again.
    pub(crate) is_orphaned: bool,
    /// Whether no submit is accepted any more.
    pub(crate) is_stopping: bool,
    /// The present pause, in which no task is handed out.
    pub(crate) paused: Option<Paused>,
    /// Why no submit can be accepted, while the store cannot be written.
    pub(crate) store_trouble: Option<String>,
    /// The sentence about a disk that has no more room than its reserve.
    pub(crate) little_room: Option<String>,
    /// The queue, if other machines share it.
    pub(crate) queue: Option<QueueView>,
}

impl Mode {
    /// Agents know this life of the controller by `id`.
    pub(crate) fn of_start(id: u64) -> Self {
        Self { start: Start::new(id), ..Self::default() }
    }

    /// Why this controller hands out no tasks and accepts none, if another one has its agents.
    pub(crate) fn outdated(&self) -> Option<&str> {
        self.start.outdated.as_deref()
    }

    /// Whether tasks are handed out.
    pub(crate) const fn gives_out(&self) -> bool {
        self.paused.is_none() && self.start.outdated.is_none()
    }
}
