//! All messages of a task and nothing else: submit, the answer to a parked agent, its report, the push of FINISHED. The
//! agent is simulated; the store does not wait for the disk, which would dominate the times.

use crate::load::{Heard, Load, task};
use crate::part::Part;
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::{each, percentile};
use crate::service::Service;
use crate::{Bench, BenchError, meter, simulated_agents};
use llts::config::Transport;
use llts::protocol::client;
use llts::protocol::requests::submit::Submission;
use llts::shell::signals::Signals;

/// One service with its agent, and the samples of each round.
struct Subject {
    service: Service,
    agent: Part,
    load: Load,
    rounds: Vec<[f64; 4]>,
}

const NAMES: [&str; 4] = [
    "submit to FINISHED, messages only, p50",
    "submit to FINISHED, messages only, p99",
    "processor time of the controller for it",
    "processor time of the agent for it",
];

/// The index of the number that must not be worse than that of libzmq.
const TAIL: usize = 1;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let tasks = bench.pick(1000, 5);
    let mut subjects = Vec::new();
    for service in bench.host_each_with(0, &[("LLTS_DURABILITY", "process".to_owned())])? {
        let agent = simulated_agents::start(&service, 1, bench.signals)?;
        let mut load = service.load(bench.signals)?;
        // The first push opens its connection.
        run_one(&mut load, bench.signals)?;
        subjects.push(Subject { service, agent, load, rounds: Vec::new() });
    }
    for _ in 0..bench.plan.rounds {
        for subject in &mut subjects {
            let processes = [subject.service.controller()?, subject.agent.pid()];
            let used =
                || -> Result<Vec<_>, BenchError> { processes.iter().map(|&pid| meter::processor_time(pid)).collect() };
            let before = used()?;
            let load = &mut subject.load;
            let times = (0..tasks).map(|_| run_one(load, bench.signals)).collect::<Result<Vec<_>, _>>()?;
            let costs: Vec<f64> = used()?.iter().zip(&before).map(|(now, then)| each(*now - *then, tasks)).collect();
            subject.rounds.push([percentile(&times, 0.5), percentile(&times, 0.99), costs[0], costs[1]]);
        }
    }
    let mut rows = Vec::new();
    for (at, name) in NAMES.into_iter().enumerate() {
        let of = |subject: &Subject| subject.rounds.iter().map(|round| round[at]).collect::<Vec<_>>();
        let rival = subjects.iter().find(|subject| subject.service.transport == Transport::Zmq).map(of);
        for subject in &subjects {
            let transport = subject.service.transport;
            let mut row = Measured::new(name, Unit::Seconds, &of(subject)).over(transport);
            if let (Transport::Own, Some(rival)) = (transport, &rival) {
                row = row.against("the same over libzmq", rival);
                row = if at == TAIL { row.goal_ratio_at_most(1.0) } else { row };
            }
            rows.push(row);
        }
    }
    for Subject { service, agent, load, .. } in subjects {
        drop((agent, load));
        service.end(bench.signals);
    }
    Ok(rows)
}

fn run_one(load: &mut Load, signals: &mut Signals) -> Result<f64, BenchError> {
    let submission = Submission { address: Some(load.address().to_owned()), ..Submission::new(NOTHING.0) };
    let before = load.send_now(&submission.request().encode())?;
    let (mut is_answered, mut finished) = (false, None);
    loop {
        match load.next(signals)? {
            (_, Heard::Answer(body)) => {
                client::decode(&body)?;
                is_answered = true;
            }
            (now, Heard::Push(body)) if task(&body)?.is_finished() => {
                finished = Some(now.mono.since(before.mono).as_secs_f64());
            }
            (_, Heard::Push(_)) => {}
        }
        if let (true, Some(seconds)) = (is_answered, finished) {
            return Ok(seconds);
        }
    }
}
