//! `llts prompt tail`: the output of a prompt, from another machine, while it runs and afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::json;

use crate::prompt_worker::after::{PORT, host, master, prompts, worker};
use crate::prompt_worker::sandbox::{Program, Said, Sandbox, eventually, found};

/// A script that says `one`, and `two` when the file `go` appears.
const TWO_LINES: &str = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two";

fn tail(sandbox: &Sandbox, name: &str, options: &[&str]) -> Program {
    sandbox.start(&[&["tail", name, &host(), PORT], options].concat())
}

/// The answer once the prompt is not only waiting or unknown.
#[track_caller]
fn tail_of_known(sandbox: &Sandbox, name: &str) -> Said {
    found("an output", || Some(tail(sandbox, name, &[]).said()).filter(|said| said.code == Some(0)))
}

fn is_working(sandbox: &Sandbox, name: &str) -> bool {
    sandbox.path(".tasks/working").join(name).exists()
}

#[test]
fn a_running_prompt_is_followed_until_its_end_from_any_folder() {
    let (sandbox, workers, elsewhere) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    prompts(&sandbox, &["a.txt"]);
    let _master = master(&sandbox, &[]);
    let _worker = worker(&workers, &[], TWO_LINES);
    eventually("a command", || !workers.commands().is_empty());
    let mut following = tail(&elsewhere, "a.txt", &[]);
    assert_eq!(following.next_line(), "one\n", "it is seen before the command has ended");
    // One that is interrupted changes nothing.
    let other = tail(&elsewhere, "a.txt", &[]);
    other.signal(Signal::INT);
    assert_eq!(other.said().code, None);
    fs::write(workers.path("go"), "").unwrap();
    assert_eq!(following.said().ok().out, "two\n");
    assert_eq!(fs::read_to_string(sandbox.path(".tasks/done/a.txt.out")).unwrap(), "one\ntwo\n");
}

#[test]
fn a_long_output_arrives_whole_while_it_is_written_and_afterwards() {
    let (sandbox, workers) = (Sandbox::new(), Sandbox::new());
    prompts(&sandbox, &["a.txt"]);
    let _master = master(&sandbox, &["--keep-alive"]);
    let script = "for i in 1 2 3 4 5; do seq 20000; sleep 0.05; done; echo trouble >&2";
    let _worker = worker(&workers, &[], script);
    eventually("a start", || is_working(&sandbox, "a.txt") || sandbox.path(".tasks/done/a.txt").exists());
    let live = tail_of_known(&sandbox, "a.txt");
    eventually("the end", || sandbox.path(".tasks/done/a.txt").exists());
    let whole = sandbox.text(".tasks/done/a.txt.out");
    let stored = tail(&sandbox, "a.txt", &[]).said();
    assert!(
        live.out == whole && stored.out == whole && whole.len() > 500_000,
        "{} {}",
        live.out.len(),
        stored.out.len()
    );
    assert_eq!(tail(&sandbox, "a.txt", &["--err"]).said().out, "trouble\n");
}

#[test]
fn the_output_of_a_limited_run_is_read_from_the_machine_of_its_worker() {
    let (sandbox, workers) = (Sandbox::new(), Sandbox::new());
    prompts(&sandbox, &["a.txt"]);
    let _master = master(&sandbox, &["--keep-alive"]);
    let script = "seq 20000; echo retry_after=600 > $PROMPT_DEFER_FILE; exit 75";
    let _worker = worker(&workers, &["--gate", "x"], script);
    eventually("the kept output", || workers.path(".tasks/attempts/a.txt.out").exists());
    // A client of the run itself would wait for the next one.
    eventually("the report", || sandbox.path(".tasks/pending/a.txt").exists());
    let said = tail_of_known(&sandbox, "a.txt");
    assert!(said.out == workers.text(".tasks/attempts/a.txt.out") && said.out.len() > 100_000, "{}", said.out.len());
    assert!(said.err.contains("a.txt waits again; this is the output of a run without a result"), "{}", said.err);
}

#[test]
fn an_output_that_cannot_be_shown_is_a_sentence() {
    let sandbox = Sandbox::new();
    prompts(&sandbox, &["a.txt"]);
    let _master = master(&sandbox, &["--keep-alive"]);
    let refused = |name: &str| {
        let said = tail(&sandbox, name, &[]).said();
        assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
        said.err
    };
    eventually("a master", || TcpStream::connect((host(), 34567)).is_ok());
    assert!(refused("a.txt").contains("a.txt waits, and no run of it has an output"));
    assert!(refused("b.txt").contains("there is no prompt b.txt below "));
    assert!(refused("../working/a.txt").contains("is no name of a prompt"));
    let mut original = TcpStream::connect((host(), 34567)).unwrap();
    let join =
        json!({ "type": "JOIN", "msg": "12345", "secret": crate::prompt_worker::sandbox::SECRET, "splits": true });
    writeln!(original, "{join}").unwrap();
    let mut lines = BufReader::new(original.try_clone().unwrap()).lines();
    let request = lines.by_ref().map(Result::unwrap).find(|line| line.contains("REQUEST")).expect("a prompt");
    let request: serde_json::Value = serde_json::from_str(&request).unwrap();
    let ack = json!({ "type": "REQUEST_ACK", "req_id": request["req_id"] });
    writeln!(original, "{ack}").unwrap();
    let said = refused("a.txt");
    assert!(said.contains("worker 12345 ") && said.contains("cannot be asked for its output"), "{said}");
    writeln!(original, "{}", json!({ "type": "DONE", "msg": "" })).unwrap();
    eventually("the end", || sandbox.path(".tasks/done/a.txt").exists());
    assert!(refused("a.txt").contains("its output is not here but with its worker"));
}

#[test]
fn a_prompt_is_followed_over_a_restart_of_its_master() {
    let (sandbox, workers) = (Sandbox::new(), Sandbox::new());
    prompts(&sandbox, &["a.txt"]);
    let mut first = master(&sandbox, &[]);
    let _worker = worker(&workers, &[], TWO_LINES);
    eventually("a command", || !workers.commands().is_empty());
    let mut following = tail(&sandbox, "a.txt", &[]);
    let impatient = tail(&sandbox, "a.txt", &["--patience", "0"]);
    let first_line = following.next_line();
    first.kill();
    impatient.said().failed(3, "no prompt master answers");
    // It would end with the prompt, perhaps before it is asked.
    let _second = master(&sandbox, &["--keep-alive"]);
    eventually("a master", || TcpStream::connect((host(), 34567)).is_ok());
    fs::write(workers.path("go"), "").unwrap();
    let Said { out, err, .. } = following.said().ok();
    assert_eq!(first_line + &out, "one\ntwo\n", "{err}");
    assert!(err.contains("trying again") && err.contains("the prompt master is there again"), "{err}");
}

#[test]
fn a_prompt_whose_worker_is_killed_is_followed_in_its_next_run() {
    let (sandbox, workers, others) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    prompts(&sandbox, &["a.txt"]);
    let environment = [("LLTS_PROMPT_BIND", &*host()), ("LLTS_PROMPT_LEASE", "300")];
    let _master = sandbox.start_with(&environment, &["master", PORT, "--keep-alive"]);
    let mut lost = worker(&workers, &[], "echo lost; sleep 1000");
    eventually("a command", || !workers.commands().is_empty());
    let mut following = tail(&sandbox, "a.txt", &[]);
    let first_line = following.next_line();
    lost.kill();
    let _next = worker(&others, &[], TWO_LINES);
    eventually("another run", || !others.commands().is_empty());
    fs::write(others.path("go"), "").unwrap();
    let Said { out, err, .. } = following.said().ok();
    assert_eq!(first_line + &out, "lost\none\ntwo\n", "{err}");
    assert!(err.contains("without a result") && err.contains("waiting for the output of the next run"), "{err}");
}
