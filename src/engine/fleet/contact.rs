//! Runs of silent agents. Each waits for its agent to come back and for another round, and continues with whichever comes first.
//!
//! | event | the run |
//! |---|---|
//! | its agent counts as lost (`AGENT_LOST_AFTER`, `__LOST_AFTER__`) | is out of contact ([`TaskState::OutOfContact`]): its task is in the queue, in the same round. If no other round may follow, or the result is known, the task ends |
//! | another agent can take the task | is given up: a loss is counted, the next round is stored and pushed as WAITING, and handed out after that |
//! | its agent names it, or reports on it | goes on in its round, or ends with that result; nothing is counted, and nothing is pushed for the silence |
//! | its agent asks for a task and has not reported on the run yet | is handed to that agent again, in its round: the answer was lost |
//! | its agent asks for a task in any other case | is given up |
//! | its agent leaves; another process follows it | is given up; a loss only in the second case |
//! | the task is killed, or its job stops | ends with its task, unconfirmed |
//! | the controller starts again | is with its agent again, because the store knows nothing of the silence |
//!
//! So a round begins at most once, rounds and phases never go back, and the shown state of a task is true: its last known phase, as
//! long as no other round has begun. A task of a list that has not started is shown as WAITING, as before, and its next round is no
//! loss. An exclusive run comes here when its lease has ended ([`super::leases`]). From then on only its result counts, because the
//! run itself has ended with the lease.
//!
//! # Suspicion
//!
//! | state | event | next state |
//! |---|---|---|
//! | - | an agent is lost, and of the agents in contact on its side (this machine, other machines), more than half, and at least two, have not been heard since its next heartbeat was due, or were heard again only an interval after that | in doubt for a part of an interval |
//! | - | a lost agent is back, and of the agents in contact since it fell silent, most are silent, too | suspected for one loss time |
//! | in doubt | the time has passed, and they still are most | suspected for one loss time; otherwise the tasks go to other agents |
//! | suspected | another agent is lost | suspected for one loss time from here |
//! | suspected | the first of the lost agents is back | suspected for one loss time from here, once |
//! | suspected | the time has passed | over: the tasks go to other agents |
//! | over | the first of the lost agents is back | suspected for one loss time, once more: the others come back, too |
//!
//! If a single agent is silent, the fault is assumed to be the agent's, because nothing points elsewhere. While the controller
//! suspects itself, it begins no other round of the runs that are out of contact. Agents that were silent with the lost one and are
//! back count as silent: they come back one after the other, in the order of their heartbeats, and the lost one may be the last.

use std::time::Duration;

use super::agent::{Agent, Slot};
use super::leases::Remains;
use crate::Controller;
use crate::tasks::transition::{Again, TaskEvent};
use crate::tasks::verdict::{self, Verdict};
use crate::turn::effect::{ConnectionId, Timer};
use api::wire::requests::{FromAgent, Sender};
use base::journal::Severity;
use base::{
    AgentId, Holdup, IncidentKind, Mono, Now, Phase, PhaseTimes, Round, RoundEnd, TaskId, TaskRecord, TaskState, span,
};

/// A heartbeat may be late by its interval divided by this.
const JITTER_SHARE: u32 = 8;

/// Once the network is back, an agent is back within a heartbeat interval divided by this.
const RETURN_SHARE: u32 = 4;

/// The doubt lasts for a heartbeat interval divided by this. By then, agents have spoken whose heartbeats are due at about the same
/// time as those of a silent one.
const DOUBT_SHARE: u32 = 4;

/// The longest silence of an agent whose network was cut for this long: the cut may begin right before a heartbeat, and the agent
/// needs a moment for a new connection.
#[must_use]
pub fn silence_of_cut(cut: Duration, heartbeat_interval: Duration) -> Duration {
    cut + heartbeat_interval + heartbeat_interval / RETURN_SHARE
}

/// Whether the controller blames itself for the silence of its agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Suspicion {
    #[default]
    None,
    /// Agents have fallen silent with this one. Some of them may be about to speak.
    Doubt(Silence),
    /// The end of the suspicion, and whether one of the silent agents has returned.
    Until(Mono, bool),
    /// The agents have not come back in time.
    Over,
}

/// The silence of the first one of several agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    /// When it was heard last.
    heard: Mono,
    /// When its next heartbeat should have come at the latest. An agent that was silent at this moment has fallen silent with it.
    due: Mono,
    /// Whether it is on another machine than the controller. It is compared only with agents of the same kind.
    is_elsewhere: bool,
}

impl Controller {
    /// The silence after which an agent is lost: the setting, or what its task demands.
    pub(crate) fn lost_after(&self, record: Option<&TaskRecord>) -> Duration {
        let interval = self.settings.heartbeat_interval;
        let demanded = record.and_then(|record| record.policy.lost_after);
        // One lost heartbeat proves nothing.
        demanded.map_or(self.settings.lost_after, |demanded| silence_of_cut(demanded.max(interval * 2), interval))
    }

    /// [`Self::lost_after`] for an agent with its present task, if any.
    pub(crate) fn lost_after_of(&self, id: &AgentId) -> Duration {
        let Slot::Busy(task) = self.fleet.slot_or_free(id) else { return self.settings.lost_after };
        self.lost_after(self.tasks.get(task))
    }

    /// An agent has a run. Its task may demand that the agent counts as lost earlier than otherwise.
    pub(crate) fn watch(&mut self, id: &AgentId) {
        if let Some(heard) = self.fleet.get(id).map(|agent| agent.contact.heard) {
            self.turn.set_timer_earlier(Timer::Silence(id.clone()), heard + self.lost_after_of(id));
        }
    }

    /// The agent of a run is silent.
    pub(crate) fn lose_contact(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        let (counts, policy) = (record.counts, &record.policy);
        if let Verdict::End(_) = verdict::if_lost(record) {
            return self.count_loss(now, task);
        }
        let delay = self.backoff(policy.retry_delay, counts.fails + counts.timeouts + counts.losses);
        let not_before = (!delay.is_zero()).then(|| now.wall + delay);
        let suspected = matches!(self.fleet.suspicion, Suspicion::Until(..) | Suspicion::Doubt(_));
        self.turn.clear_timer(&Timer::RunTime(task));
        self.change(now, task, TaskEvent::LoseContact { since: now.wall, not_before, suspected });
        if !self.skip_if_stopped(now, task) {
            self.drop_if_told(now, task);
        }
    }

    /// A task is about to start. If its run is out of contact, its next round begins. True in that case: the choice must then be
    /// made again.
    pub(crate) fn begins_another_round(&mut self, now: Now, task: TaskId) -> bool {
        let is_one = self.tasks.get(task).is_some_and(TaskRecord::is_out_of_contact);
        if is_one {
            self.give_up(now, task, RoundEnd::Lost, Remains::Unknown(now.mono));
        }
        is_one
    }

    /// A run that is out of contact is void.
    pub(crate) fn give_up(&mut self, now: Now, task: TaskId, end: RoundEnd, remains: Remains) {
        self.change(now, task, TaskEvent::Rejoin);
        let Some(record) = self.tasks.get(task) else { return };
        let is_leased = record.lease().is_some();
        let is_ahead = matches!(&record.state, TaskState::Dispatched(run) if run.ahead.is_some());
        let has_begun = !is_ahead && !self.is_untold(task);
        let end = if has_begun { end } else { RoundEnd::Returned };
        self.update(task, |record| {
            record.unconfirmed |= matches!(remains, Remains::Unknown(_)) && !is_leased;
            record.counts.losses += u32::from(end == RoundEnd::Lost);
        });
        let Some(record) = self.tasks.get(task) else { return };
        match verdict::of_void_run(record, end) {
            Verdict::End(outcome) => self.close(now, task, outcome),
            Verdict::Again(end) => {
                let times = PhaseTimes::default();
                // Its pause began with the silence.
                let again = Again { at: now.wall, end, times, result: None, not_before: Some(now.wall) };
                self.again(now, task, again);
            }
        }
    }

    /// An agent has left, or another process follows it: its runs that are out of contact do not come back.
    pub(crate) fn give_up_runs_of(&mut self, now: Now, id: &AgentId, end: RoundEnd) {
        for task in self.tasks.out_of_contact(id) {
            self.give_up(now, task, end, Remains::Gone);
        }
    }

    /// Before anything else, handles what an agent's message says about runs that are out of contact.
    pub(crate) fn rejoin(&mut self, now: Now, sender: &Sender, message: &FromAgent) {
        let id = &sender.agent;
        if !self.tasks.has_out_of_contact(id) {
            return;
        }
        if let Some(run) = super::adopt::spoken_of(message) {
            return self.rejoin_run(now, sender, run, super::adopt::is_result(message));
        }
        if let FromAgent::Apply(_) = message {
            self.settle_silent_runs(now, id);
        }
    }

    fn rejoin_run(&mut self, now: Now, sender: &Sender, (task, round): (TaskId, Round), is_result: bool) {
        let id = &sender.agent;
        let is_it = |record: &&TaskRecord| record.is_out_of_contact() && record.round == round;
        let Some(record) = self.tasks.get(task).filter(is_it) else { return };
        let is_its_own = record.last_run().is_some_and(|run| run.is_with(id, sender.session));
        let is_over = record.lease().is_some() && !is_result;
        let is_busy = matches!(self.fleet.slot_or_free(id), Slot::Busy(_));
        // A result is accepted even if its agent has another run by now.
        if !is_its_own || is_over || (is_busy && !is_result) {
            return;
        }
        let line = if is_result { "has the result of" } else { "goes on with" };
        self.turn.info(format!("agent {id} is back and {line} round {round} of task {task}"));
        if is_busy {
            self.change(now, task, TaskEvent::Rejoin);
        } else {
            self.take_up(now, id, task);
        }
        self.time_run(now, task, None);
    }

    /// The run is with its agent again.
    fn take_up(&mut self, now: Now, id: &AgentId, task: TaskId) {
        let round = self.tasks.get(task).map(|record| record.round).unwrap_or_default();
        self.unpark(id);
        self.change(now, task, TaskEvent::Rejoin);
        self.fleet.give(id, task, round);
        self.watch(id);
    }

    /// An agent that asks for a task has no run: one that it has not reported on has not reached it.
    fn settle_silent_runs(&mut self, now: Now, id: &AgentId) {
        for task in self.tasks.out_of_contact(id) {
            let Some(record) = self.tasks.get(task) else { continue };
            let is_free = !matches!(self.fleet.slot_or_free(id), Slot::Busy(_));
            match record.stored_state() {
                // Nothing has been heard of the run since this controller handed it out.
                TaskState::Dispatched(run)
                    if run.dispatched.is_some() && run.ahead.is_none() && run.lease.is_none() && is_free =>
                {
                    self.take_up(now, id, task);
                }
                // The answer of an earlier controller may have been lost with it.
                TaskState::Dispatched(run) if run.dispatched.is_none() => {
                    self.give_up(now, task, RoundEnd::Returned, Remains::Unknown(now.mono));
                }
                _ => self.give_up(now, task, RoundEnd::Lost, Remains::Unknown(now.mono)),
            }
        }
    }

    /// An agent is about to count as lost; it was heard last at `heard`.
    pub(crate) fn suspect(&mut self, now: Now, id: &AgentId, heard: Mono) {
        match self.fleet.suspicion {
            Suspicion::Until(_, has_returned) => {
                return self.suspect_until(now.mono + self.settings.lost_after, has_returned);
            }
            Suspicion::Doubt(_) => return,
            Suspicion::None | Suspicion::Over => {}
        }
        let Some(agent) = self.fleet.get(id) else { return };
        let interval = self.settings.heartbeat_interval;
        // Its next heartbeat was due then, and messages are not always equally fast.
        let first = Silence {
            heard,
            due: heard + interval + interval / JITTER_SHARE,
            is_elsewhere: agent.about.host.is_some(),
        };
        if self.are_most(first).is_some() {
            self.fleet.suspicion = Suspicion::Doubt(first);
            self.turn.set_timer(Timer::Suspicion, now.mono + interval / DOUBT_SHARE);
        }
    }

    /// The number of agents that fell silent with the first one and the number of all that were in contact, if the silent ones are
    /// the majority.
    fn are_most(&self, Silence { heard, due, is_elsewhere }: Silence) -> Option<(usize, usize)> {
        let of_side =
            self.fleet.iter().map(|(_, agent)| agent).filter(|agent| agent.about.host.is_some() == is_elsewhere);
        let were_here = of_side.filter(|agent| agent.slot != Slot::Lost || agent.contact.heard >= heard);
        let until = due + self.settings.heartbeat_interval;
        let was_silent = |agent: &Agent| {
            agent.contact.heard <= due || agent.contact.silence.is_some_and(|(from, to)| from <= due && until < to)
        };
        let (silent, all) =
            were_here.fold((0, 0), |(silent, all), agent| (silent + usize::from(was_silent(agent)), all + 1));
        (silent >= 2 && silent * 2 > all).then_some((silent, all))
    }

    /// Whether an APPLY is older than the run of its agent: it was delayed on a connection that the agent has given up since, while a
    /// newer one told of the run. Agents that number their heartbeats have one connection at a time, and ask on it after a heartbeat.
    pub(crate) fn is_outrun(&self, id: &AgentId, connection: ConnectionId) -> bool {
        let has_told = |task| self.tasks.get(task).is_some_and(|record| record.phase() > Phase::Dispatched);
        let has_run = self.fleet.slot_or_free(id).task().is_some_and(has_told);
        (has_run || self.tasks.has_out_of_contact(id)) && self.fleet.has_newer_connection(id, connection)
    }

    /// By now, agents that were only about to speak have spoken.
    fn end_doubt(&mut self, now: Now, first: Silence) {
        let Some((silent, all)) = self.are_most(first) else {
            self.fleet.suspicion = Suspicion::None;
            return self.hold_silent_runs(now, false);
        };
        let line = format!(
            "{silent} of {all} agents have fallen silent within one heartbeat interval, so this controller may be cut off itself: \
             their tasks wait for {} more before other agents get them",
            span(self.settings.lost_after)
        );
        self.turn.incident(Severity::Warn, IncidentKind::CutOff, line);
        self.suspect_until(now.mono + self.settings.lost_after, false);
    }

    fn suspect_until(&mut self, until: Mono, has_returned: bool) {
        self.fleet.suspicion = Suspicion::Until(until, has_returned);
        self.turn.set_timer(Timer::Suspicion, until);
    }

    /// A lost agent is back.
    pub(crate) fn trust(&mut self, now: Now, id: &AgentId) {
        let until = now.mono + self.settings.lost_after;
        let is_first = match self.fleet.suspicion {
            Suspicion::Until(_, false) => return self.suspect_until(until, true),
            Suspicion::Doubt(_) | Suspicion::Until(_, true) => return,
            Suspicion::Over => self.tasks.are_out_of_contact(),
            Suspicion::None => self.tasks.are_out_of_contact() && self.is_back_before_most(now, id),
        };
        if !is_first {
            self.fleet.suspicion = Suspicion::None;
            return;
        }
        self.turn.info(format!("agent {id} is the first one back: the tasks of the others wait for them"));
        self.suspect_until(until, true);
        self.hold_silent_runs(now, true);
    }

    /// Whether most agents are silent when this lost one is back. If a network is cut in one direction after the other, agents fall
    /// silent at different moments, so that none of them seems to be lost together with most others.
    fn is_back_before_most(&self, now: Now, id: &AgentId) -> bool {
        let Some(agent) = self.fleet.get(id) else { return false };
        let Some((since, _)) = agent.contact.silence else { return false };
        let late = self.settings.heartbeat_interval + self.settings.heartbeat_interval / JITTER_SHARE;
        let is_elsewhere = agent.about.host.is_some();
        let of_side = self.fleet.iter().filter(|(_, agent)| agent.about.host.is_some() == is_elsewhere);
        // Agents that were lost before it are no sign of a cut.
        let were_here = of_side.filter(|(_, agent)| agent.slot != Slot::Lost || agent.contact.heard >= since);
        let (silent, all) = were_here.fold((0, 0), |(silent, all), (other, agent)| {
            let is_silent = other == id || now.mono.since(agent.contact.heard) > late;
            (silent + usize::from(is_silent), all + 1)
        });
        silent >= 2 && silent * 2 > all
    }

    /// The time of a suspicion has passed.
    pub(crate) fn end_suspicion(&mut self, now: Now) {
        let has_returned = match self.fleet.suspicion {
            Suspicion::Doubt(first) => return self.end_doubt(now, first),
            Suspicion::Until(_, has_returned) => has_returned,
            Suspicion::None | Suspicion::Over => return,
        };
        let count = self.tasks.all_out_of_contact().len();
        if count > 0 {
            self.turn.warn(format!("agents are still silent: {count} of their tasks go to other agents"));
        }
        self.fleet.suspicion = if has_returned { Suspicion::None } else { Suspicion::Over };
        self.hold_silent_runs(now, false);
    }

    fn hold_silent_runs(&mut self, now: Now, suspected: bool) {
        for task in self.tasks.all_out_of_contact() {
            self.change(now, task, TaskEvent::Suspect(suspected));
        }
        if !suspected && self.queue.len() > 0 {
            self.turn.inform();
        }
    }

    /// What a task waits for while its run is out of contact, besides an agent for another round.
    pub(crate) fn silent_holdup(&self, now: Now, record: &TaskRecord, other: Holdup) -> Holdup {
        let TaskState::OutOfContact { since, suspected, .. } = &record.state else { return other };
        let until = match self.fleet.suspicion {
            Suspicion::Until(until, _) if *suspected => Some(now.wall + until.since(now.mono)),
            Suspicion::None | Suspicion::Doubt(_) | Suspicion::Over | Suspicion::Until(..) => None,
        };
        Holdup::Silent { since: *since, until, other: Box::new(other) }
    }

    /// Checks that no agent is busy with a run that is out of contact, and that a deadline ends the wait of each one that is held
    /// back.
    pub(crate) fn check_contact(&self) {
        for task in self.tasks.all_out_of_contact() {
            let record = self.tasks.get(task).unwrap_or_else(|| panic!("the forgotten task {task} is out of contact"));
            let TaskState::OutOfContact { was, suspected, .. } = &record.state else {
                panic!("task {task} is not out of contact: {:?}", record.state)
            };
            assert!(
                (Phase::Dispatched..=Phase::Ended).contains(&was.phase()),
                "{task} is out of contact without a run"
            );
            assert!(!self.fleet.busy().any(|(_, busy)| busy == task), "an agent is busy with the silent {task}");
            let is_awaited = self.turn.has_timer(&Timer::Suspicion);
            assert!(!suspected || is_awaited, "{task} is held back for ever");
        }
    }
}
