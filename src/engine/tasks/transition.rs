//! The phases of a task and the events that change them: one total table.

use std::sync::Arc;

use base::{
    Acknowledgement, Assignment, Counts, Outcome, PastRound, Phase, PhaseTimes, RoundEnd, RunResult, TaskRecord,
    TaskState, Wall,
};

/// An event of a task.
#[derive(Debug)]
pub(crate) enum TaskEvent {
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
    /// Its agent has cleaned up, or will never report that although the result is known.
    Finish { at: Wall, times: PhaseTimes, result: Arc<RunResult>, outcome: Outcome },
    /// It ends without a result.
    Close { at: Wall, outcome: Outcome },
    /// The round has ended; the next one waits.
    Again(Again),
    /// Its agent is silent: the run is out of contact, and the task is in the queue for another round.
    LoseContact { since: Wall, not_before: Option<Wall>, suspected: bool },
    /// The controller begins or stops to suspect itself.
    Suspect(bool),
    /// Its agent is back with the run.
    Rejoin,
}

/// The end of a round that another one follows.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) at: Wall,
    pub(crate) end: RoundEnd,
    pub(crate) times: PhaseTimes,
    pub(crate) result: Option<Arc<RunResult>>,
    /// The earliest start of the next round, once that is decided.
    pub(crate) not_before: Option<Wall>,
}

/// Applies an event.
///
/// A wrong message of a peer is refused before this point. An event that does not fit here is a bug of this engine.
pub(crate) fn apply(record: &mut TaskRecord, event: TaskEvent) {
    use TaskEvent as Event;
    use TaskState as State;
    let from = std::mem::replace(&mut record.state, State::Waiting { not_before: None });
    record.state = match (from, event) {
        (State::Waiting { .. }, Event::Dispatch(assignment)) => State::Dispatched(Box::new(assignment)),
        (State::Dispatched(_), Event::Return) => State::Waiting { not_before: None },
        (State::Dispatched(run), Event::Prepare(times)) => {
            // From here on the agent of this run confirms the end, not that of an earlier one.
            record.unconfirmed = false;
            State::Preparing(merge_times(run, times))
        }
        (State::Dispatched(run) | State::Preparing(run), Event::Run(times)) => State::Running(merge_times(run, times)),
        (State::Dispatched(run) | State::Preparing(run) | State::Running(run), Event::End(times, result)) => {
            State::Ended { assignment: merge_times(run, times), result: result.map(Arc::new) }
        }
        (State::Ended { assignment, .. }, Event::Finish { at, times, result, outcome }) => {
            count_outcome(&mut record.counts, outcome);
            State::Finished { at, outcome, run: Some((merge_times(assignment, times), Some(result))) }
        }
        (State::Waiting { .. }, Event::Close { at, outcome }) => {
            count_outcome(&mut record.counts, outcome);
            State::Finished { at, outcome, run: None }
        }
        (
            was @ (State::Dispatched(_) | State::Preparing(_) | State::Running(_) | State::Ended { .. }),
            Event::LoseContact { since, not_before, suspected },
        ) => State::OutOfContact { was: Box::new(was), since, not_before, suspected },
        (State::OutOfContact { was, since, not_before, .. }, Event::Suspect(suspected)) => {
            State::OutOfContact { was, since, not_before, suspected }
        }
        (State::OutOfContact { was, .. }, Event::Rejoin) => {
            // Its agent confirms the end, unless the flag is about the end of the round before.
            record.unconfirmed &= was.phase() == Phase::Dispatched;
            *was
        }
        (
            from @ (State::Dispatched(_)
            | State::Preparing(_)
            | State::Running(_)
            | State::Ended { .. }
            | State::OutOfContact { .. }),
            Event::Close { at, outcome },
        ) => {
            count_outcome(&mut record.counts, outcome);
            State::Finished { at, outcome, run: from.into_run().map(|run| (run, None)) }
        }
        (
            from @ (State::Dispatched(_)
            | State::Preparing(_)
            | State::Running(_)
            | State::Ended { .. }
            | State::OutOfContact { .. }),
            Event::Again(again),
        ) => next_round(record, from.into_run(), again),
        (State::Finished { run, .. }, Event::Again(again @ Again { end: RoundEnd::Retried, .. })) => {
            record.counts = Counts::default();
            record.acknowledgement = Acknowledgement::None;
            let (run, result) = run.map_or((None, None), |(run, result)| (Some(run), result));
            next_round(record, run, Again { result, ..again })
        }
        (
            from @ (State::Waiting { .. }
            | State::OutOfContact { .. }
            | State::Dispatched(_)
            | State::Preparing(_)
            | State::Running(_)
            | State::Ended { .. }
            | State::Finished { .. }),
            event,
        ) => unreachable!("task {}: {event:?} cannot happen in {from:?}", record.id),
    };
}

/// The only transition into a later round. It keeps the results of the earlier round and clears a kill that applied to that
/// round only.
fn next_round(record: &mut TaskRecord, run: Option<Box<Assignment>>, again: Again) -> TaskState {
    let Again { at, end, times, result, not_before } = again;
    match end {
        RoundEnd::Failed => record.counts.fails += 1,
        RoundEnd::TimedOut => record.counts.timeouts += 1,
        RoundEnd::Deferred => record.counts.defers += 1,
        // A loss is counted whatever follows it.
        RoundEnd::Lost
        | RoundEnd::Returned
        | RoundEnd::Retried
        | RoundEnd::NoTool
        | RoundEnd::DiskFull
        | RoundEnd::NotHere => {}
    }
    record.kill = None;
    if record.past.len() >= TaskRecord::PAST_ROUNDS_MAX {
        record.past.remove(0);
    }
    let result = result.map(shorten_texts);
    let assignment = run.map(|run| merge_times(Box::new(Assignment { lease: None, progress: None, ..*run }), times));
    record.past.push(PastRound { round: record.round, at, end, assignment, result });
    record.round = record.round.next();
    TaskState::Waiting { not_before }
}

const fn count_outcome(counts: &mut Counts, outcome: Outcome) {
    match outcome {
        Outcome::Failed => counts.fails += 1,
        Outcome::TimedOut => counts.timeouts += 1,
        Outcome::Succeeded | Outcome::Expired | Outcome::Killed | Outcome::Lost | Outcome::Skipped => {}
    }
}

/// A task with many rounds must not grow with the texts and values of all of them.
fn shorten_texts(result: Arc<RunResult>) -> Arc<RunResult> {
    let max = PastRound::TAIL_BYTES_MAX;
    let texts = [&result.error, &result.report_tail, &result.stdout_tail, &result.stderr_tail];
    if texts.iter().all(|text| text.len() <= max) && result.value.is_none() {
        return result;
    }
    let tail = |text: &String| {
        let start = text.ceil_char_boundary(text.len().saturating_sub(max));
        text[start..].to_owned()
    };
    let [error, report_tail, stdout_tail, stderr_tail] = texts.map(tail);
    Arc::new(RunResult {
        error,
        report_tail,
        stdout_tail,
        stderr_tail,
        value: None,
        files: None,
        ..RunResult::clone(&result)
    })
}

/// Adds the times in a report to the known ones.
fn merge_times(mut run: Box<Assignment>, times: PhaseTimes) -> Box<Assignment> {
    run.ahead = None;
    if times.end.is_some() {
        // A run that has ended reports no progress.
        run.progress = None;
    }
    let known = run.times;
    run.times = PhaseTimes {
        prepare: known.prepare.or(times.prepare),
        run: known.run.or(times.run),
        end: known.end.or(times.end),
        finish: known.finish.or(times.finish),
    };
    run
}
