//! Scenarios of the prompt master, on virtual time, with folders made of names and every invariant checked after every
//! step.
#![cfg(test)]

mod answers;
mod chaos;
mod checks;
mod ends;
mod leases;
mod limits;
mod pace;
mod rests;
mod rules;
mod tails;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::wire::{FromWorker, MessageError, Offer, Order, Request, ResultPart, Welcome, WorkerState};
use base::{Origin, Wall};

/// The content of a file in `pending/`.
#[derive(Clone, Debug)]
enum Content {
    Prompt(Front, String),
    Unfit,
    Unmovable,
}

/// A master, its folders, and its messages.
struct World {
    master: Master,
    now: Now,
    folders: Folders,
    notes: Notes,
    answers: Answers,
    /// Messages to each connection that the test has not read.
    inboxes: BTreeMap<Connection, Vec<FromMaster>>,
    /// The time of the last message to a worker that does not split the stream.
    last_sent: BTreeMap<Connection, Mono>,
    closing: BTreeSet<Connection>,
    aborted: BTreeSet<Connection>,
    connections: u64,
    exited: bool,
}

#[derive(Default)]
struct Folders {
    pending: BTreeMap<FileName, Content>,
    working: BTreeMap<FileName, Content>,
    done: BTreeSet<FileName>,
    failed: BTreeSet<FileName>,
    reasons: BTreeMap<FileName, Option<String>>,
    /// Whether moves out of `working/` fail.
    stuck: bool,
}

/// The notes for a restarted master.
#[derive(Default)]
struct Notes {
    fails: BTreeMap<FileName, u32>,
    runs: BTreeMap<FileName, (RequestId, Option<Wall>)>,
    ends: BTreeMap<FileName, Destination>,
    losses: BTreeMap<FileName, u32>,
    gates: BTreeMap<String, Wall>,
    paused: Option<String>,
}

/// The answers of workers, and the disk for them.
#[derive(Default)]
struct Answers {
    parts: Vec<ResultPart>,
    /// The runs whose answers are stored.
    stored: BTreeSet<RequestId>,
    /// Whether no answer can be stored.
    is_full: bool,
    /// Whether no answer arrives as a whole.
    is_torn: bool,
}

fn settings() -> Settings {
    Settings {
        timer_interval: Duration::from_secs(10),
        request_timeout: Duration::from_secs(3),
        join_timeout: Duration::from_secs(5),
        disconnect_timeout: Duration::from_secs(5),
        shutdown_timeout: Duration::from_secs(10),
        retry_after: Duration::from_secs(60),
        keep_alive: true,
        workers_max: 10,
        connections_max: 1000,
        sending_bytes_max: 1000,
        secret: None,
        refusal_pause: Duration::from_secs(1),
        lease: Duration::from_secs(100),
        result_bytes_max: 1000,
        root_id: "root".into(),
        starts_max: None,
        timeout: None,
        cost_max: None,
        losses_max: None,
    }
}

impl World {
    fn new(files: &[&str]) -> Self {
        Self::with(settings(), files)
    }

    /// A master that ends when all files are processed.
    fn ending(files: &[&str]) -> Self {
        Self::with(Settings { keep_alive: false, ..settings() }, files)
    }

    fn with(settings: Settings, files: &[&str]) -> Self {
        let now = Now::default();
        let mut world = Self {
            master: Master::new(settings, 7, now, 0, 0),
            now,
            folders: Folders::default(),
            notes: Notes::default(),
            answers: Answers::default(),
            inboxes: BTreeMap::new(),
            last_sent: BTreeMap::new(),
            closing: BTreeSet::new(),
            aborted: BTreeSet::new(),
            connections: 0,
            exited: false,
        };
        for file in files {
            world.folders.pending.insert((*file).into(), Content::Prompt(Front::default(), format!("do {file}")));
        }
        world.settle();
        world
    }

    /// A file appears, and is noticed at once.
    fn appears(&mut self, name: &str, content: Content) {
        let front = if let Content::Prompt(front, _) = &content { front.clone() } else { Front::default() };
        self.folders.pending.insert(name.into(), content);
        self.master.handle_found(self.now, name.into(), &front);
        self.settle();
    }

    fn prompt(&mut self, name: &str, front: Front) {
        self.appears(name, Content::Prompt(front, format!("do {name}")));
    }

    fn connect(&mut self) -> Connection {
        self.connect_from("192.0.2.1:5000")
    }

    fn connect_from(&mut self, address: &str) -> Connection {
        self.connections += 1;
        let connection = Connection(self.connections);
        self.master.handle_connected(self.now, connection, Origin::new(address.parse().unwrap()));
        self.settle();
        connection
    }

    fn join(&mut self) -> Connection {
        let connection = self.connect();
        let secret = self.master.settings.secret.clone();
        self.says(
            connection,
            FromWorker::Join { worker: connection.0.to_string(), secret, splits: true, offer: Offer::default() },
        );
        assert_eq!(self.inboxes.get_mut(&connection).unwrap().remove(0), FromMaster::JoinAck);
        connection
    }

    fn says(&mut self, connection: Connection, message: FromWorker) {
        self.master.handle_message(self.now, connection, message);
        self.settle();
    }

    /// A worker that resumes joins, with this run.
    fn rejoin(&mut self, run: Option<&RequestId>, gate: Option<&str>) -> (Connection, Welcome) {
        let connection = self.connect();
        let offer = Offer { resumes: true, run: run.cloned(), gate: gate.map(str::to_owned), tails: true };
        let worker = connection.0.to_string();
        self.says(connection, FromWorker::Join { worker, secret: None, splits: true, offer });
        match self.inboxes.get_mut(&connection).unwrap().remove(0) {
            FromMaster::Welcome(welcome) => (connection, *welcome),
            other => panic!("{other:?}"),
        }
    }

    /// A worker that resumes takes the next prompt.
    fn takes_as_run(&mut self, connection: Connection) -> RequestId {
        let id = self.request(connection).id;
        self.says(connection, FromWorker::RequestAck(id.clone()));
        id
    }

    fn orders(&mut self, connection: Connection, order: Order) {
        let secret = self.master.settings.secret.clone();
        self.says(connection, FromWorker::Order { order, secret });
    }

    fn done(&mut self, connection: Connection) {
        self.says(connection, FromWorker::Done { text: "not looked at".into() });
    }

    fn fails(&mut self, connection: Connection) {
        self.says(connection, FromWorker::Failed { reason: "x".into(), is_loss: false });
    }

    fn limited(&mut self, connection: Connection, seconds: Option<u64>) {
        let retry_after = seconds.map(Duration::from_secs);
        self.says(connection, FromWorker::UsageLimited { retry_after, is_local: false, reason: String::new() });
    }

    /// The REQUEST that a connection has just got.
    #[track_caller]
    fn request(&mut self, connection: Connection) -> Request {
        match self.heard(connection).as_slice() {
            [FromMaster::Request(request)] => request.clone(),
            other => panic!("{connection:?} got {other:?}"),
        }
    }

    /// Acknowledges the REQUEST that a connection has just got, and returns its file.
    #[track_caller]
    fn takes(&mut self, connection: Connection) -> String {
        let request = self.request(connection);
        self.says(connection, FromWorker::RequestAck(request.id));
        assert_eq!(self.state(connection), Some(WorkerState::Working));
        request.file.unwrap()
    }

    /// Everything that a connection got since the last call.
    fn heard(&mut self, connection: Connection) -> Vec<FromMaster> {
        self.inboxes.remove(&connection).unwrap_or_default()
    }

    fn closed(&mut self, connection: Connection) {
        self.closing.remove(&connection);
        self.master.handle_closed(self.now, connection);
        self.settle();
    }

    fn state(&self, connection: Connection) -> Option<WorkerState> {
        self.master.peers.get(connection).map(peer::Peer::shown_state)
    }

    /// Lets time pass, deadline by deadline, while workers answer their CHECKs.
    fn wait(&mut self, seconds: f64) {
        self.wait_while(seconds, |_| true);
    }

    fn wait_while(&mut self, seconds: f64, answers: impl Fn(Connection) -> bool) {
        let end = self.now.mono + Duration::from_secs_f64(seconds);
        while let Some(at) = self.master.poll_timeout().map(|(at, _)| at).filter(|at| *at <= end) {
            self.pass_to(at.max(self.now.mono));
            self.master.handle_timeout(self.now);
            self.settle();
            let checks: Vec<_> =
                self.inboxes.iter().flat_map(|(to, all)| all.iter().map(|one| (*to, one.clone()))).collect();
            for (connection, message) in checks {
                if let FromMaster::Check(id) = message {
                    self.inboxes.get_mut(&connection).unwrap().retain(|one| !matches!(one, FromMaster::Check(_)));
                    if answers(connection) {
                        self.says(connection, FromWorker::CheckAck(id));
                    }
                }
            }
        }
        self.pass_to(end);
    }

    fn pass_to(&mut self, moment: Mono) {
        self.now.wall = self.now.wall + moment.since(self.now.mono);
        self.now.mono = moment;
    }

    /// The master is killed, and another one takes over the folders.
    fn restart(&mut self) {
        let (kept, left): (BTreeMap<_, _>, _) = std::mem::take(&mut self.folders.working)
            .into_iter()
            .partition(|(file, _)| self.notes.runs.contains_key(file) || self.notes.ends.contains_key(file));
        self.folders.pending.extend(left);
        self.inboxes.clear();
        self.closing.clear();
        self.master = Master::new(self.master.settings.clone(), 8, self.now, 0, 0).with_fails(self.notes.fails.clone());
        let runs = kept.iter().filter(|(file, _)| !self.notes.ends.contains_key(file)).map(|(file, content)| {
            let front = if let Content::Prompt(front, _) = content { front.clone() } else { Front::default() };
            let (run, away) = self.notes.runs[file].clone();
            KeptRun { file: file.clone(), front, run, away }
        });
        self.master.restore_losses(self.notes.losses.clone());
        self.master.restore_runs(self.now, runs.collect());
        self.master.restore_ends(self.notes.ends.clone().into_iter());
        self.folders.working = kept;
        self.master.restore_rests(self.now, self.notes.gates.clone().into_iter().collect(), self.notes.paused.clone());
        self.settle();
    }

    fn stop(&mut self) {
        self.master.handle_stop(self.now);
        self.settle();
    }

    /// Carries out the master's effects until there are none.
    fn settle(&mut self) {
        while let Some(effect) = self.master.poll_effect() {
            self.apply(effect);
        }
        self.master.sanity_check();
        self.folders.sanity_check();
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Send(connection, message) => {
                self.check_gap(connection, &message);
                self.inboxes.entry(connection).or_default().push(message);
            }
            Effect::Close(connection) => {
                self.closing.insert(connection);
            }
            Effect::Abort(connection) => {
                self.closing.remove(&connection);
                self.aborted.insert(connection);
            }
            Effect::Claim(file) => {
                let claimed = self.folders.claim(&file);
                self.master.handle_claimed(self.now, claimed);
            }
            Effect::Move(file, destination) => {
                let moved = self.folders.move_out(&file, &destination);
                match &moved {
                    Moved::To(_) => {
                        self.notes.runs.remove(&file);
                        self.notes.ends.remove(&file);
                    }
                    Moved::Stuck(_) if destination != Destination::Pending => {
                        self.notes.ends.insert(file.clone(), destination);
                    }
                    Moved::Stuck(_) | Moved::Vanished => {}
                }
                self.master.handle_moved(self.now, &file, moved);
            }
            Effect::Scan => {
                for (file, content) in &self.folders.pending {
                    if !self.master.is_known(file) {
                        let front =
                            if let Content::Prompt(front, _) = content { front.clone() } else { Front::default() };
                        self.master.handle_found(self.now, file.clone(), &front);
                    }
                }
                self.master.handle_room(self.now, self.answers.room());
                self.master.handle_scanned(self.now, &self.folders.pending.keys().cloned().collect());
            }
            Effect::NoteFails(file, 0) => drop(self.notes.fails.remove(&file)),
            Effect::NoteFails(file, fails) => drop(self.notes.fails.insert(file, fails)),
            Effect::NoteRun(file, run, away) => drop(self.notes.runs.insert(file, (run, away))),
            Effect::NoteLosses(file, 0) => drop(self.notes.losses.remove(&file)),
            Effect::NoteLosses(file, losses) => drop(self.notes.losses.insert(file, losses)),
            Effect::NoteGate(gate, Some(until)) => drop(self.notes.gates.insert(gate, until)),
            Effect::NoteGate(gate, None) => drop(self.notes.gates.remove(&gate)),
            Effect::NotePause(reason) => self.notes.paused = reason,
            Effect::NoteCost(..) | Effect::NoteCostMax(_) => {}
            Effect::ReadTail(client, query) => {
                let reason = format!("{} is read from {}", query.file, query.offset);
                self.master.handle_tail_read(self.now, client, Err(reason));
            }
            Effect::StorePart(part) => self.answers.parts.push(*part),
            Effect::StoreAnswer(run, ..) => {
                let outcome = self.answers.store(&run);
                self.master.handle_answer_stored(self.now, &run, outcome);
            }
            Effect::Exit => self.exited = true,
        }
    }

    /// The gap between messages lets one `recv` of a document's worker return one message.
    fn check_gap(&mut self, connection: Connection, message: &FromMaster) {
        let is_plain = |peer: &peer::Peer| peer.worker.is_some() && peer.pacing != peer::Pacing::Unpaced;
        if self.master.peers.get(connection).is_some_and(is_plain)
            && let Some(before) = self.last_sent.insert(connection, self.now.mono)
        {
            let gap = self.now.mono.since(before);
            assert!(
                gap >= Duration::from_millis(200),
                "{connection:?} gets {message:?} {gap:?} after the last message"
            );
        }
    }

    /// Pending, working, done, failed.
    fn counts(&self) -> [usize; 4] {
        self.folders.counts()
    }
}

impl Answers {
    fn room(&self) -> Result<(), String> {
        if self.is_full { Err("the disk is full".to_owned()) } else { Ok(()) }
    }

    fn store(&mut self, run: &RequestId) -> Result<(), NotStored> {
        if self.is_torn {
            return Err(NotStored::Torn("x".to_owned()));
        }
        self.room().map_err(NotStored::NoRoom)?;
        self.stored.insert(run.clone());
        Ok(())
    }
}

impl Folders {
    fn sanity_check(&self) {
        let names: BTreeSet<_> =
            self.pending.keys().chain(self.working.keys()).chain(&self.done).chain(&self.failed).collect();
        assert_eq!(names.len(), self.counts().iter().sum::<usize>(), "a file is in two folders");
    }

    fn claim(&mut self, file: &FileName) -> Result<Claimed, ClaimError> {
        match self.pending.remove(file) {
            None => Err(ClaimError::Vanished),
            Some(Content::Unmovable) => {
                self.pending.insert(file.clone(), Content::Unmovable);
                Err(ClaimError::Stuck("no".into()))
            }
            Some(Content::Unfit) => {
                self.working.insert(file.clone(), Content::Unfit);
                Err(ClaimError::Unfit(file.clone(), "not UTF-8".into()))
            }
            Some(Content::Prompt(front, prompt)) => {
                self.working.insert(file.clone(), Content::Prompt(front.clone(), prompt.clone()));
                Ok(Claimed { file: file.clone(), front, prompt })
            }
        }
    }

    fn move_out(&mut self, file: &FileName, destination: &Destination) -> Moved {
        if self.stuck {
            return Moved::Stuck("no".into());
        }
        let Some(content) = self.working.remove(file) else { return Moved::Vanished };
        match destination {
            Destination::Pending => {
                self.pending.insert(file.clone(), content);
            }
            Destination::Done => {
                self.done.insert(file.clone());
            }
            Destination::Failed { reason } => {
                self.failed.insert(file.clone());
                self.reasons.insert(file.clone(), reason.clone());
            }
        }
        Moved::To(file.clone())
    }

    fn counts(&self) -> [usize; 4] {
        [self.pending.len(), self.working.len(), self.done.len(), self.failed.len()]
    }
}

fn gated(gates: &[&str]) -> Front {
    Front { gates: gates.iter().map(|gate| (*gate).to_owned()).collect(), ..Front::default() }
}
