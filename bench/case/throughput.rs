//! Short tasks per second: one client that keeps 200 in flight, with one agent per core. The rival is xargs, which starts
//! the same run.sh, already unpacked, on as many cores.

use std::time::Duration;

use crate::load::{Heard, Load, task};
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::rate;
use crate::{Bench, BenchError, floor};
use api::wire::client;
use api::wire::requests::submit::Submission;
use proc::clock;
use proc::signals::Signals;

const IN_FLIGHT: usize = 200;
const RATIO_MIN: f64 = 0.9;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    floor::require("xargs", bench.signals)?;
    let (tasks, agents) = (bench.plan.tasks, bench.plan.agents);
    let folder = bench.place.tool(NOTHING)?;
    let service = bench.host(agents)?;
    let mut load = service.load(bench.signals)?;
    // The first task of a tool unpacks it, on each agent.
    run_tasks(&mut load, usize::from(agents) * 2, bench.signals)?;
    let (mut rival, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        rival.push(rate(tasks, floor::xargs(&folder, tasks, agents, bench.signals)?));
        rates.push(rate(tasks, run_tasks(&mut load, tasks, bench.signals)?));
    }
    drop(load);
    service.end(bench.signals);
    let row = Measured::new(format!("{tasks} short tasks, {agents} agents"), Unit::PerSecond, &rates);
    Ok(vec![row.against(format!("xargs -P{agents}"), &rival).goal_ratio_at_least(RATIO_MIN)])
}

fn run_tasks(load: &mut Load, count: usize, signals: &mut Signals) -> Result<Duration, BenchError> {
    run_commands(load, &Submission::new(NOTHING.0), count, signals)
}

/// The time of so many tasks, 200 of them at once.
pub(super) fn run_commands(
    load: &mut Load,
    submission: &Submission,
    count: usize,
    signals: &mut Signals,
) -> Result<Duration, BenchError> {
    let submission = Submission { address: Some(load.address().to_owned()), ..submission.clone() };
    let request = submission.request().encode();
    let before = clock::now().mono;
    let (mut sent, mut finished) = (0, 0);
    while finished < count {
        while sent < count && sent - finished < IN_FLIGHT {
            load.send(&request)?;
            sent += 1;
        }
        match load.next(signals)? {
            // After a refused submit, the wait for its end would be in vain.
            (_, Heard::Answer(body)) => drop(client::decode(&body)?),
            (_, Heard::Push(body)) => {
                let task = task(&body)?;
                if task.is_finished() {
                    finished += 1;
                    check(&task)?;
                }
            }
        }
    }
    Ok(clock::now().mono.since(before))
}

fn check(task: &client::TaskView) -> Result<(), BenchError> {
    if task.exit_code().is_some_and(|code| code.0 == 0) {
        return Ok(());
    }
    let reason = task.reason().unwrap_or("its exit code is not 0");
    Err(BenchError::Unexpected(format!("task {} failed: {reason}", task.id())))
}
