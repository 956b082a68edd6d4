//! The agents of a controller as a worker of its own lists: each claimed list is a line of tasks of the controller, one after the
//! other, as any worker runs it.
//!
//! Each task has a [`Life`] at the controller. At its end the result goes to the server, and the next task begins. A late task that may
//! have been submitted before a restart is searched for by its key.
//!
//! A list is claimed only when an agent is free and every claimed list has a task at an agent; so at most one claimed list waits. A
//! waiting task is pulled back when its `until` passes, or when another worker has waited for a list for [`PULL_AFTER`].
//!
//! A restarted controller gets its lists by [`Agents::handle_found`], and submits their tasks with the same keys. The tasks
//! themselves are in the store of the controller; the files of the lists are the server's.

mod ending;
mod exchange;
mod pulling;

#[cfg(test)]
mod scenarios;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::wire::{Order, TaskResult};
use api::guest::life::{Life, Next};
use api::guest::reading::Reading;
use api::guest::task::{Snapshot, Stage};
use base::journal::{Journal, LogLine};
use base::lists::RunningName;
use base::timers::Timers;
use base::{Mono, Now, TaskId};

use super::result::not_started;
use super::seconds;
pub use api::guest::Answer;
pub use exchange::{Effect, Question};

/// Time that a list waits for an agent before another waiting worker gets it. An agent between two tasks takes a few milliseconds.
const PULL_AFTER: Duration = Duration::from_millis(200);

/// Pause before the free agents are counted again: no change of a task shows an agent that joins.
const FREE_PAUSE: Duration = Duration::from_secs(1);

/// Pause before a refused submit is repeated.
const SUBMIT_PAUSE: Duration = Duration::from_secs(1);

/// Results that the server has not stored, at most; then no further task starts. It is more than one sync stores of short tasks.
const UNSTORED_MAX: usize = 1000;

/// Bytes of results that the server has not stored, at most.
const UNSTORED_BYTES_MAX: usize = 64 << 20;

/// The reason for a deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The free agents are counted again.
    Free,
    /// Another worker has waited for a list for long enough.
    Pull,
    /// The `until` of the task of a list passes.
    Until(RunningName),
    /// A refused submit is repeated.
    Submit(RunningName),
    /// An absent agent is asked for an output again.
    Output(RunningName),
}

/// The subject of a question without an answer.
#[derive(Clone, Debug)]
enum Subject {
    Free,
    /// An order whose answer changes nothing.
    Order,
    /// For the task of a list.
    List(RunningName),
}

/// A claimed list.
#[derive(Debug)]
struct ClaimedList {
    left: VecDeque<Order>,
    /// Whether an earlier controller may have submitted the next task.
    may_be_known: bool,
    /// `None` while too many results are not stored.
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    order: Order,
    life: Life,
}

/// The claimed lists of one controller.
#[derive(Debug)]
pub struct Agents {
    /// Bytes of one output.
    output_bytes_max: usize,
    lists: BTreeMap<RunningName, ClaimedList>,
    /// The tasks at the controller, and their lists.
    tasks: BTreeMap<TaskId, RunningName>,
    unanswered: BTreeMap<u64, Subject>,
    /// Bytes of the results that are not stored, by number.
    unstored: BTreeMap<u64, usize>,
    /// The last number of a question or of a result.
    numbers: u64,
    /// Whether open lists wait that no worker has asked for.
    has_open: bool,
    /// Whether another worker waits for a list.
    is_wanted: bool,
    /// Whether the number of free agents was asked for, or a claim is under way.
    is_claiming: bool,
    /// Whether refused submits have been logged since the last one that was accepted.
    is_refused: bool,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
}

impl Agents {
    /// Without any list.
    #[must_use]
    pub fn new(output_bytes_max: usize) -> Self {
        Self {
            output_bytes_max,
            lists: BTreeMap::new(),
            tasks: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            unstored: BTreeMap::new(),
            numbers: 0,
            has_open: false,
            is_wanted: false,
            is_claiming: false,
            is_refused: false,
            timers: Timers::default(),
            effects: VecDeque::new(),
            journal: Journal::default(),
        }
    }

    /// The log lines since the last call; see [`base::journal`].
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The nearest deadline.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.timers.next().map(|(at, _)| at)
    }

    /// Whether a free agent is to be announced by [`Self::handle_freed`].
    #[must_use]
    pub fn wants_agents(&self) -> bool {
        self.timers.is_set(&Timer::Free)
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Free => self.consider_claim(),
                Timer::Pull => self.pull_for_others(now),
                Timer::Until(list) => self.pull_late(now, &list),
                Timer::Submit(list) => self.submit(&list),
                Timer::Output(list) => self.read_on(now, &list),
            }
        }
    }

    /// The demand of the server: whether open lists wait that no worker has asked for, and whether another worker waits for one.
    pub fn handle_demand(&mut self, now: Now, has_open: bool, is_wanted: bool) {
        (self.has_open, self.is_wanted) = (has_open, is_wanted);
        if !is_wanted {
            self.timers.clear(&Timer::Pull);
        } else if !self.timers.is_set(&Timer::Pull) && self.lists.values().any(ClaimedList::is_idle) {
            self.timers.set(Timer::Pull, now.mono + PULL_AFTER);
        }
        if !self.timers.is_set(&Timer::Free) {
            self.consider_claim();
        }
    }

    /// An agent may have become free.
    pub fn handle_freed(&mut self) {
        self.timers.clear(&Timer::Free);
        self.consider_claim();
    }

    fn consider_claim(&mut self) {
        if self.may_claim() && !self.is_claiming {
            self.is_claiming = true;
            self.ask(Subject::Free, Question::Free);
        }
    }

    fn may_claim(&self) -> bool {
        self.has_open && !self.lists.values().any(ClaimedList::is_idle)
    }

    fn free(&mut self, now: Now, count: usize) {
        if count > 0 && self.may_claim() {
            return self.effects.push_back(Effect::Claim);
        }
        self.is_claiming = false;
        if self.has_open && count == 0 {
            self.timers.set(Timer::Free, now.mono + FREE_PAUSE);
        }
    }

    /// No list could be claimed.
    pub fn handle_no_list(&mut self, now: Now) {
        self.is_claiming = false;
        self.timers.set(Timer::Free, now.mono + FREE_PAUSE);
    }

    /// A list was claimed.
    pub fn handle_list(&mut self, now: Now, name: &RunningName, tasks: Vec<Order>) {
        self.is_claiming = false;
        self.hold(now, name, tasks, false);
    }

    /// A list was found that an earlier controller had claimed.
    pub fn handle_found(&mut self, now: Now, name: &RunningName, tasks: Vec<Order>) {
        self.hold(now, name, tasks, true);
    }

    fn hold(&mut self, now: Now, name: &RunningName, tasks: Vec<Order>, may_be_known: bool) {
        self.journal.info(format!("{name}: {} tasks for our agents", tasks.len()));
        self.lists.insert(name.clone(), ClaimedList { left: tasks.into(), may_be_known, current: None });
        self.go_on(now, name);
    }

    /// A list is lost: its task is killed.
    pub fn handle_void(&mut self, list: &RunningName) {
        self.journal.warn(format!("{list} is not ours any more"));
        let Some(held) = self.forget(list) else { return };
        if let Some(task) = held.current.and_then(|current| current.life.task()) {
            self.ask(Subject::Order, Question::Kill(task, pulling::TAKEN_BACK));
        }
    }

    fn forget(&mut self, list: &RunningName) -> Option<ClaimedList> {
        [Timer::Until(list.clone()), Timer::Submit(list.clone()), Timer::Output(list.clone())]
            .iter()
            .for_each(|timer| self.timers.clear(timer));
        let held = self.lists.remove(list)?;
        self.tasks.retain(|_, of| of != list);
        Some(held)
    }

    /// The result with this number is stored.
    pub fn handle_stored(&mut self, now: Now, number: u64) {
        let was_full = self.is_full();
        self.unstored.remove(&number);
        if was_full && !self.is_full() {
            let paused = self.lists.iter().filter(|(_, held)| held.current.is_none());
            let paused: Vec<RunningName> = paused.map(|(list, _)| list.clone()).collect();
            paused.iter().for_each(|list| self.go_on(now, list));
        }
    }

    fn is_full(&self) -> bool {
        self.unstored.len() >= UNSTORED_MAX || self.unstored.values().sum::<usize>() >= UNSTORED_BYTES_MAX
    }

    /// Begins the next task of a list.
    fn go_on(&mut self, now: Now, list: &RunningName) {
        while !self.is_full() {
            let Some(held) = self.lists.get_mut(list) else { return };
            let Some(order) = held.left.pop_front() else {
                self.forget(list);
                return self.consider_claim();
            };
            let is_late = seconds(now.wall) > order.until;
            if is_late && !std::mem::take(&mut held.may_be_known) {
                self.report(list, not_started(&order, now));
                continue;
            }
            held.may_be_known = false;
            if is_late {
                let question = Question::Find((list.clone(), order.id));
                held.current = Some(Current { order, life: Life::Finding });
                return self.ask(Subject::List(list.clone()), question);
            }
            held.current = Some(Current { order, life: Life::Refused });
            return self.submit(list);
        }
    }

    fn submit(&mut self, list: &RunningName) {
        let Some(current) = self.current(list) else { return };
        if matches!(current.life, Life::Refused) {
            current.life = Life::Asking;
            let question = Question::Submit((list.clone(), current.order.clone()));
            self.ask(Subject::List(list.clone()), question);
        }
    }

    fn report(&mut self, list: &RunningName, result: TaskResult) {
        self.numbers += 1;
        self.unstored.insert(self.numbers, result.out.len() + result.err.len());
        self.effects.push_back(Effect::Report(list.clone(), self.numbers, result));
    }

    fn ask(&mut self, subject: Subject, question: Question) {
        self.numbers += 1;
        self.unanswered.insert(self.numbers, subject);
        self.effects.push_back(Effect::Ask(self.numbers, question));
    }

    fn current(&mut self, list: &RunningName) -> Option<&mut Current> {
        self.lists.get_mut(list)?.current.as_mut()
    }
}
