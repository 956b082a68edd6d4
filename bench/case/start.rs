//! Start latency of an idle service: the time from the client's submit to the first instruction of run.sh. The lower bound
//! is the same run.sh, started by `posix_spawn`.

use crate::latency::{self, Times};
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::{Bench, BenchError};

/// The permitted excess over the lower bound: of the median, and of the 99th percentile.
const MEDIAN_BEYOND: f64 = 0.5e-3;
const TAIL_BEYOND: f64 = 3e-3;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let service = bench.host(1)?;
    let tasks = bench.pick(300, 3);
    let rounds = latency::measure(bench, &service, tasks)?;
    let mut rows = Vec::new();
    for (share, name, beyond) in [(0.5, "p50", MEDIAN_BEYOND), (0.99, "p99", TAIL_BEYOND)] {
        let of = |times: &[Times]| percentile(&times.iter().map(|times| times.start).collect::<Vec<_>>(), share);
        let floor: Vec<f64> = rounds.iter().map(|round| of(&round.floor)).collect();
        let each: Vec<f64> = rounds.iter().map(|round| of(&round.service)).collect();
        let row = Measured::new(format!("submit to run.sh, {name}"), Unit::Seconds, &each);
        rows.push(row.against("posix_spawn", &floor).goal_beyond_rival(beyond));
    }
    service.end(bench.signals);
    Ok(rows)
}
