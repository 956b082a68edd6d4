//! The policy flags of `submit` and `run` against the real service: what a task demands, and what people are told of it.

use crate::place::{Place, Said, eventually, names};

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

fn with(agents: u8, tools: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (name, script) in tools {
        place.tool(name, script);
    }
    place.ok(&format!("up {agents}"));
    place
}

/// The lines of `llts explain` before its log.
#[track_caller]
fn why(place: &Place, task: &str) -> String {
    let said = place.ok(&format!("explain {task}"));
    said.out.lines().nth(1).unwrap_or_else(|| panic!("{said:?}")).to_owned()
}

#[track_caller]
fn task(place: &Place, task: &str) -> serde_json::Value {
    place.ok(&format!("query {task} --output json")).json()
}

#[track_caller]
fn submitted(place: &Place, line: &str) -> String {
    place.ok(&format!("submit {line}")).line().to_owned()
}

fn is_running(place: &Place, id: &str) -> bool {
    task(place, id)["__STATUS__"] == "RUNNING"
}

#[track_caller]
fn says(said: &Said, parts: &[&str]) {
    for part in parts {
        assert!(said.out.contains(part) || said.err.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn a_task_that_fails_is_run_again_and_its_rounds_are_shown() {
    let place = with(1, &[("flaky", FLAKY)]);
    let said = place.ok("run flaky --max-fails 2 --retry-delay 0.05");
    assert_eq!((said.out.as_str(), said.err.as_str()), ("round 2\n", "not 2\n"));
    let task = task(&place, "last");
    assert_eq!((task["__ROUND__"].as_u64(), task["__FAILS__"].as_u64()), (Some(2), Some(2)), "{task}");
    assert_eq!((task["0:__EXIT_CODE__"].as_i64(), task["1:__ROUND_END__"].as_str()), (Some(1), Some("FAILED")));
    let said = place.ok("query last");
    says(&said, &["\nROUND  ENDED AS  EXIT", "\n0      FAILED    1 ", "\n1:__STDERR__:\nnot 1\n", "\n__LOG__:\n"]);
    says(&said, &["WAITING: the run failed; round 1 follows", "FINISHED: SUCCEEDED\n"]);

    let said = place.llts("run flaky --max-fails 1");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "round 1\n"));
    says(&said, &["FAILED: 2 runs failed; __MAX_FAILS__ is 1"]);
    says(&place.ok("list last"), &["2 runs failed; __MAX_FAILS__ is 1"]);
    assert_eq!(why(&place, "last"), "it ended as FAILED: 2 runs failed; __MAX_FAILS__ is 1");
}

#[test]
fn a_task_that_waits_for_its_next_round_says_until_when() {
    let place = with(1, &[("flaky", FLAKY)]);
    let id = submitted(&place, "flaky --max-fails 2 --retry-delay 10m");
    eventually("its first round is over", || task(&place, &id)["__ROUND__"] == 1);
    let sentence = why(&place, &id);
    assert!(
        sentence.starts_with("it does not start before 20") && sentence.ends_with(": the run failed"),
        "{sentence}"
    );
    says(&place.ok("list"), &["not before 20"]);
}

#[test]
fn stderr_is_a_failure_where_the_submitter_says_so() {
    let place = with(1, &[("warns", "echo careful >&2")]);
    place.ok("run warns");
    place.ok("run warns --fail-on-stderr=false --exclusive");
    assert_eq!(place.ok("query last --output json").json()["__EXCLUSIVE__"], true);
    let said = place.llts("run warns --fail-on-stderr");
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    says(&said, &["careful\nllts: TASK_", "FAILED: it wrote to stderr (__FAIL_ON_STDERR__)"]);
    assert_eq!(place.llts("wait last").code, Some(1));
}

/// Promise 4, between rounds: what the run before has started is gone before the next one starts.
#[test]
fn a_run_that_takes_too_long_is_gone_before_the_next_one() {
    let place = with(2, &[("stubborn", STUBBORN)]);
    let said = place.llts("run stubborn --timeout 4 --max-timeouts 1");
    assert_eq!(said.code, Some(124), "{said:?}");
    says(&said, &["2 runs took longer than 4 s (__TIMEOUT__); __MAX_TIMEOUTS__ is 1"]);
    assert!(place.path("escaped.1").exists(), "the second round was one too: {:?}", names(&place.path(".")));
    assert!(!place.path("overlap").exists(), "a process of round 0 was alive in round 1");
    let task = task(&place, "last");
    assert_eq!((task["__OUTCOME__"].as_str(), task["__TIMEOUTS__"].as_u64()), (Some("TIMED_OUT"), Some(2)));
    assert_eq!(task["0:__ROUND_END__"], "TIMED_OUT");
    says(&place.ok("explain last"), &["WAITING: the run took too long; round 1 follows", "FINISHED: TIMED_OUT"]);
    place.ok("down");
    place.is_clean();
}

#[test]
fn a_run_that_defers_spends_no_budget_and_closes_its_gate() {
    const DEFERS: &str = "\
if [ $__ROUND__ = 0 ]; then printf 'retry_after=600\\ngate=api\\n' > ../defer.info; exit 75; fi; echo done > report.log";
    let place = with(1, &[("defers", DEFERS), ("ok", OK)]);
    let id = submitted(&place, "defers --gate api");
    eventually("its first round is over", || task(&place, &id)["__ROUND__"] == 1);
    let record = task(&place, &id);
    assert_eq!((record["__DEFERS__"].as_u64(), &record["__FAILS__"]), (Some(1), &serde_json::Value::Null), "{record}");
    assert_eq!(record["0:__ROUND_END__"], "DEFERRED");
    assert!(why(&place, &id).ends_with(": run.sh asked to be run again later"), "{}", why(&place, &id));
    let other = submitted(&place, "ok --gate api");
    assert!(why(&place, &other).starts_with("its gate api is closed until 20"), "{}", why(&place, &other));
    says(&place.ok("gate"), &["GATE  STATUS  RUNNING", "\napi   CLOSED  0 "]);
    assert_eq!(place.ok("run ok").out, "fine\n", "who does not name the gate passes");
    place.ok("gate open api");
    assert_eq!(place.ok(&format!("wait --timeout 60 {other}")).out, format!("{other}  SUCCEEDED  0\n"));

    let said = place.llts("run defers --max-defers 0");
    assert_eq!(said.code, Some(75), "{said:?}");
}

#[test]
fn a_gate_limits_how_many_run_and_how_many_start() {
    let place = with(3, &[("patient", PATIENT), ("ok", OK)]);
    assert_eq!(place.ok("gate").out.lines().count(), 1, "there is none yet");
    says(&place.ok("gate set db --max-running 1"), &["db    OPEN    0 of 1   -       0        -"]);
    let first = submitted(&place, "patient --gate db");
    let second = submitted(&place, "patient --gate db,other");
    eventually("the first runs", || is_running(&place, &first));
    let full = "its gate db is full: as many tasks as may pass it at once are running";
    assert_eq!(why(&place, &second), full);
    says(&place.ok("gate show db"), &["db    FULL    1 of 1   -       1 "]);
    place.ok(&format!("kill {first}"));
    eventually("the second runs", || is_running(&place, &second));
    place.ok("gate set db --max-running none --max-starts 1 --interval 10m");
    let third = submitted(&place, "ok --gate db");
    assert_eq!(place.ok(&format!("wait --timeout 60 {third}")).code, Some(0), "there is no start in the new pace yet");
    let fourth = submitted(&place, "ok --gate db");
    assert_eq!(why(&place, &fourth), "its gate db has let as many tasks start as it may for the moment");
    says(&place.ok("gate show db"), &["PACED", "1 in 10 min 0 s"]);
    place.ok("gate set db --max-starts none");
    assert_eq!(place.ok(&format!("wait --timeout 60 {fourth}")).code, Some(0));
}

#[test]
fn a_gate_is_closed_until_a_moment_or_until_it_is_opened() {
    let place = with(1, &[("ok", OK)]);
    says(&place.ok("gate close api"), &["CLOSED", "somebody opens it"]);
    let id = submitted(&place, "ok --gate api");
    assert_eq!(why(&place, &id), "its gate api is closed; `llts gate open api` opens it");
    let gate = place.ok("gate close api --for 0.3 --output json").json();
    assert_eq!((gate["__STATUS__"].as_str(), gate["__WAITING__"].as_u64()), (Some("CLOSED"), Some(1)), "{gate}");
    assert_eq!(place.ok(&format!("wait --timeout 60 {id}")).code, Some(0), "it opens by itself");
    says(&place.ok("gate close api --until 2100-01-01T12:00"), &["2100-01-01 12:00:00"]);
    assert_eq!(place.ok("gate open api --output json").json()["__STATUS__"], "OPEN");
    let gates = place.ok("gate list --output json").json();
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
        let said = place.llts(line);
        assert!(said.code == Some(code) && said.out.is_empty() && !said.err.is_empty(), "{line}: {said:?}");
    }
}

#[test]
fn a_task_runs_only_where_its_tags_are() {
    let place = Place::new();
    place.tool("ok", OK);
    let up = place.command("up 1").env("LLTS_AGENT_TAGS", "gpu,big").output().unwrap();
    assert!(up.status.success(), "{up:?}");
    says(&place.ok("agents"), &["AGENT    STATUS  DRAINED  TAGS ", "agent-1  FREE    -        big,gpu"]);
    assert_eq!(place.ok("run ok --tags gpu").out, "fine\n");
    let id = submitted(&place, "ok --tags gpu,arm");
    assert_eq!(why(&place, &id), "no agent has the tags arm,gpu that it requires");
}

#[test]
fn a_task_starts_and_ends_in_its_time() {
    let place = with(1, &[("patient", PATIENT), ("ok", OK)]);
    let id = submitted(&place, "ok --start-after +10m");
    let sentence = why(&place, &id);
    assert!(sentence.ends_with(": its submitter says so (__START_AFTER__)"), "{sentence}");
    place.ok("run ok --start-after +0.2");
    let said = place.llts("run patient --end-before +4");
    assert_eq!(said.code, Some(124), "{said:?}");
    says(&said, &["EXPIRED: the time for its whole life was over"]);
    assert_eq!(task(&place, "last")["__OUTCOME__"], "EXPIRED");
    let said = place.llts("retry last");
    assert_eq!(said.code, Some(4), "{said:?}");
    says(&said, &["submit it anew with a later end (-1011)"]);
}

#[test]
fn higher_priority_goes_first() {
    let place = with(1, &[("patient", PATIENT), ("ok", OK)]);
    let blocker = submitted(&place, "patient");
    eventually("the agent is busy", || is_running(&place, &blocker));
    let ids = ["ok name=low --priority -5", "ok name=first", "ok name=second", "ok name=high --priority 100"]
        .map(|line| submitted(&place, line));
    assert_eq!(why(&place, &ids[3]), "it is the next one; all agents that could run it are busy");
    assert_eq!(why(&place, &ids[2]), "2 tasks are before it, and all agents that could run them are busy");
    std::fs::write(place.path("until"), "").unwrap();
    place.ok("wait --timeout 60 all");
    assert_eq!(std::fs::read_to_string(place.path("order")).unwrap(), "high\nfirst\nsecond\nlow\n");
}

#[test]
fn the_same_key_is_the_same_task() {
    let place = with(1, &[("ok", OK)]);
    let id = submitted(&place, "ok name=a --submit-key k");
    let said = place.ok("submit ok name=a --submit-key k");
    assert_eq!(said.line(), id);
    says(&said, &["submitted before with this key"]);
    let again = place.ok("submit ok name=a --submit-key k --output json").json();
    assert_eq!((again["task"].as_str(), again["duplicate"].as_bool()), (Some(id.as_str()), Some(true)));
    let said = place.llts("submit ok name=b --submit-key k");
    assert_eq!(said.code, Some(4), "{said:?}");
    says(&said, &[&id, "(-1007)"]);
    assert_eq!(place.ok("run ok name=a --submit-key k").out, "fine\n", "it is waited for all the same");
    assert_eq!(std::fs::read_to_string(place.path("order")).unwrap(), "a\n");
}

#[test]
fn the_end_is_pushed_until_it_is_confirmed() {
    let place = with(1, &[("ok", OK)]);
    let states = zmq::Context::new().socket(zmq::DEALER).unwrap();
    states.bind("tcp://127.0.0.1:*").unwrap();
    states.set_rcvtimeo(60_000).unwrap();
    let address = states.get_last_endpoint().unwrap().unwrap();
    let id = submitted(&place, &format!("ok --push-ack --address {address}"));
    let finished = || loop {
        let state: serde_json::Value = serde_json::from_slice(&states.recv_bytes(0).unwrap()).unwrap();
        if state["__STATUS__"] == "FINISHED" {
            return state;
        }
    };
    let (first, again) = (finished(), finished());
    assert_eq!(first["__SEQ__"], again["__SEQ__"]);
    let confirmation =
        serde_json::json!({ "__TYPE__": "TASK/STATUS/ACK", "__TASK_ID__": id, "__SEQ__": again["__SEQ__"] });
    states.send(confirmation.to_string().as_bytes(), 0).unwrap();
    eventually("it is confirmed", || task(&place, &id)["__ACK_TIME__"].is_number());
}

#[test]
fn a_policy_that_cannot_be_is_refused() {
    let place = with(1, &[("ok", OK)]);
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
        let said = place.llts(line);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{line}: {said:?}");
        says(&said, &[part]);
    }
    assert_eq!(place.ok("list --output json").json()["total"].as_u64(), Some(0));
}
