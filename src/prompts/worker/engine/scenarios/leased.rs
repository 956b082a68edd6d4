//! Scenarios with a master that keeps the prompt of a worker without a connection.

use super::*;

fn welcome(run: Option<&str>) -> FromMaster {
    FromMaster::Welcome(Box::new(Welcome {
        lease: 100 * SECOND,
        run: run.map(RequestId::from),
        result_bytes_max: 1000,
        root: "root".to_owned(),
    }))
}

/// A worker that patiently runs its command for such a master.
fn running() -> Story {
    let mut story = Story::new(Settings { patience: None, ..settings() });
    story.worker.handle_connected(story.now, "box-1");
    story.does(&["JOIN box-1"]);
    story.hears(welcome(None));
    story.starts(None);
    story
}

/// The connection is lost, and made again after a time.
fn reconnects(story: &mut Story, after: Duration, run: Option<&str>) {
    story.worker.handle_closed(story.now, "reset");
    story.passes(after);
    story.does(&["Connect"]);
    story.worker.handle_connected(story.now, "box-2");
    story.does(&["JOIN box-2"]);
    story.hears(welcome(run));
}

fn ends(story: &mut Story, exit: i32) {
    story.exits(exit);
    story.tree(false);
}

/// The results are stored, if there are any, and sent; a report without results is left to be looked at.
fn sends(story: &mut Story) {
    let did = story.did();
    if did.last().is_some_and(|last| last.starts_with("send results")) {
        story.worker.handle_results_sent(story.now, &"r1".into(), Ok(()));
    } else {
        story.said = did;
    }
}

#[test]
fn a_run_goes_on_without_a_connection_and_is_reported_on_the_next() {
    let mut story = running();
    reconnects(&mut story, 64 * SECOND, Some("r1"));
    story.does(&[]);
    ends(&mut story, 0);
    story.does(&["keep Done", "send results of r1"]);
    story.worker.handle_results_sent(story.now, &"r1".into(), Ok(()));
    story.does(&["DONE r1.txt"]);
    assert_eq!(story.worker.tally(), Tally::default(), "the master has not acknowledged it");
    story.hears(FromMaster::ReportAck("r1".into()));
    assert_eq!(story.worker.tally(), Tally { all: 1, failed: 0 });
}

#[test]
fn a_run_that_ends_without_a_connection_is_reported_on_the_next() {
    let mut story = running();
    story.worker.handle_closed(story.now, "reset");
    ends(&mut story, 3);
    story.does(&["keep Failed"]);
    story.passes(SECOND);
    story.does(&["Connect"]);
    story.worker.handle_connected(story.now, "box-2");
    story.hears(welcome(Some("r1")));
    story.does(&["JOIN box-2", "send results of r1"]);
    story.worker.handle_results_sent(story.now, &"r1".into(), Ok(()));
    story.does(&["FAILED exit code 3"]);
}

#[test]
fn a_report_that_is_not_acknowledged_is_sent_again() {
    let mut story = running();
    ends(&mut story, 0);
    sends(&mut story);
    story.does(&["DONE r1.txt"]);
    reconnects(&mut story, SECOND, Some("r1"));
    sends(&mut story);
    story.does(&["DONE r1.txt"]);
    // The master has carried it out, and was killed before it could say so.
    reconnects(&mut story, SECOND, None);
    story.does(&[]);
    story.starts(None);
}

#[test]
fn results_that_were_not_sent_before_the_connection_broke_are_sent_again() {
    let mut story = running();
    ends(&mut story, 0);
    story.does(&["keep Done", "send results of r1"]);
    reconnects(&mut story, SECOND, Some("r1"));
    story.does(&["send results of r1"]);
}

#[test]
fn a_run_that_is_not_wanted_any_more_is_ended_before_the_worker_joins() {
    let mut story = running();
    reconnects(&mut story, SECOND, None);
    story.does(&["Terminate", "close"]);
    story.passes(SECOND);
    story.does(&[]);
    ends(&mut story, -15);
    story.does(&["discard", "Connect"]);
}

#[test]
fn the_run_ends_with_the_lease_which_counts_from_the_last_message() {
    let mut story = running();
    story.passes(30 * SECOND);
    story.worker.handle_closed(story.now, "time-out");
    story.passes(69 * SECOND);
    story.does(&["Connect"]);
    story.passes(SECOND);
    story.does(&["Terminate"]);
    story.worker.handle_unreachable(story.now, "no route");
    ends(&mut story, -15);
    story.does(&["discard", "Connect"]);
    assert_eq!(story.worker.tally(), Tally::default());
}

#[test]
fn a_run_that_was_given_up_while_the_worker_joined_is_not_resumed() {
    let mut story = running();
    story.worker.handle_closed(story.now, "time-out");
    story.passes(99 * SECOND);
    story.worker.handle_connected(story.now, "box-2");
    story.does(&["Connect", "JOIN box-2"]);
    story.passes(SECOND);
    story.does(&["Terminate"]);
    story.hears(welcome(Some("r1")));
    story.does(&["close"]);
    ends(&mut story, -15);
    story.does(&["discard", "Connect"]);
}

#[test]
fn an_original_that_has_taken_the_place_of_the_master_does_not_know_the_run() {
    let mut story = running();
    story.worker.handle_closed(story.now, "closed");
    story.passes(SECOND);
    story.worker.handle_connected(story.now, "box-2");
    story.hears(FromMaster::JoinAck);
    story.does(&["Connect", "JOIN box-2", "Terminate", "close"]);
}

#[test]
fn a_limit_is_told_on_the_next_connection_as_well() {
    let mut story = running();
    story.worker.handle_closed(story.now, "reset");
    let text = "usage limit reached".to_owned();
    let sign = Sign::Limited { retry_after: Some(50 * SECOND), text };
    story.worker.handle_exited(story.now, ExitCode(1), Some(sign));
    story.tree(false);
    story.passes(SECOND);
    story.does(&["look at the tree", "discard", "Connect"]);
    story.worker.handle_connected(story.now, "box-2");
    story.hears(welcome(Some("r1")));
    story.does(&["JOIN box-2", "USAGE_LIMITED Some(50s)"]);
}

#[test]
fn a_stop_ends_a_run_without_a_connection() {
    let mut story = running();
    story.worker.handle_closed(story.now, "reset");
    story.worker.handle_stop(story.now);
    story.does(&["Terminate"]);
    ends(&mut story, -15);
    story.does(&["discard", "Stopped"]);
    let mut story = running();
    story.worker.handle_closed(story.now, "reset");
    ends(&mut story, 0);
    story.worker.handle_stop(story.now);
    story.does(&["keep Done", "Stopped"]);
}

#[test]
fn a_stop_waits_for_the_acknowledgement_of_a_report() {
    let mut story = running();
    ends(&mut story, 0);
    sends(&mut story);
    story.does(&["DONE r1.txt"]);
    story.worker.handle_stop(story.now);
    story.does(&[]);
    story.hears(FromMaster::ReportAck("r1".into()));
    story.does(&["LEAVE", "close", "Stopped"]);
}

#[test]
fn quick_failures_in_a_row_pause_the_worker_and_every_other_one_still_counts() {
    let mut story = running();
    let mut reports = Vec::new();
    for number in 0..7 {
        if number > 0 {
            story.hears(request("r1", None));
            story.worker.handle_started(story.now, Ok(()));
            story.did();
        }
        ends(&mut story, 1);
        sends(&mut story);
        reports.push(story.did().pop().or_else(|| story.said.pop()).unwrap());
        story.hears(FromMaster::ReportAck("r1".into()));
    }
    let failed = "FAILED exit code 1";
    let [first, second, third] = [60, 120, 240].map(|pause| format!("USAGE_LIMITED Some({pause}s) here"));
    assert_eq!(reports, [failed, failed, &first, failed, &second, failed, &third]);
    // A success, or a failure that takes its time, is another reason.
    story.hears(request("r1", None));
    story.worker.handle_started(story.now, Ok(()));
    story.did();
    ends(&mut story, 0);
    sends(&mut story);
    story.hears(FromMaster::ReportAck("r1".into()));
    story.did();
    story.starts(None);
    ends(&mut story, 1);
    sends(&mut story);
    story.does(&[failed]);
}

#[test]
fn an_expired_login_pauses_the_worker_at_once() {
    let mut story = running();
    let sign = Sign::Trouble("Please run /login".to_owned());
    story.worker.handle_exited(story.now, ExitCode(1), Some(sign));
    story.tree(false);
    story.does(&["look at the tree", "discard", "USAGE_LIMITED Some(60s) here"]);
}

#[test]
fn a_full_disk_at_the_start_of_a_run_pauses_the_worker() {
    let mut story = Story::joined(settings());
    story.hears(request("r1", None));
    story.worker.handle_started(story.now, Err(StartError::Disk("no space left".to_owned())));
    story.does(&["REQUEST_ACK r1", "start r1", "USAGE_LIMITED Some(60s) here"]);
}

#[test]
fn a_command_that_was_killed_from_outside_is_no_verdict_on_its_prompt() {
    let memory = Some(Sign::OutOfMemory);
    for (exit, sign, said) in [
        (-9, None, "the command was killed from outside: ended by signal 9"),
        (-15, None, "the command was killed from outside: ended by signal 15"),
        (137, memory, "the kernel has killed a process for want of memory: exit code 137"),
    ] {
        let mut story = running();
        story.worker.handle_exited(story.now, ExitCode(exit), sign);
        story.tree(false);
        story.does(&["look at the tree", "discard", &format!("FAILED {said} (lost)")]);
        story.hears(FromMaster::ReportAck("r1".into()));
        assert_eq!(story.worker.tally(), Tally::default());
    }
}

#[test]
fn a_command_that_exits_as_if_it_was_killed_has_failed() {
    for exit in [137, 143] {
        let mut story = running();
        ends(&mut story, exit);
        story.did();
        story.worker.handle_results_sent(story.now, &"r1".into(), Ok(()));
        story.does(&[&format!("FAILED exit code {exit}")]);
    }
}

#[test]
fn a_run_whose_answer_cannot_be_read_is_lost_and_a_second_one_makes_the_worker_pause() {
    for is_stored in [false, true] {
        let mut story = running();
        story.keeps = is_stored;
        let unread = |story: &mut Story| {
            let reason = "out is gone".to_owned();
            if is_stored {
                story.worker.handle_results_sent(story.now, &"r1".into(), Err(reason));
            } else {
                story.worker.handle_results_stored(story.now, Err(StoreError::Unread(reason)));
            }
        };
        let again = |story: &mut Story| {
            story.hears(FromMaster::ReportAck("r1".into()));
            story.did();
            story.starts(None);
            ends(story, 0);
            story.did();
        };
        ends(&mut story, 0);
        story.did();
        unread(&mut story);
        story.does(&["FAILED out is gone (lost)"]);
        again(&mut story);
        unread(&mut story);
        story.does(&["USAGE_LIMITED Some(60s) here"]);
        again(&mut story);
        if !is_stored {
            story.worker.handle_results_stored(story.now, Ok(()));
            story.does(&["send results of r1"]);
        }
        story.worker.handle_results_sent(story.now, &"r1".into(), Ok(()));
        story.does(&["DONE r1.txt"]);
        // One that could be read ends the row.
        again(&mut story);
        unread(&mut story);
        story.does(&["FAILED out is gone (lost)"]);
    }
}

#[test]
fn a_run_that_took_too_long_has_failed_even_if_its_output_cannot_be_read() {
    let mut story = running();
    story.keeps = false;
    story.hears(FromMaster::ReportAck("r1".into()));
    ends(&mut story, 0);
    story.worker.handle_results_stored(story.now, Ok(()));
    story.worker.handle_results_sent(story.now, &"r1".into(), Ok(()));
    story.hears(FromMaster::ReportAck("r1".into()));
    story.did();
    story.starts(Some(SECOND));
    story.passes(SECOND);
    story.did();
    ends(&mut story, -15);
    story.does(&["keep Overdue"]);
    story.worker.handle_results_stored(story.now, Err(StoreError::Unread("out is gone".to_owned())));
    story.does(&["FAILED it took longer than 1 s"]);
}
