//! The round trip of a request: a REQ client queries a known task. The rival is a ROUTER of libzmq that echoes messages of
//! the same sizes.

use crate::echo::{self, Echo};
use crate::place::NOTHING;
use crate::requester::Requesters;
use crate::row::{Measured, Unit};
use crate::samples::rate;
use crate::service::Service;
use crate::stock::parameters;
use crate::{Bench, BenchError};
use api::wire::client;
use api::wire::client::{Selector, TaskView};
use api::wire::requests::query::query;
use api::wire::requests::submit::Submission;
use proc::clock;
use proc::signals::Signals;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let requests = bench.pick(5000, 20);
    let service = bench.host(0)?;
    let question = Question::of(&service, bench.signals)?;
    let (_part, rival_endpoint) = echo::start(Echo::Zmq, question.answer_bytes, bench.signals)?;
    let rival = Requesters::connect(&rival_endpoint, 1)?;
    let client = Requesters::connect(service.endpoint(), 1)?;
    let (mut rates, mut echoes) = (Vec::new(), Vec::new());
    for _ in 0..bench.plan.rounds {
        rates.push(measure(&client, &question.request, requests, bench.signals)?);
        echoes.push(measure(&rival, &question.request, requests, bench.signals)?);
    }
    service.end(bench.signals);
    let row = Measured::new("TASK/QUERY by one REQ client", Unit::PerSecond, &rates);
    Ok(vec![row.against("libzmq echo", &echoes).goal_ratio_at_least(0.8)])
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
