//! Documents that are read, and the sentence for each flaw.

use super::*;
use crate::wire::rules::Rules;
use crate::wire::{Code, Refusal, source};
use base::{
    AllowedSources, Fields, GraphEntry, GraphEvent, GraphId, Scalar, StepIndex, StepTask, TaskEnd, TaskRole, Wall, json,
};

const LIMITS: FieldLimits =
    FieldLimits { message_bytes: 4096, fields: 8, name_bytes: 16, value_bytes: 32, command_bytes: 64 };

fn rules() -> GraphRules {
    let graph = GraphLimits { bytes_max: 4096, steps_max: 4, connections_max: 6, tasks_max: 10 };
    GraphRules { graph, fields: LIMITS, defaults: DefaultPolicies::default() }
}

fn parse(text: &str) -> Result<Document, Refusal> {
    Document::parse(text, &rules())
}

/// A document of one step `s` with these keys.
fn step(keys: &str) -> Result<Document, Refusal> {
    parse(&format!("{{\"steps\":{{\"s\":{{{keys}}}}}}}"))
}

#[track_caller]
fn refused(found: Result<Document, Refusal>, code: i32, sentence: &str) {
    let refusal = found.expect_err(sentence);
    assert_eq!((refusal.code.number(), refusal.message.as_str()), (code, sentence));
}

const JSON: &str = r#"{"name": "wordcount", "policy": {"__PRIORITY__": 3, "__MAX_FAILS__": 2, "__CWD__": "/"}, "steps": {
    "split": {"operation": "split", "parameters": {"file": "a.txt"}, "outputs": ["parts"]},
    "count": {"operation": "count", "inputs": {"in": ["split.parts"]}, "tasks": "in"},
    "load": {"command": ["sh", "-c", "echo ready"], "outputs": ["table"], "tasks": 0, "propagate": false},
    "merge": {"operation": "merge", "inputs": {"counts": ["count.out"]}, "sub_inputs": {"table": ["load.table"]},
              "prepare": {"table": 2}, "policy": {"__MAX_FAILS__": 1}}}}"#;

const TOML: &str = r#"
    name = "wordcount"
    policy = { __PRIORITY__ = 3, __MAX_FAILS__ = 2, __CWD__ = "/" }
    [steps.split]
    operation = "split"
    parameters = { file = "a.txt" }
    outputs = ["parts"]
    [steps.count]
    operation = "count"
    inputs = { in = ["split.parts"] }
    tasks = "in"
    [steps.load]
    command = ["sh", "-c", "echo ready"]
    outputs = ["table"]
    tasks = 0
    propagate = false
    [steps.merge]
    operation = "merge"
    inputs.counts = ["count.out"]
    sub_inputs.table = ["load.table"]
    prepare.table = 2
    policy.__MAX_FAILS__ = 1
"#;

#[test]
fn json_and_toml_are_the_same_document() {
    let document = parse(JSON).unwrap();
    assert_eq!(document, parse(TOML).unwrap());
    assert_eq!((document.connections(), document.tasks()), (3, 4));
    let [split, count, load, merge] = document.steps.as_slice() else { panic!("{document:?}") };
    assert_eq!(split.outputs[0].as_str(), "parts");
    assert_eq!((count.outputs[0].as_str(), count.is_per_partition()), ("out", true));
    assert_eq!((&load.tasks, load.propagates), (&TaskCount::Number(0), false));
    assert_eq!((merge.sub_inputs[0].tasks, merge.inputs[0].sources[0].to_string()), (2, "count.out".into()));
    let fields = |step: &StepDocument| match &step.work {
        Work::Tasks(fields) => fields.clone(),
        Work::Exchange => panic!("{} has no work", step.name),
    };
    // The common folder concerns commands only, and the policy of a step overrides the common one.
    let (split, load, merge) = (fields(split), fields(load), fields(merge));
    assert_eq!((split.text("__CWD__"), load.text("__CWD__")), (None, Some("/")));
    let max_fails = |fields: &base::Fields| fields.get("__MAX_FAILS__").and_then(Scalar::as_u64);
    assert_eq!((max_fails(&split), max_fails(&merge)), (Some(2), Some(1)));
    assert_eq!((split.text("file"), load.text("__COMMAND__")), (Some("a.txt"), Some(r#"["sh","-c","echo ready"]"#)));
}

#[test]
fn a_step_without_work_is_an_exchange() {
    let document = step(r#""inputs": {"in": ["a.out"]}"#).unwrap();
    assert_eq!((&document.steps[0].work, document.tasks()), (&Work::Exchange, 0));
    for key in [
        r#""tasks": 1"#,
        r#""prepare": {}"#,
        r#""parameters": {}"#,
        r#""policy": {}"#,
        r#""sub_inputs": {"x": ["a.out"]}"#,
        r#""sub_inputs": {}"#,
    ] {
        let name = key.split('"').nth(1).unwrap();
        let sentence = format!(
            "step s: {name} has no meaning without operation or command: such a step has no tasks, it hands its inputs on"
        );
        refused(step(key), -1007, &sentence);
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    for (keys, sentence) in [
        (r#""operatoin": "t""#, "step s: \"operatoin\" is not a known key; the nearest is operation"),
        (r#""operation": "t", "input": {}"#, "step s: \"input\" is not a known key; the nearest is inputs"),
        (
            r#""operation": "t", "policy": {"__MAX_FAIL__": 1}"#,
            "step s: policy: \"__MAX_FAIL__\" is not a field of a submit; the nearest is __MAX_FAILS__",
        ),
        (
            r#""operation": "t", "sub_inputs": {"table": ["a.out"]}, "prepare": {"tabel": 1}"#,
            "step s: prepare: \"tabel\" is not a sub input; the nearest is table",
        ),
        (
            r#""operation": "t", "inputs": {"in": ["a.out"]}, "tasks": "inn""#,
            "step s: tasks is \"inn\", which is not a main input; the nearest is in",
        ),
    ] {
        refused(step(keys), -1007, sentence);
    }
    refused(parse("{\"step\": {}}"), -1007, "the graph: \"step\" is not a known key; the nearest is steps");
}

/// The folder of a tool has its name, beside the files that tasks of steps have.
#[test]
fn a_tool_is_not_called_like_the_files_of_a_task() {
    for name in ["inputs", "provide", "out", "finish"] {
        let sentence = format!(
            "step s: the tool {name} would run in ../{name}, which a task of a step needs for itself; rename the tool"
        );
        refused(step(&format!("\"operation\": \"{name}\"")), -1006, &sentence);
    }
    assert!(step(r#""operation": "finish2""#).is_ok());
}

#[test]
fn the_source_of_a_program_belongs_to_one_step_and_to_no_command() {
    let fetched = r#""operation": "t", "policy": {"__SOURCE__": "rsync:h:run.sh", "__INPUT__": "a b"}"#;
    let Work::Tasks(fields) = step(fetched).unwrap().steps.remove(0).work else { panic!("it has tasks") };
    assert_eq!(json::members(&fields), r#""__OPERATION__":"t","__SOURCE__":"rsync:h:run.sh","__INPUT__":"a b""#);
    for (keys, sentence) in [
        (
            r#""operation": "t", "policy": {"__SOURCE__": "x"}"#,
            "step s: __SOURCE__: the source \"x\" is unknown: it must begin with http://, https:// or rsync:",
        ),
        (
            r#""operation": "t", "policy": {"__INPUT__": "x"}"#,
            "step s: __INPUT__ belongs to a program that is fetched: send it with __SOURCE__",
        ),
        (
            r#""operation": "t", "policy": {"__SOURCE__": "rsync:h:run.sh", "__SOURCE_SHA256__": "x"}"#,
            "step s: __SOURCE_SHA256__ is \"x\"; it must be a SHA-256 of 64 hexadecimal digits",
        ),
        (
            r#""command": ["x"], "policy": {"__SOURCE__": "rsync:h:run.sh"}"#,
            "step s: __SOURCE__ belongs to __OPERATION__, the name of the program: send it, and no command",
        ),
    ] {
        refused(step(keys), -1007, sentence);
    }
    for name in source::WORDS {
        let sentence =
            format!("the graph: policy: {name} concerns the program of one step: put it into the policy of that step");
        refused(parse(&format!(r#"{{"policy": {{"{name}": 1}}, "steps": {{"s": {{}}}}}}"#)), -1007, &sentence);
    }
}

/// Terms with these allowed sources, which are those of no other controller.
fn allowing(text: &str) -> Rules {
    Rules { sources: AllowedSources::parse(text).unwrap(), ..Rules::of_history() }
}

#[test]
fn a_restored_graph_has_the_sources_that_it_was_accepted_with() {
    const TEXT: &str = r#"{"steps": {"a": {"operation": "p", "policy": {"__SOURCE__": "rsync:h.org:run.sh"}}, "b": {"operation": "p"}}}"#;
    let id = GraphId::new(Wall::from_micros(1_795_239_916_000_000), [7; 5]);
    let graph = AcceptedGraph::read(TEXT, Fields::new(), &allowing("rsync h.org")).unwrap();
    let tools = graph.steps.iter().flatten().map(|step| (step.tool.as_str(), step.shown.as_str()));
    assert_eq!(tools.collect::<Vec<_>>(), [(":source", "p"), ("p", "p")]);
    let members = &graph.steps[0].as_ref().unwrap().members;
    assert!(members.contains(r#""__ALLOWED_SOURCES__":"rsync h.org""#), "{members}");
    let row = graph.encode(id, Wall::from_micros(1));
    for later in [" ", "https *"] {
        assert_eq!(decode(&row, &[], &allowing(later)).unwrap().graph, graph, "{later:?}");
    }
    let without = AcceptedGraph::read(r#"{"steps": {"b": {"operation": "p"}}}"#, Fields::new(), &allowing("http *"));
    let row = without.as_ref().unwrap().encode(id, Wall::from_micros(1));
    assert!(!row.terms.contains("SOURCES"), "as before there were any: {}", row.terms);
    assert_eq!(decode(&row, &[], &allowing(" ")).unwrap().graph, without.unwrap());
}

/// The admission of a sender asks both.
#[test]
fn a_graph_says_whether_it_has_text_for_a_shell_or_an_unchecked_source() {
    const CHECKED: &str = r#""__SOURCE__": "http://h.org/run.sh""#;
    for (step, has_command, has_unchecked_source) in [
        (r#""operation": "p""#.to_owned(), false, false),
        (r#""command": ["x"]"#.to_owned(), true, false),
        (format!(r#""operation": "p", "policy": {{{CHECKED}}}"#), false, false),
        (format!(r#""operation": "p", "policy": {{{CHECKED}, "__INPUT__": ""}}"#), true, false),
        (format!(r#""operation": "p", "policy": {{{CHECKED}, "__INPUT_HEX__": "41"}}"#), true, false),
        (format!(r#""operation": "p", "policy": {{{CHECKED}, "__SOURCE_UNCHECKED__": true}}"#), false, true),
    ] {
        let text = format!(r#"{{"steps": {{"first": {{}}, "s": {{{step}}}}}}}"#);
        let graph = AcceptedGraph::read(&text, Fields::new(), &allowing("http h.org")).unwrap();
        assert_eq!((graph.has_command(), graph.has_unchecked_source()), (has_command, has_unchecked_source), "{step}");
    }
}

#[test]
fn a_flaw_of_a_step_names_the_step() {
    for (keys, sentence) in [
        (r#""operation": "t", "command": ["x"]"#, "step s: operation and command exclude one another; use one of them"),
        (
            r#""command": []"#,
            "step s: command is empty; it must be a list of texts: the program, which is not empty, then its arguments",
        ),
        (r#""command": ["a\u0000b"]"#, "step s: command: an element contains a NUL character, which no argument can"),
        (
            r#""operation": "t", "inputs": {"in": ["a.out", "a.out"]}"#,
            "step s: inputs: in takes a.out twice; once is enough",
        ),
        (
            r#""operation": "t", "inputs": {"in": []}"#,
            "step s: inputs: in is empty; it must be a list of at least one output, each as \"step.port\"",
        ),
        (
            r#""operation": "t", "inputs": {"in": "a.out"}"#,
            "step s: inputs: in is \"a.out\"; it must be a list of at least one output, each as \"step.port\"",
        ),
        (
            r#""operation": "t", "inputs": {"in": ["a"]}"#,
            "step s: inputs: in takes \"a\"; write the name of a step, a dot, and the name of its output",
        ),
        (
            r#""operation": "t", "inputs": {"in": ["a.out"]}, "sub_inputs": {"in": ["b.out"]}"#,
            "step s: the port in is an input and a sub input; rename one",
        ),
        (r#""operation": "t", "outputs": ["a", "a"]"#, "step s: outputs: a stands twice; once is enough"),
        (
            r#""operation": "t", "outputs": ["a-b"]"#,
            "step s: outputs: \"a-b\" is not a name: use 1 to 64 characters of A-Z a-z 0-9 _, and not __ first",
        ),
        (
            r#""operation": "t", "tasks": -1"#,
            "step s: tasks is \"-1\"; it must be a whole number from 0 to 4294967295, or a main input",
        ),
        (
            r#""operation": "t", "parameters": {"__A__": 1}"#,
            "step s: parameters: \"__A__\" has the form of a field of the service; rename it, or put it into policy",
        ),
        (
            r#""operation": "t", "parameters": {"a": [1]}"#,
            "step s: parameters: \"a\" is a list; it must be a text, a number or true or false",
        ),
        (
            r#""operation": "t", "policy": {"__JOB__": "j"}"#,
            "step s: policy: __JOB__ is not allowed here: the graph says what its tasks are and when they start",
        ),
        (
            r#""operation": "t", "policy": {"__MAX_FAILS__": "two"}"#,
            "step s: __MAX_FAILS__ is \"two\"; it must be a whole number from 0 to 1000000",
        ),
        (
            r#""operation": "t", "policy": {"__CWD__": "/"}"#,
            "step s: __CWD__ belongs to a command: send it with __COMMAND__ or __SHELL__",
        ),
        (
            r#""command": "x""#,
            "step s: command is \"x\"; it must be a list of texts: the program, which is not empty, then its arguments",
        ),
        (r#""operation": "t", "propagate": 1"#, "step s: propagate is \"1\"; it must be true or false"),
    ] {
        refused(step(keys), -1007, sentence);
    }
    let bad_tool = step(r#""operation": "../x""#).unwrap_err();
    assert_eq!(bad_tool.code.number(), -1006);
    assert!(bad_tool.message.starts_with("step s: operation \"../x\" is not a tool name"), "{bad_tool}");
}

#[test]
fn limits_are_named_with_their_keys() {
    let steps = |count: usize| (0..count).map(|at| format!("\"s{at}\":{{}}")).collect::<Vec<_>>().join(",");
    let many = format!("{{\"steps\":{{{}}}}}", steps(5));
    refused(parse(&many), -1008, "the graph has 5 steps; at most 4 are accepted (GRAPH_STEPS_MAX)");
    let tasks = "the graph has 11 tasks; at most 10 are accepted (GRAPH_TASKS_MAX); step s has 11 of them";
    refused(step(r#""operation": "t", "tasks": 11"#), -1008, tasks);
    let sources: Vec<String> = (0..7).map(|at| format!("\"a.o{at}\"")).collect();
    let connections = "the graph has 7 connections; at most 6 are accepted (GRAPH_CONNECTIONS_MAX)";
    refused(step(&format!("\"inputs\": {{\"in\": [{}]}}", sources.join(","))), -1008, connections);
    let bytes = "the graph has 4097 bytes; at most 4096 are accepted (GRAPH_BYTES_MAX)";
    refused(parse(&" ".repeat(4097)), -1008, bytes);
    let long = format!(r#""operation": "t", "parameters": {{"a": "{}"}}"#, "x".repeat(33));
    refused(step(&long), -1007, "step s: field \"a\" has 33 bytes; at most 32 are accepted (FIELD_VALUE_BYTES_MAX)");
    let fields: Vec<String> = (0..8).map(|at| format!("\"f{at}\":1")).collect();
    let sentence = "step s: its tasks have 9 fields; at most 8 are accepted (FIELDS_MAX)";
    refused(step(&format!(r#""operation": "t", "parameters": {{{}}}"#, fields.join(","))), -1008, sentence);
}

#[test]
fn a_document_has_steps_with_names() {
    let empty = "the graph: has no steps; give it a table `steps` with at least one";
    for text in ["{}", "", "{\"steps\": {}}", "name = 'x'"] {
        refused(parse(text), -1007, empty);
    }
    let name = "the graph: steps: \"a b\" is not a name: use 1 to 64 characters of A-Z a-z 0-9 _ -, and not __ first";
    refused(parse("{\"steps\": {\"a b\": {}}}"), -1007, name);
    refused(parse("{\"steps\": {\"a\": 1}}"), -1007, "step a: is \"1\"; it must be a table of keys");
    refused(parse("{\"steps\": []}"), -1007, "the graph: steps is a list; it must be a table");
}

#[test]
fn an_entry_reads_back_and_can_be_read_by_people() {
    let document = parse(JSON).unwrap();
    let codec = EntryCodec::of(&document);
    let main = |step, number| StepTask { step: StepIndex(step), role: TaskRole::Main, number };
    let prepare = StepTask { step: StepIndex(3), role: TaskRole::Prepare(1), number: 1 };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).into()).collect::<Vec<std::sync::Arc<str>>>();
    let announced = GraphEvent::Announced { slot: main(0, 0), round: 2, output: 0, location: "out/a \"b\"".into() };
    let end = |failure: Option<&str>, provided| TaskEnd { failure: failure.map(Into::into), round: 1, provided };
    for (event, dropped, text) in [
        (
            announced,
            vec![],
            r#"{"at":7,"event":{"announced":{"task":{"step":"split","partition":0},"round":2,"output":"parts","location":"out/a \"b\""}}}"#,
        ),
        (
            GraphEvent::Ended(main(1, 5), end(None, vec![(0, texts(&["x", ""]))])),
            vec![],
            r#"{"at":7,"event":{"ended":{"task":{"step":"count","partition":5},"round":1,"provided":{"out":["x",""]}}}}"#,
        ),
        (
            GraphEvent::Ended(prepare, end(Some("it failed"), vec![])),
            vec![main(3, 0)],
            r#"{"at":7,"event":{"ended":{"task":{"step":"merge","prepares":"table","partition":1},"round":1,"failure":"it failed"}},"dropped":[{"step":"merge","partition":0}]}"#,
        ),
        (
            GraphEvent::Complete(StepIndex(2)),
            vec![prepare],
            r#"{"at":7,"event":{"complete":{"step":"load"}},"dropped":[{"step":"merge","prepares":"table","partition":1}]}"#,
        ),
        (GraphEvent::Kill("enough".into()), vec![], r#"{"at":7,"event":{"kill":{"reason":"enough"}}}"#),
    ] {
        let entry = GraphEntry { at: base::Wall::from_micros(7), event, dropped };
        assert_eq!(EntryCodec::encode(&document, &entry).as_deref(), Some(text));
        assert_eq!(codec.decode(text), Some(entry));
    }
}

#[test]
fn an_entry_of_another_graph_is_none_of_this_one() {
    let document = parse(JSON).unwrap();
    let codec = EntryCodec::of(&document);
    let good = r#"{"at":7,"event":{"announced":{"task":{"step":"split","partition":0},"round":2,"output":"parts","location":"x"}}}"#;
    assert!(codec.decode(good).is_some());
    for (from, to) in
        [("split", "other"), ("parts", "other"), ("\"round\":2,", ""), ("\"at\":7", "\"at\":7,\"more\":1"), ("{", "")]
    {
        assert_eq!(codec.decode(&good.replacen(from, to, 1)), None, "{from}");
    }
    let no_step = StepTask { step: StepIndex(4), role: TaskRole::Main, number: 0 };
    let end = TaskEnd { failure: None, round: 0, provided: Vec::new() };
    let entry = GraphEntry { at: base::Wall::from_micros(7), event: GraphEvent::Ended(no_step, end), dropped: vec![] };
    assert_eq!(EntryCodec::encode(&document, &entry), None);
}

/// The tree of the reader of TOML takes far more memory than its text, whatever limit its values have.
#[test]
fn a_long_document_must_be_json() {
    let rules = GraphRules { graph: GraphLimits { bytes_max: 1 << 20, ..rules().graph }, ..rules() };
    let parse = |text: &str| Document::parse(text, &rules);
    let max = rules.graph.toml_bytes_max();
    let step = "[steps.a]\noperation = \"t\"\n";
    let long = |bytes: usize| format!("{step}{}", "#".repeat(bytes - step.len()));
    assert!(parse(&long(max)).is_ok());
    let refusal = parse(&long(max + 1)).unwrap_err();
    assert_eq!(refusal.code, Code::LimitReached);
    assert!(refusal.message.contains("write it as JSON"), "{refusal}");
    assert!(parse(&format!("{}{}", r#"{"steps": {"a": {"operation": "t"}}}"#, " ".repeat(max))).is_ok());
}
