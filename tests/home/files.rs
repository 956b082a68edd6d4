//! Files that travel: inputs to a machine that has none of them, and outputs back.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use sha2::{Digest as _, Sha256};

use crate::travel::Machines;
use crate::user::{Said, User, eventually, signal};

/// Bytes that make a transfer long enough to be interrupted.
const LARGE: usize = 12 << 20;

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    next.take(bytes).collect()
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Machines {
    fn try_submit(&self, options: &str, script: &str) -> Said {
        let mut command = self.user.command("a", &format!("submit --max-losses 5 {options}"));
        User::said(command.args(["--sh", script]).spawn().expect("started"))
    }

    /// Submits a line for sh.
    fn submit_sh(&self, options: &str, script: &str) -> String {
        let said = self.try_submit(options, script);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.trim().to_owned()
    }

    fn in_a(&self, name: &str) -> PathBuf {
        self.user.path("a").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.in_a(name), bytes).expect("written");
    }

    fn stored(&self, digest: &str) -> PathBuf {
        self.in_a("state/archives").join(digest)
    }

    /// Waits for the end of a task, and returns its fields.
    fn ended(&self, task: &str) -> serde_json::Value {
        self.user.llts("a", &format!("wait {task} --timeout 60"));
        let task = self.user.ok("a", &format!("query {task} --output json")).json();
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
    let got = machines.user.llts("a", &format!("get {task} -o back --by {{given-id}}/ --output json"));
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
    let said = machines.user.llts("a", &format!("get {task}"));
    assert!(said.code == Some(1) && said.err.contains("a.txt is there with other content; use --force"), "{said:?}");
    assert_eq!(fs::read(machines.in_a("a.txt")).unwrap(), b"mine\n");
    assert_eq!(machines.user.ok("a", &format!("get {task} --force")).out, "a.txt 4 bytes\n");
    assert_eq!(fs::read(machines.in_a("a.txt")).unwrap(), b"new\n");
    assert_eq!(machines.user.ok("a", &format!("get {task}")).out, "a.txt 4 bytes (was there already)\n");
    let other = machines.submit_sh("--out *.txt", "echo other > a.txt");
    machines.ended(&other);
    let said = machines.user.llts("a", &format!("get {task} {other} -o both"));
    assert!(said.code == Some(1) && said.err.contains("use --by '{id}/'"), "{said:?}");
    machines.user.ok("a", &format!("get {task} {other} -o both --by {{id}}/"));
    assert_eq!(fs::read(machines.in_a("both").join(&other).join("a.txt")).unwrap(), b"other\n");
    let said = machines.user.llts("a", &format!("get {task} --by ../"));
    assert!(said.code == Some(2) && said.err.contains("\"../a.txt\""), "{said:?}");
    let said = machines.user.llts("a", &format!("get {task} --by {{name}}/"));
    assert!(said.code == Some(2) && said.err.contains("{name} is unknown"), "{said:?}");
}

#[test]
fn wrong_names_are_refused_with_a_sentence_and_no_match_is_no_error() {
    let machines = Machines::new();
    machines.agents(1);
    machines.write("x", b"x");
    machines.write("y", b"y");
    for (options, why) in [
        ("--in ../z=x", "\"..\""),
        ("--in /z=x", "absolute"),
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
    let said = machines.user.llts("a", &format!("get {task}"));
    assert!(said.code == Some(1) && said.err.contains("submitted without --out"), "{said:?}");
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

/// However often one of the two dies meanwhile, the files arrive whole, and the task ends once.
#[test]
fn a_transfer_survives_the_death_of_agent_and_controller() {
    let machines = Machines::new();
    let bytes = noise(LARGE);
    machines.write("data", &bytes);
    let task =
        machines.submit_sh("--in data --out back", "tac data > back; tac back > data; mv data back; echo x >> back");
    machines.agents(1);
    let part = machines.fetched(&format!("{}.part", digest(&bytes)));
    let size = |path: &PathBuf| fs::metadata(path).map(|part| part.len()).unwrap_or_default();
    eventually("the fetch begins", || size(&part) > 0);
    signal(machines.process("-agent-1").expect("the agent"), Signal::KILL);
    eventually("the next agent continues or has it", || !part.exists() || size(&part) > 0);
    signal(machines.process(" controller").expect("the controller"), Signal::KILL);
    let incoming = machines.in_a("state/archives/incoming");
    let arriving = || {
        let entries = fs::read_dir(&incoming).into_iter().flatten().flatten();
        entries.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum::<u64>()
    };
    eventually("the output is being sent", || arriving() > 0);
    signal(machines.process(" controller").expect("the controller"), Signal::KILL);
    eventually("the next controller continues", || arriving() > 0);
    signal(machines.process("-agent-1").expect("the agent"), Signal::KILL);
    let fields = machines.ended(&task);
    assert_eq!(fields["__OUTCOME__"], "SUCCEEDED", "{fields}");
    machines.user.ok("a", &format!("get {task} -o back"));
    let got = fs::read(machines.in_a("back/back")).unwrap();
    assert!(got.len() == LARGE + 2 && got.ends_with(b"x\n"), "{} bytes", got.len());
    assert_eq!(arriving(), 0, "no part is left");
}

#[test]
fn flipped_bytes_are_found_and_never_run() {
    let machines = Machines::new();
    let bytes = noise(400_000);
    let mut wrong = bytes.clone();
    wrong[1000] ^= 1;
    let digest = digest(&bytes);
    machines.write("data", &bytes);
    // On the disk of the controller.
    let task = machines.submit_sh("--in data", "cksum < data");
    fs::write(machines.stored(&digest), &wrong).unwrap();
    machines.agents(1);
    let fields = machines.ended(&task);
    assert_eq!((&fields["__OUTCOME__"], &fields["__EXIT_CODE__"]), (&"FAILED".into(), &(-131).into()), "{fields}");
    let why = fields["__REASON__"].as_str().unwrap_or_default();
    assert!(why.contains(&format!("the input data of task {task}: ")) && why.contains("damaged"), "{why}");
    // The next submit puts it again. A first part with another byte is on the disk of the agent.
    fs::write(machines.fetched(&format!("{digest}.part")), &wrong[..300_000]).unwrap();
    let right = machines.output(&machines.submit_sh("--in data", "cksum < data"));
    assert!(machines.agent_logs().contains("of file data has arrived with wrong bytes"));
    // On the disk of the agent.
    fs::write(machines.fetched(&digest), &wrong).unwrap();
    assert_eq!(machines.output(&machines.submit_sh("--in data", "cksum < data")), right);
    assert_eq!(fs::read(machines.fetched(&digest)).unwrap(), bytes);
    // On the way to the controller.
    let other = noise(300_000);
    machines.write("other", &other);
    let incoming = machines.in_a("state/archives/incoming").join(self::digest(&other));
    fs::write(&incoming, &wrong[..100_000]).unwrap();
    machines.submit_sh("--in other", "true");
    assert_eq!(fs::read(machines.stored(&self::digest(&other))).unwrap(), other, "it began anew");
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

/// Passes bytes on, and flips one in the first large chunk in each direction; returns its address and whether it has.
fn relay(controller: &str) -> (String, [Arc<AtomicBool>; 2]) {
    let port = controller.rsplit(':').next().expect("a port").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let own = listener.local_addr().expect("an address").port().to_string();
    let flipped: [Arc<AtomicBool>; 2] = Default::default();
    let flags = flipped.clone();
    std::thread::spawn(move || {
        for from in listener.incoming() {
            let from = from.expect("a connection");
            let to = TcpStream::connect(format!("127.0.0.1:{port}")).expect("the controller");
            let (back, forth) = (from.try_clone().expect("a copy"), to.try_clone().expect("a copy"));
            let [one, other] = flags.clone();
            std::thread::spawn(move || pass_on(from, to, &one));
            std::thread::spawn(move || pass_on(forth, back, &other));
        }
    });
    (controller.replace(controller.rsplit(':').next().expect("a port"), &own), flipped)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, flipped: &AtomicBool) {
    let mut chunk = vec![0; 1 << 16];
    while let Ok(bytes @ 1..) = from.read(&mut chunk) {
        // Only the parts of files are so large, and base64 keeps its form.
        let middle = &mut chunk[bytes / 2];
        if bytes > 20_000 && middle.is_ascii_alphanumeric() && !flipped.swap(true, Ordering::Relaxed) {
            *middle = if *middle == b'A' { b'B' } else { b'A' };
        }
        if to.write_all(&chunk[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_byte_that_flips_on_the_way_is_found_and_the_file_is_sent_again() {
    let machines = Machines::new();
    let (controller, flipped) = relay(&machines.controller);
    machines.agents_through(1, &controller);
    let bytes = noise(1 << 20);
    machines.write("data", &bytes);
    let task = machines.submit_sh("--in data --out back", "cat data data > back");
    let fields = machines.ended(&task);
    assert_eq!(fields["__OUTCOME__"], "SUCCEEDED", "{fields}");
    assert!(flipped.iter().all(|flipped| flipped.load(Ordering::Relaxed)), "{flipped:?}");
    assert!(machines.agent_logs().contains("of file data has arrived with wrong bytes"));
    machines.user.ok("a", &format!("get {task} -o back"));
    assert_eq!(fs::read(machines.in_a("back/back")).unwrap(), bytes.repeat(2));
}

/// A file system of one megabyte.
struct Small(PathBuf);

impl Small {
    /// `None` for a user who may not mount one.
    fn at(path: &Path) -> Option<Self> {
        fs::create_dir_all(path).expect("made");
        mount("llts", path, "tmpfs", MountFlags::empty(), c"size=1m,mode=700").ok()?;
        Some(Self(path.to_owned()))
    }

    fn names(&self) -> Vec<std::ffi::OsString> {
        fs::read_dir(&self.0).expect("listed").map(|entry| entry.expect("listed").file_name()).collect()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_at_the_agent_ends_the_task_with_a_sentence_and_leaves_no_half_file() {
    let machines = Machines::new();
    let Some(disk) = Small::at(&machines.user.path("b/state/fetched")) else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    machines.agents(1);
    machines.write("large", &noise(2 << 20));
    machines.write("small", &noise(500_000));
    let task = machines.submit_sh("--in large", "cksum < large");
    let fields = machines.ended(&task);
    let why = fields["__REASON__"].as_str().unwrap_or_default();
    assert_eq!((&fields["__OUTCOME__"], &fields["__EXIT_CODE__"]), (&"FAILED".into(), &(-131).into()), "{fields}");
    assert!(why.contains(&format!("the input large of task {task}: ")) && why.contains("No space left"), "{why}");
    assert_eq!(disk.names(), Vec::<std::ffi::OsString>::new());
    machines.output(&machines.submit_sh("--in small", "cksum < small"));
}

#[test]
fn a_full_disk_at_the_controller_refuses_inputs_and_outputs_with_a_sentence() {
    let machines = Machines::new();
    machines.agents(1);
    let Some(disk) = Small::at(&machines.in_a("state/archives")) else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    fs::create_dir(disk.0.join("incoming")).unwrap();
    machines.write("large", &noise(2 << 20));
    let said = machines.try_submit("--in large", "true");
    assert!(said.code == Some(4) && said.err.contains("large: ") && said.err.contains("No space left"), "{said:?}");
    let task = machines.submit_sh("--out *.out", "head -c 2000000 /dev/urandom > a.out; echo b > b.out");
    let fields = machines.ended(&task);
    let note = fields["__OUT_NOTE__"].as_str().unwrap_or_default();
    assert!(note.contains("a.out was not kept: ") && note.contains("No space left"), "{fields}");
    let got = machines.user.llts("a", &format!("get {task} -o back"));
    assert!(got.out == "back/b.out 2 bytes\n" && got.err.contains("a.out was not kept"), "{got:?}");
    assert_eq!(fs::read_dir(disk.0.join("incoming")).unwrap().count(), 0, "no part is left");
    drop(machines);
}

#[test]
fn a_full_store_refuses_inputs_and_keeps_the_result_of_a_task_without_its_files() {
    let machines = Machines::with("FILE_STORE_BYTES_MAX = 100000\n");
    machines.agents(1);
    machines.write("large", &noise(200_000));
    let said = machines.try_submit("--in large", "true");
    assert!(
        said.code == Some(4) && said.err.contains("large: ") && said.err.contains("FILE_STORE_BYTES_MAX"),
        "{said:?}"
    );
    machines.write("small", &noise(50_000));
    let task = machines.submit_sh("--in small --out *.out", "cat small small > a.out; echo b > b.out; exit 3");
    let fields = machines.ended(&task);
    assert_eq!((&fields["__OUTCOME__"], &fields["__EXIT_CODE__"]), (&"FAILED".into(), &3.into()), "{fields}");
    let note = fields["__OUT_NOTE__"].as_str().unwrap_or_default();
    assert!(note.contains("a.out was not kept") && note.contains("FILE_STORE_BYTES_MAX"), "{fields}");
    let got = machines.user.llts("a", &format!("get {task} -o back"));
    assert!(got.out == "back/b.out 2 bytes\n" && got.err.contains("a.out was not kept"), "{got:?}");
    // What is forgotten makes room.
    machines.user.ok("a", &format!("forget {task}"));
    eventually("the store is empty", || !machines.stored(&digest(&noise(50_000))).exists());
    machines.write("medium", &noise(90_000));
    eventually("there is room", || machines.try_submit("--in medium", "true").code == Some(0));
}

/// On one machine no byte is sent: the store is filled and read by copies, and `run` brings the outputs at its end.
#[test]
fn a_large_file_is_copied_on_one_machine() {
    let user = User::new();
    user.ok("elsewhere", &format!("--home {} up 1", user.path("a").display()));
    let bytes = noise(100 << 20);
    fs::write(user.path("a/data"), &bytes).unwrap();
    let mut command = user.command("a", "run --in data --out copy");
    let said = User::said(command.args(["--sh", "cp data copy; echo end >> copy"]).spawn().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    let copy = fs::read(user.path("a/copy")).unwrap();
    assert!(copy.len() == bytes.len() + 4 && copy.starts_with(&bytes));
    assert!(!user.path("a/state/fetched").join(digest(&bytes)).exists(), "the agent reads the store itself");
    user.ok("a", "down --now");
}
