//! A controller with 1,000,000 stored tasks is killed with SIGKILL; its supervisor starts another one. The time from the
//! kill to the first answer.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::depth::stocked;
use crate::load::PATIENCE;
use crate::requester::Requesters;
use crate::row::{Measured, Unit};
use crate::service::Service;
use crate::{Bench, BenchError};
use api::wire::{client, requests};
use proc::clock;
use proc::signals::Signals;

const ANSWERS_WITHIN: f64 = 5.0;

/// The time between two requests, which is the resolution of the measurement.
const ASK_AGAIN: Duration = Duration::from_millis(20);

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let tasks = bench.pick(1_000_000, 1_000);
    let service = stocked(bench, tasks)?;
    let mut times = Vec::new();
    for _ in 0..bench.plan.rounds {
        times.push(restart(&service, bench.signals)?);
    }
    let what = format!("kill -9 to the first answer, {tasks} tasks");
    let row = Measured::new(what, Unit::Seconds, &times).goal_below(ANSWERS_WITHIN);
    service.end(bench.signals);
    Ok(vec![row])
}

fn restart(service: &Service, signals: &mut Signals) -> Result<f64, BenchError> {
    let request = requests::stats::tasks().encode();
    let controller = service.controller()?;
    let pid = i32::try_from(controller).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| BenchError::Unexpected(format!("{controller} is not a process id")))?;
    let before = clock::now().mono;
    kill_process(pid, Signal::KILL).map_err(BenchError::io("kill the controller"))?;
    loop {
        // A new connection for each request: an old one may lead to the controller that is being killed.
        let client = Requesters::connect(service.endpoint(), 1)?;
        if let Some(answer) = client.ask(&request, ASK_AGAIN, signals)? {
            client::decode(&answer)?;
            return Ok(clock::now().mono.since(before).as_secs_f64());
        }
        if clock::now().mono.since(before) > PATIENCE {
            return Err(BenchError::Unexpected("the controller was not started again".to_owned()));
        }
    }
}
