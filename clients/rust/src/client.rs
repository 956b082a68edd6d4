//! The connection to a controller: one request, and its answer. The verbs (`verbs.rs`) are made of it.
//!
//! [`Client::secured`] connects with the keys of the configuration, if there are any, [`Client::connect`] without.
//! [`Client::ask`] sends one request, which the functions of [`api::wire::requests`] make, and waits for its answer:
//! `client.ask(&hold("TASK_1480000000.120000_AZazA", true))?`. [`Client::wait_for_task`] parks its request at the controller until a
//! task has finished, so that no program polls. A [`Pipeline`] has many requests in flight.

mod pipeline;
mod remedy;
mod resolve;

use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::archives_dir::dir_in;
use api::config::{ClientSection, Config};
use api::transport;
use api::wire::client::{Ask, ReplyError, Selector, TaskView};
use api::wire::requests::graph::GraphAnswer;
use api::wire::requests::job::JobAnswer;
use api::wire::requests::query::query;
use api::wire::requests::{graph, job};
use proc::clock;
use zmtp::port::{Denial, SocketError};
use zmtp::sockets::{Outcome, Requester};

use crate::named::NamedError;
use base::Mono;
use remedy::Remedy;

pub use pipeline::{Arrival, Pipeline, RequestId};

/// The maximum time for which a waiting request is parked. It is then sent again, so that a restart of the controller,
/// which loses the request, is noticed.
pub const PARK_MAX: Duration = Duration::from_secs(10);

/// How long a waiting client tolerates a silent controller: its supervisor restarts it within some seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The text is not an address of a controller.
    #[error(
        "{endpoint:?} is not an address of a controller; write tcp://IP:PORT, tcp://NAME:PORT or ipc://PATH with a path that a socket \
         may have"
    )]
    BadEndpoint {
        /// The text.
        endpoint: String,
    },
    /// The host name in the address cannot be resolved.
    #[error("cannot find the host of the controller {endpoint}: {why}")]
    Unresolved {
        /// The address.
        endpoint: String,
        /// Error of the system.
        why: String,
    },
    /// No answer arrived in time.
    #[error("no controller answers at {endpoint} within {} ms; {remedy}", .waited.as_millis())]
    NoController {
        /// Its endpoint.
        endpoint: String,
        /// Length of the wait for the reply.
        waited: Duration,
        /// What a user can do.
        remedy: String,
    },
    /// The controller runs, but the keys do not match.
    #[error("cannot talk to the controller at {endpoint}: {denial}")]
    Denied {
        /// Its endpoint.
        endpoint: String,
        /// The mismatch.
        denial: Denial,
    },
    /// The controller refused the request, or the peer is not a controller.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The configured connection cannot be made.
    #[error(transparent)]
    Transport(#[from] SocketError),
    /// No controller is found.
    #[error(transparent)]
    Named(#[from] NamedError),
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Waited {
    /// The task has finished.
    Finished(TaskView),
    /// The time has passed; the present state of the task.
    Expired(TaskView),
    /// The interrupt became readable.
    Interrupted,
}

/// A connection to a controller, for one thread at a time: a request waits for its answer. Another thread makes a client of its own.
pub struct Client {
    requester: RefCell<Requester>,
    endpoint: String,
    remedy: Remedy,
    reply_timeout: Duration,
    /// The time of the controller's last answer.
    heard: Cell<Option<Mono>>,
    /// The task to which this process belongs.
    parent: Option<String>,
    /// The folder of files and archives of a controller of the same home.
    store: PathBuf,
}

enum Exchange {
    Reply(Vec<u8>),
    Silence,
    Interrupted,
}

impl Client {
    /// Prepares a connection to a controller without keys. The first request shows whether the controller runs.
    ///
    /// # Errors
    /// When the text is not an endpoint, its name cannot be resolved, or descriptors have run out.
    pub fn connect(endpoint: &str, reply_timeout: Duration) -> Result<Self, ClientError> {
        Self::secured(&Config { client: ClientSection { reply_timeout }, ..Config::default() }, endpoint)
    }

    /// Prepares the configured connection: with CURVE keys if there are any.
    ///
    /// # Errors
    /// As [`Self::connect`], and when the keys cannot be read.
    pub fn secured(config: &Config, endpoint: &str) -> Result<Self, ClientError> {
        let reply_timeout = config.client.reply_timeout;
        let shown = resolve::resolve(endpoint, reply_timeout)?;
        let requester = RefCell::new(transport::client(config, endpoint)?);
        let remedy = Remedy::new(config, endpoint);
        Ok(Self {
            requester,
            endpoint: shown,
            remedy,
            reply_timeout,
            heard: Cell::new(None),
            parent: None,
            store: dir_in(&config.paths.state_dir),
        })
    }

    /// As it is, for submits that become children of this task.
    pub(crate) fn with_parent(self, parent: Option<String>) -> Self {
        Self { parent, ..self }
    }

    /// As it is, for submits that outlive the task in which this program runs.
    #[must_use]
    pub fn detached(self) -> Self {
        self.with_parent(None)
    }

    /// The task whose children the submits are.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// The folder in which the controller keeps files, if it is one of the same home.
    pub(crate) fn store(&self) -> &Path {
        &self.store
    }

    /// The endpoint of the controller.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends a request, made by [`requests`](api::wire::requests), and returns the answer.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn ask<A>(&self, ask: &Ask<A>) -> Result<A, ClientError> {
        let until = clock::now().mono + self.reply_timeout;
        let outcome = self.requester.borrow_mut().exchange(ask.encode(), until, None);
        self.answer(ask, self.exchanged(outcome)?)
    }

    /// The same for a question that a controller can answer as soon as it has started, without its agents: it is sent again at once if
    /// the connection is lost before the answer.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn ask_over_restarts<A>(&self, ask: &Ask<A>) -> Result<A, ClientError> {
        self.answer(ask, self.exchange_repeatable(ask, self.reply_timeout, None)?)
    }

    fn answer<A>(&self, ask: &Ask<A>, exchange: Exchange) -> Result<A, ClientError> {
        match exchange {
            Exchange::Reply(frame) => Ok(ask.decode(&frame)?),
            Exchange::Silence | Exchange::Interrupted => Err(self.no_controller(self.reply_timeout)),
        }
    }

    /// The same for a request that may arrive twice without harm, such as a submit with a key: it is sent again if the connection is
    /// lost before the answer. A controller that has answered before may be silent for half a minute.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn ask_repeatably<A>(&self, ask: &Ask<A>) -> Result<A, ClientError> {
        self.ask_patiently(ask, Duration::ZERO)
    }

    /// Whether a connection has taken the last request.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.requester.borrow().has_sent()
    }

    /// Waits until the newest selected task has finished, `until` has passed, or `interrupt` becomes readable.
    ///
    /// # Errors
    /// [`ClientError`]; a controller that has answered before may be silent for half a minute.
    pub fn wait_for_task(
        &self,
        selector: &Selector,
        until: Option<Mono>,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Waited, ClientError> {
        let ended = self.wait_until(|park| query(selector, Some(park)), TaskView::is_finished, until, interrupt)?;
        Ok(match ended {
            None => Waited::Interrupted,
            Some(task) if task.is_finished() => Waited::Finished(task),
            Some(task) => Waited::Expired(task),
        })
    }

    /// Waits until all tasks of a job have finished or `until` has passed; returns the job as it is then, or `None` if `interrupt`
    /// becomes readable.
    ///
    /// # Errors
    /// As [`Self::wait_for_task`].
    pub fn wait_for_job(
        &self,
        name: &str,
        until: Option<Mono>,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Option<JobAnswer>, ClientError> {
        let has_ended = |job: &JobAnswer| job.ended_at().is_some();
        self.wait_until(|park| job::query(name, Some(park)), has_ended, until, interrupt)
    }

    /// The same for a graph.
    ///
    /// # Errors
    /// As [`Self::wait_for_task`].
    pub fn wait_for_graph(
        &self,
        id: &str,
        until: Option<Mono>,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Option<GraphAnswer>, ClientError> {
        self.wait_until(|park| graph::query(id, Some(park)), GraphAnswer::has_ended, until, interrupt)
    }

    /// Asks again and again, with requests that are parked, until the answer is one of an end or `until` has passed; `None`
    /// if `interrupt` becomes readable.
    fn wait_until<A>(
        &self,
        ask: impl Fn(Duration) -> Ask<A>,
        has_ended: impl Fn(&A) -> bool,
        until: Option<Mono>,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Option<A>, ClientError> {
        let mut silences = 0;
        loop {
            let now = clock::now().mono;
            let left = until.map_or(PARK_MAX, |until| until.since(now).min(PARK_MAX));
            // The first request is answered at once, so that a missing controller is noticed at once.
            let park = if self.heard.get().is_some() { left } else { Duration::ZERO };
            let ask = ask(park);
            match self.exchange_repeatable(&ask, park + self.reply_timeout, interrupt)? {
                Exchange::Reply(frame) => {
                    let answer = ask.decode(&frame)?;
                    if has_ended(&answer) || until.is_some_and(|until| until <= clock::now().mono) {
                        return Ok(Some(answer));
                    }
                    silences = 0;
                }
                Exchange::Interrupted => return Ok(None),
                Exchange::Silence => self.check_silence(&mut silences)?,
            }
        }
    }

    /// Sends a request that the controller may park for up to `park`, and returns the answer. A controller that has answered
    /// before may be silent for half a minute; the request is repeated then, at least once.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn ask_patiently<A>(&self, ask: &Ask<A>, park: Duration) -> Result<A, ClientError> {
        let mut silences = 0;
        loop {
            match self.exchange_repeatable(ask, park + self.reply_timeout, None)? {
                Exchange::Reply(frame) => return Ok(ask.decode(&frame)?),
                Exchange::Silence | Exchange::Interrupted => self.check_silence(&mut silences)?,
            }
        }
    }

    fn exchange_repeatable<A>(
        &self,
        ask: &Ask<A>,
        patience: Duration,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Exchange, ClientError> {
        let until = clock::now().mono + patience;
        self.exchanged(self.requester.borrow_mut().exchange_repeatable(ask.encode(), until, interrupt))
    }

    fn exchanged(&self, outcome: Outcome) -> Result<Exchange, ClientError> {
        match outcome {
            Outcome::Answer(frames) => self.heard(frames).map(Exchange::Reply),
            Outcome::Denied(denial) => Err(ClientError::Denied { endpoint: self.endpoint.clone(), denial }),
            Outcome::Silence | Outcome::Lost => Ok(Exchange::Silence),
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

    /// A request has no answer. `silences` counts those in a row.
    fn check_silence(&self, silences: &mut u32) -> Result<(), ClientError> {
        *silences += 1;
        let silence = self.heard.get().map(|heard| clock::now().mono.since(heard));
        if may_repeat(silence, *silences) {
            Ok(())
        } else {
            Err(self.no_controller(silence.unwrap_or(self.reply_timeout)))
        }
    }

    fn no_controller(&self, waited: Duration) -> ClientError {
        ClientError::NoController { endpoint: self.endpoint.clone(), waited, remedy: self.remedy.text() }
    }
}

/// Whether a request is repeated after this silence of a controller that has answered before. The time-out of one request may be longer
/// than the silence that ends a conversation (`ZMQ_RECV_TIMEOUT`), and the request may have been lost with a controller.
fn may_repeat(silence: Option<Duration>, silences: u32) -> bool {
    silence.is_some_and(|silence| silence < SILENCE_MAX || silences < 2)
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_repeated_once_however_long_its_time_out_is() {
        let long = Some(SILENCE_MAX * 2);
        assert!(may_repeat(long, 1) && !may_repeat(long, 2));
        assert!(may_repeat(Some(SILENCE_MAX / 2), 2), "half a minute of silence is borne");
        assert!(!may_repeat(None, 1), "a controller that never answered is not there");
    }
}
