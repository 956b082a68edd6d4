//! Tasks of steps at a real agent, which a controller of this test hands out, tells to finish, and hears about.

mod controller;
use crate::cli::sandbox;

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use controller::{Controller, GRAPH, GRAPH_OUT};
use sandbox::{eventually, names, signal};

fn text<'a>(report: &'a Value, name: &str) -> &'a str {
    report[name].as_str().unwrap_or_else(|| panic!("no {name}: {report}"))
}

/// The folder of the outputs of a task.
fn out_of(task: &str) -> String {
    format!("{GRAPH_OUT}/{}", task.trim_start_matches("TASK_"))
}

fn provided(report: &Value) -> Value {
    serde_json::from_str(text(report, "__PROVIDED__")).expect("JSON in a text")
}

#[test]
fn a_task_of_a_step_finds_its_inputs_and_hands_on_what_it_leaves() {
    let mut controller = Controller::with_tool(
        "step",
        r#"cat ../inputs/in; echo "$INPUT_in|$__STEP__|$__ROLE__|$__PARTITION__|$__GRAPH_ID__"; ls -A .. | tr '\n' ' '
ls -A ../provide ../out/; [ "$(cd ../out && pwd -P)" = "$__OUT__" ] && [ "$(cd .. && pwd -P)" = "$__TASK_DIR__" ] || exit 9
echo early > ../out/early; "$LLTS" step providing out out/early || exit 8
echo late > ../out/late; printf 'out/late\n/x y\n\n' > ../provide/out; : > ../provide/other"#,
    );
    let task = controller.assign(1, 0, &json!({"in": ["/a b", ""]}));
    let announced = controller.message("STEP/PROVIDING");
    let report = controller.finished(&task);
    let out = controller.sandbox.path(&out_of(&task)).canonicalize().expect("it is kept");
    let path = |name: &str| out.join(name).to_str().expect("UTF-8").to_owned();
    let fields = ["__TASK_ID__", "__ROUND__", "__PORT__", "__LOCATION__"].map(|name| announced[name].clone());
    assert_eq!(fields, [json!(task), json!(0), json!("out"), json!(path("early"))], "{report}");
    assert_eq!(report["__EXIT_CODE__"], 0, "{report}");
    assert_eq!(provided(&report), json!({"out": [path("late"), "/x y", ""], "other": []}));
    assert_eq!(fs::read_to_string(path("late")).expect("kept"), "late\n");
    let stdout = text(&report, "__STDOUT__");
    let place = format!("/a b\n|step-1|MAIN|7|{GRAPH}\n");
    assert!(stdout.starts_with(&format!("/a b\n\n{place}")), "{stdout}");
    let folder = "controller.info inputs out provide stderr stdout step task.info task.json ";
    assert!(stdout.contains(folder) && stdout.ends_with("../out/:\n\n../provide:\n"), "{stdout}");
}

#[test]
fn the_next_task_of_the_tool_finds_nothing_of_the_step() {
    let script = r#"ls -A ..; [ -z "$__STEP__" ] || echo x > ../provide/out"#;
    let mut controller = Controller::with_tool("step", script);
    for number in 1..4 {
        let step = controller.assign(number * 2, 0, &json!({}));
        assert_eq!(provided(&controller.finished(&step)), json!({"out": ["x"]}));
        let plain = controller.assign_plain(number * 2 + 1);
        let report = controller.finished(&plain);
        assert_eq!(text(&report, "__STDOUT__"), "controller.info\nstderr\nstdout\nstep\ntask.info\ntask.json\n");
        assert!(report.get("__PROVIDED__").is_none(), "{report}");
    }
    let left = names(&controller.sandbox.path(GRAPH_OUT));
    assert_eq!(left, [""; 0], "empty folders are not kept");
}

/// A step may find that it has nothing to hand on, or hand its folder on for others to fill.
#[test]
fn an_empty_folder_that_is_handed_on_stays() {
    let mut controller = Controller::with_tool("step", r#"[ -z "$__STEP__" ] || echo out/. > ../provide/out"#);
    let task = controller.assign(1, 0, &json!({}));
    let location = provided(&controller.finished(&task))["out"][0].as_str().expect("one").to_owned();
    // Its folder is done with when the next task has run.
    let plain = controller.assign_plain(2);
    controller.finished(&plain);
    assert_eq!(names(std::path::Path::new(&location)), [""; 0]);
    assert!(std::path::Path::new(&location).is_dir(), "{location}");
}

#[test]
fn ten_thousand_long_inputs_arrive() {
    let script = r#"wc -l < ../inputs/in; echo "${INPUT_in-none}"; tail -n 1 ../inputs/in | cut -c 1-8
cp ../inputs/in ../provide/out; truncate -s 4000000 ../provide/out"#;
    let mut controller = Controller::with_tool("step", script);
    let inputs: Vec<String> = (0..10_000).map(|n| format!("{n:08}{}", "x".repeat(1000))).collect();
    let task = controller.assign(1, 0, &json!({"in": inputs}));
    let report = controller.finished(&task);
    assert_eq!(text(&report, "__STDOUT__"), "10000\nnone\n00009999\n");
    assert_eq!(provided(&report)["out"].as_array().map(Vec::len), Some(4_000_000 / 1009 + 1));
}

#[test]
fn a_run_that_is_told_to_finish_provides_what_it_has() {
    let script = r#"trap '[ -e ../finish ] || exit 9; echo out/part > ../provide/out; exit 3' TERM
echo part > ../out/part; touch "$PLACE/runs"; while :; do sleep 0.01; done"#;
    // Published, and with the next heartbeat if the publication is lost.
    for is_published in [true, false] {
        let mut controller = Controller::with_tool("step", script);
        let task = controller.assign(1, 0, &json!({}));
        controller.until("it runs", |place, _| place.path("runs").exists().then_some(()));
        controller.finish(&task, is_published);
        let report = controller.finished(&task);
        assert_eq!((&report["__EXIT_CODE__"], &report["__TOLD_TO_FINISH__"]), (&json!(3), &json!(true)), "{report}");
        assert_eq!(provided(&report)["out"].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn a_run_that_does_not_obey_is_ended_after_the_grace_time() {
    let script = r#"trap '' TERM; touch "$PLACE/runs"; while :; do sleep 0.01; done"#;
    let mut controller = Controller::with_tool("step", script);
    controller.grace = 300;
    let task = controller.assign(1, 0, &json!({}));
    controller.until("it runs", |place, _| place.path("runs").exists().then_some(()));
    controller.finish(&task, true);
    let report = controller.finished(&task);
    assert_eq!((&report["__EXIT_CODE__"], &report["__TOLD_TO_FINISH__"]), (&json!(-9), &json!(true)), "{report}");
}

#[test]
fn what_cannot_be_provided_fails_the_run_with_a_sentence() {
    let script = r#"case $__ROUND__ in
0) ln -s /etc/passwd ../provide/out;;
1) mkfifo ../provide/out;;
2) truncate -s 1G ../provide/out;;
3) printf 'a\0b\n' > ../provide/out;;
4) printf '\377\n' > ../provide/out;;
5) echo x > ../provide/elsewhere;;
6) echo x > ../provide/out; exit 1;;
esac"#;
    let mut controller = Controller::with_tool("step", script);
    for (round, reason) in [
        "../provide/out is not a regular file with one name",
        "../provide/out is not a regular file with one name",
        "../provide/out has 1073741824 bytes; a task may provide at most 4194304",
        "../provide/out: line 1 contains a newline or a NUL",
        "../provide/out: line 1 is not UTF-8",
        "../provide has a file \"elsewhere\", which is not the name of an output of step step-1; they are: out, other",
    ]
    .into_iter()
    .enumerate()
    {
        let task = controller.assign(1, u32::try_from(round).expect("small"), &json!({}));
        let report = controller.finished(&task);
        assert_eq!(report["__EXIT_CODE__"], -133, "{report}");
        assert!(text(&report, "__REASON__").starts_with(reason), "{report}");
        assert!(report.get("__PROVIDED__").is_none(), "{report}");
    }
    let task = controller.assign(1, 6, &json!({}));
    let report = controller.finished(&task);
    assert!(report["__EXIT_CODE__"] == 1 && report.get("__PROVIDED__").is_none(), "{report}");
}

/// Nothing of the first round counts, neither a line nor a file.
#[test]
fn the_round_after_the_death_of_an_agent_begins_with_empty_folders() {
    let script = r#"ls -A ../out/ ../provide; echo $__ROUND__ > ../out/$__ROUND__; echo out/$__ROUND__ > ../provide/out
[ $__ROUND__ = 1 ] || { touch "$PLACE/runs"; sleep 1000; }"#;
    let mut controller = Controller::with_tool("step", script);
    let task = controller.assign(1, 0, &json!({}));
    controller.until("it runs", |place, _| place.path("runs").exists().then_some(()));
    signal(controller.agent_pid(), Signal::KILL);
    controller.start_agent();
    controller.assign(1, 1, &json!({}));
    let report = controller.finished(&task);
    assert_eq!(text(&report, "__STDOUT__"), "../out/:\n\n../provide:\n");
    let out = controller.sandbox.path(&out_of(&task));
    assert_eq!(names(&out), ["1"]);
    let path = out.canonicalize().expect("it is kept").join("1");
    assert_eq!(provided(&report), json!({"out": [path.to_str().expect("UTF-8")]}));
    eventually("the earlier content is gone", || names(&controller.sandbox.path("work/.trash")).is_empty());
}
