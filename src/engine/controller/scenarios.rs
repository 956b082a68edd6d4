//! Stories of the controller, each on virtual time and with every invariant checked after every step.

use std::time::Duration;

use super::*;
use crate::protocol::publish::Published;
use crate::protocol::reply::{AgentCounts, Reply, Wanted};
use crate::protocol::request::{self, FromAgent, Heartbeat, Message, Page, Report, Request, Rules, Sender};
use crate::protocol::task::Filter;
use crate::protocol::{Code, words};
use crate::types::{
    AgentId, ExitCode, Fields, Outcome, Phase, PhaseTimes, Round, RunResult, Session, TaskRecord, TaskState, Wall,
};

const INTERVAL: Duration = Duration::from_secs(3);
const START: u64 = 1_480_000_000_000_000;

struct World {
    controller: Controller,
    now: Now,
    tickets: u64,
    replies: Vec<(Ticket, Reply)>,
    pushes: Vec<TaskRecord>,
    published: Vec<Published>,
    /// Records and promises in the order in which they came.
    order: Vec<&'static str>,
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            heartbeat_interval: INTERVAL,
            waiting_max: 100,
            losses_max: 3,
            keep: Duration::from_secs(3600),
            keep_bytes_max: 1_000_000,
            page_max: 10,
            agents_max: 100,
            parked_max: 10,
            scans_max: 2,
        };
        change(&mut settings);
        let now = Now { mono: Mono::from_nanos(0), wall: Wall::from_micros(START) };
        Self {
            controller: Controller::new(settings, 1),
            now,
            tickets: 0,
            replies: Vec::new(),
            pushes: Vec::new(),
            published: Vec::new(),
            order: Vec::new(),
        }
    }

    fn settle(&mut self) {
        while let Some(effect) = self.controller.poll_effect() {
            self.order.push(match &effect {
                Effect::Record(_) => "record",
                effect if effect.is_promise() => "promise",
                _ => "other",
            });
            match effect {
                Effect::Record(_) => {}
                Effect::Reply(ticket, reply) => self.replies.push((ticket, reply)),
                Effect::Publish(message) => self.published.push(message),
                Effect::Push(record) => self.pushes.push(*record),
            }
        }
        self.controller.sanity_check();
    }

    fn pass(&mut self, duration: Duration) {
        let end = Now { mono: self.now.mono + duration, wall: self.now.wall + duration };
        while let Some((at, _)) = self.controller.poll_timeout().filter(|(at, _)| *at <= end.mono) {
            let step = at.since(self.now.mono);
            self.now = Now { mono: self.now.mono + step, wall: self.now.wall + step };
            self.controller.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    fn ask(&mut self, request: Request) -> Reply {
        match self.ask_later(request) {
            (_, Answer::Now(reply)) => reply,
            (ticket, answer) => panic!("{ticket:?}: {answer:?}"),
        }
    }

    fn ask_later(&mut self, request: Request) -> (Ticket, Answer) {
        let ticket = self.ticket();
        let answer = self.controller.handle_request(self.now, ticket, request);
        self.settle();
        (ticket, answer)
    }

    fn submit(&mut self, fields: &Fields) -> Reply {
        let fields = fields.clone().with(words::TYPE, words::kind::TASK_SUBMIT);
        let fields = if fields.get(words::OPERATION).is_some() { fields } else { fields.with(words::OPERATION, "t") };
        let message = request::parse(&crate::protocol::json::to_vec(&fields), &rules()).unwrap().1;
        let Message::Client(request) = message else { panic!() };
        self.ask(request)
    }

    fn submitted(&mut self, fields: &Fields) -> TaskId {
        match self.submit(fields) {
            Reply::Submitted { task, .. } => task,
            other => panic!("{other:?}"),
        }
    }

    fn task(&mut self) -> TaskId {
        self.submitted(&Fields::new())
    }

    fn child(&mut self, parent: TaskId) -> TaskId {
        self.submitted(&Fields::new().with(words::FATHER_ID, parent.to_string()))
    }

    fn say(&mut self, agent: &str, message: FromAgent) -> (Ticket, Answer) {
        self.say_as(agent, 1, message)
    }

    fn say_as(&mut self, agent: &str, session: u64, message: FromAgent) -> (Ticket, Answer) {
        let ticket = self.ticket();
        let sender = Sender { agent: AgentId::new(agent).unwrap(), session: Session(session) };
        let answer = self.controller.handle_agent(self.now, ticket, &sender, message);
        self.settle();
        (ticket, answer)
    }

    fn apply(&mut self, agent: &str) -> Option<(TaskId, Round)> {
        match self.say(agent, FromAgent::Apply(None)).1 {
            Answer::Now(Reply::Assigned(record)) => Some((record.id, record.round)),
            Answer::Now(Reply::Refused(refusal)) if refusal.code == Code::NoTask => None,
            other => panic!("{other:?}"),
        }
    }

    fn park(&mut self, agent: &str) -> Ticket {
        let (ticket, answer) = self.say(agent, FromAgent::Apply(Some(INTERVAL * 2)));
        assert_eq!(answer, Answer::Later);
        ticket
    }

    fn report(&mut self, agent: &str, task: TaskId, round: Round, phase: Phase) -> Option<Code> {
        let result = (phase >= Phase::Ended).then(|| result(0));
        let report = Report { task, round: Some(round), phase, times: PhaseTimes::default(), result, wait: None };
        match self.say(agent, FromAgent::Report(Box::new(report))).1 {
            Answer::Now(Reply::Reported { refusal, .. }) => refusal.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    fn beat(&mut self, agent: &str, run: Option<(TaskId, Round)>) -> Option<Wanted> {
        let heartbeat = Heartbeat { busy: run.is_some(), run, ip: None, replaces: None };
        match self.say(agent, FromAgent::Heartbeat(heartbeat)).1 {
            Answer::Now(Reply::Heartbeat { wanted, .. }) => wanted.map(|(.., wanted)| wanted),
            other => panic!("{other:?}"),
        }
    }

    fn record(&mut self, task: TaskId) -> TaskRecord {
        match self.ask(Request::Query(filter(words::TASK_ID, &task.to_string()), None)) {
            Reply::Task { record, .. } => *record,
            other => panic!("{other:?}"),
        }
    }

    fn phase(&mut self, task: TaskId) -> Phase {
        self.record(task).phase()
    }

    fn outcome(&mut self, task: TaskId) -> Outcome {
        match self.record(task).state {
            TaskState::Finished { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn counts(&mut self) -> AgentCounts {
        match self.ask(Request::AgentQuery) {
            Reply::AgentCounts(counts) => counts,
            other => panic!("{other:?}"),
        }
    }
}

fn rules() -> Rules {
    Rules {
        limits: crate::protocol::json::FieldLimits::TRUSTED,
        addresses: crate::types::AddressPolicy::default(),
        wait_max: Duration::from_secs(3600),
    }
}

fn filter(name: &str, value: &str) -> Filter {
    Filter::new(&Fields::new().with(name, value))
}

fn result(exit_code: i32) -> RunResult {
    RunResult {
        exit_code: ExitCode(exit_code),
        error: String::new(),
        report_tail: "report".to_owned(),
        stdout_tail: String::new(),
        stderr_tail: String::new(),
        cpu_seconds: 0.0,
        max_rss_kib: 0,
        reaped: 0,
    }
}

fn refused(reply: &Reply) -> Code {
    match reply {
        Reply::Refused(refusal) => refusal.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_goes_through_all_phases_and_each_is_pushed_once() {
    let mut world = World::new();
    let task = world.task();
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    for phase in [Phase::Preparing, Phase::Running, Phase::Ended, Phase::Finished] {
        assert_eq!(world.report("a", task, Round(0), phase), None);
        assert_eq!(world.phase(task), phase);
    }
    let pushed: Vec<_> = world.pushes.iter().map(|record| (record.phase(), record.pushes)).collect();
    let expected = [(Phase::Preparing, 1), (Phase::Running, 2), (Phase::Ended, 3), (Phase::Finished, 4)];
    assert_eq!(pushed, expected);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
    assert_eq!(world.counts(), AgentCounts { total: 1, free: 1, busy: 0, lost: 0 });
}

/// Design, section 6: a report may carry several phases at once, and ask for the next task.
#[test]
fn one_report_may_carry_all_phases_and_the_next_apply() {
    let mut world = World::new();
    let (first, second) = (world.task(), world.task());
    world.apply("a");
    let times = PhaseTimes { run: Some(world.now.wall), ..PhaseTimes::default() };
    let wait = Some(INTERVAL);
    let report =
        Report { task: first, round: Some(Round(0)), phase: Phase::Finished, times, result: Some(result(7)), wait };
    let (ticket, answer) = world.say("a", FromAgent::Report(Box::new(report)));
    assert!(matches!(answer, Answer::NowAndLater(Reply::Reported { refusal: None, .. })), "{answer:?}");
    let phases: Vec<_> = world.pushes.iter().map(TaskRecord::phase).collect();
    assert_eq!(phases, [Phase::Preparing, Phase::Running, Phase::Ended, Phase::Finished]);
    assert_eq!(world.outcome(first), Outcome::Failed);
    assert!(matches!(&world.replies[..], [(t, Reply::Assigned(record))] if *t == ticket && record.id == second));
}

/// Promise 1: what is promised comes after the records that it rests on.
#[test]
fn a_promise_never_precedes_its_record() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.order.clear();
    world.report("a", task, Round(0), Phase::Finished);
    assert_eq!(world.order.last(), Some(&"record"), "the shell commits records before promises, in one turn");
    assert_eq!(world.order.iter().filter(|what| **what == "promise").count(), 1, "{:?}", world.order);
    assert!(reply_is_promise(&Reply::Submitted { task, warning: None }));
    let record = Box::new(world.record(task));
    assert!(!reply_is_promise(&Reply::Assigned(record)), "a dispatch never waits for the disk");
}

#[test]
fn parked_agents_get_tasks_in_the_order_in_which_they_came() {
    let mut world = World::new();
    let (a, b) = (world.park("a"), world.park("b"));
    let (first, second) = (world.task(), world.task());
    let assigned: Vec<_> = std::mem::take(&mut world.replies)
        .into_iter()
        .map(|(ticket, reply)| match reply {
            Reply::Assigned(record) => (ticket, record.id),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(assigned, [(a, first), (b, second)]);
    assert!(!world.published.contains(&Published::Inform), "nobody else needs to wake up");
}

#[test]
fn a_parked_agent_is_told_when_its_time_is_over() {
    let mut world = World::new();
    let ticket = world.park("a");
    world.pass(INTERVAL);
    world.beat("a", None);
    world.pass(INTERVAL);
    assert!(matches!(&world.replies[..], [(t, Reply::Refused(r))] if *t == ticket && r.code == Code::NoTask));
}

/// An agent that does not park learns from PUB that there is work, also when it missed the first word.
#[test]
fn agents_that_do_not_park_are_informed() {
    let mut world = World::new();
    assert_eq!(world.apply("a"), None);
    world.task();
    assert_eq!(std::mem::take(&mut world.published), [Published::Inform]);
    world.beat("a", None);
    assert_eq!(world.published, [Published::Inform]);
}

/// HAZARDS row A5: an agent that never saw the answer to its APPLY gets the same task again.
#[test]
fn an_apply_that_is_repeated_gets_the_same_task() {
    let mut world = World::new();
    let (task, _) = (world.task(), world.task());
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    assert_eq!(world.apply("a"), Some((task, Round(0))));
}

#[test]
fn a_task_that_could_not_be_delivered_waits_again_in_the_same_round() {
    let mut world = World::new();
    world.park("a");
    let task = world.task();
    world.controller.handle_undelivered(world.now, task, Round(0));
    world.settle();
    assert_eq!(world.phase(task), Phase::Waiting);
    assert_eq!(world.apply("b"), Some((task, Round(0))));
}

/// HAZARDS row A1; design, section 10.7.
#[test]
fn a_silent_agent_is_lost_and_its_task_goes_to_the_next_round() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Running);
    world.pass(INTERVAL * 2 - Duration::from_millis(1));
    assert_eq!(world.counts().lost, 0);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.counts(), AgentCounts { total: 1, free: 0, busy: 0, lost: 1 });
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.losses), (Phase::Waiting, Round(1), 1));
    assert_eq!(world.pushes.last().map(TaskRecord::phase), Some(Phase::Waiting));
}

/// HAZARDS row A2; promise 3.
#[test]
fn what_an_old_round_says_is_refused() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.pass(INTERVAL * 2);
    assert_eq!(world.apply("b"), Some((task, Round(1))));
    assert_eq!(world.report("a", task, Round(0), Phase::Finished), Some(Code::NotAllowed));
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Wanted::Drop));
    assert_eq!(world.phase(task), Phase::Dispatched);
    assert_eq!(world.counts(), AgentCounts { total: 2, free: 0, busy: 2, lost: 0 });
    assert_eq!(world.beat("a", None), None);
    assert_eq!(world.counts().free, 1, "once its slot is free, the agent takes tasks again");
}

/// HAZARDS row A9.
#[test]
fn a_task_that_loses_every_agent_ends_as_lost() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_LOSSES, 1u32));
    for agent in ["a", "b"] {
        assert!(world.apply(agent).is_some());
        world.pass(INTERVAL * 2);
    }
    assert_eq!(world.outcome(task), Outcome::Lost);
    assert_eq!(world.pushes.last().map(TaskRecord::phase), Some(Phase::Finished));
    assert_eq!(world.apply("c"), None);
}

/// A result that is known is not thrown away because its agent dies while it cleans up.
#[test]
fn an_agent_lost_after_the_end_does_not_void_the_result() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.report("a", task, Round(0), Phase::Ended);
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(task), Outcome::Succeeded);
}

#[test]
fn heartbeats_keep_an_agent_and_a_lost_one_comes_back() {
    let mut world = World::new();
    for _ in 0..5 {
        world.beat("a", None);
        world.pass(INTERVAL);
    }
    assert_eq!(world.counts().free, 1);
    world.pass(INTERVAL);
    assert_eq!(world.counts().lost, 1);
    world.beat("a", None);
    assert_eq!(world.counts(), AgentCounts { total: 1, free: 1, busy: 0, lost: 0 });
}

/// HAZARDS row D7: a jump of the wall clock makes nobody lost, and ids stay unique and in order.
#[test]
fn a_jump_of_the_wall_clock_changes_nothing() {
    let mut world = World::new();
    world.beat("a", None);
    let before = world.task();
    world.now.wall = Wall::from_micros(START - 86_400_000_000);
    let after = world.task();
    assert!(before < after);
    world.now.wall = Wall::from_micros(START + 86_400_000_000);
    world.controller.handle_timeout(world.now);
    world.settle();
    assert_eq!(world.counts().lost, 0);
    assert_eq!(world.phase(before), Phase::Waiting);
}

/// HAZARDS row A10.
#[test]
fn a_second_agent_of_the_same_name_is_refused_until_the_first_is_gone() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    let (_, answer) = world.say_as("a", 2, FromAgent::Apply(None));
    assert!(matches!(&answer, Answer::Now(reply) if refused(reply) == Code::NotAllowed), "{answer:?}");
    assert_eq!(world.report("a", task, Round(0), Phase::Running), None);
    let replaces = Some(Session(1));
    let heartbeat = Heartbeat { busy: false, run: None, ip: None, replaces };
    let _ = world.say_as("a", 2, FromAgent::Heartbeat(heartbeat));
    assert_eq!((world.phase(task), world.counts().free), (Phase::Waiting, 1), "its successor has taken over");
}

#[test]
fn an_agent_that_leaves_gives_its_task_back_without_a_loss() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    let _ = world.say("a", FromAgent::Exit);
    let record = world.record(task);
    assert_eq!((record.phase(), record.round, record.losses), (Phase::Waiting, Round(1), 0));
    assert_eq!(world.counts().total, 0);
}

/// HAZARDS row A13.
#[test]
fn a_kill_is_answered_at_once_in_every_phase() {
    let mut world = World::new();
    let waiting = world.task();
    assert_eq!(world.ask(Request::Kill(waiting)), Reply::Done);
    let record = world.record(waiting);
    assert_eq!((record.phase(), record.result()), (Phase::Finished, None));
    assert_eq!(world.pushes.last().map(TaskRecord::phase), Some(Phase::Finished));

    let task = world.task();
    world.apply("a");
    for phase in [Phase::Preparing, Phase::Running] {
        world.report("a", task, Round(0), phase);
        assert_eq!(world.ask(Request::Kill(task)), Reply::Done);
    }
    assert_eq!(world.published, [Published::Inform, Published::Inform, Published::Kill(task)]);
    assert_eq!(world.beat("a", Some((task, Round(0)))), Some(Wanted::Kill), "PUB may lose");
    world.report("a", task, Round(0), Phase::Finished);
    assert_eq!(world.outcome(task), Outcome::Killed);
    assert_eq!(world.ask(Request::Kill(task)), Reply::Done);

    let unknown = TaskId::new(Wall::from_micros(5), [0; 5]);
    assert_eq!(refused(&world.ask(Request::Kill(unknown))), Code::InvalidTaskId);
}

#[test]
fn a_killed_task_whose_agent_is_lost_does_not_run_again() {
    let mut world = World::new();
    let task = world.task();
    world.apply("a");
    world.ask(Request::Kill(task));
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(task), Outcome::Killed);
}

/// HAZARDS row A12: nothing outlives its father.
#[test]
fn the_end_of_a_father_ends_all_descendants() {
    let mut world = World::new();
    let father = world.task();
    world.apply("a");
    world.report("a", father, Round(0), Phase::Running);
    let child = world.child(father);
    world.apply("b");
    let grandchild = world.child(child);
    world.report("a", father, Round(0), Phase::Ended);
    assert_eq!(world.outcome(grandchild), Outcome::Killed);
    assert_eq!(world.beat("b", Some((child, Round(0)))), Some(Wanted::Kill));
    let late = world.submit(&Fields::new().with(words::FATHER_ID, father.to_string()));
    assert_eq!(refused(&late), Code::NotAllowed);
    let late = world.submit(&Fields::new().with(words::FATHER_ID, child.to_string()));
    assert_eq!(refused(&late), Code::NotAllowed, "a child that is ending gets no children either");
}

#[test]
fn killing_a_waiting_father_ends_a_long_chain() {
    let mut world = World::with(|settings| settings.waiting_max = 1_000);
    let eldest = world.task();
    let mut youngest = eldest;
    for _ in 0..500 {
        youngest = world.child(youngest);
    }
    world.ask(Request::Kill(eldest));
    assert_eq!(world.outcome(youngest), Outcome::Killed);
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic([0, 0, 0, 0, 0, 501]));
}

#[test]
fn the_children_of_a_lost_run_are_ended() {
    let mut world = World::new();
    let father = world.task();
    world.apply("a");
    let child = world.child(father);
    world.pass(INTERVAL * 2);
    assert_eq!(world.phase(father), Phase::Waiting);
    assert_eq!(world.outcome(child), Outcome::Killed);
}

#[test]
fn an_unknown_father_is_dropped_with_a_warning() {
    let mut world = World::new();
    for father in ["TASK_1480000000.120000_AZazA", "nonsense"] {
        let Reply::Submitted { task, warning: Some(warning) } =
            world.submit(&Fields::new().with(words::FATHER_ID, father))
        else {
            panic!()
        };
        assert!(warning.contains(father), "{warning}");
        let record = world.record(task);
        assert!(!record.submitted.contains(words::FATHER_ID) && record.parent.is_none());
    }
}

/// HAZARDS row W12.
#[test]
fn what_the_service_sets_itself_is_not_believed() {
    let mut world = World::new();
    let forged = Fields::new().with(words::TASK_ID, "x").with(words::STATUS, "FINISHED").with(words::CODE, 5u32);
    let Reply::Submitted { task, warning: Some(warning) } = world.submit(&forged) else { panic!() };
    assert!(warning.contains(words::STATUS), "{warning}");
    assert_eq!(&*world.record(task).submitted, "\"__OPERATION__\":\"t\"");
}

/// Document, section 2.3; the newest of several matches.
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
    world.ask(Request::Kill(task));
    assert!(
        matches!(&world.replies[..], [(t, Reply::Task { record, .. })] if *t == second && record.phase() == Phase::Finished)
    );
    assert!(matches!(world.ask(wait(task)), Reply::Task { .. }), "what has finished is answered at once");
}

/// HAZARDS row W11: a search over many tasks leaves room for others.
#[test]
fn a_search_goes_slice_by_slice() {
    let mut world = World::with(|settings| settings.waiting_max = 10_000);
    // Without the checks of `settle` after each of thousands of submits.
    let wanted = world.submitted(&Fields::new().with("x", 1u32));
    for _ in 0..5_000 {
        let ticket = world.ticket();
        let fields = Fields::new().with(words::OPERATION, "t");
        let submit = crate::protocol::request::Submit {
            tool: crate::types::ToolName::new("t").unwrap(),
            fields,
            address: None,
            parent: None,
            losses_max: None,
            ignored: Vec::new(),
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
    world.pass(Duration::from_millis(1));
    assert_eq!(world.replies.len(), 2);
    for (ticket, reply) in &world.replies {
        match reply {
            Reply::Task { record, matches } => assert_eq!((*ticket, record.id, *matches), (search, wanted, 1)),
            Reply::Tasks { records, total } => assert_eq!((*ticket, records.len(), *total), (list, 2, 5_001)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn details_come_by_pages_newest_first() {
    let mut world = World::new();
    let tasks: Vec<_> = (0..15).map(|_| world.task()).collect();
    let mut page = |offset, limit| match world.ask(Request::TaskDetails(Filter::default(), Page { offset, limit })) {
        Reply::Tasks { records, total } => (records.iter().map(|record| record.id).collect::<Vec<_>>(), total),
        other => panic!("{other:?}"),
    };
    assert_eq!(page(0, Some(2)), (vec![tasks[14], tasks[13]], 15));
    assert_eq!(page(13, None), (vec![tasks[1], tasks[0]], 15));
    assert_eq!(page(0, None).0.len(), 10, "the limit of a page holds whatever is asked for");
    assert_eq!(page(20, None), (vec![], 15));
    assert_eq!(page(0, Some(0)), (vec![], 15));
}

/// HAZARDS row F9.
#[test]
fn a_flood_of_submits_meets_a_limit() {
    let mut world = World::with(|settings| settings.waiting_max = 2);
    world.task();
    world.task();
    assert_eq!(refused(&world.submit(&Fields::new())), Code::LimitReached);
    world.apply("a");
    world.task();
}

/// Document, section 4.3: TASK_KEEP_HOURS; facts, 1.7: whole families only.
#[test]
fn finished_families_are_forgotten_in_their_time() {
    let mut world = World::new();
    let (alone, father) = (world.task(), world.task());
    world.apply("a");
    world.report("a", alone, Round(0), Phase::Finished);
    world.apply("a");
    let child = world.child(father);
    world.ask(Request::Kill(child));
    let mut left = |world: &mut World| {
        world.beat("a", Some((father, Round(0))));
        match world.ask(Request::TaskDetails(Filter::default(), Page { offset: 0, limit: None })) {
            Reply::Tasks { total, .. } => total,
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..1_250 {
        left(&mut world);
        world.pass(INTERVAL);
    }
    assert_eq!(left(&mut world), 2, "the family of a running father stays");
    world.report("a", father, Round(0), Phase::Finished);
    world.pass(Duration::from_secs(3700));
    assert_eq!(left(&mut world), 0);
}

#[test]
fn results_are_kept_within_a_bound() {
    let mut world = World::with(|settings| settings.keep_bytes_max = 3 * result(0).bytes());
    for _ in 0..5 {
        let task = world.task();
        world.apply("a");
        world.report("a", task, Round(0), Phase::Finished);
        world.pass(Duration::from_millis(1));
    }
    assert_eq!(world.ask(Request::TaskStatistic), Reply::Statistic([0, 0, 0, 0, 0, 3]));
}

#[test]
fn a_stopping_controller_answers_everyone() {
    let mut world = World::new();
    let task = world.task();
    world.apply("b");
    let parked = world.park("a");
    let (waiting, _) = world.ask_later(Request::Query(filter(words::TASK_ID, &task.to_string()), Some(INTERVAL)));
    world.controller.handle_stop();
    world.settle();
    let tickets: Vec<_> = world.replies.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [parked, waiting]);
    assert_eq!(refused(&world.submit(&Fields::new())), Code::Stopping);
}

/// A simple agent of any language (facts, 1.2): no session, no round, the result with FINISHED only.
#[test]
fn a_simple_agent_is_understood() {
    let mut world = World::new();
    let task = world.task();
    let mut say = |message| world.say_as("simple", 0, message).1;
    let report = |phase, result| {
        let times = PhaseTimes::default();
        FromAgent::Report(Box::new(Report { task, round: None, phase, times, result, wait: None }))
    };
    assert!(matches!(say(FromAgent::Apply(None)), Answer::Now(Reply::Assigned(_))));
    for phase in [Phase::Preparing, Phase::Running, Phase::Ended] {
        let answer = say(report(phase, None));
        assert!(matches!(answer, Answer::Now(Reply::Reported { refusal: None, .. })), "{answer:?}");
    }
    let answer = say(report(Phase::Finished, None));
    assert!(matches!(answer, Answer::Now(Reply::Reported { refusal: Some(r), .. }) if r.code == Code::BadField));
    let _ = say(report(Phase::Finished, Some(result(3))));
    assert_eq!(world.record(task).result().map(|result| result.exit_code), Some(ExitCode(3)));
}

/// The same seed and the same events give the same run, byte for byte.
#[test]
fn the_same_seed_replays_the_same_run() {
    let run = || {
        let mut world = World::new();
        let tasks: Vec<_> = (0..3).map(|_| world.task()).collect();
        world.apply("a");
        world.report("a", tasks[0], Round(0), Phase::Finished);
        format!("{:?} {:?}", world.pushes, tasks)
    };
    assert_eq!(run(), run());
}
