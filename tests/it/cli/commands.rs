//! The command line against the real service: what it prints, and how it exits.

use crate::cli::sandbox::{Sandbox, Start as _, eventually, signal};
use rustix::process::Signal;

const HELLO: &str = "echo \"hello $PARAM_name\" >> report.log; echo out; echo complaint >&2; exit ${PARAM_code:-0}";

/// `exec`: the sleep is run.sh itself, and a signal ends it.
const SLEEPER: &str = "exec sleep 1000";

#[test]
fn run_hosts_a_service_and_exits_as_the_tool_did() {
    let sandbox = Sandbox::new();
    sandbox.tool("hello", HELLO);
    let said = sandbox.llts("run --no-service hello name=world");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "out\n"), "{said:?}");
    assert!(
        said.err.contains("llts: no service runs here")
            && said.err.ends_with("\ncomplaint\nllts: report.log:\nhello world\n"),
        "{said:?}"
    );
    sandbox.is_clean();
    let said = sandbox.llts("run --no-service hello code=7 --output wire");
    assert_eq!((said.code, said.json()["__EXIT_CODE__"].as_i64()), (Some(7), Some(7)));
    sandbox.is_clean();
}

#[test]
fn run_without_a_report_prints_what_the_tool_printed() {
    let sandbox = Sandbox::new();
    sandbox.tool("plain", "printf 'no newline'");
    assert_eq!(sandbox.ok("run --no-service plain").out, "no newline");
    sandbox.tool("quiet", "printf 'a report' > report.log; printf 'a complaint' >&2");
    let said = sandbox.ok("run --no-service quiet");
    assert!(said.out == "a report" && said.err.ends_with("\na complaint"), "{said:?}");
}

#[test]
fn no_output_is_cut_without_a_sign() {
    let sandbox = Sandbox::new();
    sandbox.tool("big", "seq 5000; seq 3000 >&2; seq 4000 > report.log; printf '\\377\\376' >&2");
    let said = sandbox.ok("run --no-service big --output wire");
    for note in [
        "llts: report.log: the last 10,000 of 18,893 bytes (REPORT_LOG_KEEP_BYTES of the agent)\n",
        "llts: stdout: the last 10,000 of 23,893 bytes (STDOUT_KEEP_BYTES of the agent)\n",
        "of 13,895 bytes (STDERR_KEEP_BYTES of the agent)\n",
        "llts: stderr: bytes that are not UTF-8 are shown as \u{fffd}\n",
    ] {
        assert!(said.err.contains(note), "{note}: {said:?}");
    }
    let task = said.json();
    let bytes = ["__REPORT_BYTES__", "__STDOUT_BYTES__", "__STDERR_BYTES__"].map(|name| task[name].as_u64());
    assert_eq!(bytes, [Some(18_893), Some(23_893), Some(13_895)]);
    assert!(said.err.contains("llts: stdout: the last"), "{said:?}");
}

/// Also what had to be ended with SIGKILL.
#[test]
fn what_a_tool_has_left_behind_is_counted() {
    let sandbox = Sandbox::new();
    // Many, because one look finds those that end while it takes place.
    sandbox.tool("leaver", "trap '' TERM; for n in $(seq 50); do setsid sleep 1000 & done; exit 0");
    assert_eq!(sandbox.ok("run --no-service leaver --output wire").json()["__REAPED__"].as_u64(), Some(50));
}

#[test]
fn run_of_a_missing_tool_is_refused_with_a_sentence() {
    let sandbox = Sandbox::new();
    let said = sandbox.llts("run --no-service nothing");
    assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
    assert!(said.err.contains("send it with `llts tool push FOLDER`") && said.err.contains("(-1006)"), "{said:?}");
    sandbox.is_clean();
}

#[test]
fn run_of_a_mistyped_tool_names_the_place_and_the_nearest_one() {
    let sandbox = Sandbox::serving(1, &[("helloworld", HELLO), ("other", HELLO)]);
    for command in ["run helloword", "submit helloword"] {
        let said = sandbox.llts(command);
        assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
        let sentence = "no agent has the tool helloword; did you mean helloworld?";
        assert!(said.err.contains(sentence) && said.err.contains("llts tool push"), "{said:?}");
    }
    for (program, code) in [("true", 4), ("/bin/true", 2)] {
        let said = sandbox.llts(&format!("run {program}"));
        let hint = format!("for the program of this name: llts run -- {program}");
        assert!(said.code == Some(code) && said.err.contains(&hint), "{said:?}");
    }
    assert_eq!(sandbox.ok("list").out.matches("hello").count(), 0, "nothing was accepted");
    let agents = sandbox.ok("agents");
    assert!(agents.line().contains("TOOLS"), "{agents:?}");
    assert_eq!(sandbox.agents()[0]["__TOOLS__"], "helloworld,other");
}

#[test]
fn a_run_that_is_killed_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.tool("sleeper", "touch $PLACE/started; setsid sleep 1000 & sleep 1000");
    let mut run = sandbox.start("run --no-service sleeper");
    eventually("the tool runs", || sandbox.path("started").exists());
    run.kill();
    eventually("all of it has ended", || sandbox.processes().is_empty());
    sandbox.is_clean();
}

/// Of the processes that were to look after it, only the guard is left.
#[test]
fn a_run_that_is_killed_with_its_supervisor_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.tool("sleeper", "touch $PLACE/started; setsid sleep 1000 & sleep 1000");
    let mut run = sandbox.start("run --no-service sleeper");
    eventually("the tool runs", || sandbox.path("started").exists());
    let processes = sandbox.processes();
    let supervisor = processes.iter().find(|(_, line)| line.contains(" supervise ")).expect("a supervisor").0;
    signal(supervisor, Signal::KILL);
    run.kill();
    eventually("all of it has ended", || sandbox.processes().is_empty());
    sandbox.is_clean();
}

#[test]
fn ctrl_c_ends_the_task_and_waits_for_its_end() {
    let sandbox = Sandbox::new();
    sandbox.tool(
        "polite",
        "trap 'echo bye >> report.log; exit 3' TERM; touch $PLACE/started; while :; do sleep 0.05; done",
    );
    // It has as long as it needs.
    let run = sandbox.command("run --no-service polite").env("LLTS_AGENT_KILL_INTERVAL", "60000").start();
    eventually("the tool runs", || sandbox.path("started").exists());
    run.signal(Signal::INT);
    let said = run.said();
    assert_eq!((said.code, said.out.as_str()), (Some(130), "bye\n"), "{said:?}");
    sandbox.is_clean();
}

/// A shell ends at once on SIGTERM, and the program that it waits for may need its time.
#[test]
fn a_program_below_a_shell_has_the_kill_interval_to_write_its_last_line() {
    let sandbox = Sandbox::new();
    // Behind AGENT_STRAGGLER_GRACE, which is for what a run leaves behind by itself.
    let program =
        "trap 'sleep 1; echo last; exit' TERM; echo first; touch $PLACE/started; while :; do sleep 0.05; done";
    sandbox.tool("slow", &format!("sh -c \"{program}\"; true"));
    for line in
        [&["run", "--no-service", "slow"][..], &["run", "--no-service", "--sh", &format!("sh -c \"{program}\"; true")]]
    {
        let mut command = sandbox.command("");
        // It has as long as it needs.
        let run = command.args(line).env("LLTS_AGENT_KILL_INTERVAL", "60000").start();
        eventually("the program runs", || sandbox.path("started").exists());
        run.signal(Signal::INT);
        let said = run.said();
        assert_eq!((said.code, said.out.as_str()), (Some(130), "first\nlast\n"), "{said:?}");
        std::fs::remove_file(sandbox.path("started")).unwrap();
        sandbox.is_clean();
    }
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let sandbox = Sandbox::new();
    sandbox.tool("deaf", "trap 'touch $PLACE/asked' TERM; touch $PLACE/started; while :; do sleep 0.05; done");
    let run = sandbox.start("run --no-service deaf");
    eventually("the tool runs", || sandbox.path("started").exists());
    run.signal(Signal::INT);
    eventually("the tool was asked to end", || sandbox.path("asked").exists());
    run.signal(Signal::INT);
    let said = run.said();
    // SIGKILL may have been quicker than the second Ctrl-C.
    assert!([Some(130), Some(137)].contains(&said.code), "{said:?}");
    eventually("all of it has ended", || sandbox.processes().is_empty());
    sandbox.is_clean();
}

#[test]
fn a_signal_to_the_tool_is_told_as_a_shell_does() {
    let sandbox = Sandbox::new();
    sandbox.tool("suicide", "kill -9 $$");
    sandbox.llts("run --no-service suicide").failed(137, "signal 9");
    let sandbox = Sandbox::serving(1, &[("suicide", "kill -9 $$")]);
    sandbox.llts("run suicide").failed(137, "signal 9");
    let listed = sandbox.ok("list --columns exit,why").out;
    assert_eq!(listed, "EXIT\tWHY\n-9\tended by signal 9\n");
}

#[test]
fn a_task_is_submitted_found_waited_for_and_listed() {
    let sandbox = Sandbox::serving(2, &[("hello", HELLO)]);
    let id = sandbox.ok("submit hello name=a n:=5 --given-id mine").line().to_owned();
    assert!(id.starts_with("TASK_"), "{id}");
    let said = sandbox.ok(&format!("wait {id}"));
    assert_eq!(said.out, format!("{id}  SUCCEEDED  0\n"));
    let said = sandbox.ok(&format!("query {id}"));
    assert!(said.out.contains("\n__REPORT_LOG__:\nhello a\n"), "{said:?}");
    let task = sandbox.ok("query --given-id mine --output wire").json();
    assert_eq!((task["__TASK_ID__"].as_str(), task["n"].as_i64()), (Some(id.as_str()), Some(5)));
    let failed = sandbox.ok("submit hello name=b code=9").line().to_owned();
    let said = sandbox.llts(&format!("wait {id} {failed}"));
    assert_eq!(said.code, Some(9), "the worst: {said:?}");

    let said = sandbox.ok("list --where name=b");
    let rows: Vec<_> = said.out.lines().collect();
    assert!(rows.len() == 2 && rows[0].starts_with("TASK ") && rows[1].starts_with(&failed), "{said:?}");
    let list = sandbox.ok("list --status FINISHED --limit 1 --output wire").json();
    assert_eq!((list["total"].as_u64(), list["tasks"].as_array().map(Vec::len)), (Some(2), Some(1)));
    let said = sandbox.ok("list --limit 1");
    assert_eq!(said.err, "llts: 1 of 2 known tasks; --offset 1 shows the next\n");
    let stats = sandbox.ok("stats --output wire").json();
    assert_eq!((stats["tasks"]["FINISHED"].as_u64(), stats["agents"]["free"].as_u64()), (Some(2), Some(2)));
    assert!(sandbox.ok("stats").out.contains("FINISHED    2\n"));
    let said = sandbox.ok("agents");
    assert!(said.out.contains("agent-1") && said.out.contains("agent-2"), "{said:?}");
}

#[test]
fn a_kill_ends_a_task_and_a_wait_ends_in_time() {
    let sandbox = Sandbox::serving(1, &[("sleeper", SLEEPER)]);
    let id = sandbox.ok("submit sleeper").line().to_owned();
    let waiting = sandbox.ok("submit sleeper").line().to_owned();
    let is_running = || sandbox.ok(&format!("query {id} --output wire")).json()["__STATUS__"] == "RUNNING";
    eventually("the tool runs, and its controller knows", is_running);
    let said = sandbox.llts(&format!("wait {id} --timeout 0.05")).ended(124);
    assert!(said.err.contains("is still RUNNING") && said.out.contains("RUNNING"), "{said:?}");
    sandbox.ok(&format!("kill {waiting} {id}"));
    let said = sandbox.llts(&format!("wait {id} {waiting}")).ended(143);
    assert!(said.out.contains("KILLED  -15\n"), "{said:?}");
    assert!(said.err.contains(&format!("{waiting}: KILLED")), "{said:?}");
}

#[test]
fn each_kind_of_failure_has_its_exit_code() {
    let sandbox = Sandbox::new();
    let said = sandbox.llts("stats");
    assert_eq!((said.code, said.out.as_str()), (Some(3), ""));
    assert!(said.err.contains("llts up"), "{said:?}");
    let said = sandbox.llts("stats --output wire");
    assert_eq!((said.code, said.json()["exit_code"].as_i64()), (Some(3), Some(3)));

    sandbox.ok("up 1");
    let nobody = "TASK_1480000000.120000_AZazA";
    for (line, code) in [
        ("submit", 2),
        ("submit hello name", 2),
        ("submit hello n:=x", 2),
        ("submit hello __TYPE__=x", 2),
        ("submit ../hello", 2),
        ("submit hello --address nonsense", 4),
        ("stats --config missing.toml", 2),
        ("stats --controller nonsense", 2),
        (&format!("query {nobody}"), 5),
        (&format!("kill {nobody}"), 5),
        (&format!("wait {nobody} --timeout 60"), 5),
        ("query x", 5),
        ("kill x", 5),
    ] {
        let said = sandbox.llts(line);
        assert_eq!(said.code, Some(code), "{line}: {said:?}");
        assert!(!said.err.is_empty() && said.out.is_empty() || line.starts_with("wait"), "{line}: {said:?}");
        assert!(code == 2 || said.err.starts_with("llts: ") && said.err.lines().count() == 1, "{line}: {said:?}");
    }
    let said = sandbox.llts("submit hello --address nonsense --output wire");
    assert!(said.json()["error"].as_str().unwrap().contains("(-1007)"), "{said:?}");
}

#[test]
fn a_controller_that_was_named_is_not_replaced_by_a_hosted_one() {
    let sandbox = Sandbox::new();
    sandbox.tool("hello", HELLO);
    // Bound and silent: no other process can take the port meanwhile.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", silent.local_addr().unwrap());
    let mut run = sandbox.command(&format!("run hello --controller {endpoint}"));
    run.env("LLTS_ZMQ_RECV_TIMEOUT", "500").said().failed(3, &endpoint);
}

#[test]
fn a_tool_talks_to_its_own_controller() {
    let sandbox = Sandbox::serving(2, &[("hello", HELLO), ("father", "exec \"$PARAM_llts\" run hello name=child")]);
    let said = sandbox.ok(&format!("run father llts={}", env!("CARGO_BIN_EXE_llts")));
    assert!(said.out == "out\n" && said.err.contains("hello child\n"), "{said:?}");
    assert_eq!(sandbox.ok("list --output wire").json()["total"].as_u64(), Some(2));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let sandbox = Sandbox::up(1);
    let mut list = sandbox.start("agents");
    drop(list.stdout.take());
    let said = list.said();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

/// A task that calls this program is told of nothing that its agent has set.
#[test]
fn a_command_in_a_task_warns_of_nothing() {
    let sandbox = Sandbox::up(2);
    let said = sandbox.ok(&format!("run --fail-on-stderr -- {} run -- echo ok", env!("CARGO_BIN_EXE_llts")));
    assert_eq!((said.out.as_str(), said.err.as_str()), ("ok\n", ""));
}

#[test]
fn a_tool_is_made_checked_packed_and_run() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.ok("tool new tools/mine").out, "tools/mine/run.sh\n");
    assert_eq!(sandbox.llts("tool new tools/mine").code, Some(1));
    assert!(sandbox.ok("tool check tools/mine").out.starts_with("mine: "));
    assert_eq!(sandbox.ok("tool pack tools/mine").out, "testTools/mine.tar.gz\n");
    assert_eq!(sandbox.ok("tool pack tools/mine").out, "testTools/mine.tar.gz (unchanged)\n");
    assert_eq!(sandbox.ok("tool pack tools/mine --out other").out, "other/mine.tar.gz\n");
    let bytes = |path| std::fs::read(sandbox.path(path)).unwrap();
    assert_eq!(bytes("testTools/mine.tar.gz"), bytes("other/mine.tar.gz"));
    let packed = sandbox.ok("tool pack tools/mine --out other/mine.tar.gz --output wire").json();
    assert_eq!(packed["changed"].as_bool(), Some(false));
    assert!(sandbox.ok("tool check testTools/mine.tar.gz").out.starts_with("mine: "));
    assert!(sandbox.ok("run --no-service mine").out.starts_with("hello, world"));
    sandbox.llts("tool check tools").ended(1);
}
