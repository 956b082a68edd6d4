//! `llts store backup` beside a service, and `llts store restore` into another home.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::cli::sandbox::{Sandbox, names};

/// Waiting tasks of a restored store start after two loss times.
const CONFIG: &str = "\
CONTROLLER_REP_PORT = 0
CONTROLLER_PUB_PORT = 0
ZMQ_RECV_TIMEOUT = 15000
AGENT_HEARTBEAT_INTERVAL = 100
AGENT_LOST_AFTER = 500
LOG_DIR = \"log\"
";

fn tasks(sandbox: &Sandbox, home: &str) -> BTreeSet<String> {
    let rows = sandbox.ok(&format!("--home {home} list --limit 1000 --output wire")).json();
    rows["tasks"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["__TASK_ID__"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn a_backup_beside_a_busy_service_goes_on_in_another_home() {
    let sandbox = Sandbox::with(CONFIG);
    sandbox.write("keys/other", "a key");
    // Neither a pipe nor a circle keeps a backup.
    std::os::unix::fs::symlink("..", sandbox.path("keys/circle")).expect("a link");
    rustix::fs::mknodat(rustix::fs::CWD, sandbox.path("keys/pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .expect("a pipe");
    sandbox.ok("up 1");
    sandbox.ok("pause --service");
    let submit = |number: usize| {
        let name = format!("in-{number}");
        sandbox.write(&name, format!("content {number}"));
        sandbox.ok(&format!("submit --in {name} --out out -- cp {name} out")).out.trim().to_owned()
    };
    let accepted: BTreeSet<String> = (0..5).map(submit).collect();
    // Others go on while the backup is made.
    let is_made = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (5..).take_while(|_| !is_made.load(Ordering::Relaxed)) {
                submit(number);
            }
        });
        let said = sandbox.ok("store backup made --output wire");
        is_made.store(true, Ordering::Relaxed);
        said
    });
    let made = said.json();
    let notes = made["notes"].as_array().expect("notes");
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes.iter().all(|note| note.as_str().is_some_and(|note| note.ends_with("is no file: it is left out"))));
    sandbox.ok("down");

    let restored = sandbox.ok("--home other store restore made --output wire").json();
    assert_eq!(restored["tasks"], made["tasks"]);
    assert_eq!(fs::read_to_string(sandbox.path("other/keys/other")).expect("restored"), "a key");
    let shown = sandbox.ok("--home other store check").out;
    assert!(shown.contains(&format!("is intact: {} tasks", made["tasks"])), "{shown}");
    sandbox.ok("--home other up 1");
    assert!(accepted.is_subset(&tasks(&sandbox, "other")));
    let incidents = sandbox.ok("--home other incidents").out;
    assert!(incidents.contains("STORE_FROM_ELSEWHERE") && !incidents.contains("CRASHED"), "{incidents}");
    sandbox.ok("--home other resume --service");
    let first = accepted.first().expect("a task");
    sandbox.ok(&format!("--home other wait {first}"));
    sandbox.ok(&format!("--home other get {first} -o back"));
    assert!(fs::read_to_string(sandbox.path("back/out")).expect("the output").starts_with("content "));
    sandbox.ok("--home other down");
    sandbox.is_clean();
}

#[test]
fn what_is_in_the_way_of_a_backup_or_a_restore_is_named_and_nothing_is_changed() {
    let sandbox = Sandbox::serving(1, &[("echo", "echo")]);
    sandbox.ok("run echo");
    sandbox.ok("store backup made");
    sandbox.llts("store backup made").failed(1, "made is not empty");
    sandbox.llts("store backup tools/inner").failed(1, "which is backed up itself");
    assert!(!sandbox.path("tools/inner").exists());
    sandbox.llts("store restore made").failed(1, "controller.lock");
    sandbox.ok("down");
    sandbox.llts("store restore made").failed(1, "there is a store in ");
    sandbox.llts("store restore log").failed(1, "log is no whole backup");
    sandbox.llts("--home other --config config.toml store restore made").failed(2, "without --config");

    let other = sandbox.path("other");
    sandbox.write("other/config.toml", "AGENT_HEARTBEAT_INTERVAL = 1000");
    let refused = sandbox.llts("--home other store restore made");
    refused.failed(1, "config.toml is there and differs from the backup");
    assert_eq!(names(&other), ["config.toml"]);
    fs::remove_file(other.join("config.toml")).expect("removed");

    // Cut short before the store was in its place, it is repeated.
    sandbox.ok("--home other store restore made");
    fs::remove_file(other.join("state/tasks.sqlite")).expect("removed");
    sandbox.ok("--home other store restore made");
    assert_eq!(sandbox.ok("--home other store check").out.lines().count(), 1);

    let manifest = sandbox.path("made/backup.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value["version"] = 2.into();
    fs::write(&manifest, value.to_string()).expect("written");
    sandbox.llts("--home third store restore made").failed(1, "is a backup of version 2");
    value["version"] = 1.into();
    let files = value["files"].take();
    value["files"] = serde_json::json!([]);
    fs::write(&manifest, value.to_string()).expect("written");
    sandbox.llts("--home third store restore made").failed(1, "or no store");
    value["files"] = files;
    value["files"][0]["path"] = "../config.toml".into();
    fs::write(&manifest, value.to_string()).expect("written");
    sandbox.llts("--home third store restore made").failed(1, "differs from its entry in backup.json");
    fs::write(&manifest, text).expect("written");
    fs::write(sandbox.path("made/state/tasks.sqlite"), "rotten").expect("written");
    sandbox.llts("--home third store restore made").failed(1, "tasks.sqlite differs from its entry in backup.json");
    assert!(!Path::new(&sandbox.path("third/state/tasks.sqlite")).exists());
    sandbox.is_clean();
}
