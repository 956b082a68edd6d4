//! A kill: from TASK/KILL to FINISHED at the submitter, of a tool with five processes that obey SIGTERM.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::sys::stat::Mode;
use rustix::fs::OFlags;

use crate::load::{Heard, Load, task};
use crate::place::FAMILY;
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::{Bench, BenchError};
use api::wire::requests::submit::Submission;
use api::wire::{client, requests};

const FINISHED_WITHIN: f64 = 20e-3;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    bench.place.tool(FAMILY)?;
    let kills = bench.pick(50, 2);
    let service = bench.host(1)?;
    let mut load = service.load(bench.signals)?;
    let mut medians = Vec::new();
    for _ in 0..bench.plan.rounds {
        let times = (0..kills).map(|_| kill(bench, &mut load)).collect::<Result<Vec<_>, _>>()?;
        medians.push(percentile(&times, 0.5));
    }
    drop(load);
    service.end(bench.signals);
    let row = Measured::new("kill of 5 processes to FINISHED, p50", Unit::Seconds, &medians);
    Ok(vec![row.goal_below(FINISHED_WITHIN)])
}

/// Seconds from the kill to FINISHED, of a task whose processes have all started.
fn kill(bench: &mut Bench<'_>, load: &mut Load) -> Result<f64, BenchError> {
    let pipe = bench.place.folder().join("ready");
    if !pipe.exists() {
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).map_err(BenchError::io("make a named pipe"))?;
    }
    // Open for writing too, so that it has no end of file when run.sh closes it.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(nonblocking).open(&pipe);
    let mut ready = opened.map_err(BenchError::io("open a named pipe"))?;
    let submission = Submission { address: Some(load.address().to_owned()), ..Submission::new(FAMILY.0) };
    let submission = submission.with("ready", pipe.to_string_lossy().as_ref());
    let (_, answer) = load.ask(&submission.request().encode(), bench.signals)?;
    let submitted = client::TaskView::from(client::decode(&answer)?);
    load.wait_for(ready.as_fd(), bench.signals)?;
    // The pipe must be empty for the next task.
    let _ = ready.read(&mut [0; 64]).map_err(BenchError::io("read a named pipe"))?;
    let before = load.send_now(&requests::kill::kill(submitted.id(), "llts-bench").encode())?;
    // The push of the end may arrive before the answer, which must not be taken for the answer to the next request.
    let (mut is_answered, mut ended) = (false, None);
    loop {
        let (now, heard) = load.next(bench.signals)?;
        match heard {
            Heard::Answer(body) => {
                client::decode(&body)?;
                is_answered = true;
            }
            Heard::Push(body) => {
                let task = task(&body)?;
                if task.is_finished() && task.id() == submitted.id() {
                    ended = Some(now.mono.since(before.mono).as_secs_f64());
                }
            }
        }
        if let (true, Some(seconds)) = (is_answered, ended) {
            return Ok(seconds);
        }
    }
}
