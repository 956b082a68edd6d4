//! Log lines about receivers that are given up: at most a few per minute.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::{Mono, PushAddress};

/// How long an address is named only once.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum addresses named in one window. Complaints about other addresses are only counted.
pub(super) const NAMED_MAX: usize = 10;

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// Frames were dropped.
    Dropped {
        /// Address of the frames.
        address: Arc<PushAddress>,
        /// Number of frames.
        frames: usize,
        /// The reason, as the end of a sentence about the address.
        why: Cow<'static, str>,
    },
    /// Number of complaints of the last window that were not logged.
    Unnamed(u64),
    /// No socket could be opened. The frames stay queued.
    NoSocket {
        /// Address of the receiver.
        address: Arc<PushAddress>,
        /// The error of the system.
        error: String,
    },
}

/// The complaints of this window.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    since: Mono,
    named: BTreeSet<Arc<PushAddress>>,
    unnamed: u64,
}

impl Complaints {
    /// The complaint about dropped frames for an address, if it is to be logged. `why` is called only then.
    pub(super) fn dropped(
        &mut self,
        now: Mono,
        address: Arc<PushAddress>,
        frames: usize,
        why: impl FnOnce(&PushAddress) -> Cow<'static, str>,
    ) -> [Option<Complaint>; 2] {
        let unnamed = self.turn(now);
        let unnamed = (unnamed > 0).then_some(Complaint::Unnamed(unnamed));
        let is_new = self.is_new(&address);
        [unnamed, is_new.then(|| Complaint::Dropped { why: why(&address), address, frames })]
    }

    /// The complaint about a socket that could not be opened, if it is to be logged.
    pub(super) fn no_socket(&mut self, now: Mono, address: &Arc<PushAddress>, error: &str) -> Option<Complaint> {
        self.unnamed += self.turn(now);
        let is_new = self.is_new(address);
        is_new.then(|| Complaint::NoSocket { address: Arc::clone(address), error: error.to_owned() })
    }

    /// Begins a new window if it is time, and returns the number of unnamed complaints of the old one.
    fn turn(&mut self, now: Mono) -> u64 {
        if now.since(self.since) < WINDOW {
            return 0;
        }
        self.since = now;
        self.named.clear();
        std::mem::take(&mut self.unnamed)
    }

    fn is_new(&mut self, address: &Arc<PushAddress>) -> bool {
        if self.named.contains(address) {
            return false;
        }
        if self.named.len() >= NAMED_MAX {
            self.unnamed += 1;
            return false;
        }
        self.named.insert(Arc::clone(address))
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped { address, frames, why } => write!(f, "push: {frames} messages for {address} dropped: {why}"),
            Self::Unnamed(count) => write!(f, "push: messages were dropped {count} more times, for other addresses"),
            Self::NoSocket { address, error } => write!(f, "push: cannot open a socket for {address}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::AddressPolicy;

    fn address(port: usize) -> Arc<PushAddress> {
        let address = PushAddress::parse(&format!("tcp://127.0.0.1:{port}"), &AddressPolicy::everything());
        Arc::new(address.unwrap())
    }

    #[test]
    fn an_address_is_named_once_and_few_are_named() {
        let mut complaints = Complaints::default();
        assert!((1..=NAMED_MAX).all(|port| complaints.is_new(&address(port))));
        assert!(!complaints.is_new(&address(1)));
        assert!(!complaints.is_new(&address(99)));
        assert_eq!(complaints.turn(Mono::default()), 0, "the window goes on");
        assert_eq!(complaints.turn(Mono::default() + WINDOW), 1);
        assert!(complaints.is_new(&address(99)));
    }

    #[test]
    fn a_reason_is_written_for_the_log_only() {
        let mut complaints = Complaints::default();
        let mut dropped = |port, seconds| {
            let now = Mono::default() + Duration::from_secs(seconds);
            let lines = complaints.dropped(now, address(port), 3, |_| "it cannot be reached".into());
            lines.into_iter().flatten().map(|line| line.to_string()).collect::<Vec<_>>()
        };
        let line = |port| format!("push: 3 messages for tcp://127.0.0.1:{port} dropped: it cannot be reached");
        for port in 1..=NAMED_MAX {
            assert_eq!(dropped(port, 0), [line(port)]);
            assert!(dropped(port, 30).is_empty());
        }
        assert!(dropped(98, 30).is_empty() && dropped(99, 59).is_empty());
        let others = "push: messages were dropped 2 more times, for other addresses".to_owned();
        assert_eq!(dropped(1, 60), [others, line(1)]);
        let no_socket = complaints.no_socket(Mono::default(), &address(2), "too many open files").unwrap();
        assert_eq!(no_socket.to_string(), "push: cannot open a socket for tcp://127.0.0.1:2: too many open files");
    }
}
