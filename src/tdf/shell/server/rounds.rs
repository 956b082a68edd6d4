//! The rounds of a server: the entries of the sets are walked through in chunks, and new or due entries are judged.

use std::collections::BTreeSet;

use redis::Value;
use serde_json::Value as Json;

use super::super::error::RedisError;
use super::super::link::Call;
use super::super::namespace::Namespace;
use super::super::{reply, scripts};
use super::decision;
use crate::engine::judge::{Moment, Verdict, adopt, judge};
use crate::engine::lease::Presence;
use crate::engine::watch::Watch;
use crate::wire::facts::{Poison, Row};
use crate::wire::{Facts, words};
use base::tdf::number::{float, repr};
use base::tdf::{State, TaskId};
use proc::clock;

/// Tasks whose facts are read, or that are moved, by one script: it keeps claims waiting for one to two milliseconds.
const CHUNK: usize = 100;

/// Open tasks of one script, most of which only wait.
const OPEN_CHUNK: usize = 200;

/// Ids that one script looks for in the sets.
const STRAYS_CHUNK: usize = 400;

/// Ids that are read in one command.
const PAGE: usize = 2_000;

/// Ids that one round checks for tasks in no set: a namespace with a million tasks is checked within a few rounds.
const STRAYS_PER_ROUND: u64 = 50_000;

/// Time that a task must be in no set: an original component has tasks there between two commands.
const STRAY_GRACE: f64 = 5.0;

/// Seconds before a poisoned entry is judged again: a user may have mended it.
const POISON_INTERVAL: f64 = 60.0;

/// Entries of our own keys that one command reads.
const TIDY_COUNT: &str = "1000";

/// Our keys that have entries for tasks.
const TIDIED: [&str; 5] = ["leases", "losses", "poisoned", "callback_attempts", "callback_holders"];

/// Poisoned entries that are remembered, so that each is logged once.
const LOGGED_MAX: usize = 10_000;

/// An entry of a set, with its number and score if it is a task's; and a page of entries with their scores.
type Entry<'a> = (&'a [u8], Option<(TaskId, f64)>);
type Page = Vec<(Vec<u8>, f64)>;

/// The state of a server between its rounds.
pub(super) struct Rounds {
    max_losses: u32,
    presence: Presence,
    open: Watch,
    running: Watch,
    /// Poisoned entries that were logged.
    logged: BTreeSet<Vec<u8>>,
    /// Tasks that were in no set, and since when: the state and round must stay for [`STRAY_GRACE`].
    strays: Vec<(TaskId, Option<State>, u32, f64)>,
    /// The next id of that check; `None` at its end.
    stray_cursor: Option<u64>,
}

/// The facts of a chunk, and the rows that are none.
struct Chunk {
    now: f64,
    length: usize,
    facts: Vec<Facts>,
    poisoned: Vec<(Vec<u8>, Poison)>,
    /// The end of the wait of each open task, in unix seconds, in the order of the request.
    waits: Vec<Option<f64>>,
}

impl Rounds {
    pub(super) fn new(max_losses: u32) -> Self {
        Self {
            max_losses,
            presence: Presence::default(),
            open: Watch::default(),
            running: Watch::default(),
            logged: BTreeSet::new(),
            strays: Vec::new(),
            stray_cursor: None,
        }
    }

    /// Forgets all observations.
    pub(super) fn forget(&mut self) {
        let presence = std::mem::take(&mut self.presence);
        *self = Self { presence, ..Self::new(self.max_losses) };
    }

    /// Redis has answered with its time.
    pub(super) fn handle_answer(&mut self, time: f64) {
        self.presence.handle_answer(clock::now().mono, time);
    }

    /// Redis is away.
    pub(super) fn handle_silence(&mut self) {
        self.presence.handle_silence();
    }

    /// The moment of a decision about an entry.
    fn moment(&self, now: f64, first_seen: f64) -> Moment {
        Moment { now, first_seen, max_losses: self.max_losses, leases_from: self.presence.judged_from() }
    }

    /// The next rounds look for tasks in no set, too.
    pub(super) fn begin_mending(&mut self) {
        self.stray_cursor.get_or_insert(1);
    }

    /// One round. Returns the number of moved tasks.
    pub(super) fn round(&mut self, namespace: &mut Namespace, mends: bool) -> Result<usize, RedisError> {
        let mut moved = self.drain(namespace, State::Executed)?;
        moved += self.walk(namespace, State::Running)?;
        moved += self.walk(namespace, State::Open)?;
        if mends {
            moved += self.drain(namespace, State::Timeout)?;
            moved += self.drain(namespace, State::Failure)?;
            tidy(namespace)?;
        }
        moved += self.mend_strays(namespace)?;
        Ok(moved)
    }

    /// Judges the facts of messages.
    pub(super) fn judge_reported(&mut self, namespace: &mut Namespace, facts: &[Facts]) -> Result<(), RedisError> {
        for chunk in facts.chunks(CHUNK) {
            let decisions = chunk.iter().filter_map(|facts| {
                // The score of an entry is the time of the script that has sent the message.
                let at = self.moment(facts.score, facts.score);
                let is_report = facts.set == Some(State::Executed);
                is_report.then(|| decision::encode(facts, &judge(facts, at))).flatten()
            });
            apply(namespace, decisions.collect())?;
        }
        Ok(())
    }

    /// Moves everything out of a set whose tasks do not stay there.
    fn drain(&mut self, namespace: &mut Namespace, set: State) -> Result<usize, RedisError> {
        let (mut first, mut moved) = (0, 0);
        loop {
            let last = first + CHUNK - 1;
            let call = Call::new(scripts::FACTS).arg(words::state(set)).arg("range");
            let chunk = self.read(namespace, call.arg(first.to_string()).arg(last.to_string()))?;
            let decisions = chunk.facts.iter().filter_map(|facts| {
                let at = self.moment(chunk.now, chunk.now);
                decision::encode(facts, &judge(facts, at))
            });
            let done = apply(namespace, decisions.collect())?;
            self.tell_poisoned(namespace, set, &chunk)?;
            moved += done;
            if chunk.length < CHUNK {
                return Ok(moved);
            }
            // Entries that have not moved are still in front of the rest.
            first += chunk.length - done.min(chunk.length);
        }
    }

    /// Judges the new or due entries of a set, from the highest rank down: claims remove entries at the other end, and no entry is
    /// skipped.
    fn walk(&mut self, namespace: &mut Namespace, set: State) -> Result<usize, RedisError> {
        let (mut first, mut moved) = (0, 0);
        self.watch(set).begin();
        loop {
            let (now, page) = read_page(namespace, set, first)?;
            self.handle_answer(now);
            let mut due = Vec::new();
            for (id, score) in &page {
                match decision::task_of(id) {
                    Some(task) if !self.watch(set).is_due(task, *score, now) => {}
                    Some(task) => due.push((id.as_slice(), Some((task, *score)))),
                    None => due.extend((!self.logged.contains(id)).then_some((id.as_slice(), None))),
                }
            }
            let size = if set == State::Open { OPEN_CHUNK } else { CHUNK };
            for entries in due.chunks(size) {
                moved += self.look_at(namespace, set, entries)?;
            }
            if page.len() < PAGE {
                break;
            }
            first += page.len();
        }
        self.watch(set).end();
        Ok(moved)
    }

    /// The number and score of an entry are missing if its id is no number.
    fn look_at(&mut self, namespace: &mut Namespace, set: State, entries: &[Entry<'_>]) -> Result<usize, RedisError> {
        let call = if set == State::Open {
            entries.iter().fold(Call::new(scripts::OPEN_FACTS), |call, (id, entry)| {
                call.arg(id).arg(entry.map_or_else(String::new, |(_, score)| repr(score)))
            })
        } else {
            let call = Call::new(scripts::FACTS).arg(words::state(set)).arg("ids");
            entries.iter().fold(call, |call, (id, _)| call.arg(id))
        };
        let chunk = self.read(namespace, call)?;
        for ((id, entry), wait) in entries.iter().zip(&chunk.waits) {
            if let (Some((task, _)), Some(until)) = (entry, wait) {
                self.watch(set).look_again(*task, *until);
                self.logged.remove(*id);
            }
        }
        let mut decisions = Vec::new();
        for facts in &chunk.facts {
            let (task, now) = (facts.task, chunk.now);
            let first_seen = self.watch(set).first_seen(task, now);
            let verdict = judge(facts, self.moment(now, first_seen));
            self.logged.remove(task.to_string().as_bytes());
            match &verdict {
                Verdict::Wait(until) => self.watch(set).look_again(task, *until),
                Verdict::NoStart => self.tell_start(namespace, facts, now)?,
                Verdict::Lost(hops) => {
                    let fate = hops.last().map_or("", |hop| words::state(hop.to));
                    let note = hops.first().map_or("", |hop| hop.note.as_str());
                    log::warn!("task {task}: {note} in round {}; it is {fate}", facts.round);
                }
                Verdict::Move(_) | Verdict::Rescore(_) | Verdict::Stray => {}
            }
            decisions.extend(decision::encode(facts, &verdict));
        }
        let done = apply(namespace, decisions)?;
        self.tell_poisoned(namespace, set, &chunk)?;
        Ok(done)
    }

    /// Reads facts, and observes the presence of Redis.
    fn read(&mut self, namespace: &mut Namespace, call: Call) -> Result<Chunk, RedisError> {
        let chunk = read(namespace, call)?;
        self.handle_answer(chunk.now);
        Ok(chunk)
    }

    fn tell_start(&mut self, namespace: &mut Namespace, facts: &Facts, now: f64) -> Result<(), RedisError> {
        let sentence = format!("the field {} is missing or no number", words::of_round(facts.round, "running"));
        self.running.look_again(facts.task, now + POISON_INTERVAL);
        self.tell(namespace, State::Running, facts.task.to_string().as_bytes(), &sentence)
    }

    fn tell_poisoned(&mut self, namespace: &mut Namespace, set: State, chunk: &Chunk) -> Result<(), RedisError> {
        for (id, poison) in &chunk.poisoned {
            if let Some(task) = decision::task_of(id) {
                self.watch(set).look_again(task, chunk.now + POISON_INTERVAL);
            }
            self.tell(namespace, set, id, &poison.to_string())?;
        }
        Ok(())
    }

    /// Counts a poisoned entry, and logs it once.
    fn tell(&mut self, namespace: &mut Namespace, set: State, id: &[u8], sentence: &str) -> Result<(), RedisError> {
        if self.logged.len() < LOGGED_MAX && self.logged.insert(id.to_vec()) {
            let (name, shown) = (namespace.name(), id.escape_ascii());
            log::warn!("passing over \"{shown}\" in {name}:{}: {sentence}", words::state(set));
            apply(namespace, vec![decision::encode_poison(id, set, sentence)])?;
        }
        Ok(())
    }

    /// The watch of a set. Drained sets need none.
    fn watch(&mut self, set: State) -> &mut Watch {
        if set == State::Open { &mut self.open } else { &mut self.running }
    }

    /// Puts tasks back that have been in no set for [`STRAY_GRACE`].
    fn mend_strays(&mut self, namespace: &mut Namespace) -> Result<usize, RedisError> {
        let mut moved = 0;
        for (task, state, round, since) in std::mem::take(&mut self.strays) {
            let chunk = read_strays(namespace, task.0, task.0)?;
            let found = chunk.facts.first().filter(|facts| (facts.state, facts.round) == (state, round));
            match found {
                Some(facts) if chunk.now - since >= STRAY_GRACE => {
                    let verdict = adopt(facts, self.max_losses);
                    let decision = verdict.and_then(|verdict| decision::encode_adoption(facts, &verdict));
                    let name = state.map_or("none", words::state);
                    log::warn!("task {task} is in no set although its state is {name}; moving it on");
                    moved += apply(namespace, decision.into_iter().collect())?;
                }
                Some(_) => self.strays.push((task, state, round, since)),
                None => {}
            }
        }
        let Some(first) = self.stray_cursor else { return Ok(moved) };
        let last = last_id(namespace)?;
        let end = last.min(first.saturating_add(STRAYS_PER_ROUND - 1));
        let step = u64::try_from(STRAYS_CHUNK).unwrap_or(u64::MAX);
        for from in (first..=end).step_by(STRAYS_CHUNK) {
            let chunk = read_strays(namespace, from, end.min(from + step - 1))?;
            self.strays.extend(chunk.facts.iter().map(|facts| (facts.task, facts.state, facts.round, chunk.now)));
        }
        self.stray_cursor = (end < last).then_some(end + 1);
        Ok(moved)
    }
}

fn read(namespace: &mut Namespace, call: Call) -> Result<Chunk, RedisError> {
    namespace.ask(call, |value| {
        let mut parts = reply::list(value)?.into_iter();
        let now = float(&reply::text(parts.next()?)?)?;
        let rows: Vec<Row> = reply::list(parts.next()?)?.into_iter().map(reply::row).collect::<Option<_>>()?;
        let waits = parts.next().map_or_else(|| Some(Vec::new()), reply::list)?;
        let mut chunk = Chunk {
            now,
            length: rows.len(),
            facts: Vec::with_capacity(rows.len()),
            poisoned: Vec::new(),
            waits: waits.into_iter().map(|until| float(&reply::text(until)?)).collect(),
        };
        for row in &rows {
            match Facts::parse(row) {
                Ok(facts) => chunk.facts.push(facts),
                Err((_, poison)) => {
                    let id = row.first().cloned().flatten().unwrap_or_default();
                    chunk.poisoned.push((id, poison));
                }
            }
        }
        Some(chunk)
    })
}

fn read_strays(namespace: &mut Namespace, first: u64, last: u64) -> Result<Chunk, RedisError> {
    read(namespace, Call::new(scripts::STRAYS).arg(first.to_string()).arg(last.to_string()))
}

/// A page of ids and scores, and the time.
fn read_page(namespace: &mut Namespace, set: State, first: usize) -> Result<(f64, Page), RedisError> {
    let call = Call::new(scripts::PAGE).arg(words::state(set));
    let call = call.arg(first.to_string()).arg((first + PAGE - 1).to_string());
    namespace.ask(call, |value| {
        let [now, entries] = reply::list(value)?.try_into().ok()?;
        let mut entries = reply::list(entries)?.into_iter();
        let mut page = Vec::with_capacity(entries.len() / 2);
        while let (Some(id), Some(score)) = (entries.next(), entries.next()) {
            page.push((reply::bytes(id)?, float(&reply::text(score)?)?));
        }
        Some((float(&reply::text(now)?)?, page))
    })
}

/// How many of the decisions were done.
fn apply(namespace: &mut Namespace, mut decisions: Vec<Json>) -> Result<usize, RedisError> {
    let mut done = 0;
    while !decisions.is_empty() {
        let later = decisions.split_off(decisions.len().min(CHUNK));
        let call = Call::new(scripts::APPLY).arg(Json::Array(std::mem::replace(&mut decisions, later)).to_string());
        done += namespace
            .ask(call, |value| Some(reply::list(value)?.into_iter().filter(|done| *done == Value::Int(1)).count()))?;
    }
    Ok(done)
}

/// The id of the task that was opened last.
fn last_id(namespace: &mut Namespace) -> Result<u64, RedisError> {
    let key = format!("{}task_id", words::prefix(namespace.name()));
    let value = namespace.link.command("GET", redis::cmd("GET").arg(key))?;
    Ok(reply::parsed(value).unwrap_or_default())
}

/// Removes the entries of our keys for tasks that originals have moved on.
fn tidy(namespace: &mut Namespace) -> Result<(), RedisError> {
    for name in TIDIED {
        let mut cursor = "0".to_owned();
        loop {
            let call = Call::new(scripts::TIDY).arg(name).arg(&cursor).arg(TIDY_COUNT);
            cursor = namespace.ask(call, reply::text)?;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(())
}

/// A row of facts that stood in a message.
pub(super) fn row_of_json(value: &Json) -> Option<Row> {
    let column = |value: &Json| match value {
        Json::String(text) => Some(Some(text.clone().into_bytes())),
        Json::Bool(false) => Some(None),
        _ => None,
    };
    value.as_array()?.iter().map(column).collect()
}
