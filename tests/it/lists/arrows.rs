//! Every arrow of the document's diagram.

use rustix::process::Signal;

use crate::lists::sandbox::{Sandbox, eventually};

/// new -> open -> running -> closed -> completed -> completed_archive, with the names and lines of the document at each step.
#[test]
fn a_task_that_succeeds_comes_through_all_states() {
    let mut sandbox = Sandbox::new();
    let work = sandbox.root().join("work_lists");
    sandbox.set("WORK_DIR", &work.display().to_string());
    let id = sandbox.add(&[
        "echo 'A'; echo 'B'; while [ ! -e go ]; do sleep 0.01; done",
        "--expected-duration",
        "2m",
        "--max-fails",
        "5",
    ]);
    assert_eq!(sandbox.names("new"), [format!("{id}.task")]);
    let new = sandbox.text(&format!("new/{id}.task"));
    let lines: Vec<&str> = new.lines().collect();
    let created: u64 = lines[1].parse().unwrap();
    assert_eq!((lines.len(), lines[0], &lines[3..6]), (7, id.as_str(), &["120", "5", "0"][..]));
    assert_eq!(id.strip_suffix("_0").unwrap()[..10].parse::<u64>().unwrap(), created);

    let server = sandbox.server();
    eventually("an open list", || sandbox.names("open") == [created.to_string()]);
    // The folder of a list is made before its tasks are moved into it.
    eventually("its task", || sandbox.names(&format!("open/{created}")) == [format!("{id}.task")]);
    assert_eq!(sandbox.text(&format!("open/{created}/{id}.task")), new);

    let _worker = sandbox.worker("worker_123", &server);
    eventually("a running list", || sandbox.names("running").len() == 1);
    let running = sandbox.names("running").remove(0);
    let started: u64 = running.strip_prefix(&format!("{created}_worker_123_")).expect("its name").parse().unwrap();
    assert!(started >= created && sandbox.names("open").is_empty(), "{running}");

    std::fs::write(sandbox.root().join("go"), "").unwrap();
    assert_eq!(sandbox.ended(&id), "completed_archive");
    let names = sandbox.names("completed_archive");
    assert_eq!(names, [format!("{id}.out"), format!("{id}.task")], "an empty .err does not exist");
    assert_eq!(sandbox.text(&format!("completed_archive/{id}.out")), "A\nB\n");
    let own = work.join("w-worker_123");
    assert!(own.is_dir(), "the folder of the worker");
    eventually("no output stays with the worker", || crate::lists::sandbox::names(&own).is_empty());
    let ran = sandbox.text(&format!("completed_archive/{id}.task"));
    let rest: Vec<&str> = ran.strip_prefix(&new).expect("the seven lines").lines().collect();
    assert_eq!(rest[0], "worker_123");
    let [began, ended] = [rest[1], rest[2]].map(|seconds| seconds.parse::<u64>().unwrap());
    assert!(rest.len() == 3 && created <= began && began <= ended, "{ran}");
    eventually("no list", || ["open", "running", "closed"].iter().all(|state| sandbox.names(state).is_empty()));
}

/// closed -> failed -> failed_archive with a duplicate in new, and at last failed_count: three runs for max_fails 3.
#[test]
fn a_task_that_fails_is_repeated_as_often_as_it_may_fail() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let id = sandbox.add(&["echo run >>runs; echo out; echo bad >&2; exit 0", "--max-fails", "3"]);
    let nanos = id.strip_suffix("_0").unwrap();
    let forms = [0, 1, 2].map(|fails| format!("{nanos}_{fails}"));
    assert_eq!(sandbox.ended(&forms[2]), "failed_count");
    assert_eq!(sandbox.tasks("failed_archive"), forms[..2]);
    for (form, state) in forms.iter().zip(["failed_archive", "failed_archive", "failed_count"]) {
        let text = sandbox.text(&format!("{state}/{form}.task"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[5]), (10, form.as_str(), &form[form.len() - 1..]));
        assert_eq!(sandbox.text(&format!("{state}/{form}.err")), "bad\n");
        assert_eq!(sandbox.text(&format!("{state}/{form}.out")), "out\n");
    }
    assert_eq!(std::fs::read_to_string(sandbox.root().join("runs")).unwrap(), "run\n".repeat(3));
    assert!(sandbox.names("failed").is_empty() && sandbox.names("new").is_empty());
}

#[test]
fn an_exit_status_is_no_failure_and_a_word_on_stderr_is_one() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    for (cmd, state) in [
        ("exit 7", "completed_archive"),
        ("echo no >&2", "failed_count"),
        ("kill -9 $$", "failed_count"),
        ("no-such-program", "failed_count"),
    ] {
        assert_eq!(sandbox.ended(&sandbox.add(&[cmd])), state, "{cmd}");
    }
    for max_fails in ["0", "1"] {
        let id = sandbox.add(&["echo no >&2", "--max-fails", max_fails]);
        assert_eq!(sandbox.ended(&id), "failed_count", "one run");
    }
    let killed = sandbox.json(&["results", "--failed"])["tasks"].as_array().unwrap().clone();
    let killed = killed.iter().find(|task| task["cmd"] == "kill -9 $$").unwrap();
    assert_eq!(killed["stderr"], "ended by signal 9\n");
}

/// failed -> failed_time: after a failure, and without any run.
#[test]
fn a_task_whose_time_has_passed_is_not_repeated_and_not_started() {
    let sandbox = Sandbox::new();
    let late = sandbox.add(&["echo run >>runs", "--until", "2001-09-09T01:46:40Z", "--max-fails", "9"]);
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    assert_eq!(sandbox.ended(&late), "failed_time");
    assert_eq!(sandbox.text(&format!("failed_time/{late}.err")), "not started before 1000000000\n");
    assert_eq!(sandbox.text(&format!("failed_time/{late}.out")), "");
    let text = sandbox.text(&format!("failed_time/{late}.task"));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[8]), (10, lines[9]));
    assert!(!sandbox.root().join("runs").exists());
    let cmd = "echo bad >&2; while [ $(date +%s) -le $(cat until) ]; do sleep 0.05; done";
    let until = proc::clock::now().wall.micros() / 1_000_000 + 2;
    std::fs::write(sandbox.root().join("until"), until.to_string()).unwrap();
    let id = sandbox.add(&[cmd, "--until", &until.to_string(), "--max-fails", "9"]);
    assert_eq!(sandbox.ended(&id), "failed_time");
}

/// running -> open: the worker is gone, and another one gets the rest.
#[test]
fn a_list_of_a_killed_worker_is_opened_again_without_what_has_ended() {
    let mut sandbox = Sandbox::impatient();
    sandbox.set("LIST_AGE_MAX", "60000");
    let server = sandbox.server();
    let first = sandbox.add(&["echo one"]);
    let second = sandbox.add(&["echo began >>began; while [ ! -e go ]; do sleep 0.01; done; echo two"]);
    sandbox.llts(&["close"]).ok();
    let worker = sandbox.worker("w", &server);
    eventually("the second command", || sandbox.root().join("began").exists());
    let running = sandbox.names("running").remove(0);
    eventually("the first result", || {
        let path = format!("running/{running}/{first}.task");
        std::fs::read_to_string(sandbox.path(&path)).is_ok_and(|text| text.lines().count() == 10)
    });
    worker.signal(Signal::KILL);
    worker.said();
    eventually("the end of its command", || sandbox.commands().is_empty());
    assert_eq!(sandbox.ended(&first), "completed_archive", "what has ended stays");
    eventually("an open list", || sandbox.names("open").len() == 1);
    let list = sandbox.names("open").remove(0);
    eventually("the rest of it", || sandbox.names(&format!("open/{list}")) == [format!("{second}.task")]);
    std::fs::write(sandbox.root().join("go"), "").unwrap();
    let _other = sandbox.worker("v", &server);
    assert_eq!(sandbox.ended(&second), "completed_archive");
    assert_eq!(sandbox.text(&format!("completed_archive/{second}.out")), "two\n");
}
