//! Requests of the master for the output of the present run. A request for a part that does not exist yet waits until inotify reports
//! that the file has grown; without a request no file is watched.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::wire::TailOrder;

/// Number of waiting requests. A client whose request was dropped repeats it.
const ORDERS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Tailing {
    /// The requests to be answered.
    ready: VecDeque<TailOrder>,
    /// The requests that wait for more output.
    waiting: VecDeque<TailOrder>,
    inotify: Option<Inotify>,
}

impl Tailing {
    /// Adds a request, which replaces the last one of its client.
    pub(super) fn add(&mut self, order: TailOrder) {
        for orders in [&mut self.ready, &mut self.waiting] {
            orders.retain(|other| other.tail != order.tail);
            if orders.len() >= ORDERS_MAX {
                orders.pop_front();
            }
        }
        self.ready.push_back(order);
    }

    /// The next request to be answered.
    pub(super) fn next(&mut self) -> Option<TailOrder> {
        self.ready.pop_front()
    }

    /// A request waits until this file grows. The caller reads the file again afterwards, because it may have grown already.
    ///
    /// # Errors
    /// When the user has no watches left.
    pub(super) fn wait(&mut self, order: TailOrder, path: &Path) -> io::Result<()> {
        if self.inotify.is_none() {
            self.inotify = Some(Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?);
        }
        if let Some(inotify) = &self.inotify {
            inotify.add_watch(path, AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ONESHOT)?;
        }
        self.park(order);
        Ok(())
    }

    /// A request waits until all of them are tried again.
    pub(super) fn park(&mut self, order: TailOrder) {
        self.waiting.push_back(order);
    }

    /// A file has grown.
    pub(super) fn handle_growth(&mut self) {
        while let Some(Ok(_)) = self.inotify.as_ref().map(Inotify::read_events) {}
        self.retry_all();
    }

    /// All waiting requests are to be tried again.
    pub(super) fn retry_all(&mut self) {
        self.ready.append(&mut self.waiting);
    }

    /// The run has ended: from here on the master reads the output from the folders.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Readable when [`Self::handle_growth`] is due.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|inotify| inotify.as_fd())
    }
}
