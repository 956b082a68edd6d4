//! The background thread that empties the trash, so that no loop waits for a task that left a million files.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::fs::Dir;

use super::{Workspace, dir_pool};
use proc::files::removal::{Budget, Progress, is_mount_at_or_below, remove_tree_and_unmount};

/// The maximum number of queued remainders. One more is not lost: it makes the thread go through the whole trash.
const QUEUE_MAX: usize = 64;

/// The interval between checks whether a mount was removed that the thread could not unmount.
const UNMOUNT_INTERVAL: Duration = Duration::from_secs(10);

/// A folder in the trash that is not empty yet.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "hand it to a Remover"]
pub struct TrashRemainder(CString);

impl TrashRemainder {
    pub(super) const fn new(name: CString) -> Self {
        Self(name)
    }

    pub(super) fn name(&self) -> &CStr {
        &self.0
    }
}

/// The thread that empties the trash. Start it before the limit of processes applies. Dropping it stops it soon, also in
/// the middle of a folder; the next start continues there.
#[derive(Debug)]
pub struct Remover {
    queue: Option<SyncSender<TrashRemainder>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Whether the trash may contain entries that are not in the queue.
    look_through: AtomicBool,
}

impl Remover {
    /// Starts the thread. It begins with the trash that earlier runs have left.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(workspace: &Workspace) -> io::Result<Self> {
        let (mut remover, worker, waiting) = Self::without_thread(workspace)?;
        let thread = std::thread::Builder::new().name("remover".to_owned()).spawn(move || worker.run(&waiting))?;
        remover.thread = Some(thread);
        Ok(remover)
    }

    fn without_thread(workspace: &Workspace) -> io::Result<(Self, Worker, Receiver<TrashRemainder>)> {
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), look_through: AtomicBool::new(true) });
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let (work, trash) = (workspace.folder.try_clone()?, workspace.trash.try_clone()?);
        let worker =
            Worker { work, trash, shared: Arc::clone(&shared), stuck: BTreeSet::new(), mounted: BTreeSet::new() };
        Ok((Self { queue: Some(queue), shared, thread: None }, worker, waiting))
    }

    /// Queues the remainder of a removal. Never blocks.
    pub fn take(&self, rest: TrashRemainder) {
        let Some(queue) = &self.queue else { return };
        if let Err(TrySendError::Full(rest)) = queue.try_send(rest) {
            self.shared.look_through.store(true, Ordering::SeqCst);
            // Queued again: if the thread emptied the queue before it could see the flag, this wakes it.
            let _ = queue.try_send(rest);
        }
    }

    /// Waits until all queued remainders are removed, then ends the thread.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that empties the trash has panicked");
        }
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.end();
    }
}

struct Worker {
    work: OwnedFd,
    trash: OwnedFd,
    shared: Arc<Shared>,
    /// The entries that cannot be removed, so that each is tried and logged once in the life of the process.
    stuck: BTreeSet<CString>,
    /// The entries with a mount that this process cannot unmount. They are removed after it was unmounted.
    mounted: BTreeSet<CString>,
}

impl Worker {
    fn run(mut self, waiting: &Receiver<TrashRemainder>) {
        // Signals belong to the agent's loop, which reads them from a descriptor.
        if let Err(error) = SigSet::all().thread_block() {
            log::error!("cannot block signals in the thread that empties the trash: {error}");
        }
        loop {
            if self.shared.look_through.swap(false, Ordering::SeqCst) {
                self.look_through();
            }
            match self.next(waiting) {
                Ok(rest) => self.remove(&rest.0),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look_at_mounted();
        }
    }

    fn next(&self, waiting: &Receiver<TrashRemainder>) -> Result<TrashRemainder, RecvTimeoutError> {
        if self.mounted.is_empty() {
            return waiting.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        waiting.recv_timeout(UNMOUNT_INTERVAL)
    }

    /// Removes the entries that are no longer mounted.
    fn look_at_mounted(&mut self) {
        for name in std::mem::take(&mut self.mounted) {
            if is_mount_at_or_below(self.trash.as_fd(), &name) {
                self.mounted.insert(name);
            } else {
                self.remove(&name);
            }
        }
    }

    /// Removes everything in the trash, including entries that other agents of this host are removing at the same time.
    fn look_through(&mut self) {
        if let Err(error) = dir_pool::discard_abandoned(self.work.as_fd(), self.trash.as_fd()) {
            log::error!("cannot discard the spare folders of dead agents: {error}");
        }
        let listed = Dir::read_from(self.trash.as_fd()).and_then(|entries| {
            let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
            names.filter(|name| !matches!(name.as_deref(), Ok(name) if name == c"." || name == c"..")).collect()
        });
        match listed {
            Ok::<Vec<CString>, _>(names) => names.iter().for_each(|name| self.remove(name)),
            Err(error) => log::error!("cannot read the trash: {error}"),
        }
    }

    fn remove(&mut self, name: &CStr) {
        if self.stuck.contains(name) || self.mounted.contains(name) {
            return;
        }
        match remove_tree_and_unmount(self.trash.as_fd(), name, &mut Budget::until(&self.shared.stop)) {
            Progress::Gone | Progress::OutOfBudget => {}
            Progress::Stuck(_) if is_mount_at_or_below(self.trash.as_fd(), name) => {
                self.mounted.insert(name.to_owned());
            }
            Progress::Stuck(error) => {
                log::warn!("a part of {} stays in the trash: {error}", name.to_string_lossy());
                self.stuck.insert(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    use super::super::Removed;
    use super::*;
    use base::{TaskId, Wall};
    use mountkit::{Precious, bind, in_own_mount_namespace};

    #[test]
    fn what_does_not_fit_into_the_queue_is_found_in_the_trash() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let (mut remover, worker, waiting) = Remover::without_thread(&workspace).unwrap();
        worker.shared.look_through.store(false, Ordering::SeqCst);
        for n in 0..=QUEUE_MAX {
            let (mut task, _) = workspace.create(TaskId::new(Wall::from_micros(n as u64), [0; 5])).unwrap();
            task.write_file("task.info", b"").unwrap();
            match workspace.remove(task, 0) {
                Removed::Rest(rest) => remover.take(rest),
                other => panic!("{other:?}"),
            }
        }
        remover.queue = None;
        worker.run(&waiting);
        assert_eq!(std::fs::read_dir(folder.path().join(".trash")).unwrap().count(), 0);
    }

    /// The case of an agent without the right to unmount.
    #[test]
    fn what_we_cannot_unmount_stays_until_somebody_does() {
        in_own_mount_namespace(|| {
            let folder = tempfile::tempdir().unwrap();
            let workspace = Workspace::open(folder.path()).unwrap();
            let precious = Precious::default();
            let place = folder.path().join(".trash/TASK/mnt");
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(folder.path().join(".trash/TASK/file"), "").unwrap();
            bind(precious.path(), &place);
            // This thread keeps the permissions of its creator, so it can unmount later.
            let (unmount, told) = sync_channel::<()>(0);
            let (done, unmounted) = sync_channel(0);
            let somebody = std::thread::spawn(move || {
                told.recv().unwrap();
                let name = std::fs::read_dir(folder.path().join(".trash/TASK")).unwrap().next().unwrap().unwrap();
                nix::mount::umount(&name.path()).unwrap();
                done.send(()).unwrap();
                folder
            });
            let mut present = capabilities(None).unwrap();
            present.effective.remove(CapabilitySet::SYS_ADMIN);
            set_capabilities(None, present).unwrap();

            let (_remover, mut worker, _waiting) = Remover::without_thread(&workspace).unwrap();
            worker.look_through();
            worker.look_at_mounted();
            assert_eq!(worker.mounted.len(), 1);
            precious.is_untouched();
            unmount.send(()).unwrap();
            unmounted.recv().unwrap();
            worker.look_at_mounted();
            assert!(worker.mounted.is_empty() && worker.stuck.is_empty());
            let folder = somebody.join().unwrap();
            assert_eq!(std::fs::read_dir(folder.path().join(".trash")).unwrap().count(), 0);
            precious.is_untouched();
        });
    }
}
