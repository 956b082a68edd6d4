//! Tools that stay (docs/stay.md), with the real binary and a tool in Python.

mod misbehaviour;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::sandbox::{Sandbox, eventually, found, names, signal};

const TOOL: &str = include_str!("tool.py");

/// Makes a tool that stays, with these terms.
fn make(sandbox: &Sandbox, name: &str, script: &str, terms: &str) {
    sandbox.write(&format!("tools/{name}/run.sh"), script.replace("os.environ[\"PLACE\"]", &place(sandbox)));
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(sandbox.path(&format!("tools/{name}/run.sh")), mode).expect("its own file");
    sandbox.write(&format!("tools/{name}/tool.toml"), format!("[stay]\n{terms}\n"));
    sandbox.ok(&format!("tool pack tools/{name}"));
}

fn place(sandbox: &Sandbox) -> String {
    format!("{:?}", sandbox.root())
}

/// A service with one agent and the tool.
fn serving(terms: &str, config: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.append("config.toml", config);
    make(&sandbox, "tool", TOOL, terms);
    sandbox.ok("up 1");
    sandbox
}

fn submit(sandbox: &Sandbox, task: &str) -> String {
    sandbox.ok(&format!("submit {task}")).line().to_owned()
}

fn query(sandbox: &Sandbox, id: &str) -> Value {
    sandbox.ok(&format!("query {id} --output wire")).json()
}

/// Runs a task, and returns what is known of it then.
fn run(sandbox: &Sandbox, task: &str) -> Value {
    let id = submit(sandbox, task);
    sandbox.llts(&format!("wait {id}"));
    query(sandbox, &id)
}

fn text<'a>(task: &'a Value, field: &str) -> &'a str {
    task[field].as_str().unwrap_or_default()
}

fn value(task: &Value) -> Value {
    serde_json::from_str(text(task, "__VALUE__")).unwrap_or_else(|error| panic!("{error}: {task}"))
}

/// The processes of the tool.
fn tools(sandbox: &Sandbox) -> Vec<i32> {
    let is_tool = |(_, line): &(i32, String)| line.contains("./run.sh") || line.starts_with("sleep 1000");
    sandbox.processes().into_iter().filter(is_tool).map(|(pid, _)| pid).collect()
}

#[test]
fn one_process_has_one_task_after_the_other() {
    let sandbox = serving("", "");
    let tasks: Vec<Value> = (0..3).map(|x| run(&sandbox, &format!("tool x={x}"))).collect();
    for (n, task) in (1..).zip(&tasks) {
        assert_eq!(value(task)["count"], n, "{task}");
        assert_eq!(value(task)["pid"], value(&tasks[0])["pid"]);
        assert_eq!(value(task)["x"], (n - 1).to_string());
        assert_eq!(task["__WARM__"], n > 1);
        assert_eq!(text(task, "__REPORT_LOG__"), format!("report {n}"));
        assert_eq!(text(task, "__STDOUT__"), format!("task {n}\n"), "that of this task alone");
        assert_eq!(text(task, "__STDERR__"), format!("trouble {n}\n"));
        assert_eq!((&task["__EXIT_CODE__"], text(task, "__OUTCOME__")), (&0.into(), "SUCCEEDED"));
    }
    let failed = run(&sandbox, "tool mode=fails");
    assert_eq!((&failed["__EXIT_CODE__"], text(&failed, "__OUTCOME__")), (&7.into(), "FAILED"));
    assert_eq!(run(&sandbox, "tool")["__WARM__"], true, "a failure is an answer");
    assert_eq!(tools(&sandbox).len(), 1);
    let work = names(&sandbox.path("work"));
    assert!(!work.iter().any(|name| name.starts_with("TASK_")), "{work:?}");
    sandbox.ends_clean();
}

#[test]
fn a_task_with_files_has_a_folder_of_its_own() {
    let sandbox = serving("folder = true", "");
    sandbox.write("in.txt", "some text");
    for _ in 0..2 {
        let task = run(&sandbox, "tool mode=folder --in in.txt --out out.txt");
        assert_eq!(value(&task), serde_json::json!(["in.txt", "out.txt"]), "{task}");
        assert!(text(&task, "__OUT_FILES__").contains("out.txt"), "{task}");
    }
    assert_eq!(run(&sandbox, "tool")["__WARM__"], true);
    sandbox.ends_clean();
}

#[test]
fn a_kill_is_a_line_first_and_ends_the_tool_with_its_task() {
    let sandbox = serving("", "");
    let begun = sandbox.path("begun");
    for (mode, code, report) in [("slow", 9, "gave up after kill"), ("hangs", -9, "")] {
        let id = submit(&sandbox, &format!("tool mode={mode}"));
        eventually("it has begun", || begun.exists());
        sandbox.ok(&format!("kill {id}"));
        sandbox.llts(&format!("wait {id}"));
        let task = query(&sandbox, &id);
        assert_eq!((&task["__EXIT_CODE__"], text(&task, "__OUTCOME__")), (&code.into(), "KILLED"), "{task}");
        assert_eq!(text(&task, "__REPORT_LOG__"), report);
        fs::remove_file(&begun).unwrap();
        assert_eq!(tools(&sandbox), [0; 0]);
        let next = run(&sandbox, "tool");
        assert_eq!((&next["__WARM__"], &value(&next)["count"]), (&false.into(), &1.into()), "a fresh process");
    }
    let late = run(&sandbox, "tool mode=hangs --timeout 1");
    assert_eq!(text(&late, "__OUTCOME__"), "TIMED_OUT", "{late}");
    sandbox.ends_clean();
}

#[test]
fn what_a_task_leaves_behind_is_ended_and_the_tool_stays() {
    let sandbox = serving("", "");
    let pid = &value(&run(&sandbox, "tool"))["pid"];
    for mode in ["leaves", "leaves-the-socket", "forks", "leaves"] {
        let task = run(&sandbox, &format!("tool mode={mode}"));
        assert_eq!((text(&task, "__OUTCOME__"), &task["__REAPED__"]), ("SUCCEEDED", &1.into()), "{mode}: {task}");
        assert_eq!(tools(&sandbox).len(), 1, "{mode}");
        assert_eq!(value(&run(&sandbox, "tool"))["pid"], *pid, "{mode}");
    }
    let log = sandbox.text("log/agent.log.agent-1");
    assert!(log.contains("has left process") && log.contains("(sleep)"), "{log}");
    sandbox.ends_clean();
}

#[test]
fn a_tool_ends_by_its_terms_and_with_a_new_version() {
    let sandbox = serving("max_tasks = 2\nidle = 1", "");
    let counts: Vec<Value> = (0..5).map(|_| value(&run(&sandbox, "tool"))["count"].clone()).collect();
    assert_eq!(counts, [1, 2, 1, 2, 1].map(Value::from));
    eventually("it ends when it is idle", || tools(&sandbox).is_empty());
    make(&sandbox, "tool", TOOL, "");
    eventually("the new terms are there", || value(&run(&sandbox, "tool"))["count"] == 3);
    make(&sandbox, "tool", &TOOL.replace("count += 1", "count += 10"), "");
    eventually("the new version is there", || value(&run(&sandbox, "tool"))["count"] == 10);
    eventually("the old one has ended", || tools(&sandbox).len() == 1);
    make(&sandbox, "tool", TOOL, "memory = 1");
    eventually("none stays above its memory", || {
        run(&sandbox, "tool")["__WARM__"] == false && tools(&sandbox).is_empty()
    });
    sandbox.ends_clean();
}

/// A large archive is recognised only when it has been read by then, which it is not just after it was packed.
#[test]
fn a_tool_that_was_just_packed_has_one_process() {
    let sandbox = serving("", "");
    let noise = (0..3_000_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8);
    sandbox.write("tools/tool/data", noise.collect::<Vec<u8>>());
    make(&sandbox, "tool", TOOL, "idle = 1000");
    for _ in 0..4 {
        assert_eq!(text(&run(&sandbox, "tool"), "__OUTCOME__"), "SUCCEEDED");
    }
    eventually("the other one has ended", || tools(&sandbox).len() == 1);
    sandbox.ends_clean();
}

#[test]
fn several_tools_stay_within_the_memory_of_the_agent() {
    let sandbox = serving("", "");
    make(&sandbox, "other", TOOL, "");
    run(&sandbox, "tool");
    run(&sandbox, "other");
    for tool in ["tool", "other", "tool"] {
        assert_eq!(run(&sandbox, tool)["__WARM__"], true);
    }
    assert_eq!(run(&sandbox, "-- true")["__EXIT_CODE__"], 0, "a command runs beside them");
    assert_eq!(tools(&sandbox).len(), 2);
    sandbox.ok("down");
    sandbox.append("config.toml", "STAY_MEMORY_MAX = 1");
    sandbox.ok("up 1");
    run(&sandbox, "tool");
    run(&sandbox, "other");
    eventually("the one that was used last stays", || tools(&sandbox).len() == 1);
    assert_eq!(run(&sandbox, "other")["__WARM__"], true);
    sandbox.ends_clean();
}

#[test]
fn no_tool_outlives_its_agent() {
    let sandbox = serving("", "");
    let agent = || found("the agent", || sandbox.pid("--name agent-1"));
    for is_busy in [false, true] {
        run(&sandbox, "tool");
        assert_eq!(tools(&sandbox).len(), 1);
        let task = is_busy.then(|| submit(&sandbox, "tool mode=slow --max-losses 0"));
        if is_busy {
            eventually("it has begun", || sandbox.path("begun").exists());
        }
        let killed = agent();
        signal(killed, Signal::KILL);
        eventually("the tool is gone", || tools(&sandbox).is_empty());
        eventually("another agent is there", || sandbox.pid("--name agent-1").is_some_and(|pid| pid != killed));
        if let Some(task) = task {
            sandbox.llts(&format!("wait {task}"));
            assert_eq!(text(&query(&sandbox, &task), "__OUTCOME__"), "LOST");
        }
    }
    sandbox.ends_clean();
}

#[test]
fn a_death_of_the_controller_keeps_the_tool() {
    let sandbox = serving("", "");
    let pid = value(&run(&sandbox, "tool"))["pid"].clone();
    let controller = || found("the controller", || sandbox.pid(" controller"));
    let killed = controller();
    signal(killed, Signal::KILL);
    eventually("another controller is there", || sandbox.pid(" controller").is_some_and(|pid| pid != killed));
    let after = run(&sandbox, "tool");
    assert_eq!((&value(&after)["pid"], &after["__WARM__"]), (&pid, &true.into()), "{after}");
    sandbox.ends_clean();
}

#[test]
fn the_outputs_of_a_task_are_read_while_it_runs_and_long_after() {
    let sandbox = serving("", "");
    let id = submit(&sandbox, "tool mode=slow");
    eventually("its output is there", || sandbox.llts(&format!("logs {id} --stdout")).out == "working\n");
    sandbox.ok(&format!("kill {id}"));
    let long = submit(&sandbox, "tool mode=prints size=300000");
    sandbox.llts(&format!("wait {long}"));
    run(&sandbox, "tool");
    assert_eq!(sandbox.ok(&format!("logs {long} --stdout")).out.len(), 300_000);
    run(&sandbox, "tool mode=late");
    sandbox.write("go", "");
    eventually("it has printed", || sandbox.path("gone").exists());
    let next = run(&sandbox, "tool");
    assert_eq!(text(&next, "__STDOUT__"), "task 4\n", "what came late belongs to no task: {next}");
    eventually("it is in the log", || sandbox.text("log/agent.log.agent-1").contains("\"too late\\n\""));
    let running = submit(&sandbox, "tool mode=progress");
    eventually("its progress is told", || query(&sandbox, &running)["__PROGRESS__"] == 0.5);
    sandbox.ok(&format!("kill {running}"));
    sandbox.ends_clean();
}

#[test]
fn a_value_has_a_limit() {
    let sandbox = serving("", "VALUE_BYTES_MAX = 1000");
    assert_eq!(value(&run(&sandbox, "tool mode=large size=998")).as_str().map(str::len), Some(998));
    let task = run(&sandbox, "tool mode=large size=999");
    assert_eq!((&task["__EXIT_CODE__"], text(&task, "__OUTCOME__")), (&(-136).into(), "FAILED"), "{task}");
    let reason = text(&task, "__REASON__");
    assert!(
        reason.contains("1001 bytes") && reason.contains("at most 1000") && reason.contains("VALUE_BYTES_MAX"),
        "{reason}"
    );
    assert_eq!(run(&sandbox, "tool")["__WARM__"], true, "the tool has done nothing wrong");
    sandbox.ends_clean();
}
