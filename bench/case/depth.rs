//! A long queue: submit and dispatch with 1,000,000 waiting tasks against 1,000, by two services side by side. A dispatch
//! is an agent's request and its answer.

use std::time::Duration;

use crate::load::Load;
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::service::Service;
use crate::{Bench, BenchError, stock};
use api::wire::agent::ToAgent;
use api::wire::requests::heartbeat::Heartbeat;
use api::wire::requests::report::Report;
use api::wire::requests::submit::Submission;
use api::wire::requests::{FromAgent, Sender};
use api::wire::{agent, client};
use base::{AgentId, ExitCode, Phase, PhaseTimes, RunResult, Session};
use proc::signals::Signals;

const RATIO_MAX: f64 = 1.3;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let (shallow, deep) = bench.pick((1_000, 1_000_000), (10, 1_000));
    let samples = bench.pick(300, 3);
    let services = [stocked(bench, shallow)?, stocked(bench, deep)?];
    let mut loads = services.iter().map(|service| service.load(bench.signals)).collect::<Result<Vec<_>, _>>()?;
    let mut dispatchers = services.iter().map(|service| Dispatcher::start(service, bench.signals));
    let mut dispatchers =
        [dispatchers.next(), dispatchers.next()].into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    let (mut submits, mut dispatches) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..bench.plan.rounds {
        for at in [0, 1] {
            let times = (0..samples).map(|_| submit(&mut loads[at], bench.signals)).collect::<Result<Vec<_>, _>>()?;
            submits[at].push(percentile(&times, 0.5));
            let dispatcher = &mut dispatchers[at];
            let times = (0..samples).map(|_| dispatcher.dispatch(bench.signals)).collect::<Result<Vec<_>, _>>()?;
            dispatches[at].push(percentile(&times, 0.5));
        }
    }
    let row = |what: &str, [short, long]: &[Vec<f64>; 2]| {
        let what = format!("{what} with {deep} waiting, p50");
        Measured::new(what, Unit::Seconds, long).against(format!("with {shallow}"), short).goal_ratio_at_most(RATIO_MAX)
    };
    let rows = vec![row("durable submit", &submits), row("dispatch", &dispatches)];
    services.into_iter().for_each(|service| service.end(bench.signals));
    Ok(rows)
}

/// A service without agents, and its number of waiting tasks.
pub(crate) fn stocked(bench: &mut Bench<'_>, tasks: u64) -> Result<Service, BenchError> {
    let state_dir = bench.place.folder().join(format!("stock-{:08x}", rand::random::<u32>()));
    stock::fill(&state_dir, NOTHING.0, tasks)?;
    let key = |name, value: String| (name, value);
    // Space for the tasks that the case adds.
    let room = (tasks + 100_000).to_string();
    let state_dir = state_dir.to_string_lossy().into_owned();
    bench.host_with(0, &[key("LLTS_STATE_DIR", state_dir), key("LLTS_WAITING_TASKS_MAX", room)])
}

fn submit(load: &mut Load, signals: &mut Signals) -> Result<f64, BenchError> {
    let submission = Submission { parameters: stock::parameters(), ..Submission::new(NOTHING.0) };
    let (time, answer) = load.ask(&submission.request().encode(), signals)?;
    client::decode(&answer)?;
    Ok(time.as_secs_f64())
}

/// An agent that takes a task and reports at once that it has finished.
struct Dispatcher {
    load: Load,
    sender: Sender,
}

impl Dispatcher {
    fn start(service: &Service, signals: &mut Signals) -> Result<Self, BenchError> {
        let name = AgentId::new("dispatcher").map_err(|error| BenchError::Unexpected(error.to_string()))?;
        let sender = Sender::new(name, Session(1));
        Ok(Self { load: service.load(signals)?, sender })
    }

    fn say(&mut self, message: &FromAgent, signals: &mut Signals) -> Result<(Duration, ToAgent), BenchError> {
        let (time, answer) = self.load.ask(&agent::encode(&self.sender, message), signals)?;
        let unknown = || {
            BenchError::Unexpected(format!("this is not an answer to an agent: {:?}", String::from_utf8_lossy(&answer)))
        };
        Ok((time, agent::decode(&answer).ok_or_else(unknown)?))
    }

    /// Seconds from the request to the task.
    fn dispatch(&mut self, signals: &mut Signals) -> Result<f64, BenchError> {
        // The agent sends a heartbeat before each round, because the rounds of the other service may have taken long.
        let heartbeat = Heartbeat::default();
        self.say(&FromAgent::Heartbeat(heartbeat), signals)?;
        let (time, ToAgent::Dispatch(dispatch)) = self.say(&FromAgent::Apply(None), signals)? else {
            return Err(BenchError::Unexpected("the controller has no task for the agent".to_owned()));
        };
        let report = Report {
            task: dispatch.task,
            round: Some(dispatch.round),
            phase: Phase::Finished,
            times: PhaseTimes::default(),
            ran: None,
            result: Some(RunResult::of(ExitCode(0), String::new())),
            provided: None,
            progress: None,
            let_go: None,
            wait: None,
        };
        match self.say(&FromAgent::Report(Box::new(report)), signals)? {
            (_, ToAgent::Reported { accepted: true, .. }) => Ok(time.as_secs_f64()),
            (_, other) => Err(BenchError::Unexpected(format!("unexpected answer to a report: {other:?}"))),
        }
    }
}
