//! The connections: which workers may join, which of them wait for a list, and their messages.
//!
//! A worker keeps its lists while it is away: HELLO of its next connection names them. A HELLO without them comes from a new process
//! of that name, and the lists of the old process are opened again at once.

use std::collections::{BTreeMap, VecDeque};

use super::{Connection, Effect, Server, StartError, Tasks, Timer};
use crate::engine::seconds;
use crate::wire::{FromServer, FromWorker, Name};
use api::config::is_secret;
use base::Now;
use base::lists::RunningName;
use base::tdf::WorkerName;

const WRONG_SECRET: &str = "the secret is missing or wrong; it is SECRET of [lists] at the server";

/// A connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// No HELLO has arrived. With a reason, none will be accepted.
    Stranger(Option<String>),
    /// The secret was wrong, and the answer is delayed; or the connection is being closed.
    Refused,
    /// A worker of this name.
    Joined(WorkerName),
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Peers {
    connections: BTreeMap<Connection, Peer>,
    /// Workers that wait for a list, the longest wait first.
    claimers: VecDeque<Connection>,
    /// The worker inside this process, which cannot be silent.
    hosted: Option<Connection>,
}

impl Peers {
    fn set(&mut self, connection: Connection, peer: Peer) -> Option<Peer> {
        self.connections.insert(connection, peer)
    }

    /// Further messages of this connection are ignored.
    fn refuse(&mut self, connection: Connection) -> Option<Peer> {
        self.unclaim(connection);
        self.set(connection, Peer::Refused)
    }

    fn remove(&mut self, connection: Connection) -> Option<Peer> {
        self.unclaim(connection);
        self.connections.remove(&connection)
    }

    pub(super) fn get(&self, connection: Connection) -> Option<&Peer> {
        self.connections.get(&connection)
    }

    pub(super) fn has_claimer(&self) -> bool {
        !self.claimers.is_empty()
    }

    pub(super) fn host(&mut self, connection: Connection, worker: WorkerName) {
        self.hosted = Some(connection);
        self.connections.insert(connection, Peer::Joined(worker));
    }

    pub(super) fn unclaim(&mut self, connection: Connection) {
        self.claimers.retain(|claimer| *claimer != connection);
    }

    fn claim(&mut self, connection: Connection) {
        if !self.claimers.contains(&connection) {
            self.claimers.push_back(connection);
        }
    }

    /// Puts a claim in front again, unless its connection has ended.
    fn claim_again(&mut self, connection: Connection) {
        if self.connections.contains_key(&connection) {
            self.claimers.push_front(connection);
        }
    }

    /// Ends the longest wait for a list; returns the worker and its connection.
    fn next_claim(&mut self) -> Option<(Connection, &WorkerName)> {
        loop {
            let connection = self.claimers.pop_front()?;
            if let Some(Peer::Joined(worker)) = self.connections.get(&connection) {
                return Some((connection, worker));
            }
        }
    }

    fn has_joined(&self, name: &WorkerName) -> bool {
        self.connections.values().any(|peer| matches!(peer, Peer::Joined(worker) if worker == name))
    }
}

impl Server {
    /// A connection was made.
    pub fn handle_connected(&mut self, now: Now, connection: Connection) {
        if self.peers.connections.len() >= self.settings.workers_max {
            let max = self.settings.workers_max;
            return self.refuse(
                now,
                connection,
                format!("there are {max} workers, which WORKERS_MAX of [lists] allows"),
            );
        }
        self.peers.set(connection, Peer::Stranger(None));
        self.timers.set(Timer::Silence(connection), now.mono + self.settings.lost_after);
    }

    /// A connection is not served, for this reason.
    pub fn handle_stranger(&mut self, connection: Connection, why: String) {
        if let Some(Peer::Stranger(refusal)) = self.peers.connections.get_mut(&connection) {
            *refusal = Some(why);
        }
    }

    /// A connection has ended.
    pub fn handle_closed(&mut self, now: Now, connection: Connection) {
        let Some(peer) = self.peers.remove(connection) else { return };
        self.timers.clear(&Timer::Silence(connection));
        self.timers.clear(&Timer::Refuse(connection));
        if let Peer::Joined(worker) = peer {
            self.journal.info(format!("worker {worker} is away"));
            self.leave_lists(now, connection);
        }
    }

    /// A worker has sent a message.
    pub fn handle_message(&mut self, now: Now, connection: Connection, message: FromWorker) {
        match (self.peers.get(connection), message) {
            (None | Some(Peer::Refused), _) => return,
            (Some(Peer::Stranger(Some(why))), _) => {
                let reason = format!("{why}, or a SECRET of [lists] on both sides");
                return self.refuse(now, connection, reason);
            }
            (Some(Peer::Stranger(None)), FromWorker::Hello { worker, secret, lists }) => {
                return self.hello(now, connection, &worker, secret.as_deref(), lists);
            }
            (Some(Peer::Stranger(None)), _) | (Some(Peer::Joined(_)), FromWorker::Hello { .. }) => {
                return self.refuse(now, connection, "the first message must be HELLO, and no other one".to_owned());
            }
            (Some(Peer::Joined(_)), FromWorker::Claim {}) => {
                self.peers.claim(connection);
                self.assign(now);
            }
            (Some(Peer::Joined(_)), FromWorker::Results { list, number, results }) => {
                self.results(connection, list.0, number, results);
            }
            (Some(Peer::Joined(_)), FromWorker::Beat {}) => {}
            (Some(Peer::Joined(worker)), FromWorker::Leave {}) => {
                self.journal.info(format!("worker {worker} leaves"));
                for list in self.lists_of(|running| running.holder == Some(connection)) {
                    self.lose(now, &list);
                }
                return self.hang_up(now, connection);
            }
        }
        if self.peers.hosted != Some(connection) {
            self.timers.set(Timer::Silence(connection), now.mono + self.settings.lost_after);
        }
    }

    /// A message cannot be understood.
    pub fn handle_bad_message(&mut self, now: Now, connection: Connection, error: &str) {
        self.refuse(now, connection, error.to_owned());
    }

    fn hello(&mut self, now: Now, connection: Connection, worker: &str, secret: Option<&str>, lists: Vec<Name>) {
        let is_admitted = self.settings.secret.as_ref();
        if !is_admitted.is_none_or(|ours| is_secret(ours.reveal(), secret.unwrap_or_default())) {
            self.peers.refuse(connection);
            return self.timers.set(Timer::Refuse(connection), now.mono + self.settings.refusal_pause);
        }
        let worker = match WorkerName::new(worker) {
            Ok(worker) => worker,
            Err(error) => return self.refuse(now, connection, error.to_string()),
        };
        if self.peers.has_joined(&worker) {
            // The connection of a process that has gone may not have ended yet.
            let reason = format!("another worker {worker} is connected; use another name");
            self.send(connection, FromServer::Refused { reason, is_passing: true });
            return self.hang_up(now, connection);
        }
        self.journal.info(format!("worker {worker} has joined"));
        self.peers.set(connection, Peer::Joined(worker.clone()));
        self.timers.set(Timer::Silence(connection), now.mono + self.settings.lost_after);
        let mut void = Vec::new();
        for list in lists {
            if !self.take_up(connection, &worker, &list.0) {
                void.push(list);
            }
        }
        let lost_after = u64::try_from(self.settings.lost_after.as_millis()).unwrap_or(u64::MAX);
        let output_bytes_max = self.settings.output_bytes_max;
        self.send(connection, FromServer::Welcome { lost_after, output_bytes_max, void });
        for list in self.lists_of(|running| running.holder.is_none()) {
            if list.worker == worker {
                self.journal.info(format!("worker {worker} is a new process: {list} is opened again"));
                self.lose(now, &list);
            }
        }
    }

    pub(super) fn refuse_secret(&mut self, now: Now, connection: Connection) {
        self.refuse(now, connection, WRONG_SECRET.to_owned());
    }

    fn refuse(&mut self, now: Now, connection: Connection, reason: String) {
        self.journal.warn(format!("a connection is refused: {reason}"));
        self.send(connection, FromServer::Refused { reason, is_passing: false });
        self.hang_up(now, connection);
    }

    /// Closes a connection after its queued messages. A peer that does not close its end in time is cut off.
    fn hang_up(&mut self, now: Now, connection: Connection) {
        if let Some(Peer::Joined(_)) = self.peers.refuse(connection) {
            self.leave_lists(now, connection);
        }
        self.timers.set(Timer::Silence(connection), now.mono + self.settings.lost_after);
        self.effects.push_back(Effect::Hangup(connection));
    }

    pub(super) fn cut_silent(&mut self, now: Now, connection: Connection) {
        if let Some(Peer::Joined(worker)) = self.peers.get(connection) {
            let seconds = self.settings.lost_after.as_secs_f64();
            self.journal.warn(format!("worker {worker} has been silent for {seconds} s"));
        }
        self.effects.push_back(Effect::Abort(connection));
        self.handle_closed(now, connection);
    }

    /// Brings waiting workers and open lists together.
    pub(super) fn assign(&mut self, now: Now) {
        while let Some(open) = self.open.first_entry()
            && let Some((connection, worker)) = self.peers.next_claim()
        {
            let (second, tasks) = open.remove_entry();
            let mut name = RunningName { second, worker: worker.clone(), started: seconds(now.wall) };
            // A list of that name may have left running/ before its end was reported here.
            while self.running.contains_key(&name) {
                name.started += 1;
            }
            self.starting.insert(second, tasks);
            self.effects.push_back(Effect::Start(connection, second, name.worker, name.started));
        }
    }

    /// The result of an [`Effect::Start`].
    pub fn handle_started(
        &mut self,
        now: Now,
        connection: Connection,
        second: u64,
        outcome: Result<RunningName, StartError>,
    ) {
        let Some(tasks) = self.starting.remove(&second) else { return };
        match outcome {
            Ok(name) => {
                self.unstick();
                self.journal.info(format!("{name}: {} tasks", tasks.len()));
                self.run(now, connection, name, tasks);
            }
            Err(error) => {
                self.peers.claim_again(connection);
                self.not_started(now, second, tasks, error);
            }
        }
    }

    fn not_started(&mut self, now: Now, second: u64, tasks: Tasks, error: StartError) {
        match error {
            StartError::Vanished => {
                self.journal.warn(format!("the list {second} is gone from open/, with {} tasks", tasks.len()));
                for id in tasks.keys() {
                    self.listed.remove(id);
                }
                self.assign(now);
            }
            StartError::Stuck(reason) => {
                self.open.insert(second, tasks);
                self.stick(now, &format!("the list {second} cannot be claimed: {reason}"));
            }
        }
    }

    pub(super) fn send(&mut self, connection: Connection, message: FromServer) {
        self.effects.push_back(Effect::Send(connection, message));
    }
}
