//! Eight REQ clients that send requests without a pause: the number of requests that the controller answers per second of
//! its processor time.

use crate::requester::Requesters;
use crate::row::{Measured, Unit};
use crate::samples::{percentile, rate};
use crate::{Bench, BenchError, meter};
use proc::clock;

use super::query::Question;

const CLIENTS: usize = 8;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let requests = bench.pick(20_000, 40);
    let service = bench.host(0)?;
    let question = Question::of(&service, bench.signals)?;
    let clients = Requesters::connect(service.endpoint(), CLIENTS)?;
    let controller = service.controller()?;
    let mut rounds = Vec::new();
    for _ in 0..bench.plan.rounds {
        let (used, before) = (meter::processor_time(controller)?, clock::now().mono);
        let times = clients.times(&question.request, requests, bench.signals)?;
        let (passed, used) = (clock::now().mono.since(before), meter::processor_time(controller)?.saturating_sub(used));
        let times: Vec<f64> = times.iter().map(std::time::Duration::as_secs_f64).collect();
        rounds.push([rate(requests, used), rate(requests, passed), percentile(&times, 0.99)]);
    }
    let names = [
        ("queries per second of the controller's processor", Unit::PerSecond),
        ("queries per second", Unit::PerSecond),
        ("a query, p99", Unit::Seconds),
    ];
    let row = |(at, (name, unit)): (usize, (&str, Unit))| {
        let each = rounds.iter().map(|round: &[f64; 3]| round[at]).collect::<Vec<_>>();
        Measured::new(format!("{CLIENTS} REQ clients: {name}"), unit, &each)
    };
    let rows = names.into_iter().enumerate().map(row).collect();
    service.end(bench.signals);
    Ok(rows)
}
