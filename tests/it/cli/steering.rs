//! kill, retry, hold, release, drain and explain, and the selections that they share, against the real service.

use crate::cli::sandbox::{Said, Sandbox, eventually};

const OK: &str = "echo \"$PARAM_name\" >> $PLACE/order; echo fine > report.log";

/// `exec`: the sleep is run.sh itself, and a signal ends it.
const SLEEPER: &str = "exec sleep 1000";

/// Fails unless it is told not to.
const FAILS: &str = "echo \"$PARAM_name\" >> $PLACE/order; [ -e $PLACE/mended ]";

/// No task has this id.
const NOBODY: &str = "TASK_1480000000.120000_AZazA";

fn with(agents: u8) -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, script) in [("ok", OK), ("sleeper", SLEEPER), ("fails", FAILS)] {
        sandbox.tool(name, script);
    }
    sandbox.ok(&format!("up {agents}"));
    sandbox
}

#[track_caller]
fn submitted(sandbox: &Sandbox, line: &str) -> String {
    sandbox.ok(&format!("submit {line}")).line().to_owned()
}

#[track_caller]
fn finished(sandbox: &Sandbox, line: &str) -> String {
    let id = submitted(sandbox, line);
    let said = sandbox.llts(&format!("wait --timeout 60 {id}"));
    assert!(said.out.starts_with(&id), "{said:?}");
    id
}

fn status(sandbox: &Sandbox, id: &str) -> String {
    sandbox.ok(&format!("query {id} --output wire")).json()["__STATUS__"].as_str().unwrap_or_default().to_owned()
}

/// The ids in a JSON array, or under `tasks`.
fn ids(said: &Said, name: &str) -> Vec<String> {
    let value = said.json();
    let rows = value.get("tasks").unwrap_or(&value).as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| row[name].as_str().unwrap_or_default().to_owned()).collect()
}

#[track_caller]
fn refused(sandbox: &Sandbox, line: &str, code: i32, parts: &[&str]) {
    let said = sandbox.llts(line);
    assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{line}: {said:?}");
    for part in parts {
        assert!(said.err.contains(part), "{line}: {part:?} is not in {said:?}");
    }
}

#[test]
fn a_kill_sums_up_and_is_the_reason_of_the_end() {
    let sandbox = with(1);
    let ended = finished(&sandbox, "ok");
    let [running, waiting] = ["sleeper", "sleeper"].map(|line| submitted(&sandbox, line));
    let said = sandbox.llts(&format!("kill {ended} {waiting} {running} {NOBODY} {waiting}"));
    assert_eq!((said.code, said.line()), (Some(5), "killed 2 of 4 tasks; 1 had finished; 1 is not known"), "{said:?}");
    assert!(said.err.starts_with("llts: ") && said.err.contains(NOBODY) && said.err.lines().count() == 1, "{said:?}");
    let said = sandbox.llts(&format!("wait --timeout 60 {waiting}"));
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let command = format!("@{host} (llts kill {ended} {waiting}");
    assert!(said.err.contains("KILLED: killed by a client: ") && said.err.contains(&command), "{said:?}");
    assert_eq!(sandbox.ok(&format!("kill {ended}")).out, format!("{ended} had finished\n"));
    let said = sandbox.ok(&format!("kill {ended} --output wire"));
    let one = serde_json::json!([{ "task": ended, "result": "had finished", "error": null }]);
    assert_eq!(said.json(), one);
}

#[test]
fn everything_is_killed_only_if_that_is_confirmed() {
    let sandbox = with(1);
    let running = submitted(&sandbox, "sleeper");
    let waiting = submitted(&sandbox, "sleeper --given-id mine");
    eventually("one runs", || status(&sandbox, &running) == "RUNNING");
    refused(&sandbox, "kill all", 2, &["this would end all 2 tasks that have not finished", "--yes"]);
    assert_eq!(sandbox.ok("kill all --given-id mine").out, format!("killed {waiting}\n"), "that is not everything");
    assert_eq!(status(&sandbox, &waiting), "FINISHED");
    assert_eq!(status(&sandbox, &running), "RUNNING");
    let said = sandbox.ok("kill all --yes --output wire");
    assert_eq!(said.json(), serde_json::json!([{ "task": running, "result": "killed", "error": null }]));
    sandbox.llts("wait --timeout 60 all");
    assert_eq!(sandbox.ok("kill all").out, "there are no such tasks\n", "nothing is to be confirmed");
    refused(&sandbox, "kill --given-id mine", 5, &["no unfinished task matches"]);
    // Waiting tasks go first, otherwise the end of a running one would start them.
    let blocker = submitted(&sandbox, "sleeper");
    eventually("it runs", || status(&sandbox, &blocker) == "RUNNING");
    let others = [submitted(&sandbox, "ok"), submitted(&sandbox, "ok")];
    let killed = ids(&sandbox.ok("kill all -y --output wire"), "task");
    assert_eq!(killed, [others[1].as_str(), &others[0], &blocker]);
    assert!(!sandbox.path("order").exists(), "none of them was started");
}

#[test]
fn what_has_failed_is_retried_in_its_order() {
    let sandbox = with(1);
    let [a, b] = ["fails name=a", "fails name=b --given-id g"].map(|line| finished(&sandbox, line));
    let good = finished(&sandbox, "ok name=c");
    std::fs::write(sandbox.path("mended"), "").unwrap();
    assert_eq!(sandbox.ok("retry --failed").out, "retried 2 tasks\n");
    assert_eq!(sandbox.ok(&format!("wait --timeout 60 {a} {b}")).code, Some(0));
    assert_eq!(std::fs::read_to_string(sandbox.path("order")).unwrap(), "a\nb\nc\na\nb\n");
    assert_eq!(sandbox.ok("retry --failed").out, "there are no such tasks\n");
    assert_eq!(sandbox.ok("retry --given-id g").out, format!("retried {b}\n"));
    sandbox.ok(&format!("wait --timeout 60 {b}"));
    let task = sandbox.ok(&format!("query {b} --output wire")).json();
    assert_eq!((task["__ROUND__"].as_u64(), &task["__FAILS__"]), (Some(2), &serde_json::Value::Null), "{task}");
    assert_eq!(task["1:__ROUND_END__"], "RETRIED");

    let running = submitted(&sandbox, "sleeper");
    refused(&sandbox, &format!("retry {running}"), 4, &["has not finished", "(-1011)"]);
    refused(&sandbox, "retry all", 2, &["run all 3 finished tasks again", "--yes"]);
    refused(&sandbox, "retry", 2, &["--failed"]);
    refused(&sandbox, "retry --failed last", 2, &["--failed"]);
    refused(&sandbox, &format!("retry {NOBODY}"), 5, &[NOBODY]);
    let said = sandbox.llts(&format!("retry {good} {running} {NOBODY}"));
    let summary = "retried 1 of 3 tasks; 1 is not known; 1 was refused\n";
    assert_eq!((said.code, said.out.as_str()), (Some(5), summary), "{said:?}");
}

#[test]
fn a_held_task_waits_until_it_is_released() {
    let sandbox = with(1);
    let blocker = submitted(&sandbox, "sleeper");
    let id = submitted(&sandbox, "ok name=held");
    assert_eq!(sandbox.ok(&format!("pause {id}")).out, format!("paused {id}\n"));
    assert_eq!(sandbox.ok(&format!("hold {id} {blocker}")).out, "paused 1 of 2 tasks; 1 was paused already\n");
    sandbox.ok(&format!("release {blocker}"));
    sandbox.ok(&format!("kill {blocker}"));
    sandbox.llts(&format!("wait --timeout 60 {blocker}"));
    assert_eq!(sandbox.ok("run ok name=other").out, "fine\n", "the agent is free");
    let said = sandbox.ok(&format!("explain {id}"));
    let sentence = said.out.lines().nth(1).unwrap_or_default();
    let end = format!("; `llts resume {id}` lets it start");
    assert!(sentence.starts_with("it has been held since 20") && sentence.ends_with(&end), "{said:?}");
    assert!(sandbox.ok("list").out.contains("held since 20"));
    assert_eq!(sandbox.ok("release all").out, format!("resumed {id}\n"));
    sandbox.ok(&format!("wait --timeout 60 {id}"));
    refused(&sandbox, &format!("pause {id}"), 4, &["has finished; there is nothing to pause (-1011)"]);
    assert_eq!(sandbox.ok(&format!("resume {id}")).out, format!("{id} was not paused\n"));
}

#[test]
fn a_drained_agent_gets_no_more_tasks() {
    let sandbox = with(1);
    let running = submitted(&sandbox, "sleeper");
    eventually("it runs", || status(&sandbox, &running) == "RUNNING");
    refused(&sandbox, "drain agent-9", 4, &["no agent has the name agent-9; the nearest is agent-1", "--ahead"]);
    refused(&sandbox, "drain --host nowhere.invalid", 4, &["nowhere.invalid", "llts agents"]);
    assert_eq!(sandbox.ok("drain agent-9 --ahead").out, "agent-9 gets no tasks when it comes\n");
    let said = sandbox.ok("drain --host 127.0.0.1");
    assert_eq!(said.out, format!("agent-1 gets no more tasks; it still has {running}\n"));
    assert!(sandbox.ok("agents").out.contains("agent-1  BUSY    yes "));
    sandbox.ok(&format!("kill {running}"));
    sandbox.llts(&format!("wait --timeout 60 {running}"));
    let id = submitted(&sandbox, "ok");
    let said = sandbox.ok("explain last");
    assert!(said.out.contains("could run it are paused: agent-1; `llts resume --agent agent-1`"), "{said:?}");
    assert_eq!(sandbox.ok("drain agent-1 agent-9 --undo --output wire").json()[0]["drained"].as_bool(), Some(false));
    assert_eq!(sandbox.ok(&format!("wait --timeout 60 {id}")).code, Some(0));
    refused(&sandbox, "drain a/b", 4, &["a/b", "(-1007)"]);
    refused(&sandbox, "drain", 2, &["AGENT"]);
}

#[test]
fn a_paused_service_says_so_wherever_one_looks() {
    let sandbox = with(1);
    for (line, parts) in [
        ("pause --agent agent-1 --for 10m", ["--for goes with --gate or --service only"]),
        ("pause all --until 18:30", ["--until goes with --gate or --service only"]),
        ("pause --service --ahead", ["--ahead goes with --agent only"]),
    ] {
        refused(&sandbox, line, 2, &parts);
    }
    let paused = "no task starts: the service is paused; `llts resume --service` ends that";
    assert_eq!(sandbox.ok("pause --service").out, format!("{paused}\n"));
    let id = submitted(&sandbox, "ok");
    for line in ["status", "info"] {
        assert!(sandbox.ok(line).out.contains("the service is paused"), "{line}");
    }
    assert!(sandbox.ok("explain last").out.contains("a client has paused the service; `llts resume --service`"));
    sandbox.ok("up --add 1");
    assert_eq!(status(&sandbox, &id), "WAITING", "an agent that comes later gets nothing either");
    sandbox.ok("down --undo");
    sandbox.ok(&format!("wait --timeout 60 {id}"));
    assert!(sandbox.ok("pause --service --for 1h").out.starts_with("no task starts until 2"));
    assert_eq!(sandbox.ok("resume --service").out, "tasks start again\n");
    assert_eq!(sandbox.ok("run ok").out, "fine\n");
}

#[test]
fn a_selection_means_the_same_to_every_command() {
    let sandbox = with(2);
    let a = finished(&sandbox, "ok n:=5 --given-id g");
    let b = finished(&sandbox, "ok n=5 --given-id g");
    let c = finished(&sandbox, "fails n:=5");
    let list = |line: &str| ids(&sandbox.ok(&format!("list {line} --output wire")), "__TASK_ID__");
    for (line, expected) in [
        ("", vec![&c, &b, &a]),
        ("last", vec![&c]),
        ("last:2", vec![&c, &b]),
        ("last --outcome succeeded", vec![&b]),
        ("--outcome failed,succeeded", vec![&c, &b, &a]),
        ("--outcome Succeeded,lost --offset 1", vec![&a]),
        ("last --outcome succeeded,lost", vec![&b]),
        (&format!("{a} last --outcome lost,succeeded"), vec![&b, &a]),
        ("--where n:=5", vec![&c, &a]),
        ("--where n=5", vec![&b]),
        ("--where n:=5 --given-id g", vec![&a]),
        ("--status FINISHED --outcome FAILED", vec![&c]),
        ("all", vec![&c, &b, &a]),
        (&format!("{a} last {a}"), vec![&c, &a]),
        ("last:3 --offset 1 --limit 1", vec![&b]),
        ("--status running", vec![]),
    ] {
        assert_eq!(list(line).iter().collect::<Vec<_>>(), expected, "{line}");
    }
    let letters = |id: &String| id.rsplit('_').next().unwrap_or_default().to_owned();
    for (line, expected) in [
        ("last:2", vec![&c, &b]),
        ("last --outcome failed,succeeded", vec![&c]),
        ("last:2 --sort submitted --reverse", vec![&b, &c]),
        (&format!("last:2 {c} {c}"), vec![&c, &b]),
    ] {
        let shown = sandbox.ok(&format!("list {line} --columns id,state")).out;
        let shown: Vec<_> = shown.lines().skip(1).filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(shown, expected.iter().map(|id| letters(id)).collect::<Vec<_>>(), "{line}");
    }
    assert_eq!(ids(&sandbox.ok("query last:2 --output wire"), "__TASK_ID__"), [c.as_str(), &b]);
    assert_eq!(sandbox.ok("query --given-id g --output wire").json()["__TASK_ID__"], b.as_str());
    assert_eq!(sandbox.ok("query last --output wire").json()["__TASK_ID__"], c.as_str());
    assert_eq!(ids(&sandbox.ok("explain all --output wire"), "__TASK_ID__"), [c.as_str(), &b, &a]);
    assert_eq!(sandbox.ok("explain --where n=5 --output wire").json()["__WHY__"], "it ended as SUCCEEDED: exit code 0");
    assert_eq!(sandbox.ok("query --outcome lost,succeeded --output wire").json()["__TASK_ID__"], b.as_str());
    let said = sandbox.llts("wait --outcome failed,lost");
    assert_eq!((said.code, said.out), (Some(1), format!("{c}  FAILED  1\n")), "{}", said.err);
    let said = sandbox.ok("explain last:2");
    assert!(said.out.contains(&format!("\n\n{b}  FINISHED\nit ended as SUCCEEDED: exit code 0\n")), "{said:?}");
    assert!(said.out.lines().all(|line| !line.starts_with("17")), "moments are dates: {said:?}");
    assert_eq!(sandbox.ok("wait --timeout 60 --given-id g").out, format!("{b}  SUCCEEDED  0\n{a}  SUCCEEDED  0\n"));
    assert_eq!(sandbox.llts("wait last").code, Some(1));
    assert_eq!(sandbox.ok("wait --timeout 60 all").out, "", "all have finished");
    assert_eq!(sandbox.ok("hold all").out, "there are no such tasks\n");
}

#[test]
fn a_selection_of_nothing_is_told_apart_from_a_bad_one() {
    let sandbox = with(1);
    for verb in ["kill", "retry", "hold", "release", "explain", "query", "wait"] {
        refused(&sandbox, verb, 2, &["which tasks?", "last", "--job NAME"]);
        refused(&sandbox, &format!("{verb} last"), 5, &["no ", "task matches"]);
        refused(&sandbox, &format!("{verb} --where x"), 2, &["no '='"]);
        refused(&sandbox, &format!("{verb} --status x"), 2, &["WAITING"]);
        refused(&sandbox, &format!("{verb} --outcome failed,x"), 2, &["'x'", "TIMED_OUT"]);
        refused(&sandbox, &format!("{verb} last:0"), 2, &["last:5"]);
        refused(&sandbox, &format!("{verb} --outcome ok,timed-out"), 5, &["no ", "task", "match"]);
        refused(&sandbox, &format!("{verb} --given-id nobody"), 5, &["no ", "task", "match"]);
    }
    for verb in ["run", "submit"] {
        refused(&sandbox, verb, 2, &[&format!("{verb} what?"), &format!("llts {verb} -- COMMAND"), "TOOL"]);
        refused(&sandbox, &format!("{verb} --priority high x"), 2, &["'high'", "it is not a whole number"]);
        refused(&sandbox, &format!("{verb} --max-fails 99999999999999999999 x"), 2, &["it is too large"]);
    }
    for verb in ["kill", "retry", "hold", "release", "explain", "query"] {
        refused(&sandbox, &format!("{verb} {NOBODY}"), 5, &[NOBODY]);
        refused(&sandbox, &format!("{verb} nonsense"), 5, &["nonsense", "TASK_"]);
    }
    // A list of nothing is a list.
    assert_eq!(sandbox.ok("list --given-id nobody").out.lines().count(), 1);
    assert_eq!(sandbox.llts(&format!("list {NOBODY}")).code, Some(5));
}
