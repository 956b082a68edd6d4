//! Work that would block a loop, on a separate thread. A bell that the loop waits for announces results.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

/// Wakes a loop from another thread: readable from [`Self::ring`] until [`Self::take`].
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Wakes the loop.
    pub fn ring(&self) {
        // The write fails only when the counter is full, and then the descriptor is readable anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Whether it has rung since the last call. Check the results after this call, not before.
    ///
    /// The descriptor is the only state. A separate flag set after the ring would be late when the woken loop takes the
    /// core from the ringing thread: the loop would spin until that thread gets a core again.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Rings when the thread ends, even by a panic, because the loop must learn that no result will come.
struct LastRing(Arc<Bell>);

impl Drop for LastRing {
    fn drop(&mut self) {
        self.0.ring();
    }
}

/// A thread that does one job after another. When this is dropped, the thread completes its jobs and ends on its own;
/// [`Self::finish`] waits for that.
#[derive(Debug)]
pub struct Background<Job, Done> {
    /// `None` once the thread was asked to end.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl<Job: Send + 'static, Done: Send + 'static> Background<Job, Done> {
    /// Starts the thread. `work` reports the result of a job through its second argument, and may continue after that.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub fn start(name: &str, mut work: impl FnMut(Job, &dyn Fn(Done)) + Send + 'static) -> io::Result<Self> {
        Self::start_batches(name, 1, move |jobs, report| jobs.into_iter().for_each(|job| work(job, report)))
    }

    /// As [`Self::start`], for work that is cheaper for several jobs together: it gets all waiting jobs, at most
    /// `batch_max`.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub fn start_batches(
        name: &str,
        batch_max: usize,
        mut work: impl FnMut(Vec<Job>, &dyn Fn(Done)) + Send + 'static,
    ) -> io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let (jobs, incoming) = mpsc::channel::<Job>();
        let (outgoing, done) = mpsc::channel();
        let last = LastRing(Arc::clone(&bell));
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for first in &incoming {
                let batch = std::iter::once(first).chain(incoming.try_iter()).take(batch_max).collect();
                work(batch, &|done| {
                    // A loop that has stopped does not listen.
                    let _ = outgoing.send(done);
                    last.0.ring();
                });
            }
        })?;
        Ok(Self { jobs: Some(jobs), done, bell, thread: Some(thread) })
    }

    /// Queues a job behind the earlier ones.
    pub fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread ends early only by a panic, which `poll` reports.
            let _ = jobs.send(job);
        }
    }

    /// Waits until the thread has completed all of its jobs.
    pub fn finish(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("a thread of the service has panicked");
        }
    }

    /// The next result, if there is one. The descriptor wakes a loop once for all available results.
    ///
    /// # Panics
    /// When the thread has panicked: the state of its work is unknown then.
    pub fn poll(&self) -> Option<Done> {
        self.bell.take();
        match self.done.try_recv() {
            Ok(done) => Some(done),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => unreachable!("a thread of the service has panicked; the log says where"),
        }
    }
}

impl<Job, Done> AsFd for Background<Job, Done> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
