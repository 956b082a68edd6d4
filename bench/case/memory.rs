//! Memory of a waiting task with five short parameters: the growth of the controller, divided by the number of tasks.

use crate::place::NOTHING;
use crate::row::{Measured, Unit};
use crate::stock::parameters;
use crate::{Bench, BenchError, meter};
use api::wire::requests::submit::Submission;

const BYTES_MAX: f64 = 700.0;

/// The largest possible window: no request is in flight any more when the memory is measured.
const IN_FLIGHT: usize = 512;

pub(crate) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    // Enough tasks that the pages of buffers and of the store's cache, which are allocated first, do not matter.
    let (first, tasks) = bench.pick((20_000, 200_000), (100, 1_000));
    let service = bench.host(0)?;
    let controller = service.controller()?;
    let mut load = service.load(bench.signals)?;
    let submission = Submission { parameters: parameters(), ..Submission::new(NOTHING.0) };
    let request = submission.request().encode();
    load.pipeline_checked(&request, (first, IN_FLIGHT), bench.signals)?;
    let before = meter::resident(controller)?;
    load.pipeline_checked(&request, (tasks, IN_FLIGHT), bench.signals)?;
    #[expect(clippy::cast_precision_loss, reason = "less than 2^53")]
    let each = (meter::resident(controller)? - before) / tasks as f64;
    let row = Measured::new(format!("memory of a waiting task, of {tasks}"), Unit::Bytes, &[each]);
    service.end(bench.signals);
    Ok(vec![row.goal("at most 700 B", |row| row.spread.median <= BYTES_MAX)])
}
