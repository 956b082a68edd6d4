//! The thread of the store, and its other end in the loop of the controller.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::intake::Seen;
use super::watch::Watch;
use super::{ArchiveStore, Mirror};
use api::archives_dir::{dir_in, folder_identity};
use api::tools::Limits;
use base::{Mono, ToolDigest, ToolName};
use engine::{StoredTools, ToolOrder, ToolOutcome};
use proc::background::Background;

/// How often the room of the disk is looked at.
const ROOM_LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of log entries of a tool in one answer.
const LOG_ROWS_MAX: usize = 1000;

/// The folder of the archives cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {} for the archives of tools: {source}", .dir.display())]
pub struct ArchivesError {
    dir: PathBuf,
    source: io::Error,
}

/// An order to the thread.
enum Order {
    Tool(ToolOrder),
    /// A name stands for this version of the tools folder, or for none of it any more: recorded in the log.
    Note(ToolName, Option<(ToolDigest, u64)>),
    /// Look at the room of the disk, and try again to send what the mirror has not got.
    Look,
    /// Send a step of the files that only the folder has.
    Send,
}

/// A message from the thread.
enum Done {
    /// An order was carried out; for an archive of the tools folder, with its file.
    Outcome(ToolOutcome, Option<Seen>),
    /// A part of this order was carried out: the rest comes after the others that wait.
    Again(ToolOrder),
    /// The disk was looked at: the sentence about a disk that has no more room than its reserve.
    Room(Option<String>),
    /// Files are left that only the folder has: a step is sent after the orders that wait.
    SendOn,
}

/// The store of a running controller.
pub struct Archives {
    thread: Background<Order, Done>,
    watch: Watch,
    tools_dir: PathBuf,
    /// Whether the identity of the tools folder was told.
    has_folder: bool,
    little_room: Option<String>,
    /// When the disk is looked at again.
    look_at: Mono,
}

impl Archives {
    /// Opens the store of a state folder, and starts its thread.
    ///
    /// # Errors
    /// When the folder cannot be used, or threads have run out.
    pub fn start(
        state_dir: &Path,
        tools_dir: &Path,
        limits: Limits,
        disk_reserve: u64,
        mirror: Option<Box<dyn Mirror>>,
    ) -> Result<(Self, StoredTools), ArchivesError> {
        Self::open(state_dir, tools_dir, limits, disk_reserve, mirror)
            .map_err(|source| ArchivesError { dir: dir_in(state_dir), source })
    }

    fn open(
        state_dir: &Path,
        tools_dir: &Path,
        limits: Limits,
        disk_reserve: u64,
        mirror: Option<Box<dyn Mirror>>,
    ) -> io::Result<(Self, StoredTools)> {
        let mut store = ArchiveStore::open(state_dir, tools_dir.to_owned(), limits, disk_reserve, mirror)?;
        let stored = store.stored()?;
        // Whether a step was asked for.
        let mut is_sending = false;
        let thread = Background::start("archives", move |order, done| match order {
            Order::Note(tool, held) => store.note_folder(&tool, held),
            Order::Look => {
                done(Done::Room(store.little_room()));
                let unsent = std::mem::take(&mut store.unsent_tools);
                unsent.into_iter().filter_map(|tool| carry_out(&mut store, ToolOrder::Take(tool))).for_each(done);
                if !is_sending && !store.unsent.is_empty() {
                    is_sending = true;
                    done(Done::SendOn);
                }
            }
            Order::Send => {
                is_sending = store.send_on();
                if is_sending {
                    done(Done::SendOn);
                }
            }
            Order::Tool(order) => {
                if let Some(outcome) = carry_out(&mut store, order) {
                    done(outcome);
                }
            }
        })?;
        let (watch, has_folder) = (Watch::new(tools_dir.to_owned()), stored.folder.is_some());
        let (tools_dir, look_at) = (tools_dir.to_owned(), Mono::from_nanos(0));
        Ok((Self { thread, watch, tools_dir, has_folder, little_room: None, look_at }, stored))
    }

    /// Whether the archive of a tool in the tools folder may have changed since it was read. `turn` identifies the turn.
    pub fn has_changed(&mut self, turn: Mono, tool: &ToolName) -> bool {
        self.watch.has_changed(turn, tool)
    }

    /// The tools whose archives in the tools folder may have changed, come or gone. `turn` identifies the turn.
    pub fn changed(&mut self, turn: Mono) -> Vec<ToolName> {
        self.watch.changed(turn)
    }

    /// The identity of the tools folder, once after it has appeared.
    pub fn take_folder(&mut self) -> Option<Arc<str>> {
        if self.has_folder {
            return None;
        }
        let folder = folder_identity(&self.tools_dir)?;
        self.has_folder = true;
        Some(folder)
    }

    /// Looks at the room of the disk, if it is time.
    pub fn look_at_room(&mut self, turn: Mono) {
        if turn >= self.look_at {
            self.look_at = turn + ROOM_LOOK_INTERVAL;
            self.thread.give(Order::Look);
        }
    }

    /// The sentence of the last look, if the disk has no more room than its reserve.
    pub fn little_room(&self) -> Option<&str> {
        self.little_room.as_deref()
    }

    /// Gives an order to the thread.
    pub fn order(&self, order: ToolOrder) {
        self.thread.give(Order::Tool(order));
    }

    /// The next outcome. An archive that has changed since it was read is read again first.
    pub fn poll(&mut self, turn: Mono) -> Option<ToolOutcome> {
        loop {
            let (outcome, seen) = match self.thread.poll()? {
                Done::Outcome(outcome, seen) => (outcome, seen),
                Done::Again(order) => {
                    self.thread.give(Order::Tool(order));
                    continue;
                }
                Done::SendOn => {
                    self.thread.give(Order::Send);
                    continue;
                }
                Done::Room(little) => {
                    self.little_room = little;
                    continue;
                }
            };
            if let ToolOutcome::Taken(tool, held) = &outcome {
                if !self.watch.was_read(turn, tool, seen) {
                    self.order(ToolOrder::Take(tool.clone()));
                    continue;
                }
                // This is noted here and not when the archive is read, so that one that changes at that moment never becomes the
                // version of its name.
                let held = held.as_ref().map(|held| (held.digest, held.size));
                self.thread.give(Order::Note(tool.clone(), held));
            }
            return Some(outcome);
        }
    }
}

/// Readable when there is an outcome.
impl AsFd for Archives {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.as_fd()
    }
}

fn carry_out(store: &mut ArchiveStore, order: ToolOrder) -> Option<Done> {
    let outcome = match order {
        ToolOrder::Take(tool) => {
            let Some(taken) = store.take(&tool) else {
                store.unsent_tools.insert(tool);
                return None;
            };
            return Some(Done::Outcome(ToolOutcome::Taken(tool, taken.held), taken.seen));
        }
        ToolOrder::Write(ticket, put) => ToolOutcome::Written(ticket, store.write(&put)),
        ToolOrder::WriteFile(ticket, put, room) => ToolOutcome::FileWritten(ticket, store.write_file(&put, room)),
        ToolOrder::Read { ticket, digest, offset, limit, is_doubted } => {
            match store.read((digest, offset), limit, is_doubted).transpose() {
                Some(part) => ToolOutcome::Read(ticket, part),
                // The check has begun, so the doubt is settled by its end.
                None => return Some(Done::Again(ToolOrder::Read { ticket, digest, offset, limit, is_doubted: false })),
            }
        }
        ToolOrder::Remove(ticket, tool, by) => {
            let removed = store.remove(&tool, &by);
            ToolOutcome::Removed(ticket, tool, removed)
        }
        ToolOrder::Log(ticket, tool) => ToolOutcome::Logged(ticket, Ok(store.log.rows(&tool, LOG_ROWS_MAX))),
        ToolOrder::List(ticket, tool, digest) => {
            let files = store.list(&tool, &digest);
            ToolOutcome::Listed(ticket, tool, digest, files)
        }
        ToolOrder::Verify(ticket, page, digests) => ToolOutcome::Verified(ticket, page, store.lost_of(digests)),
        ToolOrder::Abandon(connection) => {
            store.remove_of(connection);
            return None;
        }
        ToolOrder::Discard(digest) => {
            store.discard(&digest);
            return None;
        }
    };
    Some(Done::Outcome(outcome, None))
}
