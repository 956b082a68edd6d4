//! The turn: the consequences of one event, until they are taken out, and the deadlines that follow from the state.
//!
//! Every part of the controller adds to it.

pub(crate) mod batch_delay;
pub(crate) mod closing;
pub(crate) mod commit_queue;
pub(crate) mod departure;
pub(crate) mod effect;
pub(crate) mod end_lines;
pub(crate) mod sequencer;
pub(crate) mod ticket;

use std::collections::VecDeque;

use api::wire::publish::Published;
use api::wire::reply::Reply;
use base::journal::{Journal, LogLine, Severity};
use base::timers::Timers;
use base::{IncidentKind, Mono, TaskId, TaskRecord};
use effect::{Effect, Record, Ticket, Timer};
use end_lines::EndLines;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) effects: VecDeque<Effect>,
    journal: Journal,
    /// The incidents that the history does not have yet.
    incidents: Vec<(IncidentKind, String)>,
    timers: Timers<Timer>,
    /// Whether TASK/INFORM is among the effects.
    has_informed: bool,
    /// The tasks that have changed their phase, or were removed.
    pub(crate) changed: Vec<TaskId>,
    /// The tasks that have finished without success and are not in the log yet.
    pub(crate) unlogged: Vec<TaskId>,
    /// The log lines about those tasks.
    end_lines: EndLines,
}

impl Turn {
    /// Adds an effect.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// A parked request is answered.
    pub(crate) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.emit(Effect::Reply(ticket, reply));
    }

    /// A record of the store changes.
    pub(crate) fn store(&mut self, record: Record) {
        self.emit(Effect::Record(record));
    }

    /// A task is stored as it is.
    pub(crate) fn put(&mut self, record: &TaskRecord) {
        self.store(Record::Put(Box::new(record.clone())));
    }

    /// Tells agents that do not park that a task waits; once per turn is enough.
    pub(crate) fn inform(&mut self) {
        if !std::mem::replace(&mut self.has_informed, true) {
            self.emit(Effect::Publish(Published::Inform));
        }
    }

    /// The next effect. The turn ends when there is none.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        self.has_informed &= effect.is_some();
        effect
    }

    /// Sets a deadline, or moves it.
    pub(crate) fn set_timer(&mut self, reason: Timer, at: Mono) {
        self.timers.set(reason, at);
    }

    /// Sets a deadline, unless there is an earlier one for this reason.
    pub(crate) fn set_timer_earlier(&mut self, reason: Timer, at: Mono) {
        self.timers.set_earlier(reason, at);
    }

    pub(crate) fn clear_timer(&mut self, reason: &Timer) {
        self.timers.clear(reason);
    }

    pub(crate) fn has_timer(&self, reason: &Timer) -> bool {
        self.timers.is_set(reason)
    }

    /// The next deadline, and its reason.
    pub(crate) fn next_timer(&self) -> Option<(Mono, &Timer)> {
        self.timers.next()
    }

    /// A deadline that has been reached. It is not set any more.
    pub(crate) fn pop_due(&mut self, now: Mono) -> Option<Timer> {
        self.timers.pop_due(now)
    }

    #[track_caller]
    pub(crate) fn info(&mut self, text: impl Into<String>) {
        self.journal.info(text);
    }

    #[track_caller]
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.journal.warn(text);
    }

    /// Something has happened to the service: a line in the log, which the history gets, too.
    #[track_caller]
    pub(crate) fn incident(&mut self, severity: Severity, kind: IncidentKind, line: String) {
        self.journal.note(severity, line.clone());
        self.incidents.push((kind, line));
    }

    pub(crate) fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }

    pub(crate) fn take_incidents(&mut self) -> Vec<(IncidentKind, String)> {
        std::mem::take(&mut self.incidents)
    }
}
