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

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
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
    /// The connection that waits for the answer to each request, by its number.
    waiting: HashMap<u64, oneshot::Sender<Vec<u8>>>,
    /// The closed connections whose requests have all been received.
    closed: VecDeque<u64>,
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
            waiting: HashMap::new(),
            closed: VecDeque::new(),
            events,
            metrics: Arc::clone(metrics),
            listener,
            running,
            thread,
        })
    }
}

impl Door for Http {
    fn bell(&self) -> Option<&Bell> {
        Some(&self.bell)
    }

    fn receive(&mut self) -> Option<Call> {
        loop {
            match self.inbox.try_recv().ok()? {
                ToLoop::Request { connection, number, caller, body, reply } => {
                    self.waiting.insert(number, reply);
                    let to = ReplyTo::of(number.to_be_bytes().to_vec());
                    return Some(Call { connection, to, caller, body: Ok(body) });
                }
                ToLoop::Gone { connection, number } => {
                    self.waiting.remove(&number);
                    self.closed.push_back(connection);
                }
            }
        }
    }

    fn poll_closed(&mut self) -> Option<u64> {
        self.closed.pop_front()
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
