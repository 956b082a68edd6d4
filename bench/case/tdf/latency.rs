//! From the opening of a task to the start of its run, with an idle worker; both moments stand in the task.

use std::time::Duration;

use crate::namespace::{Ground, NAMESPACE, PROGRAM};
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::{Bench, BenchError};
use proc::clock;

const OURS_MAX: f64 = 0.010;
const FOREIGN_MAX: f64 = 0.250;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let samples = bench.pick(60, 3);
    let mut ground = Ground::start(bench)?;
    ground.staff(1)?;
    let (mut namespace, mut redis) = (ground.namespace()?, ground.connect()?);
    ground.open(&mut namespace, 1)?;
    ground.until(&mut redis, "succeeded", 1, bench)?;
    let mut done = 1;
    let (mut ours, mut foreign) = (Vec::new(), Vec::new());
    for sample in 0..samples {
        for (is_foreign, times) in [(false, &mut ours), (true, &mut foreign)] {
            // At another moment of the worker's pause each time.
            bench.pause(Duration::from_millis(37 * sample % 400))?;
            let id = if is_foreign {
                open(&mut redis)?
            } else {
                ground.open(&mut namespace, 1)?.first().map_or(0, |task| task.0)
            };
            done += 1;
            ground.until(&mut redis, "succeeded", done, bench)?;
            let key = format!("{NAMESPACE}:task:{id}");
            let (opened, began): (f64, f64) =
                redis::cmd("HMGET").arg(key).arg("0:open").arg("0:running").query(&mut redis)?;
            times.push(began - opened);
        }
    }
    let row = |what: &str, times: &[f64], most: f64| {
        Measured::new(format!("from open to running, {what}"), Unit::Seconds, &[percentile(times, 0.5)])
            .goal_below(most)
    };
    Ok(vec![row("opened by ours", &ours, OURS_MAX), row("opened by an original", &foreign, FOREIGN_MAX)])
}

/// Opens a task as an original manager does.
fn open(redis: &mut redis::Connection) -> Result<u64, BenchError> {
    let id: u64 = redis::cmd("INCR").arg(format!("{NAMESPACE}:task_id")).query(redis)?;
    let wall = clock::now().wall.micros();
    let now = format!("{}.{:06}", wall / 1_000_000, wall % 1_000_000);
    let (key, text) = (format!("{NAMESPACE}:task:{id}"), id.to_string());
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("ZADD").arg(format!("{NAMESPACE}:open")).arg(0).arg(id);
    for (name, value) in [
        ("program", PROGRAM),
        ("source", "http://127.0.0.1:1/run.sh"),
        ("input", "1"),
        ("id", &text),
        ("start_after", "0"),
        ("end_before", "inf"),
        ("timeout", "inf"),
        ("max_fails", "0"),
        ("max_timeouts", "0"),
        ("state", "open"),
        ("round", "0"),
        ("fails", "0"),
        ("timeouts", "0"),
        ("log", ""),
        ("namespace", NAMESPACE),
        ("0:open", &now),
    ] {
        pipe.cmd("HSET").arg(&key).arg(name).arg(value);
    }
    pipe.exec(redis)?;
    Ok(id)
}
