//! A real master and real workers in trouble: a full disk at the master, killed processes, a drained master, and notices of the end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::prompt_worker::after::{PORT, host, master, prompts, worker};
use crate::prompt_worker::sandbox::{PATIENCE, Sandbox, Start as _, eventually, namespace};

/// Answers when the file `go` is there.
const WAITS: &str = "echo run >>../started; while ! test -e ../go; do sleep 0.05; done; yes \"$(cat)\" | head -c 30000";

/// The answer to `status` or an order; null without a master.
fn order(sandbox: &Sandbox, verb: &str) -> Value {
    let said = sandbox.start(&[verb, &host(), PORT, "--output", "wire"]).said();
    serde_json::from_str(&said.out).unwrap_or_default()
}

#[test]
fn a_full_disk_at_the_master_leaves_answers_with_their_workers_until_there_is_room() {
    let Some(way) = namespace("-m") else { return };
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("small")).expect("a folder of ours");
    fs::create_dir_all(sandbox.path("other")).expect("a folder of ours");
    let mount = "mount -t tmpfs -o size=1m none small && mkdir -p small/.tasks/pending && \
                 for n in 1 2 3; do echo prompt $n >small/.tasks/pending/$n.txt; done && exec \"$@\"";
    let wrapper = [&way[..], &["sh", "-c", mount, "sh"]].concat();
    let environment = [("LLTS_PROMPT_BIND", &*host()), ("LLTS_PROMPT_TIMER_INTERVAL", "300")];
    let master = sandbox
        .command(&["master", PORT, "--root-dir", "small", "--keep-alive"])
        .under(&wrapper)
        .envs(environment)
        .start();
    let small =
        |name: &str| PathBuf::from(format!("/proc/{}/root{}", master.id(), sandbox.path("small").join(name).display()));
    let _worker = worker(&sandbox, &["--root-dir", "other"], WAITS);
    eventually("the run", || sandbox.path("started").exists());
    let mut filler = fs::File::create(small("filler")).expect("a file on the small disk");
    while filler.write_all(&[0; 4096]).is_ok() {}
    fs::write(sandbox.path("go"), "").expect("a file of ours");
    let paused = || order(&sandbox, "status")["paused"].as_str().unwrap_or_default().to_owned();
    eventually("a word about the disk", || paused().contains("disk") || paused().contains("No space"));
    eventually("the answer at its worker", || sandbox.path("other/.tasks/done/1.txt.out").exists());
    let status = order(&sandbox, "status");
    assert_eq!(
        (&status["pending"], &status["working"], &status["done"]),
        (&json!(2), &json!(1), &json!(0)),
        "{status}"
    );
    drop(filler);
    fs::remove_file(small("filler")).expect("a file of ours");
    eventually("all answers", || order(&sandbox, "status")["done"] == 3);
    for number in 1..=3 {
        let answer = fs::read_to_string(small(&format!(".tasks/done/{number}.txt.out"))).expect("an answer");
        assert!(answer.len() == 30_000 && answer.starts_with(&format!("prompt {number}\n")), "{number}");
    }
    assert_eq!(sandbox.text("started"), "run\n".repeat(3), "each ran once");
}

#[test]
fn workers_end_with_the_killed_process_that_has_started_them_and_give_their_prompts_back() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt", "b.txt"]);
    let _master = master(&sandbox, &["--keep-alive"]);
    let mut workers = worker(&sandbox, &["--jobs", "2"], "touch on-$PROMPT_NAME; sleep 1000");
    eventually("two runs", || sandbox.path("on-a.txt").exists() && sandbox.path("on-b.txt").exists());
    workers.kill();
    let is_back = |status: &Value| status["pending"] == 2 && status["workers"] == json!([]);
    eventually("the prompts", || is_back(&order(&sandbox, "status")));
    eventually("the end of the commands", || sandbox.commands().is_empty());
}

#[test]
fn a_killed_command_has_not_failed() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    let master = master(&sandbox, &[]);
    let worker = worker(&sandbox, &[], "echo half; test -e second || { touch second; kill -9 $$; }; cat");
    assert_eq!((worker.said().code, master.said().code), (Some(0), Some(0)));
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), "half\ndo a.txt");
    assert_eq!(sandbox.text(".tasks/attempts/a.txt.out"), "half\n");
}

#[test]
fn a_prompt_whose_answer_is_gone_at_its_end_is_not_done() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    fs::create_dir_all(sandbox.path("other")).expect("a folder of ours");
    let master = master(&sandbox, &[]);
    // The first run is lost, the second one makes the worker pause, the third one leaves its output alone.
    let script = "echo run >>../started; test $(wc -l <../started) = 3 || rm ${PROMPT_FILE%/*}/out; cat";
    let words = ["worker", &host(), PORT, "--root-dir", "other", "--", "sh", "-c", script];
    let worker = sandbox.start_with(&[("LLTS_PROMPT_WORKER_LIMITED_PAUSE", "300")], &words).said();
    let master = master.said();
    assert_eq!((worker.code, master.code), (Some(0), Some(0)), "{worker:?} {master:?}");
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), "do a.txt");
    assert_eq!(sandbox.text("started"), "run\n".repeat(3));
    let why = "its output cannot be read at its end: out: No such file or directory";
    assert!(worker.err.contains(&format!("pausing for 0 s: {why}")), "{worker:?}");
    assert!(master.err.contains("a.txt waits again: its run at ") && master.err.contains(why), "{master:?}");
}

#[test]
fn a_prompt_whose_commands_are_killed_is_given_up_also_if_its_master_is_killed_each_time() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    let start = || {
        let environment = [("LLTS_PROMPT_BIND", &*host()), ("LLTS_PROMPT_LOSSES_MAX", "2")];
        sandbox.start_with(&environment, &["master", PORT, "--max-starts", "1"])
    };
    let _worker = worker(&sandbox, &[], "kill -9 $$");
    for round in 0..3 {
        let mut master = start();
        let is_back = |status: &Value| status["paused"].is_string() && status["working"] == 0;
        if round < 2 {
            eventually("the loss", || is_back(&order(&sandbox, "status")));
            master.kill();
        } else {
            assert_eq!(master.said().code, Some(1));
        }
    }
    let reason = sandbox.text(".tasks/failed/a.txt.reason");
    assert!(reason.starts_with("3 runs of this prompt were lost (LOSSES_MAX); the last one: its run at "), "{reason}");
    assert!(reason.contains("the command was killed from outside: ended by signal 9"), "{reason}");
}

#[test]
fn a_drained_master_ends_with_its_runs_and_the_next_one_sums_up_both() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt", "b.txt"]);
    let first = master(&sandbox, &[]);
    fs::create_dir_all(sandbox.path("other")).expect("a folder of ours");
    let worker = worker(&sandbox, &["--root-dir", "other"], WAITS);
    eventually("the run", || sandbox.path("started").exists());
    assert!(order(&sandbox, "drain")["paused"].as_str().is_some_and(|reason| reason.contains("running prompts")));
    fs::write(sandbox.path("go"), "").expect("a file of ours");
    let said = first.said();
    assert!(said.code == Some(0) && said.out.contains("2 prompts: 1 succeeded, 0 failed, 1 left"), "{said:?}");
    let second = master(&sandbox, &[]);
    // The worker has waited for it.
    assert_eq!(worker.said().code, Some(0));
    let said = second.said();
    assert!(said.code == Some(0) && said.out.contains("2 prompts: 2 succeeded, 0 failed, 0 left"), "{said:?}");
    let summary: Value = serde_json::from_str(&sandbox.text(".tasks/summary.json")).expect("JSON");
    assert_eq!((&summary["all"], &summary["succeeded"]), (&json!(2), &json!(2)), "{summary}");
}

/// An HTTP server that takes anything: its address, and the bodies.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind((testkit::own_ip(), 0)).expect("a free port");
    let address = format!("http://{}/hook", listener.local_addr().expect("bound"));
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut length = 0;
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                let header = line.to_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = sender.send(serde_json::from_slice(&body).expect("JSON"));
        }
    });
    (address, bodies)
}

#[test]
fn a_webhook_is_told_of_each_failure_and_of_the_end() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt", "b.txt"]);
    let (address, bodies) = receiver();
    let master = master(&sandbox, &["--webhook", &address]);
    assert_eq!(worker(&sandbox, &[], "! grep -q a.txt $PROMPT_FILE").said().code, Some(1));
    assert_eq!(master.said().code, Some(1));
    let failed = bodies.recv_timeout(PATIENCE).expect("a notice");
    assert_eq!(failed, json!({ "event": "failed", "prompt": "a.txt" }));
    let end = bodies.recv_timeout(PATIENCE).expect("a notice");
    assert_eq!(
        (&end["event"], &end["all"], &end["failed"], &end["left"]),
        (&json!("end"), &json!(2), &json!(1), &json!(0))
    );
}

#[test]
fn commands_that_hang_do_not_keep_the_master_from_ending() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt", "b.txt", "c.txt"]);
    let environment = [("LLTS_PROMPT_BIND", &*host()), ("LLTS_PROMPT_NOTICE_TIMEOUT", "5000")];
    let hang = |name: &str| format!("echo $PROMPT_EVENT $PROMPT_PROMPT >>{name}; sleep 1000; echo never >>{name}");
    let [fail, end] = ["on-fail", "on-end"].map(hang);
    let words = ["master", PORT, "--on-fail", &fail, "--on-end", &end];
    let master = sandbox.start_with(&environment, &words);
    assert_eq!(worker(&sandbox, &[], "false").said().code, Some(1));
    let said = master.said().ended(1);
    assert!(sandbox.text("on-fail").starts_with("failed a.txt\n") && sandbox.text("on-end") == "end\n", "{said:?}");
    assert!(
        said.err.contains("sleep 1000; echo never >>on-end\" has not ended within 5.0 s and was killed"),
        "{said:?}"
    );
    eventually("the end of the commands", || sandbox.commands().is_empty());
}

/// The words behind `llts` in the ExecStart of a unit, for a folder and a host of ours.
fn exec_start(sandbox: &Sandbox, unit: &str) -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/systemd").join(unit);
    let text = fs::read_to_string(path).expect("a unit");
    let line =
        text.lines().find_map(|line| line.strip_prefix("ExecStart=%h/.local/bin/llts prompt ")).expect("a command");
    let home = sandbox.path("home").display().to_string();
    line.replace("%h", &home).replace("localhost", &host()).split(' ').map(str::to_owned).collect()
}

#[test]
fn the_systemd_units_start_a_master_and_a_worker_that_end_together() {
    let sandbox = Sandbox::new();
    let pending = sandbox.path("home/prompts/.tasks/pending");
    fs::create_dir_all(&pending).expect("a folder of ours");
    fs::write(pending.join("a.txt"), "question").expect("a file of ours");
    let words = exec_start(&sandbox, "llts-prompt-master.service");
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let master = sandbox.start_with(&[("LLTS_PROMPT_BIND", &host())], &words);
    let words = exec_start(&sandbox, "llts-prompt-worker@.service");
    let (options, command) = words.split_at(words.iter().position(|word| word == "--").expect("a command") + 1);
    assert_eq!(command, ["claude", "-p"]);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let worker = sandbox.start(&[&options[..], &["cat"]].concat());
    assert_eq!((worker.said().code, master.said().code), (Some(0), Some(0)));
    assert_eq!(sandbox.text("home/prompts/.tasks/done/a.txt.out"), "question");
}
