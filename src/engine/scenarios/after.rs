//! Tasks that wait for other tasks and for jobs.

use super::*;
use api::wire::requests::job::JOB_RETRY;

fn after(terms: impl Into<String>) -> Fields {
    Fields::new().with(words::AFTER, terms.into())
}

fn waits(what: &str) -> String {
    format!("it waits for {what} ({})", words::AFTER)
}

fn of_job(name: &str) -> Fields {
    Fields::new().with(words::JOB, name)
}

#[test]
fn a_task_starts_when_all_its_terms_are_met() {
    let mut world = World::new();
    let [one, two] = [world.task(), world.task()];
    let last = world.submitted(&after(format!("{one},any:{two}")));
    world.runs("a", one, Round(0));
    world.runs("b", two, Round(0));
    assert_eq!(world.apply("c"), None, "it waits");
    assert_eq!(world.why(last), waits(&format!("task {one} to succeed and for one more term")));
    world.ends("a", one, Round(0), result(0));
    assert_eq!(world.apply("c"), None);
    world.restart();
    world.beat("b", Some((two, Round(0))));
    assert_eq!(world.why(last), waits(&format!("task {two} to finish")));
    world.ends("b", two, Round(0), result(7));
    world.exits("a", last, 1, 0);
    assert_eq!(world.outcome(last), Outcome::Succeeded);
}

#[test]
fn a_term_that_is_met_already_holds_nothing_up() {
    let mut world = World::new();
    let done = world.task();
    world.exits("a", done, 0, 0);
    let next = world.submitted(&after(format!("{done},{done}")));
    assert_eq!(world.apply("a"), Some((next, Round(0))));
    let skipped = world.submitted(&after(format!("failed:{done}")));
    assert_eq!(world.outcome(skipped), Outcome::Skipped);
    let reason = text(&world.told(TASK_QUERY, skipped), words::REASON);
    let term = format!("the term failed:{done} of {} cannot be met", words::AFTER);
    assert_eq!(reason, format!("{term}: task {done} ended as SUCCEEDED"));
    assert_eq!(refused(&world.submit(&after("TASK_1480000000.120000_AZazA"))), Code::InvalidTaskId);
    assert_eq!(refused(&world.submit(&after("job:none"))), Code::InvalidTaskId);
}

/// A loop instead of recursion, and a slice for each turn.
#[test]
fn a_failure_skips_the_whole_chain_behind_it() {
    const LENGTH: usize = 300;
    let mut world = World::with(|settings| {
        settings.waiting_max = LENGTH + 2;
        settings.keep_bytes_max = 100_000_000;
    });
    let first = world.task();
    let mut last = first;
    for _ in 0..LENGTH {
        last = world.submitted(&after(last.to_string()));
    }
    let hopeful = world.submitted(&after(format!("any:{last}")));
    world.exits("a", first, 0, 1);
    assert_eq!(world.phase(last), Phase::Waiting, "not all in one turn");
    world.pass(seconds(1.0));
    assert_eq!(world.outcome(last), Outcome::Skipped);
    assert_eq!(world.apply("a"), Some((hopeful, Round(0))), "a skipped task has finished");
}

#[test]
fn each_end_of_a_task_meets_its_own_terms() {
    for (exit_code, killed, success, failure) in
        [(0, false, true, false), (3, false, false, true), (0, true, false, true)]
    {
        let mut world = World::new();
        let task = world.task();
        let waiting = ["", "failed:", "any:"].map(|prefix| world.submitted(&after(format!("{prefix}{task}"))));
        if killed {
            world.kill(task);
        } else {
            world.exits("a", task, 0, exit_code);
        }
        let starts = waiting.map(|task| world.phase(task) == Phase::Waiting);
        assert_eq!(starts, [success, failure, true], "exit code {exit_code}, killed {killed}");
    }
}

#[test]
fn only_the_last_round_counts() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    let next = world.submitted(&after(format!("failed:{task}")));
    world.exits("a", task, 0, 1);
    assert_eq!(world.apply("a"), Some((task, Round(1))));
    assert_eq!(world.phase(next), Phase::Waiting);
    world.report("a", task, Round(1), Phase::Running);
    world.ends("a", task, Round(1), result(1));
    assert_eq!(world.apply("a"), Some((next, Round(0))));
}

#[test]
fn a_term_about_a_job_means_the_tasks_before_it() {
    let mut world = World::new();
    let tasks = [world.submitted(&of_job("j")), world.submitted(&of_job("j"))];
    let next = world.submitted(&after("job:j").with(words::JOB, "j"));
    let later = world.submitted(&of_job("j"));
    world.runs("a", tasks[0], Round(0));
    world.exits("b", tasks[1], 0, 0);
    assert_eq!(world.why(next), waits("every older task of job j to succeed"));
    world.ends("a", tasks[0], Round(0), result(0));
    assert_eq!(world.apply("a"), Some((next, Round(0))), "the later one is not meant");
    assert_eq!(world.apply("b"), Some((later, Round(0))));
}

#[test]
fn terms_about_jobs_are_decided_as_early_as_possible() {
    let mut world = World::new();
    let tasks: Vec<_> = (0..3).map(|_| world.submitted(&of_job("j"))).collect();
    let [success, end, failure] = ["job:j", "any:job:j", "failed:job:j"].map(|term| world.submitted(&after(term)));
    world.exits("a", tasks[0], 0, 0);
    world.runs("b", tasks[1], Round(0));
    world.runs("c", tasks[2], Round(0));
    world.ends("b", tasks[1], Round(0), result(1));
    assert_eq!(world.outcome(success), Outcome::Skipped, "one has failed");
    assert_eq!(world.apply("a"), Some((failure, Round(0))), "at once");
    assert_eq!(world.apply("b"), None);
    world.ends("c", tasks[2], Round(0), result(0));
    assert_eq!(world.apply("b"), Some((end, Round(0))));

    let fine = world.submitted(&of_job("k"));
    let never = world.submitted(&after("failed:job:k"));
    world.exits("c", fine, 0, 0);
    assert_eq!(world.outcome(never), Outcome::Skipped);
}

#[test]
fn a_skipped_task_that_is_retried_looks_at_its_terms_anew() {
    let mut world = World::new();
    let first = world.submitted(&of_job("j"));
    let chain: Vec<_> = (0..2).fold(vec![first], |mut chain, _| {
        let last = chain[chain.len() - 1];
        chain.push(world.submitted(&after(last.to_string()).with(words::JOB, "j")));
        chain
    });
    world.exits("a", first, 0, 1);
    assert_eq!(world.outcome(chain[2]), Outcome::Skipped);
    world.do_to(TASK_RETRY, chain[1]);
    assert_eq!(world.outcome(chain[1]), Outcome::Skipped, "its term still cannot be met");

    assert!(matches!(world.send(JOB_RETRY, &of_job("j")), Reply::Concerned { count: 3, warning: None }));
    let order: Vec<_> = (0..3)
        .map(|_| {
            let (task, round) = world.apply("a").unwrap();
            world.report("a", task, round, Phase::Running);
            world.ends("a", task, round, result(0));
            task
        })
        .collect();
    assert_eq!(order, chain);
}

#[test]
fn other_fields_hold_while_a_task_waits_for_a_term() {
    let mut world = World::new();
    let first = world.task();
    let end = world.moment(10.0);
    let expiring = world.submitted(&after(first.to_string()).with(words::END_BEFORE, end));
    let behind = world.submitted(&after(format!("failed:{expiring}")));
    let killed = world.submitted(&after(first.to_string()));
    let start = world.moment(20.0);
    let delayed = world.submitted(&after(first.to_string()).with(words::START_AFTER, start));
    world.kill(killed);
    assert_eq!(world.outcome(killed), Outcome::Killed);
    world.do_to(TASK_RETRY, killed);
    assert_eq!(world.why(killed), waits(&format!("task {first} to succeed")));
    world.do_to(TASK_HOLD, killed);
    world.pass(seconds(11.0));
    assert_eq!(world.outcome(expiring), Outcome::Expired);
    assert_eq!(world.apply("a"), Some((first, Round(0))));
    world.report("a", first, Round(0), Phase::Running);
    world.ends("a", first, Round(0), result(0));
    world.exits("a", behind, 0, 0);
    assert_eq!(world.apply("b"), None, "the others are held and delayed");
    world.do_to(TASK_RELEASE, killed);
    world.exits("b", killed, 1, 0);
    world.pass(seconds(10.0));
    assert_eq!(world.apply("c"), Some((delayed, Round(0))));
}

/// A finished task may be forgotten while another one still waits for more than that.
#[test]
fn a_met_term_stays_met_when_its_task_is_forgotten() {
    let mut world = World::with(|settings| settings.keep = seconds(10.0));
    let [one, two] = [world.task(), world.task()];
    let next = world.submitted(&after(format!("{one},{two}")));
    world.exits("a", one, 0, 0);
    world.pass_with(seconds(60.0), &[]);
    assert!(!world.stored.contains_key(&one), "it is forgotten");
    world.restart();
    assert_eq!(world.why(next), waits(&format!("task {two} to succeed")));
    world.exits("a", two, 1, 0);
    assert_eq!(world.apply("a"), Some((next, Round(1))));
}

/// The record of a task contains its terms: storing it with each of them would cost their square.
#[test]
fn a_met_term_is_not_stored_by_itself() {
    let mut world = World::new();
    let all: Vec<TaskId> = (0..9).map(|_| world.task()).collect();
    let terms: Vec<_> = all.iter().map(ToString::to_string).collect();
    let next = world.submitted(&after(terms.join(",")));
    let (last, others) = all.split_last().unwrap();
    for task in others {
        world.exits("a", *task, 0, 0);
    }
    assert_eq!(world.stored[&next].unmet.len(), all.len(), "nothing was stored since the submit");
    world.restart();
    assert_eq!(world.why(next), waits(&format!("task {last} to succeed")));
    world.exits("a", *last, 1, 0);
    world.exits("a", next, 1, 0);
    assert_eq!(world.outcome(next), Outcome::Succeeded);
}

/// The end that a task has waited for must not be lost while the task runs.
#[test]
fn a_task_that_has_waited_is_handed_out_after_the_commit() {
    let mut world = World::new();
    let first = world.task();
    world.submitted(&after(first.to_string()));
    world.runs("a", first, Round(0));
    world.park("b");
    world.ends("a", first, Round(0), result(0));
    let (_, reply) = world.replies.pop().unwrap();
    assert!(matches!(reply, Reply::Assigned(_, _)));
    assert_eq!(claim_of_reply(&reply), Claim::Promise);
}

/// The end by time comes while tasks are handed out, and starts another one in the same turn.
#[test]
fn an_expired_task_makes_way_at_once() {
    let mut world = World::new();
    let blocker = world.task();
    let end = world.moment(5.0);
    let expiring = world.submitted(&after(blocker.to_string()).with(words::END_BEFORE, end));
    let next = world.submitted(&after(format!("any:{expiring}")));
    world.runs("a", blocker, Round(0));
    world.park("b");
    world.pass(seconds(2.0));
    world.beat("a", Some((blocker, Round(0))));
    world.park("b");
    world.pass(seconds(4.0));
    assert_eq!(world.outcome(expiring), Outcome::Expired);
    assert_eq!(world.phase(next), Phase::Dispatched);
}
