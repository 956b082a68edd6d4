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
    let service = bench.host(1)?;
    let tasks = bench.pick(300, 3);
    let rounds = latency::measure(bench, &service, tasks)?;
    let syncs = floor::sync_times(bench.place.folder(), tasks)?;
    let sync = percentile(&syncs, 0.5);
    let median = |times: &[Times], of: fn(&Times) -> f64| percentile(&times.iter().map(of).collect::<Vec<_>>(), 0.5);
    let floor: Vec<f64> = rounds.iter().map(|round| median(&round.floor, |times| times.ended)).collect();
    let row = |what: &str, of| {
        let each = rounds.iter().map(|round| median(&round.service, of)).collect::<Vec<_>>();
        Measured::new(what, Unit::Seconds, &each).against("wait of its parent", &floor)
    };
    let text =
        format!("within {} and fdatasync ({}) of it", Unit::Seconds.show(FINISHED_BEYOND), Unit::Seconds.show(sync));
    let finished = row("run.sh to FINISHED, p50", |times| times.finished);
    let rows = vec![
        row("run.sh to ENDED, p50", |times| times.ended).goal_beyond_rival(ENDED_BEYOND),
        finished.goal(text, |row| row.beyond_rival().is_some_and(|beyond| beyond <= FINISHED_BEYOND + sync)),
    ];
    service.end(bench.signals);
    Ok(rows)
}
