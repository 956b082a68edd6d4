//! The Rust client: what the command line, the tests and other programs use to talk to a controller.
//!
//! [`Client::secured`] connects with the keys of the configuration, if there are any, [`Client::connect`] without; each call sends
//! one request and waits for its reply. [`Client::wait`] parks its request at the controller until a task has finished, so
//! that no client polls. The form of the messages is defined in [`crate::protocol::client`].

mod operators;
mod resolve;

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::config::{ClientSection, Config};
use crate::protocol::client::{self as wire, AgentRow, Listing, ReplyError, Selector, Submission, TaskView};
use crate::protocol::words;
use crate::shell::clock;
use crate::shell::endpoint::{Denial, Outcome, Requester};
use crate::shell::transport::{self, SocketError};
use crate::types::{Fields, Mono, Phase, Scalar};

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
    #[error("cannot resolve the controller's name in {endpoint}: {why}")]
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

/// An accepted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub id: String,
    /// What was not taken as it was sent.
    pub warning: Option<String>,
    /// Whether it had been accepted before, with the same key.
    pub duplicate: bool,
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

/// Numbers of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// All that are known.
    pub total: u64,
    /// With a free slot.
    pub free: u64,
    /// With a task.
    pub busy: u64,
    /// Silent for too long.
    pub lost: u64,
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
        Ok(Self { requester, endpoint: endpoint.to_owned(), reply_timeout, heard: Cell::new(None) })
    }

    /// Where the controller is.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends any flat request and gives back the fields of its reply, without type and code.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn request(&self, request: &Fields) -> Result<Fields, ClientError> {
        Ok(wire::decode(&self.ask(request)?)?)
    }

    /// Submits a task.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn submit(&self, submission: &Submission) -> Result<Submitted, ClientError> {
        let reply = TaskView::from(self.request(&submission.request())?);
        let (id, warning) = (reply.id().to_owned(), reply.warning().map(str::to_owned));
        Ok(Submitted { id, warning, duplicate: reply.is_duplicate() })
    }

    /// Asks for the end of a task. Whether it has ended shows [`Self::wait`]. `reason` says who asks, for those who wonder
    /// later why it ended.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn kill(&self, id: &str, reason: &str) -> Result<(), ClientError> {
        self.request(&wire::kill(id, reason)).map(drop)
    }

    /// What is known of the newest task that is meant.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn query(&self, selector: &Selector) -> Result<TaskView, ClientError> {
        self.request(&wire::query(selector, None)).map(TaskView::from)
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
            let request = wire::query(selector, Some(park));
            match self.exchange(&request, park + self.reply_timeout, interrupt)? {
                Exchange::Reply(frame) => {
                    let task = TaskView::from(wire::decode(&frame)?);
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

    /// How many tasks are in each phase.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn statistic(&self) -> Result<Vec<(Phase, u64)>, ClientError> {
        let reply = self.request(&wire::statistic())?;
        Ok(Phase::ALL.into_iter().map(|phase| (phase, count(&reply, words::phase(phase)))).collect())
    }

    /// How many agents there are.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn agent_counts(&self) -> Result<AgentCounts, ClientError> {
        let reply = self.request(&wire::agent_counts())?;
        let [total, free, busy, lost] =
            [words::TOTAL, words::FREE, words::BUSY, words::LOST].map(|name| count(&reply, name));
        Ok(AgentCounts { total, free, busy, lost })
    }

    /// Tasks that are meant, newest first. The controller may give fewer than `limit`: ask again from there.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn tasks(&self, selector: &Selector, offset: u64, limit: u64) -> Result<Listing<TaskView>, ClientError> {
        Ok(wire::decode_listing(&self.ask(&wire::tasks(selector, offset, limit))?)?)
    }

    /// Agents, by their ids. The controller may give fewer than `limit`: ask again from there.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn agents(&self, offset: u64, limit: u64) -> Result<Listing<AgentRow>, ClientError> {
        Ok(wire::decode_listing(&self.ask(&wire::agents(offset, limit))?)?)
    }

    fn ask(&self, request: &Fields) -> Result<Vec<u8>, ClientError> {
        match self.exchange(request, self.reply_timeout, None)? {
            Exchange::Reply(frame) => Ok(frame),
            Exchange::Silence | Exchange::Interrupted => Err(self.no_controller(self.reply_timeout)),
        }
    }

    fn exchange(
        &self,
        request: &Fields,
        patience: Duration,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Exchange, ClientError> {
        let body = wire::encode(request);
        let until = clock::now().mono + patience;
        match self.requester.borrow_mut().exchange(body, until, interrupt) {
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

fn count(reply: &Fields, name: &str) -> u64 {
    reply.get(name).and_then(Scalar::as_u64).unwrap_or_default()
}
