//! Reports which sockets have events, at a cost that does not grow with the number of idle sockets.
//!
//! It is one epoll descriptor, which is itself readable while any of its sockets has an event, so the caller's loop
//! waits for it like for any other descriptor. Measured with 500 dead sockets, from a push to its receipt by a live one
//! (p50): `zmq::poll` over the sockets 359 us, poll(2) over their descriptors 128 us, epoll 65 us. Without the dead
//! ones, each takes 61 us.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use proc::readable;

/// The key of the resolver: [`Poller::wait`] reports it when the resolver has an answer.
const ANSWER: u64 = u64::MAX;

/// Maximum events taken at once. Further events are reported in the next turn.
const EVENTS_MAX: usize = 64;

/// All descriptors of the pushes.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
}

/// The events of one wait.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Whether the resolver has an answer.
    pub(super) answered: bool,
    /// The keys of sockets with events, each with whether there may be more than readiness for writing.
    pub(super) news: Vec<(u64, bool)>,
}

impl Poller {
    /// Watches the descriptor of the resolver, which is readable while answers are waiting.
    pub(super) fn new(answers: impl AsFd) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, answers, EventData::new_u64(ANSWER), EventFlags::IN)?;
        Ok(Self { epoll })
    }

    /// Watches the descriptor of a wire.
    pub(super) fn add(&self, (descriptor, news): (BorrowedFd<'_>, EventFlags), key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(key), news)?)
    }

    /// Stops watching a descriptor. Call it before the descriptor is closed.
    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until a descriptor is ready or `timeout` has passed.
    pub(super) fn wait(&self, timeout: Duration) -> Ready {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let events: &[Event] = match epoll::wait(&self.epoll, &mut room, readable::timespec(timeout).as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => &[],
            Err(errno) => unreachable!("our own epoll descriptor is refused: {errno}"),
        };
        let mut ready = Ready::default();
        for event in events {
            // The struct is packed, so its fields are copied instead of referenced.
            let (key, flags) = (event.data.u64(), event.flags);
            if key == ANSWER {
                ready.answered = true;
            } else {
                ready.news.push((key, flags != EventFlags::OUT));
            }
        }
        ready
    }
}

/// Readable while a watched descriptor is ready.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
