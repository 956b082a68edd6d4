//! The JSON of `--output json`: one versioned form for all commands. All of it is made here, from the objects of the
//! wire and of the commands. `docs/reference/output.schema.json` describes it.
//!
//! | on the wire | here |
//! |---|---|
//! | `__SUBMIT_TIME__` | `submit_time`: the word in lower case, unless [`FIELDS`] has another name |
//! | unix seconds | a text in the form of RFC 3339, in UTC |
//! | a number of seconds | the same |
//! | JSON in a text | its value |
//! | a parameter | a member of `parameters` |
//! | a text of lines: a log, or the files of a tool | an array of objects |
//! | `0:__EXIT_CODE__` | `exit_code` of a member of `rounds` |

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::times;
use api::wire::client::is_time;
use api::wire::graph::state;
use base::{StepState, Wall, words};

/// The version of the form. Within a version, names may be added, but none is removed or changes its meaning.
pub(crate) const VERSION: u32 = 1;

/// The meaning of a value that does not follow from its JSON type.
#[derive(Clone, Copy)]
enum Unit {
    /// No special meaning: the value is the same in both forms.
    Same,
    /// JSON in a text.
    Json,
    /// `TRUE` in a text.
    Truth,
    /// Lines that begin with unix seconds.
    Log,
    /// Lines with a size and a path each.
    Files,
    /// An object of unix seconds.
    Times,
    /// A sentence with unix seconds in it.
    Sentence,
}

/// The fields of the wire whose name or unit does not follow from their word.
const FIELDS: [(&str, &str, Unit); 16] = [
    (words::OPERATION, "tool", Unit::Same),
    (words::STATUS, "state", Unit::Same),
    (words::FATHER_ID, "parent_id", Unit::Same),
    (words::COMMAND, "command", Unit::Json),
    (words::ENV, "environment", Unit::Json),
    (words::CWD, "folder", Unit::Same),
    (words::IN, "in_files", Unit::Json),
    (words::OUT, "out_patterns", Unit::Json),
    (words::OUT_FILES, "out_files", Unit::Json),
    (words::VALUE, "value", Unit::Json),
    (words::KILLED, "killed", Unit::Truth),
    (words::LOG, "log", Unit::Log),
    (words::FILES, "files", Unit::Files),
    (words::TIMES, "times", Unit::Times),
    (words::WHY, "why", Unit::Sentence),
    (words::REASON, "reason", Unit::Sentence),
];

/// Members made by commands, not by the wire, that are unix seconds.
const MOMENTS: [&str; 3] = ["paused_until", "started", "since_time"];

/// Pairs of such members. They are unix seconds only if an object has both: one of them alone may be a count.
const PERIODS: [[&str; 2]; 3] = [["start", "end"], ["created", "until"], ["started", "ended"]];

/// Commands whose answer is a list: the command, the name of the list, and whether a single object counts as a list of one.
const LISTS: [(&str, &str, bool); 14] = [
    ("query", "tasks", true),
    ("explain", "tasks", true),
    ("kill", "tasks", false),
    ("retry", "tasks", false),
    ("hold", "tasks", false),
    ("release", "tasks", false),
    ("forget", "tasks", false),
    ("pause", "results", false),
    ("resume", "results", false),
    ("drain", "agents", false),
    ("get", "files", false),
    ("keys", "keys", false),
    ("tool", "tools", false),
    ("service", "units", false),
];

/// The result of a command in this form.
pub(crate) fn value(verb: &str, value: &Value) -> Value {
    let list = LISTS.iter().find(|(name, ..)| *name == verb);
    let name = list.map_or("results", |(_, name, _)| *name);
    let value = converted(value);
    let members = match value {
        Value::Object(members) if verb == "run" && members.contains_key("task_id") => {
            Map::from_iter([("task".to_owned(), Value::Object(members))])
        }
        Value::Object(members) if list.is_some_and(|(.., has_single)| *has_single) => {
            Map::from_iter([(name.to_owned(), json!([members]))])
        }
        // The user has chosen the names in it.
        Value::Object(members) if verb == "context" => {
            Map::from_iter([("contexts".to_owned(), Value::Object(members))])
        }
        Value::Object(members) => members,
        other => Map::from_iter([(name.to_owned(), other)]),
    };
    let mut all = Map::from_iter([("llts".to_owned(), json!(VERSION))]);
    all.extend(members);
    Value::Object(all)
}

fn converted(value: &Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.iter().map(converted).collect()),
        Value::Object(members) => Value::Object(object(members)),
        other => other.clone(),
    }
}

fn object(members: &Map<String, Value>) -> Map<String, Value> {
    // An answer about a task has fields and parameters side by side.
    let is_task = members.contains_key(words::TASK_ID) && members.contains_key(words::SUBMIT_TIME);
    let has_both = |period: &&[&str; 2]| period.iter().all(|name| members.contains_key(*name));
    let periods: Vec<&str> = PERIODS.iter().filter(has_both).flatten().copied().collect();
    let mut all = Map::new();
    let mut parameters = Map::new();
    let mut rounds: BTreeMap<u32, Map<String, Value>> = BTreeMap::new();
    for (word, value) in members {
        match words::split_round(word).filter(|_| words::is_of_a_round(word)) {
            Some((round, word)) => {
                let (name, value) = member(word, value);
                rounds.entry(round).or_default().insert(name, value);
            }
            None if is_task && !is_word(word) => {
                parameters.insert(word.clone(), value.clone());
            }
            None => {
                let (name, other) = member(word, value);
                all.insert(name, if periods.contains(&word.as_str()) { moment(value) } else { other });
            }
        }
    }
    if is_task {
        all.insert("parameters".to_owned(), Value::Object(parameters));
    }
    if !rounds.is_empty() {
        let of_round = |(number, mut members): (u32, Map<String, Value>)| {
            members.insert("round".to_owned(), json!(number));
            Value::Object(members)
        };
        all.insert("rounds".to_owned(), rounds.into_iter().map(of_round).collect());
    }
    all
}

/// Whether a name is a word of the wire.
fn is_word(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

/// The new name and value of a member.
fn member(word: &str, value: &Value) -> (String, Value) {
    let field = FIELDS.iter().find(|(known, ..)| *known == word);
    let name = match field {
        Some((_, name, _)) => (*name).to_owned(),
        // The id of a task has the same name in every command.
        None if word == "task" && value.is_string() => "task_id".to_owned(),
        None => snake(word),
    };
    let unit = field.map_or(Unit::Same, |(.., unit)| *unit);
    let value = match (unit, value) {
        (_, value) if is_time(word) || MOMENTS.contains(&word) => moment(value),
        (Unit::Json, Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        (Unit::Truth, Value::String(text)) => Value::Bool(text == "TRUE"),
        (Unit::Sentence, Value::String(text)) => Value::String(times::utc(text)),
        (Unit::Log, Value::String(text)) => text.lines().map(log_line).collect(),
        (Unit::Files, Value::String(text)) => text.lines().map(file).collect(),
        // The user has chosen the names in it.
        (_, Value::Object(_)) if word == "parameters" => value.clone(),
        (Unit::Times, Value::Object(times)) => times.iter().map(|(word, time)| (snake(word), moment(time))).collect(),
        (_, value) => converted(value),
    };
    (name, value)
}

fn log_line(line: &str) -> Value {
    let (time, text) = line.split_once(' ').unwrap_or_default();
    let time = time.parse().ok().and_then(Wall::from_unix_seconds).map(times::rfc3339);
    let text = if time.is_some() { text } else { line };
    json!({ "time": time, "text": times::utc(text) })
}

fn file(line: &str) -> Value {
    let (bytes, path) = line.split_once(' ').unwrap_or_default();
    json!({ "bytes": bytes.parse::<u64>().ok(), "path": path })
}

fn moment(value: &Value) -> Value {
    match value.as_f64().and_then(Wall::from_unix_seconds) {
        Some(wall) => Value::String(times::rfc3339(wall)),
        None => value.clone(),
    }
}

/// The name in lower case if it is a word of the wire, or a phase, outcome or state that names a count. Names that a
/// user has chosen stay unchanged.
fn snake(word: &str) -> String {
    let is_state = StepState::ALL.into_iter().any(|one| state(one) == word);
    let is_count = words::phase_of(word).is_some() || words::outcome_of(word).is_some() || is_state;
    if is_word(word) || is_count { word.trim_matches('_').to_lowercase() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(verb: &str, wire: &Value) -> String {
        serde_json::to_string_pretty(&value(verb, wire)).unwrap()
    }

    #[test]
    fn a_task_has_names_times_parameters_and_rounds() {
        let wire = json!({
            "__TASK_ID__": "T", "__STATUS__": "FINISHED", "__OPERATION__": "convert", "__SUBMIT_TIME__": 1_480_000_000.25,
            "in": "/data/a.mov", "__CPU_SECONDS__": 0.5, "__KILLED__": "TRUE", "__COMMAND__": "[\"a\",\"b\"]",
            "__VALUE__": "{\"score\": [1, null]}", "__WARM__": true, "0:__EXIT_CODE__": 7, "0:__END_TIME__": 1_480_000_001.0,
            "__REASON__": "it did not start before 1480000000.000000",
        });
        insta::assert_snapshot!(shown("query", &wire), @r#"
        {
          "llts": 1,
          "tasks": [
            {
              "task_id": "T",
              "state": "FINISHED",
              "tool": "convert",
              "submit_time": "2016-11-24T15:06:40.25Z",
              "cpu_seconds": 0.5,
              "killed": true,
              "command": [
                "a",
                "b"
              ],
              "value": {
                "score": [
                  1,
                  null
                ]
              },
              "warm": true,
              "reason": "it did not start before 2016-11-24T15:06:40Z",
              "parameters": {
                "in": "/data/a.mov"
              },
              "rounds": [
                {
                  "exit_code": 7,
                  "end_time": "2016-11-24T15:06:41Z",
                  "round": 0
                }
              ]
            }
          ]
        }
        "#);
        assert_eq!(value("run", &wire)["task"]["task_id"], "T");
    }

    #[test]
    fn every_answer_has_the_version() {
        assert_eq!(
            value("kill", &json!([{ "task": "T", "error": null }])),
            json!({"llts": 1, "tasks": [{"task_id": "T", "error": null}]})
        );
        assert_eq!(value("list", &json!({ "total": 0, "tasks": [] })), json!({"llts": 1, "total": 0, "tasks": []}));
        assert_eq!(
            value("", &json!({ "error": "no", "exit_code": 5 })),
            json!({"llts": 1, "error": "no", "exit_code": 5})
        );
        assert_eq!(value("stats", &json!({ "tasks": { "WAITING": 2 } })), json!({"llts": 1, "tasks": {"waiting": 2}}));
        let results = value("prompt", &json!([{ "name": "a.txt", "start": 1_480_000_000.25, "end": null }]));
        assert_eq!(results["results"][0], json!({ "name": "a.txt", "start": "2016-11-24T15:06:40.25Z", "end": null }));
        let spool = value("spool", &json!({ "created": 1_480_000_000, "until": 1_480_000_001, "ended": 2 }));
        assert_eq!(
            spool,
            json!({ "llts": 1, "created": "2016-11-24T15:06:40Z", "until": "2016-11-24T15:06:41Z", "ended": 2 })
        );
        assert_eq!(value("tool", &json!({ "__SINCE__": 1_480_000_000.5 }))["since"], "2016-11-24T15:06:40.5Z");
        assert_eq!(value("jobs", &json!([{ "ENDED": 2 }]))["results"][0], json!({ "ended": 2 }));
        let tool = value("tool", &json!({ "__FILES__": "518 run.sh\n7 a b" }));
        assert_eq!(tool["files"], json!([{ "bytes": 518, "path": "run.sh" }, { "bytes": 7, "path": "a b" }]));
        let step = value("graph", &json!({ "__TIMES__": { "COMPLETED": 1_480_000_000.5 } }));
        assert_eq!(step["times"], json!({ "completed": "2016-11-24T15:06:40.5Z" }));
        let log = json!({ "__TASK_ID__": "T", "__LOG__": "1480000000.120000 WAITING: submitted" });
        let expected = json!([{ "time": "2016-11-24T15:06:40.12Z", "text": "WAITING: submitted" }]);
        assert_eq!(value("explain", &log)["tasks"][0]["log"], expected);
    }
}
