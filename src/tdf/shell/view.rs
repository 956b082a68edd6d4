//! The view of a namespace for people.

use redis::Value;

use super::error::RedisError;
use super::link::Call;
use super::namespace::Namespace;
use super::session::server_name;
use super::{reply, scripts};
use crate::wire::{Task, words};
use base::tdf::number::float;
use base::tdf::{State, TaskId};

/// Tasks whose fields are read at once for a list.
const CHUNK: usize = 500;

/// How many of everything there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Tasks in each set, in the order of [`State::ALL`].
    pub counts: Vec<(State, u64)>,
    /// Tasks that were opened since the namespace began.
    pub opened: u64,
    /// Workers that have registered.
    pub workers: u64,
    /// Entries that no component can do anything with.
    pub poisoned: u64,
    /// The llts server that is the leader.
    pub server: Option<String>,
}

/// A worker that has registered.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerView {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: Option<u64>,
    /// Host, pid and kind of an llts worker.
    pub about: Option<serde_json::Value>,
    /// Seconds since an llts worker was last seen.
    pub seen_ago: Option<f64>,
    /// Tasks that it runs.
    pub running: u64,
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskLine {
    /// The task.
    pub id: TaskId,
    /// The set that it is in.
    pub set: State,
    /// Its score there, in unix seconds.
    pub score: f64,
    /// Its round.
    pub round: String,
    /// The name of its program.
    pub program: String,
    /// Its input.
    pub input: String,
    /// The worker of its round.
    pub worker: Option<String>,
}

impl Namespace {
    /// Counts everything.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn stats(&mut self) -> Result<Stats, RedisError> {
        let call = State::ALL.into_iter().fold(Call::new(scripts::STATS), |call, state| call.arg(words::state(state)));
        self.ask_patiently(&call, |value| {
            let [counts, opened, workers, poisoned, server] = reply::list(value)?.try_into().ok()?;
            let counts = reply::list(counts)?.into_iter().map(reply::parsed).collect::<Option<Vec<_>>>()?;
            Some(Stats {
                counts: State::ALL.into_iter().zip(counts).collect(),
                opened: reply::parsed(opened)?,
                workers: reply::parsed(workers)?,
                poisoned: reply::parsed(poisoned)?,
                server: reply::text(server).map(|who| server_name(&who).to_owned()),
            })
        })
    }

    /// The workers, by their numbers.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn workers(&mut self) -> Result<Vec<WorkerView>, RedisError> {
        let mut workers: Vec<WorkerView> = self.ask_patiently(&Call::new(scripts::WORKERS), |value| {
            let [now, rows] = reply::list(value)?.try_into().ok()?;
            let now = float(&reply::text(now)?)?;
            reply::list(rows)?.into_iter().map(|row| worker(row, now)).collect()
        })?;
        workers.sort_by(|one, other| (one.id, &one.name).cmp(&(other.id, &other.name)));
        Ok(workers)
    }

    /// A task with all of its fields; `None` if there is none.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn task(&mut self, id: TaskId) -> Result<Option<Task>, RedisError> {
        let call = Call::new(scripts::SHOW).arg(id.to_string());
        self.ask_patiently(&call, |value| {
            let [set, fields] = reply::list(value)?.try_into().ok()?;
            let fields = pairs(fields)?;
            let set = reply::text(set).and_then(|set| words::parse_state(&set));
            Some((!fields.is_empty()).then(|| Task::new(id, set, fields)))
        })
    }

    /// Tells each task of a set, the lowest score first. Entries without a hash are passed over.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn list(&mut self, set: State, mut tell: impl FnMut(TaskLine)) -> Result<(), RedisError> {
        let mut first = 0;
        loop {
            let call = Call::new(scripts::LIST).arg(words::state(set));
            let call = call.arg(first.to_string()).arg((first + CHUNK - 1).to_string());
            let (length, lines) = self.ask_patiently(&call, |value| {
                let rows = reply::list(value)?;
                Some((rows.len(), rows.into_iter().filter_map(|row| line(row, set)).collect::<Vec<_>>()))
            })?;
            lines.into_iter().for_each(&mut tell);
            if length < CHUNK {
                return Ok(());
            }
            first += length;
        }
    }
}

pub(super) fn pairs(value: Value) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut values = reply::list(value)?.into_iter();
    let mut pairs = Vec::with_capacity(values.len() / 2);
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        pairs.push((reply::bytes(name)?, reply::bytes(value)?));
    }
    Some(pairs)
}

fn lossy(value: Value) -> Option<String> {
    reply::bytes(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn worker(row: Value, now: f64) -> Option<WorkerView> {
    let [name, id, about, seen, running] = reply::list(row)?.try_into().ok()?;
    Some(WorkerView {
        name: lossy(name)?,
        id: reply::parsed(id),
        about: reply::bytes(about).and_then(|about| serde_json::from_slice(&about).ok()),
        seen_ago: reply::text(seen).and_then(|seen| float(&seen)).map(|seen| (now - seen).max(0.0)),
        running: reply::parsed(running)?,
    })
}

fn line(row: Value, set: State) -> Option<TaskLine> {
    let [id, score, round, program, input, worker] = reply::list(row)?.try_into().ok()?;
    Some(TaskLine {
        id: reply::parsed(id)?,
        set,
        score: float(&reply::text(score)?)?,
        round: lossy(round).unwrap_or_default(),
        program: lossy(program)?,
        input: lossy(input).unwrap_or_default(),
        worker: lossy(worker),
    })
}
