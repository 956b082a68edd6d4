//! The one wait of a loop: all peers by one epoll descriptor, and the descriptors of the loop itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;

/// Events taken at once; what is beyond them is ready again in the next turn.
const EVENTS_MAX: usize = 256;

/// What a descriptor has to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) key: u64,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The other side sends nothing more, or there is an error to be read.
    pub(super) ended: bool,
}

#[derive(Debug)]
pub(super) struct Poller {
    epoll: Epoll,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Watches a descriptor, told once for each news: whoever is told reads until there is nothing left.
    pub(super) fn add(&self, fd: impl AsFd, key: u64, writable: bool) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(flags(writable), key))?)
    }

    /// Asks to be told of room to write, or no longer.
    pub(super) fn modify(&self, fd: impl AsFd, key: u64, writable: bool) -> io::Result<()> {
        Ok(self.epoll.modify(fd, &mut EpollEvent::new(flags(writable), key))?)
    }

    /// Waits; says which of the foreign descriptors are readable, and what has happened to the watched ones.
    pub(super) fn wait(&self, fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> (Vec<bool>, Vec<Ready>) {
        let all = std::iter::once(self.epoll.0.as_fd()).chain(fds.iter().copied());
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // EINTR: a signal arrives through its descriptor, so the next turn sees it.
        let _ = ppoll(&mut polled, timeout.map(TimeSpec::from_duration), None);
        let mut readable = polled.iter().map(|fd| fd.any().unwrap_or(false));
        let has_news = readable.next().unwrap_or(false);
        let foreign = readable.collect();
        (foreign, if has_news { self.take() } else { Vec::new() })
    }

    fn take(&self) -> Vec<Ready> {
        let mut events = [EpollEvent::empty(); EVENTS_MAX];
        let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(errno) => unreachable!("our own epoll descriptor is refused: {errno}"),
        };
        let ready = |event: &EpollEvent| {
            let flags = event.events();
            Ready {
                key: event.data(),
                readable: flags.contains(EpollFlags::EPOLLIN),
                writable: flags.contains(EpollFlags::EPOLLOUT),
                ended: flags.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR),
            }
        };
        events[..count].iter().map(ready).collect()
    }
}

fn flags(writable: bool) -> EpollFlags {
    let always = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
    if writable { always | EpollFlags::EPOLLOUT } else { always }
}
