//! A tool that stays and answers at once. One task after the other on an idle service, against a process that ends at once; many of one
//! client, against xargs on the same process.

use std::process::Command;

use super::path::run_one;
use super::throughput::run_commands;
use crate::row::{Measured, Unit};
use crate::samples::{percentile, rate};
use crate::{Bench, BenchError, floor};
use api::wire::client::TaskView;
use api::wire::requests::submit::Submission;
use base::{Phase, words};
use llts_client::tool::{self, Answer};
use proc::clock;
use proc::signals::with_clean_mask;

const TOOL: &str = "stays";
const PROCESS: &str = "true";

/// Of `posix_spawn` of a process that ends at once.
const MEDIAN_RATIO_MAX: f64 = 0.4;
const TAIL_RATIO_MAX: f64 = 1.0;
/// Of the processes a second of xargs.
const RATE_RATIO_MIN: f64 = 4.0;

/// The times of one round, in seconds, and the rates.
struct Round {
    spawned: Vec<f64>,
    ended: Vec<f64>,
    processes_rate: f64,
    rate: f64,
}

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    floor::require("xargs", bench.signals)?;
    let program = std::env::current_exe().map_err(BenchError::io("find this program"))?;
    let script = format!("#!/bin/sh\nexec '{}' serve-tasks\n", program.display());
    let folder = bench.place.tool_that_stays((TOOL, &script))?;
    let (single, many, agents) = (bench.pick(1000, 5), bench.plan.tasks * bench.pick(4, 1), bench.plan.agents);
    let service = bench.host(agents)?;
    let mut load = service.load(bench.signals)?;
    // The first task of an agent starts its tool.
    run_commands(&mut load, &Submission::new(TOOL), many, bench.signals)?;
    let has_ended = |task: &TaskView| task.status() == words::phase(Phase::Ended);
    let mut rounds = Vec::new();
    for _ in 0..bench.plan.rounds {
        let mut times = Vec::new();
        for _ in 0..single {
            times.push((spawn()?, run_one(&mut load, TOOL, has_ended, bench.signals)?));
        }
        let (spawned, ended) = times.into_iter().unzip();
        let processes = floor::xargs_of(&folder, &[PROCESS], bench.plan.tasks, agents, bench.signals)?;
        let tasks = run_commands(&mut load, &Submission::new(TOOL), many, bench.signals)?;
        rounds.push(Round {
            spawned,
            ended,
            processes_rate: rate(bench.plan.tasks, processes),
            rate: rate(many, tasks),
        });
    }
    drop(load);
    service.end(bench.signals);
    let all = |of: &dyn Fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
    let latency = |name: &str, share, most| {
        Measured::new(
            format!("submit to ENDED, tool that stays, {name}"),
            Unit::Seconds,
            &all(&|round| percentile(&round.ended, share)),
        )
        .against(format!("posix_spawn {PROCESS}"), &all(&|round| percentile(&round.spawned, share)))
        .goal_ratio_at_most(most)
    };
    let rates =
        Measured::new(format!("{many} tasks of it, {agents} agents"), Unit::PerSecond, &all(&|round| round.rate));
    let rates = rates.against(format!("xargs -P{agents} {PROCESS}"), &all(&|round| round.processes_rate));
    Ok(vec![
        latency("p50", 0.5, MEDIAN_RATIO_MAX),
        latency("p99", 0.99, TAIL_RATIO_MAX),
        rates.goal_ratio_at_least(RATE_RATIO_MIN),
    ])
}

fn spawn() -> Result<f64, BenchError> {
    let before = clock::now().mono;
    let mut child = with_clean_mask(|| Command::new(PROCESS).spawn()).map_err(BenchError::io("start a process"))?;
    child.wait().map_err(BenchError::io("wait for a process"))?;
    Ok(clock::now().mono.since(before).as_secs_f64())
}

/// The tool: answers each task at once.
///
/// # Errors
/// When no agent has started it.
pub(crate) fn serve() -> Result<(), BenchError> {
    tool::serve(|_| Ok(Answer::default())).map_err(|error| BenchError::Unexpected(error.to_string()))
}
