//! Lists: an agent that asks for a task gets several short ones, and runs them without asking in between.
//!
//! | a task of a list | is |
//! |---|---|
//! | the first one that has not ended | the agent's task, as if it had got that one alone |
//! | a later one | DISPATCHED with its place in the list ([`Assignment::ahead`]) |
//!
//! The agent's last report on a task makes the next one the agent's task: the agent starts it without waiting for the answer.
//! Neither the record nor the store learns of that before the first report on that next task. Until then it is shown as WAITING,
//! because it may wait again in the same round. After a restart, the first task of a list that has not ended is the agent's task,
//! unless the agent has another one. The agent continues its list under the new controller, or says that it has let it go.
//!
//! A task goes ahead only if its run is plain and expected to be short. If the tool of a task stays at agents, its list has no
//! other tool, because the agent may have to start that one. A list has no more than half of the agent's share of the waiting
//! tasks, so that the lists become shorter as the queue does, and no agent ends long after the others. The time of a list
//! (`LIST_TIME_MAX`) bounds the sum of its expected runs. It is also the time within which the agent may start its tasks: after
//! that it lets the list go. So a task that takes longer than expected does not hold up those behind it, and a task of a higher
//! priority waits for no more than that time and the run that follows.
//!
//! A task that has a gate with any limit does not go ahead. A gate that gets a limit later holds up the waiting tasks, but not
//! those that are already in the list of an agent. They escape it for no more than the time of the list.
//!
//! Tasks that have not started come back in the same round if the agent says so ([`LetGo`]), because it will not start them. If the
//! agent has left, or has forgotten the list, they get the next round, which fences off a run that the agent might still start.
//! That does not count as a loss. If the agent is silent, they get the next round when another agent takes them: it may have
//! started them ([`super::contact`]).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::agent::{List, Slot};
use super::leases::Remains;
use crate::tasks::transition::TaskEvent;
use crate::turn::effect::BATCH_DELAY_MAX;
use crate::{Controller, batch_delay};
use api::wire::reply::Reply;
use api::wire::requests::apply;
use api::wire::requests::apply::{LIST_TASKS_MAX, ListTerms};
use api::wire::requests::report::LetGo;
use base::{
    AgentId, Assignment, ListPlace, Mono, Now, Phase, PhaseTimes, Round, RoundEnd, TaskId, TaskRecord, TaskState,
};

/// Maximum bytes of the fields of a task that goes ahead. A longer text costs more than the message that it would save.
const TASK_BYTES_MAX: usize = 4096;

/// The cost of a run besides its run.sh, so that a list of tasks without any duration is bounded, too.
const RUN_COST: Duration = Duration::from_micros(500);

/// The tasks that an earlier controller has stored as ahead, by their agents.
pub(crate) type StoredLists = BTreeMap<AgentId, Vec<(ListPlace, TaskId)>>;

impl Controller {
    /// The tasks that have not started in the lists of agents.
    pub fn ahead(&self) -> impl Iterator<Item = TaskId> {
        self.fleet.iter().filter_map(|(_, agent)| agent.list.as_deref()).flat_map(List::ahead)
    }

    /// Extends the answer to an agent that has got a task by the tasks that it gets ahead.
    pub(crate) fn with_list(&mut self, now: Now, id: &AgentId, reply: Reply) -> Reply {
        let counts = self.fleet.counts();
        let share = self.queue.len() / (2 * (counts.total - counts.lost).max(1));
        let max = share.min(self.settings.list_tasks_max).min(LIST_TASKS_MAX);
        if max < 2 || !self.fleet.get(id).is_some_and(|agent| agent.offer.is_full) {
            return reply;
        }
        let Reply::Assigned(first, None) = reply else { return reply };
        let learnt = self.learnt_duration(id, &first);
        let Some(mut sum) = expected(&first, learnt).filter(|_| self.may_be_in_list(&first)) else {
            return Reply::Assigned(first, None);
        };
        let number = self.fleet.last_list + 1;
        let mut tasks = vec![*first];
        while tasks.len() < max {
            let Some(next) = self.next_of_list(id, &tasks[0]) else { break };
            let Some(duration) = expected(next, learnt) else { break };
            sum += duration;
            if sum > self.settings.list_time_max {
                break;
            }
            let task = next.id;
            let place = ListPlace { list: number, place: u32::try_from(tasks.len()).unwrap_or(u32::MAX) };
            tasks.push(self.hand_ahead(now, task, id, place));
        }
        if tasks.len() < 2 {
            return Reply::Assigned(Box::new(tasks.remove(0)), None);
        }
        self.fleet.last_list = number;
        let terms = ListTerms { number, time: self.settings.list_time_max };
        let ahead = (1..).zip(tasks.iter().skip(1).map(|record| record.id)).collect();
        self.set_list(id, Some(Box::new(List { terms, running: 0, ahead })));
        Reply::AssignedList(tasks, terms)
    }

    fn set_list(&mut self, id: &AgentId, list: Option<Box<List>>) {
        if let Some(agent) = self.fleet.get_mut(id) {
            agent.list = list;
        }
    }

    fn list_mut(&mut self, id: &AgentId) -> Option<&mut List> {
        self.fleet.get_mut(id)?.list.as_deref_mut()
    }

    /// The next task for this agent, if it may follow the first one of its list.
    fn next_of_list(&self, id: &AgentId, first: &TaskRecord) -> Option<&TaskRecord> {
        let agent = self.fleet.get(id)?;
        let queue = &self.queue;
        let next = self.tasks.get(queue.best_for(id, agent)?)?;
        // Another tool may have to be started first, or may end this one to get its memory.
        let stays = self.fleet.stays(&first.tool) || self.fleet.stays(&next.tool);
        let is_alike = (next.tool == first.tool || !stays)
            && next.policy.priority == first.policy.priority
            && next.policy.lost_after == first.policy.lost_after
            && next.membership().map(|member| &member.name) == first.membership().map(|member| &member.name);
        (is_alike && self.may_be_in_list(next) && queue.is_stocked(next)).then_some(next)
    }

    /// Whether a task can be a part of a list: a run that waits for nothing, and that needs no commit first.
    fn may_be_in_list(&self, record: &TaskRecord) -> bool {
        let needs = &record.policy.needs;
        let is_told_after_commit = record.last_run().is_some_and(|run| run.after_commit);
        let may_stop = |name| self.relations.job(name).is_some_and(|job| job.memo.fails_max.is_some());
        record.round == Round(0)
            && !self.may_be_out(record.id)
            && !record.is_out_of_contact()
            && !self.tasks.must_be_stored(record.id)
            && !is_told_after_commit
            && !needs.exclusive
            && self.queue.gates.are_unlimited(needs)
            && record.after().is_empty()
            && record.place().is_none()
            && record.files.is_none()
            && record.kill.is_none()
            && !record.tool.is_source()
            && record.submitted.len() <= TASK_BYTES_MAX
            && record.membership().is_none_or(|member| !may_stop(&member.name))
    }

    /// How long the runs of a task's job usually take, or else those of its tool, if the agent has it warm.
    fn learnt_duration(&self, id: &AgentId, record: &TaskRecord) -> Option<Duration> {
        let of_job = record.membership().and_then(|member| self.relations.job(&member.name)?.usual_run_time());
        of_job.or_else(|| self.fleet.usual_warm_run(id, &record.tool))
    }

    /// An agent gets a task that it starts later.
    fn hand_ahead(&mut self, now: Now, task: TaskId, id: &AgentId, place: ListPlace) -> TaskRecord {
        let batch_delay =
            self.tasks.get(task).map(|record| batch_delay::after_queuing(now.wall, record)).unwrap_or_default();
        self.pin_for(now, task, id);
        let run = Assignment {
            agent: id.clone(),
            dispatched_at: now.wall,
            dispatched: Some(now.mono),
            after_commit: false,
            batch_delay,
            times: PhaseTimes::default(),
            lease: None,
            ahead: Some(Box::new(place)),
            host: self.fleet.host(id),
            progress: None,
        };
        self.change(now, task, TaskEvent::Dispatch(run));
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} was dispatched and is gone") };
        record.clone()
    }

    /// The agent's task has ended, and the agent goes on with its list.
    pub(crate) fn continue_list(&mut self, id: &AgentId) {
        if let Some((place, task)) = self.list_mut(id).and_then(|list| list.ahead.pop_front()) {
            let round = self.tasks.get(task).map(|record| record.round).unwrap_or_default();
            if let Some(list) = self.list_mut(id) {
                list.running = place;
            }
            self.fleet.give(id, task, round);
            return;
        }
        self.set_list(id, None);
    }

    /// A task of a list has ended. Its report may have overtaken the report on the task before it.
    pub(crate) fn leave_list(&mut self, id: &AgentId, task: TaskId) {
        if let Some(list) = self.list_mut(id) {
            list.ahead.retain(|(_, ahead)| *ahead != task);
        }
    }

    /// Gives each agent back the tasks of its list, as an earlier controller stored them.
    pub(crate) fn take_back_lists(&mut self, now: Now, lists: StoredLists) {
        for (id, mut tasks) in lists {
            tasks.sort_unstable();
            let number = tasks.last().map_or(0, |(place, _)| place.list);
            // An agent has one list at a time, so nothing can be left of an older one, unless the store is from elsewhere.
            for (_, task) in tasks.extract_if(.., |(place, _)| place.list != number) {
                self.void_round(now, task, RoundEnd::Returned, Remains::Gone);
            }
            let mut ahead: VecDeque<_> = tasks.into_iter().map(|(place, task)| (place.place, task)).collect();
            let Some((first, task)) = ahead.front().copied() else { continue };
            let mut running = first.saturating_sub(1);
            if self.fleet.slot(&id).is_none() {
                (running, _) = (first, ahead.pop_front());
                self.take_back_agent(now, &id, task);
            }
            let terms = ListTerms { number, time: self.settings.list_time_max };
            self.set_list(&id, Some(Box::new(List { terms, running, ahead })));
        }
    }

    /// An agent will not start the tasks of its list from this place on.
    pub(crate) fn take_back_list(&mut self, now: Now, id: &AgentId, let_go: LetGo) {
        let Some(list) = self.list_mut(id).filter(|list| list.terms.number == let_go.list) else { return };
        let first = list.ahead.partition_point(|(place, _)| *place < let_go.started);
        let mut tasks: Vec<_> = list.ahead.drain(first..).map(|(_, task)| task).collect();
        let has_started_its_own = list.running < let_go.started;
        if let (false, Some(Slot::Busy(task))) = (has_started_its_own, self.fleet.slot(id))
            && self.tasks.get(task).is_some_and(|record| record.phase() == Phase::Dispatched)
        {
            self.fleet.set_slot(id, Slot::Free);
            self.fleet.end_given(id);
            tasks.push(task);
        }
        for task in tasks {
            let of_it = |record: &&TaskRecord| matches!(&record.state, TaskState::Dispatched(run) if run.agent == *id);
            if self.tasks.get(task).filter(of_it).is_some() {
                self.take_back_unstarted(now, task);
            }
        }
    }

    /// An agent has lost its list, or is lost itself: the tasks behind its own get the next round.
    pub(crate) fn void_list(&mut self, now: Now, id: &AgentId) {
        let Some(list) = self.fleet.get_mut(id).and_then(|agent| agent.list.take()) else { return };
        for task in list.ahead() {
            let Some(record) = self.tasks.get(task) else { continue };
            if is_ahead(record, id) {
                self.void_round(now, task, RoundEnd::Returned, Remains::Gone);
            } else {
                // A report on it has overtaken the report on the task before it.
                self.void_round(now, task, RoundEnd::Lost, Remains::Unknown(now.mono));
            }
        }
    }

    /// The agent of a list is silent: each task of the list waits for the agent and for another round.
    pub(crate) fn lose_list(&mut self, now: Now, id: &AgentId, heard: Mono) {
        let Some(list) = self.fleet.get_mut(id).and_then(|agent| agent.list.take()) else { return };
        for task in list.ahead().filter(|task| self.tasks.get(*task).is_some()).collect::<Vec<_>>() {
            self.void_round(now, task, RoundEnd::Lost, Remains::Silent(heard));
        }
    }

    /// The answer to an agent that has not seen the answer with its task.
    pub(crate) fn answer_again(&mut self, now: Now, id: &AgentId, record: Box<TaskRecord>) -> Reply {
        let list = self.fleet.get(id).and_then(|agent| agent.list.as_deref()).filter(|list| list.running == 0);
        match list {
            Some(list) if !list.ahead.is_empty() => {
                let ahead = list.ahead().filter_map(|task| self.tasks.get(task).cloned());
                Reply::AssignedList(std::iter::once(*record).chain(ahead).collect(), list.terms)
            }
            Some(_) | None => {
                self.void_list(now, id);
                let step = self.step_context(record.id);
                Reply::Assigned(record, step)
            }
        }
    }

    /// How long the confirmation of an end may wait for a commit: the agent goes on with its list meanwhile.
    pub(crate) fn list_confirmation_delay(&self, reply: &Reply) -> Duration {
        let Reply::Reported { task, phase: Phase::Finished, refusal: None, .. } = reply else { return Duration::ZERO };
        let run = self.tasks.get(*task).and_then(TaskRecord::last_run);
        let agent = run.and_then(|run| self.fleet.get(&run.agent));
        if agent.is_some_and(|agent| agent.list.is_some()) { BATCH_DELAY_MAX } else { Duration::ZERO }
    }

    /// A task was handed out and has not started, and its agent will not start it: it waits again, in the same round.
    pub(crate) fn take_back_unstarted(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        match record.kill.as_ref().map(|kill| kill.cause.clone()) {
            Some(cause) if cause.ends_the_task() => self.close(now, task, cause.outcome()),
            _ => {
                self.change(now, task, TaskEvent::Return);
                // Its job may have been stopped meanwhile.
                self.skip_if_stopped(now, task);
            }
        }
    }
}

/// Whether a task is in the list of this agent, and has not started as far as the controller knows.
fn is_ahead(record: &TaskRecord, id: &AgentId) -> bool {
    matches!(&record.state, TaskState::Dispatched(run) if run.ahead.is_some() && run.agent == *id)
}

/// How long the run of a task is expected to take, if that is known.
fn expected(record: &TaskRecord, learnt: Option<Duration>) -> Option<Duration> {
    Some(apply::expected_duration(record).or(learnt)? + RUN_COST)
}

impl Controller {
    /// Checks that each task ahead is in the list of its agent, behind the agent's own task.
    pub(crate) fn check_lists(&self) {
        for (id, agent) in self.fleet.iter() {
            let Some(list) = &agent.list else { continue };
            let is_busy = matches!(agent.slot, Slot::Busy(_));
            assert!(is_busy || list.ahead.is_empty(), "agent {id} is {:?} and has a list: {list:?}", agent.slot);
            for task in list.ahead() {
                let run = self.tasks.get(task).filter(|record| record.phase() < Phase::Finished);
                let run = run.and_then(TaskRecord::assignment);
                assert!(run.is_some_and(|run| run.agent == *id), "{task} is in the list of {id} and not with it");
            }
        }
    }
}
