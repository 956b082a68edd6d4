//! The thread's side: connections, routes and answers.

use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::StreamExt as _;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::access::{Access, Denied, check_content, needs_token, only_reads};
use super::beside::Commands;
use super::events::Events;
use super::listener::Listener;
use super::places::{Place, Places};
use super::{beside, login, page, view};
use api::wire::client::Ask;
use api::wire::page::PageBytes;
use api::wire::requests::{gate, stats};
use api::wire::rules::Rules;
use api::wire::{Code, Refusal, reply, requests};
use base::words::kind;
use base::{AllowCommands, Caller, CallerPlace, IncidentKind, Phase, Right, span};
use controller::hosted::House;
use controller::metrics::Metrics;
use controller::{metrics, store};
use proc::background::Bell;
use proc::files::disk_room;
use proc::visitor::Visitor;
use proc::{clock, incidents};
use zmtp::endpoint::Refusals;
use zmtp::envelope::TooLong;

/// Time limit for the answer to an internal request: a loop that takes longer is in trouble.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for the head of a request in a spare place.
const SPARE_HEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause after a failed accept: descriptors have run out, and become free only with time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often a connection that waits for its answer is checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long clients may take to read their last answers when the controller stops.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);

/// When a client without a place may try again, in seconds.
const TRY_AGAIN: HeaderValue = HeaderValue::from_static("5");

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// A message of the thread to the loop.
#[derive(Debug)]
pub(super) enum ToLoop {
    Request {
        connection: u64,
        number: u64,
        caller: Caller,
        body: Vec<u8>,
        reply: oneshot::Sender<Vec<u8>>,
    },
    /// The client of this request no longer waits for the reply.
    Gone {
        connection: u64,
        number: u64,
    },
}

/// The connection of a request.
#[derive(Clone)]
pub(super) struct Connection {
    number: u64,
    /// The peer at the other end, as it was when the connection was accepted.
    pub(super) visitor: Visitor,
    /// A copy of the socket, to detect that the client has gone: hyper does not check while it has unread bytes in its buffer, such as
    /// those of a pipelined request.
    socket: Arc<OwnedFd>,
    place: Place,
}

impl Connection {
    /// Returns when the client has closed the connection.
    async fn gone(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut fds = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
            if poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
    }
}

/// The data that every request needs.
pub(super) struct Server {
    pub(super) access: Access,
    to_loop: Sender<ToLoop>,
    bell: Arc<Bell>,
    pub(super) events: Arc<Events>,
    metrics: Arc<Metrics>,
    state_dir: PathBuf,
    allow_commands: AllowCommands,
    rules: Rules,
    /// Logs refused connections.
    refusals: Mutex<Refusals>,
    /// Bytes of the longest message of a caller that may change something.
    long_bytes_max: usize,
    /// The number of waiting tasks at which submits are refused.
    waiting_max: usize,
    /// Time limit for the head of a request.
    pub(super) head_timeout: Duration,
    /// Time limit for output that a peer does not read.
    send_timeout: Duration,
    pub(super) commands: Commands,
    last_request: AtomicU64,
    pub(super) places: Places,
    /// Closed when the controller stops.
    pub(super) stopping: Stopping,
}

/// The thread's end of a channel that the loop closes when it stops.
pub(super) type Stopping = watch::Receiver<()>;

/// The time in unix seconds.
pub(super) fn now() -> u64 {
    clock::now().wall.micros() / 1_000_000
}

/// Returns when the controller stops.
pub(super) async fn stopped(mut stopping: Stopping) {
    while stopping.changed().await.is_ok() {}
}

impl Server {
    pub(super) fn new(
        house: &House<'_>,
        access: Access,
        (to_loop, bell): (Sender<ToLoop>, &Arc<Bell>),
        events: &Arc<Events>,
        metrics: &Arc<Metrics>,
        stopping: Stopping,
    ) -> Self {
        let House { config, rules, .. } = *house;
        Self {
            access,
            to_loop,
            bell: Arc::clone(bell),
            events: Arc::clone(events),
            metrics: Arc::clone(metrics),
            state_dir: config.paths.state_dir.clone(),
            allow_commands: config.controller.allow_commands,
            long_bytes_max: config
                .graph
                .message_bytes_max()
                .max(config.limits.submit_bytes_max)
                .max(rules.limits.message_bytes),
            waiting_max: config.controller.waiting_tasks_max,
            rules: rules.clone(),
            commands: Commands::new(house.program.clone()),
            refusals: Mutex::default(),
            head_timeout: config.http.head_timeout,
            send_timeout: config.http.send_timeout,
            last_request: AtomicU64::new(0),
            places: Places::new(config.http.connections_max, config.http.head_timeout),
            stopping,
        }
    }

    /// Serves connections until it is told to stop. Then each one gets the answer to its present request, and is closed.
    pub(super) async fn serve(self, listener: TcpListener) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return log::error!("the HTTP door cannot be used: {error}"),
        };
        let (head_timeout, send_timeout, stopping) = (self.head_timeout, self.send_timeout, self.stopping.clone());
        let server = Arc::new(self);
        let router = Router::new()
            .route("/healthz", get(health))
            .route("/readyz", get(readiness))
            .route("/metrics", get(scrape))
            .route("/events", get(events))
            .route("/api", post(api))
            .route("/", get(page::index))
            .route("/page/{*path}", get(page::asset))
            .route("/view", get(view::view))
            .route("/beside/{name}", get(beside::beside))
            .route("/session", post(login::begin).get(login::show).delete(login::end))
            .fallback(|| async { denied(Denied(StatusCode::NOT_FOUND, THERE_IS.to_owned())) })
            .layer(middleware::from_fn_with_state(Arc::clone(&server), check_origin))
            .with_state(Arc::clone(&server));
        for number in 1.. {
            let next = async {
                let stream = accept(&listener, send_timeout).await;
                (server.places.take().await, stream)
            };
            let (place, stream) = tokio::select! {
                next = next => next,
                () = stopped(stopping.clone()) => break,
            };
            let socket = match stream.as_fd().try_clone_to_owned() {
                Ok(socket) => Arc::new(socket),
                Err(error) => {
                    log::warn!("an HTTP connection cannot be served: {error}");
                    continue;
                }
            };
            let connection = Connection { number, visitor: Visitor::of_stream(&stream), socket, place: place.clone() };
            let service = TowerToHyperService::new(router.clone().layer(Extension(connection)));
            let (stopping, is_spare) = (stopping.clone(), place.is_spare);
            let head_timeout = if is_spare { head_timeout.min(SPARE_HEAD_TIMEOUT) } else { head_timeout };
            tokio::spawn(async move {
                let mut builder = http1::Builder::new();
                let builder = builder.timer(TokioTimer::new()).header_read_timeout(head_timeout).keep_alive(!is_spare);
                let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
                let ended = tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = stopped(stopping) => {
                        connection.as_mut().graceful_shutdown();
                        connection.await
                    }
                };
                if let Err(error) = ended {
                    log::debug!("an HTTP connection has ended: {error}");
                }
                place.free();
            });
        }
        drop(listener);
        if timeout(LAST_ANSWERS_MAX, server.places.emptied()).await.is_err() {
            log::debug!("some HTTP connections have not taken their last answers");
        }
    }

    /// Lets the loop answer a request.
    pub(super) async fn ask(&self, connection: &Connection, caller: Caller, body: Vec<u8>) -> Result<Vec<u8>, Denied> {
        let number = self.last_request.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        self.send_to_loop(ToLoop::Request { connection: connection.number, number, caller, body, reply });
        let mut asked = Asked { server: self, connection: connection.number, number, is_answered: false };
        tokio::select! {
            answered = answer => {
                asked.is_answered = true;
                answered.map_err(|_| Denied(StatusCode::SERVICE_UNAVAILABLE, "the controller is stopping".to_owned()))
            }
            () = connection.gone() => Err(Denied(StatusCode::REQUEST_TIMEOUT, "the connection is closed".to_owned())),
        }
    }

    /// The body of a request; `None` if it is longer than this or cannot be read.
    pub(super) async fn body(&self, body: Body, bytes_max: usize) -> Result<Option<Bytes>, Response> {
        let read = timeout(self.head_timeout, to_bytes(body, bytes_max)).await.map_err(|_| {
            let why = format!("the body did not come within {} (http.HEAD_TIMEOUT)", span(self.head_timeout));
            denied(Denied(StatusCode::REQUEST_TIMEOUT, why))
        })?;
        Ok(read.ok())
    }

    /// Lets the loop answer an internal request, with a time limit.
    pub(super) async fn ask_self<A>(
        &self,
        connection: &Connection,
        question: &Ask<A>,
        limit: Duration,
    ) -> Result<A, Denied> {
        let caller = Caller { may_change: false, ..Caller::at(CallerPlace::Own) };
        let asked = self.ask(connection, caller, question.encode());
        let late = || Denied(StatusCode::SERVICE_UNAVAILABLE, "the controller does not answer".to_owned());
        let answer = timeout(limit, asked).await.map_err(|_| late())??;
        question.decode(&answer).map_err(|_| late())
    }

    /// The sender of a request, if it may at least ask.
    pub(super) fn caller(&self, headers: &HeaderMap, connection: &Connection) -> Result<Caller, Denied> {
        let caller = self.access.caller(headers, connection.visitor, now());
        caller.inspect_err(|Denied(status, why)| {
            if *status == StatusCode::FORBIDDEN || headers.contains_key(AUTHORIZATION) {
                self.note_refusal(why);
            }
        })
    }

    /// Logs a request that was refused because of its sender or a wrong token.
    pub(super) fn note_refusal(&self, why: &str) {
        let line = format!("an HTTP request is refused: {why}");
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now().mono;
        for line in refusals.handle_timeout(now).into_iter().chain(refusals.turned_away(now, line)) {
            log::warn!("{line}");
            incidents::note(IncidentKind::Refused, line);
        }
    }

    fn send_to_loop(&self, message: ToLoop) {
        // A loop that has ended takes no message.
        let _ = self.to_loop.send(message);
        self.bell.ring();
    }
}

const THERE_IS: &str = "there is GET /, /healthz, /readyz, /metrics, /events, /view, /beside/NAME and /session, and POST /api and /session";

/// A request in progress. It is cancelled if its client leaves before the answer.
struct Asked<'a> {
    server: &'a Server,
    connection: u64,
    number: u64,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.server.send_to_loop(ToLoop::Gone { connection: self.connection, number: self.number });
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, send_timeout: Duration) -> TcpStream {
    let millis = u32::try_from(send_timeout.as_millis()).unwrap_or(u32::MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it a peer that does not read keeps its place forever.
                let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, millis);
                let _ = stream.set_nodelay(true);
                return stream;
            }
            Err(error) => {
                log::warn!("an HTTP connection cannot be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn check_origin(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let place = request.extensions().get::<Connection>().map(|connection| connection.place.clone());
    if let Some(place) = place.filter(|place| place.is_spare)
        && !["/healthz", "/readyz"].contains(&request.uri().path())
        && let Err(why) = place.change(&server.places).await
    {
        return denied(why);
    }
    let mut response = match server.access.check_origin(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => denied(why),
    };
    // A page of another site cannot read an answer by loading it as a script, style or image.
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.headers_mut().insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    response
}

pub(super) fn denied(Denied(status, why): Denied) -> Response {
    refused(status, Refusal::new(Code::NotAllowed, why))
}

fn refused(status: StatusCode, refusal: Refusal) -> Response {
    let body = reply::encode(kind::ERROR, &refusal.into(), PageBytes(0));
    let mut response = (status, [(CONTENT_TYPE, "application/json")], body).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, TRY_AGAIN);
    }
    response
}

pub(super) type Answered = Result<Response, Response>;

async fn health(State(server): State<Arc<Server>>, Extension(connection): Extension<Connection>) -> Answered {
    server.ask_self(&connection, &stats::tasks(), ALIVE_TIMEOUT).await.map_err(denied)?;
    Ok("ok\n".into_response())
}

async fn readiness(State(server): State<Arc<Server>>, Extension(connection): Extension<Connection>) -> Answered {
    let tasks = server.ask_self(&connection, &stats::tasks(), ALIVE_TIMEOUT).await.map_err(denied)?;
    let waiting = tasks.0[Phase::Waiting as usize];
    let why = if !server.metrics.is_store_writable() {
        "the store cannot be written, and submits are refused until it can".to_owned()
    } else if waiting >= server.waiting_max {
        format!("the queue is full, and submits are refused: {waiting} tasks wait (WAITING_TASKS_MAX)")
    } else {
        return Ok("ready\n".into_response());
    };
    Err(denied(Denied(StatusCode::SERVICE_UNAVAILABLE, why)))
}

async fn scrape(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
) -> Answered {
    let caller = server.caller(&headers, &connection).map_err(denied)?;
    let tasks = server.ask_self(&connection, &stats::tasks(), ALIVE_TIMEOUT).await.map_err(denied)?;
    let agents = server.ask_self(&connection, &stats::agents(), ALIVE_TIMEOUT).await.map_err(denied)?;
    let gates = server.ask(&connection, caller, gate::gates().encode()).await.map_err(denied)?;
    let gates = gate::gates().decode(&gates).map_or(0, |gates| gates.total);
    let state_dir = server.state_dir.clone();
    // The check reads the disk, which may be slow.
    let looked =
        tokio::task::spawn_blocking(move || (store::bytes(&state_dir), disk_room::free(&state_dir), state_dir));
    let (bytes, room, state_dir) = looked.await.unwrap_or_default();
    if let Some(room) = room {
        server.metrics.has_room(&state_dir, room);
    }
    server.metrics.counted(tasks, agents, gates, bytes);
    let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let text = server.metrics.text();
    Ok(if accepted.contains("application/openmetrics-text") {
        ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
    } else {
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::classic(&text)).into_response()
    })
}

async fn api(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    check_content(&headers).map_err(denied)?;
    // A client that may not even ask must not make us wait for a body.
    let caller = server.caller(&headers, &connection).map_err(denied)?;
    // Only a request that changes something may have a body longer than other messages.
    let bytes_max = if caller.may_change { server.long_bytes_max } else { server.rules.limits.message_bytes };
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if let Some(bytes) = announced.filter(|bytes| *bytes > bytes_max as u64) {
        let refusal = TooLong::message(bytes, bytes_max).refusal();
        return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, refusal));
    }
    let body = server.body(body, bytes_max).await?.ok_or_else(|| {
        let why = format!("the request cannot be read, or has more than {bytes_max} bytes (MESSAGE_BYTES_MAX)");
        refused(StatusCode::PAYLOAD_TOO_LARGE, Refusal::new(Code::LimitReached, why))
    })?;
    if !caller.may_change && !requests::only_asks(&body, &server.rules) {
        // Only the holder of a token counts as a caller at the socket.
        let is_reader = caller.place == CallerPlace::Socket;
        return Err(denied(if is_reader { only_reads() } else { needs_token() }));
    }
    let answer = server.ask(&connection, caller, body.into()).await.map_err(denied)?;
    Ok(([(CONTENT_TYPE, "application/json")], answer).into_response())
}

async fn events(
    State(server): State<Arc<Server>>,
    Extension(connection): Extension<Connection>,
    headers: HeaderMap,
    uri: Uri,
) -> Answered {
    let caller = server.caller(&headers, &connection).map_err(denied)?;
    // This comes before the look at the last change, so that no later one is missed.
    server.events.keep();
    let sees_commands = server.allow_commands.admits(caller, Right::Commands);
    let query = uri.query().unwrap_or_default();
    let listener = Listener::new(&server.events, &headers, query, sees_commands).map_err(denied)?;
    let place = server.places.take_events().map_err(denied)?;
    let stopping = server.stopping.clone();
    let listening = server.events.listener();
    let end = Box::pin(async move {
        stopped(stopping).await;
        drop((place, listening));
    });
    let stream = listener.stream().take_until(end);
    Ok(Sse::new(stream).keep_alive(KeepAlive::default()).into_response())
}
