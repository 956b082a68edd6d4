//! End latency: the time from the exit of run.sh to ENDED, then FINISHED, at its submitter. The lower bound is the wait for
//! the same process without a service, because run.sh itself takes time from its last instruction to its exit.

use crate::latency::{self, Times};
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::{Bench, BenchError, floor};

const ENDED_BEYOND: f64 = 0.5e-3;

/// Compared with one write that reaches the disk, because FINISHED is sent only after it is stored.
const FINISHED_BEYOND: f64 = 0.6e-3;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let services = bench.host_each(1)?;
    let tasks = bench.pick(300, 3);
    let rounds = latency::measure(bench, &services, tasks)?;
    let syncs = floor::sync_times(bench.place.folder(), tasks)?;
    let sync = percentile(&syncs, 0.5);
    let median = |times: &[Times], of: fn(&Times) -> f64| percentile(&times.iter().map(of).collect::<Vec<_>>(), 0.5);
    let floor: Vec<f64> = rounds.iter().map(|round| median(&round.floor, |times| times.ended)).collect();
    let mut rows = Vec::new();
    for (at, service) in services.iter().enumerate() {
        let each = |of| rounds.iter().map(|round| median(&round.services[at], of)).collect::<Vec<_>>();
        let row = |what: &str, of| {
            let row = Measured::new(what, Unit::Seconds, &each(of)).over(service.transport);
            row.against("wait of its parent", &floor)
        };
        rows.push(row("run.sh to ENDED, p50", |times| times.ended).goal_beyond_rival(ENDED_BEYOND));
        let row = row("run.sh to FINISHED, p50", |times| times.finished);
        let text = format!(
            "within {} and fdatasync ({}) of it",
            Unit::Seconds.show(FINISHED_BEYOND),
            Unit::Seconds.show(sync)
        );
        rows.push(row.goal(text, |row| row.beyond_rival().is_some_and(|beyond| beyond <= FINISHED_BEYOND + sync)));
    }
    services.into_iter().for_each(|service| service.end(bench.signals));
    Ok(rows)
}
