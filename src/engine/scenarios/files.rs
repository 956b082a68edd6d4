//! Scenarios of files that travel with tasks: which the store must have, and how long it has them.
#![cfg(test)]

use super::archives::version;
use super::*;
use api::wire::requests::file::{FilePut, Maker};
use api::wire::requests::forget::TASK_FORGET;
use api::wire::version::Version;
use base::{FileName, KeptFile, KeptFiles};

impl World {
    /// A file of 1,000 bytes is in the store.
    fn is_put(&mut self, n: u8) {
        self.archives.insert(version(n), 1000);
        let ticket = self.ticket();
        let written = FileWritten { digest: version(n), end: 1000, is_whole: true };
        self.carried_out(ToolOutcome::FileWritten(ticket, Ok(written)));
    }

    /// A task with this input, whose outputs are kept.
    fn with_input(&mut self, n: u8) -> Reply {
        let inputs = format!(r#"{{"a": "{}"}}"#, version(n));
        self.submit(&Fields::new().with(words::IN, inputs).with(words::OUT, r#"["*"]"#))
    }

    fn task_with_input(&mut self, n: u8) -> TaskId {
        match self.with_input(n) {
            Reply::Submitted { task, .. } => task,
            other => panic!("{other:?}"),
        }
    }

    /// The run of a task ends, and this file of it is kept.
    fn ends_with(&mut self, task: TaskId, n: u8) {
        self.handles_files("a");
        let (given, round) = self.apply("a").unwrap();
        assert_eq!(given, task);
        self.is_put(n);
        let file =
            KeptFile { name: FileName::new("b").unwrap(), digest: version(n), bytes: 1000, is_executable: false };
        let files = Some(Box::new(KeptFiles { files: vec![file], ..KeptFiles::default() }));
        self.ends("a", task, round, RunResult { files, ..result(0) });
    }

    /// An agent of this version reports its state.
    fn handles_files(&mut self, agent: &str) {
        let _ =
            self.say(agent, FromAgent::Heartbeat(Heartbeat { version: Some(Version::ours()), ..Heartbeat::default() }));
    }

    fn put(&mut self, n: u8, total: u64) -> Answer {
        let put = FilePut { is_trusted: !self.is_stranger, ..FilePut::begin(version(n), total) };
        self.ask_later(Request::FilePut(Box::new(put))).1
    }
}

#[test]
fn a_submit_needs_its_inputs_in_the_store() {
    let mut world = World::new();
    let Reply::Refused(refusal) = world.with_input(1) else { panic!("the controller does not hold it") };
    assert_eq!(refusal.code, Code::BadField);
    assert!(refusal.message.contains(&version(1).to_string()) && refusal.message.contains("\"a\""), "{refusal}");
    world.is_put(1);
    world.task_with_input(1);
}

/// It would run without its inputs, and its outputs would be lost.
#[test]
fn a_simple_agent_gets_no_task_with_files() {
    let mut world = World::new();
    let _ = world.say("simple", FromAgent::Heartbeat(Heartbeat::default()));
    world.park("simple");
    world.is_put(1);
    world.replies.clear();
    let task = world.task_with_input(1);
    assert_eq!(world.replies, []);
    let why = world.why(task);
    assert!(why.contains("files travel with it") && why.contains("__WIRE_VERSION__"), "{why}");
    world.restart();
    let _ = world.say("simple", FromAgent::Heartbeat(Heartbeat::default()));
    assert_eq!(world.apply("simple"), None, "also after a restart");
    world.handles_files("full");
    assert_eq!(world.apply("full").map(|(given, _)| given), Some(task));
}

#[test]
fn a_file_lives_as_long_as_a_task_names_it() {
    let mut world = World::new();
    world.is_put(1);
    let (first, second) = (world.task_with_input(1), world.task_with_input(1));
    world.ends_with(first, 2);
    world.restart();
    world.pass(Duration::from_mins(1));
    assert_eq!(world.do_to(TASK_FORGET, first), Reply::Done);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.orders(), [ToolOrder::Discard(version(2))], "the second task names the input");
    world.archives.remove(&version(2));
    world.ends_with(second, 3);
    assert_eq!(world.do_to(TASK_FORGET, second), Reply::Done);
    assert_eq!(world.orders(), [], "the store has not committed that it is gone");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.orders(), [1, 3].map(|n| ToolOrder::Discard(version(n))));
}

/// Its inputs stay; the files of its last run are replaced by those of the next one.
#[test]
fn a_retried_task_keeps_its_inputs() {
    let mut world = World::new();
    world.is_put(1);
    let task = world.task_with_input(1);
    world.ends_with(task, 2);
    world.ask(Request::Retry(task));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.orders(), [ToolOrder::Discard(version(2))]);
    world.ends_with(task, 3);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.orders(), []);
}

#[test]
fn a_file_that_no_task_ever_named_is_removed_after_a_while() {
    let mut world = World::with(|settings| settings.tools.keep = Duration::from_secs(10));
    world.is_put(1);
    world.pass(Duration::from_secs(9));
    assert_eq!(world.orders(), []);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.orders(), [ToolOrder::Discard(version(1))]);
}

#[test]
fn the_bytes_of_the_store_have_a_limit() {
    let mut world = World::with(|settings| settings.tools.store_bytes_max = 2500);
    world.is_put(1);
    world.is_put(2);
    let Answer::Now(Reply::Refused(refusal)) = world.put(3, 501) else { panic!("it is full") };
    assert!(refusal.code == Code::LimitReached && refusal.message.contains("FILE_STORE_BYTES_MAX"), "{refusal}");
    assert_eq!(world.put(3, 500), Answer::Later);
    assert_eq!(world.put(1, 1000), Answer::Later, "the store has it already");
}

#[test]
fn a_submit_that_waits_for_its_tool_to_be_read_may_put_its_files_then() {
    let mut world = World::new();
    world.is_stranger = true;
    world.has_changed("t");
    let inputs = format!(r#"{{"a": "{}"}}"#, version(1));
    let fields = Fields::new().with(words::OPERATION, "t").with(words::IN, inputs);
    assert_eq!(world.submit_fields_later(fields).1, Answer::Later);
    world.is_taken("t", Some(world.held("t", 7)));
    assert_eq!(world.put(1, 10), Answer::Later);
}

/// The sender of the last file that the shell was told to write, and the bytes that it may use.
fn last_room(world: &mut World) -> FileRoom {
    match world.orders().pop() {
        Some(ToolOrder::WriteFile(_, _, room)) => room,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_that_may_not_send_commands_puts_what_its_submit_lacks() {
    let mut world = World::with(|settings| settings.tools.store_bytes_max = 2500);
    world.is_stranger = true;
    let Answer::Now(Reply::Refused(refusal)) = world.put(1, 10) else { panic!("no submit waits for it") };
    assert!(refusal.code == Code::NotAllowed && refusal.message.contains("submit the task first"), "{refusal}");
    assert!(matches!(world.with_input(1), Reply::Refused(_)));
    let Answer::Now(Reply::Refused(refusal)) = world.put(2, 10) else { panic!("it is another file") };
    assert_eq!(refusal.code, Code::NotAllowed);
    assert_eq!(world.put(1, 10), Answer::Later);
    let connection = world.ticket().connection;
    let room = last_room(&mut world);
    assert_eq!(room, FileRoom { uploader: Uploader::Stranger(connection), bytes: 1250 }, "half of the store");
    let _ = world.controller.handle_disconnected(connection);
    world.settle();
    assert_eq!(world.orders(), [ToolOrder::Abandon(connection)]);
    let Answer::Now(Reply::Refused(_)) = world.put(1, 10) else { panic!("it has to submit again") };
}

#[test]
fn an_agent_puts_the_files_of_its_run() {
    let mut world = World::new();
    world.is_put(1);
    let task = world.task_with_input(1);
    world.handles_files("a");
    assert_eq!(world.apply("a").map(|(given, _)| given), Some(task));
    let mut put = |agent: Option<&str>| {
        let maker = |agent| Maker { agent: AgentId::new(agent).unwrap(), session: Session(1), task };
        let put = FilePut { run: agent.map(maker), ..FilePut::begin(version(2), 10) };
        world.ask_later(Request::FilePut(Box::new(put))).1
    };
    assert!(matches!(put(None), Answer::Now(Reply::Refused(_))));
    assert_eq!(put(Some("a")), Answer::Later);
    assert_eq!(put(Some("b")), Answer::Later, "the task may wait for it");
    let rooms: Vec<_> = world.orders().into_iter().collect();
    let uploaders = rooms.iter().map(|order| match order {
        ToolOrder::WriteFile(_, _, room) => room.uploader == Uploader::Run,
        other => panic!("{other:?}"),
    });
    assert_eq!(uploaders.collect::<Vec<_>>(), [true, false]);
}

/// An interpreter may run a file for its name.
#[test]
fn inputs_of_a_client_that_may_not_send_commands_come_where_the_tool_expects_them() {
    let mut world = World::new();
    world.is_put(1);
    let inputs = |names: &[&str]| {
        let members = names.iter().map(|name| format!(r#""{name}": "{}""#, version(1)));
        Fields::new().with(words::IN, format!("{{{}}}", members.collect::<Vec<_>>().join(",")))
    };
    let placed = |world: &mut World, names: &[&str]| {
        let Reply::Submitted { task, warning, .. } = world.submit(&inputs(names)) else { panic!("{names:?}") };
        let files = world.record(task).files.clone().unwrap();
        let places: Vec<_> = files.inputs.iter().map(|input| input.name.as_str().to_owned()).collect();
        assert!(world.record(task).submitted.contains(&places[0]), "also after a restart");
        (places.join(" "), warning.unwrap_or_default())
    };
    assert_eq!(placed(&mut world, &["json.py", "in/x"]), ("json.py in/x".to_owned(), String::new()));
    world.is_stranger = true;
    let (places, warning) = placed(&mut world, &["json.py", "in/x"]);
    assert_eq!(places, "in/json.py in/x");
    assert!(warning.contains("in/ of the folder of the task") && warning.contains("tool.toml"), "{warning}");
    let manifest = api::wire::tool_manifest::parse("inputs = [\"*.csv\"]").unwrap();
    world.is_pushed(HeldTool { manifest: Some(Arc::new(manifest)), ..world.held("t", 2) });
    assert_eq!(placed(&mut world, &["a.csv"]), ("a.csv".to_owned(), String::new()));
    assert_eq!(placed(&mut world, &["a.csv", "json.py"]).0, "a.csv in/json.py");
    let Reply::Refused(refusal) = world.submit(&inputs(&["x", "in/x"])) else { panic!("they are one place") };
    assert!(refusal.message.contains("\"in/x\" stands there twice"), "{refusal}");
}
