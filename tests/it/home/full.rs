//! Files that find no room: on the disk of an agent or of the controller, or in its store.

use std::ffi::CString;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::home::files::{digest, noise};
use crate::home::travel::Machines;
use crate::home::user::{User, eventually};

/// A file system of one megabyte.
struct Small(PathBuf);

impl Small {
    /// `None` for a user who may not mount one.
    fn at(path: &Path) -> Option<Self> {
        Self::of(path, "1m")
    }

    fn of(path: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(path).expect("made");
        let options = CString::new(format!("size={size},mode=700")).expect("no NUL");
        mount("llts", path, "tmpfs", MountFlags::empty(), options.as_c_str()).ok()?;
        Some(Self(path.to_owned()))
    }

    /// Leaves no room as long as the result lives.
    fn fill(&self) -> Ballast {
        let path = self.0.join("ballast");
        let mut file = fs::File::create(&path).expect("made");
        while file.write_all(&[1; 4096]).is_ok() {}
        Ballast(path)
    }

    fn names(&self) -> Vec<std::ffi::OsString> {
        fs::read_dir(&self.0).expect("listed").map(|entry| entry.expect("listed").file_name()).collect()
    }
}

/// A file that takes all room.
struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn more_agents_are_refused_on_a_full_disk_with_its_path_and_its_room() {
    let user = User::new();
    let Some(disk) = Small::of(&user.path("full"), "6m") else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    user.ok("full", "--home h up 1");
    // All of it, then all but a block.
    for left in [0, 4096] {
        let spare = disk.0.join("spare");
        fs::write(&spare, vec![0; left]).expect("room");
        let _ballast = disk.fill();
        fs::remove_file(&spare).expect("removed");
        let said = user.llts("full", "--home h up --add 1").ended(1);
        for part in [disk.0.to_str().expect("text"), "bytes free", "the service goes on as before"] {
            assert!(said.err.contains(part), "{part}: {said:?}");
        }
    }
    assert_eq!(user.ok("full", "--home h up --add 1 --output json").json()["agents"], 2);
    user.ok("full", "--home h down");
}

#[test]
fn a_full_disk_at_the_agent_sends_the_task_elsewhere_and_leaves_no_half_file() {
    let machines = Machines::new();
    let Some(disk) = Small::at(&machines.user.path("b/state/fetched")) else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    machines.agents(1);
    machines.write("large", &noise(2 << 20));
    machines.write("small", &noise(500_000));
    let task = machines.submit_sh("--in large", "cksum < large");
    let why = || machines.user.ok("a", &format!("explain {task}")).out;
    eventually("its agent has no room", || why().contains("are paused"));
    assert!(
        why().contains(&format!("the input large of task {task}: ")) && why().contains("No space left"),
        "{}",
        why()
    );
    assert_eq!(disk.names(), Vec::<std::ffi::OsString>::new());
    machines.output(&machines.submit_sh("--in small", "cksum < small"));
    // A drained agent has room.
    machines.undrain();
    machines.output(&task);
}

/// A download is no reason to fail either. Only the other agent has room for it.
#[test]
fn a_full_disk_at_the_agent_sends_a_task_with_a_source_to_another_agent() {
    let machines = Machines::with("[source]\nALLOW_SCHEMES = [\"http\"]\nALLOW_HOSTS = [\"127.0.0.1\"]\n");
    let Some(disk) = Small::at(&machines.user.path("b/state/sources")) else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    machines.agents(1);
    let mut script = b"#!/bin/sh\necho here\nexit\n".to_vec();
    script.extend(noise(2 << 20));
    machines.write("run.sh", &script);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/run.sh", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", script.len());
            let _ = stream.write_all(&[head.as_bytes(), &script].concat());
        }
    });
    let submitted = machines.user.ok("a", &format!("submit program --source {url}"));
    let task = submitted.out.trim();
    let why = || machines.user.ok("a", &format!("explain {task}")).out;
    eventually("its agent has no room", || why().contains("are paused"));
    assert!(why().contains("No space left"), "{}", why());
    assert_eq!(fs::read_dir(disk.0.join("fetching")).unwrap().count(), 0, "nothing of it is left");
    machines.undrain();
    assert_eq!(machines.output(task), "here\n");
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
    assert!(said.code == Some(4) && said.err.contains("large: ") && said.err.contains("DISK_RESERVE"), "{said:?}");
    let task = machines.submit_sh("--out *.out", "head -c 2000000 /dev/urandom > a.out; echo b > b.out");
    let fields = machines.ended(&task);
    let note = fields["__OUT_NOTE__"].as_str().unwrap_or_default();
    assert!(note.contains("a.out was not kept: ") && note.contains("DISK_RESERVE"), "{fields}");
    let got = machines.user.llts("a", &format!("get {task} -o back"));
    assert!(got.out == "back/b.out 2 bytes\n" && got.err.contains("a.out was not kept"), "{got:?}");
    assert_eq!(fs::read_dir(disk.0.join("incoming")).unwrap().count(), 0, "no part is left");
    let state = || machines.user.ok("a", "status").out;
    assert!(!state().contains("DISK_RESERVE"), "{}", state());
    fs::write(disk.0.join("others"), noise(980_000)).unwrap();
    eventually("the status names the disk", || state().contains("bytes free, no more than its reserve (DISK_RESERVE)"));
    fs::remove_file(disk.0.join("others")).unwrap();
    eventually("there is room again", || !state().contains("DISK_RESERVE"));
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

/// A reader of the history needs files beside it, which have no room on a full disk.
#[test]
fn the_history_can_be_read_on_a_full_disk() {
    let user = User::new();
    let Some(disk) = Small::of(&user.path("full"), "6m") else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    user.ok("full", "--home h up 1");
    let is_closed = |names: &[PathBuf]| names.len() == 1 && names[0].extension().is_some_and(|end| end == "sqlite");
    eventually("its writer has closed it", || is_closed(&user.all_below("full/h/state/history")));
    let ballast = disk.fill();
    for _ in 0..2 {
        let incidents = user.ok("full", "--home h incidents").out;
        assert!(incidents.contains("the controller has started"), "{incidents}");
    }
    drop(ballast);
    user.ok("full", "--home h run -- true");
    let ended = || user.ok("full", "--home h list --since 1h --output wire").json()["total"].clone();
    eventually("the history goes on", || ended() == 1);
    user.ok("full", "--home h down");
}

#[test]
fn a_home_on_a_full_disk_refuses_at_once_and_can_be_stopped() {
    let user = User::new();
    let home = user.path("a");
    let Some(disk) = Small::of(&home, "16m") else {
        return println!("skipped: this user may not mount a tmpfs");
    };
    fs::create_dir(home.join("log")).expect("made");
    fs::write(home.join("config.toml"), "LOG_DIR = \"log\"\n").expect("written");
    user.ok("a", "up 1");
    let running = user.ok("a", "submit -- sleep 600").out.trim().to_owned();
    let is = |task: &str, state: &str| user.ok("a", &format!("query {task}")).out.contains(state);
    eventually("it runs", || is(&running, "RUNNING"));
    assert_eq!(user.ok("a", "info --output wire").json()["health"], "good");
    let ballast = disk.fill();
    // The first one that does not fit is refused within the time of an answer, as are all others.
    let refused =
        (0..1000).map(|_| user.llts("a", "submit -- true")).find(|said| said.code != Some(0)).expect("a refusal");
    assert!(refused.code == Some(4) && refused.err.contains("-1008") && refused.err.contains("stored"), "{refused:?}");
    let again = user.llts("a", "submit -- true");
    again.failed(4, "-1008");
    let health = user.ok("a", "info").out;
    assert!(health.contains("the store cannot be written since"), "{health}");
    assert!(user.ok("a", "pause --service").out.contains("the service is paused"));
    assert_eq!(user.ok("a", "resume --service").out, "tasks start again\n");
    assert!(user.ok("a", "pause --agent agent-1").out.contains("gets no more tasks"));
    user.ok("a", "resume --agent agent-1");
    let killed = user.ok("a", &format!("kill {running}"));
    assert!(killed.err.contains("forgets this kill"), "{killed:?}");
    eventually("its run has ended", || !user.processes().iter().any(|(_, line)| line.contains("sleep 600")));
    drop(ballast);
    eventually("there is room again", || user.llts("a", "submit -- true").code == Some(0));
    assert_eq!(user.ok("a", "info --output wire").json()["health"], "good");
    eventually("both are incidents", || {
        let incidents = user.ok("a", "incidents").out;
        let count = |kind| incidents.matches(kind).count();
        assert!(count("STORE_TROUBLE") <= 1, "{incidents}");
        count("STORE_TROUBLE") == 1 && count("STORE_OK") == 1
    });
    // A full disk does not keep a service from being stopped.
    let _ballast = disk.fill();
    let down = user.ok("a", "down");
    assert!(down.out.contains("stopped the service"), "{down:?}");
    assert_eq!(user.processes(), []);
}
