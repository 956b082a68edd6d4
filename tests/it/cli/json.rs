//! The documented form of `--output json`: what the commands print fits `docs/reference/output.schema.json`.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use regex_lite::Regex;
use serde_json::{Value, json};

use crate::cli::sandbox::{Said, Sandbox, Start as _, eventually};

/// A schema, as far as ours uses the language of schemas.
struct Schema {
    root: Value,
}

impl Schema {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/output.schema.json");
        Self { root: serde_json::from_str(&fs::read_to_string(path).expect("the schema")).expect("JSON") }
    }

    /// Why a value does not fit.
    fn refusal(&self, value: &Value) -> Option<String> {
        self.check(&self.root, value, "").err()
    }

    /// Asserts that a value is one of this definition.
    #[track_caller]
    fn assert_is(&self, definition: &str, value: &Value) {
        let schema = self.root.pointer(&format!("/$defs/{definition}")).expect("a definition");
        assert_eq!(self.check(schema, value, definition), Ok(()));
    }

    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let no = |why: String| Err(format!("{at}: {why}: {value}"));
        for (word, rule) in schema.as_object().expect("a schema is an object") {
            match word.as_str() {
                "$schema" | "title" | "description" | "$defs" => {}
                "$ref" => {
                    let path = rule.as_str().expect("a path").trim_start_matches('#');
                    self.check(self.root.pointer(path).expect("a definition"), value, at)?;
                }
                "anyOf" => {
                    let mut any = rule.as_array().expect("schemas").iter();
                    if !any.any(|one| self.check(one, value, at).is_ok()) {
                        return no("none of them".to_owned());
                    }
                }
                "const" if value == rule => {}
                "enum" if rule.as_array().is_some_and(|all| all.contains(value)) => {}
                "type" if types(rule).any(|wanted| is_of(value, wanted)) => {}
                "pattern" if value.as_str().is_none_or(|text| fits(rule, text)) => {}
                "required" => {
                    let missing = rule
                        .as_array()
                        .expect("names")
                        .iter()
                        .find(|name| name.as_str().is_none_or(|name| value.get(name).is_none()));
                    if let Some(missing) = missing {
                        return no(format!("without {missing}"));
                    }
                }
                "propertyNames" => {
                    for name in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                        self.check(rule, &json!(name), at)?;
                    }
                }
                "properties" | "patternProperties" => {
                    for (name, member) in value.as_object().into_iter().flatten() {
                        let is_exact = word == "properties";
                        let rules = rule.as_object().expect("schemas").iter();
                        for (_, rule) in
                            rules.filter(|(key, _)| if is_exact { *key == name } else { fits(&json!(key), name) })
                        {
                            self.check(rule, member, &format!("{at}/{name}"))?;
                        }
                    }
                }
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}/{number}"))?;
                    }
                }
                "const" | "enum" | "type" | "pattern" => return no(format!("{word} is {rule}")),
                other => panic!("{other} is not known here"),
            }
        }
        Ok(())
    }
}

fn types(rule: &Value) -> impl Iterator<Item = &str> {
    let several = rule.as_array().into_iter().flatten();
    several.chain(Some(rule).filter(|rule| rule.is_string())).filter_map(Value::as_str)
}

fn is_of(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    }
}

fn fits(pattern: &Value, text: &str) -> bool {
    Regex::new(pattern.as_str().expect("a pattern")).expect("a pattern").is_match(text)
}

/// The values of all lines, each of which fits.
#[track_caller]
fn values(schema: &Schema, said: &Said) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let values: Vec<Value> = said.out.lines().map(read).collect();
    for value in &values {
        assert_eq!(schema.refusal(value), None, "{said:?}");
    }
    assert!(!values.is_empty(), "{said:?}");
    values
}

#[test]
fn the_schema_refuses_other_forms() {
    let schema = Schema::read();
    assert_eq!(schema.refusal(&json!({ "llts": 1, "tasks": [{ "submit_time": "2016-11-24T15:06:40.25Z" }] })), None);
    for wrong in [
        json!({}),
        json!({ "llts": 2 }),
        json!([]),
        json!({ "llts": 1, "__TASK_ID__": "T" }),
        json!({ "llts": 1, "tasks": [{ "submit_time": 1_480_000_000.25 }] }),
        json!({ "llts": 1, "tasks": [{ "state": "running" }] }),
        json!({ "llts": 1, "tasks": [{ "BadName": 1 }] }),
        json!({ "llts": 1, "tasks": { "waiting": "many" } }),
        json!({ "llts": 1, "jobs": [{ "job": "j" }] }),
        json!({ "llts": 1, "agents": [{ "agent_id": "a", "agent_status": "ASLEEP" }] }),
        json!({ "llts": 1, "gates": [{ "gate": "api", "state": 7, "running": 0, "waiting": 0 }] }),
        json!({ "llts": 1, "groups": [{ "tool": "x", "count": 1, "run_p50": "1 s" }] }),
        json!({ "llts": 1, "incidents": [{ "incident": "STARTED", "time": 1_480_000_000.25, "reason": "" }] }),
        json!({ "llts": 1, "tools": [{ "tool": "x", "since": 1_480_000_000.25 }] }),
        json!({ "llts": 1, "waiting": [{ "why": "held" }] }),
        json!({ "llts": 1, "problems": [{ "what": "no agent is connected" }] }),
        json!({ "llts": 1, "files": "518 run.sh" }),
        json!({ "llts": 1, "files": [{ "name": "a" }] }),
        json!({ "llts": 1, "steps": [{ "step": "a", "state": "DONE" }] }),
        json!({ "llts": 1, "steps": [{ "step": "a", "state": "RUNNING", "times": { "running": 1_480_000_000.25 } }] }),
        json!({ "llts": 1, "results": [{ "name": "a" }] }),
        json!({ "llts": 1, "keys": [{ "key": "AGENT_TAGS" }] }),
        json!({ "llts": 1, "config": 7 }),
        json!({ "llts": 1, "summary": { "job": "j", "succeeded": "2", "succeeded_before": 0, "failed": 0, "skipped": 0, "not_run": 0 } }),
    ] {
        assert!(schema.refusal(&wrong).is_some(), "{wrong}");
    }
}

#[test]
fn every_command_prints_the_documented_form() {
    let (schema, sandbox) = (Schema::read(), Sandbox::new());
    sandbox.tool("fails", "echo report >> report.log; echo no >&2; exit 3");
    sandbox.ok("up 2");
    sandbox.llts("run fails --job j --max-fails 1 --retry-delay 0 --given-id g in=/x");
    sandbox.ok("gate set api --max-running 1");
    let id = sandbox.ok("submit --gate api --job k -- sleep 600").line().to_owned();
    for (line, name) in [
        ("list", "tasks"),
        ("list --since 1h", "rounds"),
        ("query last:2", "tasks"),
        ("query --given-id g", "tasks"),
        ("show --given-id g", "why"),
        ("show last:2", "results"),
        ("show last nope", "results"),
        ("explain --given-id g", "tasks"),
        ("jobs", "jobs"),
        ("job j", "failures"),
        ("stats", "tasks"),
        ("status", "failed"),
        ("agents", "agents"),
        ("info", "health"),
        ("open --print", "address"),
        ("gate", "gates"),
        ("history", "groups"),
        ("incidents", "incidents"),
        ("history --group day,hour,tool,outcome,job,agent,host", "groups"),
        ("tool list", "tools"),
        ("tool log fails", "changes"),
        ("graph list", "graphs"),
        ("config", "keys"),
        ("pause --gate api", "waiting"),
        ("pause --agent agent-1", "agents"),
        ("resume --agent agent-1", "agents"),
        ("resume --service", "paused"),
        ("wait --job j", "job"),
        ("submit -- true", "task_id"),
    ] {
        let said = sandbox.llts(&format!("--output json {line}"));
        let values = values(&schema, &said);
        let is_there = values[0].get(name).is_some() || line.contains("--agent");
        assert!(is_there && values.len() == 1, "{line}: {values:?}");
    }
    let said = sandbox.llts("run --output json -- sh -c 'exit 7'");
    assert_eq!(values(&schema, &said)[0]["task"]["command"][0], "sh");
    let said = sandbox.ok(&format!("kill {id} --output json"));
    assert_eq!(values(&schema, &said)[0]["tasks"][0]["task_id"], id);
    let waited = values(&schema, &sandbox.llts(&format!("wait {id} --output json")));
    assert_eq!(waited[0]["task"]["outcome"], "KILLED");
}

#[test]
fn single_objects_and_rows_have_a_definition() {
    let (schema, sandbox) = (Schema::read(), Sandbox::new());
    sandbox.tool("packed", "echo 1 > out.txt");
    sandbox.ok("up 1");
    fs::write(
        sandbox.path("g.toml"),
        "name = 'g'\n[steps.a]\ncommand = ['true']\noutputs = ['o']\n[steps.b]\ncommand = ['sleep', '600']\ninputs = { i = ['a.o'] }\n",
    )
    .unwrap();
    sandbox.ok("run --job files --out out.txt packed");
    let graph = sandbox.ok(&format!("graph submit {}", sandbox.path("g.toml").display())).line().to_owned();
    eventually("a step runs", || sandbox.ok(&format!("graph show {graph}")).out.contains("RUNNING"));
    let keys = sandbox.path("new.key").display().to_string();
    for (line, rows, definition) in [
        ("info", "", "info"),
        ("config", "/keys", "setting"),
        (&format!("keys new {keys}"), "/keys", "key_pair"),
        ("get --job files", "/files", "file"),
        ("tool show packed", "", "tool"),
        ("tool show packed", "/files", "tool_file"),
        ("tool samples", "/tools", "sample"),
        ("gate set api --max-running 1 --max-starts 3 --interval 10", "", "gate"),
        ("gate close api --for 10m", "", "gate"),
        (&format!("graph show {graph}"), "", "graph"),
        (&format!("graph show {graph}"), "/steps", "step"),
        (&format!("explain {graph}"), "/tasks", "graph"),
        (&format!("explain {graph}"), "/tasks/0/steps", "step"),
        ("pause last", "/results", "change"),
        (&format!("graph kill {graph}"), "/results", "graph_change"),
    ] {
        let value = &values(&schema, &sandbox.llts(&format!("--output json {line}")))[0];
        match value.pointer(rows).expect(line) {
            Value::Array(rows) if !rows.is_empty() => rows.iter().for_each(|row| schema.assert_is(definition, row)),
            Value::Object(_) if rows.is_empty() => schema.assert_is(definition, value),
            other => panic!("{line}: {other}"),
        }
    }
}

#[test]
fn units_of_systemd_are_told_in_the_documented_form() {
    let (schema, sandbox) = (Schema::read(), Sandbox::new());
    let folder = sandbox.path("systemd/user");
    fs::create_dir_all(&folder).unwrap();
    let unit = folder.join("llts.service");
    fs::write(&unit, "").unwrap();
    let units = |line: &str| {
        let mut command = sandbox.command(line);
        let said = command.env("XDG_CONFIG_HOME", sandbox.path("")).said();
        values(&schema, &said).remove(0)
    };
    let found = units("service status --user --output json");
    assert_eq!(found["units"][0]["unit"], unit.display().to_string(), "{found}");
    if !Path::new("/run/systemd/system").exists() {
        let removed = units("service remove --user --output json");
        assert_eq!(removed, json!({ "llts": 1, "removed": [unit.display().to_string()] }));
    }
}

#[test]
fn streams_are_json_lines() {
    let (schema, sandbox) = (Schema::read(), Sandbox::new());
    sandbox.ok("up 1");
    let mut map = sandbox.command("map -k --job m --output json -- echo");
    let mut map = map.stdin(Stdio::piped()).start();
    map.stdin.take().unwrap().write_all(b"a\nb\n").unwrap();
    let lines = values(&schema, &map.said());
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((&lines[0]["values"], &lines[1]["task"]["stdout"]), (&json!("a"), &json!("b\n")));
    assert_eq!(lines[2]["summary"]["succeeded"], 2);
    let planned = |line: &str| values(&schema, &sandbox.ok(&format!("map --dry-run --output json {line}")));
    let commands = planned("-- cp {} to/{} ::: a b");
    assert_eq!((&commands[1]["number"], &commands[1]["values"]), (&json!(2), &json!("b")));
    assert_eq!(commands[1]["task"]["command"], json!(["cp", "b", "to/b"]));
    let tools = planned("--tool convert in={} WAITING=1 ::: a.mov");
    assert_eq!(tools[0]["task"], json!({ "tool": "convert", "parameters": { "in": "a.mov", "WAITING": "1" } }));
    let logs = values(&schema, &sandbox.ok("logs --job m --output json"));
    let texts: Vec<_> = logs.iter().map(|line| (&line["stream"], &line["text"])).collect();
    assert_eq!(texts, [(&json!("stdout"), &json!("a\n")), (&json!("stdout"), &json!("b\n"))]);
}

#[test]
fn errors_of_usage_are_json_too() {
    let (schema, sandbox) = (Schema::read(), Sandbox::new());
    for (line, code) in [
        ("--output json list --status foo", 2),
        ("no-such-command --output=json", 2),
        ("logs --output json", 2),
        ("list --output json", 3),
        ("context rm x --output json", 1),
        ("map --output json --no-such-option", 255),
    ] {
        let said = sandbox.llts(line);
        let value = &values(&schema, &said)[0];
        assert_eq!((said.code, &value["exit_code"]), (Some(code), &json!(code)), "{line}: {said:?}");
        assert!(value["error"].as_str().is_some_and(|error| !error.contains('\n')), "{said:?}");
    }
}

#[test]
fn events_tell_changes_of_the_chosen_tasks() {
    let (schema, sandbox) = (Schema::read(), Sandbox::new());
    sandbox.ok("up 1");
    let mut command = sandbox.command("events --job seen --state running,succeeded --output json");
    let file = fs::File::create(sandbox.path("events")).unwrap();
    let mut child = command.stdout(file).stderr(Stdio::null()).start();
    // A broadcast before the connection of its reader is lost: so tasks follow until one is told.
    let mut told = String::new();
    eventually("an end is told", || {
        sandbox.ok("run --job other -- true");
        sandbox.ok("run --job seen -- true");
        told = fs::read_to_string(sandbox.path("events")).unwrap();
        told.contains("SUCCEEDED")
    });
    child.kill();
    // Its end may be half a line.
    for line in told.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(schema.refusal(&value), None);
        assert_eq!(value["task"]["job"], "seen", "{line}");
    }
}

#[test]
fn a_task_tells_its_progress() {
    let sandbox = Sandbox::new();
    let script = "echo \"0.4 tile 12 of 30\" > ../progress; while [ ! -e ../more ]; do sleep 0.05; done; \
                  \"$PARAM_llts\" progress 0.5 and more; while [ ! -e ../end ]; do sleep 0.05; done";
    sandbox.tool("slow", script);
    sandbox.ok("up 1");
    let id = sandbox.ok(&format!("submit slow llts={}", env!("CARGO_BIN_EXE_llts"))).line().to_owned();
    let shown = |wanted: f64| {
        let task = sandbox.ok(&format!("query {id} --output wire")).json();
        (task["__PROGRESS__"] == json!(wanted)).then(|| task["__PROGRESS_TEXT__"].clone())
    };
    eventually("the progress is shown", || shown(0.4).is_some_and(|text| text == "tile 12 of 30"));
    let folders: Vec<_> = crate::cli::sandbox::names(&sandbox.path("work"))
        .into_iter()
        .filter(|name| name.starts_with("TASK_"))
        .collect();
    let folder = sandbox.path("work").join(folders.first().expect("the folder of the task"));
    fs::write(folder.join("more"), "").unwrap();
    eventually("the next progress is shown", || shown(0.5).is_some_and(|text| text == "and more"));
    fs::write(folder.join("end"), "").unwrap();
    sandbox.ok(&format!("wait {id}"));
    assert_eq!(sandbox.ok(&format!("query {id} --output wire")).json().get("__PROGRESS__"), None);
    sandbox.llts("progress 0.5").failed(2, "belongs to no task");
    assert!(sandbox.llts("progress 40%").err.contains("write 0.4 for 40 %"));
}
