//! Log lines about addresses that were given up: a few a minute, whatever is pushed to.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::types::Mono;
use crate::types::PushAddress;

/// How long an address is named once only.
const WINDOW: Duration = Duration::from_secs(60);

/// Addresses named in one window; the others are counted.
const NAMED_MAX: usize = 10;

/// What was said in this window.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    since: Mono,
    named: BTreeSet<Arc<PushAddress>>,
    unnamed: u64,
}

impl Complaints {
    /// Says that the frames for an address were dropped.
    pub(super) fn dropped(&mut self, now: Mono, address: &Arc<PushAddress>, why: &str, frames: usize) {
        let unnamed = self.turn(now);
        if unnamed > 0 {
            log::info!("push: messages were dropped {unnamed} more times, for other addresses");
        }
        if self.is_new(address) {
            log::info!("push: {frames} messages for {address} dropped: {why}");
        }
    }

    /// Says that no socket could be opened; the frames wait on.
    pub(super) fn no_socket(&mut self, now: Mono, address: &Arc<PushAddress>, error: &io::Error) {
        self.unnamed += self.turn(now);
        if self.is_new(address) {
            log::warn!("push: cannot open a socket for {address}: {error}");
        }
    }

    /// Begins a new window if it is time; gives back what the old one did not name.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::AddressPolicy;

    #[test]
    fn an_address_is_named_once_and_few_are_named() {
        let policy = AddressPolicy { allow: vec!["0.0.0.0/0".parse().unwrap()], own: vec![] };
        let address = |port: usize| Arc::new(PushAddress::parse(&format!("tcp://127.0.0.1:{port}"), &policy).unwrap());
        let mut complaints = Complaints::default();
        assert!((1..=NAMED_MAX).all(|port| complaints.is_new(&address(port))));
        assert!(!complaints.is_new(&address(1)));
        assert!(!complaints.is_new(&address(99)));
        assert_eq!(complaints.turn(Mono::default()), 0, "the window goes on");
        assert_eq!(complaints.turn(Mono::default() + WINDOW), 1);
        assert!(complaints.is_new(&address(99)));
    }
}
