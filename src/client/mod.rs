//! The Rust client: what the command line, the tests and other programs use to talk to a controller.
//!
//! [`Client::secured`] connects with the keys of the configuration, if there are any, [`Client::connect`] without.
//! [`Client::ask`] sends one request, which the functions of [`crate::protocol::requests`] make, and waits for its answer:
//! `client.ask(&hold("TASK_1480000000.120000_AZazA", true))?`. [`Client::wait`] parks its request at the controller until a task
//! has finished, so that no program polls.

mod resolve;

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::config::{ClientSection, Config};
use crate::protocol::client::{Ask, ReplyError, Selector, TaskView};
use crate::protocol::requests::query::query;
use crate::shell::clock;
use crate::shell::endpoint::{Outcome, Requester};
use crate::shell::port::{Denial, SocketError};
use crate::shell::transport;
use crate::types::Mono;

/// How long a waiting request is parked at the most. It is asked again after that, so that a controller that was restarted
/// meanwhile, and has forgotten the request, is noticed.
const PARK_MAX: Duration = Duration::from_secs(10);

/// How long a waiting client endures a controller that is silent: its supervisor restarts it within some seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The text is no address of a controller.
    #[error(
        "{endpoint:?} is no address of a controller; write tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH with a path that a socket \
         may have"
    )]
    BadEndpoint {
        /// The text.
        endpoint: String,
    },
    /// The name in the address leads nowhere.
    #[error("cannot find the host of the controller {endpoint}: {why}")]
    Unresolved {
        /// The address.
        endpoint: String,
        /// What the system said.
        why: String,
    },
    /// Nothing came back in time.
    #[error("no controller answers at {endpoint} within {} ms; start one with `llts up`, or name another with --controller", .waited.as_millis())]
    NoController {
        /// Where it should be.
        endpoint: String,
        /// How long the reply was waited for.
        waited: Duration,
    },
    /// It is there, and their keys do not fit.
    #[error("cannot talk to the controller at {endpoint}: {denial}")]
    Denied {
        /// Where it is.
        endpoint: String,
        /// What is wrong.
        denial: Denial,
    },
    /// The controller refused the request, or what answered is no controller.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The connection cannot be made as it is configured.
    #[error(transparent)]
    Transport(#[from] SocketError),
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// The task has finished.
    Finished(TaskView),
    /// The time is over; this is how the task stands.
    Expired(TaskView),
    /// The interrupt became readable.
    Interrupted,
}

/// A connection to a controller.
pub struct Client {
    requester: RefCell<Requester>,
    endpoint: String,
    reply_timeout: Duration,
    /// When the controller spoke last.
    heard: Cell<Option<Mono>>,
}

enum Exchange {
    Reply(Vec<u8>),
    Silence,
    Interrupted,
}

impl Client {
    /// Prepares a connection to a controller without keys. Whether it is there shows with the first request.
    ///
    /// # Errors
    /// When the text is no endpoint, its name cannot be resolved, or there are no descriptors left.
    pub fn connect(endpoint: &str, reply_timeout: Duration) -> Result<Self, ClientError> {
        Self::secured(&Config { client: ClientSection { reply_timeout }, ..Config::default() }, endpoint)
    }

    /// Prepares a connection as it is configured: with the keys of CURVE if there are any.
    ///
    /// # Errors
    /// As [`Self::connect`], and when the keys cannot be read.
    pub fn secured(config: &Config, endpoint: &str) -> Result<Self, ClientError> {
        let reply_timeout = config.client.reply_timeout;
        let address = resolve::resolve(endpoint, reply_timeout)?;
        let requester = RefCell::new(transport::client(config, &address)?);
        Ok(Self { requester, endpoint: address.to_string(), reply_timeout, heard: Cell::new(None) })
    }

    /// Where the controller is.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Asks something of the controller, as [`requests`](crate::protocol::requests) makes it, and gives back the answer.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn ask<A>(&self, ask: &Ask<A>) -> Result<A, ClientError> {
        match self.exchange(ask, self.reply_timeout, None)? {
            Exchange::Reply(frame) => Ok(ask.decode(&frame)?),
            Exchange::Silence | Exchange::Interrupted => Err(self.no_controller(self.reply_timeout)),
        }
    }

    /// Waits until the newest task that is meant has finished, `until` is over, or `interrupt` becomes readable.
    ///
    /// # Errors
    /// [`ClientError`]; a controller that has answered before may be silent for half a minute.
    pub fn wait(
        &self,
        selector: &Selector,
        until: Option<Mono>,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Waited, ClientError> {
        loop {
            let now = clock::now().mono;
            let left = until.map_or(PARK_MAX, |until| until.since(now).min(PARK_MAX));
            // The first request to a controller is answered at once, so that a missing one is noticed at once.
            let park = if self.heard.get().is_some() { left } else { Duration::ZERO };
            let ask = query(selector, Some(park));
            match self.exchange(&ask, park + self.reply_timeout, interrupt)? {
                Exchange::Reply(frame) => {
                    let task = ask.decode(&frame)?;
                    if task.is_finished() {
                        return Ok(Waited::Finished(task));
                    }
                    if until.is_some_and(|until| until <= clock::now().mono) {
                        return Ok(Waited::Expired(task));
                    }
                }
                Exchange::Interrupted => return Ok(Waited::Interrupted),
                Exchange::Silence => self.check_silence()?,
            }
        }
    }

    fn exchange<A>(
        &self,
        ask: &Ask<A>,
        patience: Duration,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Exchange, ClientError> {
        let until = clock::now().mono + patience;
        match self.requester.borrow_mut().exchange(ask.encode(), until, interrupt) {
            Outcome::Answer(frames) => self.heard(frames).map(Exchange::Reply),
            Outcome::Denied(denial) => Err(ClientError::Denied { endpoint: self.endpoint.clone(), denial }),
            Outcome::Silence => Ok(Exchange::Silence),
            Outcome::Interrupted => Ok(Exchange::Interrupted),
        }
    }

    fn heard(&self, mut frames: Vec<Vec<u8>>) -> Result<Vec<u8>, ClientError> {
        self.heard.set(Some(clock::now().mono));
        match (frames.pop(), frames.is_empty()) {
            (Some(frame), true) => Ok(frame),
            _ => Err(ReplyError::Malformed("the reply has more than one frame".to_owned()).into()),
        }
    }

    fn check_silence(&self) -> Result<(), ClientError> {
        let silence = self.heard.get().map(|heard| clock::now().mono.since(heard));
        match silence {
            Some(silence) if silence < SILENCE_MAX => Ok(()),
            Some(silence) => Err(self.no_controller(silence)),
            None => Err(self.no_controller(self.reply_timeout)),
        }
    }

    fn no_controller(&self, waited: Duration) -> ClientError {
        ClientError::NoController { endpoint: self.endpoint.clone(), waited }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
