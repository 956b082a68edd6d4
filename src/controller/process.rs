//! The controller's process: sockets around the engine.
//!
//! A turn is one wait; then everything that is ready goes to the [`Sequencer`], and its departures to the sockets, the
//! store and the push addresses, which get a slice of each turn ([`zmtp::push_io`]). The sequencer decides when each message
//! leaves.

mod admission;
mod announce;
mod archives;
mod documents;
mod error;
mod idle;
mod leading;
mod settings;
mod stopping;
mod succession;

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;

use admission::Admission;
use announce::announce;
use documents::{Document, Documents, Unread};
pub use error::ControllerError;
use idle::Idle;
use leading::Lease;
pub use settings::field_limits;
use stopping::Ending;
pub use succession::LOCK;

use super::archives::Archives;
use super::door::{Address, Change, Doors, Request, ZmtpDoor};
use super::history::History;
use super::hosted::{Guest, Host, House};
use super::metrics::Metrics;
use super::store::{CommitError, Store, Writer};
use api::config::Config;
use api::reload::Reload;
use api::transport;
use api::wire::page::PageBytes;
use api::wire::publish;
use api::wire::reply::Reply;
use api::wire::requests::{FromAgent, Message, Request as Ask, graph, job};
use api::wire::rights::Repeated;
use api::wire::rules::Rules;
use base::words::kind;
use base::{GraphChange, IncidentKind, JobStatus, Mono, Now, span};
use engine::{Controller, Departure, Record, Route, Sequencer, Stored};
use proc::files::disk_room;
use proc::own_program::OwnProgram;
use proc::signals::{RETIRE, Signals};
use proc::supervised::Supervisor;
use proc::{clock, incidents, logging};
use zmtp::push_io::Pusher;

/// Requests per turn and door: many share a commit, and a flood does not delay a deadline for long.
const REQUESTS_PER_TURN: usize = 256;

/// Bytes of requests after which a turn takes no more of them from a door. A submit of many tasks takes some milliseconds.
const REQUEST_BYTES_PER_TURN: usize = 131_072;

/// Runs a controller until it gets SIGTERM or SIGINT, with the guests of these hosts. `handover` is the descriptor of the state of the
/// program before this one in this process; see [`succession`].
///
/// # Errors
/// [`ControllerError`], when it cannot start.
pub fn run(
    config: &Config,
    handover: Option<i32>,
    reload: &Reload,
    program: OwnProgram,
    hosts: &[Host],
) -> Result<(), ControllerError> {
    // This comes before any thread is started, so that all of them leave these signals to the loop.
    let own = [Signal::SIGTERM, Signal::SIGINT, RETIRE];
    let mut signals = Signals::install(&[&own, Reload::signal().as_slice()].concat())?;
    let (lock, mut before) = succession::begin(&config.paths.state_dir, handover)?;
    let Some(mut store) = leading::open(config, &mut signals, reload)? else { return Ok(()) };
    let descriptors = proc::limits::raise_descriptor_limit()?;
    let watchable = publish::prefix(kind::TASK_STATUS);
    let listener = before.take_http();
    let ports = transport::bind(config, watchable, descriptors, before)?;
    let rules = settings::rules(config, &[ports.requests(), ports.broadcasts()]);
    let mut pusher = Pusher::start(settings::push(config, &rules), transport::push_keys(config)?)?;
    // What follows may take longer than a lease.
    let keeper = store.keep_lease()?;
    let (stored, archives) = load(config, &mut store, &rules)?;
    let page_bytes = PageBytes(config.controller.details_bytes_max);
    let (history, feed) = History::start(&config.paths.state_dir, settings::history(config), clock::now(), &stored)?;
    store.tell_address(ports.requests())?;
    let controller = Controller::restore(settings::engine(config), rand::random(), clock::now(), stored);
    // Measurements that only a scrape shows are made only if there can be a scrape.
    let metrics = transport::opens_http(config).then(|| {
        let (metrics, pushed) = Metrics::new();
        pusher.measure(pushed);
        Arc::new(metrics)
    });
    let mut house = House { config, rules: &rules, program, metrics: metrics.clone(), listener };
    let guests = hosts.iter().filter_map(|host| host(&mut house).transpose());
    let guests: Vec<Guest> = guests.collect::<Result<_, _>>().map_err(ControllerError::Guest)?;
    announce(config, [ports.requests(), ports.broadcasts()], &guests)?;
    incidents::take_left(&config.paths.state_dir);
    let allow_commands = config.controller.allow_commands;
    let (mut others, mut stops_before, mut stops_after) = (Vec::new(), Vec::new(), Vec::new());
    for Guest { ready: _, door, stop_before, stop_after } in guests {
        others.extend(door);
        stops_before.extend(stop_before);
        stops_after.extend(stop_after);
    }
    let mut service = Service {
        sequencer: Sequencer::new(controller),
        doors: Doors::new(ZmtpDoor::new(ports, allow_commands), others, allow_commands),
        pusher,
        writer: Writer::start(store, feed)?,
        history,
        documents: Documents::start(rules.clone())?,
        archives,
        admission: Admission::new(rules, allow_commands),
        page_bytes,
        metrics,
        commit_began: clock::now().mono,
        lease: Lease::of(config),
        stored: Vec::new(),
        dropped: 0,
        idle: Idle::new(config),
        supervisor: Supervisor::of_this_process(),
        state_dir: std::path::absolute(&config.paths.state_dir)?,
    };
    service.take_queue(clock::now());
    if let Some(keeper) = keeper {
        keeper.end();
    }
    let served = service.serve(&mut signals, config, reload);
    Guest::stop_all(stops_before)?;
    let stopped = served.and_then(|ending| Ok((service.stop(&ending)?, ending)));
    Guest::stop_all(stops_after)?;
    match stopped? {
        (Some(suspension), Ending::Succeeded(successor)) => succession::succeed(&successor, &lock, suspension),
        (None, _) | (_, Ending::Stopped | Ending::Idle) => {}
    }
    Ok(())
}

/// Reads what is stored.
fn load(config: &Config, store: &mut Store, rules: &Rules) -> Result<(Stored, Archives), ControllerError> {
    let state_dir = &config.paths.state_dir;
    let mut stored = store.load(rules)?;
    let tools_dir = std::path::absolute(&config.paths.tools_dir)?;
    let (limits, mirror) = (config.archive.clone(), store.mirror(state_dir)?);
    let (archives, tools) = Archives::start(state_dir, &tools_dir, limits, config.tools.disk_reserve, mirror)?;
    stored.tools = tools;
    let (epoch, raised) = store.begin_epoch(state_dir, stored.epoch, clock::now().wall, rand::random())?;
    (stored.epoch, stored.raised) = (epoch, raised);
    log::info!("{} in the store", base::counted(stored.tasks.len(), "task"));
    Ok((stored, archives))
}

struct Service {
    sequencer: Sequencer<Address>,
    doors: Doors,
    pusher: Pusher,
    writer: Writer,
    history: History,
    documents: Documents,
    archives: Archives,
    admission: Admission,
    page_bytes: PageBytes,
    metrics: Option<Arc<Metrics>>,
    commit_began: Mono,
    /// The lease, if other controllers may lead the queue.
    lease: Option<Lease>,
    /// The records of the last commit.
    stored: Vec<Record>,
    /// Number of replies that could not be sent.
    dropped: u64,
    /// Whether it ends by itself, and when.
    idle: Option<Idle>,
    /// `None` also after its death.
    supervisor: Option<Supervisor>,
    /// The folder of the store.
    state_dir: PathBuf,
}

impl Service {
    fn serve(&mut self, signals: &mut Signals, config: &Config, reload: &Reload) -> Result<Ending, ControllerError> {
        loop {
            let before = clock::now().mono;
            let has_room = self.sequencer.controller().has_push_room(|address| self.pusher.room(address));
            let deadline = self.sequencer.poll_timeout().map(|(at, _)| at).filter(|_| !has_room);
            let deadline = deadline.or_else(|| has_room.then_some(before));
            let idle = self.idle.as_ref().and_then(Idle::poll_timeout);
            let renewal = self.lease.as_ref();
            let renewal = renewal.and_then(|lease| self.sequencer.renewal(self.commit_began, lease.interval()));
            let deadline =
                deadline.into_iter().chain(self.pusher.poll_timeout(before)).chain(idle).chain(renewal).min();
            let (documents, archives, history) = (self.documents.as_fd(), self.archives.as_fd(), self.history.as_fd());
            let supervisor = self.supervisor.as_ref().map_or(signals.as_fd(), AsFd::as_fd);
            let fds =
                [signals.as_fd(), self.pusher.as_fd(), self.writer.as_fd(), documents, archives, history, supervisor];
            let [signalled, pushes_ready, store_ready, document_ready, archives_ready, history_ready, is_orphaned] =
                self.doors.wait(before, deadline, fds);
            let now = self.make_sure(clock::now())?;
            self.receive(now);
            if document_ready {
                self.take_documents(now);
            }
            self.archives.look_at_room(now.mono);
            if let Some(supervisor) = self.supervisor.take_if(|_| is_orphaned) {
                log::error!("the supervisor (process {}) has died", supervisor.pid());
                self.sequencer.controller().handle_orphaned(now);
            }
            if archives_ready {
                self.take_archives(now);
            }
            if history_ready {
                self.take_history(now);
            }
            self.pusher.turn(now.mono, pushes_ready);
            self.acknowledge(now);
            if store_ready {
                self.take_outcome(now)?;
            }
            self.sequencer.controller().handle_timeout(now);
            self.stay_leader(now);
            self.sequencer.controller().handle_push_room(|address| self.pusher.room(address));
            self.depart(now);
            // The records are freed after the answers that have waited for them.
            self.stored.clear();
            if signalled && let Some(ending) = self.ending(&signals.read(), config, reload) {
                return Ok(ending);
            }
            if let Some(mut idle) = self.idle.take() {
                let ends = idle.handle_turn(now.mono, || self.is_idle());
                self.idle = Some(idle);
                if ends {
                    log::info!("nothing was to be done for as long as IDLE_STOP allows: stopping");
                    Self::tell_idle();
                    return Ok(Ending::Idle);
                }
            }
        }
    }

    fn receive(&mut self, now: Now) {
        for door in self.doors.numbers() {
            let mut bytes = 0;
            for _ in 0..REQUESTS_PER_TURN {
                let Some(request) = self.doors.receive(door) else { break };
                bytes += request.body.as_ref().map_or(0, Vec::len);
                self.take(now, request);
                if bytes >= REQUEST_BYTES_PER_TURN {
                    break;
                }
            }
        }
        while let Some(connection) = self.doors.poll_closed() {
            self.sequencer.handle_disconnected(connection);
        }
    }

    fn take(&mut self, now: Now, Request { connection, to, body }: Request) {
        let read = match body {
            Ok(body) if Documents::is_long(&body) => return self.documents.read(Unread { connection, to, body }),
            body => self.admission.read(body),
        };
        match self.admission.admit(self.sequencer.controller(), &to, read) {
            Ok((kind, Message::Client(Ask::History(question)))) => {
                if let Err((to, refusal)) = self.history.ask(to, kind, question) {
                    self.sequencer.handle_refused(now, Route { to, kind }, refusal);
                }
            }
            Ok((kind, message)) => {
                match &message {
                    Message::Agent(_, of_agent) => {
                        self.doors.exempt(&to);
                        // The first message of an agent is a heartbeat.
                        if let FromAgent::Heartbeat(_) = of_agent {
                            self.doors.see_agent();
                        }
                    }
                    Message::Client(request) => self.look_at_archives(now, request),
                }
                self.sequencer.handle_message(now, connection, Route { to, kind }, message);
            }
            Err((kind, refusal)) => self.sequencer.handle_refused(now, Route { to, kind }, refusal),
        }
    }

    fn take_documents(&mut self, now: Now) {
        while let Some(Document { connection, to, message, plan }) = self.documents.poll() {
            let route = |to, kind| Route { to, kind };
            match (self.admission.admit(self.sequencer.controller(), &to, message), plan) {
                (Ok((kind, _)), Some(Err(refusal))) | (Err((kind, refusal)), _) => {
                    self.sequencer.handle_refused(now, route(to, kind), refusal);
                }
                (Ok((kind, Message::Client(Ask::GraphSubmit(submit)))), Some(Ok(plan))) => {
                    let request = Ask::GraphSubmit(submit);
                    self.look_at_archives(now, &request);
                    let Ask::GraphSubmit(submit) = request else { unreachable!("it is the submit of a graph") };
                    self.sequencer.handle_planned(now, connection, route(to, kind), *submit, plan);
                }
                (Ok((kind, message)), _) => {
                    self.sequencer.handle_message(now, connection, route(to, kind), message);
                }
            }
        }
    }

    /// Sends the answers of the history.
    fn take_history(&mut self, now: Now) {
        while let Some((to, body)) = self.history.poll_answer() {
            if let Err(why) = self.doors.send(to, body, Duration::ZERO) {
                log::debug!("an answer of the history was not sent: {why:?}");
                self.dropped += 1;
            }
        }
        while let Some(incident) = self.history.poll_incident() {
            self.sequencer.controller().handle_incident(now, incident);
        }
    }

    /// Handles the frames that receivers of pushes have sent back.
    fn acknowledge(&mut self, now: Now) {
        while let Some(received) = self.pusher.poll_acknowledgement() {
            if let Some((task, pushes)) = publish::decode_acknowledgement(&received.frame) {
                self.sequencer.controller().handle_acknowledgement(now, task, pushes, &received.from);
            }
        }
    }

    fn take_queue(&mut self, now: Now) {
        let Some(queue) = self.writer.take_queue() else { return };
        if let Some(metrics) = &self.metrics {
            metrics.leads(&queue);
        }
        self.sequencer.controller().handle_queue(now, queue);
    }

    /// Handles the result of a commit.
    ///
    /// # Errors
    /// When the contents of the disk are unknown.
    fn take_outcome(&mut self, now: Now) -> Result<(), ControllerError> {
        let outcome = self.writer.poll_outcome();
        self.take_queue(now);
        let Some(outcome) = outcome else { return Ok(()) };
        if let Some(metrics) = &self.metrics {
            metrics.committed(now.mono.since(self.commit_began), outcome.is_ok());
        }
        match outcome {
            Ok(records) => {
                if let Some(lease) = &mut self.lease {
                    lease.renewed(self.commit_began);
                }
                self.stored = records;
                let since = self.sequencer.trouble_since();
                let is_here = self.lease.is_none();
                let has_room = since.is_none() || !is_here || !disk_room::is_short(&self.state_dir);
                let recovered = self.sequencer.handle_stored(now, has_room);
                if let Some(since) = since.filter(|_| recovered) {
                    let sentence = format!("the store can be written again, after {}", span(now.wall.since(since)));
                    log::info!("{sentence}");
                    incidents::note(IncidentKind::StoreWell, sentence);
                }
            }
            Err((error @ (CommitError::Later(_) | CommitError::Unknown(_)), records)) => {
                let is_missing = matches!(error, CommitError::Unknown(_));
                let why = match &self.lease {
                    None => disk_room::with_room(error.to_string(), &self.state_dir),
                    Some(_) => error.to_string(),
                };
                let is_new = self.sequencer.handle_trouble(now, &why, records, is_missing);
                if is_new {
                    log::error!("the store cannot be written: {why}; submits are refused until it can");
                    incidents::note(IncidentKind::StoreTrouble, format!("the store could not be written: {why}"));
                }
            }
            Err((CommitError::Deposed(why), _)) => {
                if let Err(error) = incidents::leave(&self.state_dir, IncidentKind::Deposed, &why) {
                    log::warn!("an incident cannot be left in {}: {error}", self.state_dir.display());
                }
                return Err(ControllerError::Deposed(why));
            }
            Err((fatal, _)) => return Err(fatal.into()),
        }
        Ok(())
    }

    fn reply(&mut self, now: Now, route: Route<Address>, mut reply: Reply, delay_max: Duration) {
        let Route { to, kind } = route;
        let controller = self.sequencer.controller();
        let body = to.encode(kind, &mut reply, self.page_bytes, |task| controller.has_command(Repeated::Task(task)));
        if let Err(why) = self.doors.send(to, body, delay_max) {
            log::debug!("an answer to {kind} was not sent: {why:?}");
            self.dropped += 1;
            self.sequencer.handle_undelivered(now, &reply);
        }
    }

    /// Ends a turn.
    fn depart(&mut self, now: Now) {
        let mut commit = None;
        while let Some(departure) = self.sequencer.poll_departure(now) {
            match departure {
                Departure::Reply { route, reply, delay_max } => self.reply(now, route, reply, delay_max),
                Departure::Publish(message) => self.doors.publish(&publish::encode(&message)),
                Departure::Flush => self.doors.flush(),
                Departure::Commit(records) => commit = Some(records),
                Departure::Push { number, record, by } => self.push(now, by, Change::new(number, &record)),
                Departure::JobStatus(status) => self.show_job(now, &status),
                Departure::GraphStatus(change) => self.show_graph(now, &change),
                Departure::Tool(order) => self.archives.order(order),
                Departure::PushAgain(record) => {
                    if let Some(address) = &record.address {
                        self.pusher.push_by(now.mono, now.mono, address, publish::encode_status(&record));
                    }
                }
            }
        }
        logging::write(self.sequencer.controller().take_log());
        for (kind, text) in self.sequencer.controller().take_incidents() {
            incidents::note(kind, text);
        }
        self.doors.flush();
        self.pusher.flush(now.mono);
        // Last: the thread of the store, which this wakes, may take the core of this loop, and every message of the turn
        // would wait for it.
        if let Some(records) = commit {
            self.commit_began = now.mono;
            self.writer.commit(records);
        }
        if let Some(metrics) = &self.metrics {
            metrics.measured(self.doors.connections(), self.pusher.counts().dropped());
        }
    }

    fn push(&mut self, now: Now, by: Mono, change: Change<'_>) {
        self.doors.show(&change);
        if let Some(address) = &change.record.address {
            self.pusher.push_by(now.mono, by, address, change.into_message());
        }
    }

    /// Publishes the state of a job, and pushes it to the addresses that want it.
    fn show_job(&mut self, now: Now, status: &JobStatus) {
        let message = job::encode_status(status);
        self.doors.publish(&message);
        for address in &status.receivers {
            self.pusher.push_by(now.mono, now.mono, address, message.clone());
        }
    }

    /// Publishes a change of a graph, and pushes it to its address.
    fn show_graph(&mut self, now: Now, change: &GraphChange) {
        let message = graph::encode_status(change);
        self.doors.publish(&message);
        if let Some(address) = &change.address {
            self.pusher.push_by(now.mono, now.mono, address, message);
        }
    }
}
