//! The policy flags of `submit` and `run` against the real service: what a task demands, and what people are told of it.

use testkit::Receiver;

use crate::cli::sandbox::{Said, Sandbox, eventually, names};

const OK: &str = "echo \"$PARAM_name\" >> $PLACE/order; echo fine > report.log";

/// Runs until it is told to end.
const PATIENT: &str = "until [ -e $PLACE/until ]; do sleep 0.02; done";

/// Fails until round 2.
const FLAKY: &str = "echo \"round $__ROUND__\" > report.log; echo \"not $__ROUND__\" >&2; [ $__ROUND__ -ge 2 ]";

/// Notes whether anything of the round before is alive, then starts what neither a group nor SIGTERM reaches.
const STUBBORN: &str = "\
for pid in $(cat $PLACE/pids 2> /dev/null); do kill -0 $pid 2> /dev/null && touch $PLACE/overlap; done
trap '' TERM
echo $$ >> $PLACE/pids
setsid sh -c 'trap \"\" TERM; echo $$ >> $PLACE/pids; touch $PLACE/escaped.$__ROUND__; while :; do sleep 0.05; done' &
while :; do sleep 0.05; done";

/// The lines of `llts explain` before its log.
#[track_caller]
fn why(sandbox: &Sandbox, task: &str) -> String {
    let said = sandbox.ok(&format!("explain {task}"));
    said.out.lines().nth(1).unwrap_or_else(|| panic!("{said:?}")).to_owned()
}

#[track_caller]
fn task(sandbox: &Sandbox, task: &str) -> serde_json::Value {
    sandbox.ok(&format!("query {task} --output wire")).json()
}

#[track_caller]
fn submitted(sandbox: &Sandbox, line: &str) -> String {
    sandbox.ok(&format!("submit {line}")).line().to_owned()
}

fn is_running(sandbox: &Sandbox, id: &str) -> bool {
    task(sandbox, id)["__STATUS__"] == "RUNNING"
}

#[track_caller]
fn says(said: &Said, parts: &[&str]) {
    for part in parts {
        assert!(said.out.contains(part) || said.err.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn a_task_that_fails_is_run_again_and_its_rounds_are_shown() {
    let sandbox = Sandbox::serving(1, &[("flaky", FLAKY)]);
    let said = sandbox.ok("run flaky --max-fails 2 --retry-delay 0.05");
    assert_eq!((said.out.as_str(), said.err.as_str()), ("round 2\n", "not 0\nnot 1\nnot 2\n"), "each round is shown");
    let task = task(&sandbox, "last");
    assert_eq!((task["__ROUND__"].as_u64(), task["__FAILS__"].as_u64()), (Some(2), Some(2)), "{task}");
    assert_eq!((task["0:__EXIT_CODE__"].as_i64(), task["1:__ROUND_END__"].as_str()), (Some(1), Some("FAILED")));
    let said = sandbox.ok("query last");
    says(&said, &["\nROUND  ENDED AS  EXIT", "\n0      FAILED    1 ", "\n1:__STDERR__:\nnot 1\n", "\n__LOG__:\n"]);
    says(&said, &["WAITING: the run failed; round 1 follows", "FINISHED: SUCCEEDED\n"]);

    let said = sandbox.llts("run flaky --max-fails 1");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "round 1\n"));
    says(&said, &["FAILED: 2 runs failed; --max-fails allows 1"]);
    says(&sandbox.ok("list last"), &["2 runs failed; --max-fails allows 1"]);
    assert_eq!(why(&sandbox, "last"), "it ended as FAILED: 2 runs failed; --max-fails allows 1");
}

#[test]
fn a_task_that_waits_for_its_next_round_says_until_when() {
    let sandbox = Sandbox::serving(1, &[("flaky", FLAKY)]);
    let id = submitted(&sandbox, "flaky --max-fails 2 --retry-delay 10m");
    eventually("its first round has ended", || task(&sandbox, &id)["__ROUND__"] == 1);
    let sentence = why(&sandbox, &id);
    assert!(
        sentence.starts_with("it does not start before 20") && sentence.ends_with(": the run failed"),
        "{sentence}"
    );
    says(&sandbox.ok("list"), &["not before 20"]);
}

#[test]
fn stderr_is_a_failure_where_the_submitter_says_so() {
    let sandbox = Sandbox::serving(1, &[("warns", "echo careful >&2")]);
    sandbox.ok("run warns");
    sandbox.ok("run warns --fail-on-stderr=false --exclusive");
    assert_eq!(sandbox.ok("query last --output wire").json()["__EXCLUSIVE__"], true);
    let said = sandbox.llts("run warns --fail-on-stderr");
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    says(&said, &["careful\nllts: TASK_", "FAILED: it wrote to stderr (--fail-on-stderr)"]);
    assert_eq!(sandbox.llts("wait last").code, Some(1));
}

/// Everything that the run before has started is gone before the next one starts (README.md, promise 4).
#[test]
fn a_run_that_takes_too_long_is_gone_before_the_next_one() {
    let sandbox = Sandbox::serving(2, &[("stubborn", STUBBORN)]);
    let said = sandbox.llts("run stubborn --timeout 8 --max-timeouts 1").ended(124);
    says(&said, &["2 runs took longer than 8 s (--timeout); --max-timeouts allows 1"]);
    assert!(sandbox.path("escaped.1").exists(), "the second round was one too: {:?}", names(&sandbox.path(".")));
    assert!(!sandbox.path("overlap").exists(), "a process of round 0 was alive in round 1");
    let task = task(&sandbox, "last");
    assert_eq!((task["__OUTCOME__"].as_str(), task["__TIMEOUTS__"].as_u64()), (Some("TIMED_OUT"), Some(2)));
    assert_eq!(task["0:__ROUND_END__"], "TIMED_OUT");
    says(&sandbox.ok("explain last"), &["WAITING: the run took too long; round 1 follows", "FINISHED: TIMED_OUT"]);
    sandbox.ends_clean();
}

#[test]
fn a_run_that_defers_spends_no_budget_and_closes_its_gate() {
    const DEFERS: &str = "\
if [ $__ROUND__ = 0 ]; then printf 'retry_after=600\\ngate=api\\n' > ../defer.info; exit 75; fi; echo done > report.log";
    let sandbox = Sandbox::serving(1, &[("defers", DEFERS), ("ok", OK)]);
    let id = submitted(&sandbox, "defers --gate api");
    eventually("its first round has ended", || task(&sandbox, &id)["__ROUND__"] == 1);
    let record = task(&sandbox, &id);
    assert_eq!((record["__DEFERS__"].as_u64(), &record["__FAILS__"]), (Some(1), &serde_json::Value::Null), "{record}");
    assert_eq!(record["0:__ROUND_END__"], "DEFERRED");
    assert!(why(&sandbox, &id).ends_with(": run.sh asked to be run again later"), "{}", why(&sandbox, &id));
    let other = submitted(&sandbox, "ok --gate api");
    assert!(why(&sandbox, &other).starts_with("its gate api is closed until 20"), "{}", why(&sandbox, &other));
    says(&sandbox.ok("gate"), &["GATE  STATUS  RUNNING", "\napi   CLOSED  0 "]);
    assert_eq!(sandbox.ok("run ok").out, "fine\n", "who does not name the gate passes");
    sandbox.ok("gate open api");
    assert_eq!(sandbox.ok(&format!("wait --timeout 60 {other}")).out, format!("{other}  SUCCEEDED  0\n"));

    sandbox.llts("run defers --max-defers 0").ended(75);
}

#[test]
fn a_gate_limits_how_many_run_and_how_many_start() {
    let sandbox = Sandbox::serving(3, &[("patient", PATIENT), ("ok", OK)]);
    assert_eq!(sandbox.ok("gate").out.lines().count(), 1, "there is none yet");
    says(&sandbox.ok("gate set db --max-running 1"), &["db    OPEN    0 of 1   -       0        -"]);
    let first = submitted(&sandbox, "patient --gate db");
    let second = submitted(&sandbox, "patient --gate db,other");
    eventually("the first runs", || is_running(&sandbox, &first));
    let full = "its gate db is full: the maximum number of tasks that passed it are running";
    assert_eq!(why(&sandbox, &second), full);
    says(&sandbox.ok("gate show db"), &["db    FULL    1 of 1   -       1 "]);
    sandbox.ok(&format!("kill {first}"));
    eventually("the second runs", || is_running(&sandbox, &second));
    sandbox.ok("gate set db --max-running none --max-starts 1 --interval 10m");
    let third = submitted(&sandbox, "ok --gate db");
    assert_eq!(
        sandbox.ok(&format!("wait --timeout 60 {third}")).code,
        Some(0),
        "there is no start in the new pace yet"
    );
    let fourth = submitted(&sandbox, "ok --gate db");
    assert_eq!(why(&sandbox, &fourth), "its gate db has reached its number of starts for the moment");
    says(&sandbox.ok("gate show db"), &["PACED", "1 in 10 min 0 s"]);
    sandbox.ok("gate set db --max-starts none");
    assert_eq!(sandbox.ok(&format!("wait --timeout 60 {fourth}")).code, Some(0));
}

#[test]
fn a_gate_is_closed_until_a_moment_or_until_it_is_opened() {
    let sandbox = Sandbox::serving(1, &[("ok", OK)]);
    says(&sandbox.ok("gate close api"), &["CLOSED", "opened by hand"]);
    let id = submitted(&sandbox, "ok --gate api");
    assert_eq!(why(&sandbox, &id), "its gate api is closed; `llts resume --gate api` opens it");
    let gate = sandbox.ok("gate close api --for 0.3 --output wire").json();
    assert_eq!((gate["__STATUS__"].as_str(), gate["__WAITING__"].as_u64()), (Some("CLOSED"), Some(1)), "{gate}");
    assert_eq!(sandbox.ok(&format!("wait --timeout 60 {id}")).code, Some(0), "it opens by itself");
    says(&sandbox.ok("gate close api --until 2100-01-01T12:00"), &["2100-01-01 12:00:00"]);
    assert_eq!(sandbox.ok("gate open api --output wire").json()["__STATUS__"], "OPEN");
    let gates = sandbox.ok("gate list --output wire").json();
    assert_eq!(gates["total"].as_u64(), Some(gates["gates"].as_array().unwrap().len() as u64));
    for (line, code) in [
        ("gate set api", 2),
        ("gate set api --max-starts 5", 2),
        ("gate set api --max-starts 0 --interval 5", 2),
        ("gate set api --max-starts none --interval 5", 2),
        ("gate set api --max-running x", 2),
        ("gate close api --for 5 --until +5", 2),
        ("gate close api --for soon", 2),
        ("gate show __TOTAL__", 4),
        ("gate open a/b", 4),
    ] {
        let said = sandbox.llts(line);
        assert!(said.code == Some(code) && said.out.is_empty() && !said.err.is_empty(), "{line}: {said:?}");
    }
}

#[test]
fn a_task_runs_only_where_its_tags_are() {
    let sandbox = Sandbox::new();
    sandbox.tool("ok", OK);
    let up = sandbox.command("up 1").env("LLTS_AGENT_TAGS", "gpu,big").output().unwrap();
    assert!(up.status.success(), "{up:?}");
    says(&sandbox.ok("agents"), &["AGENT    STATUS  PAUSED  TAGS ", "agent-1  FREE    -       big,gpu"]);
    assert_eq!(sandbox.ok("run ok --tags gpu").out, "fine\n");
    let id = submitted(&sandbox, "ok --tags gpu,arm");
    assert_eq!(why(&sandbox, &id), "no agent has the tags arm,gpu that it requires");
}

#[test]
fn a_task_starts_and_ends_in_its_time() {
    let sandbox = Sandbox::serving(1, &[("patient", PATIENT), ("ok", OK)]);
    let id = submitted(&sandbox, "ok --start-after +10m");
    let sentence = why(&sandbox, &id);
    assert!(sentence.ends_with(": its submitter set that time (--start-after)"), "{sentence}");
    sandbox.ok("run ok --start-after +0.2");
    let said = sandbox.llts("run patient --end-before +10").ended(124);
    says(&said, &["EXPIRED: the task had reached its end-before time"]);
    assert_eq!(task(&sandbox, "last")["__OUTCOME__"], "EXPIRED");
    let said = sandbox.llts("retry last").ended(4);
    says(&said, &["submit it again with a later one (-1011)"]);
}

#[test]
fn higher_priority_goes_first() {
    let sandbox = Sandbox::serving(1, &[("patient", PATIENT), ("ok", OK)]);
    let blocker = submitted(&sandbox, "patient");
    eventually("the agent is busy", || is_running(&sandbox, &blocker));
    let ids = ["ok name=low --priority -5", "ok name=first", "ok name=second", "ok name=high --priority 100"]
        .map(|line| submitted(&sandbox, line));
    assert_eq!(why(&sandbox, &ids[3]), "it is next in the queue; all agents that could run it are busy");
    assert_eq!(why(&sandbox, &ids[2]), "2 tasks are before it, and all agents that could run them are busy");
    std::fs::write(sandbox.path("until"), "").unwrap();
    sandbox.ok("wait --timeout 60 all");
    assert_eq!(std::fs::read_to_string(sandbox.path("order")).unwrap(), "high\nfirst\nsecond\nlow\n");
}

#[test]
fn the_same_key_is_the_same_task() {
    let sandbox = Sandbox::serving(1, &[("ok", OK)]);
    let id = submitted(&sandbox, "ok name=a --submit-key k");
    let said = sandbox.ok("submit ok name=a --submit-key k");
    assert_eq!(said.line(), id);
    says(&said, &["submitted before with this key"]);
    let again = sandbox.ok("submit ok name=a --submit-key k --output wire").json();
    assert_eq!((again["task"].as_str(), again["duplicate"].as_bool()), (Some(id.as_str()), Some(true)));
    let said = sandbox.llts("submit ok name=b --submit-key k").ended(4);
    says(&said, &[&id, "(-1007)"]);
    assert_eq!(sandbox.ok("run ok name=a --submit-key k").out, "fine\n", "it is waited for all the same");
    assert_eq!(std::fs::read_to_string(sandbox.path("order")).unwrap(), "a\n");
}

#[test]
fn the_end_is_pushed_until_it_is_confirmed() {
    let sandbox = Sandbox::serving(1, &[("ok", OK)]);
    let states = Receiver::bind();
    let id = submitted(&sandbox, &format!("ok --push-ack --address {}", states.address));
    let finished = || loop {
        let state = states.next();
        if state["__STATUS__"] == "FINISHED" {
            return state;
        }
    };
    let (first, again) = (finished(), finished());
    assert_eq!(first["__SEQ__"], again["__SEQ__"]);
    let confirmation =
        serde_json::json!({ "__TYPE__": "TASK/STATUS/ACK", "__TASK_ID__": id, "__SEQ__": again["__SEQ__"] });
    states.socket.send(confirmation.to_string().as_bytes(), 0).unwrap();
    eventually("it is confirmed", || task(&sandbox, &id)["__ACK_TIME__"].is_number());
}

#[test]
fn a_policy_that_cannot_be_is_refused() {
    let sandbox = Sandbox::serving(1, &[("ok", OK)]);
    for (line, code, part) in [
        ("submit ok --priority 101", 2, "-100..=100"),
        ("submit ok --timeout soon", 2, "10m"),
        ("submit ok --timeout=-1", 2, "10m"),
        ("submit ok --start-after 10m", 2, "+10m"),
        ("submit ok --max-fails=-1", 2, "--max-fails"),
        ("submit ok --gate a/b", 2, "is not a name"),
        ("submit ok --tags a,,b", 2, "is not a name"),
        ("submit ok --push-ack", 2, "--address"),
        ("submit ok --fail-on-stderr=perhaps", 2, "--fail-on-stderr"),
        ("submit ok --exclusive=perhaps", 2, "--exclusive"),
        ("submit ok --max-fails 4000000000", 4, "__MAX_FAILS__"),
        ("submit ok --end-before 2020-01-01T00:00", 4, "__END_BEFORE__"),
        ("submit ok --start-after +10 --end-before +5", 4, "could never start"),
        ("submit ok __TIMEOUT__:=-1", 4, "__TIMEOUT__"),
    ] {
        let said = sandbox.llts(line);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{line}: {said:?}");
        says(&said, &[part]);
    }
    assert_eq!(sandbox.ok("list --output wire").json()["total"].as_u64(), Some(0));
}
