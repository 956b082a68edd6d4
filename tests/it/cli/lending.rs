//! Tasks that wait for others, and their slots.

use crate::cli::sandbox::{Sandbox, eventually};

/// The whole line is one argument.
fn run_sh(sandbox: &Sandbox, line: &str) -> std::process::Child {
    let mut command = sandbox.command("run --sh");
    sandbox.spawn(command.arg(line))
}

#[test]
fn tasks_that_wait_for_their_children_do_not_keep_the_only_agent() {
    let sandbox = Sandbox::new();
    sandbox.ok("up 1");
    let llts = env!("CARGO_BIN_EXE_llts");
    // The child waits for a child of its own.
    let said = sandbox.said(run_sh(&sandbox, &format!("{llts} run --sh '{llts} run -- echo inner'")));
    assert_eq!((said.code, said.out.as_str()), (Some(0), "inner\n"), "{said:?}");
    let said = sandbox.said(run_sh(&sandbox, &format!("{llts} map -- echo ::: 1 2 | sort")));
    assert_eq!((said.code, said.out.as_str()), (Some(0), "1\n2\n"), "{said:?}");
    let said = sandbox.said(run_sh(&sandbox, &format!("{llts} wait $({llts} submit -- true)")));
    assert_eq!(said.code, Some(0), "{said:?}");
    eventually("the agents that were lent are gone", || {
        sandbox.agents().iter().filter(|agent| agent["__STATE__"] != "LEFT").count() <= 1
    });
    assert!(!sandbox.processes().iter().any(|(_, line)| line.contains("lent-agent")), "{:?}", sandbox.processes());
    sandbox.ok("down");
    sandbox.is_clean();
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
    eventually("the child waits", || of("WAITING").is_some());
    let (child, parent) = (of("WAITING").expect("it waits"), of("RUNNING").expect("it runs"));
    for (task, says) in [(&child, "none becomes free"), (&parent, "children of it wait")] {
        let why = sandbox.ok(&format!("explain {task}")).out;
        assert!(why.contains("(agent-1) run tasks that wait") && why.contains(says), "{why}");
    }
    eventually("it is an incident", || sandbox.ok("incidents --kind slots_held").out.contains("agent-1 run tasks"));
    sandbox.ok(&format!("kill {parent}"));
    assert_ne!(sandbox.said(waiting).code, Some(0));
    sandbox.ok("down");
    sandbox.is_clean();
}
