//! The commands of `llts tdf`, as processes.

use std::process::{Command, Stdio};

use redis::Commands as _;
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::Value;
use testkit::{Program, Said, Start as _, eventually, make_certificates};

use crate::support::LLTS;

use super::ground::{Redis, own_ip};
use super::original::Order;
use super::{NAMESPACE, Place};

const MANAGER: &str = "[manager]\nround_duration=0.05\n[task_defaults]\n";

/// A command of `llts tdf` in the folder of a Redis.
pub(crate) fn command(redis: &Redis, arguments: &[&str]) -> Command {
    let mut command = redis.place().program(LLTS);
    command.arg("tdf").args(arguments).env("LLTS_HOME", redis.folder());
    command
}

impl Place {
    fn command(&self, arguments: &[&str]) -> Command {
        command(&self.redis, arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.command(arguments).said()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[arguments, &["--output", "wire"]].concat()).ok().json()
    }

    pub(crate) fn configs(&self) {
        self.redis.write_config("manager.cfg", NAMESPACE, MANAGER);
        self.redis.write_config("server.cfg", NAMESPACE, "[server]\nround_duration=0.05\n");
    }

    /// Starts a component, which says on stderr that it is ready.
    pub(crate) fn start(&self, arguments: &[&str]) -> Program {
        self.command(arguments).stdout(Stdio::inherit()).start().ready(" ready: ")
    }
}

#[test]
fn a_wrong_count_of_arguments_is_told_with_their_names() {
    let place = Place::new();
    for (arguments, given) in [(&["server"][..], 0), (&["server", "a"], 1), (&["server", "a", "b", "c"], 3)] {
        let said = place.run(arguments);
        for part in [&*format!("expecting 2 arguments ({given} given)"), "NAME: ", "CFG: "] {
            said.failed(1, part);
        }
    }
    assert!(place.run(&["open", "a"]).err.contains("expecting 3 or 4 arguments (1 given)"));
    place.run(&["stats", "a", "b"]).failed(1, "expecting 0 or 1 argument (2 given)");
    place.run(&["stats"]).failed(1, "works for no namespace of TDF: set REDIS_URL");
}

#[test]
fn a_bad_configuration_writes_nothing() {
    let mut place = Place::new();
    for (text, expected) in [
        ("[server]\nround_duration=soon\n", "[server] round_duration is \"soon\""),
        ("", "the section [server] is missing"),
    ] {
        let path = place.redis.write_config("server.cfg", NAMESPACE, text);
        let said = place.run(&["server", "s", path.to_str().unwrap()]);
        [expected, "server.cfg"].iter().for_each(|part| said.failed(1, part));
    }
    place.run(&["server", "s", "nowhere.cfg"]).failed(1, "nowhere.cfg");
    let keys: Vec<String> = place.original.redis.keys("*").unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn tasks_are_opened_shown_listed_and_counted() {
    let place = Place::new();
    place.configs();
    let open = ["open", "manager.cfg", "sum", "http://h/sum.tar.gz", "1 2", "--timeout", "1m", "--max-fails", "-1"];
    assert_eq!(place.run(&open).ok().out.trim(), "1");
    std::fs::write(place.redis.folder().join("lines"), "a\r\nb b\n\n").unwrap();
    let opened = place.json(&["open", "manager.cfg", "p", "s", "--each-line", "lines", "--start-after", "+1h"]);
    assert_eq!(opened["ids"], serde_json::json!([2, 3, 4]));
    let task = place.json(&["show", "manager.cfg", "1"]);
    assert_eq!((&task["input"], &task["timeout"], &task["max_fails"]), (&"1 2".into(), &60.0.into(), &(-1).into()));
    assert_eq!(place.json(&["show", "manager.cfg", "3"])["input"], "b b");
    assert_eq!(place.json(&["stats", "server.cfg"])["tasks"]["open"], 4);
    let listed = place.json(&["list", "server.cfg", "open"]);
    let inputs: Vec<&str> =
        listed["tasks"].as_array().unwrap().iter().map(|task| task["input"].as_str().unwrap()).collect();
    assert_eq!(inputs, ["1 2", "a", "b b", ""]);
    for arguments in [
        &["show", "manager.cfg", "1"][..],
        &["list", "manager.cfg"],
        &["stats", "manager.cfg"],
        &["workers", "manager.cfg"],
    ] {
        place.run(arguments).ok();
    }
    place.run(&["show", "manager.cfg", "9"]).ended(5);
    for (arguments, expected) in [
        (&["list", "manager.cfg", "opened"][..], "no state"),
        (&["show", "manager.cfg", "x"], "no id of a task"),
        (&["open", "manager.cfg", "p", "s", "--timeout", "nan"], "nan"),
        (&["open", "manager.cfg", "p", "s", "--max-fails", "1.5"], "max_fails is \"1.5\""),
        (&["open", "manager.cfg", "p", "s", "in", "--each-line", "lines"], "--each-line"),
        (&["open", "manager.cfg", "p", "s", "--each-line", "gone"], "gone"),
    ] {
        place.run(arguments).failed(1, expected);
    }
    assert_eq!(place.json(&["stats", "server.cfg"])["opened"], 4);
}

#[test]
fn a_server_and_a_manager_bring_a_task_from_its_report_to_the_archive() {
    let mut place = Place::new();
    place.configs();
    let server = place.start(&["server", "one", "server.cfg"]);
    let command = "cat >> $PWD/got; test -e mended";
    let manager = place.start(&["manage", "manager.cfg", "--on-succeeded", command]);
    let id = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    place.execute(&fence, "out", "");
    // The first callbacks fail.
    eventually("the callback is called again", || {
        std::fs::read_to_string(place.redis.folder().join("got")).is_ok_and(|got| got.lines().count() >= 2)
    });
    assert_eq!(place.sets(id), ["succeeded"]);
    std::fs::write(place.redis.folder().join("mended"), "").unwrap();
    eventually("the task is archived", || place.sets(id) == ["archived"]);
    let got = std::fs::read_to_string(place.redis.folder().join("got")).unwrap();
    let task: Value = serde_json::from_str(got.lines().last().unwrap()).unwrap();
    assert_eq!((&task["id"], &task["rounds"][0]["output"]), (&id.into(), &"out".into()));
    assert_eq!(place.json(&["stats", "manager.cfg"])["server"], "one");
    let failed = place.original.open(&Order::default());
    let fence = place.claim_one("w");
    place.execute(&fence, "out", "bad");
    eventually("a task without a command is archived", || place.sets(failed) == ["archived"]);
    manager.stop().ok();
    server.stop().ok();
}

#[test]
fn another_server_stands_by_until_the_first_one_is_gone() {
    let mut place = Place::new();
    place.configs();
    let first = place.start(&["server", "one", "server.cfg"]);
    let at_work = |place: &Place| place.json(&["stats", "manager.cfg"])["server"].clone();
    eventually("the first one is at work", || at_work(&place) == "one");
    let mut second = place.start(&["server", "two", "server.cfg"]);
    first.stop().ok();
    eventually("the second one is at work", || at_work(&place) == "two");
    // Killed without a word: its lease ends.
    let third = place.start(&["server", "three", "server.cfg"]);
    second.kill();
    eventually("the third one is at work", || at_work(&place) == "three");
    let id = place.original.open(&Order { end_before: "1", ..Order::default() });
    eventually("it has rounds", || place.sets(id) == ["expired"]);
    third.stop().ok();
}

#[test]
fn a_redis_that_is_away_is_told_once_and_waited_for() {
    let mut place = Place::new();
    place.configs();
    let server = place.start(&["server", "one", "server.cfg"]);
    let manager = place.start(&["manage", "manager.cfg"]);
    eventually("it is at work", || place.json(&["stats", "manager.cfg"])["server"] == "one");
    place.redis.kill();
    place.run(&["stats", "manager.cfg"]).ended(3);
    place.run(&["server", "two", "server.cfg"]).ended(3);
    place.redis.start_again();
    place.original.redis = place.redis.connect();
    let id = place.original.open(&Order { end_before: "1", ..Order::default() });
    eventually("everything goes on", || place.sets(id) == ["archived"]);
    for said in [server.stop().ok().err, manager.stop().ok().err] {
        assert_eq!(said.matches("is away").count(), 1, "{said}");
    }
}

#[test]
fn a_password_and_a_database_are_used() {
    let place = Place::on_options(&["--requirepass", "a:b#c%d e"]);
    let with = |password: &str, db: u32| {
        let text = std::fs::read_to_string(place.redis.write_config("x.cfg", NAMESPACE, MANAGER)).unwrap();
        let text = text.replace("password=None", &format!("password={password}")).replace("db=0", &format!("db={db}"));
        std::fs::write(place.redis.folder().join("x.cfg"), text).unwrap();
        place.run(&["open", "x.cfg", "p", "s"])
    };
    with("a:b#c%d e", 0).ok();
    assert_eq!(with("a:b#c%d e", 3).out.trim(), "1");
    for (password, db) in [("wrong", 0), ("None", 0), ("a:b#c%d e", 99)] {
        let refused = with(password, db).ended(4);
        assert!(!refused.err.contains("a:b#c"), "the password is not shown");
    }
}

#[test]
fn an_encrypted_connection_is_made_to_whom_the_configuration_trusts() {
    let folder = tempfile::tempdir().unwrap();
    let ip = own_ip();
    make_certificates(folder.path(), ip.into(), "client");
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (file("s.pem"), file("s.key"), file("ca.pem"));
    let options =
        ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca, "--tls-auth-clients", "no"];
    let place = Place::on_options(&[&options[..], &["--port", "0", "--tls-port"]].concat());
    let with = |host: &str, authority: &str| {
        let path = place.redis.write_config("x.cfg", NAMESPACE, MANAGER);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replace("host=", &format!("{authority}\nhost={host}"))).unwrap();
        place.run(&["open", "x.cfg", "p", "s"])
    };
    assert_eq!(with("rediss://", &format!("tls_ca={ca}")).ok().out.trim(), "1");
    with("rediss://", "").failed(4, "is not trusted");
    with("", "").ended(3);
}

/// A shell that is killed leaves what it has started, unless the whole group is meant.
#[test]
fn the_processes_of_a_callback_end_with_the_manager() {
    for (with, command) in [
        (Signal::TERM, "sleep 600 & echo $! >pid; wait"),
        (Signal::TERM, "sh -c 'trap : TERM; echo $$ >pid; while :; do sleep 0.1; done'; true"),
        (Signal::KILL, "sleep 600 & echo $! >pid; wait"),
    ] {
        let mut place = Place::new();
        place.configs();
        let mut manager = place.start(&["manage", "manager.cfg", "--on-succeeded", command]);
        let id = place.original.open(&Order::default());
        assert!(place.original.r#move(id, "open", "succeeded", 0, &[("0:output", ""), ("0:error", "")]));
        let pid = || std::fs::read_to_string(place.redis.folder().join("pid")).ok()?.trim().parse::<i32>().ok();
        eventually("the callback runs", || pid().is_some());
        let process = Pid::from_raw(pid().unwrap()).unwrap();
        manager.signal(with);
        manager.wait().unwrap();
        eventually("its processes are gone", || test_kill_process(process).is_err());
        let said = manager.said().err;
        assert!(!said.contains("has failed"), "{said}");
        assert_eq!(place.sets(id), ["succeeded"]);
    }
}

/// It reads nothing of an input that no pipe holds, and leaves it open in a process that it has started.
#[test]
fn a_callback_whose_input_stays_unread_holds_nothing_up() {
    let mut place = Place::new();
    place.configs();
    let command = "exec 3<&0; test -e end || mkfifo end; read line <end &";
    let manager = place.start(&["manage", "manager.cfg", "--on-succeeded", command]);
    let id = place.original.open(&Order::default());
    let output = "x".repeat(200_000);
    assert!(place.original.r#move(id, "open", "succeeded", 0, &[("0:output", &output), ("0:error", "")]));
    eventually("the task is archived", || place.sets(id) == ["archived"]);
    // The process ends, which has the standard error of the manager, too.
    std::fs::write(place.redis.folder().join("end"), "\n").unwrap();
    manager.stop().ok();
}

#[test]
fn an_input_is_any_bytes_and_a_bad_option_is_named() {
    use std::os::unix::ffi::OsStrExt as _;
    let mut place = Place::new();
    place.configs();
    let mut open = place.command(&["open", "manager.cfg", "p", "s"]);
    assert!(open.arg(std::ffi::OsStr::from_bytes(b"a\xffb")).status().unwrap().success());
    let input: Vec<u8> = place.original.redis.hget("MyProgram:task:1", "input").unwrap();
    assert_eq!(input, b"a\xffb");
    let said = place.run(&["open", "manager.cfg", "p", "s", "--end-before", "nan"]).err;
    assert!(said.contains("--end-before \"nan\": "), "{said}");
    let said = place.run(&["server"]).err;
    assert!(said.find("expecting 2 arguments").unwrap() < said.find("NAME: ").unwrap(), "{said}");
}
