//! A controller and 30 agents with nothing to do: the processor time and the memory of all of them together.

use std::time::Duration;

use crate::row::{Measured, Unit};
use crate::{Bench, BenchError, meter};

const CORES_MAX: f64 = 0.005;
const BYTES_MAX: f64 = 150e6;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let (agents, watched) = bench.pick((30, Duration::from_secs(10)), (2, Duration::from_millis(100)));
    let service = bench.host(agents)?;
    let mut processes = service.agents()?;
    processes.push(service.controller()?);
    // All agents have connected at once; the steady state starts after this wait.
    bench.pause(watched / 3)?;
    let mut shares = Vec::new();
    for _ in 0..bench.plan.rounds {
        let before = meter::processor_time_of(&processes)?;
        bench.pause(watched)?;
        let used = meter::processor_time_of(&processes)?.saturating_sub(before);
        shares.push(used.as_secs_f64() / watched.as_secs_f64());
    }
    let resident = meter::resident_together(&processes)?;
    service.end(bench.signals);
    let row = |what: &str, unit, numbers: &[f64]| {
        Measured::new(format!("{what}, controller and {agents} idle agents"), unit, numbers)
    };
    Ok(vec![
        row("processor", Unit::Cores, &shares).goal_below(CORES_MAX),
        row("resident memory", Unit::Bytes, &[resident]).goal_below(BYTES_MAX),
    ])
}
