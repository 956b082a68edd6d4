//! TDF on Redis: programs, and claims without programs, against xargs and against plain commands; a controller as a worker pool; round
//! trips; latencies; and a long queue.

mod latency;
mod pool;
mod queue;
mod trips;

use std::time::Duration;

use crate::namespace::{Ground, NAMESPACE, PROGRAM};
use crate::row::{Measured, Unit};
use crate::samples::rate;
use crate::{Bench, BenchError, floor};
use base::tdf::WorkerName;
use proc::clock;
use tdf::engine::worker::Assignment;
use tdf::shell::{Claim, Ending, Report};

const WORKERS: usize = 4;

/// Tasks of a batch.
const BATCH: u32 = 16;

/// Ten times what the original does.
const CLAIMS_MIN: f64 = 8220.0;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    floor::require("xargs", bench.signals)?;
    floor::require("redis-server", bench.signals)?;
    let mut rows = vec![programs(bench)?, pool::run(bench)?, claims(bench)?, batches(bench)?];
    rows.extend(trips::run(bench)?);
    rows.extend(latency::run(bench)?);
    rows.extend(queue::run(bench)?);
    Ok(rows)
}

/// Programs that do nothing, from the first open to the last verdict.
fn programs(bench: &mut Bench<'_>) -> Result<Measured, BenchError> {
    let tasks = bench.pick(2000, 20);
    let mut ground = Ground::start(bench)?;
    ground.staff(WORKERS)?;
    let (mut namespace, mut redis) = (ground.namespace()?, ground.connect()?);
    // All are there when each has had a chance to run one.
    ground.open(&mut namespace, WORKERS * 4)?;
    let mut done = WORKERS * 4;
    ground.until(&mut redis, "succeeded", done, bench)?;
    let (mut rates, mut rival) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let line = ["sh", "-c", "cd ./nothing/; ./run.sh $0"];
        rival.push(rate(tasks, floor::xargs_of(ground.folder(), &line, tasks, 2, bench.signals)?));
        let before = clock::now().mono;
        ground.open(&mut namespace, tasks)?;
        done += tasks;
        ground.until(&mut redis, "succeeded", done, bench)?;
        rates.push(rate(tasks, clock::now().mono.since(before)));
    }
    let row = Measured::new(format!("{tasks} programs {PROGRAM}, {WORKERS} workers"), Unit::PerSecond, &rates);
    Ok(row.against("xargs -P2", &rival).goal_ratio_at_least(0.6))
}

/// Claims and reports without a program, one client, against the commands of an original worker.
fn claims(bench: &mut Bench<'_>) -> Result<Measured, BenchError> {
    let tasks = bench.pick(10_000, 20);
    let ground = Ground::start(bench)?;
    let (mut namespace, mut redis) = (ground.namespace()?, ground.connect()?);
    let worker = WorkerName::new("w").map_err(|error| BenchError::Unexpected(error.to_string()))?;
    let (mut rates, mut rival) = (Vec::new(), Vec::new());
    for round in 0..bench.plan.rounds {
        ground.open(&mut namespace, tasks)?;
        let before = clock::now().mono;
        let mut claimed = namespace.claim(&Claim { worker: &worker, token: &format!("{round}-0"), count: 1 })?;
        let mut done = 0;
        while let Some(task) = claimed.pop() {
            done += 1;
            let fence = task.fence.clone();
            let report = Report { fence: &fence, ending: Ending::Executed { output: b"", error: b"" }, log: &[] };
            let token = format!("{round}-{done}");
            let claim = Claim { worker: &worker, token: &token, count: 1 };
            claimed = namespace.report_all(&[report], Some(&claim))?.1;
        }
        rates.push(rate(done, clock::now().mono.since(before)));
        let few = tasks / 10;
        ground.open(&mut namespace, few)?;
        rival.push(rate(few, plain(&mut redis, few)?));
    }
    let row = Measured::new("claims and reports without a program, one client", Unit::PerSecond, &rates);
    Ok(row.against("the plain commands of an original", &rival))
}

/// The same in batches, as a controller with as many free agents makes them.
fn batches(bench: &mut Bench<'_>) -> Result<Measured, BenchError> {
    let tasks = bench.pick(10_000, 20);
    let ground = Ground::start(bench)?;
    let mut namespace = ground.namespace()?;
    let worker = WorkerName::new("w").map_err(|error| BenchError::Unexpected(error.to_string()))?;
    let mut rates = Vec::new();
    for round in 0..bench.plan.rounds {
        ground.open(&mut namespace, tasks)?;
        let before = clock::now().mono;
        let (mut done, mut number, mut claimed) = (0, 0, Vec::<Assignment>::new());
        loop {
            let fences: Vec<_> = claimed.iter().map(|task| task.fence.clone()).collect();
            let ending = Ending::Executed { output: b"", error: b"" };
            let reports: Vec<Report<'_>> = fences.iter().map(|fence| Report { fence, ending, log: &[] }).collect();
            let token = format!("{round}-{number}");
            let claim = Claim { worker: &worker, token: &token, count: BATCH };
            claimed = namespace.report_all(&reports, Some(&claim))?.1;
            (done, number) = (done + claimed.len(), number + 1);
            if claimed.is_empty() {
                break;
            }
        }
        rates.push(rate(done, clock::now().mono.since(before)));
    }
    let row = Measured::new(format!("the same in batches of {BATCH}"), Unit::PerSecond, &rates);
    Ok(row.goal(format!("at least {CLAIMS_MIN}/s"), |row| row.spread.median >= CLAIMS_MIN))
}

/// Claims and reports by the six round trips of an original worker.
fn plain(redis: &mut redis::Connection, count: usize) -> Result<Duration, BenchError> {
    let key = |name: &str| format!("{NAMESPACE}:{name}");
    let before = clock::now().mono;
    for _ in 0..count {
        let ids: Vec<u64> = redis::cmd("ZRANGE").arg(key("open")).arg(0).arg(0).query(redis)?;
        let Some(id) = ids.first().copied() else { break };
        let task = key(&format!("task:{id}"));
        let fields: std::collections::BTreeMap<String, String> = redis::cmd("HGETALL").arg(&task).query(redis)?;
        let moves = [
            ("open", "running", vec![("0:running", "1795312915.493763"), ("0:worker", "w")]),
            ("running", "executed", vec![("0:executed", "1795312915.493763"), ("0:output", ""), ("0:error", "")]),
        ];
        for (from, to, changes) in moves {
            let () = redis::cmd("ZREM").arg(key(from)).arg(id).query(redis)?;
            let mut pipe = redis::pipe();
            pipe.atomic().cmd("HSET").arg(&task).arg("log").arg(fields.get("log"));
            pipe.cmd("ZADD").arg(key(to)).arg("1795312915.493763").arg(id);
            pipe.cmd("HSET").arg(&task).arg("state").arg(to);
            for (name, value) in changes {
                pipe.cmd("HSET").arg(&task).arg(name).arg(value);
            }
            pipe.exec(redis)?;
        }
    }
    Ok(clock::now().mono.since(before))
}
