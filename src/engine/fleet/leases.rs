//! Runs that are given up: at once, or, for exclusive tasks, when no process of them can be left.
//!
//! | a void run | of an exclusive task | of another task |
//! |---|---|---|
//! | its agent has shown that no process of it is left | the task continues at once | the same |
//! | its message proves nothing | the task continues when the lease has expired ([`Lease::end`]) | at once; if that ends the task, the end is reported as unconfirmed |
//! | its agent is silent | the same; then it is out of contact | it is out of contact ([`super::contact`]) |
//!
//! Proof for an exclusive run is: its last report, including one that says that the lease expired; a good-bye of the
//! session that holds the lease; a heartbeat of a session that replaces that one. A request for a task proves nothing,
//! because it may be older than the run.

use std::sync::Arc;

use crate::Controller;
use crate::tasks::transition::{Again, TaskEvent};
use crate::tasks::verdict::{self, Verdict};
use crate::turn::effect::Timer;
use api::wire::requests::{FromAgent, Sender};
use base::{AgentId, Lease, Mono, Now, Outcome, PhaseTimes, RoundEnd, RunResult, Session, TaskId, TaskRecord, span};

/// A void run of an exclusive task, while processes of it may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiring {
    /// The end that the round will get.
    end: RoundEnd,
    /// When its last process must be gone.
    pub(crate) until: Mono,
    /// Whether its agent may come back with the result.
    is_silent: bool,
}

/// The known state of the processes of a void run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// No process is left.
    Gone,
    /// Unknown since the agent's last message, which came at this moment.
    Unknown(Mono),
    /// The same, and the agent may come back with the run.
    Silent(Mono),
}

impl Controller {
    /// The lease of a run that is handed out to this agent, if its task is exclusive.
    pub(crate) fn lease(&self, task: TaskId, agent: &AgentId) -> Option<Box<Lease>> {
        self.tasks.get(task).filter(|record| record.policy.needs.exclusive)?;
        let agent = self.fleet.get(agent);
        let kill_budget = agent.and_then(|agent| agent.about.kill_budget).unwrap_or(self.settings.kill_budget);
        let session = agent.map(|agent| agent.contact.liveness.session()).unwrap_or_default();
        Some(Box::new(Lease { term: self.lost_after(self.tasks.get(task)), kill_budget, session }))
    }

    /// The run of a task has become void.
    pub(crate) fn void_round(&mut self, now: Now, task: TaskId, end: RoundEnd, remains: Remains) {
        let lease = self.tasks.get(task).and_then(|record| record.lease()).copied();
        let is_silent = matches!(remains, Remains::Silent(_));
        match (remains, lease) {
            (Remains::Unknown(heard) | Remains::Silent(heard), Some(lease)) => {
                let until = lease.end(heard);
                if now.mono < until {
                    self.turn.info(format!(
                        "task {task} continues in {}, when its lease has expired",
                        span(until.since(now.mono))
                    ));
                    self.fleet.expiring.insert(task, Expiring { end, until, is_silent });
                    return self.turn.set_timer(Timer::Lease(task), until);
                }
            }
            (Remains::Unknown(_) | Remains::Silent(_), None) => {
                self.update(task, |record| record.unconfirmed = true);
            }
            (Remains::Gone, _) => {}
        }
        self.go_on(now, task, end, is_silent);
    }

    /// The lease of a void run has expired.
    pub(crate) fn end_lease(&mut self, now: Now, task: TaskId) {
        if let Some(Expiring { end, is_silent, .. }) = self.fleet.expiring.get(&task).copied() {
            self.go_on(now, task, end, is_silent);
        }
    }

    /// A run that no agent has heard of is void. If its task is to end, it ends like one that was never handed out.
    fn void_untold(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        match verdict::of_void_run(record, RoundEnd::Returned) {
            Verdict::End(outcome) => {
                self.change(now, task, TaskEvent::Return);
                self.close(now, task, outcome);
            }
            Verdict::Again(_) => self.requeue(now, task, RoundEnd::Returned),
        }
    }

    /// The agent reports that it had to end the run because of its lease, and that no process of it is left.
    pub(crate) fn given_up(&mut self, now: Now, task: TaskId) {
        let end = self.fleet.expiring.get(&task).map_or(RoundEnd::Lost, |expiring| expiring.end);
        self.go_on(now, task, end, false);
    }

    fn go_on(&mut self, now: Now, task: TaskId, end: RoundEnd, is_silent: bool) {
        self.forget_lease(task);
        // That is no loss if the result is known.
        let is_known = self.tasks.get(task).is_some_and(|record| known_result(record).is_some());
        match end {
            _ if self.is_untold(task) => self.void_untold(now, task),
            RoundEnd::Lost if is_known => self.requeue(now, task, end),
            RoundEnd::Lost if is_silent => self.lose_contact(now, task),
            RoundEnd::Lost => self.count_loss(now, task),
            end => self.requeue(now, task, end),
        }
    }

    /// A run is lost with its agent, and does not come back.
    pub(crate) fn count_loss(&mut self, now: Now, task: TaskId) {
        self.update(task, |record| record.counts.losses = record.counts.losses.saturating_add(1));
        self.requeue(now, task, RoundEnd::Lost);
    }

    /// The run of a task is void. Its result is kept if it is known.
    fn requeue(&mut self, now: Now, task: TaskId, end: RoundEnd) {
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} of an agent is gone") };
        if let Some(result) = known_result(record).cloned() {
            return self.finish(now, task, PhaseTimes::default(), result);
        }
        match verdict::of_void_run(record, end) {
            Verdict::End(outcome) => self.close(now, task, outcome),
            Verdict::Again(end) => {
                let times = PhaseTimes::default();
                self.again(now, task, Again { at: now.wall, end, times, result: None, not_before: None });
            }
        }
    }

    /// The task continues without waiting for its lease.
    pub(crate) fn forget_lease(&mut self, task: TaskId) {
        if self.fleet.expiring.remove(&task).is_some() {
            self.turn.clear_timer(&Timer::Lease(task));
        }
    }

    /// What may be left of a run that its agent, now back, does not mention. For most tasks this omission is proof enough. For a
    /// lease, the session that holds it must have ended.
    pub(crate) fn remains_after(&self, now: Now, task: TaskId, sender: &Sender, message: &FromAgent) -> Remains {
        let over = match message {
            FromAgent::Exit => Some(sender.session),
            FromAgent::Heartbeat(heartbeat) => heartbeat.replaces,
            FromAgent::Apply(_) | FromAgent::Report(_) | FromAgent::Serve(_) | FromAgent::ToolGet(_) => None,
        };
        let is_proof = over.is_some_and(|session| self.is_held_by(task, &sender.agent, session));
        if is_proof { Remains::Gone } else { Remains::Unknown(now.mono) }
    }

    /// This session of an agent has ended and has left no process behind.
    pub(crate) fn session_is_over(&mut self, now: Now, agent: &AgentId, session: Session) {
        let is_of_it = |task: &TaskId| self.is_held_by(*task, agent, session);
        for task in self.fleet.expiring.keys().copied().filter(is_of_it).collect::<Vec<_>>() {
            self.turn.info(format!("agent {agent} has ended task {task}"));
            self.given_up(now, task);
        }
    }

    /// Whether the run of a task belongs to this very session of this agent, as far as its lease tells.
    pub(crate) fn is_held_by(&self, task: TaskId, agent: &AgentId, session: Session) -> bool {
        let run = self.tasks.get(task).and_then(|record| record.last_run());
        run.is_some_and(|run| run.is_with(agent, session))
    }
}

/// The result of a void run, if it is known and complete. The main task of a step reports what it provides with its last report
/// only: without that its success is as good as lost.
fn known_result(record: &TaskRecord) -> Option<&Arc<RunResult>> {
    let provides = record.place().is_some_and(|place| place.prepares.is_none());
    let has_succeeded = |result: &RunResult| verdict::of_result(record, result) == Verdict::End(Outcome::Succeeded);
    record.result().filter(|result| !(provides && has_succeeded(result)))
}
