//! The single wait of a loop: for all peers, through one epoll descriptor, and for the loop's own descriptors.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use proc::readable;

/// Maximum events taken at once. Further ones are reported in the next turn.
const EVENTS_MAX: usize = 256;

/// An event on a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) key: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether the peer sends nothing more, or an error is pending.
    pub(super) ended: bool,
}

#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches a descriptor edge-triggered. After an event, read until nothing is left.
    pub(super) fn add(&self, fd: impl AsFd, key: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(key), flags(writable))?)
    }

    /// Enables or disables events for room to write.
    pub(super) fn modify(&self, fd: impl AsFd, key: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(key), flags(writable))?)
    }

    /// Waits. Returns which of `fds` are readable, and the events of the watched descriptors.
    pub(super) fn wait(&self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> (Vec<bool>, Vec<Ready>) {
        let all = std::iter::once(self.epoll.as_fd()).chain(fds.iter().copied());
        let mut readable = readable::wait(all, timeout).into_iter();
        let has_news = readable.next().unwrap_or(false);
        let foreign = readable.collect();
        (foreign, if has_news { self.take() } else { Vec::new() })
    }

    fn take(&self) -> Vec<Ready> {
        // Not on the heap: an allocation of this size makes glibc consolidate all small free blocks, several times for
        // each task.
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.epoll, &mut room, Some(&Timespec::default())) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Vec::new(),
            Err(errno) => unreachable!("our own epoll descriptor is refused: {errno}"),
        };
        let ready = |event: &Event| {
            let flags = event.flags;
            Ready {
                key: event.data.u64(),
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                ended: flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR),
            }
        };
        events.iter().map(ready).collect()
    }
}

fn flags(writable: bool) -> EventFlags {
    let always = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writable { always | EventFlags::OUT } else { always }
}
