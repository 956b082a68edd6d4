//! Syncs moves to the disk on a thread of its own, so that no hand-out waits for it.
//!
//! No promise to a worker depends on a move: a power failure that undoes one lets a prompt run again, as the death of a
//! worker does. So many moves share one sync, which follows them.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two syncs: moves into a folder that is synced all the time are slow.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct Orders {
    sync: bool,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
}

impl Shared {
    /// A panic of the thread leaves two flags, which are valid in any state.
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread. Dropping it syncs the rest.
#[derive(Debug)]
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(super) fn start(folders: Vec<PathBuf>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("prompt-sync".into()).spawn(move || run(&theirs, &folders))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A file was moved.
    pub(super) fn note(&self) {
        if !std::mem::replace(&mut self.shared.lock().sync, true) {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A failed sync is in the log.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, folders: &[PathBuf]) {
    loop {
        let waiting = shared.changed.wait_while(shared.lock(), |orders| !orders.sync && !orders.stop);
        let mut orders = waiting.unwrap_or_else(PoisonError::into_inner);
        let (sync, stop) = (std::mem::take(&mut orders.sync), orders.stop);
        drop(orders);
        if sync {
            for folder in folders {
                if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
                    log::warn!("cannot sync {}: {error}", folder.display());
                }
            }
        }
        if stop {
            return;
        }
        // Only a stop ends the pause early.
        let _ = shared.changed.wait_timeout_while(shared.lock(), PAUSE, |orders| !orders.stop);
    }
}
