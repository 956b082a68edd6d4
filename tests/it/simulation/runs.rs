//! The runs that really take place, compared with the orders to agents: one task, one run at a time (README.md, promise 3).

use std::time::Duration;

use api::wire::agent::ToAgent;
use api::wire::requests::FromAgent;
use api::wire::requests::heartbeat::{Directive, Heard};
use base::{AgentId, ExitCode, Phase, Round, RoundEnd, TaskId, TaskRecord};

use crate::simulation::dice::{MILLI, Nanos};
use crate::simulation::model::{Disk, Model, has_result_of};
use crate::simulation::plan::{HEARTBEAT, KILL_INTERVAL, STRAGGLER_GRACE};
use crate::simulation::world::World;

/// The time from the notice that a run is not wanted to the end of its last process: SIGTERM, SIGKILL, and the same for its
/// remains.
const FENCE: Nanos = KILL_INTERVAL + STRAGGLER_GRACE + 250 * MILLI;

/// A run.sh that was started.
pub(crate) struct Run {
    pub(crate) agent: usize,
    pub(crate) name: AgentId,
    pub(crate) task: TaskId,
    pub(crate) round: Round,
    pub(crate) started: Nanos,
    pub(crate) exit_code: Option<i32>,
    /// When the last process of it must be gone.
    pub(crate) deadline: Option<Nanos>,
    exclusive: bool,
}

impl Model {
    pub(crate) const fn new_run(&mut self) -> u64 {
        self.prepared += 1;
        self.prepared
    }

    pub(crate) fn agent_told(&mut self, now: Nanos, agent: usize, answer: &ToAgent, disk: &Disk) {
        let refused = match answer {
            ToAgent::Dispatch(dispatch) => {
                self.fenced.remove(&(agent, dispatch.task, dispatch.round));
                return;
            }
            ToAgent::List(list) => {
                for dispatch in &list.dispatches {
                    self.fenced.remove(&(agent, dispatch.task, dispatch.round));
                }
                return;
            }
            ToAgent::Reported { task, round, finished: true, accepted: true } => {
                if self.given_up.contains(&(*task, *round)) {
                    return;
                }
                let record = &disk[task];
                let kept = has_result_of(record, *round);
                assert!(kept, "the confirmed result of round {round} of task {task} is not kept: {record:?}");
                self.confirmed.insert((*task, *round));
                return;
            }
            ToAgent::Reported { task, round, accepted: false, .. } => (*task, *round),
            ToAgent::Heard(Heard { wanted: Some((task, round, Directive::Drop)), .. }) => (*task, *round),
            _ => return,
        };
        self.fenced.insert((agent, refused.0, refused.1));
        for number in &self.active {
            let Some(run) = self.runs.get_mut(number) else { continue };
            if run.agent == agent && (run.task, run.round) == refused {
                run.deadline.get_or_insert(now + FENCE);
            }
        }
    }

    pub(crate) fn paused(&mut self, agent: usize, length: Nanos) {
        for run in self.runs.values_mut().filter(|run| run.agent == agent) {
            run.deadline = run.deadline.map(|deadline| deadline + length);
        }
    }

    /// An agent that knows that a run is void ends it (README.md, promise 3).
    pub(crate) fn check_fences(&self, now: Nanos) {
        for run in self.active.iter().filter_map(|number| self.runs.get(number)) {
            let Run { task, round, name, .. } = run;
            assert!(
                run.deadline.is_none_or(|end| now <= end),
                "{name} goes on with round {round} of {task}, which is void or over"
            );
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a run is all of this")]
    pub(crate) fn run_started(
        &mut self,
        now: Nanos,
        agent: usize,
        name: AgentId,
        number: u64,
        task: TaskId,
        round: Round,
        disk: &Disk,
    ) {
        let fenced = self.fenced.contains(&(agent, task, round));
        assert!(!fenced, "{name} starts round {round} of {task} although it knows that the task is not wanted");
        if let Some(last) = self.killed.get(&task) {
            assert!(round <= *last, "{name} starts round {round} of {task} after its kill in round {last}");
        }
        if self.gentle {
            let past = disk.get(&task).map(|record| &record.past[..]).unwrap_or_default();
            let by_policy = |round| {
                let end = past.iter().find(|past| past.round == round).map(|past| past.end);
                // A task that came from a dying controller may be overtaken by the APPLY that asked for it.
                end.is_some_and(|end| end != RoundEnd::Lost)
            };
            // The lease of an exclusive one may end while the controller starts again.
            let before = self.runs.values().find(|run| run.task == task && !run.exclusive && !by_policy(run.round));
            let lost = self.unrecorded.iter().any(|(other, ..)| *other == task);
            assert!(
                before.is_none() || lost,
                "{task} runs once more in round {round}, though its agent has no trouble"
            );
        }
        let same = self.rounds.entry((task, round)).or_default();
        for other in same.iter().filter_map(|other| self.runs.get(other)) {
            let lost =
                [&name, &other.name].iter().any(|name| self.unrecorded.contains(&(task, round, (*name).clone())));
            assert!(lost, "round {round} of {task} runs at {} and then at {name}", other.name);
            self.repeated_rounds += 1;
        }
        same.push(number);
        let deadline = self.end_of_run(now, disk.get(&task));
        let exclusive = disk.get(&task).is_some_and(|record| record.policy.needs.exclusive);
        let run = Run { agent, name, task, round, started: now, exit_code: None, deadline, exclusive };
        for other in self.active.iter().filter_map(|other| self.runs.get(other)) {
            let overlap = other.task == task && self.calm_since.is_some();
            assert!(!overlap, "{task} runs in round {} and {round} at once, though all is calm", other.round);
            // README.md, promise 3, whatever goes wrong.
            let overlap = other.task == task && exclusive;
            assert!(!overlap, "the exclusive {task} runs in round {} and {round} at once", other.round);
        }
        self.runs.insert(number, run);
        self.active.insert(number);
    }

    /// The time by which the last process of a run that begins now must have ended: its time limit, or that of the task, has
    /// passed, and its agent, which learns of it with its next heartbeat at the latest, has ended it.
    fn end_of_run(&self, now: Nanos, record: Option<&TaskRecord>) -> Option<Nanos> {
        let policy = &record.filter(|_| self.prompt)?.policy;
        let timeout = policy.timeout.map(|timeout| now + nanos(timeout));
        let end = policy.end_before.map(|end| nanos(end.since(World::first_wall())));
        let end = timeout.into_iter().chain(end).min()?;
        Some(end.max(now) + HEARTBEAT + FENCE + 300 * MILLI)
    }

    /// A report of an agent on a run that it has given up is not a result.
    pub(crate) fn agent_says(&mut self, message: &FromAgent) {
        if let FromAgent::Report(report) = message
            && report.result.as_ref().is_some_and(|result| result.exit_code == ExitCode::LEASE_OVER)
        {
            self.given_up.insert((report.task, report.round.unwrap_or_default()));
        }
    }

    /// A task is said to have finished: nothing of it runs any more, as far as that is confirmed.
    pub(crate) fn check_confirmed(&self, record: &TaskRecord) {
        if record.phase() != Phase::Finished {
            return;
        }
        for run in self.active.iter().filter_map(|number| self.runs.get(number)).filter(|run| run.task == record.id) {
            assert!(!run.exclusive, "the exclusive {} has finished, but {} runs it", record.id, run.name);
            let unknown = self.unrecorded.contains(&(run.task, run.round, run.name.clone()));
            let told = record.unconfirmed || unknown || run.round != record.round;
            assert!(told, "{} has finished unconfirmed and does not say so: {} runs it", record.id, run.name);
        }
    }

    /// run.sh has ended; what it left behind may live on.
    pub(crate) fn run_ended(&mut self, number: u64, exit_code: i32) {
        self.runs.get_mut(&number).expect("a run that was started").exit_code = Some(exit_code);
    }

    /// Its agent has died while run.sh ran.
    pub(crate) fn run_died(&mut self, number: u64, disk: &Disk) {
        let run = &self.runs[&number];
        if run.exit_code.is_none() && disk.get(&run.task).is_some_and(|record| record.round == run.round) {
            *self.deaths.entry(run.task).or_default() += 1;
        }
    }

    /// No process of it is left.
    pub(crate) fn run_over(&mut self, number: u64) {
        assert!(self.active.remove(&number), "run {number} ends twice");
    }

    pub(crate) fn active_runs(&self) -> usize {
        self.active.len()
    }
}

fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).expect("a simulation is short")
}
