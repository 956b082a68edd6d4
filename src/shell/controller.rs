//! The controller's process: sockets around the engine.
//!
//! A turn is one wait; then everything that is ready goes to the [`Sequencer`], and its departures to the sockets, the store
//! and the addresses that are pushed to, which have a slice of each turn ([`super::push`]). What leaves when is decided there
//! (design, section 4).

mod connection;
mod error;
mod settings;

use std::io::Write as _;
use std::os::fd::AsFd as _;

use nix::sys::signal::Signal;

use connection::connection;
pub use error::ControllerError;

use super::clock;
use super::lock::StateLock;
use super::prompt::Hosted;
use super::push::Pusher;
use super::signals::Signals;
use super::store::{CommitError, Store, Writer};
use super::transport::{self, Ports};
use super::trust::{self, Part};
use crate::config::{Config, Exposure};
use crate::engine::controller::{Controller, Departure, Route, Sequencer};
use crate::protocol::envelope::{self, Received, ReplyTo};
use crate::protocol::publish;
use crate::protocol::reply::{self, PageBytes};
use crate::protocol::request::{self, Message, Rules};
use crate::protocol::words::kind;
use crate::protocol::{Code, Refusal};
use crate::types::{Mono, Now, TaskRecord};

/// Messages of one turn: many share a commit, and no flood keeps a deadline waiting for long.
const MESSAGES_PER_TURN: usize = 256;

/// Runs a controller until it gets SIGTERM or SIGINT.
///
/// # Errors
/// [`ControllerError`], when it cannot start.
pub fn run(config: &Config) -> Result<(), ControllerError> {
    // Before any thread is started, so that all of them leave these signals to the loop.
    let mut signals = Signals::install(&[Signal::SIGTERM, Signal::SIGINT])?;
    trust::check(config, Part::Controller)?;
    let _lock = StateLock::acquire(&config.paths.state_dir, "controller")?;
    let store = Store::open(&config.paths.state_dir, config.controller.durability)?;
    let descriptors = super::limits::raise_descriptor_limit()?;
    let watchable = publish::prefix(kind::TASK_STATUS);
    let ports = transport::bind(config, watchable, descriptors)?;
    let rules = settings::rules(config, &[ports.requests(), ports.broadcasts()]);
    let pusher = Pusher::start(settings::push(config, &rules, transport::push_keys(config)?))?;
    let stored = store.load(&rules)?;
    log::info!("{} tasks are stored", stored.tasks.len());
    let controller = Controller::restore(settings::engine(config), rand::random(), clock::now(), stored);
    let page_bytes = PageBytes(config.controller.details_bytes_max);
    let prompts = config.prompt.hosted.then(|| Hosted::start(config)).transpose()?;
    announce(config, &*ports, prompts.as_ref())?;
    let mut service = Service {
        sequencer: Sequencer::new(controller),
        ports,
        pusher,
        writer: Writer::start(store)?,
        rules,
        page_bytes,
        dropped: 0,
    };
    let served = service.serve(&mut signals);
    if let Some(prompts) = prompts {
        prompts.stop()?;
    }
    served?;
    service.stop()
}

fn announce(config: &Config, ports: &dyn Ports, prompts: Option<&Hosted>) -> std::io::Result<()> {
    let (requests, broadcasts) = (ports.requests(), ports.broadcasts());
    if config.exposure() == Exposure::Network {
        log::warn!("{requests} is open to the network, and whoever reaches it runs tools: ALLOW_INSECURE is set");
    }
    for warning in trust::warnings(config) {
        log::warn!("{warning}");
    }
    log::info!("controller ready: rep {requests} pub {broadcasts}");
    let mut out = std::io::stdout();
    writeln!(out, "llts controller ready: rep {requests} pub {broadcasts}")?;
    if let Some(prompts) = prompts {
        writeln!(out, "{prompts}")?;
    }
    out.flush()
}

struct Service {
    sequencer: Sequencer<ReplyTo>,
    ports: Box<dyn Ports>,
    pusher: Pusher,
    writer: Writer,
    rules: Rules,
    page_bytes: PageBytes,
    /// Messages without a return address, and answers that could not be sent.
    dropped: u64,
}

impl Service {
    fn serve(&mut self, signals: &mut Signals) -> Result<(), ControllerError> {
        loop {
            let before = clock::now().mono;
            let deadline = self.sequencer.poll_timeout().map(|(at, _)| at);
            let deadline = deadline.into_iter().chain(self.pusher.poll_timeout(before)).min();
            let fds = [signals.as_fd(), self.pusher.as_fd(), self.writer.as_fd()];
            let ready = self.ports.wait(before, deadline, &fds);
            let now = clock::now();
            self.receive(now);
            self.pusher.turn(now.mono, ready[1]);
            self.acknowledge(now);
            if ready[2] {
                self.take_outcome(now)?;
            }
            self.sequencer.handle_timeout(now);
            self.depart(now);
            if ready[0]
                && let Some(signal) = signals.read().first()
            {
                log::info!("{signal}: stopping");
                return Ok(());
            }
        }
    }

    fn receive(&mut self, now: Now) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(frames) = self.ports.receive() else { break };
            match envelope::open(frames) {
                Received::Request(to, body) => self.read(now, to, &body),
                Received::ExtraFrames(to) => {
                    let message = "the message has more than one frame; send one JSON object";
                    let route = Route { to, kind: kind::ERROR };
                    self.sequencer.handle_refused(now, route, Refusal::new(Code::NotJson, message));
                }
                Received::Drop => self.dropped += 1,
            }
        }
        while let Some(peer) = self.ports.poll_closed() {
            self.sequencer.handle_disconnected(connection(&peer));
        }
    }

    fn read(&mut self, now: Now, to: ReplyTo, body: &[u8]) {
        match request::parse(body, &self.rules) {
            Ok((kind, message)) => {
                if let Message::Agent(..) = message {
                    self.ports.keep(to.peer());
                }
                let connection = connection(to.peer());
                self.sequencer.handle_message(now, connection, Route { to, kind }, message);
            }
            Err(refused) => {
                let route = Route { to, kind: refused.kind };
                self.sequencer.handle_refused(now, route, refused.refusal);
            }
        }
    }

    /// What receivers of pushes have sent back.
    fn acknowledge(&mut self, now: Now) {
        while let Some(received) = self.pusher.poll_acknowledgement() {
            if let Some((task, pushes)) = publish::decode_acknowledgement(&received.frame) {
                self.sequencer.handle_acknowledgement(now, task, pushes, &received.from);
            }
        }
    }

    /// Takes the outcome of a commit.
    ///
    /// # Errors
    /// When nobody can say what the disk holds.
    fn take_outcome(&mut self, now: Now) -> Result<(), ControllerError> {
        match self.writer.poll_outcome() {
            None => {}
            Some(Ok(())) => {
                let recovered = self.sequencer.handle_stored();
                if recovered {
                    log::info!("the store can be written again");
                }
            }
            Some(Err((CommitError::Later(why), records))) => {
                let is_new = self.sequencer.handle_trouble(now, &why.to_string(), records);
                if is_new {
                    log::error!("the store cannot be written: {why}; submits are refused until it can");
                }
            }
            Some(Err((fatal, _))) => return Err(fatal.into()),
        }
        Ok(())
    }

    /// Ends a turn.
    fn depart(&mut self, now: Now) {
        while let Some(departure) = self.sequencer.poll_departure(now) {
            match departure {
                Departure::Reply { route: Route { to, kind }, reply, delay_max } => {
                    let body = reply::encode(kind, &reply, self.page_bytes);
                    if let Err(why) = self.ports.send(to.frames(body), delay_max) {
                        log::debug!("an answer to {kind} was not sent: {why:?}");
                        self.dropped += 1;
                        self.sequencer.handle_undelivered(now, &reply);
                    }
                }
                Departure::Publish(message) => self.ports.publish(publish::encode(&message)),
                Departure::Flush => self.ports.flush(),
                Departure::Commit(records) => self.writer.commit(records),
                Departure::Push { record, by } => {
                    if self.ports.is_watched() {
                        self.ports.publish(publish::encode_status(&record));
                    }
                    self.push(now, by, &record);
                }
                Departure::PushAgain(record) => self.push(now, now.mono, &record),
            }
        }
        self.ports.flush();
        self.pusher.flush(now.mono);
    }

    fn push(&mut self, now: Now, by: Mono, record: &TaskRecord) {
        if let Some(address) = &record.address {
            self.pusher.push_by(now.mono, by, address, publish::encode_status(record));
        }
    }

    /// Answers every parked request, stores what is decided, and delivers what has been pushed.
    fn stop(mut self) -> Result<(), ControllerError> {
        let now = clock::now();
        self.sequencer.handle_stop();
        self.receive(now);
        self.depart(now);
        while !self.sequencer.is_at_rest() {
            self.ports.wait(clock::now().mono, None, &[self.writer.as_fd()]);
            let now = clock::now();
            self.take_outcome(now)?;
            self.depart(now);
        }
        let counts = self.pusher.stop();
        self.ports.close();
        log::info!("controller stopped; {} messages dropped; pushes: {counts:?}", self.dropped);
        Ok(())
    }
}
