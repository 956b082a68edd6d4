//! The Rust client (clients/rust) as a program uses it, with the real binary: its verbs, and tools that stay written with its kit.
//!
//! Programs of the user are this test program again, which then does what the variable [`ROLE`] says.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use llts_client::requests::gate::GateChange;
use llts_client::tool::{Answer, Killed, Task};
use llts_client::{
    Client, ClientError, GateRow, JobAnswer, JobOf, Named, Outcome, Phase, Selector, Stream, Submission, TaskView,
    requests, words,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::sandbox::{Sandbox, Start as _, eventually, found, signal};

const ROLE: &str = "RUST_CLIENT_ROLE";

/// Another process that is this program in a role.
fn program(role: &str) -> String {
    let path = std::env::current_exe().expect("this program");
    let path = path.to_str().expect("text");
    format!(
        "exec env {ROLE}={role} '{path}' --exact rust_client::a_program_of_these_tests --nocapture --test-threads=1"
    )
}

/// No test of its own: see [`ROLE`].
#[test]
fn a_program_of_these_tests() {
    match std::env::var(ROLE).as_deref() {
        Ok("submits") => {
            let client = Client::here().unwrap();
            let task = client.submit(&Submission::new("hello").with("name", "a program")).unwrap().id;
            println!("\nsubmitted {task}");
            // The only agent of the service may be that of this program.
            assert_eq!(client.wait(&task).unwrap().stdout(), "hello a program\n");
        }
        Ok("stays") => {
            let mut count = 0;
            llts_client::tool::serve(|task| {
                count += 1;
                // No line, so that it is in no pipe before it is flushed.
                print!("task {count}");
                answer(task, count)
            })
            .unwrap();
            std::process::exit(0);
        }
        _ => {}
    }
}

/// The handler of a tool that stays.
fn answer(task: &Task, count: u32) -> Result<Answer, Box<dyn std::error::Error>> {
    match task.text("mode").unwrap_or_default() {
        "" => {
            let value = json!({ "count": count, "pid": std::process::id(), "n": task.fields()["n"] });
            Ok(Answer::value(&value)?.with_report(format!("report {count}")))
        }
        "defers" => Ok(Answer::default().with_exit_code(75)),
        "fails" => {
            fs::read_to_string("no/such/file")?;
            Ok(Answer::default())
        }
        "panics" => panic!("the model has {} heads", 3),
        "waits" => {
            assert!(!task.is_killed());
            fs::write(task.text("mark").ok_or("no mark")?, "")?;
            if task.wait_for_kill(Duration::from_secs(600)) { Err(Killed.into()) } else { Ok(Answer::default()) }
        }
        other => Err(format!("the mode {other} is unknown").into()),
    }
}

fn connect(sandbox: &Sandbox) -> Result<Client, ClientError> {
    Named { home: Some(sandbox.root().to_owned()), ..Named::default() }.client()
}

fn client(sandbox: &Sandbox) -> Client {
    connect(sandbox).expect("a controller")
}

/// A service with one agent, whose lists come in pages of some dozen tasks.
fn service() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.append("config.toml", "DETAILS_BYTES_MAX = 65536");
    sandbox.tool("hello", "echo \"hello $(grep -o '\"name\":\"[^\"]*' ../task.json | cut -d'\"' -f4)\"");
    sandbox.ok("up 1");
    sandbox
}

/// A service with one agent, and a tool that stays.
fn serving() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.script("tools/stays/run.sh", &program("stays"));
    sandbox.write("tools/stays/tool.toml", "[stay]\n");
    sandbox.ok("tool pack tools/stays");
    sandbox.ok("up 1");
    sandbox
}

fn value(task: &TaskView) -> Value {
    serde_json::from_str(task.value().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}: {task:?}"))
}

#[test]
fn a_task_is_submitted_waited_for_and_looked_at() {
    let sandbox = service();
    let client = client(&sandbox);
    let hello = Submission::new("hello").with("name", "Ada");
    let submitted = client.submit(&hello).unwrap();
    let end = client.wait(&submitted.id).unwrap();
    assert_eq!((end.outcome(), end.stdout()), (Some("SUCCEEDED"), "hello Ada\n"), "{end:?}");
    assert!(!submitted.duplicate && client.submit(&hello).unwrap().id != submitted.id, "each has a key of its own");
    let keyed = Submission { submit_key: Some("one".into()), ..hello.clone() };
    let (first, again) = (client.submit(&keyed).unwrap(), client.submit(&keyed).unwrap());
    assert_eq!((first.duplicate, again.duplicate, &again.id), (false, true, &first.id));

    let job = Some(JobOf { name: "night".into(), ..JobOf::default() });
    let nth = |n: u32| Submission::shell(format!("exit $(({n} % 2))"));
    let many: Vec<Submission> = (0..300).map(|n| Submission { job: job.clone(), ..nth(n) }).collect();
    let ids = client.submit_many(&many).unwrap().ids;
    let night = client.wait_for_job("night", None, None).unwrap().unwrap();
    assert_eq!((night.total(), night.failed()), (300, 150));
    assert_eq!(client.query(&ids[1]).unwrap().exit_code().map(|code| code.0), Some(1));
    assert_eq!(client.jobs().unwrap().iter().map(JobAnswer::name).collect::<Vec<_>>(), ["night"]);
    let failed = Selector::all().and_job("night").and_outcome(Outcome::Failed);
    let listed: Vec<String> = client.list(&failed).map(|task| task.unwrap().id().to_owned()).collect();
    assert!(listed.len() == 150 && listed.is_sorted_by(|one, next| one > next), "newest first: {listed:?}");
    assert_eq!(client.list(&Selector::all()).count(), 303);

    let unknown = client.query("TASK_1480000000.120000_AZazA").unwrap_err();
    assert!(matches!(&unknown, ClientError::Reply(reply) if reply.is_no_such_task()), "{unknown}");
    let refused = client.submit(&Submission::new("helo").requiring_tool()).unwrap_err();
    assert!(refused.to_string().contains("hello"), "{refused}");
    sandbox.ends_clean();
}

/// With the patience of this client, an answer that was lost with its connection would be missed for ten minutes.
#[test]
fn a_wait_goes_on_at_once_when_the_controller_is_back() {
    let sandbox = service();
    let client = client(&sandbox);
    let go = sandbox.path("go");
    let task = Submission::shell(format!("until test -e '{}'; do sleep 0.05; done", go.display()));
    let id = client.submit(&task).unwrap().id;
    let (sender, ended) = std::sync::mpsc::channel();
    let (endpoint, waited) = (client.endpoint().to_owned(), id.clone());
    let waiter = std::thread::spawn(move || {
        let patient = Client::connect(&endpoint, Duration::from_secs(600)).unwrap();
        patient.query(&waited).unwrap();
        sender.send(None).unwrap();
        sender.send(patient.wait(&waited).unwrap().outcome().map(str::to_owned)).unwrap();
    });
    assert_eq!(ended.recv().unwrap(), None);
    eventually("it runs", || client.query(&id).unwrap().status() == "RUNNING");
    signal(sandbox.process(" controller"), Signal::KILL);
    eventually("the controller is back", || client.stats().is_ok());
    fs::write(go, "").unwrap();
    let outcome = ended.recv_timeout(Duration::from_secs(60)).expect("the wait ends");
    assert_eq!(outcome.as_deref(), Some("SUCCEEDED"));
    waiter.join().unwrap();
    sandbox.ends_clean();
}

#[test]
fn a_task_is_held_killed_and_run_again() {
    let sandbox = service();
    let client = client(&sandbox);
    let begun = sandbox.path("begun");
    let long = client.submit(&Submission::shell(format!("touch '{}'; sleep 1000", begun.display()))).unwrap().id;
    eventually("it runs", || begun.exists());
    // Its command may be faster than the word of its start.
    eventually("it counts as running", || {
        let counts = client.stats().unwrap().counts();
        counts.by_phase().find(|(phase, _)| *phase == Phase::Running) == Some((Phase::Running, 1))
    });
    let next = client.submit(&Submission::new("hello").with("name", "Eve")).unwrap().id;
    client.hold(&next).unwrap();
    client.kill(&long, "the test has seen enough").unwrap();
    let killed = client.wait(&long).unwrap();
    assert_eq!(killed.outcome(), Some("KILLED"));
    assert!(client.explain(&long).unwrap().why().contains("the test has seen enough"));
    assert_eq!(client.wait_timeout(&next, Duration::from_millis(100)).unwrap(), None);
    assert!(client.explain(&next).unwrap().why().contains("held"));
    client.release(&next).unwrap();
    assert_eq!(client.wait_timeout(&next, Duration::from_secs(60)).unwrap().unwrap().round(), 0);
    client.retry(&next).unwrap();
    let again = client.wait(&next).unwrap();
    assert_eq!((again.round(), again.stdout()), (1, "hello Eve\n"));
    let agents = client.agents().unwrap();
    assert_eq!((agents.len(), agents[0].status()), (1, "FREE"));
    let change = GateChange { running_max: Some(Some(1)), ..GateChange::default() };
    client.ask(&requests::gate::set("narrow", &change)).unwrap();
    assert_eq!(client.gates().unwrap().iter().map(GateRow::name).collect::<Vec<_>>(), ["narrow"]);
    sandbox.ends_clean();
}

#[test]
fn an_output_is_read_while_it_grows_and_its_files_are_fetched() {
    let sandbox = service();
    let client = client(&sandbox);
    let go = sandbox.path("go");
    let line = format!("echo one; until [ -e '{}' ]; do sleep 0.01; done; echo two | tee out.txt", go.display());
    let task = client.submit(&Submission::shell(line).with(words::OUT, "[\"*.txt\"]")).unwrap().id;
    let mut lines = BufReader::new(client.logs(&task, Stream::Stdout).follow()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "one");
    assert!(client.files(&task).unwrap().is_empty(), "it still runs");
    fs::write(&go, "").unwrap();
    assert_eq!(lines.collect::<Vec<_>>(), ["two"]);
    client.wait(&task).unwrap();
    let last = client.logs(&task, Stream::Stdout).from_last_lines(1).unwrap();
    assert_eq!(last.flat_map(|part| part.unwrap().data).collect::<Vec<u8>>(), b"two\n");
    let files = client.files(&task).unwrap();
    assert_eq!(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["out.txt"]);
    client.fetch(&files[0], &sandbox.path("results/out.txt")).unwrap();
    assert_eq!(sandbox.text("results/out.txt"), "two\n");
    sandbox.ends_clean();
}

#[test]
fn a_death_of_the_controller_is_borne() {
    let sandbox = service();
    let client = client(&sandbox);
    let go = sandbox.path("go");
    let task = client.submit(&Submission::shell(format!("until [ -e '{}' ]; do sleep 0.01; done", go.display())));
    let task = task.unwrap().id;
    signal(found("the controller", || sandbox.pid(" controller")), Signal::KILL);
    let next = client.submit(&Submission::new("hello").with("name", "you")).unwrap();
    assert!(!next.duplicate, "whatever became of the first request");
    fs::write(&go, "").unwrap();
    assert_eq!(client.wait(&task).unwrap().outcome(), Some("SUCCEEDED"));
    assert_eq!(client.wait(&next.id).unwrap().stdout(), "hello you\n");
    assert_eq!(client.list(&Selector::all()).count(), 2, "no submit is doubled");
    sandbox.ends_clean();
}

#[test]
fn a_program_finds_the_service_of_its_folder_and_that_of_its_task() {
    let sandbox = service();
    let client = client(&sandbox);
    let id = |out: &str| out.lines().find_map(|line| line.strip_prefix("submitted ")).map(str::to_owned);
    let said = sandbox.program("sh").args(["-c", &program("submits")]).said();
    let task = id(&said.out).unwrap_or_else(|| panic!("{said:?}"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(client.query(&task).unwrap().fields().text(words::FATHER_ID), None);

    let parent = client.submit(&Submission::shell(program("submits"))).unwrap().id;
    let end = client.wait(&parent).unwrap();
    assert_eq!(end.outcome(), Some("SUCCEEDED"), "{end:?}");
    let child = id(end.stdout()).unwrap_or_else(|| panic!("{end:?}"));
    assert_eq!(client.query(&child).unwrap().fields().text(words::FATHER_ID), Some(parent.as_str()));

    sandbox.ok("down");
    let error = connect(&sandbox).unwrap_err();
    assert!(error.to_string().contains("start one with `llts up`"), "{error}");
    let said = sandbox.program("sh").args(["-c", &program("submits")]).env("LLTS_CONTEXT", "moon").said();
    assert!(said.err.contains("moon"), "{said:?}");
}

#[test]
fn a_tool_of_the_kit_answers_one_task_after_the_other() {
    let sandbox = serving();
    let client = client(&sandbox);
    let run = |task: Submission| client.wait(&client.submit(&task).unwrap().id).unwrap();
    let plain = || Submission::new("stays").with("n", 7);
    let tasks = [run(plain()), run(plain())];
    for (n, task) in (1..).zip(&tasks) {
        assert_eq!(value(task)["count"], n, "{task:?}");
        assert_eq!((&value(task)["n"], &value(task)["pid"]), (&json!(7), &value(&tasks[0])["pid"]));
        assert_eq!((task.report(), task.stdout()), (format!("report {n}").as_str(), format!("task {n}").as_str()));
        assert_eq!((task.fields().flag(words::WARM), task.outcome()), (n > 1, Some("SUCCEEDED")));
    }
    for (mode, report) in [
        ("fails", "No such file or directory"),
        ("panics", "the model has 3 heads"),
        ("sings", "the mode sings is unknown"),
    ] {
        let failed = run(plain().with("mode", mode));
        assert_eq!((failed.outcome(), failed.exit_code().map(|code| code.0)), (Some("FAILED"), Some(1)), "{failed:?}");
        assert!(failed.report().contains(report), "{mode}: {}", failed.report());
    }
    let after = run(plain());
    assert_eq!(value(&after)["pid"], value(&tasks[0])["pid"], "a failure ends no tool");
    assert_eq!(value(&after)["count"], 6);

    let pid = i32::try_from(value(&after)["pid"].as_i64().unwrap()).unwrap();
    let is_there = || sandbox.processes().iter().any(|(one, _)| *one == pid);
    assert!(is_there());
    sandbox.ends_clean();
    assert!(!is_there());
}

/// An order is sent once. It must not go into a connection that has ended while the client had nothing to ask.
#[test]
fn an_idle_client_gets_its_next_answer_from_the_next_controller() {
    let sandbox = Sandbox::up(1);
    let client = client(&sandbox);
    let order = requests::gate::set("narrow", &GateChange::default());
    client.ask(&order).unwrap();
    let controller = sandbox.process(" controller");
    signal(controller, Signal::KILL);
    eventually("the next one answers", || {
        sandbox.pid(" controller").is_some_and(|pid| pid != controller) && sandbox.llts("agents").code == Some(0)
    });
    client.ask(&order).unwrap();
}

#[test]
fn a_kill_reaches_the_handler_of_a_tool_at_once() {
    let sandbox = serving();
    let client = client(&sandbox);
    let begun = sandbox.path("begun");
    let waits = Submission::new("stays").with("mode", "waits").with("mark", begun.to_str().unwrap());
    let task = client.submit(&waits).unwrap().id;
    eventually("it has begun", || begun.exists());
    client.kill(&task, "enough").unwrap();
    let end = client.wait(&task).unwrap();
    let code = end.exit_code().map(|code| code.0);
    assert_eq!((end.outcome(), code, end.report()), (Some("KILLED"), Some(143), "killed"), "{end:?}");
    sandbox.ends_clean();
}

/// Only an agent has tasks for it.
#[test]
fn a_tool_that_is_started_by_hand_says_what_is_missing() {
    let error = llts_client::tool::serve(|_| Ok(Answer::default())).unwrap_err();
    assert!(error.to_string().contains("[stay] in its tool.toml"), "{error}");
}
