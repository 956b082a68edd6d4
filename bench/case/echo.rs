//! The ports alone: messages of the size of a submit, pipelined, and echoed by a ROUTER of llts and one of libzmq.

use crate::echo::{self, Echo};
use crate::load::Load;
use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::samples::rate;
use crate::stock::parameters;
use crate::{Bench, BenchError};
use api::wire::requests::submit::Submission;

/// The approximate length of the answer to a submit.
const ANSWER_BYTES: usize = 90;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let messages = bench.pick(50_000, 100);
    let submission = Submission { parameters: parameters(), ..Submission::new(NOTHING.0) };
    let request = submission.request().encode();
    let (_own, own) = echo::start(Echo::Own, ANSWER_BYTES, bench.signals)?;
    let (_zmq, zmq) = echo::start(Echo::Zmq, ANSWER_BYTES, bench.signals)?;
    let mut loads = [Load::connect(&own, bench.signals)?, Load::connect(&zmq, bench.signals)?];
    let mut rows = Vec::new();
    for window in [64, 512] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..bench.plan.rounds {
            for (load, rates) in loads.iter_mut().zip(&mut rates) {
                rates.push(rate(messages, load.pipeline(&request, (messages, window), bench.signals)?));
            }
        }
        let [own, zmq] = &rates;
        let row = Measured::new(format!("echo, {window} in flight"), Unit::PerSecond, own);
        rows.push(row.against("libzmq echo", zmq));
    }
    Ok(rows)
}
