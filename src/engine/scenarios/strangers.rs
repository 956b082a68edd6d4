//! Scenarios of agents and senders that may not have commands.
#![cfg(test)]

use super::*;
use api::wire::requests::heartbeat::ToldTools;
use api::wire::requests::logs::TASK_OUTPUT;
use api::wire::rights::Repeated;
use base::ToolSet;

fn command(world: &mut World, job: &str) -> TaskId {
    let fields = Fields::new().with(words::SHELL, "deploy").with(words::ENV, r#"{"SECRET":"hunter2"}"#);
    match world.send(TASK_SUBMIT, &fields.with(words::JOB, job).with("password", "hunter2")) {
        Reply::Submitted { task, .. } => task,
        other => panic!("{other:?}"),
    }
}

fn says(world: &mut World, agent: &str, trusted: bool, message: FromAgent) -> Answer {
    let (ticket, agent) = (world.ticket(), AgentId::new(agent).unwrap());
    let sender = Sender { may_have_commands: trusted, ..Sender::new(agent, Session(1)) };
    let answer = world.controller.handle_agent(world.now, ticket, &sender, message);
    world.settle();
    answer
}

fn heartbeat(generation: u64, set: Option<ToolSet>) -> FromAgent {
    let tools = Some(ToldTools { generation: Some(generation), set });
    FromAgent::Heartbeat(Heartbeat { tools, ..Heartbeat::default() })
}

#[test]
fn an_agent_of_a_stranger_gets_tools_and_no_commands() {
    let mut world = World::new();
    let all = || Some(ToolSet::every().and_built_ins());
    let hidden = command(&mut world, "j");
    let Answer::Now(Reply::Heartbeat(heard)) = says(&mut world, "spy", false, heartbeat(1, all())) else { panic!() };
    assert_eq!(heard.tools, None, "it reports its list again when it comes another way");
    let apply = |world: &mut World, trusted| match says(world, "spy", trusted, FromAgent::Apply(None)) {
        Answer::Now(Reply::Assigned(record, _)) => Some(record.id),
        Answer::Now(Reply::Refused(refusal)) if refusal.code == Code::NoTask => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(apply(&mut world, false), None);
    let tool = world.task();
    assert_eq!(apply(&mut world, false), Some(tool));
    let incidents = world.controller.take_incidents();
    let told = |(kind, line): &&(IncidentKind, String)| *kind == IncidentKind::Refused && line.contains("spy");
    assert_eq!(incidents.iter().filter(told).count(), 1, "{incidents:?}");
    // The id of an agent that has reported commands is no way to them.
    world.exits("spy", tool, 0, 0);
    let _ = says(&mut world, "other", true, heartbeat(1, all()));
    assert!(matches!(says(&mut world, "other", false, FromAgent::Apply(None)), Answer::Now(Reply::Refused(_))));
    let _ = says(&mut world, "other", true, heartbeat(2, all()));
    let Answer::Now(Reply::Assigned(record, _)) = says(&mut world, "other", true, FromAgent::Apply(None)) else {
        panic!()
    };
    assert_eq!(record.id, hidden);
}

#[test]
fn a_task_and_a_job_with_a_command_are_known_as_such() {
    let mut world = World::new();
    let (tool, job) = (world.submitted(&Fields::new().with(words::JOB, "tools")), |name| JobName::new(name).unwrap());
    let command = command(&mut world, "commands");
    let has = |world: &World, repeated: Repeated<'_>| world.controller.has_command(repeated);
    assert_eq!(has(&world, Repeated::Task(tool)), Some(false));
    assert_eq!(has(&world, Repeated::Task(command)), Some(true));
    assert_eq!(has(&world, Repeated::Job(&job("tools"))), Some(false));
    assert_eq!(has(&world, Repeated::Job(&job("commands"))), Some(true));
    assert_eq!(has(&world, Repeated::Job(&job("none"))), None);
}

#[test]
fn a_stranger_sees_that_a_command_exists_and_nothing_of_it() {
    let mut world = World::new();
    let (tool, command) = (world.submitted(&Fields::new().with("p", "shown")), command(&mut world, "j"));
    world.kill(command);
    let seen = |world: &mut World, kind: Kind, fields: &Fields| {
        let mut reply = world.send(kind, fields);
        reply.hide_commands(|task| world.controller.has_command(Repeated::Task(task)));
        String::from_utf8(reply::encode(kind.word, &reply, PageBytes(1 << 20))).unwrap()
    };
    let of = |task: TaskId| Fields::new().with(words::TASK_ID, task.to_string());
    for (kind, fields) in [(TASK_QUERY, of(command)), (TASK_DETAILS, Fields::new()), (TASK_EXPLAIN, of(command))] {
        let text = seen(&mut world, kind, &fields);
        assert!(text.contains(&command.to_string()) && !text.contains("hunter2") && !text.contains("deploy"), "{text}");
    }
    assert!(seen(&mut world, TASK_DETAILS, &Fields::new()).contains("shown"), "a tool is as it was");
    assert!(seen(&mut world, TASK_OUTPUT, &of(command)).contains("-1011"));
    assert!(!seen(&mut world, TASK_OUTPUT, &of(tool)).contains("-1011"));
}
