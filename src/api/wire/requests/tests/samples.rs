//! A message of each kind, for tests of what holds for all.

use crate::wire::requests::{OF_AGENTS, OF_CLIENTS};

const TASK: &str = "TASK_1480000000.120000_AZazA";
const GRAPH: &str = "GRAPH_1480000000.120000_AZazA";

/// A readable message of each kind in the lists of requests and of messages of agents, without a command.
pub(in crate::wire) fn all() -> Vec<String> {
    OF_CLIENTS
        .iter()
        .chain(OF_AGENTS)
        .map(|kind| format!(r#"{{"__TYPE__":"{}"{}}}"#, kind.word, fields(kind.word)))
        .collect()
}

fn fields(word: &str) -> String {
    let digest = "0".repeat(64);
    match word {
        "TASK/SUBMIT" => r#","__OPERATION__":"a""#.to_owned(),
        "TASK/SUBMIT_MANY" => r#","__TASKS__":[{"__OPERATION__":"a"}]"#.to_owned(),
        "GRAPH/SUBMIT" => r#","__GRAPH__":"{\"steps\":{\"s\":{\"operation\":\"a\"}}}""#.to_owned(),
        "GATE/SET" | "GATE/QUERY" => r#","__GATE__":"g""#.to_owned(),
        "STEP/PROVIDING" => format!(r#","__TASK_ID__":"{TASK}","__PORT__":"p","__LOCATION__":"x""#),
        "STEP/COMPLETE" => format!(r#","__GRAPH_ID__":"{GRAPH}","__STEP__":"s""#),
        "TOOL/SHOW" | "TOOL/LOG" | "TOOL/REMOVE" => r#","__OPERATION__":"a","__BY__":"me""#.to_owned(),
        "TOOL/PUT" => format!(
            r#","__OPERATION__":"a","__TOOL_DIGEST__":"{digest}","__TOTAL__":1,"__OFFSET__":0,"__DATA__":"YQ==","__BY__":"me""#
        ),
        "FILE/PUT" | "FILE/GET" | "TOOL/GET" => format!(
            r#","__AGENT_ID__":"a","__TASK_ID__":"{TASK}","__TOOL_DIGEST__":"{digest}","__TOTAL__":1,"__OFFSET__":0,"__DATA__":"YQ==""#
        ),
        word if word.starts_with("JOB/") => r#","__JOB__":"j""#.to_owned(),
        word if word.starts_with("GRAPH/") => format!(r#","__GRAPH_ID__":"{GRAPH}""#),
        word if word.starts_with("AGENT/") => r#","__AGENT_ID__":"a""#.to_owned(),
        "TASK/INTERNAL/APPLY" => r#","__AGENT_ID__":"a""#.to_owned(),
        "TASK/INTERNAL/REPORT" => format!(r#","__AGENT_ID__":"a","__TASK_ID__":"{TASK}","__STATUS__":"RUNNING""#),
        word if word.starts_with("TASK/") => format!(r#","__TASK_ID__":"{TASK}""#),
        _ => String::new(),
    }
}
