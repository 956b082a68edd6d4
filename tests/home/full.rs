//! Files that find no room: on the disk of an agent or of the controller, or in its store.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::files::{digest, noise};
use crate::travel::Machines;
use crate::user::eventually;

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
    eventually("its agent has no room", || why().contains("are drained"));
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
    eventually("its agent has no room", || why().contains("are drained"));
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
