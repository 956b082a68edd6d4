//! Scenarios of a prompt worker on virtual time.

#![cfg(test)]

use super::*;
use crate::wire::RequestId;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    Settings {
        secret: None,
        patience: Some(10 * SECOND),
        join_timeout: 10 * SECOND,
        reconnect_interval_max: SECOND,
        limited_pause: 60 * SECOND,
        gate: None,
        brake: BrakeSettings { fails: 3, quick: SECOND, pause_max: 1000 * SECOND },
        ends_when_limited: false,
        kill_interval: 2 * SECOND,
        straggler_grace: SECOND / 2,
    }
}

/// A worker, and the time.
struct Story {
    worker: Worker,
    now: Now,
    /// Whether results are stored at once.
    keeps: bool,
    /// Effects that a helper has passed over.
    said: Vec<String>,
}

impl Story {
    fn new(settings: Settings) -> Self {
        let now = Now::default();
        let mut story = Self { worker: Worker::new(settings, now), now, keeps: true, said: Vec::new() };
        story.does(&["Connect"]);
        story
    }

    /// A worker that has joined.
    fn joined(settings: Settings) -> Self {
        let mut story = Self::new(settings);
        story.joins();
        story
    }

    fn joins(&mut self) {
        self.worker.handle_connected(self.now, "box-1");
        self.does(&["JOIN box-1"]);
        self.hears(FromMaster::JoinAck);
        self.does(&[]);
    }

    /// A worker whose command runs.
    fn running(settings: Settings) -> Self {
        let mut story = Self::joined(settings);
        story.starts(None);
        story
    }

    fn starts(&mut self, timeout: Option<Duration>) {
        self.hears(request("r1", timeout));
        self.does(&["REQUEST_ACK r1", "start r1"]);
        self.worker.handle_started(self.now, Ok(()));
        self.does(&[]);
    }

    fn hears(&mut self, message: FromMaster) {
        self.worker.handle_message(self.now, message);
    }

    fn exits(&mut self, code: i32) {
        self.worker.handle_exited(self.now, ExitCode(code), None);
        self.does(&["look at the tree"]);
    }

    fn tree(&mut self, left: bool) {
        self.worker.handle_tree(self.now, left);
    }

    /// Lets time pass, deadline by deadline.
    fn passes(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while let Some((at, _)) = self.worker.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now.mono = at.max(self.now.mono);
            self.worker.handle_timeout(self.now);
        }
        self.now.mono = end;
    }

    #[track_caller]
    fn does(&mut self, expected: &[&str]) {
        self.worker.sanity_check();
        assert_eq!(self.did(), expected);
    }

    fn did(&mut self) -> Vec<String> {
        let mut effects = Vec::new();
        while let Some(effect) = self.worker.poll_effect() {
            effects.push(shown(&effect));
            if self.keeps && matches!(effect, Effect::StoreResults(_)) {
                self.worker.handle_results_stored(self.now, Ok(()));
            }
        }
        effects
    }
}

fn request(id: &str, timeout: Option<Duration>) -> FromMaster {
    let file = Some(format!("{id}.txt"));
    FromMaster::Request(Request { id: RequestId::from(id), prompt: "do it".to_owned(), file, timeout })
}

fn shown(effect: &Effect) -> String {
    match effect {
        Effect::Connect => "Connect".to_owned(),
        Effect::Send(message) => match message {
            FromWorker::Join { worker, .. } => format!("JOIN {worker}"),
            FromWorker::RequestAck(id) => format!("REQUEST_ACK {id}"),
            FromWorker::CheckAck(id) => format!("CHECK_ACK {id}"),
            FromWorker::Done { text } => format!("DONE {text}"),
            FromWorker::Failed { reason, is_loss } => {
                format!("FAILED {reason}{}", if *is_loss { " (lost)" } else { "" })
            }
            FromWorker::UsageLimited { retry_after, is_local, .. } => {
                format!("USAGE_LIMITED {retry_after:?}{}", if *is_local { " here" } else { "" })
            }
            FromWorker::Cost { cost, .. } => format!("COST {cost}"),
            FromWorker::Result(_)
            | FromWorker::TailPart(_)
            | FromWorker::Tail { .. }
            | FromWorker::Budget { .. }
            | FromWorker::Order { .. } => unreachable!("the shell or a client sends it"),
            FromWorker::Leave => "LEAVE".to_owned(),
            FromWorker::Status { .. } => unreachable!("a worker asks nothing"),
        },
        Effect::Close => "close".to_owned(),
        Effect::Start(request) => format!("start {}", request.id),
        Effect::Signal(signal) => format!("{signal:?}"),
        Effect::CheckTree => "look at the tree".to_owned(),
        Effect::StoreResults(kept) => format!("keep {kept:?}"),
        Effect::Discard => "discard".to_owned(),
        Effect::SendResults(run, _) => format!("send results of {run}"),
        Effect::Tail(order) => format!("tail of {}", order.file),
        Effect::Exit(end) => format!("{end:?}"),
    }
}

#[test]
fn a_prompt_is_acknowledged_before_its_command_starts_and_reported_when_nothing_is_left_of_it() {
    let mut story = Story::running(settings());
    story.exits(0);
    story.tree(false);
    story.does(&["keep Done", "DONE r1.txt"]);
    story.hears(request("r2", None));
    story.does(&["REQUEST_ACK r2", "start r2"]);
    story.worker.handle_started(story.now, Ok(()));
    story.exits(3);
    story.tree(false);
    story.does(&["keep Failed", "FAILED exit code 3"]);
    assert_eq!(story.worker.tally(), Tally { all: 2, failed: 1 });
}

#[test]
fn a_command_that_a_signal_ended_has_failed() {
    let mut story = Story::running(settings());
    story.exits(-11);
    story.tree(false);
    story.does(&["keep Failed", "FAILED ended by signal 11"]);
}

#[test]
fn a_killed_command_has_failed_for_an_original_master() {
    for exit in [-9, -15] {
        let mut story = Story::running(settings());
        story.exits(exit);
        story.tree(false);
        let said = if exit == -9 { "FAILED ended by signal 9" } else { "FAILED ended by signal 15" };
        story.does(&["keep Failed", said]);
    }
}

#[test]
fn checks_are_answered_whatever_the_command_does() {
    let mut story = Story::joined(settings());
    let check = |story: &mut Story| {
        story.hears(FromMaster::Check(RequestId::from("c")));
        story.does(&["CHECK_ACK c"]);
    };
    check(&mut story);
    story.hears(request("r1", None));
    story.does(&["REQUEST_ACK r1", "start r1"]);
    check(&mut story);
    story.worker.handle_started(story.now, Ok(()));
    check(&mut story);
    story.worker.handle_stop(story.now);
    story.does(&["Terminate"]);
    check(&mut story);
    story.exits(-15);
    check(&mut story);
}

#[test]
fn what_a_command_leaves_behind_is_ended_before_the_report() {
    let mut story = Story::running(settings());
    story.exits(0);
    story.tree(true);
    story.does(&["Terminate"]);
    story.tree(true);
    story.does(&[]);
    story.passes(SECOND / 2);
    story.does(&["Kill", "look at the tree"]);
    story.tree(true);
    story.passes(SECOND / 10);
    story.does(&["Kill", "look at the tree"]);
    story.tree(false);
    story.does(&["keep Done", "DONE r1.txt"]);
    story.passes(SECOND);
    story.does(&[]);
}

#[test]
fn what_cannot_be_ended_holds_nobody_up_for_ever() {
    let mut story = Story::running(settings());
    story.exits(0);
    story.tree(true);
    story.passes(11 * SECOND);
    assert_eq!(story.did().last().unwrap(), "DONE r1.txt");
}

#[test]
fn a_limited_worker_that_is_sent_away_comes_back() {
    let mut story = Story::running(settings());
    let text = "limited".to_owned();
    story.worker.handle_exited(story.now, USAGE_LIMITED, Some(Sign::Limited { retry_after: Some(7 * SECOND), text }));
    story.does(&["look at the tree"]);
    story.tree(false);
    story.does(&["discard", "USAGE_LIMITED Some(7s)"]);
    story.passes(3 * SECOND);
    story.worker.handle_closed(story.now, "closed");
    story.passes(4 * SECOND - SECOND / 100);
    story.does(&[]);
    story.passes(SECOND / 100);
    story.does(&["Connect"]);
    story.joins();
}

#[test]
fn a_limited_worker_rests_for_the_usual_time_if_its_command_does_not_say() {
    let mut story = Story::running(settings());
    story.exits(75);
    story.tree(false);
    story.does(&["discard", "USAGE_LIMITED Some(60s)"]);
    story.worker.handle_closed(story.now, "closed");
    story.passes(60 * SECOND);
    story.does(&["Connect"]);
}

#[test]
fn a_limited_worker_that_may_stay_takes_what_the_master_gives_it() {
    let mut story = Story::running(settings());
    story.exits(75);
    story.tree(false);
    story.does(&["discard", "USAGE_LIMITED Some(60s)"]);
    story.hears(FromMaster::Check(RequestId::from("c")));
    story.does(&["CHECK_ACK c"]);
    story.starts(None);
    story.exits(0);
    story.tree(false);
    story.does(&["keep Done", "DONE r1.txt"]);
    story.worker.handle_closed(story.now, "closed");
    story.passes(SECOND / 10);
    story.does(&["Connect"]);
}

#[test]
fn a_limited_worker_may_end_instead() {
    let mut story = Story::running(Settings { ends_when_limited: true, ..settings() });
    story.exits(75);
    story.tree(false);
    story.does(&["discard", "USAGE_LIMITED Some(60s)", "LEAVE", "close", "Limited(60s)"]);
}

#[test]
fn a_prompt_that_a_master_gives_up_keeps_what_it_has_said() {
    let mut story = Story::joined(settings());
    story.starts(Some(5 * SECOND));
    story.passes(5 * SECOND);
    story.does(&["Terminate"]);
    story.worker.handle_closed(story.now, "closed");
    story.exits(-15);
    story.tree(false);
    story.does(&["keep Overdue", "Connect"]);
    assert_eq!(story.worker.tally(), Tally { all: 1, failed: 1 });
}

#[test]
fn a_cut_connection_ends_the_command_and_its_end_comes_before_the_next_connection() {
    let mut story = Story::running(settings());
    story.worker.handle_closed(story.now, "reset");
    story.does(&["Terminate"]);
    story.passes(2 * SECOND);
    story.does(&["Kill"]);
    story.passes(2 * SECOND);
    story.does(&["Kill"]);
    // Whatever its exit code, the prompt belongs to another worker by now.
    story.exits(0);
    story.tree(false);
    story.does(&["discard", "Connect"]);
}

#[test]
fn a_result_that_could_not_be_reported_any_more_is_void() {
    let mut story = Story::running(settings());
    story.exits(0);
    story.worker.handle_closed(story.now, "reset");
    story.tree(false);
    story.does(&["discard", "Connect"]);
}

#[test]
fn a_stop_ends_the_command_and_only_then_gives_the_prompt_back() {
    let mut story = Story::running(settings());
    story.worker.handle_stop(story.now);
    story.does(&["Terminate"]);
    story.passes(2 * SECOND);
    story.does(&["Kill"]);
    story.exits(-9);
    story.tree(false);
    story.does(&["discard", "LEAVE", "close", "Stopped"]);
}

#[test]
fn a_second_stop_gives_no_more_time() {
    let mut story = Story::running(settings());
    story.worker.handle_stop(story.now);
    story.does(&["Terminate"]);
    story.worker.handle_stop(story.now);
    story.passes(Duration::ZERO);
    story.does(&["Kill"]);
}

#[test]
fn a_stop_after_the_end_of_the_command_still_reports_it() {
    let mut story = Story::running(settings());
    story.exits(0);
    story.worker.handle_stop(story.now);
    story.does(&[]);
    story.tree(false);
    story.does(&["keep Done", "DONE r1.txt", "LEAVE", "close", "Stopped"]);
}

/// A scenario whose results are being written.
fn keeping() -> Story {
    let mut story = Story::running(settings());
    story.keeps = false;
    story.exits(0);
    story.tree(false);
    story.does(&["keep Done"]);
    story
}

#[test]
fn a_result_is_reported_when_it_is_kept_and_checks_are_answered_meanwhile() {
    let mut story = keeping();
    story.hears(FromMaster::Check(RequestId::from("c")));
    story.worker.handle_stop(story.now);
    story.worker.handle_stop(story.now);
    story.passes(100 * SECOND);
    story.does(&["CHECK_ACK c"]);
    story.worker.handle_results_stored(story.now, Ok(()));
    story.does(&["DONE r1.txt", "LEAVE", "close", "Stopped"]);
}

#[test]
fn a_result_that_cannot_be_kept_gives_its_prompt_back_for_a_pause_of_this_worker() {
    let mut story = keeping();
    story.worker.handle_results_stored(story.now, Err(StoreError::Disk("the disk is full".to_owned())));
    story.does(&["USAGE_LIMITED Some(60s) here"]);
}

#[test]
fn a_result_that_is_kept_after_the_end_of_the_connection_is_not_reported_on_the_next() {
    let mut story = keeping();
    story.worker.handle_closed(story.now, "reset");
    story.passes(SECOND);
    story.does(&[]);
    story.worker.handle_results_stored(story.now, Ok(()));
    story.does(&["Connect"]);
    assert_eq!(story.worker.tally(), Tally::default(), "it waits again");
}

#[test]
fn a_worker_whose_key_is_refused_says_so_once_and_has_its_patience() {
    let mut story = Story::joined(Settings { patience: Some(60 * SECOND), ..settings() });
    story.worker.handle_closed(story.now, "closed");
    story.worker.take_log();
    let mut said = Vec::new();
    let mut ended = false;
    for _ in 0..100 {
        story.passes(3 * SECOND);
        story.worker.handle_denied(story.now, "unknown key");
        said.extend(story.worker.take_log());
        ended |= story.did().last().is_some_and(|last| last.contains("Refused"));
    }
    let said: Vec<_> =
        said.iter().map(|line| line.text.clone()).filter(|text| text.contains("unknown key; trying again")).collect();
    assert_eq!((said.len(), ended), (1, true), "{said:?}");
    let mut story = Story::new(Settings { patience: None, ..settings() });
    story.worker.handle_denied(story.now, "unknown key");
    assert!(story.did().last().is_some_and(|last| last.contains("Refused")), "one that was never taken ends at once");
}

#[test]
fn a_stop_without_a_prompt_leaves_at_once() {
    let mut story = Story::joined(settings());
    story.worker.handle_stop(story.now);
    story.does(&["LEAVE", "close", "Stopped"]);
    let mut story = Story::new(settings());
    story.worker.handle_stop(story.now);
    story.does(&["Stopped"]);
}

#[test]
fn a_stop_that_comes_while_the_command_starts_ends_it() {
    let mut story = Story::joined(settings());
    story.hears(request("r1", None));
    story.worker.handle_stop(story.now);
    story.does(&["REQUEST_ACK r1", "start r1"]);
    story.worker.handle_started(story.now, Ok(()));
    story.does(&["Terminate"]);
}

#[test]
fn a_prompt_that_takes_too_long_has_failed() {
    let mut story = Story::joined(settings());
    story.starts(Some(5 * SECOND));
    story.passes(5 * SECOND);
    story.does(&["Terminate"]);
    story.exits(0);
    story.tree(false);
    story.does(&["keep Overdue", "FAILED it took longer than 5 s"]);
}

#[test]
fn a_second_prompt_is_not_acknowledged_and_the_same_one_is_once_more() {
    let mut story = Story::running(settings());
    story.hears(request("r2", None));
    story.does(&[]);
    story.hears(request("r1", None));
    story.does(&["REQUEST_ACK r1"]);
}

#[test]
fn a_command_that_cannot_be_started_fails_no_prompt() {
    let mut story = Story::joined(settings());
    story.hears(request("r1", None));
    story.worker.handle_started(story.now, Err(StartError::Command("no such file".to_owned())));
    story.does(&["REQUEST_ACK r1", "start r1", "LEAVE", "close", "CannotRun(\"no such file\")"]);
}

#[test]
fn without_a_master_the_pauses_grow_and_patience_ends() {
    let mut story = Story::new(settings());
    let mut attempts = 0;
    let end = loop {
        story.worker.handle_unreachable(story.now, "refused");
        match story.worker.poll_effect() {
            Some(Effect::Exit(end)) => break end,
            None => story.passes(SECOND),
            other => panic!("{other:?}"),
        }
        story.does(&["Connect"]);
        attempts += 1;
    };
    assert_eq!((attempts, end), (10, End::NoMaster("refused".to_owned())));
}

#[test]
fn a_master_that_comes_back_is_joined_and_one_that_does_not_has_ended_the_work() {
    let mut story = Story::joined(settings());
    story.worker.handle_closed(story.now, "closed");
    story.does(&[]);
    story.passes(SECOND / 10);
    story.does(&["Connect"]);
    story.joins();
    story.worker.handle_closed(story.now, "closed");
    story.passes(SECOND / 10);
    story.does(&["Connect"]);
    story.passes(10 * SECOND);
    story.worker.handle_unreachable(story.now, "refused");
    story.does(&["MasterGone"]);
}

/// It may have ended with its work while this worker had no connection.
#[test]
fn a_long_search_for_the_master_says_once_how_to_end_it() {
    let mut story = Story::joined(Settings { patience: None, ..settings() });
    for _ in 0..2 {
        story.worker.handle_closed(story.now, "closed");
        story.worker.take_log();
        let end = story.now.mono + 100 * SECOND;
        while story.now.mono < end {
            story.passes(SECOND);
            story.does(&["Connect"]);
            story.worker.handle_unreachable(story.now, "refused");
        }
        let said: Vec<String> = story.worker.take_log().into_iter().map(|line| line.text).collect();
        let said: Vec<&String> = said.iter().filter(|text| text.contains("--patience")).collect();
        assert!(said.len() == 1 && said[0].contains("(refused); trying again until one does"), "{said:?}");
        story.passes(SECOND);
        story.does(&["Connect"]);
        story.joins();
    }
}

#[test]
fn a_master_that_has_completed_its_work_is_not_waited_for() {
    let mut story = Story::joined(settings());
    story.hears(FromMaster::Completed);
    story.does(&["LEAVE", "close", "Completed"]);
    let mut story = Story::running(settings());
    story.hears(FromMaster::Completed);
    story.does(&["close", "Terminate"]);
}

#[test]
fn without_patience_a_closed_connection_is_the_end_as_in_the_document() {
    let settings = Settings { patience: Some(Duration::ZERO), ..settings() };
    let mut story = Story::joined(settings.clone());
    story.worker.handle_closed(story.now, "closed");
    story.does(&["MasterGone"]);
    let mut story = Story::running(settings);
    story.worker.handle_closed(story.now, "closed");
    story.does(&["Terminate"]);
    story.exits(-15);
    story.tree(false);
    story.does(&["discard", "MasterGone"]);
}

#[test]
fn a_master_that_does_not_answer_a_join_is_tried_again() {
    let mut story = Story::new(Settings { patience: None, ..settings() });
    story.worker.handle_connected(story.now, "box-1");
    story.does(&["JOIN box-1"]);
    story.passes(10 * SECOND);
    story.does(&["close"]);
    story.passes(SECOND / 10);
    story.does(&["Connect"]);
}

#[test]
fn a_refusal_ends_the_worker_with_its_reason() {
    let mut story = Story::new(settings());
    story.worker.handle_connected(story.now, "box-1");
    story.hears(FromMaster::Refused("wrong secret".to_owned()));
    story.does(&["JOIN box-1", "close", "Refused(\"wrong secret\")"]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Events in any order: the invariants hold, no two runs overlap, and each run ends once.
    #[test]
    fn any_order_of_events_keeps_the_invariants(events in prop::collection::vec((0..13_u8, 0..40_u64), 0..200)) {
        let mut story = Story::new(settings());
        let (mut running, mut open, mut connecting, mut ended) = (false, false, true, false);
        let mut keeping = false;
        for (event, time) in events {
            match event {
                0 if connecting => { connecting = false; open = true; story.worker.handle_connected(story.now, "x"); }
                1 if connecting => { connecting = false; story.worker.handle_unreachable(story.now, "no"); }
                2 if open => { open = false; story.worker.handle_closed(story.now, "closed"); }
                3 if open => story.hears(FromMaster::JoinAck),
                4 if open => story.hears(request(if time % 2 == 0 { "a" } else { "b" }, Some(SECOND))),
                5 if open && time == 0 => story.hears(FromMaster::Completed),
                5 if open => story.hears(FromMaster::Check(RequestId::from("c"))),
                6 if running && !keeping => story.worker.handle_exited(story.now, ExitCode([0, 1, 75, -9][time as usize % 4]), None),
                7 => story.tree(time % 2 == 0),
                8 if time == 0 => story.worker.handle_stop(story.now),
                9 if keeping => {
                    (keeping, running) = (false, false);
                    story.worker.handle_results_stored(story.now, match time { 0 => Err(StoreError::Disk("full".to_owned())), 1 => Err(StoreError::Unread("gone".to_owned())), _ => Ok(()) });
                }
                _ => story.passes(Duration::from_millis(100 * time)),
            }
            story.worker.sanity_check();
            while let Some(effect) = story.worker.poll_effect() {
                prop_assert!(!ended, "{effect:?} after the end");
                match effect {
                    Effect::Connect => { prop_assert!(!open && !connecting && !running); connecting = true; }
                    Effect::Send(_) => prop_assert!(open),
                    Effect::Close => open = false,
                    Effect::Start(_) => {
                        prop_assert!(!running);
                        running = true;
                        story.worker.handle_started(story.now, Ok(()));
                    }
                    Effect::StoreResults(_) => { prop_assert!(running && !keeping); keeping = true; }
                    Effect::SendResults(..) | Effect::Tail(_) => unreachable!("no master takes results"),
                    Effect::Discard => { prop_assert!(running && !keeping); running = false; }
                    Effect::Signal(_) | Effect::CheckTree => prop_assert!(running && !keeping),
                    Effect::Exit(_) => { prop_assert!(!running); ended = true; }
                }
            }
            if ended { break; }
        }
    }
}

/// Lease scenarios: a master of ours.
mod leased;
