//! Scenarios of the tools that the controller holds: pinned versions, agents that fetch them, and their removal.
#![cfg(test)]

use super::*;
use api::wire::requests::heartbeat::ToldTools;
use api::wire::requests::tool::{ToolGet, ToolPart};
use api::wire::{Refusal, tool_manifest};
use base::{ToolPaths, ToolSet};

fn tool(name: &str) -> ToolName {
    ToolName::new(name).unwrap()
}

/// Version number `n` of any tool.
pub(super) fn version(n: u8) -> ToolDigest {
    ToolDigest::new([n; 32])
}

impl World {
    pub(super) fn held(&self, name: &str, n: u8) -> HeldTool {
        HeldTool {
            name: tool(name),
            digest: version(n),
            size: 1000,
            at: self.now.wall,
            by: "ada@box".into(),
            manifest: None,
            paths: ToolPaths::default(),
        }
    }

    pub(super) fn carried_out(&mut self, outcome: ToolOutcome) {
        self.controller.handle_tool(self.now, outcome);
        self.settle();
    }

    /// A version was pushed under a name.
    pub(super) fn is_pushed(&mut self, held: HeldTool) {
        self.archives.insert(held.digest, held.size);
        self.pushed.retain(|other| other.name != held.name);
        self.pushed.push(held.clone());
        let ticket = self.ticket();
        self.carried_out(ToolOutcome::Written(ticket, Ok(Written::Whole(Box::new(held)))));
    }

    /// The archive in the folder has changed; the shell tells that before the submit that names it.
    pub(super) fn has_changed(&mut self, name: &str) {
        self.controller.handle_archive_changed(self.now, &tool(name));
        self.settle();
    }

    pub(super) fn is_taken(&mut self, name: &str, held: Option<HeldTool>) {
        self.archives.extend(held.iter().map(|held| (held.digest, held.size)));
        self.carried_out(ToolOutcome::Taken(tool(name), held));
    }

    /// An agent that fetches tools, and has these itself.
    pub(super) fn fetcher(&mut self, agent: &str, tools: &str) {
        let set = Some(ToolSet::parse(tools).unwrap().and_built_ins());
        let told = Some(ToldTools { generation: Some(1), set });
        let _ = self.say(agent, FromAgent::Heartbeat(Heartbeat { tools: told, ..Heartbeat::default() }));
    }

    fn run_of(&mut self, name: &str) -> TaskId {
        self.submitted(&Fields::new().with(words::OPERATION, name))
    }

    pub(super) fn pin(&self, task: TaskId) -> Option<ToolDigest> {
        self.stored[&task].pin
    }

    fn submit_later(&mut self, name: &str) -> (Ticket, Answer) {
        self.submit_fields_later(Fields::new().with(words::OPERATION, name))
    }

    pub(super) fn submit_fields_later(&mut self, fields: Fields) -> (Ticket, Answer) {
        let fields = fields.with(words::TYPE, TASK_SUBMIT.word);
        match requests::parse(&json::to_vec(&fields), &rules()) {
            Ok((_, Message::Client(request))) => self.ask_later(request),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn orders(&mut self) -> Vec<ToolOrder> {
        std::mem::take(&mut self.tool_orders)
    }
}

#[test]
fn each_task_runs_the_version_that_was_there_when_it_was_accepted() {
    let mut world = World::new();
    world.fetcher("a", "");
    world.is_pushed(world.held("x", 1));
    let first = world.run_of("x");
    world.is_pushed(world.held("x", 2));
    let second = world.run_of("x");
    world.restart();
    let third = world.run_of("x");
    assert_eq!([first, second, third].map(|task| world.pin(task)), [1, 2, 2].map(|n| Some(version(n))));
    world.fetcher("a", "");
    for task in [first, second, third] {
        let (given, round) = world.apply("a").unwrap();
        assert_eq!(given, task, "an agent without the tool gets it");
        world.report("a", task, round, Phase::Finished);
    }
}

#[test]
fn an_agent_that_cannot_fetch_gets_no_task_whose_tool_it_lacks() {
    let mut world = World::new();
    world.is_pushed(world.held("x", 1));
    let task = world.run_of("x");
    let plain = Heartbeat {
        tools: Some(ToldTools { generation: Some(1), set: Some(ToolSet::parse("y").unwrap()) }),
        ..Heartbeat::default()
    };
    let _ = world.say("old", FromAgent::Heartbeat(plain));
    world.fetcher("new", "y");
    assert_eq!(world.apply("old"), None);
    assert_eq!(world.apply("new"), Some((task, Round(0))));
}

/// Tasks wait for the agent that has the tool until the controller has it, too.
#[test]
fn a_push_lets_every_agent_that_fetches_run_the_waiting_tasks() {
    let mut world = World::new();
    world.fetcher("owner", "x");
    world.fetcher("other", "");
    let (first, second) = (world.run_of("x"), world.run_of("x"));
    assert_eq!(world.apply("owner"), Some((first, Round(0))));
    assert_eq!(world.apply("other"), None, "the owner has it");
    world.is_pushed(world.held("x", 1));
    assert_eq!(world.apply("other"), Some((second, Round(0))));
    assert_eq!(world.pin(second), Some(version(1)), "it needs a version to fetch");
    assert_eq!(world.pin(first), None);
}

#[test]
fn a_removed_tool_is_kept_for_the_tasks_that_have_pinned_it() {
    let mut world = World::with(|settings| settings.tools.keep = Duration::from_secs(10));
    world.fetcher("a", "");
    world.is_pushed(world.held("x", 1));
    let task = world.run_of("x");
    let ticket = world.ticket();
    world.carried_out(ToolOutcome::Removed(ticket, tool("x"), Ok(())));
    world.pass(Duration::from_secs(20));
    assert_eq!(world.orders(), [], "a task needs it");
    world.fetcher("a", "");
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    world.report("a", task, Round(0), Phase::Finished);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.orders(), []);
    world.pass(Duration::from_secs(6));
    assert_eq!(world.orders(), [ToolOrder::Discard(version(1))]);
}

#[test]
fn a_version_that_is_named_again_is_not_removed() {
    let mut world = World::with(|settings| settings.tools.keep = Duration::from_secs(10));
    world.is_pushed(world.held("x", 1));
    world.is_pushed(world.held("x", 2));
    world.pass(Duration::from_secs(5));
    world.is_pushed(world.held("x", 1));
    world.pass(Duration::from_secs(20));
    assert_eq!(world.orders(), [ToolOrder::Discard(version(2))]);
}

#[test]
fn a_submit_waits_until_a_changed_archive_was_read_and_pins_that() {
    let mut world = World::new();
    world.fetcher("a", "x");
    world.has_changed("x");
    world.has_changed("x");
    assert_eq!(world.orders(), [ToolOrder::Take(tool("x"))], "it is read once");
    let first = world.submit_later("x");
    let second = world.submit_later("y");
    assert_eq!(
        [&first.1, &second.1],
        [&Answer::Later, &Answer::Later],
        "later ones of the connection keep their order"
    );
    world.is_taken("x", Some(world.held("x", 7)));
    let replies = std::mem::take(&mut world.replies);
    let tickets: Vec<Ticket> = replies.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [first.0, second.0]);
    let Reply::Submitted { task, .. } = replies[0].1 else { panic!("{replies:?}") };
    assert_eq!(world.pin(task), Some(version(7)));
}

#[test]
fn the_folder_of_the_controller_goes_before_a_pushed_version() {
    let mut world = World::new();
    world.is_pushed(world.held("x", 1));
    world.has_changed("x");
    world.is_taken("x", Some(world.held("x", 2)));
    let task = world.run_of("x");
    assert_eq!(world.pin(task), Some(version(2)));
    world.has_changed("x");
    world.is_taken("x", None);
    let task = world.run_of("x");
    assert_eq!(world.pin(task), Some(version(1)), "the archive is gone");
}

#[test]
fn a_connection_that_is_gone_gets_no_answer_to_a_submit_that_waits() {
    let mut world = World::new();
    world.has_changed("x");
    let (ticket, _) = world.submit_later("x");
    assert_eq!(world.controller.handle_disconnected(ticket.connection), [ticket]);
    world.is_taken("x", None);
    assert!(world.replies.is_empty() && world.stored.is_empty());
}

/// However many agents fetch, few parts are read at a time, and each gets its turn.
#[test]
fn a_few_parts_are_read_at_a_time() {
    let mut world = World::with(|settings| settings.tools.parts_max = 2);
    world.is_pushed(world.held("x", 1));
    let get = ToolGet { digest: version(1), offset: 0, is_doubted: false };
    let tickets: Vec<Ticket> = (0..5).map(|n| world.say(&format!("a{n}"), FromAgent::ToolGet(get)).0).collect();
    let mut read = Vec::new();
    world.replies.clear();
    loop {
        let orders = world.orders();
        assert!(orders.len() <= 2, "{orders:?}");
        let Some(ToolOrder::Read { ticket, digest, offset, .. }) = orders.first().cloned() else { break };
        for order in orders {
            let ToolOrder::Read { ticket, .. } = order else { panic!("{order:?}") };
            read.push(ticket);
            world.carried_out(ToolOutcome::Read(ticket, Ok(ToolPart::new((digest, offset), 1000, b"x"))));
        }
        let _ = ticket;
    }
    assert_eq!(read, tickets);
    assert_eq!(world.replies.len(), 5);
}

#[test]
fn an_agent_is_not_given_a_version_that_the_store_has_lost() {
    let mut world = World::new();
    world.fetcher("a", "");
    world.is_pushed(world.held("x", 1));
    let get = ToolGet { digest: version(1), offset: 0, is_doubted: true };
    let (ticket, _) = world.say("a", FromAgent::ToolGet(get));
    let refusal = Refusal::new(Code::NotAllowed, "damaged");
    world.carried_out(ToolOutcome::Read(ticket, Err(ReadFailure { digest: version(1), is_lost: true, refusal })));
    let task = world.run_of("x");
    world.fetcher("b", "");
    let (_, answer) = world.say("b", FromAgent::ToolGet(get));
    assert!(matches!(answer, Answer::Now(Reply::Refused(_))), "{answer:?}");
    let why = world.why(task);
    assert!(why.contains("no agent has its tool x"), "{why}");
}

#[test]
fn parameters_are_checked_and_filled_in_by_the_tool() {
    let mut world = World::new();
    let text = "[parameters.in]\nrequired = true\n[parameters.n]\ntype = \"integer\"\ndefault = 3\n";
    let manifest = Some(std::sync::Arc::new(tool_manifest::parse(text).unwrap()));
    world.is_pushed(HeldTool { manifest, ..world.held("x", 1) });
    let fields = Fields::new().with(words::OPERATION, "x");
    let Reply::Refused(refusal) = world.submit(&fields) else { panic!("a required parameter is missing") };
    assert!(refusal.message.contains("needs the parameter in"), "{refusal}");
    let task = world.submitted(&fields.with("in", "a").with(words::SUBMIT_KEY, "k"));
    assert!(world.stored[&task].submitted.contains("\"n\":3"), "{}", world.stored[&task].submitted);
}

#[test]
fn explain_tells_how_far_a_fetch_has_come() {
    let mut world = World::new();
    world.fetcher("a", "");
    world.is_pushed(world.held("x", 1));
    let task = world.run_of("x");
    assert_eq!(world.apply("a"), Some((task, Round(0))));
    let _ = world.say("a", FromAgent::ToolGet(ToolGet { digest: version(1), offset: 400, is_doubted: false }));
    let why = world.why(task);
    assert!(why.contains("agent a fetches") && why.contains("400 of 1000 bytes"), "{why}");
    world.report("a", task, Round(0), Phase::Running);
    assert!(!world.why(task).contains("fetches"), "{}", world.why(task));
}
