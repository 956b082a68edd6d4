//! The decision at the end of a round: the end of the task, or another round.
//!
//! A budget is exceeded when its counter, after this round, is greater than the policy allows.

use base::{ExitCode, Kill, KillCause, Outcome, RoundEnd, RunResult, TaskRecord};

/// The consequence of a finished round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The task ends with this outcome.
    End(Outcome),
    /// Another round follows, because this one ended like this.
    Again(RoundEnd),
}

/// The verdict on a run that has ended with this result.
pub(crate) fn of_result(record: &TaskRecord, result: &RunResult) -> Verdict {
    let (policy, counts) = (&record.policy, &record.counts);
    let stderr_is_failure = policy.fail_on_stderr && !result.stderr_tail.is_empty();
    let has_succeeded = result.exit_code == ExitCode::SUCCESS && !stderr_is_failure;
    // A kill that came after the end of a run has ended nothing, but another round must not follow.
    if let Some(kill) = record.kill.as_ref().filter(|_| !(has_succeeded && result.by_itself)) {
        return of_kill(record, kill);
    }
    match result.exit_code {
        // Its step ends early, so its end is no failure, whatever the run made of that.
        _ if result.told_to_finish => Verdict::End(Outcome::Succeeded),
        _ if has_succeeded => Verdict::End(Outcome::Succeeded),
        // One defer too many is a failure like any other.
        ExitCode::DEFERRED if counts.defers < policy.defers_max => Verdict::Again(RoundEnd::Deferred),
        _ if counts.fails >= policy.fails_max => Verdict::End(Outcome::Failed),
        _ => Verdict::Again(RoundEnd::Failed),
    }
}

/// Whether no other run follows an ended one, as far as its result is known.
pub(crate) fn is_the_last_round(record: &TaskRecord) -> bool {
    record.result().is_some_and(|result| matches!(of_result(record, result), Verdict::End(_)))
}

/// The verdict on a void run: its agent is lost (already counted), or has come back or left without it.
pub(crate) fn of_void_run(record: &TaskRecord, end: RoundEnd) -> Verdict {
    of_lost_run(record, end, record.counts.losses)
}

/// The verdict on a run if it were lost with its agent.
pub(crate) fn if_lost(record: &TaskRecord) -> Verdict {
    of_lost_run(record, RoundEnd::Lost, record.counts.losses.saturating_add(1))
}

fn of_lost_run(record: &TaskRecord, end: RoundEnd, losses: u32) -> Verdict {
    let one_loss_too_many = end == RoundEnd::Lost && losses > record.policy.losses_max;
    match &record.kill {
        Some(kill) if kill.cause.ends_the_task() => of_kill(record, kill),
        // This also holds for a run that was being ended by its time limit: each budget counts.
        _ if one_loss_too_many => Verdict::End(Outcome::Lost),
        Some(kill) => of_kill(record, kill),
        None => Verdict::Again(end),
    }
}

fn of_kill(record: &TaskRecord, kill: &Kill) -> Verdict {
    match &kill.cause {
        KillCause::TimedOut if record.counts.timeouts < record.policy.timeouts_max => {
            Verdict::Again(RoundEnd::TimedOut)
        }
        cause => Verdict::End(cause.outcome()),
    }
}
