//! The round trip of a request: a REQ client queries a known task. The rival is a ROUTER of libzmq that echoes messages of
//! the same sizes.

use crate::place::NOTHING;
use crate::requester::Requesters;
use crate::row::{Measured, Unit};
use crate::samples::rate;
use crate::service::Service;
use crate::stock::parameters;
use crate::{Bench, BenchError, echo};
use llts::config::Transport;
use llts::protocol::client::{self, Selector, TaskView};
use llts::protocol::requests::query::query;
use llts::protocol::requests::submit::Submission;
use llts::shell::clock;
use llts::shell::signals::Signals;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let requests = bench.pick(5000, 20);
    let services = bench.host_each(0)?;
    let questions = services.iter().map(|service| Question::of(service, bench.signals));
    let questions = questions.collect::<Result<Vec<_>, _>>()?;
    let answer_bytes = questions.first().map_or(0, |question| question.answer_bytes);
    let (_part, rival_endpoint) = echo::start(Transport::Zmq, answer_bytes, bench.signals)?;
    let rival = Requesters::connect(&rival_endpoint, 1)?;
    let clients = services.iter().map(|service| Requesters::connect(service.endpoint(), 1));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let mut echoes = Vec::new();
    let mut rates = vec![Vec::new(); services.len()];
    for _ in 0..bench.plan.rounds {
        for ((client, question), rates) in clients.iter().zip(&questions).zip(&mut rates) {
            rates.push(measure(client, &question.request, requests, bench.signals)?);
        }
        echoes.push(measure(&rival, &questions[0].request, requests, bench.signals)?);
    }
    let row = |service: &Service, rates: &[f64]| {
        let row = Measured::new("TASK/QUERY by one REQ client", Unit::PerSecond, rates).over(service.transport);
        row.against("libzmq echo", &echoes).goal_ratio_at_least(0.8)
    };
    let rows = services.iter().zip(&rates).map(|(service, rates)| row(service, rates)).collect();
    services.into_iter().for_each(|service| service.end(bench.signals));
    Ok(rows)
}

fn measure(client: &Requesters, request: &[u8], count: usize, signals: &mut Signals) -> Result<f64, BenchError> {
    let before = clock::now().mono;
    client.times(request, count, signals)?;
    Ok(rate(count, clock::now().mono.since(before)))
}

/// A query of a task that waits.
pub(crate) struct Question {
    pub(crate) request: Vec<u8>,
    pub(crate) answer_bytes: usize,
}

impl Question {
    pub(crate) fn of(service: &Service, signals: &mut Signals) -> Result<Self, BenchError> {
        let mut load = service.load(signals)?;
        let submission = Submission { parameters: parameters(), ..Submission::new(NOTHING.0) };
        let (_, answer) = load.ask(&submission.request().encode(), signals)?;
        let task = TaskView::from(client::decode(&answer)?);
        let request = query(&Selector::task(task.id()), None).encode();
        let (_, answer) = load.ask(&request, signals)?;
        client::decode(&answer)?;
        Ok(Self { request, answer_bytes: answer.len() })
    }
}
