//! Tasks that wait for others, and their slots.

use crate::cli::sandbox::{Program, Sandbox, Start as _, eventually, found};

/// The whole line is one argument.
fn run_sh(sandbox: &Sandbox, line: &str) -> Program {
    sandbox.command("run --sh").arg(line).start()
}

#[test]
fn tasks_that_wait_for_their_children_do_not_keep_the_only_agent() {
    let sandbox = Sandbox::up(1);
    let llts = env!("CARGO_BIN_EXE_llts");
    // The child waits for a child of its own.
    run_sh(&sandbox, &format!("{llts} run --sh '{llts} run -- echo inner'")).said().prints("inner\n");
    run_sh(&sandbox, &format!("{llts} map -- echo ::: 1 2 | sort")).said().prints("1\n2\n");
    run_sh(&sandbox, &format!("{llts} wait $({llts} submit -- true)")).said().ok();
    // An agent that has left may still be ending, and one that was lent late has not come yet.
    eventually("the agents that were lent are gone", || {
        let lent_processes = sandbox.processes().iter().filter(|(_, line)| line.contains("lent-agent")).count();
        lent_processes == 0 && sandbox.agents().iter().filter(|agent| agent["__STATE__"] != "LEFT").count() == 1
    });
    sandbox.ends_clean();
}

#[test]
fn without_slots_to_lend_the_wait_is_explained() {
    let sandbox = Sandbox::new();
    sandbox.configure("AGENT_LEND_MAX = 0\n");
    sandbox.ok("up 1");
    let waiting = run_sh(&sandbox, &format!("{} run -- echo inner", env!("CARGO_BIN_EXE_llts")));
    let of = |status: &str| {
        let rows = sandbox.ok(&format!("list --status {status} --output wire")).json();
        rows["tasks"][0]["__TASK_ID__"].as_str().map(str::to_owned)
    };
    let (child, parent) = (found("the child waits", || of("WAITING")), found("the parent runs", || of("RUNNING")));
    for (task, says) in [(&child, "none becomes free"), (&parent, "children of it wait")] {
        let why = sandbox.ok(&format!("explain {task}")).out;
        assert!(why.contains("(agent-1) run tasks that wait") && why.contains(says), "{why}");
    }
    eventually("it is an incident", || sandbox.ok("incidents --kind slots_held").out.contains("agent-1 run tasks"));
    sandbox.ok(&format!("kill {parent}"));
    assert_ne!(waiting.said().code, Some(0));
    sandbox.ends_clean();
}
