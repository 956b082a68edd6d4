//! TASK/SUBMIT_MANY: several tasks in one request.

use super::*;
use crate::tasks::withdrawal::Abandoned;
use api::wire::requests::submit::many::TASK_SUBMIT_MANY;

/// Words of the wire for `<WORD>`.
fn wire(text: &str) -> String {
    text.replace(['<', '>'], "__")
}

impl World {
    /// `tasks` and `beside` as JSON.
    fn submit_many(&mut self, tasks: &str, beside: &str) -> Reply {
        let kind = TASK_SUBMIT_MANY.word;
        let body = wire(&format!(r#"{{"<TYPE>":"{kind}","<OPERATION>":"t"{beside},"<TASKS>":{tasks}}}"#));
        match requests::parse(body.as_bytes(), &rules()) {
            Ok((_, Message::Client(request))) => self.ask(request),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Reply::Refused(refused.refusal),
        }
    }

    fn submitted_many(&mut self, tasks: &str, beside: &str) -> (Vec<TaskId>, Vec<usize>) {
        match self.submit_many(tasks, beside) {
            Reply::SubmittedMany { tasks, duplicates, .. } => (tasks, duplicates),
            other => panic!("{other:?}"),
        }
    }

    fn many_refused(&mut self, tasks: &str, beside: &str) -> (i32, Option<usize>) {
        let before = self.stored.len();
        match self.submit_many(tasks, beside) {
            Reply::Refused(refusal) => {
                assert_eq!(self.stored.len(), before, "nothing is accepted");
                (refusal.code.number(), refusal.index)
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn tasks_are_accepted_in_order_with_the_fields_beside_them() {
    let mut world = World::new();
    let (tasks, duplicates) = world.submitted_many(
        r#"[{"n":1},{"n":2,"<JOB>":"own","<TYPE>":"x"},{"<OPERATION>":"u"}]"#,
        r#","<JOB>":"shared","<PRIORITY>":7"#,
    );
    assert_eq!((tasks.len(), duplicates), (3, vec![]));
    assert!(tasks.is_sorted());
    let records: Vec<_> = tasks.iter().map(|task| world.record(*task)).collect();
    let jobs: Vec<_> = records.iter().map(|record| record.membership().unwrap().name.as_str()).collect();
    assert_eq!(jobs, ["shared", "own", "shared"]);
    assert_eq!(records.iter().map(|record| record.tool.as_str()).collect::<Vec<_>>(), ["t", "t", "u"]);
    assert!(records.iter().all(|record| record.policy.priority == 7));
}

#[test]
fn a_chain_fits_into_one_request() {
    let mut world = World::new();
    let (tasks, _) = world.submitted_many(r#"[{},{"<AFTER>":"job:j"},{"<AFTER>":"job:j"}]"#, r#","<JOB>":"j""#);
    for task in tasks {
        assert_eq!(world.apply("b").map(|(task, _)| task), Some(task));
        assert_eq!(world.apply("c"), None, "one after the other");
        world.report("b", task, Round(0), Phase::Running);
        world.ends("b", task, Round(0), result(0));
    }
}

#[test]
fn one_wrong_task_refuses_all() {
    let mut world = World::with(|settings| settings.waiting_max = 3);
    for (tasks, beside, expected) in [
        (r#"[{},{"<PRIORITY>":"x"}]"#, "", (-1007, Some(1))),
        (r#"[{},{"x":[1]}]"#, "", (-1007, Some(1))),
        (r#"[{},{},7]"#, "", (-1007, Some(2))),
        (r#"[{"<OPERATION>":"/"}]"#, "", (-1006, Some(0))),
        (r#"[{},{"<AFTER>":"job:none"}]"#, "", (-1004, Some(1))),
        (r#"[{"<AFTER>":"job:j"},{"<JOB>":"j"}]"#, "", (-1004, Some(0))),
        (r#"[{},{},{},{}]"#, "", (-1008, Some(3))),
        (r#"[{"<SUBMIT_KEY>":"k"},{"<SUBMIT_KEY>":"k","x":1}]"#, "", (-1007, Some(1))),
        ("[]", "", (-1007, None)),
        ("7", "", (-1007, None)),
        (r#"{"a":1}"#, "", (-1007, None)),
        ("[{},{},{},{},{},{},{},{},{},{},{}]", "", (-1008, None)),
        ("[{}]", r#","<SUBMIT_KEY>":"k""#, (-1007, None)),
        ("[{}]", r#","<GIVEN_ID>":"g""#, (-1007, None)),
        (r#"[{"a":1,"a":2}]"#, "", (-1001, None)),
    ] {
        assert_eq!(world.many_refused(tasks, beside), expected, "{tasks}{beside}");
    }
    let body = wire(r#"{"<TYPE>":"TASK/SUBMIT","<OPERATION>":"t","<TASKS>":[{}]}"#);
    assert_eq!(requests::parse(body.as_bytes(), &rules()).unwrap_err().refusal.code, Code::BadField);
}

#[test]
fn a_key_twice_is_one_task() {
    let mut world = World::new();
    let first = world.submitted(&Fields::new().with(words::SUBMIT_KEY, "old"));
    let (tasks, duplicates) = world
        .submitted_many(r#"[{"<SUBMIT_KEY>":"old"},{"<SUBMIT_KEY>":"new","x":1},{"x":1,"<SUBMIT_KEY>":"new"},{}]"#, "");
    assert_eq!(duplicates, [0, 2]);
    assert_eq!((tasks[0], tasks[2]), (first, tasks[1]));
    assert_ne!(tasks[3], tasks[1]);
}

#[test]
fn what_cannot_be_stored_is_withdrawn_as_a_whole() {
    let mut world = World::new();
    let (tasks, _) = world.submitted_many(r#"[{},{}]"#, "");
    let abandoned = |world: &mut World, tasks: &[TaskId]| world.controller.abandon_unstored(world.now, tasks, false);
    assert_eq!(abandoned(&mut world, &tasks), Some(Abandoned::Withdrawn));
    world.settle();
    assert!(tasks.iter().all(|task| !world.stored.contains_key(task)));
    // An agent has the first one already.
    world.park("a");
    let (tasks, _) = world.submitted_many(r#"[{},{}]"#, "");
    assert_eq!(abandoned(&mut world, &tasks), Some(Abandoned::Killed));
    world.settle();
    assert!(!world.stored.contains_key(&tasks[1]) && world.record(tasks[0]).kill.is_some());
    world.report("a", tasks[0], Round(0), Phase::Finished);
    assert_eq!(abandoned(&mut world, &tasks[..1]), Some(Abandoned::HasRun));
    assert_eq!(world.controller.abandon_unstored(world.now, &tasks[..1], true), None, "it existed before");
}
