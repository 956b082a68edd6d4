//! Submits a task to the controller, for all commands: exactly once, even if an answer is lost.

use super::command::or_as_program;
use api::wire::requests::submit::{Submission, Submitted};
use base::{Mono, Now, Policy, PolicyField, PolicySlot, Scalar, Skew, TaskId};
use llts_client::{Client, ClientError};
use proc::clock;
use term::exit::Failure;
use term::output::note;

/// A warning about different clocks, for a task that names a moment. The time of the controller is in the task's id.
fn told_skew(submission: &Submission, submitted: &Submitted, sent: Mono, now: Now) -> Option<String> {
    let is_moment = |field: &PolicyField| {
        matches!(field.slot, PolicySlot::Moment(..)) && is_number(submission.parameters.get(field.word))
    };
    let at = submitted.id.parse::<TaskId>().ok().filter(|_| !submitted.duplicate)?.wall();
    let uncertainty = now.mono.since(sent) / 2;
    let skew = Skew::between(now.wall.before(uncertainty), at);
    (Policy::FIELDS.iter().any(is_moment) && skew.is_above(uncertainty)).then(|| {
        format!(
            "the clock of this machine is {skew} that of the controller, which starts and ends tasks by its own clock"
        )
    })
}

fn is_number(value: Option<&Scalar>) -> bool {
    value.is_some_and(|value| value.as_f64().is_some())
}

/// Submits a task, and prints the warnings about it.
pub(super) fn hand_over(client: &Client, submission: &Submission) -> Result<Submitted, Failure> {
    let key = submission.submit_key.as_deref().unwrap_or_default();
    let sent = clock::now().mono;
    let submitted = client.submit(submission).map_err(|error| {
        let lacks_tool = matches!(&error, ClientError::Reply(reply) if reply.is_bad_operation());
        let failure = unanswered(client, key, error);
        match &submission.tool {
            Some(tool) if lacks_tool => or_as_program(failure, tool),
            _ => failure,
        }
    })?;
    let skew = told_skew(submission, &submitted, sent, clock::now());
    skew.iter().for_each(|said| note(said));
    let duplicate = submitted.duplicate.then_some("a task was submitted before with this key; this is its id");
    submitted.warning.as_deref().into_iter().chain(duplicate).for_each(note);
    Ok(submitted)
}

/// The failure of a submit. A submit that was sent may have been accepted all the same.
pub(super) fn unanswered(client: &Client, key: &str, error: ClientError) -> Failure {
    let may_be_accepted = matches!(error, ClientError::NoController { .. }) && client.has_sent();
    let Failure { exit, sentence } = error.into();
    if may_be_accepted {
        let advice = format!(
            "it was sent, and may have been accepted: repeat it with --submit-key \"{key}\", which cannot double it"
        );
        return Failure::new(exit, format!("{sentence}; {advice}"));
    }
    Failure::new(exit, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Wall, words};

    #[test]
    fn a_moment_of_another_clock_is_told() {
        let submitted = Submitted { id: "TASK_1480000000.000000_AZazA".to_owned(), duplicate: false, warning: None };
        let now = |seconds: u64| Now { mono: Mono::from_nanos(0), wall: Wall::from_micros(seconds * 1_000_000) };
        let at = Submission::new("t").with(words::START_AFTER, 1_480_009_000.0);
        let said = |submission, seconds| told_skew(submission, &submitted, Mono::from_nanos(0), now(seconds));
        assert_eq!(said(&at, 1_480_000_000), None);
        assert!(said(&at, 1_480_003_600).unwrap().contains("is 3600.0 s ahead of that of the controller"));
        let ahead = Submission::new("t").with(words::START_AFTER, "+5");
        assert_eq!(said(&ahead, 1_480_003_600), None, "it is by the clock of the controller");
    }
}
