//! The store of a controller, wherever the queue is kept.

use std::path::Path;

use super::server::{Keeper, Leader, ServerStore};
use super::{CommitError, FileStore, StoreError};
use crate::archives::Mirror;
use api::wire::requests::status::QueueView;
use api::wire::rules::Rules;
use base::{Epoch, Wall};
use engine::{Record, Stored};

/// The open store of a running controller.
#[derive(Debug)]
pub enum Store {
    /// A file in STATE_DIR.
    File(Box<FileStore>),
    /// A server, whose queue this controller leads.
    Server(Box<ServerStore>),
}

/// The state of a queue that several machines share.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The server.
    pub place: String,
    /// The controller that leads.
    pub leader: Option<Leader>,
    /// The homes that wait to lead.
    pub standbys: Vec<String>,
    /// The failures that an acknowledged task survives.
    pub survives: String,
}

impl ServerStore {
    /// The leader of the queue, as a sentence without an end.
    #[must_use]
    pub fn leads(&self, leader: &Leader) -> String {
        let (home, place) = (leader.home(), self.place());
        if leader.is_moved() {
            return format!(
                "the queue in {place} was copied to {}, and goes on there: set STORE to that",
                leader.address
            );
        }
        format!("{home} at {} leads the queue in {place}, in epoch {}", leader.address, leader.epoch.number)
    }
}

impl Store {
    /// Stores a turn: all of it or nothing. Without records, it finds out whether the store can be written.
    ///
    /// # Errors
    /// [`CommitError`]
    pub fn commit<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) -> Result<(), CommitError> {
        match self {
            Self::File(store) => store.commit(records),
            Self::Server(store) => store.commit(records),
        }
    }

    /// Does the work that belongs between two commits.
    pub fn tidy(&mut self) {
        match self {
            Self::File(store) => store.keep_log_short(),
            Self::Server(_) => {}
        }
    }

    /// The state of the queue that other machines share, if it has changed.
    pub fn take_change(&mut self) -> Option<QueueView> {
        match self {
            Self::File(_) => None,
            Self::Server(store) => store.take_change(),
        }
    }

    /// All stored data, the tasks in the order of their ids.
    ///
    /// # Errors
    /// When a row differs from what was written, or cannot be read.
    pub fn load(&mut self, rules: &Rules) -> Result<Stored, StoreError> {
        match self {
            Self::File(store) => store.load(rules),
            Self::Server(store) => store.load(rules),
        }
    }

    /// The epoch of this start, and how the store shows that it lacks accepted changes, if it does.
    ///
    /// # Errors
    /// When the store cannot be looked at.
    pub fn begin_epoch(
        &mut self,
        state_dir: &Path,
        before: Option<Epoch>,
        now: Wall,
        random: u64,
    ) -> Result<(Option<Epoch>, Option<String>), StoreError> {
        match self {
            Self::File(store) => store.begin_epoch(state_dir, before, now, random),
            Self::Server(store) => Ok(store.take_epoch()),
        }
    }

    /// The archives and files as other machines see them, if other machines may lead the queue.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn mirror(&self, state_dir: &Path) -> Result<Option<Box<dyn Mirror>>, StoreError> {
        match self {
            Self::File(_) => Ok(None),
            Self::Server(store) => store.files(state_dir).map(Some),
        }
    }

    /// Keeps the lease, if there is one, while this controller loads its queue.
    ///
    /// # Errors
    /// When threads have run out.
    pub fn keep_lease(&self) -> std::io::Result<Option<Keeper>> {
        match self {
            Self::File(_) => Ok(None),
            Self::Server(store) => store.keep_lease().map(Some),
        }
    }

    /// Tells other machines where this controller serves.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn tell_address(&mut self, address: &str) -> Result<(), StoreError> {
        match self {
            Self::File(_) => Ok(()),
            Self::Server(store) => store.tell_address(address),
        }
    }

    /// Lets another controller lead from now on. This is not needed before the next start of this one on the same home.
    pub fn resign(&mut self) {
        match self {
            Self::File(_) => {}
            Self::Server(store) => store.resign(),
        }
    }
}
