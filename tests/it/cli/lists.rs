//! Lists of short tasks, as their users see them: nothing waits behind a long task, and a killed agent loses one task.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::cli::sandbox::{Program, Sandbox, Start as _, eventually, signal};

/// A map whose tasks each note their line, and whose line 100 waits for a file before that.
const SCRIPT: &str = "[ $1 != 100 ] || until [ -e go ]; do sleep 0.01; done; echo $1 >> noted";

fn map(sandbox: &Sandbox, lines: u32) -> Program {
    let mut command = sandbox.command("map");
    command.args(["--job", "j", "--", "sh", "-c", SCRIPT, "_"]);
    let mut child = command.stdin(Stdio::piped()).start();
    let mut stdin = child.stdin.take().expect("a pipe");
    let lines: String = (1..=lines).map(|number| format!("{number}\n")).collect();
    stdin.write_all(lines.as_bytes()).expect("it reads all");
    child
}

/// How often each line was noted.
fn noted(sandbox: &Sandbox) -> BTreeMap<String, u32> {
    let mut noted = BTreeMap::new();
    for line in fs::read_to_string(sandbox.path("noted")).unwrap_or_default().lines() {
        *noted.entry(line.to_owned()).or_default() += 1;
    }
    noted
}

#[test]
fn short_tasks_do_not_wait_behind_a_long_one() {
    let sandbox = Sandbox::up(2);
    let child = map(&sandbox, 400);
    eventually("the others have run", || noted(&sandbox).len() == 399);
    assert!(!noted(&sandbox).contains_key("100"), "it waits");
    fs::write(sandbox.path("go"), "").expect("written");
    child.said().ok();
    assert!(noted(&sandbox).values().all(|count| *count == 1), "{:?}", noted(&sandbox));
    assert_eq!(noted(&sandbox).len(), 400);
}

#[test]
fn a_killed_agent_loses_the_task_that_it_ran_and_no_other_one() {
    let sandbox = Sandbox::up(2);
    fs::write(sandbox.path("go"), "").expect("written");
    let child = map(&sandbox, 600);
    for count in [100, 250, 400] {
        eventually("many have run", || noted(&sandbox).len() >= count);
        let is_up = || sandbox.processes().iter().any(|(_, line)| line.trim_end().ends_with("agent --name agent-1"));
        eventually("the agent is there", is_up);
        signal(sandbox.process("agent --name agent-1"), Signal::KILL);
    }
    child.said().ok();
    let noted = noted(&sandbox);
    assert_eq!(noted.len(), 600);
    // The one that an agent ran when it was killed may have noted its line before.
    let twice = noted.values().filter(|count| **count > 1).count();
    assert!(twice <= 3 && noted.values().all(|count| *count <= 2), "{twice} of {noted:?}");
    let job = sandbox.ok("job j --output wire").json();
    assert_eq!(job["SUCCEEDED"], 600, "{job}");
}

#[test]
fn a_restart_runs_no_task_of_a_list_twice() {
    let sandbox = Sandbox::up(2);
    fs::write(sandbox.path("go"), "").expect("written");
    let child = map(&sandbox, 3000);
    eventually("many have run", || noted(&sandbox).len() >= 100);
    sandbox.ok("restart");
    child.said().ok();
    let noted = noted(&sandbox);
    let twice: Vec<_> = noted.iter().filter(|(_, count)| **count > 1).collect();
    assert!(noted.len() == 3000 && twice.is_empty(), "{} lines, twice: {twice:?}", noted.len());
}
