//! `llts graph check`, `dot` and `svg`: documents of step graphs, without a service.

use std::fs;

use crate::cli::sandbox::{Said, Sandbox, Start as _};

const GRAPH: &str = r#"
name = "words & <more>"
[steps.split]
operation = "split"
outputs = ["parts"]
[steps.count]
operation = "count"
inputs = { in = ["split.parts"] }
tasks = "in"
[steps.load]
command = ["sh", "-c", "echo ready"]
outputs = ["table"]
[steps.both]
inputs = { counts = ["count.out"] }
[steps.merge]
operation = "merge"
inputs = { counts = ["both.out"], first = ["split.parts"] }
sub_inputs = { table = ["load.table"] }
"#;

fn graph(sandbox: &Sandbox, text: &str, command: &str) -> Said {
    fs::write(sandbox.path("graph.toml"), text).expect("written");
    sandbox.llts(&format!("graph {command} graph.toml"))
}

#[test]
fn a_good_graph_is_counted() {
    let sandbox = Sandbox::new();
    let said = graph(&sandbox, GRAPH, "check");
    let line = "words & <more>: 5 steps, 5 connections, 4 tasks, and one for each partition\n";
    assert_eq!((said.code, said.out.as_str()), (Some(0), line), "{}", said.err);
    let value = sandbox.ok("graph check graph.toml --output wire").json();
    assert_eq!(value, serde_json::json!({"name": "words & <more>", "steps": 5, "connections": 5, "tasks": 4}));
}

#[test]
fn a_flaw_is_told_with_its_step_and_its_code() {
    let sandbox = Sandbox::new();
    let circle = GRAPH.replace("[steps.split]", "[steps.split]\ninputs = { again = [\"merge.out\"] }");
    for (text, sentence) in [
        (circle.as_str(), "form a circle, so none of them could start; remove a connection (-1007)"),
        (
            &GRAPH.replace("operation = \"merge\"", "operatoin = \"merge\""),
            "step merge: \"operatoin\" is not a known key",
        ),
        (&GRAPH.replace("both.out", "both.oot"), "step both has no output oot; the nearest is out (-1007)"),
        (&GRAPH.replace("[steps.load]", "[steps.split]"), "the graph is not valid TOML: duplicate key"),
        ("", "has no steps"),
    ] {
        let said = graph(&sandbox, text, "check");
        let err = said.err.trim_end();
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{err}");
        assert!(err.starts_with("llts: graph.toml: ") && err.contains(sentence) && err.ends_with("(-1007)"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    fs::write(sandbox.path("graph.toml"), "GRAPH_STEPS_MAX = 4").unwrap();
    sandbox.llts("graph check missing.toml").failed(1, "cannot read missing.toml: ");
}

/// The limits are those of the configuration of the home.
#[test]
fn a_graph_is_held_to_the_configured_limits() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("graph.toml"), GRAPH).unwrap();
    for (key, sentence) in [
        ("GRAPH_STEPS_MAX=4", "the graph has 5 steps; at most 4 are accepted (GRAPH_STEPS_MAX)"),
        ("GRAPH_CONNECTIONS_MAX=4", "the graph has 5 connections; at most 4 are accepted (GRAPH_CONNECTIONS_MAX)"),
        (
            "GRAPH_TASKS_MAX=3",
            "the graph has 4 tasks; at most 3 are accepted (GRAPH_TASKS_MAX); step merge has 2 of them",
        ),
    ] {
        let (name, value) = key.split_once('=').unwrap();
        let said = sandbox.command("graph check graph.toml").env(format!("LLTS_{name}"), value).said().ended(1);
        assert_eq!(said.err, format!("llts: graph.toml: {sentence} (-1008)\n"));
    }
}

#[test]
fn dot_names_steps_ports_and_kinds_of_inputs() {
    let sandbox = Sandbox::new();
    let text = graph(&sandbox, GRAPH, "dot").out;
    for line in [
        "digraph \"words & <more>\" {",
        "  \"split\" [label=\"split\\n1 task\"];",
        "  \"count\" [label=\"count\\na task per partition of in\"];",
        "  \"both\" [label=\"both\", shape=ellipse];",
        "  \"load\" -> \"merge\" [taillabel=\"table\", headlabel=\"table\", style=dashed];",
        "  \"split\" -> \"count\" [taillabel=\"parts\", headlabel=\"in\"];",
        "}",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn svg_draws_each_step_and_each_connection_once() {
    let sandbox = Sandbox::new();
    let text = graph(&sandbox, GRAPH, "svg").out;
    assert!(text.starts_with("<svg xmlns=") && text.ends_with("</svg>\n"), "{text}");
    assert!(text.contains("<title>words &amp; &lt;more&gt;</title>"), "{text}");
    for step in ["split", "count", "load", "both", "merge"] {
        assert_eq!(text.matches(&format!(">{step}</text>")).count(), 1, "{step} in\n{text}");
    }
    assert_eq!((text.matches("class=\"line\"").count(), text.matches("class=\"line sub\"").count()), (4, 1), "{text}");
    // From left to right, and as wide as the drawing.
    let number = |text: &str, name: &str| -> f64 {
        let rest = text.split(&format!(" {name}=\"")).nth(1).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let lefts: Vec<f64> = text.lines().filter(|line| line.contains("<rect")).map(|line| number(line, "x")).collect();
    let [split, count, load, both, merge] = lefts[..] else { panic!("{lefts:?}") };
    assert!(split == load && split < count && count < both && both < merge, "{lefts:?}");
    assert!(merge < number(&text, "width"), "{text}");
}
