//! The system of an agent: preparing, run.sh, what it leaves behind, and signals, as `shell/agent/runner.rs` sees them.

use std::time::Duration;

use agent::slot::{Exited, Failure, Signal, SpawnFailure};
use api::wire::requests::apply::Dispatch;
use base::{Defer, ExitCode, Labels, Now, RunResult, Scalar};

use crate::simulation::dice::{MICRO, MILLI, Nanos};
use crate::simulation::event::Event;
use crate::simulation::host::Input;
use crate::simulation::plan::{Prepare, Spawn, TaskPlan, ambush};
use crate::simulation::world::{World, note};

#[derive(Clone, Copy, Debug)]
pub(crate) enum ToolEvent {
    Prepared,
    /// run.sh ends.
    Ends(i32),
    StragglerEnds(usize),
}

pub(crate) struct ToolRun {
    pub(crate) number: u64,
    dispatch: Dispatch,
    plan: TaskPlan,
    aborted: bool,
    spawns: u32,
    /// run.sh, until the agent has collected its end.
    child: Option<Child>,
    /// Those that are alive.
    stragglers: Vec<usize>,
    unreaped: u32,
}

#[derive(Clone, Copy)]
enum Child {
    Running,
    Ended(i32),
}

impl ToolRun {
    /// The content that run.sh writes to defer.info.
    fn defer(&self) -> Option<Defer> {
        let (pause, close) = self.plan.policy_fields.defer?;
        let gates = if close { self.plan.policy_fields.gate_names() } else { String::new() };
        let gates = Labels::parse(&gates).expect("names of ours");
        Some(Defer { retry_after: Some(Duration::from_nanos(pause)), until_released: false, gates })
    }

    pub(crate) const fn is_alive(&self) -> bool {
        matches!(self.child, Some(Child::Running)) || !self.stragglers.is_empty()
    }
}

fn failure(exit_code: ExitCode) -> Failure {
    Failure { exit_code, error: "simulated".to_owned() }
}

fn plan_of(dispatch: &Dispatch) -> usize {
    let plan = dispatch.fields.get("plan").and_then(Scalar::as_u64).expect("every task names its plan");
    usize::try_from(plan).expect("a small number")
}

impl World {
    fn tool_after(&mut self, agent: usize, delay: Nanos, event: ToolEvent) {
        let Some(run) = self.hosts[agent].run.as_ref().map(|run| run.number) else { return };
        self.after(delay, Event::Tool { agent, run, event });
    }

    pub(crate) fn prepare(&mut self, agent: usize, now: Now, dispatch: Dispatch) {
        assert!(self.hosts[agent].run.is_none(), "agent {agent} prepares {dispatch:?} beside another run");
        let plan = self.plan.tasks[plan_of(&dispatch)].clone();
        let (number, prepare, stragglers) = (self.model.new_run(), plan.prepare, Vec::new());
        let run = ToolRun { number, dispatch, plan, aborted: false, spawns: 0, child: None, stragglers, unreaped: 0 };
        self.hosts[agent].run = Some(run);
        match prepare {
            Prepare::Slow(length) => self.tool_after(agent, length, ToolEvent::Prepared),
            Prepare::Quick | Prepare::Fails => self.prepared(agent, now),
        }
    }

    /// A preparation notices soon that its task is not wanted.
    pub(crate) fn abort_prepare(&mut self, agent: usize) {
        let Some(run) = &mut self.hosts[agent].run else { return };
        run.aborted = true;
        let delay = self.dice.skewed(MICRO..=20 * MILLI);
        self.tool_after(agent, delay, ToolEvent::Prepared);
    }

    pub(crate) fn prepared(&mut self, agent: usize, now: Now) {
        let host = &self.hosts[agent];
        let Some(run) = &host.run else { return };
        let outcome = match run.plan.prepare {
            _ if !host.shelf.has(&run.dispatch.tool) => {
                // The agent looks again when it has said so.
                self.after(0, Event::Noticed { agent });
                Err(failure(ExitCode::TOOL_MISSING))
            }
            Prepare::Fails => Err(failure(ExitCode::UNPACK_FAILED)),
            Prepare::Slow(_) if run.aborted => Err(failure(ExitCode::KILLED_PREPARING)),
            Prepare::Slow(_) | Prepare::Quick => Ok(()),
        };
        self.slot(agent).handle_prepared(now, outcome);
    }

    pub(crate) fn spawn(&mut self, agent: usize, now: Now) {
        let Some(run) = &mut self.hosts[agent].run else { panic!("agent {agent} spawns nothing") };
        run.spawns += 1;
        let outcome = match run.plan.spawn {
            Spawn::Busy(times) if run.spawns <= times => Err(SpawnFailure::Busy),
            Spawn::Fails => Err(SpawnFailure::Failed(failure(ExitCode::PREPARE_FAILED))),
            Spawn::Works | Spawn::Busy(_) => Ok(()),
        };
        if outcome.is_ok() {
            self.started(agent);
        }
        self.slot(agent).handle_spawned(now, outcome);
    }

    fn started(&mut self, agent: usize) {
        let Some(run) = &mut self.hosts[agent].run else { return };
        assert!(run.child.is_none(), "run.sh is started twice");
        run.child = Some(Child::Running);
        run.stragglers = (0..run.plan.stragglers.len()).collect();
        let (number, task, round) = (run.number, run.dispatch.task, run.dispatch.round);
        let exit_code = run.plan.policy_fields.later_exit(round.0).unwrap_or(run.plan.exit_code);
        let duration = run.plan.duration;
        let (plan, step) = (plan_of(&run.dispatch), run.dispatch.step.clone());
        let has = |name| run.dispatch.fields.get(name).is_some();
        let must_be_stored = has("__SUBMIT_KEY__") && !has("__EAGER__");
        let is_stored = self.server.disk.contains_key(&task);
        assert!(is_stored || !must_be_stored, "{task} has a key and runs before it is stored");
        let is_exclusive = self.server.disk.get(&task).is_some_and(|record| record.policy.needs.exclusive);
        assert!(
            !is_exclusive || !self.hosts[agent].simple,
            "the exclusive {task} runs at agent {agent} without a lease"
        );
        note!(self, "agent {agent} runs round {round} of {task} as run {number}");
        let name = self.hosts[agent].name.clone();
        let now = self.now;
        self.model.run_started(now, agent, name, number, task, round, &self.server.disk);
        self.tool_after(agent, duration, ToolEvent::Ends(exit_code));
        if self.plan.ambush && self.plan.tasks[plan].policy_fields.exclusive && self.dice.chance(200) {
            let (delay, fault) = (self.dice.skewed(0..=duration), ambush(&mut self.dice, agent));
            self.after(delay, Event::Fault(fault));
        }
        if let Some(step) = step {
            assert!(is_stored, "{task} is one of a step and runs before it is stored");
            self.step_runs(task, round, &step);
        }
        self.submit_children(plan, task);
    }

    pub(crate) fn signal(&mut self, agent: usize, signal: Signal) {
        let Some(run) = &self.hosts[agent].run else { return };
        let all = signal == Signal::Kill;
        let mut ends = Vec::new();
        if matches!(run.child, Some(Child::Running)) && (all || !run.plan.ignores_term) {
            ends.push(ToolEvent::Ends(if all { -9 } else { -15 }));
        }
        let obeys = |straggler: &&usize| all || !run.plan.stragglers[**straggler];
        ends.extend(run.stragglers.iter().filter(obeys).map(|straggler| ToolEvent::StragglerEnds(*straggler)));
        for end in ends {
            let delay = self.dice.skewed(10 * MICRO..=5 * MILLI);
            self.tool_after(agent, delay, end);
        }
    }

    /// SIGKILL to everything below the agent, by its guard.
    pub(crate) fn end_run_from_outside(&mut self, agent: usize) {
        let Some(run) = self.hosts[agent].run.as_mut().filter(|run| run.is_alive()) else { return };
        let number = run.number;
        run.unreaped += u32::try_from(run.stragglers.drain(..).count()).unwrap_or_default();
        if let Some(child @ Child::Running) = &mut run.child {
            *child = Child::Ended(-9);
            self.model.run_ended(number, -9);
        }
        self.model.run_over(number);
        self.agent_receives(agent, Input::ChildEnded);
    }

    pub(crate) fn tool_event(&mut self, agent: usize, number: u64, event: ToolEvent) {
        let Some(run) = self.hosts[agent].run.as_mut().filter(|run| run.number == number) else { return };
        if run.plan.poison && matches!(event, ToolEvent::Ends(0..)) {
            note!(self, "run {number} kills agent {agent}");
            return self.agent_dies(agent);
        }
        let input = match event {
            ToolEvent::Prepared if run.child.is_none() => Input::Prepared,
            ToolEvent::Ends(code) if matches!(run.child, Some(Child::Running)) => {
                run.child = Some(Child::Ended(code));
                self.model.run_ended(number, code);
                Input::ChildEnded
            }
            ToolEvent::StragglerEnds(straggler) if run.stragglers.contains(&straggler) => {
                run.stragglers.retain(|other| *other != straggler);
                run.unreaped += 1;
                Input::ChildEnded
            }
            _ => return,
        };
        note!(self, "run {number} at agent {agent}: {event:?}");
        let over = self.hosts[agent].run.as_ref().is_some_and(|run| !run.is_alive());
        if over && matches!(input, Input::ChildEnded) {
            self.model.run_over(number);
        }
        self.agent_receives(agent, input);
    }

    /// SIGCHLD: the end of run.sh first, then the orphans.
    pub(crate) fn collect_and_reap(&mut self, agent: usize, now: Now) {
        let Some(run) = &mut self.hosts[agent].run else { return };
        if let Some(Child::Ended(code)) = run.child {
            run.child = None;
            let result = RunResult {
                cpu_seconds: 0.25,
                max_rss_kib: 1000,
                report_tail: format!("run {}\n", run.number),
                stderr_tail: "a \"word\"\n".to_owned(),
                defer: run.defer().filter(|_| code == 75).map(Box::new),
                // Some tools stay, as far as the controller learns from their runs. The seeds that show a defect are without.
                value: (run.number % 3 == 1).then(|| run.number.to_string().into()),
                warm: (self.defect.is_none() && run.number % 3 > 0).then_some(run.number % 3 == 1),
                ..RunResult::of(ExitCode(code), String::new())
            };
            self.slot(agent).handle_exited(now, Exited { result, provided: None });
        }
        let Some(run) = &mut self.hosts[agent].run else { return };
        let (reaped, left) = (std::mem::take(&mut run.unreaped), run.is_alive());
        if run.child.is_none() {
            self.slot(agent).handle_tree(now, left, reaped);
        }
    }

    pub(crate) fn check_tree(&mut self, agent: usize, now: Now) {
        if let Some(run) = &mut self.hosts[agent].run {
            run.unreaped = 0;
            let left = run.is_alive();
            self.slot(agent).handle_tree(now, left, 0);
        }
    }

    pub(crate) fn remove(&mut self, agent: usize, now: Now) {
        let run = self.hosts[agent].run.take();
        assert!(!run.is_some_and(|run| run.is_alive()), "agent {agent} leaves processes behind");
        self.slot(agent).handle_removed(now);
    }
}
