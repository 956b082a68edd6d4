//! The thread that writes the log of the store back into its file.

use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

#[derive(Debug)]
pub(super) struct Checkpointer {
    /// `None` once the thread has been told to end.
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// # Errors
    /// When there are no threads left.
    pub(super) fn start(connection: Connection, path: &Path) -> std::io::Result<Self> {
        let (wake, wakes) = sync_channel(1);
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
            for () in wakes {
                // PASSIVE takes what it can without making the writer wait.
                let done = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
                if let Err(error) = done {
                    // Nothing is lost by it: the log holds it all, and grows until a checkpoint succeeds.
                    log::warn!("the log of {} cannot be written back: {error}", path.display());
                }
            }
        })?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Asks for a checkpoint; one that is asked for already is enough.
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
