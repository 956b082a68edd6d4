//! What must be survived: half-written files, colliding names, stopped and restarted processes, a full disk.

use std::fs;

use rustix::process::Signal;

use crate::lists::sandbox::{ENDS, Sandbox, Start as _, eventually, port, server_with};

fn content(id: &str, cmd: &str) -> String {
    let fails = id.rsplit_once('_').unwrap().1;
    format!("{id}\n1448978609\n99999999999\n0\n3\n{fails}\n{cmd}\n")
}

#[test]
fn files_that_a_person_puts_there_are_picked_up_and_half_written_ones_are_not() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("new/10_0.task")).unwrap();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    // In one piece, by a rename, and in pieces, each of which is closed.
    fs::write(sandbox.path("new/1_0.task"), content("1_0", "echo 1")).unwrap();
    fs::write(sandbox.path("new/.2"), content("2_0", "echo 2")).unwrap();
    fs::rename(sandbox.path("new/.2"), sandbox.path("new/2_0.task")).unwrap();
    let script = "for line in 3_0 1448978609 99999999999 0 3 0; do echo $line >>$0; done; echo 'echo 3' >>$0";
    let written = std::process::Command::new("sh").args(["-c", script]).arg(sandbox.path("new/3_0.task")).status();
    assert!(written.unwrap().success());
    // Without the end of its last line it counts after a rest.
    fs::write(sandbox.path("new/4_0.task"), content("4_0", "echo 4").trim_end()).unwrap();
    // Other files stay where they are, and stop nothing.
    for (name, text) in [
        ("note.txt", "hello".to_owned()),
        ("x.task", content("5_0", "echo")),
        ("5_0.task", content("5_0", "echo")[..20].to_owned()),
        ("6_0.task", content("6_1", "echo")),
        ("7_0.task.tmp", content("7_0", "echo never >>never")),
        (".8_0.task", content("8_0", "echo never >>never")),
        ("9_0.task~", content("9_0", "echo never >>never")),
    ] {
        fs::write(sandbox.path("new").join(name), text).unwrap();
    }
    fs::write(sandbox.path("new/11_0.task"), b"11_0\n\xff\n").unwrap();
    sandbox.until("completed_archive", 4);
    for number in 1..=4 {
        assert_eq!(sandbox.text(&format!("completed_archive/{number}_0.out")), format!("{number}\n"));
    }
    let status = || sandbox.json(&["status"]);
    eventually("six invalid files", || status()["invalid"] == 6);
    assert_eq!(status()["tasks"]["new"], 0, "{}", status());
    let said = sandbox.llts(&["status"]);
    assert!(said.err.contains("new/5_0.task is not a task: it has"), "{said:?}");
    assert!(said.err.contains("new/11_0.task is not a task: it is not UTF-8"), "{said:?}");
    fs::write(sandbox.path("new/5_0.task"), content("5_0", "echo 5")).unwrap();
    assert_eq!(sandbox.ended("5_0"), "completed_archive", "it has become a task");
    assert!(!sandbox.root().join("never").exists());
    fs::write(sandbox.path("new/1_0.task"), content("1_0", "echo again")).unwrap();
    eventually("six invalid files again", || status()["invalid"] == 6);
    assert_eq!(sandbox.text("completed_archive/1_0.out"), "1\n", "a finished task is not replaced");
}

#[test]
fn a_second_server_on_one_folder_is_refused() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let said = sandbox.command(&["server", "tasks", "--port", "0"]).said();
    said.failed(1, &sandbox.path("").canonicalize().unwrap().display().to_string());
    said.failed(1, &format!("process {}", server.id()));
}

#[test]
fn lists_of_the_same_second_have_names_of_their_own() {
    let mut sandbox = Sandbox::new();
    sandbox.set("LIST_TASKS_MAX", "1");
    let server = sandbox.server();
    for number in 1..=3 {
        fs::write(sandbox.path(&format!("new/{number}_0.task")), content(&format!("{number}_0"), "sleep 600")).unwrap();
    }
    eventually("three lists", || sandbox.names("open").len() == 3);
    assert_eq!(sandbox.names("open"), ["1448978609", "1448978610", "1448978611"]);
    let _workers = ["a_b", "a_b_1"].map(|name| sandbox.worker(name, &server));
    eventually("two running lists", || sandbox.names("running").len() == 2);
    let running = sandbox.names("running").join(" ");
    assert!(running.contains("_a_b_") && running.contains("_a_b_1_"), "{running}");
}

#[test]
fn a_background_process_holds_nothing_up_and_is_ended() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let id = sandbox.add(&["read line || echo 'no input'; (trap '' TERM; sleep 600) & echo done"]);
    assert_eq!(sandbox.ended(&id), "completed_archive");
    assert_eq!(sandbox.text(&format!("completed_archive/{id}.out")), "no input\ndone\n");
    assert_eq!(sandbox.commands(), []);
}

#[test]
fn a_worker_that_is_asked_to_stop_delivers_what_has_ended_and_gives_the_rest_back() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let lines = b"echo one\necho began >>began; sleep 600\n";
    let ids = sandbox.llts_with(&["add", "--each-line", "-", "--expected-duration", "1h"], lines).ok().out;
    let (first, second) = ids.trim().split_once('\n').expect("two ids");
    let worker = sandbox.worker("w", &server);
    eventually("the second command", || sandbox.root().join("began").exists());
    worker.stop().ok();
    assert_eq!(sandbox.ended(first), "completed_archive");
    eventually("the rest is open", || sandbox.names("open").len() == 1);
    let list = sandbox.names("open").remove(0);
    eventually("the rest of it", || sandbox.names(&format!("open/{list}")) == [format!("{second}.task")]);
    assert_eq!(sandbox.commands(), []);
}

/// SIGKILL leaves the list in running/, and the worker comes back to the next server.
#[test]
fn a_server_that_is_killed_under_a_list_costs_no_run() {
    let sandbox = Sandbox::new();
    let mut server = sandbox.server();
    let port = port(&server);
    let cmd = |number| format!("echo {number} >>runs; while [ ! -e go{number} ]; do sleep 0.01; done; echo {number}\n");
    let lines: String = (1..=3).map(cmd).collect();
    let ids = sandbox.llts_with(&["add", "--each-line", "-"], lines.as_bytes()).ok().out;
    let ids: Vec<&str> = ids.lines().collect();
    let worker = sandbox.worker("w", &server);
    let runs = || fs::read_to_string(sandbox.root().join("runs")).unwrap_or_default();
    eventually("the first command", || runs() == "1\n");
    server.kill();
    fs::write(sandbox.root().join("go1"), "").unwrap();
    eventually("the second command", || runs() == "1\n2\n");
    let server = sandbox.server_at(&port);
    fs::write(sandbox.root().join("go2"), "").unwrap();
    fs::write(sandbox.root().join("go3"), "").unwrap();
    for (id, number) in ids.iter().zip(1..) {
        assert_eq!(sandbox.ended(id), "completed_archive");
        assert_eq!(sandbox.text(&format!("completed_archive/{id}.out")), format!("{number}\n"));
    }
    assert_eq!(runs(), "1\n2\n3\n");
    assert_eq!(worker.stop().code, Some(0));
    assert_eq!(server.stop().code, Some(0));
}

/// The worker is stopped: its list is opened again, and what it says later does not count.
#[test]
fn a_result_that_comes_too_late_is_refused_and_counted() {
    let sandbox = Sandbox::impatient();
    let server = sandbox.server();
    let id = sandbox.add(&["echo $(cat name) >>runs; while [ ! -e go ]; do sleep 0.01; done; cat name"]);
    fs::write(sandbox.root().join("name"), "slow").unwrap();
    let slow = sandbox.worker("slow", &server);
    let runs = || fs::read_to_string(sandbox.root().join("runs")).unwrap_or_default();
    eventually("the first run", || runs() == "slow\n");
    slow.signal(Signal::STOP);
    fs::write(sandbox.root().join("name"), "fast").unwrap();
    let _fast = sandbox.worker("fast", &server);
    eventually("the second run", || runs() == "slow\nfast\n");
    fs::write(sandbox.root().join("go"), "").unwrap();
    assert_eq!(sandbox.ended(&id), "completed_archive");
    eventually("the end of the slow command", || sandbox.commands().is_empty());
    slow.signal(Signal::CONT);
    eventually("its result is counted", || sandbox.json(&["status"])["late"] == 1);
    let next = sandbox.add(&["echo next"]);
    assert_eq!(sandbox.ended(&next), "completed_archive");
    assert_eq!(sandbox.text(&format!("completed_archive/{id}.out")), "fast");
    assert_eq!(slow.stop().code, Some(0));
}

#[test]
fn a_name_is_for_one_worker() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    let first = sandbox.worker("w", &server);
    let id = sandbox.add(&["true"]);
    sandbox.ended(&id);
    let said = sandbox.worker("w", &server).said().ended(1);
    let holder = format!(" (process {}); use another name", first.id());
    assert!(said.err.contains("a worker w already runs in /") && said.err.contains(&holder), "{said:?}");
}

#[test]
fn a_worker_without_a_server_or_with_a_wrong_secret_says_so() {
    let mut sandbox = Sandbox::new();
    sandbox.set("PATIENCE", "0");
    sandbox.worker_at("w", "127.0.0.1:1").said().failed(3, "no server of task lists answers at 127.0.0.1:1");
    sandbox.set("SECRET", "correct horse battery");
    sandbox.set("REFUSAL_PAUSE", "10");
    let server = sandbox.server();
    sandbox.set("SECRET", "guess");
    sandbox.worker("w", &server).said().failed(4, "the secret is missing or wrong");
}

/// The limit of the size of files stands for the end of the disk: no larger result can be stored.
#[test]
fn a_full_disk_loses_nothing_and_the_list_stays_running() {
    let sandbox = Sandbox::new();
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut server = server_with(sandbox.command(&["server", "tasks", "--port", "0"]).under(&["sh", "-c", script]));
    let port = port(&server);
    let worker = sandbox.worker("w", &server);
    let id = sandbox.add(&["echo run >>runs; head -c 100000 /dev/zero"]);
    eventually("a list that has run", || {
        let running = sandbox.names("running");
        running.first().is_some_and(|list| sandbox.names(&format!("running/{list}")).len() == 2)
    });
    let list = sandbox.names("running").remove(0);
    assert_eq!(sandbox.text(&format!("running/{list}/{id}.task")).lines().count(), 7, "no result is there");
    server.kill();
    let _server = sandbox.server_at(&port);
    assert_eq!(sandbox.ended(&id), "completed_archive");
    assert_eq!(fs::metadata(sandbox.path(&format!("completed_archive/{id}.out"))).unwrap().len(), 100_000);
    assert_eq!(fs::read_to_string(sandbox.root().join("runs")).unwrap(), "run\n", "it has run once");
    drop(worker);
}

#[test]
fn an_output_over_the_limit_is_a_failure_that_says_so() {
    let mut sandbox = Sandbox::new();
    sandbox.set("OUTPUT_BYTES_MAX", "1024");
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let id = sandbox.add(&["head -c 1025 /dev/zero"]);
    assert_eq!(sandbox.ended(&id), "failed_count");
    assert_eq!(fs::metadata(sandbox.path(&format!("failed_count/{id}.out"))).unwrap().len(), 1024);
    assert!(sandbox.text(&format!("failed_count/{id}.err")).starts_with("stdout has 1025 bytes"));
}

#[test]
fn a_folder_that_vanishes_ends_the_server_with_a_sentence() {
    let sandbox = Sandbox::new();
    let server = sandbox.server();
    fs::remove_dir_all(sandbox.path("")).unwrap();
    server.said().failed(1, "tasks/new has vanished");
}

/// A server was killed between the steps of its moves: each state that this can leave.
#[test]
fn a_start_goes_on_with_every_move_that_was_begun() {
    let sandbox = Sandbox::impatient();
    for state in ["new", "closed", "completed", "failed", "failed_count", "failed_archive", "open/1448978609"] {
        fs::create_dir_all(sandbox.path(state)).unwrap();
    }
    let list = "closed/1448978609_w_1448978619_1448978622";
    fs::create_dir_all(sandbox.path(list)).unwrap();
    let ran = |id: &str, max: u32| {
        let text = content(id, "true").replacen("\n3\n", &format!("\n{max}\n"), 1);
        format!("{text}w\n1448978619\n1448978622\n")
    };
    let put = |name: String, text: &str| fs::write(sandbox.path(&name), text).unwrap();
    // The list was closed, and nothing of it moved.
    put(format!("{list}/1_0.task"), &ran("1_0", 3));
    put(format!("{list}/1_0.out"), "1");
    // Its stdout was moved on its way to success, and to failure.
    put(format!("{list}/2_0.task"), &ran("2_0", 3));
    put("completed/2_0.out".into(), "2");
    put(format!("{list}/3_0.task"), &ran("3_0", 1));
    put("failed/3_0.out".into(), "3");
    put("failed/3_0.err".into(), "bad");
    // It is completed, and on its way to the archive.
    put("completed/4_0.task".into(), &ran("4_0", 3));
    put("completed_archive/4_0.out".replace("completed_archive", "completed"), "4");
    // Its duplicate exists, and it has not moved; the same while it moves.
    put("failed/5_0.task".into(), &ran("5_0", 3).replace("true", "echo 5"));
    put("failed/5_0.out".into(), "5");
    put("failed/5_0.err".into(), "bad");
    put("new/5_1.task".into(), &content("5_1", "echo 5"));
    put("failed/6_0.task".into(), &ran("6_0", 3).replace("true", "echo 6"));
    put("failed_archive/6_0.out".into(), "6");
    put("failed/6_0.err".into(), "bad");
    put("open/1448978609/6_1.task".into(), &content("6_1", "echo 6"));
    // Its result was being written, with a complaint, when the server was killed: it runs again.
    let torn = ran("7_0", 3).replace("true", "echo 7");
    let running = "running/1448978609_w_1448978619";
    fs::create_dir_all(sandbox.path(running)).unwrap();
    put(format!("{running}/7_0.task"), &torn[..torn.len() - 3]);
    put(format!("{running}/7_0.out"), "half");
    put(format!("{running}/7_0.err"), "half");
    // Its list was being reopened, and its outputs had been moved to those of the ended tasks.
    put(format!("{running}/8_0.task"), &ran("8_0", 3));
    put(format!("{running}/8_0.err"), "bad");
    fs::create_dir_all(sandbox.path("closed/1448978609_w_1448978619_1448978629")).unwrap();
    put("closed/1448978609_w_1448978619_1448978629/8_0.out".into(), "8");
    let server = sandbox.server();
    let _worker = sandbox.worker("w", &server);
    let ends = [
        ("1_0", "completed_archive", "1"),
        ("2_0", "completed_archive", "2"),
        ("3_0", "failed_count", "3"),
        ("4_0", "completed_archive", "4"),
        ("5_0", "failed_archive", "5"),
        ("6_0", "failed_archive", "6"),
        ("5_1", "completed_archive", "5\n"),
        ("6_1", "completed_archive", "6\n"),
        ("7_0", "completed_archive", "7\n"),
        ("8_0", "failed_archive", "8"),
        ("8_1", "completed_archive", ""),
    ];
    for (id, state, out) in ends {
        assert_eq!(sandbox.ended(id), state, "{id}");
        assert_eq!(sandbox.text(&format!("{state}/{id}.out")), out);
    }
    let tasks: Vec<String> = ENDS.iter().flat_map(|state| sandbox.tasks(state)).collect();
    assert_eq!(tasks.len(), ends.len(), "no third form: {tasks:?}");
    for state in ["new", "open", "running", "closed", "completed", "failed"] {
        eventually(state, || sandbox.names(state).is_empty());
    }
}
