//! Scenarios of claimed lists, with a controller that answers as the scenario says.

#![cfg(test)]

use std::time::Duration;

use super::*;
use api::guest::task::End;
use api::guest::{Part, Refusal};
use base::lists::ListTaskId;
use base::{ExitCode, Outcome, OutputBytes, Stream, Wall};

const BEGIN: u64 = 1_448_978_609;

struct Story {
    agents: Agents,
    now: Now,
}

fn list() -> RunningName {
    "1_controller_2".parse().unwrap()
}

fn order(nanos: u64, until: u64) -> Order {
    Order { id: ListTaskId { nanos, fails: 0 }, until, cmd: format!("echo {nanos}") }
}

fn task(number: u64) -> TaskId {
    format!("TASK_1480000000.{number:06}_abcde").parse().unwrap()
}

fn end(outcome: Outcome, reason: Option<&str>) -> End {
    let at = Wall::from_micros(BEGIN * 1_000_000);
    End {
        round: 0,
        started: Some(at),
        ended: Some(at + Duration::from_secs(3)),
        exit: Some(ExitCode(0)),
        outcome,
        reason: reason.map(str::to_owned),
        tails: ["out".to_owned(), String::new()],
        written: Some(OutputBytes { report: 0, stdout: 3, stderr: 0 }),
    }
}

fn never_started(reason: &str) -> Stage {
    let end = End { started: None, ended: None, exit: None, written: None, ..end(Outcome::Killed, Some(reason)) };
    Stage::Finished(Box::new(End { tails: Default::default(), ..end }))
}

fn refused(refusal: Refusal) -> Answer {
    Answer::Refused { reason: "no".to_owned(), refusal }
}

impl Story {
    fn new() -> Self {
        let now = Now { mono: Mono::from_nanos(1_000_000_000_000), wall: Wall::from_micros(BEGIN * 1_000_000) };
        Self { agents: Agents::new(10), now }
    }

    /// With a list of these tasks.
    fn with(orders: Vec<Order>) -> Self {
        let mut story = Self::new();
        story.agents.handle_list(story.now, &list(), orders);
        story
    }

    fn passes(&mut self, time: Duration) {
        self.now = Now { mono: self.now.mono + time, wall: self.now.wall + time };
        self.agents.handle_timeout(self.now);
    }

    /// The only question that is asked.
    #[track_caller]
    fn asks(&mut self) -> (u64, Question) {
        match (self.agents.poll_effect(), self.agents.poll_effect()) {
            (Some(Effect::Ask(number, question)), None) => (number, question),
            other => panic!("{other:?}"),
        }
    }

    /// The same, and its answer.
    #[track_caller]
    fn is_answered(&mut self, answer: Answer) -> Question {
        let (number, question) = self.asks();
        self.agents.handle_answer(self.now, number, answer);
        question
    }

    fn changes(&mut self, number: u64, stage: Stage) {
        self.agents.handle_change(self.now, Snapshot { task: task(number), is_held: false, stage });
    }

    fn finishes(&mut self, number: u64, end: End) {
        self.changes(number, Stage::Finished(Box::new(end)));
    }

    #[track_caller]
    fn reports(&mut self) -> TaskResult {
        match self.agents.poll_effect() {
            Some(Effect::Report(_, _, result)) => result,
            other => panic!("{other:?}"),
        }
    }

    /// The next task is submitted and accepted.
    #[track_caller]
    fn submits(&mut self, number: u64) -> Order {
        match self.is_answered(Answer::Submitted(task(number), false)) {
            Question::Submit((_, order)) => order,
            other => panic!("{other:?}"),
        }
    }

    /// The answer to a look.
    fn looks(&mut self, number: u64, is_held: bool, stage: Stage) {
        let question = self.is_answered(Answer::Seen(Snapshot { task: task(number), is_held, stage }));
        assert_eq!(question, Question::Look(task(number)));
    }
}

#[test]
fn the_tasks_of_a_list_run_one_after_the_other() {
    let mut story = Story::with(vec![order(1, BEGIN), order(2, BEGIN)]);
    assert_eq!(story.submits(1).id.nanos, 1);
    assert_eq!(story.agents.poll_effect(), None, "the second one waits for the first");
    story.changes(1, Stage::Started);
    story.finishes(1, end(Outcome::Failed, None));
    let result = story.reports();
    assert_eq!((result.ended - result.started, result.out, result.err), (3, b"out".to_vec(), Vec::new()));
    assert_eq!(story.submits(2).id.nanos, 2);
    // The end is seen without the run.
    story.finishes(2, End { exit: Some(ExitCode(-9)), ..end(Outcome::Failed, None) });
    assert_eq!(story.reports().err, b"ended by signal 9\n");
    assert_eq!((story.agents.poll_effect(), story.agents.poll_timeout()), (None, None));
    story.finishes(1, end(Outcome::Failed, None));
    assert_eq!(story.agents.poll_effect(), None, "a task of no list");
}

#[test]
fn a_list_is_claimed_only_when_an_agent_is_free_and_no_claimed_one_waits() {
    let mut story = Story::new();
    story.agents.handle_demand(story.now, true, false);
    assert_eq!(story.is_answered(Answer::Agents { free: 0, busy: 0 }), Question::Free);
    story.agents.handle_demand(story.now, true, false);
    assert!(story.agents.poll_effect().is_none() && story.agents.wants_agents());
    story.agents.handle_freed();
    assert_eq!(story.is_answered(Answer::Agents { free: 2, busy: 0 }), Question::Free);
    assert_eq!(story.agents.poll_effect(), Some(Effect::Claim));
    story.agents.handle_list(story.now, &list(), vec![order(1, BEGIN)]);
    story.submits(1);
    story.agents.handle_demand(story.now, true, false);
    assert_eq!(story.agents.poll_effect(), None, "the first one waits for an agent");
    story.changes(1, Stage::Started);
    assert_eq!(story.is_answered(Answer::Agents { free: 1, busy: 0 }), Question::Free);
    assert_eq!(story.agents.poll_effect(), Some(Effect::Claim));
    story.agents.handle_no_list(story.now);
    story.agents.handle_demand(story.now, true, false);
    assert_eq!(story.agents.poll_effect(), None, "an agent that joins is noticed after a pause");
    story.passes(FREE_PAUSE);
    assert_eq!(story.asks().1, Question::Free);
}

#[test]
fn a_list_that_waits_goes_to_another_worker_only_while_it_waits() {
    for starts in [false, true] {
        let mut story = Story::with(vec![order(1, BEGIN + 1000), order(2, BEGIN + 1000)]);
        story.submits(1);
        story.agents.handle_demand(story.now, false, true);
        story.passes(PULL_AFTER);
        assert_eq!(story.is_answered(Answer::Done), Question::Hold(task(1), true));
        if starts {
            story.changes(1, Stage::Started);
            story.looks(1, true, Stage::Started);
            assert_eq!(story.asks().1, Question::Hold(task(1), false), "its next round is not held");
            story.finishes(1, end(Outcome::Succeeded, None));
            story.reports();
            assert_eq!(story.submits(2).id.nanos, 2);
        } else {
            story.looks(1, true, Stage::Waiting);
            let Question::Kill(_, reason) = story.is_answered(Answer::Done) else { panic!("no kill") };
            story.changes(1, never_started(&format!("killed by a client: {reason}")));
            assert_eq!(story.agents.poll_effect(), Some(Effect::GiveBack(list())));
            assert_eq!((story.agents.poll_effect(), story.agents.poll_timeout().is_some()), (None, true));
        }
    }
}

#[test]
fn a_task_that_is_late_is_not_started_unless_it_was_before_a_restart() {
    let mut story = Story::with(vec![order(1, BEGIN - 1), order(2, BEGIN + 2)]);
    assert_eq!(story.reports().err, format!("not started before {}\n", BEGIN - 1).into_bytes());
    story.submits(2);
    story.passes(Duration::from_secs(2));
    assert_eq!(story.agents.poll_effect(), None, "its last second is not over");
    story.passes(Duration::from_secs(1));
    assert_eq!(story.is_answered(Answer::Done), Question::Hold(task(2), true));
    story.looks(2, true, Stage::Waiting);
    let Question::Kill(_, reason) = story.is_answered(Answer::Done) else { panic!("no kill") };
    story.changes(2, never_started(reason));
    assert_eq!(story.reports().err, format!("not started before {}\n", BEGIN + 2).into_bytes());
    for (answer, err) in [
        (refused(Refusal::Unknown), format!("not started before {}\n", BEGIN - 1)),
        (
            Answer::Seen(Snapshot {
                task: task(1),
                is_held: false,
                stage: Stage::Finished(Box::new(end(Outcome::Succeeded, None))),
            }),
            String::new(),
        ),
    ] {
        let mut story = Story::new();
        story.agents.handle_found(story.now, &list(), vec![order(1, BEGIN - 1)]);
        assert_eq!(story.is_answered(answer), Question::Find((list(), order(1, 0).id)));
        assert_eq!(story.reports().err, err.into_bytes());
    }
}

#[test]
fn a_restarted_controller_finds_its_task_by_the_key() {
    let mut story = Story::new();
    story.agents.handle_found(story.now, &list(), vec![order(1, BEGIN)]);
    story.is_answered(Answer::Submitted(task(1), true));
    story.looks(1, false, Stage::Waiting);
    story.finishes(1, end(Outcome::Succeeded, None));
    assert_eq!(story.reports().out, b"out");
    // A list that an earlier controller was about to give to another worker.
    let mut story = Story::new();
    story.agents.handle_found(story.now, &list(), vec![order(1, BEGIN)]);
    story.is_answered(Answer::Submitted(task(1), true));
    story.looks(1, true, never_started(pulling::TAKEN_BACK));
    assert_eq!(story.agents.poll_effect(), Some(Effect::GiveBack(list())), "it has not failed");
}

#[test]
fn a_refused_task_is_submitted_again_or_has_failed() {
    let mut story = Story::with(vec![order(1, BEGIN + 100), order(2, BEGIN + 100)]);
    story.is_answered(refused(Refusal::Passing));
    assert_eq!(story.agents.poll_effect(), None);
    story.passes(SUBMIT_PAUSE);
    story.is_answered(refused(Refusal::Final));
    assert_eq!(story.reports().err, b"could not be started: no\n");
    story.is_answered(refused(Refusal::Passing));
    story.agents.handle_demand(story.now, false, true);
    story.passes(PULL_AFTER);
    assert_eq!(story.agents.poll_effect(), Some(Effect::GiveBack(list())), "another worker may start it");
}

#[test]
fn outputs_are_read_up_to_the_limit_and_what_is_lost_is_said() {
    let mut story = Story::with(vec![order(1, BEGIN)]);
    story.submits(1);
    let written = Some(OutputBytes { report: 0, stdout: 12, stderr: 4 });
    story.finishes(
        1,
        End { written, tails: ["l".to_owned(), "r".to_owned()], ..end(Outcome::Killed, Some("killed by u")) },
    );
    let part = |offset, bytes: &[u8], missing: Option<&str>, is_absent| {
        let missing = missing.map(str::to_owned);
        Answer::Part(Part { offset, bytes: bytes.to_vec(), is_end: false, missing, is_absent })
    };
    let question = story.is_answered(part(0, b"", Some("absent"), true));
    assert!(
        matches!(question, Question::Output { stream: Stream::Stdout, offset: 0, bytes_max: 10, .. }),
        "{question:?}"
    );
    assert_eq!(story.agents.poll_effect(), None);
    story.passes(Duration::from_millis(200));
    story.is_answered(part(0, b"123456", None, false));
    let question = story.is_answered(part(6, b"7890", None, false));
    assert!(matches!(question, Question::Output { offset: 6, bytes_max: 4, .. }), "{question:?}");
    story.is_answered(part(3, b"r", Some("its agent is gone"), false));
    let result = story.reports();
    assert_eq!(result.out, b"1234567890");
    let err = "stderr has 4 bytes, of which the first 0 are here: its agent is gone\nkilled by u\n\
               stdout has 12 bytes; those after the first 10 are left out\n";
    assert_eq!(String::from_utf8(result.err).unwrap(), err);
}

#[test]
fn no_task_starts_while_too_many_results_are_not_stored() {
    let mut story = Story::with((1..=UNSTORED_MAX as u64 + 1).map(|nanos| order(nanos, 1)).collect());
    let numbers: Vec<u64> = std::iter::from_fn(|| match story.agents.poll_effect()? {
        Effect::Report(_, number, _) => Some(number),
        other => panic!("{other:?}"),
    })
    .collect();
    assert_eq!(numbers.len(), UNSTORED_MAX);
    story.agents.handle_stored(story.now, numbers[0]);
    story.reports();
    assert_eq!(story.agents.poll_effect(), None);
}
