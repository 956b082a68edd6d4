//! A hundred thousand open tasks: a claim, a round of the server, and the memory of server and worker.

use std::time::Duration;

use crate::namespace::Ground;
use crate::row::{Measured, Unit};
use crate::samples::percentile;
use crate::{Bench, BenchError, meter};
use api::config::ServerConfig;
use base::tdf::WorkerName;
use proc::clock;
use tdf::shell::{Claim, Server, ServerError};

const CLAIM_MAX: f64 = 0.002;
const ROUND_MAX: f64 = 1.0;
const BYTES_MAX: f64 = 100e6;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let (tasks, claims) = bench.pick((100_000, 1000), (500, 10));
    let mut ground = Ground::start(bench)?;
    let mut namespace = ground.namespace()?;
    ground.open(&mut namespace, tasks)?;
    let worker = WorkerName::new("claims").map_err(|error| BenchError::Unexpected(error.to_string()))?;
    let mut times = Vec::with_capacity(claims);
    for claim in 0..claims {
        let before = clock::now().mono;
        namespace.claim(&Claim { worker: &worker, token: &claim.to_string(), count: 1 })?;
        times.push(clock::now().mono.since(before).as_secs_f64());
    }
    let first = rounds(&ground, 1)?;
    let three = rounds(&ground, 3)?;
    let next = three.saturating_sub(first).as_secs_f64() / 2.0;
    let (server, worker) =
        (ground.component(&["server", "s", "server.cfg"])?, ground.component(&["worker", "w", "worker.cfg"])?);
    let mut redis = ground.connect()?;
    ground.until(&mut redis, "succeeded", bench.pick(200, 5), bench)?;
    let memory = |pid| meter::resident(pid);
    let (server, worker) = (memory(server)?, memory(worker)?);
    let seconds = |what: &str, value: f64, most: f64| {
        Measured::new(format!("{what}, {tasks} open tasks"), Unit::Seconds, &[value]).goal_below(most)
    };
    let bytes = |what: &str, value: f64| {
        Measured::new(format!("{what}, {tasks} open tasks"), Unit::Bytes, &[value]).goal_below(BYTES_MAX)
    };
    Ok(vec![
        seconds("a claim, median", percentile(&times, 0.5), CLAIM_MAX),
        seconds("a claim, 99th percentile", percentile(&times, 0.99), CLAIM_MAX),
        seconds("the first round of a server", first.as_secs_f64(), ROUND_MAX),
        seconds("each further round", next, ROUND_MAX),
        bytes("memory of the server", server),
        bytes("memory of the worker", worker),
    ])
}

/// The time that a server needs for so many rounds, from its start on.
fn rounds(ground: &Ground, count: u64) -> Result<Duration, BenchError> {
    let config = ServerConfig::load(&ground.folder().join("busy.cfg"))?;
    let before = clock::now().mono;
    let server = Server::start(&config, "rounds", 3, rand::random()).map_err(|error| match error {
        ServerError::Redis(error) => BenchError::Redis(error),
        error => BenchError::Unexpected(error.to_string()),
    })?;
    server.run(None, Some(count));
    Ok(clock::now().mono.since(before))
}
