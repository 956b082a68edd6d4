//! The arrival of tasks, and the tasks of a list behind the running one.
//!
//! | event | the list |
//! |---|---|
//! | a run has ended, and its report has been sent | the next task starts, without an answer of the controller |
//! | the time of the list has passed, also because the running task turned out to be long | is let go |
//! | a new connection, a refused report, an order to drop a run; the agent stops or retires; the slot stays occupied | is let go |
//!
//! No further task of a list starts after it is let go. Until another list arrives, each report has the number of tasks of the
//! list that have started: the controller can hand out the others again in the same round, even if some reports are lost. No
//! task starts at an agent that counts as lost: the time of a list starts with the APPLY and is at most half a heartbeat
//! interval, and a silent agent is lost after two intervals.

use std::collections::VecDeque;

use super::hold::BeyondLease;
use super::stop::Mode;
use super::{Effect, Slot, Timer};
use api::wire::requests::FromAgent;
use api::wire::requests::apply::{Dispatch, DispatchList};
use api::wire::requests::report::LetGo;
use base::{Mono, Now, Round, TaskId};

#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The tasks that have not started, in order.
    dispatches: VecDeque<Dispatch>,
    /// The number of the list, and of its tasks that have started; `None` before the first list.
    list: Option<LetGo>,
    state: ListState,
    /// The tasks of the list that are to be killed when they start.
    killed: Vec<(TaskId, Round)>,
    /// No task of the list starts from this moment on.
    until: Mono,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ListState {
    #[default]
    Open,
    /// Let go, but not yet in a report.
    LetGo,
    Reported,
}

impl Ahead {
    /// The end of the list for a report, if it was let go.
    pub(super) fn report_let_go(&mut self) -> Option<LetGo> {
        if self.state == ListState::LetGo {
            self.state = ListState::Reported;
        }
        self.list.filter(|_| self.state == ListState::Reported)
    }

    /// Kills a task that has not started; false if it is not in the list.
    pub(super) fn kill(&mut self, run: (TaskId, Round)) -> bool {
        let is_here = self.dispatches.iter().any(|dispatch| (dispatch.task, dispatch.round) == run);
        if is_here {
            self.killed.push(run);
        }
        is_here
    }

    /// Whether the list was let go without a report: the controller still keeps the tasks for this agent.
    pub(super) fn is_unreported(&self) -> bool {
        self.state == ListState::LetGo
    }

    fn drop_jobs(&mut self) {
        self.dispatches.clear();
        self.state = ListState::LetGo;
    }
}

impl Slot {
    /// Takes a task, if the slot is free.
    pub(super) fn take(&mut self, now: Now, dispatch: Dispatch) {
        self.link.answered();
        if !self.run.is_free() || self.mode == Mode::Stopping {
            // The controller hands it out again with the next APPLY, or to another agent after the exit.
            self.journal.warn(format!("task {} arrives while the slot is occupied", dispatch.task));
            return;
        }
        if let Some(report) = self.link.unconfirmed(dispatch.task, dispatch.round) {
            // An APPLY was answered twice, or the controller has restarted: the result goes out again, and nothing runs twice.
            let mut report = report.clone();
            self.link.apply(now.mono);
            report.wait = Some(self.apply_wait());
            return self.effects.push_back(Effect::Send(FromAgent::Report(Box::new(report))));
        }
        let until = match self.grant(now, &dispatch) {
            Ok(until) => until,
            Err(BeyondLease) => return,
        };
        self.run.start(now, &dispatch);
        if let Some(until) = until {
            self.hold(until);
            // Only a heartbeat that names the run renews its lease.
            self.heartbeat(now);
        }
        self.prepare(now, dispatch);
    }

    /// The run of a task begins.
    fn prepare(&mut self, now: Now, dispatch: Dispatch) {
        self.effects.push_back(Effect::Prepare(Box::new(dispatch)));
        self.report_soon(now);
        self.obey_early_orders(now);
    }

    /// Takes the first task of a list, and keeps the others.
    pub(super) fn take_list(&mut self, now: Now, list: DispatchList) {
        let DispatchList { mut dispatches, terms } = list;
        let asked = self.link.applied_at();
        let Some(first) = dispatches.pop_front() else { return };
        let run = Some((first.task, first.round));
        if self.run.id() == run {
            // An APPLY was sent twice, and both were answered with this list.
            return;
        }
        self.take(now, first);
        if self.run.id() != run {
            return;
        }
        let time = terms.time.min(self.settings.heartbeat_interval / 2);
        let until = asked.map_or(now.mono, |asked| asked + time);
        let list = Some(LetGo { list: terms.number, started: 1 });
        self.ahead = Ahead { dispatches, list, state: ListState::Open, killed: Vec::new(), until };
        self.timers.set(Timer::List, until);
    }

    /// The next task of the list starts, if there is one and it may: true. Otherwise the list is let go.
    pub(super) fn start_next(&mut self, now: Now) -> bool {
        let may_start = self.mode == Mode::Serving && self.run.is_free() && now.mono < self.ahead.until;
        if !may_start {
            self.drop_list();
        }
        let Some(dispatch) = self.ahead.dispatches.pop_front() else { return false };
        if let Some(list) = &mut self.ahead.list {
            list.started += 1;
        }
        if self.ahead.dispatches.is_empty() {
            self.timers.clear(&Timer::List);
        }
        let is_killed = self.ahead.killed.contains(&(dispatch.task, dispatch.round));
        self.run.start(now, &dispatch);
        self.prepare(now, dispatch);
        if is_killed {
            self.kill(now);
        }
        true
    }

    /// The other tasks of the list will not start.
    pub(super) fn drop_list(&mut self) {
        if !self.ahead.dispatches.is_empty() {
            self.ahead.drop_jobs();
            self.timers.clear(&Timer::List);
        }
    }

    /// The time of the list has passed. A report goes out at once, so that another agent gets the tasks.
    pub(super) fn end_list(&mut self, now: Now) {
        if !self.ahead.dispatches.is_empty() {
            self.drop_list();
            self.report_by = Some(now.mono).filter(|_| self.run.active().is_some());
        }
    }
}
