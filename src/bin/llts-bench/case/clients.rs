//! Eight REQ clients that send requests without a pause: the number of requests that the controller answers per second of
//! its processor time, over its own transport against libzmq.

use crate::requester::Requesters;
use crate::row::{Measured, Unit};
use crate::samples::{percentile, rate};
use crate::{Bench, BenchError, meter};
use llts::config::Transport;
use llts::shell::clock;

use super::query::Question;

const CLIENTS: usize = 8;
const RATIO_MIN: f64 = 1.5;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let requests = bench.pick(20_000, 40);
    let services = bench.host_each(0)?;
    let mut clients = Vec::new();
    for service in &services {
        let question = Question::of(service, bench.signals)?;
        clients.push((Requesters::connect(service.endpoint(), CLIENTS)?, question, service.controller()?));
    }
    let mut rounds = vec![Vec::new(); services.len()];
    for _ in 0..bench.plan.rounds {
        for ((client, question, controller), rounds) in clients.iter().zip(&mut rounds) {
            let (used, before) = (meter::processor_time(*controller)?, clock::now().mono);
            let times = client.times(&question.request, requests, bench.signals)?;
            let (passed, used) =
                (clock::now().mono.since(before), meter::processor_time(*controller)?.saturating_sub(used));
            let times: Vec<f64> = times.iter().map(std::time::Duration::as_secs_f64).collect();
            rounds.push([rate(requests, used), rate(requests, passed), percentile(&times, 0.99)]);
        }
    }
    let mut rows = Vec::new();
    let names = ["queries per second of the controller's processor", "queries per second", "a query, p99"];
    for (at, name) in names.into_iter().enumerate() {
        let of = |rounds: &[[f64; 3]]| rounds.iter().map(|round| round[at]).collect::<Vec<_>>();
        let pairs = || services.iter().zip(&rounds);
        let rival = pairs().find(|(service, _)| service.transport == Transport::Zmq).map(|(_, rounds)| of(rounds));
        for (service, rounds) in pairs() {
            let unit = if at == 2 { Unit::Seconds } else { Unit::PerSecond };
            let what = format!("{CLIENTS} REQ clients: {name}");
            let mut row = Measured::new(what, unit, &of(rounds)).over(service.transport);
            if let (Transport::Own, Some(rival)) = (service.transport, &rival) {
                row = row.against("the same over libzmq", rival);
                row = match at {
                    0 => row.goal_ratio_at_least(RATIO_MIN),
                    2 => row.goal_ratio_at_most(1.0),
                    _ => row,
                };
            }
            rows.push(row);
        }
    }
    services.into_iter().for_each(|service| service.end(bench.signals));
    Ok(rows)
}
