//! A queue in PostgreSQL, and two homes of which one leads it: each stands for a machine.

use std::process::Stdio;

use rustix::process::Signal;
use testkit::{Postgres, own_ip};

use crate::cli::sandbox::{Program, Sandbox, Start as _, eventually, signal};

/// Milliseconds.
const LEASE: u64 = 1500;

/// A home whose queue is in this server.
pub(super) fn home(postgres: &Postgres) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("STORE = \"{}\"\nSTORE_LEASE = {LEASE}\n", postgres.url()));
    sandbox
}

/// A service that waits until it can lead.
fn standby(sandbox: &Sandbox) -> Program {
    sandbox
        .command("up 2 --standby")
        .stdout(Stdio::null())
        .start()
        .ready("a service starts here when it does not any more")
}

/// Kills a machine: every process of a home at once.
fn kill(sandbox: &Sandbox) {
    sandbox.processes().into_iter().for_each(|(pid, _)| testkit::kill(pid));
}

pub(super) fn submit(sandbox: &Sandbox, words: &str) -> String {
    sandbox.ok(&format!("submit {words}")).out.trim().to_owned()
}

pub(super) fn states(sandbox: &Sandbox) -> String {
    sandbox.ok("list").out
}

#[test]
fn a_queue_survives_the_machine_of_its_controller() {
    let postgres = Postgres::start();
    let [first, second] = [(); 2].map(|()| home(&postgres));
    first.ok("up 1");
    let [done, later] = ["-- true", "--start-after +1h -- true"].map(|words| submit(&first, words));
    first.ok(&format!("wait {done}"));
    let running = submit(&first, "--max-losses 3 -- sleep 1000");
    eventually("it runs", || first.ok(&format!("show {running}")).out.contains("running"));
    second.llts("up 1").failed(1, "`llts up --standby` waits here until it does not");
    let mut waiting = standby(&second);
    let next = format!("{} stands by", second.path("state").display());
    eventually("it is seen", || first.ok("status").out.contains(&next));

    kill(&first);
    eventually("the second one takes over", || !waiting.is_running());
    for id in [&done, &later, &running] {
        second.ok(&format!("show {id}"));
    }
    assert!(second.ok(&format!("show {done}")).out.contains("ended as SUCCEEDED"));
    second.ok("run -- true");
    // Its agent is gone with the machine.
    eventually("it runs again", || second.ok(&format!("show {running}")).out.contains("running"));
    assert_eq!(postgres.sql("SELECT count(*) FROM llts.leader"), "1");
}

/// Its tools, pushed or of its own folder, the files of tasks, and what tasks have left for `llts get`.
#[test]
fn nothing_of_the_lost_machine_is_needed() {
    let postgres = Postgres::start();
    let [first, second] = [(); 2].map(|()| home(&postgres));
    first.tool("of-folder", "cat input > output");
    first.write("src/pushed/run.sh", "#!/bin/sh\necho pushed > output\n");
    first.write("input", "from the first machine");
    first.ok("up 1");
    first.ok("tool push src/pushed");
    let done = submit(&first, "of-folder --in input --out output");
    first.ok(&format!("wait {done}"));
    first.ok("gate set g --max-running 0");
    let waiting =
        ["of-folder --in input", "pushed"].map(|words| submit(&first, &format!("{words} --gate g --out output")));
    let mut standby = standby(&second);

    kill(&first);
    std::fs::remove_dir_all(first.path("state")).unwrap();
    eventually("the second one takes over", || !standby.is_running());
    second.ok("gate set g --max-running 2");
    for (id, text) in
        [(&done, "from the first machine"), (&waiting[0], "from the first machine"), (&waiting[1], "pushed\n")]
    {
        second.ok(&format!("wait {id}"));
        second.ok(&format!("get {id} --dir got"));
        assert_eq!(second.text("got/output"), text);
        std::fs::remove_dir_all(second.path("got")).unwrap();
    }
    // New tasks find the tools as well.
    assert!(second.ok("tool list").out.contains("of-folder"));
    second.ok(&format!("wait {}", submit(&second, "pushed")));
    second.ok("tool rm of-folder");
    second.llts("submit of-folder").failed(4, "of-folder");
    let lost = postgres.sql("SELECT count(*) FROM llts.file_parts WHERE digest NOT IN (SELECT digest FROM llts.files)");
    assert_eq!(lost, "0");
    second.ends_clean();
}

#[test]
fn a_service_that_is_stopped_hands_the_queue_over_at_once() {
    let postgres = Postgres::start();
    let [first, second] = [(); 2].map(|()| home(&postgres));
    first.configure(&format!("STORE = \"{}\"\nSTORE_LEASE = 600000\n", postgres.url()));
    first.ok("up 1");
    let later = submit(&first, "--start-after +1h -- true");
    let mut waiting = standby(&second);
    first.ok("restart");
    assert!(waiting.is_running(), "a restart is no end");
    // The lease would last for ten minutes.
    first.ok("down");
    eventually("the second one takes over", || !waiting.is_running());
    assert!(states(&second).contains(&later));
    let shown = second.ok("status --output json").json();
    assert_eq!(shown["queue"]["standbys"], serde_json::json!([]), "{shown}");
    second.ends_clean();
    first.ok("up 1");
    assert!(states(&first).contains(&later));
    first.ends_clean();
}

#[test]
fn a_standby_is_ended_in_its_home() {
    let postgres = Postgres::start();
    let [first, second] = [(); 2].map(|()| home(&postgres));
    first.ok("up 1");
    let waiting = standby(&second);
    second.llts("up 1 --standby").failed(1, "standby");
    assert!(second.ok("down").out.contains("ended the standby"));
    waiting.said().failed(130, "left before this home could lead");
    first.ends_clean();
}

#[test]
fn a_controller_that_was_deposed_acknowledges_nothing_and_stands_by() {
    let postgres = Postgres::start();
    let [first, second] = [(); 2].map(|()| home(&postgres));
    first.ok("up 1");
    let waiting = standby(&second);
    let frozen = first.process("llts controller");
    signal(frozen, Signal::STOP);
    let mut late = first.command("submit -- true").start();
    drop(waiting.said());
    let new = submit(&second, "--start-after +1h -- true");
    let before = states(&second);
    let asks = first.command(&format!("query {new}")).start();
    signal(frozen, Signal::CONT);
    eventually("the old one ends", || first.text("log/controller.log").contains("acknowledges nothing any more"));
    eventually("it stands by", || first.text("log/controller.log").contains("standing by: "));
    eventually("no answer was a promise", || !late.is_running());
    assert_ne!(late.said().code, Some(0));
    assert!(!asks.said().err.contains("never submitted"), "it looks first whether it still leads");
    assert_eq!(states(&second), before);
    second.ok("run -- true");

    second.ok("down");
    eventually("the first one leads again", || first.llts("run -- true").code == Some(0));
    let incidents = first.ok("incidents").out;
    assert!(incidents.contains("DEPOSED") && !incidents.contains("CRASHED"), "{incidents}");
    first.ends_clean();
}

/// It cannot know whether the other home leads by now, and keeps neither agents nor clients from it.
#[test]
fn a_leader_without_its_server_ends_when_another_home_may_lead() {
    let mut postgres = Postgres::start();
    let [first, second] = [(); 2].map(|()| home(&postgres));
    first.ok("up 1");
    let mut waiting = standby(&second);
    eventually("the leader knows of the other home", || {
        let said = first.ok("status").out;
        said.contains("stands by") && !said.contains("no home stands by")
    });
    postgres.kill();
    eventually("the leader ends", || first.text("log/controller.log").contains("acknowledges nothing any more"));
    postgres.start_again();
    eventually("one of them leads", || !waiting.is_running() || first.llts("run -- true").code == Some(0));
    first.ok("down");
    second.llts("down");
}

#[test]
fn what_cannot_be_a_store_is_said() {
    let sandbox = Sandbox::new();
    sandbox.configure("STORE = \"postgresql://llts@%2Fnone/llts\"");
    // A service for one command has nothing to do with the queue of others.
    sandbox.ok("run --no-service -- true");
    for (lines, sentence) in [
        ("STORE = \"postgresql://llts@%2Fnone/llts\"", "cannot connect to postgresql:///none/llts"),
        ("STORE = \"postgresql://llts@%2Fnone/llts\"", "start the server, or correct STORE"),
        ("STORE = \"postgresql://llts:secret@%2Fnone/llts\"", "STORE_PASSWORD_FILE"),
        ("STORE = \"postgresql://llts@db.example/llts\"", "STORE_CA_FILE"),
        ("STORE = \"mysql://db\"", "postgresql://llts@db.example/llts"),
        ("STORE_KEY_FILE = \"key\"", "STORE_CERTIFICATE_FILE is not"),
    ] {
        sandbox.configure(lines);
        let said = sandbox.llts("up 1");
        assert!(
            said.code != Some(0) && said.err.contains(sentence) && !said.err.contains("secret"),
            "{lines}: {said:?}"
        );
    }
    sandbox.is_clean();
}

/// Its kernel may still take connections, and a machine that is gone says nothing at all.
#[test]
fn a_command_does_not_wait_for_a_frozen_controller_where_another_one_answers() {
    let sandbox = Sandbox::up(1);
    let service: serde_json::Value = serde_json::from_str(&sandbox.text("state/service.json")).unwrap();
    let port = service["controller"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    let _frozen = std::net::TcpListener::bind((own_ip(), port.parse().unwrap())).unwrap();
    let mut list = sandbox.command(&format!("--controller tcp://{}:{port},127.0.0.1:{port} list", own_ip()));
    list.env("LLTS_HANDSHAKE_TIMEOUT", "60000").said().ok();
    sandbox.ends_clean();
}

#[test]
fn a_queue_moves_to_a_server_and_back() {
    let postgres = Postgres::start();
    let sandbox = Sandbox::up(1);
    let [done, later] = ["-- true", "--start-after +1h -- true"].map(|words| submit(&sandbox, words));
    sandbox.ok(&format!("wait {done}"));
    sandbox.ok("gate set g --max-running 3");
    sandbox.ok("gate set closed --max-running 0");
    sandbox.write("file", "travels");
    let with_file = submit(&sandbox, "--gate closed --in file -- cat file");
    let to_server = format!("store copy sqlite {}", postgres.url());
    sandbox.llts(&to_server).failed(1, "another controller already runs here");
    sandbox.ok("down");
    let exported = sandbox.ok("store export").out;

    assert!(sandbox.ok(&to_server).out.contains("has 3 tasks"));
    sandbox.llts(&to_server).failed(1, "a copy replaces nothing");
    sandbox.llts("up 1").failed(1, "was copied to postgresql://");
    sandbox.configure(&format!("STORE = \"{}\"\nSTORE_LEASE = {LEASE}\n", postgres.url()));
    assert_eq!(sandbox.ok("store export").out, exported);
    sandbox.ok("up 1");
    assert!(states(&sandbox).contains(&later) && sandbox.ok("gate show g").out.contains('3'));
    sandbox.ok("run -- true");
    let back = format!("store copy {} sqlite", postgres.url());
    sandbox.llts(&back).failed(1, "another controller already runs here");
    // A home that has just begun to lead has no copy of the file.
    std::fs::remove_dir_all(sandbox.path("state/archives")).unwrap();
    sandbox.ok("store backup copy");
    sandbox.ok("down");
    sandbox.llts(&back).failed(1, "a copy replaces nothing");

    std::fs::remove_file(sandbox.path("state/tasks.sqlite")).unwrap();
    // The server has the files, too.
    std::fs::remove_dir_all(sandbox.path("state/archives")).unwrap();
    assert!(sandbox.ok(&back).out.contains("has 4 tasks"));
    sandbox.llts("up 1").failed(1, "and goes on there: set STORE to that");
    sandbox.configure("");
    sandbox.ok("up 1");
    assert!(states(&sandbox).contains(&later) && !sandbox.ok("incidents").out.contains("STORE_FROM_ELSEWHERE"));
    sandbox.ok("gate set closed --max-running 1");
    assert!(sandbox.ok(&format!("wait {with_file} --output json")).out.contains("SUCCEEDED"));
    sandbox.ends_clean();
    // The backup of a queue in a server has it as a file.
    sandbox.llts("store copy mysql://db sqlite").failed(2, "is no store");
    let restored = sandbox.ok("--home new store restore copy");
    assert!(restored.err.contains("the restored one is a file: set STORE = \"sqlite\""), "{restored:?}");
    postgres.sql("DROP SCHEMA llts CASCADE");
    sandbox.llts("--home new up 1").failed(1, "has a queue of its own");
    sandbox.ok(&format!("--home new store copy sqlite {}", postgres.url()));
    sandbox.ok("--home new up 1");
    assert!(sandbox.ok("--home new list").out.contains(&later));
    sandbox.ok("--home new down");
    assert!(sandbox.path("new/state/tasks.sqlite").exists());
    let files = std::fs::read_dir(sandbox.path("new/state/archives")).unwrap();
    let is_there = |file: std::io::Result<std::fs::DirEntry>| {
        std::fs::read(file.unwrap().path()).is_ok_and(|bytes| bytes == b"travels")
    };
    assert!(files.into_iter().any(is_there));
}
