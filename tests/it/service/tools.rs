//! Agents with tools folders of their own: a task goes where its tool is.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::service::sandbox::{Client, Sandbox, pack_tool};

const HELLO: (&str, &str) = ("hello", "echo hello > report.log");

/// A service without agents whose heartbeats are so rare that no test waits for one, and an empty tools folder.
fn with_a_folder(name: &str) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::start(0, &[HELLO]);
    let folder = sandbox.path(name);
    fs::create_dir(&folder).unwrap();
    (sandbox, folder)
}

fn of(folder: &Path) -> [(&'static str, String); 2] {
    let interval = ("LLTS_AGENT_HEARTBEAT_INTERVAL", "600000".to_owned());
    [("LLTS_AGENT_TOOLS_DIR", folder.display().to_string()), interval]
}

/// The tools of an agent, as a client can query them.
fn has(client: &Client, agent: &str, tools: &str) {
    client.until("AGENT/DETAILS", &json!({}), |agents| agents[agent]["__TOOLS__"] == tools);
}

/// The ends of so many tasks that were submitted at once, each with the agent that it ran on.
fn run(client: &Client, tool: &str, count: usize) -> Vec<(Value, Value)> {
    let tasks: Vec<_> = (0..count).map(|_| client.submit(tool, json!({}))).collect();
    let ends = tasks.iter().map(|task| client.end(task));
    ends.map(|end| (end["__OUTCOME__"].clone(), end["__AGENT_ID__"].clone())).collect()
}

/// A second machine on which a tool was forgotten fetches it.
#[test]
fn an_agent_without_a_tool_of_the_controllers_folder_runs_it_as_well() {
    let (mut sandbox, other) = with_a_folder("other");
    let client = sandbox.client();
    sandbox.agent("poor", &of(&other));
    sandbox.agent("rich", &of(&sandbox.path("testTools")));
    has(&client, "poor", "");
    has(&client, "rich", "hello");
    let ends = run(&client, "hello", 60);
    assert!(ends.iter().all(|(outcome, _)| outcome == "SUCCEEDED"), "{ends:?}");
    assert!(ends.iter().any(|(_, agent)| agent == "poor"), "{ends:?}");
}

/// A tool that only another agent has must not be looked for by one that lacks it.
#[test]
fn an_agent_without_a_tool_of_another_agent_gets_none_of_its_tasks() {
    let (mut sandbox, other) = with_a_folder("other");
    let client = sandbox.client();
    pack_tool(&sandbox.path(""), &other, "rare", "exit 0");
    sandbox.agent("poor", &of(&sandbox.path("testTools")));
    sandbox.agent("rich", &of(&other));
    has(&client, "poor", "hello");
    has(&client, "rich", "rare");
    assert_eq!(run(&client, "rare", 60), vec![(json!("SUCCEEDED"), json!("rich")); 60]);
}

#[test]
fn a_tool_that_comes_later_is_noticed_at_once() {
    let (mut sandbox, other) = with_a_folder("other");
    let client = sandbox.client();
    sandbox.agent("one", &of(&sandbox.path("testTools")));
    sandbox.agent("other", &of(&other));
    pack_tool(&sandbox.path(""), &other, "late", "exit 0");
    has(&client, "other", "late");
    assert_eq!(run(&client, "late", 4), vec![(json!("SUCCEEDED"), json!("other")); 4]);
    fs::remove_file(other.join("late.tar.gz")).unwrap();
    has(&client, "other", "");
}

/// An agent that does not answer does not hold the end up (docs/sources/controller.md, 2.7).
#[test]
fn a_task_of_a_tool_that_no_agent_has_ends_at_once() {
    let (mut sandbox, other) = with_a_folder("other");
    let client = sandbox.client();
    sandbox.agent("quick", &of(&sandbox.path("testTools")));
    sandbox.agent("slow", &of(&other));
    has(&client, "slow", "");
    sandbox.signal(2, Signal::STOP);
    let end = client.end(&client.submit("nowhere", json!({})));
    assert_eq!((&end["__EXIT_CODE__"], &end["__AGENT_ID__"]), (&json!(-129), &json!("quick")), "{end}");
    let refused = client.ask("TASK/SUBMIT", json!({ "__OPERATION__": "hell", "__REQUIRE_TOOL__": true }));
    assert_eq!(refused["__CODE__"], -1006, "{refused}");
    assert!(refused["__ERROR_MSG__"].as_str().unwrap().contains("did you mean hello?"), "{refused}");
    sandbox.signal(2, Signal::CONT);
}

#[test]
fn a_tools_folder_that_comes_later_is_noticed_at_once() {
    let mut sandbox = Sandbox::start(0, &[]);
    let client = sandbox.client();
    let deep = sandbox.path("not/yet/there");
    sandbox.agent("early", &of(&deep));
    fs::create_dir(sandbox.path("not")).unwrap();
    pack_tool(&sandbox.path(""), &deep, "late", "exit 0");
    has(&client, "early", "late");
}

/// A link gives no notice when what it leads to is gone: the agent believes that it has the tool when it gets the task.
#[test]
fn a_task_whose_tool_is_gone_is_given_to_another_agent() {
    let (mut sandbox, links) = with_a_folder("links");
    let client = sandbox.client();
    let inner = links.join("inner");
    let sure = sandbox.path("sure");
    for folder in [&inner, &sure] {
        pack_tool(&sandbox.path(""), folder, "rare", HELLO.1);
    }
    std::os::unix::fs::symlink("inner/rare.tar.gz", links.join("rare.tar.gz")).unwrap();
    sandbox.agent("linked", &of(&links));
    has(&client, "linked", "rare");
    assert_eq!(run(&client, "rare", 1), [(json!("SUCCEEDED"), json!("linked"))]);
    sandbox.agent("sure", &of(&sure));
    fs::remove_file(inner.join("rare.tar.gz")).unwrap();
    // The one that has waited longer gets the first task.
    let first = client.end(&client.submit("rare", json!({})));
    let told = (&first["__OUTCOME__"], &first["__AGENT_ID__"], &first["__FAILS__"], &first["0:__ROUND_END__"]);
    assert_eq!(told, (&json!("SUCCEEDED"), &json!("sure"), &Value::Null, &json!("NO_TOOL")), "{first}");
    assert_eq!(run(&client, "rare", 10), vec![(json!("SUCCEEDED"), json!("sure")); 10]);
    has(&client, "linked", "");
}

/// A machine whose disk is full has to fetch a tool that does not fit.
#[test]
fn a_task_for_which_an_agent_has_no_room_is_run_by_another_one() {
    let allowed =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).stderr(Stdio::null()).status();
    if !allowed.is_ok_and(|status| status.success()) {
        return println!("skipped: this user may not mount a tmpfs");
    }
    let (mut sandbox, other) = with_a_folder("other");
    let client = sandbox.client();
    // Bytes of chance cannot be compressed.
    let mut bytes = vec![0; 2_000_000];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    let chance: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pack_tool(&sandbox.path(""), &sandbox.path("testTools"), "large", &format!("exit 0\n# {chance}"));
    let small = sandbox.path("small");
    fs::create_dir(&small).unwrap();
    let state = ("LLTS_STATE_DIR", small.join("state").display().to_string());
    sandbox.agent_on_small_disk("small", (&small, 1000), &[&of(&other)[..], &[state]].concat());
    has(&client, "small", "");
    let alone = client.end(&client.submit("large", json!({})));
    let told = (&alone["__OUTCOME__"], &alone["__EXIT_CODE__"]);
    let why = alone["__REASON__"].as_str().unwrap();
    assert!(why.starts_with("the disk of agent small is full: cannot write"), "{alone}");
    assert!(why.contains(&small.display().to_string()) && why.contains("No space left on device"), "{why}");
    assert_eq!(told, (&json!("FAILED"), &json!(-131)), "{alone}");
    sandbox.agent("roomy", &of(&other));
    has(&client, "roomy", "");
    // The one that has waited longer gets the first task.
    let first = client.end(&client.submit("large", json!({})));
    let told = (&first["__OUTCOME__"], &first["__AGENT_ID__"], &first["__FAILS__"], &first["0:__ROUND_END__"]);
    assert_eq!(told, (&json!("SUCCEEDED"), &json!("roomy"), &Value::Null, &json!("DISK_FULL")), "{first}");
    assert_eq!(first["0:__AGENT_ID__"], "small", "{first}");
    assert_eq!(run(&client, "large", 10), vec![(json!("SUCCEEDED"), json!("roomy")); 10]);
}

/// -129 (docs/sources/controller.md, 2.7). A submit of a tool that no agent has is refused, so it is the end of tasks
/// whose archive vanishes.
#[test]
fn a_task_whose_archive_vanishes_before_its_start_ends_with_its_own_code() {
    let (mut sandbox, links) = with_a_folder("links");
    let client = sandbox.client();
    let inner = links.join("inner");
    pack_tool(&sandbox.path(""), &inner, "rare", HELLO.1);
    std::os::unix::fs::symlink("inner/rare.tar.gz", links.join("rare.tar.gz")).unwrap();
    sandbox.agent("only", &of(&links));
    has(&client, "only", "rare");
    fs::remove_file(inner.join("rare.tar.gz")).unwrap();
    let task = client.end(&client.submit("rare", json!({})));
    assert_eq!((&task["__EXIT_CODE__"], &task["__OUTCOME__"]), (&json!(-129), &json!("FAILED")), "{task}");
    let archive = links.join("rare.tar.gz").display().to_string();
    assert!(task["__REASON__"].as_str().unwrap().contains(&archive), "{task}");
    has(&client, "only", "");
}

#[test]
fn a_missing_tools_folder_is_said_at_the_start() {
    let mut sandbox = Sandbox::start(0, &[]);
    let nowhere = sandbox.path("nowhere");
    // A relative path, as it stands in most configurations.
    sandbox.agent("lost", &[("LLTS_AGENT_TOOLS_DIR", "nowhere".to_owned())]);
    let log = fs::read_to_string(sandbox.path("agent.log.lost")).unwrap();
    let warned = |line: &str| line.contains("WARN") && line.contains(&format!("{}", nowhere.display()));
    assert!(log.lines().any(warned), "{log}");
    let client = sandbox.client();
    let required = json!({ "__OPERATION__": "hello", "__REQUIRE_TOOL__": true });
    assert_eq!(client.code("TASK/SUBMIT", required), -1006, "no agent has it");
    pack_tool(&sandbox.path(""), &nowhere, "hello", HELLO.1);
    assert_eq!(run(&client, "hello", 1), [(json!("SUCCEEDED"), json!("lost"))], "the folder has come");
}
