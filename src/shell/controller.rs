//! The controller's process: sockets around the engine.
//!
//! A turn is one wait, then everything that is ready goes through the engine, then its effects: what needs no promise leaves
//! at once, the records go to the store, and the promises leave in the turn that learns of the commit (design, section 4). The
//! addresses that are pushed to have a slice of each turn ([`super::push`]).

mod connection;
mod error;
mod settings;

use std::collections::BTreeMap;
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
use crate::engine::controller::{
    Answer, Claim, Controller, Effect, Ledger, Promises, Record, Ticket, UNHURRIED, claim_of_reply,
};
use crate::protocol::envelope::{self, Received, ReplyTo};
use crate::protocol::publish;
use crate::protocol::reply::{self, PageBytes, Reply};
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
    let engine = Controller::restore(settings::engine(config), rand::random(), clock::now(), stored);
    let page_bytes = PageBytes(config.controller.details_bytes_max);
    let prompts = config.prompt.hosted.then(|| Hosted::start(config)).transpose()?;
    announce(config, &*ports, prompts.as_ref())?;
    let mut service = Service {
        engine,
        ports,
        pusher,
        ledger: Ledger::default(),
        writer: Writer::start(store)?,
        rules,
        page_bytes,
        routes: BTreeMap::new(),
        tickets: 0,
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

/// What leaves only after the commit of its turn.
#[derive(Debug)]
enum Promise {
    Reply(ReplyTo, &'static str, Reply),
    /// An answer that a store in trouble does not hold up.
    View(ReplyTo, &'static str, Reply),
    /// Whoever gets it does not wait for it.
    Confirmation(ReplyTo, &'static str, Reply),
    /// Written to its address by then.
    Push(Mono, Box<TaskRecord>),
    PushAgain(Box<TaskRecord>),
}

/// What a turn has come to, beside its promises.
#[derive(Debug, Default)]
struct Decided {
    records: Vec<Record>,
    /// Each by when it is to be written to its address.
    pushes: Vec<(Mono, Box<TaskRecord>)>,
}

struct Service {
    engine: Controller,
    ports: Box<dyn Ports>,
    pusher: Pusher,
    ledger: Ledger<Promise>,
    writer: Writer,
    rules: Rules,
    page_bytes: PageBytes,
    /// Where the answers to parked requests go, and of which kind they are.
    routes: BTreeMap<Ticket, (ReplyTo, &'static str)>,
    tickets: u64,
    /// Frames that nobody could be answered for, and answers that nobody took.
    dropped: u64,
}

impl Service {
    fn serve(&mut self, signals: &mut Signals) -> Result<(), ControllerError> {
        loop {
            let before = clock::now().mono;
            let engine_deadline = self.engine.poll_timeout().map(|(at, _)| at);
            let deadlines = engine_deadline.into_iter().chain(self.ledger.poll_timeout());
            let deadline = deadlines.chain(self.pusher.poll_timeout(before)).min();
            let fds = [signals.as_fd(), self.pusher.as_fd(), self.writer.as_fd()];
            let ready = self.ports.wait(before, deadline, &fds);
            let now = clock::now();
            let mut promises = Promises::default();
            self.receive(now, &mut promises);
            self.pusher.turn(now.mono, ready[1]);
            self.acknowledge(now);
            if ready[2] {
                self.settle(now)?;
            }
            self.engine.handle_timeout(now);
            self.finish_turn(now, promises);
            if ready[0]
                && let Some(signal) = signals.read().first()
            {
                log::info!("{signal}: stopping");
                return Ok(());
            }
        }
    }

    fn receive(&mut self, now: Now, promises: &mut Promises<Promise>) {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(frames) = self.ports.receive() else { break };
            match envelope::open(frames) {
                Received::Request(reply_to, body) => self.handle(now, reply_to, &body, promises),
                Received::ExtraFrames(reply_to) => {
                    let refusal =
                        Refusal::new(Code::NotJson, "the message has more than one frame; send one JSON object");
                    self.answer(now, reply_to, kind::ERROR, refusal.into(), promises);
                }
                Received::Drop => self.dropped += 1,
            }
        }
        while let Some(peer) = self.ports.poll_closed() {
            for ticket in self.engine.handle_disconnected(connection(&peer)) {
                self.routes.remove(&ticket);
            }
        }
    }

    fn handle(&mut self, now: Now, reply_to: ReplyTo, body: &[u8], promises: &mut Promises<Promise>) {
        let (kind, message) = match request::parse(body, &self.rules) {
            Ok(parsed) => parsed,
            Err(refused) => return self.answer(now, reply_to, refused.kind, refused.refusal.into(), promises),
        };
        self.tickets += 1;
        let ticket = Ticket { connection: connection(reply_to.peer()), number: self.tickets };
        let answer = match message {
            Message::Client(request) => self.engine.handle_request(now, ticket, request),
            Message::Agent(sender, message) => {
                self.ports.keep(reply_to.peer());
                self.engine.handle_agent(now, ticket, &sender, message)
            }
        };
        match answer {
            Answer::Now(reply) => self.answer(now, reply_to, kind, reply, promises),
            Answer::Later => {
                self.routes.insert(ticket, (reply_to, kind));
            }
            Answer::NowAndLater(reply) => {
                self.routes.insert(ticket, (reply_to.clone(), kind::TASK_APPLY));
                // The agent goes on with the next task; that the end of the last one is stored, it can learn later.
                promises.add(now.mono + UNHURRIED, Promise::Confirmation(reply_to, kind, reply));
            }
        }
    }

    fn answer(&mut self, now: Now, to: ReplyTo, kind: &'static str, reply: Reply, promises: &mut Promises<Promise>) {
        self.answer_with(now, claim_of_reply(&reply), (to, kind), reply, promises);
    }

    fn answer_with(
        &mut self,
        now: Now,
        claim: Claim,
        (to, kind): (ReplyTo, &'static str),
        reply: Reply,
        promises: &mut Promises<Promise>,
    ) {
        match claim {
            _ if !claim.waits(self.ledger.is_in_trouble()) => self.send(now, to, kind, &reply),
            Claim::View => promises.add(now.mono, Promise::View(to, kind, reply)),
            Claim::Promise | Claim::Nothing => promises.add(now.mono, Promise::Reply(to, kind, reply)),
        }
    }

    fn send(&mut self, now: Now, to: ReplyTo, kind: &str, reply: &Reply) {
        let body = reply::encode(kind, reply, self.page_bytes);
        let Err(why) = self.ports.send(to.frames(body)) else { return };
        self.dropped += 1;
        if let Reply::Assigned(record) = reply {
            log::debug!("task {} did not reach its agent: {why:?}", record.id);
            self.engine.handle_undelivered(now, record.id, record.round);
        }
    }

    /// Does what the engine has decided; then nothing of this turn is left, but for the commit.
    fn finish_turn(&mut self, now: Now, mut promises: Promises<Promise>) {
        loop {
            let Decided { records, pushes } = self.apply_effects(now, &mut promises);
            let is_over = records.is_empty() && pushes.is_empty() && promises.is_empty();
            let kept = self.ledger.handle_turn(now.mono, records, std::mem::take(&mut promises));
            // First the agents, which stand still until they have their tasks; then the disk, which goes on by itself.
            self.ports.flush();
            if let Some(records) = self.ledger.poll_commit(now.mono) {
                self.writer.commit(records);
            }
            for (by, record) in pushes {
                self.push(now, by, &record);
            }
            self.keep(now, kept);
            if is_over {
                break;
            }
            // Once more: a promise that met no peer is news for the engine.
        }
        self.ports.flush();
        self.pusher.flush(now.mono);
    }

    /// Takes what a commit has come to.
    ///
    /// # Errors
    /// When nobody can say what the disk holds.
    fn settle(&mut self, now: Now) -> Result<(), ControllerError> {
        match self.writer.poll_outcome() {
            None => {}
            Some(Ok(())) => {
                let kept = self.ledger.handle_stored();
                self.engine.handle_committed(kept.newest);
                if kept.recovered {
                    log::info!("the store can be written again");
                    self.engine.handle_store(None);
                }
                self.keep(now, kept.promises);
            }
            Some(Err((CommitError::Later(why), records))) => {
                if let Some(promises) = self.ledger.handle_trouble(now.mono, records) {
                    log::error!("the store cannot be written: {why}; submits are refused until it can");
                    self.refuse_unstored(now, &why.to_string(), promises);
                    self.engine.handle_store(Some(why.to_string()));
                }
            }
            Some(Err((fatal, _))) => return Err(fatal.into()),
        }
        Ok(())
    }

    fn apply_effects(&mut self, now: Now, promises: &mut Promises<Promise>) -> Decided {
        let mut decided = Decided::default();
        while let Some(effect) = self.engine.poll_effect() {
            let claim = effect.claim();
            match effect {
                Effect::Record(record) => decided.records.push(record),
                Effect::Publish(message) => self.ports.publish(publish::encode(&message)),
                Effect::Push(record) => {
                    let by = now.mono + record.slack();
                    if claim.waits(self.ledger.is_in_trouble()) {
                        promises.add(by, Promise::Push(by, record));
                    } else {
                        decided.pushes.push((by, record));
                    }
                }
                Effect::PushAgain(record) => promises.add(now.mono, Promise::PushAgain(record)),
                Effect::Reply(ticket, reply) => {
                    let Some(route) = self.routes.remove(&ticket) else { continue };
                    self.answer_with(now, claim, route, reply, promises);
                }
            }
        }
        decided
    }

    /// What was promised rests on the disk.
    fn keep(&mut self, now: Now, promises: Vec<Promise>) {
        for promise in promises {
            match promise {
                Promise::Reply(to, kind, reply) | Promise::View(to, kind, reply) => self.send(now, to, kind, &reply),
                Promise::Confirmation(to, kind, reply) => {
                    let body = reply::encode(kind, &reply, self.page_bytes);
                    self.dropped += u64::from(self.ports.send_within(UNHURRIED, to.frames(body)).is_err());
                }
                Promise::Push(by, record) => self.push(now, by, &record),
                Promise::PushAgain(record) => self.push_to_address(now, now.mono, &record),
            }
        }
    }

    /// Submits that could not be stored are refused as if they had never come; other promises wait for the store. Who has only
    /// looked at a task does not.
    fn refuse_unstored(&mut self, now: Now, why: &str, promises: Vec<Promise>) {
        for promise in promises {
            match promise {
                Promise::Reply(to, kind, Reply::Submitted { task, duplicate, .. })
                    if self.engine.handle_unstored(now, task, duplicate) =>
                {
                    let message = format!("the task cannot be stored ({why}); submit it again later");
                    self.send(now, to, kind, &Refusal::new(Code::LimitReached, message).into());
                }
                Promise::View(to, kind, reply) => self.send(now, to, kind, &reply),
                promise => self.ledger.hold(promise),
            }
        }
    }

    fn push(&mut self, now: Now, by: Mono, record: &TaskRecord) {
        if self.ports.is_watched() {
            self.ports.publish(publish::encode_status(record));
        }
        self.push_to_address(now, by, record);
    }

    fn push_to_address(&mut self, now: Now, by: Mono, record: &TaskRecord) {
        if let Some(address) = &record.address {
            self.pusher.push_by(now.mono, by, address, publish::encode_status(record));
        }
    }

    /// What receivers of pushes have sent back.
    fn acknowledge(&mut self, now: Now) {
        while let Some(received) = self.pusher.poll_acknowledgement() {
            if let Some((task, pushes)) = publish::decode_acknowledgement(&received.frame) {
                self.engine.handle_acknowledgement(now, task, pushes, &received.from);
            }
        }
    }

    /// Answers whoever waits for an answer, stores what is decided, and delivers what has been pushed.
    fn stop(mut self) -> Result<(), ControllerError> {
        let now = clock::now();
        self.engine.handle_stop();
        self.ledger.close();
        let mut promises = Promises::default();
        self.receive(now, &mut promises);
        self.finish_turn(now, promises);
        while !self.ledger.is_at_rest() {
            self.ports.wait(clock::now().mono, None, &[self.writer.as_fd()]);
            let now = clock::now();
            self.settle(now)?;
            self.finish_turn(now, Promises::default());
        }
        let counts = self.pusher.stop();
        self.ports.close();
        log::info!("controller stopped; {} messages dropped; pushes: {counts:?}", self.dropped);
        Ok(())
    }
}
