//! The ways to a controller: one address, or several addresses and names, `tcp://NAME:PORT,IP:PORT`, which are tried in turn.
//!
//! A name is looked up anew for each attempt, on a thread, because a name server may take longer than a loop can wait.
//! One pass over all ways is a round. The next round begins with the way that led to the last connection.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use super::address::{Address, BadAddress};
use base::{Host, split_tcp};
use proc::background::Bell;

/// One way to the controller.
#[derive(Clone, Debug)]
enum Way {
    Fixed(Address),
    Named(String, u16),
}

/// The next attempt of a route.
#[derive(Debug)]
pub(super) enum Next {
    /// A connection to this address.
    Address(Address),
    /// A name is being looked up.
    LooksUp,
    /// A name was not found.
    Unknown(io::Error),
}

/// A name that is being looked up.
#[derive(Debug)]
struct LookUp {
    answer: Receiver<io::Result<Vec<SocketAddr>>>,
    bell: Arc<Bell>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Route {
    text: String,
    ways: Vec<Way>,
    /// The index of the way being tried.
    present: usize,
    /// Number of ways left in this round.
    left: usize,
    /// The remaining addresses of the current name.
    found: VecDeque<SocketAddr>,
    look_up: Option<LookUp>,
}

impl Route {
    /// Parses an endpoint.
    pub(super) fn parse(text: &str) -> Result<Self, BadAddress> {
        let ways = match Address::parse(text) {
            Ok(address) => vec![Way::Fixed(address)],
            Err(bad) => ways(text).ok_or(bad)?,
        };
        let present = ways.len() - 1;
        Ok(Self { text: text.to_owned(), ways, present, left: 0, found: VecDeque::new(), look_up: None })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The next attempt. Call it when the previous one has ended or the descriptor is readable.
    pub(super) fn next(&mut self) -> Next {
        if let Some(look_up) = &self.look_up {
            look_up.bell.take();
            let answer = match look_up.answer.try_recv() {
                Err(TryRecvError::Empty) => return Next::LooksUp,
                Err(TryRecvError::Disconnected) => Err(io::Error::other("its look-up was given up")),
                Ok(answer) => answer,
            };
            self.look_up = None;
            match answer {
                Ok(found) => self.found.extend(found),
                Err(error) => return Next::Unknown(error),
            }
        }
        if let Some(address) = self.found.pop_front() {
            return Next::Address(Address::Tcp(address));
        }
        if self.left == 0 {
            self.left = self.ways.len();
        }
        self.left -= 1;
        self.present = (self.present + 1) % self.ways.len();
        match &self.ways[self.present] {
            Way::Fixed(address) => Next::Address(address.clone()),
            Way::Named(name, port) => match LookUp::start(name.clone(), *port) {
                Ok(look_up) => {
                    self.look_up = Some(look_up);
                    Next::LooksUp
                }
                Err(error) => Next::Unknown(error),
            },
        }
    }

    /// Whether there are several ways, or several addresses of the only one.
    pub(super) fn is_a_choice(&self) -> bool {
        self.ways.len() > 1 || self.has_more()
    }

    /// Whether something is left to try without a pause.
    pub(super) fn has_more(&self) -> bool {
        self.left > 0 || !self.found.is_empty()
    }

    /// The last attempt has succeeded, so the next round begins with its way.
    pub(super) fn has_led_there(&mut self) {
        self.present = (self.present + self.ways.len() - 1) % self.ways.len();
        self.left = 0;
        self.found.clear();
    }

    /// Readable when a name has been looked up.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.look_up.as_ref().map(|look_up| look_up.bell.as_fd())
    }
}

/// The ways of `tcp://HOST:PORT,HOST:PORT`.
fn ways(text: &str) -> Option<Vec<Way>> {
    let hosts = text.strip_prefix("tcp://")?.split(',');
    let way = |host: &str| {
        Some(match split_tcp(&format!("tcp://{host}")).ok()? {
            (Host::Ip(ip), port) => Way::Fixed(Address::Tcp(SocketAddr::new(ip, port))),
            (Host::Name(name), port) => Way::Named(name, port),
        })
    };
    hosts.map(way).collect()
}

impl LookUp {
    fn start(name: String, port: u16) -> io::Result<Self> {
        let (sender, answer) = mpsc::channel();
        let bell = Arc::new(Bell::new()?);
        let rings = Arc::clone(&bell);
        let ask = move || {
            // The route may be gone.
            let _ = sender.send((name.as_str(), port).to_socket_addrs().map(Iterator::collect));
            rings.ring();
        };
        std::thread::Builder::new().name("resolve".into()).spawn(ask)?;
        Ok(Self { answer, bell })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc::readable;

    fn next(route: &mut Route) -> String {
        loop {
            match route.next() {
                Next::Address(address) => return address.to_string(),
                Next::LooksUp => assert!(readable::is_readable(route.fd().expect("it looks up"), None)),
                Next::Unknown(_) => return "unknown".to_owned(),
            }
        }
    }

    #[test]
    fn ways_are_tried_in_turn_and_a_round_begins_with_the_last_good_one() {
        let mut route = Route::parse("tcp://127.0.0.1:1,there-is-no-such-host.invalid:2,[::1]:3").unwrap();
        let mut round = || {
            ["tcp://127.0.0.1:1", "unknown", "tcp://[::1]:3"].map(|expected| {
                assert_eq!(next(&mut route), expected);
                route.has_more()
            })
        };
        assert_eq!(round(), [true, true, false]);
        assert_eq!(round(), [true, true, false]);
        route.has_led_there();
        assert_eq!(next(&mut route), "tcp://[::1]:3");
        assert_eq!(next(&mut route), "tcp://127.0.0.1:1");
    }

    #[test]
    fn one_address_is_a_route_and_no_address_is_none() {
        for text in ["tcp://127.0.0.1:5", "ipc:///x"] {
            let mut route = Route::parse(text).unwrap();
            assert_eq!([next(&mut route), next(&mut route)], [text, text]);
            assert!(!route.has_more());
        }
        for text in ["", "tcp://", "tcp://a", "tcp://a:1,", "tcp://a:1,b", "tcp://a:0", "udp://a:1"] {
            Route::parse(text).unwrap_err();
        }
    }
}
