//! A large tool: each task gets a copy of its own. The time from the submit to RUNNING of the second and later tasks,
//! against `cp -r` of the unpacked folder.

use std::io;

use crate::load::{Heard, Load, task};
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::{Bench, BenchError, floor};
use api::wire::client;
use api::wire::requests::submit::Submission;
use base::{Phase, words};
use proc::files::removal;
use proc::signals::Signals;

const TOOL: (&str, &str) = ("large", NOTHING.1);
const RATIO_MAX: f64 = 1.1;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    floor::require("cp", bench.signals)?;
    let (files, bytes) = bench.pick((500, 100_000), (5, 1_000));
    let tasks = bench.pick(6, 1);
    let folder = bench.place.tool_with_files(TOOL, files, bytes)?;
    let copy = bench.place.folder().join("copy");
    let service = bench.host(1)?;
    let mut load = service.load(bench.signals)?;
    run_one(&mut load, bench.signals)?;
    let (mut copies, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        let (mut times, mut rival) = (Vec::new(), Vec::new());
        // Each goes first equally often: a disk may be slower after many writes.
        for turn in (0..tasks).flat_map(|task| [task % 2, (task + 1) % 2]) {
            if turn == 1 {
                times.push(run_one(&mut load, bench.signals)?);
            } else {
                rival.push(floor::copy(&folder, &copy, bench.signals)?.as_secs_f64());
                removal::remove(&copy).map_err(io::Error::other).map_err(BenchError::io("remove a copy"))?;
            }
            floor::settle_disk(bench.place.folder());
        }
        copies.push(percentile(&rival, 0.5));
        starts.push(percentile(&times, 0.5));
    }
    #[expect(clippy::cast_precision_loss, reason = "some megabytes")]
    let size = (files * bytes) as f64;
    let what = format!("submit to RUNNING, tool of {} in {files} files", Unit::Bytes.show(size));
    let row = Measured::new(what, Unit::Seconds, &starts);
    drop(load);
    service.end(bench.signals);
    Ok(vec![row.against("cp -r", &copies).goal_ratio_at_most(RATIO_MAX)])
}

/// Seconds from the submit to RUNNING; returns when the task has finished.
fn run_one(load: &mut Load, signals: &mut Signals) -> Result<f64, BenchError> {
    let submission = Submission { address: Some(load.address().to_owned()), ..Submission::new(TOOL.0) };
    let before = load.send_now(&submission.request().encode())?;
    let mut running = None;
    loop {
        let (now, heard) = load.next(signals)?;
        match heard {
            Heard::Answer(body) => drop(client::decode(&body)?),
            Heard::Push(body) => {
                let task = task(&body)?;
                if task.status() == words::phase(Phase::Running) {
                    running = Some(now.mono.since(before.mono).as_secs_f64());
                }
                if task.is_finished() {
                    let reason = task.reason().unwrap_or_default();
                    return running.ok_or_else(|| BenchError::Unexpected(format!("the tool never ran: {reason}")));
                }
            }
        }
    }
}
