//! Scenarios of queries: what they find, and how it is shown.
#![cfg(test)]

use super::*;

/// docs/design/hazards.md, W12.
#[test]
fn what_the_service_sets_itself_is_not_believed() {
    let mut world = World::new();
    let forged = Fields::new().with(words::TASK_ID, "x").with(words::STATUS, "FINISHED").with(words::CODE, 5u32);
    let Reply::Submitted { task, warning: Some(warning), duplicate: false } = world.submit(&forged) else { panic!() };
    assert!(warning.contains(words::STATUS), "{warning}");
    assert_eq!(*world.record(task).submitted, format!("\"{}\":\"t\"", words::OPERATION));
}

/// A client that is newer than its controller, or that mistypes, is told about a field without an effect.
#[test]
fn a_field_that_the_controller_does_not_know_is_named_in_the_answer() {
    let mut world = World::new();
    let newer = format!("__{}__", "BEFORE_LUNCH");
    let known =
        Fields::new().with(words::EXCLUSIVE, true).with(words::GIVEN_ID, "g").with("__mine__", 1u32).with("a", 1u32);
    let Reply::Submitted { warning: None, .. } = world.submit(&known) else { panic!() };
    let Reply::Submitted { task, warning: Some(warning), .. } = world.submit(&known.with(&newer, true)) else {
        panic!()
    };
    assert!(warning.contains(&newer), "{warning}");
    assert!(world.record(task).submitted.contains(&newer), "it is a parameter all the same");
}

/// The newest of several matches (docs/sources/controller.md, 2.3, 6).
#[test]
fn a_query_finds_by_all_fields_the_newest() {
    let mut world = World::new();
    let old = world.submitted(&Fields::new().with(words::GIVEN_ID, "g").with("x", 1u32));
    let new = world.submitted(&Fields::new().with(words::GIVEN_ID, "g").with("x", 2u32));
    let mut found = |fields: Fields| match world.ask(Request::Query(Filter::new(&fields), None)) {
        Reply::Task { record, matches } => Some((record.id, matches)),
        Reply::Refused(_) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(Fields::new().with(words::GIVEN_ID, "g")), Some((new, 2)));
    assert_eq!(found(Fields::new().with(words::GIVEN_ID, "g").with("x", 1u32)), Some((old, 1)));
    assert_eq!(found(Fields::new().with("x", 1u32)), Some((old, 1)));
    assert_eq!(found(Fields::new().with("x", "1")), None, "the type must be equal too");
    assert_eq!(found(Fields::new().with(words::STATUS, "WAITING")), Some((new, 2)));
    assert_eq!(found(Fields::new().with(words::TASK_ID, old.to_string()).with("x", 2u32)), None);
    assert_eq!(found(Fields::new().with(words::TASK_ID, "nonsense")), None);
    assert_eq!(found(Fields::new()), Some((new, 2)));
}

/// A client that waits for each of its many tasks must not make each end cost a commit of its own.
#[test]
fn the_answer_to_a_wait_shares_a_commit_as_the_push_of_the_same_end_does() {
    let mut world = World::new();
    world.park("a");
    let (_, queued) = (world.task(), world.task());
    let wait = Request::Query(filter(words::TASK_ID, &queued.to_string()), Some(INTERVAL));
    let (ticket, _) = world.ask_later(wait);
    world.pass(Duration::from_millis(64));
    assert_eq!(world.apply("b"), Some((queued, Round(0))));
    world.report("b", queued, Round(0), Phase::Finished);
    let answer = world.replies.iter().find(|(to, _)| *to == ticket).cloned();
    let (_, reply) = answer.unwrap();
    assert_eq!(Effect::Reply(ticket, reply).delay_max(), Duration::from_millis(4));
    // No client waits for these, so they may share a commit with more ends.
    let end = world.pushes.last().cloned().unwrap();
    assert_eq!(Effect::Push(Box::new(end)).delay_max(), Duration::from_millis(16), "for subscribers");
    let confirmation = Reply::Reported { task: queued, round: Round(0), phase: Phase::Finished, refusal: None };
    assert_eq!(world.controller.confirmation_delay(&confirmation), Duration::from_millis(16));
}

#[test]
fn a_query_can_wait_for_the_end() {
    let mut world = World::new();
    let task = world.task();
    let wait = |task: TaskId| Request::Query(filter(words::TASK_ID, &task.to_string()), Some(INTERVAL));
    let (first, answer) = world.ask_later(wait(task));
    assert_eq!(answer, Answer::Later);
    world.pass(INTERVAL);
    assert!(
        matches!(&world.replies[..], [(t, Reply::Task { record, .. })] if *t == first && record.phase() == Phase::Waiting)
    );
    world.replies.clear();
    let (second, _) = world.ask_later(wait(task));
    world.kill(task);
    assert!(
        matches!(&world.replies[..], [(t, Reply::Task { record, .. })] if *t == second && record.phase() == Phase::Finished)
    );
    assert!(matches!(world.ask(wait(task)), Reply::Task { .. }), "what has finished is answered at once");
}

/// A search over many tasks leaves room for others (docs/design/hazards.md, W11).
#[test]
fn a_search_goes_slice_by_slice() {
    let mut world = World::with(|settings| settings.waiting_max = 10_000);
    // Without the checks of `settle` after each of thousands of submits.
    let wanted = world.submitted(&Fields::new().with("x", 1u32));
    for _ in 0..5_000 {
        let ticket = world.ticket();
        let fields = Fields::new().with(words::OPERATION, "t");
        let submit = api::wire::requests::submit::Submit {
            tool: base::ToolName::new("t").unwrap(),
            fields,
            address: None,
            parent: None,
            relations: None,
            files: None,
            is_trusted: false,
            policy: Arc::default(),
            requires_tool: false,
            wait: None,
            ignored: Vec::new(),
            unknown: Vec::new(),
        };
        let _ = world.controller.handle_request(world.now, ticket, Request::Submit(Box::new(submit)));
        while world.controller.poll_effect().is_some() {}
    }
    let (search, answer) = world.ask_later(Request::Query(Filter::new(&Fields::new().with("x", 1u32)), None));
    assert_eq!(answer, Answer::Later);
    let page = Page { offset: 3, limit: Some(2) };
    let (list, _) = world.ask_later(Request::TaskDetails(filter(words::STATUS, "WAITING"), page));
    let refusal = world.ask_later(Request::TaskDetails(filter("y", "z"), page)).1;
    assert!(matches!(refusal, Answer::Now(reply) if refused(&reply) == Code::LimitReached));
    assert_eq!(world.phase(wanted), Phase::Waiting, "others are answered in between");
    world.order.clear();
    world.pass(Duration::from_millis(1));
    assert_eq!(world.replies.len(), 2);
    assert_eq!(world.order, ["view", "view"], "they show what may not be stored yet");
    for (ticket, reply) in &world.replies {
        match reply {
            Reply::Task { record, matches } => assert_eq!((*ticket, record.id, *matches), (search, wanted, 1)),
            Reply::Tasks { records, page } => assert_eq!((*ticket, records.len(), page.total), (list, 2, 5_001)),
            other => panic!("{other:?}"),
        }
    }
}

/// A search takes as long as the bytes that it reads, so a turn reads a bounded number of them.
#[test]
fn a_search_over_large_tasks_goes_slice_by_slice() {
    let mut world = World::new();
    let large = Fields::new().with("large", "x".repeat(300_000));
    let tasks: Vec<_> = (0..8).map(|_| world.submitted(&large)).collect();
    let nowhere = Filter::new(&Fields::new().with("nix", "nix"));
    let (_, answer) = world.ask_later(Request::Query(nowhere, None));
    assert_eq!(answer, Answer::Later, "other requests come in between");
    for _ in 0..tasks.len() {
        world.pass(Duration::from_millis(1));
    }
    assert!(matches!(&world.replies[..], [(_, Reply::Refused(_))]), "{:?}", world.replies);
    let by_state = Request::Query(filter(words::STATUS, "WAITING"), None);
    assert!(matches!(world.ask(by_state), Reply::Task { matches: 8, .. }), "no byte of the parameters is read for it");
}

#[test]
fn details_come_by_pages_newest_first() {
    let mut world = World::new();
    let tasks: Vec<_> = (0..15).map(|_| world.task()).collect();
    let mut page = |offset, limit| match world.ask(Request::TaskDetails(Filter::default(), Page { offset, limit })) {
        Reply::Tasks { records, page } => (records.iter().map(|record| record.id).collect::<Vec<_>>(), page.total),
        other => panic!("{other:?}"),
    };
    assert_eq!(page(0, Some(2)), (vec![tasks[14], tasks[13]], 15));
    assert_eq!(page(13, None), (vec![tasks[1], tasks[0]], 15));
    assert_eq!(page(0, None).0.len(), 10, "the limit of a page holds whatever is asked for");
    assert_eq!(page(20, None), (vec![], 15));
    assert_eq!(page(0, Some(0)), (vec![], 15));
}

/// Every answer that shows the state of tasks waits for the store, on whichever way it leaves.
#[test]
fn an_answer_that_shows_tasks_is_a_view() {
    let mut world = World::new();
    let task = world.task();
    let id = filter(words::TASK_ID, &task.to_string());
    let page = Page { offset: 0, limit: None };
    for request in [
        Request::Query(id.clone(), None),
        Request::TaskDetails(Filter::default(), page),
        Request::TaskDetails(filter(words::STATUS, "WAITING"), page),
        Request::Explain(id.clone()),
        Request::AgentDetails(page),
        Request::GateQuery(None),
    ] {
        let reply = world.ask(request);
        assert_eq!(claim_of_reply(&reply), Claim::View, "{reply:?}");
        assert_eq!(Effect::Reply(world.ticket(), reply).claim(), Claim::View);
    }
    assert!(Claim::View.waits(false) && !Claim::View.waits(true), "but not for a store that is in trouble");
    world.kill(task);
    let end = world.ask(Request::Query(id, None));
    assert_eq!(Effect::Reply(world.ticket(), end).claim(), Claim::Promise, "a client has waited for the end");
}

/// A client that knows nothing of pages expects all tasks (docs/sources/controller.md, 2.6).
#[test]
fn a_page_that_is_cut_says_so() {
    let mut world = World::new();
    for _ in 0..15 {
        world.task();
    }
    let mut warning = |fields: Fields| {
        let reply = world.send(TASK_DETAILS, &fields);
        let bytes = reply::encode(TASK_DETAILS.word, &reply, PageBytes(500));
        let told: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let shown = told.as_object().unwrap().values().filter(|value| value.is_object()).count();
        (shown, told[words::WARNING].as_str().map(str::to_owned))
    };
    let (shown, text) = warning(Fields::new());
    let text = text.unwrap();
    assert!(shown < 10 && text.contains(&format!("{shown} of 15")), "{text}");
    assert!(text.contains(&format!("{} {shown}", words::OFFSET)), "{text}");
    assert_eq!(warning(Fields::new().with(words::LIMIT, 2u32)), (2, None), "as many as were asked for");
    assert_eq!(warning(Fields::new().with(words::OFFSET, 12u32)), (3, None), "the last ones");
    assert!(warning(Fields::new().with(words::LIMIT, 14u32)).1.is_some());
}

/// A finished task has an exit code and a log, even if nothing ran (docs/sources/controller.md, 2.3).
#[test]
fn what_never_ran_has_an_exit_code_of_null_and_an_empty_log() {
    let mut world = World::new();
    let killed = world.task();
    world.kill(killed);
    let expired = world.submitted(&Fields::new().with(words::END_BEFORE, world.moment(1.0)));
    world.pass(seconds(1.0));
    let lost = world.submitted(&Fields::new().with(words::MAX_LOSSES, 0u32));
    world.runs("a", lost, Round(0));
    world.pass(INTERVAL * 2);
    for task in [killed, expired, lost] {
        let told = world.told(TASK_QUERY, task);
        assert_eq!(told.get(words::EXIT_CODE), Some(&base::Scalar::Null), "{told:?}");
        assert_eq!(told.get(words::REPORT_LOG).and_then(base::Scalar::as_text), Some(""), "{told:?}");
        let pushed = world.pushes.iter().rfind(|record| record.id == task).unwrap();
        let frame = String::from_utf8(api::wire::publish::encode_status(pushed)).unwrap();
        assert!(frame.contains(r#""__EXIT_CODE__":null"#) && frame.contains(r#""__REPORT_LOG__":"""#), "{frame}");
    }
    let waiting = world.task();
    let told = world.told(TASK_QUERY, waiting);
    assert_eq!((told.get(words::EXIT_CODE), told.get(words::REPORT_LOG)), (None, None));
}

#[test]
fn a_task_that_is_not_there_is_named_as_it_was_asked_for() {
    let mut world = World::new();
    for (kind, name, value) in [
        (TASK_QUERY, words::TASK_ID, "my task"),
        (TASK_EXPLAIN, words::TASK_ID, "my task"),
        (TASK_EXPLAIN, words::GIVEN_ID, "my given id"),
    ] {
        let reply = world.send(kind, &Fields::new().with(name, value));
        assert!(matches!(&reply, Reply::Refused(refusal) if refusal.message.contains(value)), "{reply:?}");
    }
}

/// A page that begins behind a task costs no look at those before it, and does not count those behind it.
#[test]
fn a_list_goes_on_behind_a_task() {
    let mut world = World::new();
    let tasks: Vec<_> = (0..5).map(|_| world.submitted(&Fields::new().with("x", 1u32))).collect();
    let page = |before: &str, limit: u64| {
        let text = format!(r#"{{"__TYPE__":"TASK/DETAILS","x":1,"__BEFORE__":"{before}","__LIMIT__":{limit}}}"#);
        match requests::parse(text.as_bytes(), &rules()) {
            Ok((_, Message::Client(request))) => Ok(request),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(refused.refusal.code),
        }
    };
    let mut ids = |before: TaskId, limit| match world.ask(page(&before.to_string(), limit).unwrap()) {
        Reply::Tasks { records, page } => (records.iter().map(|record| record.id).collect::<Vec<_>>(), page.total),
        other => panic!("{other:?}"),
    };
    assert_eq!(ids(tasks[4], 2), (vec![tasks[3], tasks[2]], 2));
    assert_eq!(ids(tasks[2], 9), (vec![tasks[1], tasks[0]], 2));
    assert_eq!(ids(tasks[0], 9), (Vec::new(), 0));
    assert_eq!(page("x", 1).map(drop), Err(Code::BadField));
}
