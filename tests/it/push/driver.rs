//! A loop around a pusher, as the controller has one; the tests stand outside of it and may wait for what they please.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use base::PushAddress;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use proc::clock;
use zmtp::engine::KeyPair;
use zmtp::push_io::{PushConfig, PushCounts, Pusher, Received};

/// A pusher whose loop turns.
pub(crate) struct Driven {
    shared: Arc<Shared>,
    turning: Option<JoinHandle<()>>,
}

struct Shared {
    pusher: Mutex<Pusher>,
    /// Rung when there is something that the loop does not know of.
    bell: EventFd,
    is_over: AtomicBool,
}

impl Driven {
    pub(crate) fn start(config: PushConfig, keys: KeyPair) -> Self {
        let pusher = Mutex::new(Pusher::start(config, keys).unwrap());
        let shared = Arc::new(Shared { pusher, bell: EventFd::new().unwrap(), is_over: AtomicBool::new(false) });
        let turned = Arc::clone(&shared);
        Self { shared, turning: Some(std::thread::spawn(move || turned.turn_until_over())) }
    }

    pub(crate) fn push(&mut self, address: &Arc<PushAddress>, frame: Vec<u8>) {
        self.shared.pusher().push(clock::now().mono, address, frame);
    }

    pub(crate) fn flush(&mut self) {
        self.shared.pusher().flush(clock::now().mono);
        self.shared.bell.write(1).unwrap();
    }

    pub(crate) fn counts(&self) -> PushCounts {
        self.shared.pusher().counts()
    }

    /// The frames that receivers have sent back.
    pub(crate) fn acknowledgements(&self) -> Vec<Received> {
        let mut pusher = self.shared.pusher();
        std::iter::from_fn(|| pusher.poll_acknowledgement()).collect()
    }

    /// Ends the loop, then the pusher.
    pub(crate) fn stop(mut self) -> PushCounts {
        self.end();
        let shared = Arc::clone(&self.shared);
        drop(self);
        Arc::into_inner(shared).unwrap().pusher.into_inner().unwrap().stop()
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.bell.write(1).unwrap();
        if let Some(turning) = self.turning.take() {
            turning.join().unwrap();
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn pusher(&self) -> MutexGuard<'_, Pusher> {
        self.pusher.lock().unwrap()
    }

    fn turn_until_over(&self) {
        let news = self.pusher().as_fd().try_clone_to_owned().unwrap();
        loop {
            let now = clock::now().mono;
            let deadline = self.pusher().poll_timeout(now);
            let mut fds = [news.as_fd(), self.bell.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            ppoll(&mut fds, deadline.map(|at| TimeSpec::from_duration(at.since(now))), None).unwrap();
            let [readable, rung] = [&fds[0], &fds[1]].map(|fd| fd.any().unwrap());
            if rung {
                self.bell.read().unwrap();
            }
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            self.pusher().turn(clock::now().mono, readable);
        }
    }
}
