//! HTTP: the same requests as on the port for requests, the metrics of the controller, and the changes of tasks.
//!
//! A thread with its own runtime serves the connections. Requests reach the controller's loop like those of any other [`Door`], and their
//! replies go back the same way. The loop never waits for the thread, and the thread never waits for a peer that does not read.
//!
//! ```text
//! connection --> access --> Call --> inbox, bell --> loop --> reply --> connection
//!                                                    loop --> Events, Metrics --> connection
//! ```

mod access;
mod beside;
mod events;
mod listener;
mod login;
mod page;
mod places;
mod port;
mod server;
mod session;
pub(crate) mod token;
mod view;

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use self::access::Access;
use self::events::{Event, Events};
use self::server::{Server, ToLoop};
pub(crate) use self::session::Grant;
use self::session::Tokens;
pub use self::token::TokenError;
use api::config::{Config, Exposure, HttpOpening};
use controller::door::{Call, Change, Door};
use controller::hosted::{Guest, House, Ready};
use controller::metrics::Metrics;
use proc::background::Bell;
use zmtp::envelope::ReplyTo;
use zmtp::port::Unsendable;

/// The file with the token in STATE_DIR.
const TOKEN_FILE: &str = "http.token";

/// The file with the read-only token in STATE_DIR.
const READ_TOKEN_FILE: &str = "http.read.token";

/// Why the door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The port is in use, or the address is not local.
    #[error("cannot listen on http://{address} (http.BIND, http.PORT): {source}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The token is unusable.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Descriptors or threads have run out.
    #[error("cannot start the HTTP door: {0}")]
    System(#[from] io::Error),
}

/// Opens the door, if the configuration asks for it.
///
/// # Errors
/// [`HttpError`].
pub fn host(house: &mut House<'_>) -> Result<Option<Guest>, Box<dyn Error + Send + Sync>> {
    let Some(metrics) = house.metrics.clone() else { return Ok(None) };
    let http = match Http::start(house, &metrics) {
        // A service that was not told to open the door does not fail because of it.
        Err(error) if house.config.http.opening == HttpOpening::Auto => {
            log::warn!("{error}; the service runs without its HTTP door and its page");
            return Ok(None);
        }
        http => http?,
    };
    let ready = Ready::Address(format!("http http://{}", http.address));
    Ok(Some(Guest { ready, door: Some(Box::new(http)), stop_before: None, stop_after: None }))
}

/// The file of the token for this grant.
pub(crate) fn token_file(config: &Config, grant: Grant) -> PathBuf {
    let state_dir = &config.paths.state_dir;
    match grant {
        Grant::Change => config.http.token_file.clone().unwrap_or_else(|| state_dir.join(TOKEN_FILE)),
        Grant::Read => state_dir.join(READ_TOKEN_FILE),
    }
}

/// The HTTP door.
#[derive(Debug)]
pub struct Http {
    address: SocketAddr,
    inbox: Receiver<ToLoop>,
    bell: Arc<Bell>,
    /// Whether the bell has rung and the inbox has not been empty since.
    has_news: bool,
    /// The connection that waits for the answer to each request, by its number.
    waiting: HashMap<u64, oneshot::Sender<Vec<u8>>>,
    /// A closed connection whose requests have all been received.
    closed: Option<u64>,
    events: Arc<Events>,
    metrics: Arc<Metrics>,
    /// The listener, for the next program in this process.
    listener: TcpListener,
    /// Ends the thread when dropped.
    running: watch::Sender<()>,
    thread: JoinHandle<()>,
}

impl Http {
    /// Listens, and serves connections.
    ///
    /// # Errors
    /// [`HttpError`].
    pub fn start(house: &mut House<'_>, metrics: &Arc<Metrics>) -> Result<Self, HttpError> {
        let config = house.config;
        let http = &config.http;
        let state_dir = &config.paths.state_dir;
        let read = token_file(config, Grant::Read);
        let tokens = Tokens {
            change: token::read(&token_file(config, Grant::Change), http.token_file.is_none())?,
            read: token::read(&read, true)?,
        };
        let failed = |source| HttpError::Listen { address: http.address, source };
        let listener = port::listen(http, state_dir, house.listener.take()).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let is_local = !http.is_open();
        let access = Access {
            tokens,
            cookie: format!("llts-{}", address.port()),
            is_local,
            loopback: config.network.loopback,
            may_ask: is_local && config.controller.requests.is_some() && config.exposure() != Exposure::Keys,
        };
        let (bell, events) =
            (Arc::new(Bell::new()?), Arc::new(Events::new(http.events_bytes_max, http.opening == HttpOpening::Always)));
        let (to_loop, inbox) = mpsc::channel();
        let (running, stopping) = watch::channel(());
        let server = Server::new(house, access, (to_loop, &bell), &events, metrics, stopping);
        let served = listener.try_clone()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            runtime.block_on(server.serve(served));
            // The other requests in progress end with their connections.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            address,
            inbox,
            bell,
            has_news: false,
            waiting: HashMap::new(),
            closed: None,
            events,
            metrics: Arc::clone(metrics),
            listener,
            running,
            thread,
        })
    }
}

impl Door for Http {
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn receive(&mut self) -> Option<Call> {
        self.has_news |= self.bell.take();
        while self.has_news && self.closed.is_none() {
            match self.inbox.try_recv() {
                Ok(ToLoop::Request { connection, number, caller, body, reply }) => {
                    self.waiting.insert(number, reply);
                    let to = ReplyTo::of(number.to_be_bytes().to_vec());
                    return Some(Call { connection, to, caller, body: Ok(body) });
                }
                Ok(ToLoop::Gone { connection, number }) => {
                    self.waiting.remove(&number);
                    self.closed = Some(connection);
                }
                Err(_) => self.has_news = false,
            }
        }
        None
    }

    fn poll_closed(&mut self) -> Option<u64> {
        if self.has_news {
            // The turn has taken as many as it may, or one has gone; the others are received in the next turn.
            self.bell.ring();
        }
        self.closed.take()
    }

    fn exempt(&mut self, _: &ReplyTo) {}

    fn send(&mut self, to: ReplyTo, body: Vec<u8>, _: Duration) -> Result<(), Unsendable> {
        let number = to.peer().try_into().map(u64::from_be_bytes).map_err(|_| Unsendable::NoPeer)?;
        let waiting = self.waiting.remove(&number).ok_or(Unsendable::NoPeer)?;
        waiting.send(body).map_err(|_| Unsendable::NoPeer)
    }

    fn publish(&mut self, _: &[u8]) {}

    fn show(&mut self, change: &Change<'_>) {
        self.metrics.changed(change.record);
        if !self.events.is_wanted(change.number) {
            return;
        }
        // Our messages are JSON, which is UTF-8.
        let Ok(message) = std::str::from_utf8(change.message()) else { return };
        let hidden = change.hidden_message().and_then(|hidden| String::from_utf8(hidden).ok());
        let message: Arc<str> = message.into();
        let hidden = hidden.map_or_else(|| Arc::clone(&message), Into::into);
        self.events.add(Event { number: change.number, task: change.record.id, message, hidden });
    }

    fn has_guests(&self) -> bool {
        !self.waiting.is_empty() || self.events.has_listeners()
    }

    fn flush(&mut self) {}

    fn close(self: Box<Self>) {
        self.suspend();
    }

    fn suspend(self: Box<Self>) -> Option<OwnedFd> {
        let Self { inbox, waiting, listener, running, thread, .. } = *self;
        // A request that was not received changes nothing, which its client is told.
        drop((inbox, waiting, running));
        if thread.join().is_err() {
            log::error!("the thread of the HTTP door has panicked");
        }
        Some(listener.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Caller, CallerPlace};

    fn door(inbox: Receiver<ToLoop>) -> Http {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Http {
            address: listener.local_addr().unwrap(),
            inbox,
            bell: Arc::new(Bell::new().unwrap()),
            has_news: false,
            waiting: HashMap::new(),
            closed: None,
            events: Arc::new(Events::new(0, false)),
            metrics: Arc::new(Metrics::new().0),
            listener,
            running: watch::channel(()).0,
            thread: std::thread::spawn(|| ()),
        }
    }

    /// A turn takes some requests, and the door is asked again only when its bell rings.
    #[test]
    fn requests_beyond_a_turn_ring_again() {
        let (to_loop, inbox) = mpsc::channel();
        let mut door = door(inbox);
        for number in 0..2 {
            let (reply, caller) = (oneshot::channel().0, Caller::at(CallerPlace::Own));
            to_loop.send(ToLoop::Request { connection: 1, number, caller, body: Vec::new(), reply }).unwrap();
        }
        door.bell.ring();
        for _ in 0..2 {
            assert!(door.receive().is_some() && door.poll_closed().is_none());
            assert!(door.bell.take(), "the next turn asks for the rest");
            door.bell.ring();
        }
        assert!(door.receive().is_none() && door.poll_closed().is_none() && !door.bell.take());
    }
}
