//! `llts store` on a store that is damaged.

use std::fs;

use crate::cli::sandbox::{Sandbox, eventually, kill_all, names};

const TASKS: u64 = 20;

/// Kills everything that runs here, the supervisor first, as a power cut would.
fn kill_everything(sandbox: &Sandbox) {
    let supervisor = sandbox.process("--agents 1");
    kill_all([supervisor].into_iter().chain(sandbox.processes().into_iter().map(|(pid, _)| pid)));
    eventually("everything has ended", || sandbox.processes().is_empty());
}

#[test]
fn a_damaged_log_is_refused_until_it_is_repaired() {
    let sandbox = Sandbox::serving(1, &[("later", "true")]);
    for _ in 0..TASKS {
        sandbox.ok("submit later --start-after +1h");
    }
    kill_everything(&sandbox);
    let log = sandbox.path("state/tasks.sqlite-wal");
    let mut bytes = fs::read(&log).unwrap();
    // Behind its content the file has zeros.
    let content = bytes.iter().rposition(|byte| *byte != 0).expect("frames");
    let middle = content / 2;
    bytes[middle] ^= 1;
    fs::write(&log, &bytes).unwrap();

    for line in ["up 1", "store check", "store export"] {
        let said = sandbox.llts(line);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{line}: {said:?}");
        assert!(said.err.contains("tasks.sqlite-wal") && said.err.contains("llts store repair"), "{line}: {said:?}");
    }
    sandbox.llts("store repair").failed(2, "--yes");
    assert_eq!(fs::read(&log).unwrap(), bytes, "without a yes nothing is done");

    let said = sandbox.ok("store repair --yes --output wire").json();
    let unreadable = said["unreadable"].as_array().unwrap().len();
    let tasks = said["tasks"].as_u64().unwrap();
    assert!(tasks == TASKS || (tasks == TASKS - 1 && unreadable > 0), "{said}");
    assert_eq!(fs::read(sandbox.path("state/damaged-1/tasks.sqlite-wal")).unwrap(), bytes, "the damaged log is kept");
    assert!(
        !names(&sandbox.path("state")).iter().any(|name| name.contains("repair")),
        "{:?}",
        names(&sandbox.path("state"))
    );

    assert!(
        sandbox.ok("store repair").out.contains(&format!("is intact: {tasks} tasks")),
        "there is nothing left to do"
    );
    sandbox.ok("up 1");
    assert_eq!(sandbox.ok("list --output wire").json()["total"].as_u64(), Some(tasks));
    sandbox.llts("store repair --yes").failed(1, "already runs here");
    sandbox.ok("down");
}
