//! Writing the log of the store back into its file.
//!
//! That takes tens of milliseconds, so a thread with a connection of its own does it. Commits meanwhile make the log
//! longer, so that the thread never reaches its end; the small rest is written back by the committing thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::promise::Promise;

#[derive(Debug)]
pub(super) struct Checkpointer {
    /// `None` once the thread has been asked to end.
    wake: Option<SyncSender<()>>,
    pub(super) has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Writes back the present contents of the log.
pub(super) fn run(connection: &Connection, promise: &Promise) {
    // PASSIVE writes as much as it can without delaying a writer or a reader.
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        // No data is lost: the log contains it all, and grows until a checkpoint succeeds.
        log::warn!("the log of {} cannot be written back: {error}", connection.path().unwrap_or("the store"));
    }
    promise.renew();
}

impl Checkpointer {
    /// # Errors
    /// When there are no threads left.
    pub(super) fn start(connection: Connection, promise: Promise) -> std::io::Result<Self> {
        let (wake, wakes) = sync_channel(1);
        let has_ended = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&has_ended);
        let thread = std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || {
            for () in wakes {
                run(&connection, &promise);
                ended.store(true, Ordering::Relaxed);
            }
        })?;
        Ok(Self { wake: Some(wake), has_ended, thread: Some(thread) })
    }

    /// Requests a checkpoint; a second request before it begins has no effect.
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.try_send(());
        }
    }

    /// Whether a checkpoint has ended since the last call. It has left the commits made meanwhile.
    pub(super) fn take_end(&self) -> bool {
        self.has_ended.swap(false, Ordering::Relaxed)
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
