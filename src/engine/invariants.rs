//! All invariants of the controller. Tests check them after each step.

use super::Controller;
use crate::fleet::agent::Slot;
use crate::readers::waits::Subject;
use crate::relations::jobs::Job;
use crate::turn::effect::Timer;
use base::{Phase, TaskState};

impl Controller {
    /// Checks every invariant.
    ///
    /// # Panics
    /// When an invariant does not hold; the message names it.
    pub fn sanity_check(&self) {
        let open = self.graphs.iter().filter(|graph| !graph.has_ended);
        self.check_tasks(open.flat_map(|graph| &graph.accepted.pins));
        self.fleet.sanity_check();
        self.check_young();
        self.readers.scans.sanity_check();
        self.queue.sets.sanity_check(self.fleet.tools());
        self.tasks.retained.sanity_check();
        self.check_runs();
        self.check_contact();
        self.check_families();
        self.check_waits();
        self.check_outputs();
        self.check_acknowledgements();
        self.check_relations();
        self.check_job_statuses();
        self.check_graphs();
        self.check_end_logs();
        self.check_lists();
        if let Some((task, agent)) = self.next_match() {
            panic!("task {task} waits while agent {agent} is parked");
        }
    }

    /// A task has an agent exactly when that agent has the task.
    fn check_runs(&self) {
        for (agent, task) in self.fleet.busy() {
            let record = self.tasks.get(task).unwrap_or_else(|| panic!("agent {agent} has the forgotten task {task}"));
            let active = (Phase::Dispatched..=Phase::Ended).contains(&record.phase());
            let mine = record.assignment().is_some_and(|run| run.agent == *agent);
            assert!(active && mine, "agent {agent} is busy with {task}, which is {:?}", record.state);
        }
        for task in self.fleet.expiring.keys() {
            let record = self.tasks.get(*task).unwrap_or_else(|| panic!("the lease of the forgotten task {task}"));
            assert!((Phase::Dispatched..=Phase::Ended).contains(&record.phase()), "{task} has a lease and no run");
            assert!(
                !self.fleet.busy().any(|(_, busy)| busy == *task),
                "{task} is given up, and its agent is busy with it"
            );
        }
        for record in self.tasks.newest_before(None) {
            let (TaskState::Dispatched(run)
            | TaskState::Preparing(run)
            | TaskState::Running(run)
            | TaskState::Ended { assignment: run, .. }) = &record.state
            else {
                continue;
            };
            if self.fleet.is_expiring(record.id) {
                assert!(self.turn.has_timer(&Timer::Lease(record.id)), "the lease of {} is awaited forever", record.id);
                continue;
            }
            let agent = self.fleet.get(&run.agent);
            let list = agent.and_then(|agent| agent.list.as_deref());
            if list.is_some_and(|list| list.ahead().any(|task| task == record.id)) {
                continue;
            }
            let slot = self.fleet.slot(&run.agent);
            assert_eq!(slot, Some(Slot::Busy(record.id)), "task {} is with agent {}", record.id, run.agent);
            assert!(self.turn.has_timer(&Timer::Silence(run.agent.clone())), "no timer watches agent {}", run.agent);
        }
    }

    /// Families are open exactly as long as a member has not finished, and no descendant of an ended task is left to run.
    fn check_families(&self) {
        let finished = |task| match self.tasks.get(task) {
            Some(record) => record.phase() == Phase::Finished,
            None => self.graphs.of_root(task).is_none_or(|graph| graph.has_ended),
        };
        for (root, count) in self.tasks.families.unfinished() {
            let members = self.tasks.families.descendants(root).into_iter().chain([root]);
            assert_eq!(members.filter(|member| !finished(*member)).count(), count, "family of {root}");
        }
        for root in self.tasks.retained.roots() {
            assert!(!self.tasks.families.is_open(root) && finished(root), "family of {root} is kept before its end");
        }
        for record in self.tasks.newest_before(None) {
            let Some(parent) = record.parent.and_then(|parent| self.tasks.get(parent)) else { continue };
            let doomed = record.kill.is_some() || record.phase() >= Phase::Ended;
            assert!(parent.phase() < Phase::Ended || doomed, "task {} outlives its parent {}", record.id, parent.id);
        }
    }

    fn check_waits(&self) {
        self.readers.waits.sanity_check();
        for (ticket, subject) in self.readers.waits.iter() {
            assert!(self.turn.has_timer(&Timer::QueryWait(ticket)), "{ticket:?} waits forever");
            let task = match subject {
                Subject::Task(task) => *task,
                Subject::Job(name) => {
                    let has_ended = self.relations.job(name).map(Job::has_ended);
                    let is_open = has_ended == Some(false) || self.is_of_open_graph(name);
                    assert!(is_open, "{ticket:?} waits for job {name}");
                    continue;
                }
                Subject::Graph(graph) => {
                    let has_ended = self.graphs.get(*graph).map(|graph| graph.has_ended);
                    assert_eq!(has_ended, Some(false), "{ticket:?} waits for graph {graph}");
                    continue;
                }
                Subject::Ends(_) => continue,
                Subject::Status => {
                    assert!(self.turn.has_timer(&Timer::Look), "{ticket:?} is not told of changes");
                    continue;
                }
            };
            let record = self.tasks.get(task).unwrap_or_else(|| panic!("{ticket:?} waits for the forgotten {task}"));
            assert!(record.phase() < Phase::Finished, "{ticket:?} waits for {task}, which has finished");
        }
    }
}
