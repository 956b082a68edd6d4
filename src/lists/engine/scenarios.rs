//! Scenarios of the server and of a worker on virtual time.

#![cfg(test)]

mod delivery;
mod desk;
mod lists;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::server::{Connection, Effect, Gathered, Receipt, Server, Settings, Sighting, Tasks};
use super::task::Task;
use crate::wire::{FromServer, FromWorker, Name, TaskResult};
use base::lists::{ListTaskId, RunningName};
use base::{Mono, Now, Wall};

const SECOND: Duration = Duration::from_secs(1);

/// Where the clock of the scenarios begins, in seconds since 1970.
const BEGIN: u64 = 1_448_978_609;

fn settings() -> Settings {
    Settings {
        list_tasks_max: 3,
        list_seconds_max: 600,
        list_age_max: SECOND / 5,
        lost_after: 10 * SECOND,
        output_bytes_max: 1000,
        secret: None,
        refusal_pause: SECOND,
        workers_max: 100,
    }
}

fn now() -> Now {
    Now { mono: Mono::from_nanos(1_000_000_000_000), wall: Wall::from_micros(BEGIN * 1_000_000) }
}

fn later(now: Now, by: Duration) -> Now {
    Now { mono: now.mono + by, wall: now.wall + by }
}

fn id(number: u64) -> ListTaskId {
    ListTaskId { nanos: number, fails: 0 }
}

fn task(number: u64, expected_duration: u64) -> Task {
    Task {
        id: id(number),
        created: BEGIN,
        until: 1 << 50,
        expected_duration,
        max_fails: 1,
        cmd: format!("echo {number}"),
    }
}

fn sighting(text: &str) -> Sighting {
    Sighting { text: Ok(text.to_owned()), is_file: true, rest: Duration::ZERO, is_open: false, is_taken: false }
}

fn result(number: u64) -> Arc<TaskResult> {
    Arc::new(TaskResult { id: id(number), started: BEGIN, ended: BEGIN, out: Vec::new(), err: Vec::new() })
}

/// A server, a disk whose moves in front of a run always succeed, and the moves behind it, which a scenario answers.
struct Story {
    server: Server,
    now: Now,
    sent: BTreeMap<Connection, VecDeque<FromServer>>,
    hung_up: BTreeSet<Connection>,
    looks: Vec<String>,
    /// The folders of `running/`.
    names: BTreeSet<RunningName>,
    /// Effects for the keeper.
    moves: VecDeque<Effect>,
    is_disk_full: bool,
}

impl Story {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        let now = now();
        Self {
            server: Server::new(settings, now),
            now,
            sent: BTreeMap::new(),
            hung_up: BTreeSet::new(),
            looks: Vec::new(),
            names: BTreeSet::new(),
            moves: VecDeque::new(),
            is_disk_full: false,
        }
    }

    fn does<T>(&mut self, act: impl FnOnce(&mut Server, Now) -> T) -> T {
        let outcome = act(&mut self.server, self.now);
        while let Some(effect) = self.server.poll_effect() {
            self.obey(effect);
        }
        self.server.sanity_check();
        outcome
    }

    fn obey(&mut self, effect: Effect) {
        match effect {
            Effect::Look(name) => self.looks.push(name),
            Effect::Scan => {}
            Effect::Gather(second, tasks) => {
                let failure = self.is_disk_full.then(|| "disk full".to_owned());
                let moved = if failure.is_some() { BTreeSet::new() } else { tasks };
                self.server.handle_gathered(self.now, second, Gathered { second, moved, failure });
            }
            Effect::Start(connection, second, worker, started) => {
                let mut names = (started..).map(|started| RunningName { second, worker: worker.clone(), started });
                // As the folders do: the next second that is free.
                let name = names.find(|name| self.names.insert(name.clone())).expect("a name");
                self.server.handle_started(self.now, connection, second, Ok(name));
            }
            Effect::Send(connection, message) => self.sent.entry(connection).or_default().push_back(message),
            Effect::Hangup(connection) | Effect::Abort(connection) => {
                self.hung_up.insert(connection);
            }
            effect @ (Effect::Store(..) | Effect::Close(..) | Effect::Reopen(..)) => {
                if let Effect::Close(list, _) | Effect::Reopen(list, ..) = &effect {
                    // The folder moves at once; the server hears of it later.
                    self.names.remove(list);
                }
                self.moves.push_back(effect);
            }
        }
    }

    fn adds(&mut self, task: &Task) {
        let name = format!("{}.task", task.id);
        self.does(|server, now| server.handle_seen(now, &name, Some(sighting(&task.write()))));
    }

    fn passes(&mut self, time: Duration) {
        self.now = later(self.now, time);
        self.does(Server::handle_timeout);
    }

    fn joins(&mut self, connection: u64, worker: &str, lists: &[&RunningName]) -> Option<FromServer> {
        let connection = Connection(connection);
        self.does(|server, now| server.handle_connected(now, connection));
        let lists = lists.iter().map(|list| Name((*list).clone())).collect();
        self.says(connection, FromWorker::Hello { worker: worker.to_owned(), secret: None, lists });
        self.hears(connection)
    }

    fn says(&mut self, connection: Connection, message: FromWorker) {
        self.does(|server, now| server.handle_message(now, connection, message));
    }

    fn hears(&mut self, connection: Connection) -> Option<FromServer> {
        self.sent.entry(connection).or_default().pop_front()
    }

    /// A worker claims and gets a list: its name and its tasks.
    fn claims(&mut self, connection: u64) -> Option<(RunningName, Vec<u64>)> {
        self.says(Connection(connection), FromWorker::Claim {});
        self.gets(connection)
    }

    fn gets(&mut self, connection: u64) -> Option<(RunningName, Vec<u64>)> {
        match self.hears(Connection(connection))? {
            FromServer::List { list, tasks } => Some((list.0, tasks.iter().map(|order| order.id.nanos).collect())),
            other => panic!("{other:?}"),
        }
    }

    fn reports(&mut self, connection: u64, list: &RunningName, number: u64, tasks: &[u64]) {
        let results = tasks.iter().map(|task| result(*task)).collect();
        self.says(Connection(connection), FromWorker::Results { list: Name(list.clone()), number, results });
    }

    /// The next results are stored.
    fn stores(&mut self) -> Receipt {
        match self.moves.pop_front() {
            Some(Effect::Store(list, receipt, ended)) => {
                let stored = ended.iter().map(|ended| ended.task.id).collect();
                self.does(|server, now| server.handle_stored(now, &list, receipt, Ok(stored)));
                receipt
            }
            other => panic!("{other:?}"),
        }
    }

    fn closes(&mut self) -> RunningName {
        match self.moves.pop_front() {
            Some(Effect::Close(list, _)) => {
                self.does(|server, now| server.handle_closed_list(now, &list, Ok(())));
                list
            }
            other => panic!("{other:?}"),
        }
    }

    /// The list is opened again; the tasks that have ended before.
    fn reopens(&mut self) -> Vec<u64> {
        match self.moves.pop_front() {
            Some(Effect::Reopen(list, done, _)) => {
                self.does(|server, now| server.handle_reopened(now, &list, Ok(list.second)));
                done.iter().map(|id| id.nanos).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}
