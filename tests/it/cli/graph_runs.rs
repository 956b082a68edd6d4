//! `llts graph run`, `submit`, `show`, `list`, `kill`, and drawings of graphs that run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::cli::sandbox::{Said, Sandbox, Start as _, eventually, signal};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/graphs");

/// A service with three agents, in whose tasks `llts` is this program.
fn service() -> Sandbox {
    let sandbox = Sandbox::new();
    let programs = Path::new(env!("CARGO_BIN_EXE_llts")).parent().expect("its folder").display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    sandbox.command("up 3").env("PATH", path).said().ok();
    sandbox
}

fn write(sandbox: &Sandbox, text: &str) {
    fs::write(sandbox.path("graph.toml"), text).expect("written");
}

/// The outputs of all tasks of a graph, in the order of their submits.
#[track_caller]
fn outputs(sandbox: &Sandbox, run: &Said) -> String {
    let id = run.json()["__GRAPH_ID__"].as_str().expect("an id").to_owned();
    sandbox.ok(&format!("logs --job {id}")).out
}

#[test]
fn a_word_count_of_a_text_of_megabytes_counts_every_word() {
    let sandbox = service();
    let words = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur"];
    let (mut text, mut counts) = (String::new(), BTreeMap::new());
    for at in 0..500_000_usize {
        let word = words[(at * at + at / 7) % words.len()];
        *counts.entry(word).or_insert(0) += 1;
        text.push_str(word);
        text.push(if at % 11 == 0 { '\n' } else { ' ' });
    }
    assert!(text.len() > 2 << 20);
    fs::write(sandbox.path("text"), text).unwrap();
    let sample = fs::read_to_string(Path::new(SAMPLES).join("wordcount.toml")).unwrap();
    let file = sandbox.path("text").display().to_string();
    write(&sandbox, &sample.replace("/usr/share/common-licenses/GPL-3", &file));
    let run = sandbox.ok("graph run graph.toml --output wire");
    let tasks =
        run.json()["steps"].as_array().unwrap().iter().map(|step| step["__TOTAL__"].as_u64().unwrap()).sum::<u64>();
    assert!(tasks > 30, "{tasks} tasks");
    let mut expected: Vec<String> = counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect();
    expected.sort();
    let mut found: Vec<String> = outputs(&sandbox, &run).lines().map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_join_reads_its_small_side_through_a_sub_input() {
    let sandbox = service();
    let run = sandbox.ok(&format!("graph run {SAMPLES}/join.toml --output wire"));
    assert_eq!(outputs(&sandbox, &run), "1 ada ink\n1 ada pen\n2 bob cup\n3 cyd tea\n");
    let steps = run.json()["steps"].as_array().unwrap().clone();
    let of_join = steps.iter().find(|step| step["__STEP__"] == "join").unwrap();
    let times = of_join["__TIMES__"].as_object().unwrap();
    assert!(times["PREPARING"].as_f64() <= times["PREPARED"].as_f64(), "{times:?}");
    assert!(times["PREPARED"].as_f64() <= times["RUNNING"].as_f64(), "{times:?}");
    assert_eq!(of_join["__TOTAL__"], 3, "one task prepares, two join a day each");
}

/// The first step ends only after the second one has used what it provided.
#[test]
fn a_downstream_step_starts_while_its_upstream_step_runs() {
    let sandbox = service();
    let run = sandbox.ok(&format!("graph run {SAMPLES}/incremental.toml --output wire"));
    assert_eq!(outputs(&sandbox, &run), "second has read 42\n");
}

#[test]
fn a_limit_ends_a_step_that_has_no_end_of_its_own() {
    let sandbox = service();
    let run = sandbox.ok(&format!("graph run {SAMPLES}/limit.toml --output wire"));
    assert_eq!(outputs(&sandbox, &run), "55\n");
    assert_eq!(run.json()["__STATUS__"], "SUCCEEDED");
}

#[test]
fn a_graph_is_shown_listed_and_drawn() {
    let sandbox = service();
    let said = sandbox.ok(&format!("graph run {SAMPLES}/join.toml"));
    for part in ["name       join\n", "status     SUCCEEDED\n", "steps      done 4\n", "STEP", "3/3"] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
    let list = sandbox.ok("graph list --output wire").json();
    assert_eq!((&list["total"], &list["graphs"][0]["__NAME__"]), (&1.into(), &"join".into()));
    let id = list["graphs"][0]["__GRAPH_ID__"].as_str().unwrap().to_owned();
    assert!(sandbox.ok("graph list").out.contains(&id));
    assert_eq!(sandbox.ok(&format!("graph show {id}")).out, said.out);
    let short = id.rsplit('_').next().expect("letters");
    assert_eq!(sandbox.ok(&format!("graph show {short}")).out, said.out);
    assert_eq!(sandbox.ok("graph show last").out, said.out);
    let tasks = sandbox.ok("list").out;
    assert!(["customers: ", "orders: ", "join: ", "report: "].iter().all(|step| tasks.contains(step)), "{tasks}");
    assert_eq!(sandbox.ok("graph svg last").out, sandbox.ok(&format!("graph svg {id}")).out);
    sandbox.llts("graph show zzzzz").failed(5, "no graph has the short id zzzzz");
    sandbox.llts("graph kill nonsense").failed(5, "\"nonsense\" names no graph");
    let page = sandbox.ok(&format!("graph show {id} --limit 2"));
    assert!(page.out.contains("orders") && !page.out.contains("report"), "{page:?}");
    assert_eq!(page.err, "llts: 2 of 4 steps; --offset 2 shows the next\n");
    let svg = sandbox.ok(&format!("graph svg {id}")).out;
    assert!(svg.contains(">join</text>") && svg.contains("deactivated, 3 tasks") && svg.contains("line sub"), "{svg}");
    let dot = sandbox.ok(&format!("graph dot {id}")).out;
    let edge = "\"customers\" -> \"join\" [taillabel=\"table\", headlabel=\"customers\", style=dashed];";
    assert!(dot.contains(edge) && dot.contains("fillcolor"), "{dot}");
}

#[test]
fn a_failed_graph_names_the_step_and_the_task() {
    let sandbox = service();
    let failing = "[steps.good]\ncommand = ['true']\n[steps.bad]\ncommand = ['sh', '-c', 'exit 7']\ninputs = { in = ['good.out'] }\n\
                   [steps.never]\ncommand = ['true']\ninputs = { in = ['bad.out'] }\n";
    write(&sandbox, failing);
    let said = sandbox.llts("graph run graph.toml").ended(1);
    let reason = said.out.lines().find(|line| line.starts_with("reason")).unwrap_or_else(|| panic!("{said:?}"));
    assert!(reason.contains("step bad") && reason.contains("TASK_"), "{reason}");
    assert!(said.out.contains("status     FAILED\n"), "{said:?}");
}

#[test]
fn a_flaw_is_told_with_the_file_before_anything_runs() {
    let sandbox = service();
    write(&sandbox, "[steps.a]\ncommand = ['true']\ninputs = { in = ['b.out'] }\n");
    for command in ["run", "submit"] {
        let said = sandbox.llts(&format!("graph {command} graph.toml"));
        assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
        assert!(said.err.starts_with("llts: graph.toml: ") && said.err.contains("(-1007)"), "{said:?}");
    }
    sandbox.tool("helloworld", "true");
    sandbox.ok("tool pack tools/helloworld");
    write(&sandbox, "[steps.first]\noperation = 'helloworld'\n[steps.second]\noperation = 'heloworld'\n");
    for command in ["run", "submit"] {
        let said = sandbox.llts(&format!("graph {command} graph.toml"));
        let names = "step second: no agent has the tool heloworld; did you mean helloworld?";
        assert!(said.code == Some(4) && said.err.contains(names) && said.err.contains("(-1006)"), "{said:?}");
    }
    sandbox.llts("graph show GRAPH_1795406876.598401_yCkLT").failed(5, "GRAPH_1795406876.598401_yCkLT");
    let said = sandbox.llts("graph svg GRAPH_1795406876.598401_yCkLT");
    assert!(said.code == Some(5), "{said:?}");
    sandbox.llts("graph svg no-such-file").failed(1, "cannot read no-such-file: ");
}

/// In JSON, each end of a line takes two bytes.
#[test]
fn what_check_accepts_can_be_submitted_and_what_is_too_long_is_told() {
    let sandbox = service();
    let step = "[steps.a]\ncommand = ['true']\n";
    write(&sandbox, &(step.to_owned() + &"\n".repeat(1_000_000)));
    sandbox.ok("graph check graph.toml");
    sandbox.ok("graph run graph.toml");
    let json = r#"{"steps":{"a":{"command":["true"]}}}"#;
    fs::write(sandbox.path("graph.json"), json.to_owned() + &"\n".repeat(15 << 20)).unwrap();
    sandbox.ok("graph check graph.json");
    sandbox.ok("graph run graph.json");
    write(&sandbox, &(step.to_owned() + &" ".repeat(1 << 20)));
    fs::write(sandbox.path("graph.json"), json.to_owned() + &" ".repeat(16 << 20)).unwrap();
    for (file, limit) in [
        ("graph.toml", "(a sixteenth of GRAPH_BYTES_MAX); write it as JSON (-1008)"),
        ("graph.json", "GRAPH_BYTES_MAX) (-1008)"),
    ] {
        for command in ["check", "submit"] {
            let said = sandbox.llts(&format!("graph {command} {file}"));
            assert!(matches!(said.code, Some(1 | 4)) && said.err.contains(limit), "{said:?}");
        }
    }
}

/// The tasks that an early end has dropped are no failures.
#[test]
fn the_wait_for_the_job_of_a_graph_ends_as_the_graph_does() {
    let sandbox = service();
    write(&sandbox, "[steps.a]\ncommand = ['sleep', '1000']\ntasks = 8\n[steps.none]\ncommand = ['true']\ntasks = 0\n");
    let id = sandbox.ok("graph submit graph.toml").line().to_owned();
    let waiting = sandbox.start(&format!("wait --job {id}"));
    sandbox.ok(&format!("step complete {id} a"));
    let said = waiting.said();
    assert!(said.code == Some(0) && said.out.contains("SUCCEEDED"), "{said:?}");
    assert_eq!(sandbox.ok(&format!("graph kill {id}")).out, format!("{id} had ended\n"));
    write(&sandbox, "[steps.none]\ncommand = ['true']\ntasks = 0\n");
    let id = sandbox.ok("graph submit graph.toml").line().to_owned();
    sandbox.ok(&format!("wait --job {id}"));
}

const ENDLESS: &str = "[steps.endless]\ncommand = ['sleep', '1000']\n";

#[test]
fn ctrl_c_ends_the_graph_and_sigterm_does_too() {
    for (number, code, by) in [(Signal::INT, 130, "Ctrl-C in llts graph run"), (Signal::TERM, 143, "SIGTERM")] {
        let sandbox = service();
        write(&sandbox, ENDLESS);
        let run = sandbox.start("graph run graph.toml");
        let runs =
            || sandbox.llts("list --status RUNNING --output wire").json()["tasks"].as_array().map_or(0, Vec::len);
        eventually("its task runs", || runs() == 1);
        run.signal(number);
        let said = run.said();
        assert_eq!(said.code, Some(code), "{said:?}");
        assert!(said.out.contains("status     KILLED\n") && said.out.contains(by), "{said:?}");
        assert!(said.err.contains("press Ctrl-C again"), "{said:?}");
    }
}

#[test]
fn a_run_survives_a_controller_that_is_killed_and_its_user_can_still_end_it() {
    for is_ended in [false, true] {
        let sandbox = service();
        let work = "touch $PLACE/runs; until [ -e $PLACE/go ]; do sleep 0.05; done";
        write(&sandbox, &format!("[steps.a]\ncommand = ['sh', '-c', '{work}']\n"));
        let run = sandbox.start("graph run graph.toml");
        eventually("its task runs", || sandbox.path("runs").exists());
        let controller = sandbox.process(" controller");
        signal(controller, Signal::KILL);
        eventually("the next controller answers", || {
            sandbox.pid(" controller").is_some_and(|pid| pid != controller) && sandbox.llts("agents").code == Some(0)
        });
        if is_ended {
            run.signal(Signal::INT);
        } else {
            fs::write(sandbox.path("go"), "").unwrap();
        }
        let said = run.said();
        assert_eq!(said.code, Some(if is_ended { 130 } else { 0 }), "{said:?}");
    }
}

#[test]
fn a_graph_that_another_user_kills_exits_with_1() {
    let sandbox = service();
    write(&sandbox, ENDLESS);
    let id = sandbox.ok("graph submit graph.toml --submit-key once").line().to_owned();
    let again = sandbox.ok("graph submit graph.toml --submit-key once");
    assert!(again.line() == id && again.err.contains("submitted before with this key"), "{again:?}");
    let run = sandbox.start("graph run graph.toml --submit-key once");
    assert_eq!(sandbox.ok(&format!("graph kill {id}")).out, format!("{id} killed\n"));
    let said = run.said();
    assert!(said.code == Some(1) && said.out.contains("llts graph kill"), "{said:?}");
    let said = sandbox.llts(&format!("wait {id}"));
    assert!(said.code == Some(1) && said.err.is_empty(), "a graph is waited for as a task is: {said:?}");
}

/// A service for the time of the run, as with `llts run`.
#[test]
fn a_graph_runs_without_a_service() {
    let sandbox = Sandbox::new();
    let mut chain = "[steps.s0]\ncommand = ['true']\n".to_owned();
    for step in 1..5 {
        let _ = write!(chain, "[steps.s{step}]\ncommand = ['true']\ninputs = {{ in = ['s{}.out'] }}\n", step - 1);
    }
    write(&sandbox, &chain);
    let said = sandbox.ok("graph run --no-service graph.toml");
    assert!(said.out.contains("steps      done 5\n") && said.err.contains("no service runs here: "), "{said:?}");
    sandbox.is_clean();
}

#[test]
fn explain_of_a_graph_names_what_each_step_waits_for() {
    let sandbox = service();
    write(
        &sandbox,
        "[steps.slow]\ncommand = ['sleep', '100']\n[steps.held]\ncommand = ['true']\npolicy = { __TAGS__ = 'gpu' }\n\
         [steps.last]\ncommand = ['true']\ninputs = { in = ['slow.out', 'held.out'] }\n",
    );
    let id = sandbox.ok("graph submit graph.toml").line().to_owned();
    eventually("the first step runs", || {
        let said = sandbox.ok(&format!("explain {id}"));
        let has = |step: &str, what: &str| said.out.lines().any(|line| line.starts_with(step) && line.contains(what));
        said.out.contains(&format!("{id}  RUNNING"))
            && has("slow ", "its tasks have not finished; TASK_")
            && has("slow ", "runs it")
            && has("held ", "no agent has the tags gpu")
            && has("last ", "its input in is open: step slow has not completed")
    });
    sandbox.ok(&format!("graph kill {id}"));
    sandbox.llts(&format!("wait --job {id}"));
    let said = sandbox.ok(&format!("--output wire explain {id}")).json();
    assert_eq!((&said["__STATUS__"], said["steps"].as_array().map(Vec::len)), (&"KILLED".into(), Some(0)), "{said}");
}
