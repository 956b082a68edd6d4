//! Thousands of idle agents with real connections: the controller's cost of their heartbeats.

use std::time::Duration;

use crate::row::{Measured, Unit};
use crate::simulated_agents::{self, CONNECTIONS_PER_AGENT, HEARTBEAT_INTERVAL};
use crate::{Bench, BenchError, meter};
use proc::limits::raise_descriptor_limit;

const CORES_MAX: f64 = 0.15;

/// The intended number of agents, or the possible number where descriptors limit it.
const MANY: usize = 10_000;
const FEWER: usize = 2_000;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let (watched, agents) = bench.pick((HEARTBEAT_INTERVAL * 3, count()?), (Duration::from_millis(100), 20));
    let connections = (agents * CONNECTIONS_PER_AGENT + 100).to_string();
    let keys = [
        ("LLTS_CONNECTIONS_MAX", connections.clone()),
        ("LLTS_CONNECTIONS_PER_ADDRESS_MAX", connections),
        ("LLTS_SUBSCRIPTIONS_MAX", (agents * 2 + 100).to_string()),
        ("LLTS_AGENT_HEARTBEAT_INTERVAL", HEARTBEAT_INTERVAL.as_millis().to_string()),
    ];
    let service = bench.host_with(0, &keys)?;
    let agents_at_work = simulated_agents::start(&service, agents, bench.signals)?;
    let controller = service.controller()?;
    // All agents have connected at once, and their first requests are still being answered.
    bench.pause(watched / 3)?;
    let mut shares = Vec::new();
    for _ in 0..bench.plan.rounds {
        let before = meter::processor_time(controller)?;
        bench.pause(watched)?;
        let used = meter::processor_time(controller)?.saturating_sub(before);
        shares.push(used.as_secs_f64() / watched.as_secs_f64());
    }
    drop(agents_at_work);
    service.end(bench.signals);
    let what = format!("controller of {agents} idle agents");
    Ok(vec![Measured::new(what, Unit::Cores, &shares).goal_below(CORES_MAX)])
}

/// The number of agents for which this machine has descriptors.
fn count() -> Result<usize, BenchError> {
    /// Descriptors for everything other than connections of agents.
    const RESERVED: usize = 2_000;
    let descriptors = raise_descriptor_limit().map_err(BenchError::io("raise the limit of descriptors"))?;
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let fits = |agents: usize| descriptors >= agents * CONNECTIONS_PER_AGENT + RESERVED;
    let none =
        || BenchError::Missing(format!("only {descriptors} open files are allowed here, too few for {FEWER} agents"));
    [MANY, FEWER].into_iter().find(|&agents| fits(agents)).ok_or_else(none)
}
