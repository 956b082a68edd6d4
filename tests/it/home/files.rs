//! Files that travel: inputs to a machine that has none of them, and outputs back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use crate::home::travel::Machines;
use crate::home::user::{Said, Start as _, User, eventually};

/// Bytes that make a transfer long enough to be interrupted.
pub(crate) const LARGE: usize = 12 << 20;

pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    next.take(bytes).collect()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Machines {
    pub(crate) fn try_submit(&self, options: &str, script: &str) -> Said {
        self.user.command("a", &format!("submit --max-losses 5 {options}")).args(["--sh", script]).said()
    }

    /// Submits a line for sh.
    pub(crate) fn submit_sh(&self, options: &str, script: &str) -> String {
        let said = self.try_submit(options, script).ok();
        said.out.trim().to_owned()
    }

    pub(crate) fn in_a(&self, name: &str) -> PathBuf {
        self.user.path("a").join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.in_a(name), bytes).expect("written");
    }

    pub(crate) fn stored(&self, digest: &str) -> PathBuf {
        self.in_a("state/archives").join(digest)
    }

    /// Waits for the end of a task, and returns its fields.
    pub(crate) fn ended(&self, task: &str) -> serde_json::Value {
        self.user.llts("a", &format!("wait {task} --timeout 60"));
        let task = self.user.ok("a", &format!("query {task} --output wire")).json();
        assert_eq!(task["__STATUS__"], "FINISHED", "{task}");
        task
    }
}

#[test]
fn inputs_reach_the_other_machine_and_outputs_come_back() {
    let machines = Machines::new();
    machines.agents(1);
    machines.write("in.txt", b"hello\n");
    machines.write("conf.toml", b"a = 1\n");
    machines.write("none", b"");
    let script = "tr a-z A-Z < in.txt > big.up; mkdir -p out/x; cat sub/cfg > out/x/y; cat none > empty.up; \
                  ln -s /etc/passwd link.up; echo z > other";
    let task = machines.submit_sh(
        "--in in.txt --in sub/cfg=conf.toml --in none --out *.up --out out/** --out in.txt --given-id a/b",
        script,
    );
    let fields = machines.ended(&task);
    assert_eq!(fields["__OUTCOME__"], "SUCCEEDED", "{fields}");
    let note = fields["__OUT_NOTE__"].as_str().unwrap_or_default();
    assert!(note.contains("link.up was not kept: it is no regular file"), "{fields}");
    let got = machines.user.llts("a", &format!("get {task} -o back --by {{given-id}}/ --output wire"));
    assert_eq!(got.code, Some(1), "the note is an error: {got:?}");
    assert!(got.err.contains("link.up was not kept"), "{got:?}");
    let names: Vec<_> =
        got.json().as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["big.up", "empty.up", "out/x/y"], "the input is as it was, and other matches nothing");
    let back = |name: &str| fs::read(machines.in_a("back/a_b").join(name)).unwrap();
    assert_eq!([back("big.up"), back("empty.up"), back("out/x/y")], [&b"HELLO\n"[..], b"", b"a = 1\n"]);
}

#[test]
fn a_file_with_other_content_is_not_overwritten() {
    let machines = Machines::new();
    machines.agents(1);
    let task = machines.submit_sh("--out *.txt", "echo new > a.txt");
    machines.ended(&task);
    machines.write("a.txt", b"mine\n");
    machines.user.llts("a", &format!("get {task}")).failed(1, "a.txt is there with other content; `llts get TASK_");
    assert_eq!(fs::read(machines.in_a("a.txt")).unwrap(), b"mine\n");
    assert_eq!(machines.user.ok("a", &format!("get {task} --force")).out, "a.txt 4 bytes\n");
    assert_eq!(fs::read(machines.in_a("a.txt")).unwrap(), b"new\n");
    assert_eq!(machines.user.ok("a", &format!("get {task}")).out, "a.txt 4 bytes (was there already)\n");
    let other = machines.submit_sh("--out *.txt", "echo other > a.txt");
    machines.ended(&other);
    machines.user.llts("a", &format!("get {task} {other} -o both")).failed(1, "use --by '{id}/'");
    machines.user.ok("a", &format!("get {task} {other} -o both --by {{id}}/"));
    assert_eq!(fs::read(machines.in_a("both").join(&other).join("a.txt")).unwrap(), b"other\n");
    machines.user.llts("a", &format!("get {task} --by ../")).failed(2, "\"../a.txt\"");
    machines.user.llts("a", &format!("get {task} --by {{name}}/")).failed(2, "{name} is unknown");
}

#[test]
fn wrong_names_are_refused_with_a_sentence_and_no_match_is_no_error() {
    let machines = Machines::new();
    machines.agents(1);
    machines.write("x", b"x");
    machines.write("y", b"y");
    for (options, why) in [
        ("--in a/../z=x", "\"..\""),
        ("--in ../z=x", "cannot read ../z=x"),
        ("--in x --in x=y", "would both be x"),
        ("--in a=x --in a/b=y", "exclude one another"),
        ("--in missing", "cannot read missing"),
        ("--in state", "is not a regular file"),
        ("--out ../*", "\"..\""),
        ("--out /etc/*", "absolute"),
        ("--in x --cwd /tmp", "--cwd excludes"),
    ] {
        let said = machines.try_submit(options, "true");
        assert!(said.code != Some(0) && said.err.contains(why), "{options}: {said:?}");
    }
    let task = machines.submit_sh("--out *.none", "true");
    assert_eq!(machines.ended(&task)["__OUT_FILES__"], "{}");
    assert_eq!(machines.user.ok("a", &format!("get {task}")).out, "");
    let task = machines.submit_sh("", "true");
    machines.ended(&task);
    machines.user.llts("a", &format!("get {task}")).failed(1, "submitted without --out");
}

/// The controller holds the version that the task would have.
#[test]
fn an_input_with_the_name_of_a_file_of_the_tool_is_refused_at_the_submit() {
    let machines = Machines::new();
    machines.agents(1);
    fs::create_dir_all(machines.in_a("src/t/lib")).expect("made");
    machines.write("src/t/run.sh", b"#!/bin/sh\ncat lib/new\n");
    machines.write("src/t/lib/old", b"");
    machines.user.ok("a", "tool push src/t");
    machines.write("x", b"hello\n");
    for name in ["run.sh", "lib", "lib/old"] {
        let said = machines.user.llts("a", &format!("submit t --in {name}=x"));
        assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
        let sentence =
            format!("__IN__: the name {name:?}: the tool has a file of this name; use another one: --in NAME=PATH");
        assert!(said.err.contains(&sentence) && said.err.contains("(-1007)"), "{said:?}");
    }
    machines.user.llts("a", "run t --in lib/new=x").prints("hello\n");
}

#[test]
fn a_file_of_many_tasks_is_sent_and_fetched_once() {
    const TASKS: usize = 100;
    let machines = Machines::new();
    machines.agents(2);
    let bytes = noise(1 << 20);
    machines.write("data", &bytes);
    let tasks: Vec<String> = (0..TASKS).map(|_| machines.submit_sh("--in data --job all", "cksum < data")).collect();
    machines.user.ok("a", "wait --job all --timeout 60");
    let said: std::collections::BTreeSet<_> = tasks.iter().map(|task| machines.output(task)).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(machines.agent_logs().matches("of file data").count(), 1);
    let named = |name: &std::ffi::OsString| name.len() == 64;
    let files = fs::read_dir(machines.in_a("state/archives")).unwrap();
    assert_eq!(files.filter(|file| named(&file.as_ref().unwrap().file_name())).count(), 1);
    // It lives as long as a task names it.
    machines.user.ok("a", &format!("forget {}", tasks[1..].join(" ")));
    assert!(machines.stored(&digest(&bytes)).exists());
    machines.user.ok("a", &format!("forget {}", tasks[0]));
    eventually("no task names it", || !machines.stored(&digest(&bytes)).exists());
}

#[test]
fn an_executable_input_stays_executable() {
    let machines = Machines::new();
    machines.agents(1);
    for (name, mode) in [("script", 0o755), ("data", 0o644)] {
        machines.write(name, b"#!/bin/sh\necho hello\n");
        fs::set_permissions(machines.in_a(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let task =
        machines.submit_sh("--in script --in data", "./script; test -x data || echo plain; stat -c %a script data");
    assert_eq!(machines.output(&task), "hello\nplain\n700\n600\n");
}

/// On one machine no byte is sent: the store is filled and read by copies, and `run` brings the outputs at its end.
#[test]
fn a_large_file_is_copied_on_one_machine() {
    let user = User::new();
    user.ok("elsewhere", &format!("--home {} up 1", user.path("a").display()));
    let bytes = noise(100 << 20);
    fs::write(user.path("a/data"), &bytes).unwrap();
    user.command("a", "run --in data --out copy").args(["--sh", "cp data copy; echo end >> copy"]).said().ok();
    let copy = fs::read(user.path("a/copy")).unwrap();
    assert!(copy.len() == bytes.len() + 4 && copy.starts_with(&bytes));
    assert!(!user.path("a/state/fetched").join(digest(&bytes)).exists(), "the agent reads the store itself");
    user.ok("a", "down --now");
}
