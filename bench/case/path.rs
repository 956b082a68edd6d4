//! All messages of a task and nothing else: submit, the answer to a parked agent, its report, the push of FINISHED. The
//! agent is simulated; the store does not wait for the disk, which would dominate the times.

use crate::load::{Heard, Load, task};
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::{each, percentile};
use crate::{Bench, BenchError, meter, simulated_agents};
use api::wire::client::{self, TaskView};
use api::wire::requests::submit::Submission;
use proc::signals::Signals;

const NAMES: [&str; 4] = [
    "submit to FINISHED, messages only, p50",
    "submit to FINISHED, messages only, p99",
    "processor time of the controller for it",
    "processor time of the agent for it",
];

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let tasks = bench.pick(1000, 5);
    let service = bench.host_with(0, &[("LLTS_DURABILITY", "process".to_owned())])?;
    let agent = simulated_agents::start(&service, 1, bench.signals)?;
    let mut load = service.load(bench.signals)?;
    // The first push opens its connection.
    run_one(&mut load, NOTHING.0, TaskView::is_finished, bench.signals)?;
    let processes = [service.controller()?, agent.pid()];
    let used = || -> Result<Vec<_>, BenchError> { processes.iter().map(|&pid| meter::processor_time(pid)).collect() };
    let mut rounds = Vec::new();
    for _ in 0..bench.plan.rounds {
        let before = used()?;
        let times = (0..tasks)
            .map(|_| run_one(&mut load, NOTHING.0, TaskView::is_finished, bench.signals))
            .collect::<Result<Vec<_>, _>>()?;
        let costs: Vec<f64> = used()?.iter().zip(&before).map(|(now, then)| each(*now - *then, tasks)).collect();
        rounds.push([percentile(&times, 0.5), percentile(&times, 0.99), costs[0], costs[1]]);
    }
    drop((agent, load));
    service.end(bench.signals);
    let row = |(at, name): (usize, &str)| {
        let each: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
        Measured::new(name, Unit::Seconds, &each)
    };
    Ok(NAMES.into_iter().enumerate().map(row).collect())
}

/// Seconds from the submit to the first push that is wanted. It returns when the task has finished and its submit was answered, so that the
/// service is idle for the next one.
pub(super) fn run_one(
    load: &mut Load,
    tool: &str,
    is_wanted: impl Fn(&TaskView) -> bool,
    signals: &mut Signals,
) -> Result<f64, BenchError> {
    let submission = Submission { address: Some(load.address().to_owned()), ..Submission::new(tool) };
    let before = load.send_now(&submission.request().encode())?;
    let (mut is_answered, mut is_finished, mut seconds) = (false, false, None);
    while !(is_answered && is_finished) {
        match load.next(signals)? {
            (_, Heard::Answer(body)) => {
                client::decode(&body)?;
                is_answered = true;
            }
            (now, Heard::Push(body)) => {
                let task = task(&body)?;
                is_finished |= task.is_finished();
                // An end that is pushed together with the whole result is no later than FINISHED.
                if task.is_finished() || is_wanted(&task) {
                    seconds.get_or_insert(now.mono.since(before.mono).as_secs_f64());
                }
            }
        }
    }
    Ok(seconds.unwrap_or_default())
}
