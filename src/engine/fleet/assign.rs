//! Assignment of tasks to agents, and the arrival and loss of agents.

use std::collections::BTreeSet;
use std::time::Duration;

use super::agent::{Agent, Liveness, Slot};
use super::leases::Remains;
use crate::Controller;
use crate::tasks::transition::TaskEvent;
use crate::turn::effect::Timer;
use api::wire::reply::Reply;
use api::wire::requests::Sender;
use api::wire::version::Version;
use api::wire::{Code, Refusal};
use base::journal::Severity;
use base::{
    AgentId, Assignment, IncidentKind, Now, Outcome, PhaseTimes, Requirements, Round, RoundEnd, Session, TaskId,
    TaskState, span, words,
};

impl Controller {
    /// A task that was handed out could not be delivered, because the peer is gone. It waits again, in the same round. If
    /// its agent had been sent the task before, the task may already run there: then it stays, and the agent either asks
    /// again or is lost.
    pub fn handle_undelivered(&mut self, now: Now, task: TaskId, round: Round) {
        let Some(record) = self.tasks.get(task) else { return };
        let TaskState::Dispatched(assignment) = &record.state else { return };
        if record.round != round {
            return;
        }
        let agent = assignment.agent.clone();
        // If the answer has waited long for the store, its agent may be lost by now. Then its lease, if any, expires first.
        if self.fleet.get(&agent).is_none_or(|agent| agent.was_told_again() || agent.slot != Slot::Busy(task)) {
            return;
        }
        self.fleet.set_slot(&agent, Slot::Free);
        self.void_list(now, &agent);
        self.take_back_unstarted(now, task);
        self.settle(now);
    }

    /// Refuses an agent that this controller does not understand.
    pub(crate) fn check_version(&mut self, sender: &Sender, version: Option<&Version>) -> Result<(), Refusal> {
        let Some(refusal) = version.and_then(|version| version.check().err()) else { return Ok(()) };
        let Sender { agent, session, .. } = sender;
        if self.fleet.note_denied(agent, *session) {
            let line = format!("agent {agent} is refused: {}", refusal.message);
            self.turn.incident(Severity::Warn, IncidentKind::Refused, line);
        }
        Err(refusal)
    }

    /// Registers the sender, unless another process uses its id (docs/design/hazards.md, A10).
    pub(crate) fn welcome(&mut self, now: Now, sender: &Sender, replaces: Option<Session>) -> Result<(), Refusal> {
        let id = &sender.agent;
        let other =
            |agent: &&Agent| matches!(agent.contact.liveness, Liveness::Session(session) if session != sender.session);
        if let Some(agent) = self.fleet.get(id).filter(other) {
            let gone = agent.slot == Slot::Lost
                || replaces.is_some_and(|before| agent.contact.liveness == Liveness::Session(before));
            if !gone {
                let message = format!("{} {id} belongs to another running agent; choose another name", words::AGENT_ID);
                return Err(Refusal::new(Code::NotAllowed, message));
            }
            let slot = agent.slot;
            if slot == Slot::Lost {
                let line = format!("agent {id} is back, as another process");
                self.turn.incident(Severity::Info, IncidentKind::AgentBack, line);
            } else {
                let line =
                    format!("agent {id} is lost: its process has ended without leaving, and another one follows it");
                self.turn.incident(Severity::Warn, IncidentKind::AgentLost, line);
            }
            if let Slot::Busy(task) = slot {
                // The process did not say good-bye, so its run counts as lost. A task that crashes every agent must not run forever
                // (docs/design/hazards.md, A9).
                self.fleet.set_slot(id, Slot::Free);
                self.void_list(now, id);
                self.void_round(now, task, RoundEnd::Lost, Remains::Gone);
            }
            self.give_up_runs_of(now, id, RoundEnd::Lost);
            self.leave(now, id);
        }
        if self.fleet.get(id).is_none() {
            self.make_room(now)?;
            self.turn.info(format!("agent {id} is here"));
            self.fleet.register(now, id.clone(), Liveness::Session(sender.session));
        }
        if let Some(before) = replaces {
            self.session_is_over(now, id, before);
            // A heartbeat that comes late says nothing about the runs of this process.
            if self.fleet.get(id).is_some_and(|agent| agent.contact.liveness != Liveness::Session(sender.session)) {
                self.give_up_runs_of(now, id, RoundEnd::Lost);
            }
        }
        self.fleet.note_sign_of_life(now, id, self.settings.heartbeat_interval * 2);
        if self.fleet.slot(id) == Some(Slot::Lost) {
            self.turn.incident(Severity::Info, IncidentKind::AgentBack, format!("agent {id} is back"));
            self.tools_are_back(now, id);
            self.fleet.set_slot(id, Slot::Free);
            self.trust(now, id);
        }
        // The deadline is moved only when it is reached, so a heartbeat costs no change of the timers.
        if !self.turn.has_timer(&Timer::Silence(id.clone())) {
            self.turn.set_timer(Timer::Silence(id.clone()), now.mono + self.lost_after_of(id));
        }
        Ok(())
    }

    /// Forgets a dispensable agent if there is no room for one more.
    fn make_room(&mut self, now: Now) -> Result<(), Refusal> {
        if self.fleet.len() < self.settings.agents_max {
            return Ok(());
        }
        let Some(id) = self.fleet.dispensable.values().next().cloned() else {
            let max = self.settings.agents_max;
            let message =
                format!("{max} agents are registered already (AGENTS_MAX) and none of them is lost or idle; raise it");
            return Err(Refusal::new(Code::LimitReached, message));
        };
        self.turn.info(format!("agent {id} makes room for another one"));
        self.forget_tools(now, &id);
        self.drop_offer(&id);
        self.fleet.remove(&id);
        self.turn.clear_timer(&Timer::Silence(id));
        Ok(())
    }

    /// The longest that an agent in contact may take to answer.
    pub(crate) fn answer_max(&self) -> Duration {
        self.settings.heartbeat_interval * 2
    }

    pub(crate) fn silence(&mut self, now: Now, id: AgentId) {
        let Some(agent) = self.fleet.get(&id) else { return };
        let heard = agent.contact.heard;
        let lost_at = heard + self.lost_after_of(&id);
        if now.mono < lost_at {
            return self.turn.set_timer(Timer::Silence(id), lost_at);
        }
        self.suspect(now, &id, heard);
        let line = format!("agent {id} is lost: silent for {}", span(now.mono.since(heard)));
        self.turn.incident(Severity::Warn, IncidentKind::AgentLost, line);
        self.unpark(&id);
        if let Slot::Busy(task) = self.fleet.slot_or_free(&id) {
            self.lose_list(now, &id, heard);
            self.void_round(now, task, RoundEnd::Lost, Remains::Silent(heard));
        }
        self.fleet.set_warm(&id, BTreeSet::new());
        self.tools_are_lost(now, &id);
        self.drop_offer(&id);
        self.fleet.set_slot(&id, Slot::Lost);
    }

    /// Hands tasks to parked agents: the best task to the agent that has been parked longest among the least specialised
    /// ones.
    pub(crate) fn dispatch(&mut self, now: Now) {
        self.catch_up(now);
        self.release_due(now);
        while let Some((task, agent)) = self.next_match() {
            if self.begins_another_round(now, task) || self.skip_if_stopped(now, task) {
                continue;
            }
            let Slot::Parked(ticket, _) = self.fleet.slot_or_free(&agent) else {
                unreachable!("agent {agent} is listed as parked")
            };
            self.turn.clear_timer(&Timer::ApplyWait(agent.clone()));
            let reply = self.assign(now, task, &agent, Duration::ZERO);
            self.turn.reply(ticket, reply);
        }
    }

    /// A task that can start, with an agent that waits for it.
    pub(crate) fn next_match(&self) -> Option<(TaskId, AgentId)> {
        if self.fleet.parked.is_empty() || !self.mode.gives_out() {
            return None;
        }
        let parked = &self.fleet.parked;
        let agent_for = |set, needs: &Requirements, task| {
            parked.best(set, (needs, &self.tasks.get(task)?.tool), |id| self.fleet.host(id))
        };
        let (task, (is_cold, .., agent)) = self.queue.best_match(parked.sets(), agent_for)?;
        let is_left = |is_cold, task| is_cold && self.is_left(task);
        let is_taken = |set, (task, needs): (_, &_)| {
            agent_for(set, needs, task).is_some_and(|(is_cold, ..)| !is_left(is_cold, task))
        };
        let is_any_taken = || parked.sets().any(|set| self.queue.open_heads(set).any(|head| is_taken(set, head)));
        (!is_left(is_cold, task) || is_any_taken()).then(|| (task, agent.clone()))
    }

    pub(crate) fn assign(&mut self, now: Now, task: TaskId, agent: &AgentId, batch_delay: Duration) -> Reply {
        self.pin_for(now, task, agent);
        if self.may_be_out(task) {
            // The next number fences off a run that another agent may have.
            self.update(task, |record| record.round = record.round.next());
        }
        self.give_run(
            now,
            task,
            Assignment {
                agent: agent.clone(),
                dispatched_at: now.wall,
                dispatched: Some(now.mono),
                after_commit: self.is_told_after_commit(task, agent),
                batch_delay,
                times: PhaseTimes::default(),
                lease: self.lease(task, agent),
                ahead: None,
                host: self.fleet.host(agent),
                progress: None,
            },
        );
        let step = self.step_context(task);
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} was dispatched and is gone") };
        Reply::Assigned(Box::new(record.clone()), step)
    }

    /// Whether a run must be stored before its agent gets it. This holds if another machine may take the queue over, for an
    /// exclusive task, for a submit with a key that is not eager, for a task that has waited for others, and for a simple agent,
    /// which could not tell the next controller what it runs.
    fn is_told_after_commit(&self, task: TaskId, agent: &AgentId) -> bool {
        let is_simple =
            self.fleet.get(agent).is_some_and(|agent| agent.contact.liveness == Liveness::Session(Session::default()));
        let is_exclusive = self.tasks.get(task).is_some_and(|record| record.policy.needs.exclusive);
        // Otherwise a crash could lose the ends that the task has waited for, but not its run.
        let has_waited = self.tasks.get(task).is_some_and(|record| !record.after().is_empty());
        // If the next controller did not find the task of a step, it would start it again.
        let is_of_a_step = || self.tasks.get(task).is_some_and(|record| record.place().is_some());
        let may_be_lost = !self.tasks.submit_is_stored(task) && is_of_a_step();
        let stores_first = self.settings.stores_first;
        stores_first || is_simple || is_exclusive || has_waited || may_be_lost || self.tasks.must_be_stored(task)
    }

    /// Whether the agent of a run waits for the commit of its submit. Then the run has not begun, and cannot be lost.
    pub(crate) fn is_untold(&self, task: TaskId) -> bool {
        !self.tasks.submit_is_stored(task)
            && self
                .tasks
                .get(task)
                .is_some_and(|record| matches!(&record.state, TaskState::Dispatched(run) if run.after_commit))
    }

    pub(crate) fn give_run(&mut self, now: Now, task: TaskId, assignment: Assignment) {
        let round = self.tasks.get(task).map(|record| record.round).unwrap_or_default();
        self.fleet.give(&assignment.agent, task, round);
        if self.tasks.get(task).is_some_and(|record| record.policy.lost_after.is_some()) {
            self.watch(&assignment.agent);
        }
        self.change(now, task, TaskEvent::Dispatch(assignment));
    }

    /// A task ends without a result of its present round.
    pub(crate) fn close(&mut self, now: Now, task: TaskId, outcome: Outcome) {
        self.end_children(now, task);
        self.change(now, task, TaskEvent::Close { at: now.wall, outcome });
        self.finished(now, task);
    }
}
