//! Jobs: counts, orders about all tasks, stops, and published states.

use super::*;
use crate::tasks::withdrawal::Abandoned;
use api::wire::requests::job::{JOB_DETAILS, JOB_HOLD, JOB_KILL, JOB_QUERY, JOB_RELEASE, JOB_RETRY};
use base::JobView;

fn of_job(name: &str) -> Fields {
    Fields::new().with(words::JOB, name)
}

impl World {
    fn job(&mut self, name: &str) -> JobView {
        match self.send(JOB_QUERY, &of_job(name)) {
            Reply::Job(view) => *view,
            other => panic!("{other:?}"),
        }
    }

    /// The counts that are not zero, by the words of the wire.
    fn job_counts(&mut self, name: &str) -> String {
        let view = self.job(name);
        let phases = Phase::ALL.into_iter().map(words::phase).zip(view.phases);
        let outcomes = Outcome::ALL.into_iter().map(words::outcome).zip(view.outcomes);
        let shown = phases.chain(outcomes).filter(|(_, count)| *count > 0);
        shown.map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
    }

    fn order(&mut self, kind: Kind, name: &str) -> usize {
        match self.send(kind, &of_job(name)) {
            Reply::Concerned { count, warning: None } => count,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_job_is_counted_with_every_change_of_its_tasks() {
    let mut world = World::new();
    let first = world.submitted(&of_job("j"));
    let second = world.submitted(&of_job("j"));
    world.submitted(&of_job("other"));
    assert_eq!(world.job_counts("j"), "WAITING 2");
    world.runs("a", first, Round(0));
    assert_eq!(world.job_counts("j"), "WAITING 1, RUNNING 1");
    world.pass(seconds(2.0));
    world.ends("a", first, Round(0), result(0));
    assert_eq!(world.job("j").ended_at, None, "a task waits");
    world.exits("a", second, 0, 7);
    assert_eq!(world.job_counts("j"), "FINISHED 2, SUCCEEDED 1, FAILED 1");
    let view = world.job("j");
    assert_eq!((view.ended_at, view.total()), (Some(world.now.wall), 2));
    assert!(view.run_times.unwrap().max.abs_diff(seconds(2.0)) < seconds(0.1), "{:?}", view.run_times);
    world.restart();
    assert_eq!(world.job("j"), view, "counted again from the tasks");
    world.do_to(TASK_RETRY, second);
    assert_eq!(world.job_counts("j"), "WAITING 1, FINISHED 1, SUCCEEDED 1");
    assert_eq!(world.job("j").ended_at, None);
}

#[test]
fn a_job_exists_as_long_as_a_task_of_it_is_known() {
    let mut world = World::with(|settings| settings.keep = seconds(10.0));
    assert_eq!(refused(&world.send(JOB_QUERY, &of_job("j"))), Code::InvalidTaskId);
    let task = world.submitted(&of_job("j"));
    world.kill(task);
    world.pass(seconds(60.0));
    assert_eq!(refused(&world.send(JOB_KILL, &of_job("j"))), Code::InvalidTaskId);
    assert!(world.memos.is_empty(), "nothing of it is left in the store");
}

#[test]
fn jobs_are_listed_newest_first() {
    let mut world = World::new();
    for name in ["b", "a", "c", "a"] {
        world.submitted(&of_job(name));
    }
    let Reply::Jobs { jobs, page } = world.send(JOB_DETAILS, &Fields::new().with(words::LIMIT, 2u32)) else { panic!() };
    let shown: Vec<_> = jobs.iter().map(|view| (view.name.as_str(), view.total())).collect();
    assert_eq!((shown, page.total), (vec![("c", 1), ("a", 2)], 3));
    let Reply::Jobs { jobs, .. } = world.send(JOB_DETAILS, &Fields::new().with(words::OFFSET, 2u32)) else { panic!() };
    assert_eq!(jobs.len(), 1);
}

#[test]
fn a_query_waits_for_the_end_of_the_job() {
    let mut world = World::new();
    let tasks = [world.submitted(&of_job("j")), world.submitted(&of_job("j"))];
    let name = JobName::new("j").unwrap();
    let (ticket, answer) = world.ask_later(Request::JobQuery(name.clone(), Some(seconds(60.0))));
    assert_eq!(answer, Answer::Later);
    world.exits("a", tasks[0], 0, 0);
    assert!(world.replies.is_empty());
    world.exits("a", tasks[1], 0, 0);
    let (answered, Reply::Job(view)) = world.replies.pop().unwrap() else { panic!() };
    assert_eq!((answered, view.ended_at), (ticket, Some(world.now.wall)));

    world.submitted(&of_job("j"));
    let (ticket, _) = world.ask_later(Request::JobQuery(name, Some(seconds(1.0))));
    world.pass(seconds(2.0));
    let (answered, Reply::Job(view)) = world.replies.pop().unwrap() else { panic!() };
    assert_eq!((answered, view.ended_at), (ticket, None), "the job as it is");
}

#[test]
fn an_order_concerns_the_tasks_that_are_there() {
    let mut world = World::new();
    let tasks: Vec<_> = (0..4).map(|_| world.submitted(&of_job("j"))).collect();
    world.exits("a", tasks[0], 0, 0);
    world.runs("a", tasks[1], Round(0));
    assert_eq!(world.order(JOB_HOLD, "j"), 3);
    assert_eq!(world.order(JOB_HOLD, "j"), 0, "they are held already");
    let later = world.submitted(&of_job("j"));
    assert_eq!(world.apply("b"), Some((later, Round(0))), "a task that came later is not held");
    assert_eq!(world.order(JOB_RELEASE, "j"), 3);
    assert_eq!(world.order(JOB_KILL, "j"), 4, "all that had not finished");
    assert_eq!(world.outcome(tasks[2]), Outcome::Killed);
    assert_eq!(world.phase(tasks[1]), Phase::Running, "its agent ends it");
    world.ends("a", tasks[1], Round(0), result(-15));
    assert_eq!(world.order(JOB_RETRY, "j"), 0, "a killed task has not failed");
}

#[test]
fn an_order_about_many_tasks_leaves_room_for_others() {
    let mut world = World::with(|settings| settings.waiting_max = 5000);
    for _ in 0..400 {
        world.submitted(&of_job("j"));
    }
    let name = JobName::new("j").unwrap();
    let order = api::wire::requests::job::JobOrder::Kill(None);
    let (ticket, answer) = world.ask_by(1, Request::JobOrder(name, order));
    assert_eq!(answer, Answer::Later);
    let killed = world.job("j").outcomes[Outcome::Killed as usize];
    assert!((1..300).contains(&killed), "{killed} of them in one turn");
    // It is carried out although no client waits for the answer.
    assert_eq!(world.controller.handle_disconnected(ticket.connection), [ticket]);
    world.pass(seconds(1.0));
    assert_eq!(world.job_counts("j"), "FINISHED 400, KILLED 400");
}

#[test]
fn a_job_stops_when_too_many_of_its_tasks_have_failed() {
    let mut world = World::new();
    let limited = of_job("j").with(words::JOB_MAX_FAILS, 2u32);
    let tasks: Vec<_> = (0..6).map(|_| world.submitted(&limited)).collect();
    world.controller.handle_committed(world.now, tasks.last().copied());
    world.runs("b", tasks[0], Round(0));
    world.exits("a", tasks[1], 0, 1);
    world.exits("a", tasks[2], 0, 0);
    assert_eq!(world.job("j").stopped, None);
    world.exits("a", tasks[3], 0, 1);
    assert_eq!(world.job_counts("j"), "RUNNING 1, FINISHED 5, SUCCEEDED 1, FAILED 2, SKIPPED 2");
    let skipped = world.told(TASK_QUERY, tasks[5]);
    assert_eq!(text(&skipped, words::REASON), "the job was stopped by its 2 failed tasks");
    assert_eq!(skipped.get(words::EXIT_CODE), None);
    assert_eq!(refused(&world.submit(&of_job("j"))), Code::NotAllowed);
    assert_eq!(refused(&world.do_to(TASK_RETRY, tasks[1])), Code::NotAllowed);
    world.restart();
    assert_eq!(refused(&world.submit(&of_job("j"))), Code::NotAllowed, "it stays stopped");

    assert_eq!(world.order(JOB_RETRY, "j"), 4);
    world.pass(seconds(1.0));
    assert_eq!(world.job_counts("j"), "WAITING 4, RUNNING 1, FINISHED 1, SUCCEEDED 1");
    world.exits("a", tasks[1], 1, 1);
    assert_eq!(world.job("j").stopped, None, "failures are counted anew");
    world.submitted(&of_job("j"));
    world.exits("a", tasks[3], 1, 1);
    assert!(world.job("j").stopped.is_some());
}

#[test]
fn the_next_round_of_a_task_of_a_stopped_job_does_not_start() {
    let mut world = World::new();
    let task = world.submitted(&of_job("j").with(words::MAX_FAILS, 5u32));
    let other = world.submitted(&of_job("j").with(words::JOB_MAX_FAILS, 1u32));
    world.controller.handle_committed(world.now, Some(other));
    world.runs("a", task, Round(0));
    world.exits("b", other, 0, 1);
    assert_eq!(world.phase(task), Phase::Running, "what runs goes on");
    world.ends("a", task, Round(0), result(1));
    assert_eq!(world.outcome(task), Outcome::Skipped);
}

#[test]
fn states_are_published_at_a_pace_and_the_last_one_always() {
    let mut world = World::new();
    let tasks: Vec<_> = (0..20).map(|_| world.submitted(&of_job("j"))).collect();
    assert_eq!(world.statuses.len(), 1, "the first one at once");
    for task in &tasks {
        world.exits("a", *task, 0, 0);
        world.pass(seconds(0.01));
    }
    assert!(world.statuses.len() <= 4, "{} in 0.2 s", world.statuses.len());
    world.pass(seconds(1.0));
    let last = world.statuses.last().unwrap();
    assert_eq!((last.view.phases[Phase::Finished as usize], last.view.ended_at.is_some()), (20, true));
    let numbers: Vec<_> = world.statuses.iter().map(|status| status.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let count = world.statuses.len();
    world.pass(seconds(10.0));
    assert_eq!(world.statuses.len(), count, "nothing changes");

    world.restart();
    world.pass(seconds(1.0));
    let after = world.statuses.last().unwrap().seq;
    assert!(after > *numbers.last().unwrap(), "no number stands for two states");
}

#[test]
fn each_address_of_a_job_is_a_receiver_once() {
    let mut world = World::new();
    let to = |port: u32| of_job("j").with(words::ADDRESS, format!("tcp://127.0.0.1:{port}"));
    for port in [1, 1, 2, 3] {
        world.submitted(&to(port).with(words::JOB_PUSH, port < 3));
    }
    world.pass(seconds(1.0));
    assert_eq!(world.statuses.last().unwrap().receivers.len(), 2);
    for port in [4, 5] {
        world.submitted(&to(port).with(words::JOB_PUSH, true));
    }
    assert_eq!(refused(&world.submit(&to(6).with(words::JOB_PUSH, true))), Code::LimitReached);
    world.submitted(&to(5).with(words::JOB_PUSH, true));
}

#[test]
fn the_tasks_of_a_job_are_found_by_its_name() {
    let mut world = World::new();
    let tasks: Vec<_> = ["a", "b", "a"].into_iter().map(|name| world.submitted(&of_job(name))).collect();
    world.kill(tasks[0]);
    let Reply::Tasks { records, page } = world.send(TASK_DETAILS, &of_job("a")) else { panic!() };
    assert_eq!(records.iter().map(|record| record.id).collect::<Vec<_>>(), [tasks[2], tasks[0]]);
    assert_eq!(page.total, 2);
    let killed = of_job("a").with(words::OUTCOME, "KILLED");
    let Reply::Tasks { page, .. } = world.send(TASK_DETAILS, &killed) else { panic!() };
    assert_eq!(page.total, 1);
    let Reply::Tasks { page, .. } = world.send(TASK_DETAILS, &of_job("none")) else { panic!() };
    assert_eq!(page.total, 0);
}

/// The assignment waited for the store, and found no peer afterwards.
#[test]
fn a_task_that_comes_back_to_a_stopped_job_is_skipped() {
    let mut world = World::new();
    let failing = world.submitted(&of_job("j").with(words::JOB_MAX_FAILS, 1u32));
    let other = world.submitted(&of_job("j"));
    world.controller.handle_committed(world.now, Some(other));
    world.runs("a", failing, Round(0));
    assert_eq!(world.apply("b"), Some((other, Round(0))));
    world.ends("a", failing, Round(0), result(7));
    assert_eq!(world.phase(other), Phase::Dispatched, "what an agent has goes on");
    world.controller.handle_undelivered(world.now, other, Round(0));
    world.settle();
    assert_eq!(world.outcome(other), Outcome::Skipped);
}

/// A refused submit leaves no trace in its job, in whatever order several of them are withdrawn.
#[test]
fn the_limit_of_a_refused_submit_is_that_of_before() {
    for order in [[0, 1], [1, 0]] {
        let mut world = World::new();
        let limited = |max: u32| of_job("j").with(words::JOB_MAX_FAILS, max);
        let failing = world.submitted(&limited(2));
        world.controller.handle_committed(world.now, Some(failing));
        let refused = [3, 1].map(|max| world.submitted(&limited(max)));
        for index in order {
            assert!(world.controller.handle_unstored(world.now, refused[index], false));
        }
        world.controller.handle_withdrawn(world.now);
        world.settle();
        let [second, waiting] = [(); 2].map(|()| world.submitted(&of_job("j")));
        world.exits("a", failing, 0, 7);
        assert_eq!(world.job("j").stopped, None, "one of two may fail");
        world.exits("a", second, 0, 7);
        assert_eq!(world.outcome(waiting), Outcome::Skipped, "the limit of the stored submit holds");
    }
}

/// The end of the waiting tasks could not be taken back with the submit that asked for it.
#[test]
fn a_job_stops_at_a_limit_when_the_submit_with_the_limit_is_stored() {
    for is_stored in [false, true] {
        let mut world = World::new();
        let failing = [(); 2].map(|()| world.submitted(&of_job("j")));
        let waiting = world.submitted(&of_job("j"));
        world.exits("a", failing[0], 0, 7);
        world.controller.handle_committed(world.now, Some(waiting));
        let limited = world.submitted(&of_job("j").with(words::JOB_MAX_FAILS, 1u32).with(words::PRIORITY, -1));
        world.exits("a", failing[1], 0, 7);
        assert_eq!((world.job("j").stopped, world.phase(waiting)), (None, Phase::Waiting), "the limit may be refused");
        if is_stored {
            world.controller.handle_committed(world.now, Some(limited));
        } else {
            assert!(world.controller.handle_unstored(world.now, limited, false));
            world.controller.handle_withdrawn(world.now);
        }
        world.settle();
        assert_eq!(world.job("j").stopped.is_some(), is_stored);
        let phase = if is_stored { Phase::Finished } else { Phase::Waiting };
        assert_eq!(world.phase(waiting), phase);
    }
}

/// An agent has its task, which is ended for that.
#[test]
fn the_end_of_a_refused_submit_is_no_failure_of_its_job() {
    let mut world = World::new();
    let later = world.moment(60.0);
    let accepted = world.submitted(&of_job("j").with(words::JOB_MAX_FAILS, 1u32).with(words::START_AFTER, later));
    world.controller.handle_committed(world.now, Some(accepted));
    let refused = world.submitted(&of_job("j"));
    world.runs("a", refused, Round(0));
    let abandoned = world.controller.abandon_unstored(world.now, &[refused], false);
    assert_eq!(abandoned, Some(Abandoned::Killed));
    world.settle();
    assert_eq!(world.ends("a", refused, Round(0), result(-15)), None);
    assert_eq!(world.outcome(refused), Outcome::Killed);
    assert!(world.log(refused).contains("the store could not take its submit"));
    assert_eq!((world.job("j").stopped, world.phase(accepted)), (None, Phase::Waiting));
    world.restart();
    assert_eq!((world.job("j").stopped, world.phase(accepted)), (None, Phase::Waiting));
}

/// The state counts the refused task, and the job that the next submit makes begins with the same number.
#[test]
fn the_state_of_a_job_without_a_stored_task_is_not_published() {
    let mut world = World::new();
    let fields = of_job("j").with(words::OPERATION, "t").with(words::TYPE, TASK_SUBMIT.word);
    let Ok((_, Message::Client(submit))) = requests::parse(&json::to_vec(&fields), &rules()) else { panic!() };
    let ticket = world.ticket();
    // The commit before fails in the same turn.
    let Answer::Now(Reply::Submitted { task, .. }) = world.controller.handle_request(world.now, ticket, submit) else {
        panic!()
    };
    assert!(world.controller.handle_unstored(world.now, task, false));
    world.controller.handle_withdrawn(world.now);
    world.settle();
    assert_eq!(world.statuses, []);
    world.submitted(&of_job("j"));
    assert_eq!(world.statuses.iter().map(|status| status.seq).collect::<Vec<_>>(), [1]);
}
