//! Orders about a run: to kill it, to drop it, or to let it finish early.
//!
//! | order | a run that prepares | a run whose run.sh runs | a run that has ended |
//! |---|---|---|---|
//! | kill | does not start | gets the kill ladder; a tool that stays is first told to give the task up | unchanged |
//! | drop | as a kill, without a report | as a kill, without a report | is not reported |
//! | finish | does not start, which is no failure | gets a file and SIGTERM, or is told to give the task up if it stays, and after the grace time of its step the kill ladder | unchanged |
//!
//! A kill overrides an earlier order to finish, and a later one has no effect. The controller repeats orders; each is carried
//! out once.

use std::collections::VecDeque;

use super::outcome::not_started;
use super::run::{ActiveRun, Run, State};
use super::{Effect, Signal, Slot, Timer};
use api::wire::publish::Published;
use base::{Now, Round, TaskId};
use proc::ladder::RunMachine;

/// Orders for runs that have not arrived yet: the answer to an APPLY and a publication use different connections.
#[derive(Debug, Default)]
pub(super) struct EarlyOrders(VecDeque<(TaskId, Round, Order)>);

/// Most early orders.
const EARLY_ORDERS_MAX: usize = 64;

/// The end of a run, as ordered by the controller or by the agent itself. The strongest order is the least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    Kill,
    Finish,
}

impl EarlyOrders {
    fn add(&mut self, task: TaskId, round: Round, order: Order) {
        self.0.push_back((task, round, order));
        if self.0.len() > EARLY_ORDERS_MAX {
            self.0.pop_front();
        }
    }

    /// The strongest order for a run that arrives.
    fn take(&mut self, (task, round): (TaskId, Round)) -> Option<Order> {
        let is_of_run = |early: &(TaskId, Round, Order)| (early.0, early.1) == (task, round);
        let strongest = self.0.iter().filter(|early| is_of_run(early)).map(|early| early.2).min()?;
        self.0.retain(|early| !is_of_run(early));
        Some(strongest)
    }
}

impl Slot {
    /// Handles a publication.
    pub fn handle_published(&mut self, now: Now, message: Published) {
        if self.epochs.is_refused() {
            return;
        }
        match message {
            Published::Inform => self.apply(now),
            Published::Kill(task, round) => self.obey(now, (task, round), Order::Kill),
            Published::Finish(task, round) => self.obey(now, (task, round), Order::Finish),
        }
    }

    fn obey(&mut self, now: Now, (task, round): (TaskId, Round), order: Order) {
        if self.run.id() == Some((task, round)) {
            self.carry_out(now, order);
        } else if order != Order::Kill || !self.ahead.kill((task, round)) {
            self.early_orders.add(task, round, order);
        }
    }

    /// The run has just been taken.
    pub(super) fn obey_early_orders(&mut self, now: Now) {
        if let Some(order) = self.run.id().and_then(|run| self.early_orders.take(run)) {
            self.carry_out(now, order);
        }
    }

    fn carry_out(&mut self, now: Now, order: Order) {
        match order {
            Order::Kill => self.kill(now),
            Order::Finish => self.finish(now),
        }
    }

    /// The controller does not want the result of this run.
    pub(super) fn drop_run(&mut self, now: Now, task: TaskId, round: Round) {
        if self.run.id() == Some((task, round)) {
            self.drop_list();
            self.journal.warn(format!("round {round} of task {task} is not wanted any more; ending it"));
            if self.run.is_leased() {
                return self.give_up(now);
            }
            self.run.drop_result();
            self.kill(now);
            if self.run.is_finished() {
                // The report has waited for the controller, and no other event frees the slot.
                self.release(now);
            }
        }
    }

    /// Begins to end the run; the remaining steps follow by time.
    pub(super) fn kill(&mut self, now: Now) {
        let ended = self.run.has_ended();
        if self.run.is_keeping() {
            self.effects.push_back(Effect::AbortKeep);
        }
        let Run::Active(run) = &mut self.run else { return };
        if ended || run.order.replace(Order::Kill) == Some(Order::Kill) {
            return;
        }
        self.timers.clear(&Timer::Grace);
        self.end_by(now, Order::Kill);
    }

    /// Tells the run to finish early.
    pub(super) fn finish(&mut self, now: Now) {
        let ended = self.run.has_ended();
        let Run::Active(run) = &mut self.run else { return };
        // Only the task of a step has a file for this order.
        if ended || run.order.is_some() || run.dispatch.grace.is_none() {
            return;
        }
        run.order = Some(Order::Finish);
        match run.is_running() {
            true => self.order_to_finish(now),
            false => self.end_by(now, Order::Finish),
        }
    }

    /// Ends a run in any state.
    pub(super) fn end_by(&mut self, now: Now, order: Order) {
        let is_late = self.is_late(now);
        let Run::Active(run) = &mut self.run else { return };
        match run.state {
            State::Preparing => self.effects.push_back(Effect::AbortPrepare),
            State::Starting { .. } if self.timers.is_set(&Timer::Respawn) => {
                self.end_without_run(now, not_started(order));
            }
            State::Starting { .. } => self.effects.push_back(Effect::AbortStart),
            State::Run(RunMachine { end: None, .. }) if run.stays && !is_late => {
                self.effects.push_back(Effect::Cancel { ends_tool: true });
                self.timers.set(Timer::Grace, now.mono + self.settings.kill_interval);
            }
            _ => self.step(now, |machine, terms| machine.end(now, terms)),
        }
    }

    /// Tells a running run.sh.
    pub(super) fn order_to_finish(&mut self, now: Now) {
        let Run::Active(run) = &self.run else { return };
        let grace = run.dispatch.grace.unwrap_or_default();
        // The file comes first: a run that gets the signal may look for it at once.
        let tell = if run.stays { Effect::Cancel { ends_tool: false } } else { Effect::Signal(Signal::Terminate) };
        self.effects.extend([Effect::TellToFinish, tell]);
        self.timers.set(Timer::Grace, now.mono + grace);
    }

    /// The grace time of the run has passed.
    pub(super) fn end_grace(&mut self, now: Now) {
        if let Run::Active(run) = &self.run
            && let ActiveRun { state: State::Run(RunMachine { end: None, .. }), dispatch, order, .. } = &**run
        {
            let told = if *order == Some(Order::Kill) { "end" } else { "finish" };
            self.journal.warn(format!("task {} was told to {told} and has not; ending it", dispatch.task));
            self.step(now, |machine, terms| machine.end(now, terms));
        }
    }
}
