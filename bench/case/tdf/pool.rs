//! A controller as a worker pool, against its own rate for the same command line.

use crate::case::throughput::run_commands;
use crate::namespace::{Ground, NAMESPACE, PROGRAM};
use crate::row::{Measured, Unit};
use crate::samples::rate;
use crate::{Bench, BenchError};
use api::wire::requests::submit::Submission;
use proc::clock;

const RATIO_MIN: f64 = 0.8;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Measured, BenchError> {
    let (tasks, agents) = (bench.pick(2000, 20), bench.plan.agents);
    let ground = Ground::start(bench)?;
    let (mut namespace, mut redis) = (ground.namespace()?, ground.connect()?);
    let folder = ground.folder().canonicalize().map_err(BenchError::io("find a folder"))?.display().to_string();
    let keys = [
        ("LLTS_TDF_REDIS_URL", format!("redis://127.0.0.1:{}", ground.port())),
        ("LLTS_TDF_NAMESPACE", NAMESPACE.to_owned()),
        ("LLTS_TDF_DIR", folder.clone()),
    ];
    let service = bench.host_with(agents, &keys)?;
    let mut load = service.load(bench.signals)?;
    let line = Submission::shell(format!("cd ./{PROGRAM}/; ./run.sh 1")).with("__CWD__", folder);
    let mut done = usize::from(agents) * 4;
    ground.open(&mut namespace, done)?;
    ground.until(&mut redis, "succeeded", done, bench)?;
    let (mut rates, mut rival) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        rival.push(rate(tasks, run_commands(&mut load, &line, tasks, bench.signals)?));
        let before = clock::now().mono;
        ground.open(&mut namespace, tasks)?;
        done += tasks;
        ground.until(&mut redis, "succeeded", done, bench)?;
        rates.push(rate(tasks, clock::now().mono.since(before)));
    }
    drop(load);
    service.end(bench.signals);
    let row = Measured::new(
        format!("{tasks} programs {PROGRAM}, a controller with {agents} agents"),
        Unit::PerSecond,
        &rates,
    );
    Ok(row.against("the same commands submitted to it", &rival).goal_ratio_at_least(RATIO_MIN))
}
