//! The phases of a task and what moves it between them: one total table.

use std::sync::Arc;

use crate::types::{Assignment, Outcome, PhaseTimes, RunResult, TaskRecord, TaskState, Wall};

/// What can happen to a task.
#[derive(Debug)]
pub(super) enum TaskEvent {
    /// An agent gets it.
    Dispatch(Assignment),
    /// The agent never got it: the same round waits again.
    Return,
    /// Its agent prepares it.
    Prepare(PhaseTimes),
    /// Its agent runs it.
    Run(PhaseTimes),
    /// run.sh has ended.
    End(PhaseTimes, Option<RunResult>),
    /// Its agent has cleaned up, or will never say so although the result is known.
    Finish { at: Wall, times: PhaseTimes, result: Arc<RunResult>, outcome: Outcome },
    /// The run is void; the next round waits.
    Requeue,
    /// It ends without a result.
    Close { at: Wall, outcome: Outcome },
}

/// Applies an event.
///
/// What a peer may wrongly send is refused before; what arrives here and does not fit is a bug of this engine.
pub(super) fn apply(record: &mut TaskRecord, event: TaskEvent) {
    use TaskEvent as Event;
    use TaskState as State;
    let from = std::mem::replace(&mut record.state, State::Waiting);
    record.state = match (from, event) {
        (State::Waiting, Event::Dispatch(assignment)) => State::Dispatched(Box::new(assignment)),
        (State::Dispatched(_), Event::Return) => State::Waiting,
        (State::Dispatched(run), Event::Prepare(times)) => State::Preparing(told(run, times)),
        (State::Dispatched(run) | State::Preparing(run), Event::Run(times)) => State::Running(told(run, times)),
        (State::Dispatched(run) | State::Preparing(run) | State::Running(run), Event::End(times, result)) => {
            State::Ended { assignment: told(run, times), result: result.map(Arc::new) }
        }
        (State::Ended { assignment, .. }, Event::Finish { at, times, result, outcome }) => {
            State::Finished { at, outcome, run: Some((told(assignment, times), result)) }
        }
        (State::Dispatched(_) | State::Preparing(_) | State::Running(_) | State::Ended { .. }, Event::Requeue) => {
            record.round = record.round.next();
            State::Waiting
        }
        (
            State::Waiting | State::Dispatched(_) | State::Preparing(_) | State::Running(_) | State::Ended { .. },
            Event::Close { at, outcome },
        ) => State::Finished { at, outcome, run: None },
        (
            from @ (State::Waiting
            | State::Dispatched(_)
            | State::Preparing(_)
            | State::Running(_)
            | State::Ended { .. }
            | State::Finished { .. }),
            event,
        ) => unreachable!("task {}: {event:?} cannot happen in {from:?}", record.id),
    };
}

/// Adds what a report says of times to what is known.
fn told(mut run: Box<Assignment>, times: PhaseTimes) -> Box<Assignment> {
    let known = run.times;
    run.times = PhaseTimes {
        prepare: known.prepare.or(times.prepare),
        run: known.run.or(times.run),
        end: known.end.or(times.end),
        finish: known.finish.or(times.finish),
    };
    run
}
