//! The files and the environment variables for a tool (docs/sources/controller.md, 3.2).

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use super::requests::apply::{self, Dispatch};
use super::requests::submit::TASK_SUBMIT;
use super::{locations, step_files};
use base::code::shown;
use base::json::ObjectWriter;
use base::os_text::letters;
use base::{Defer, Labels, Round, SECONDS_MAX, Scalar, TaskId, os_bytes, words};

/// The endpoint of the controller, in `controller.info` and in the environment of a tool. A client that the tool starts uses it.
pub const CONTROLLER_ADDRESS: &str = "CONTROLLER_ADDRESS";

/// The variable with the path of the file in which a run reports its progress.
pub const PROGRESS_FILE: &str = "LLTS_PROGRESS_FILE";

/// Whether a run finds a field only in `task.json`, because it may be too long for an environment.
fn is_in_json_only(name: &str) -> bool {
    const LONG: [&str; 8] = [
        words::COMMAND,
        words::SHELL,
        words::STDIN,
        words::STREAMS,
        words::ENV,
        words::AFTER,
        words::INPUT,
        words::INPUT_HEX,
    ];
    LONG.contains(&name)
}

/// `task.info`: one `key=value` line per submitted field, then the id and the round of the task.
///
/// Control characters and line separators are escaped as `\n`, `\r`, `\t` and `\uXXXX`, and `=` in a key as `\u003d`, so
/// that no value can forge a line (docs/design/hazards.md, F2). All other characters are unchanged, and texts in the form of
/// [`base::os_text()`] are their bytes; `task.json` is exact.
#[must_use]
pub fn task_info(dispatch: &Dispatch) -> OsString {
    let mut text = String::new();
    for (name, value) in task_fields(dispatch).iter().filter(|(name, _)| !is_in_json_only(name)) {
        escape(name, |c| c == '=', &mut text);
        text.push('=');
        escape(&text_of(value), |_| false, &mut text);
        text.push('\n');
    }
    // Any other NUL is escaped.
    os_bytes(&text).unwrap_or_else(|| text.into())
}

/// Capacity for a `task.json`: enough for that of a short command.
const JSON_BYTES: usize = 512;

/// `task.json`: the same fields as one JSON object.
#[must_use]
pub fn task_json(dispatch: &Dispatch) -> Vec<u8> {
    let mut text = Vec::with_capacity(JSON_BYTES);
    let mut writer = ObjectWriter::new(&mut text);
    for (name, value) in &task_fields(dispatch) {
        writer.scalar(name, value);
    }
    if let Some(step) = &dispatch.step {
        writer.literal(words::INPUTS, locations::to_text(&step.inputs));
    }
    writer.end();
    text.push(b'\n');
    text
}

/// `controller.info`: the endpoint of the controller, and the address at which the task runs.
#[must_use]
pub fn controller_info(controller: &str, agent: IpAddr) -> String {
    format!("{CONTROLLER_ADDRESS}={controller}\nAGENT_IP={agent}\n")
}

/// A name and a value.
pub type Variable<'a> = (Cow<'a, str>, Cow<'a, OsStr>);

/// The variables that do not depend on the task. A tool that stays gets no others.
pub fn environment_of_every_task<'a>(controller: &'a str, agent: IpAddr) -> [Variable<'a>; 2] {
    [
        (CONTROLLER_ADDRESS.into(), OsStr::new(controller).into()),
        ("AGENT_IP".into(), OsString::from(agent.to_string()).into()),
    ]
}

/// The variables that a tool gets besides those of the agent: the fields of the service under their own names, the
/// parameters as `PARAM_<name>`, and the content of `controller.info`.
///
/// The prefix keeps a parameter from being used as `PATH` or `LD_PRELOAD`. An environment cannot contain a name that is not an
/// identifier, or a value with a NUL byte. These are only in `task.json`, as are long fields of the service. Values in the form
/// of [`base::os_text()`] are their bytes.
#[must_use]
pub fn environment<'a>(dispatch: &'a Dispatch, controller: &'a str, agent: IpAddr) -> Vec<Variable<'a>> {
    let mut variables = Vec::from(environment_of_every_task(controller, agent));
    for (name, value) in task_fields(dispatch) {
        let identifier = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let value = match value {
            Cow::Borrowed(value) => text_of(value),
            Cow::Owned(value) => Cow::Owned(value.to_string()),
        };
        if !identifier || is_in_json_only(&name) {
            continue;
        }
        let value = match value {
            Cow::Borrowed(text) if !text.contains('\0') => OsStr::new(text).into(),
            text => match os_bytes(&text) {
                Some(bytes) => bytes.into(),
                None => continue,
            },
        };
        let service = name.starts_with("__") && name.ends_with("__");
        variables.push((if service { name } else { format!("PARAM_{name}").into() }, value));
    }
    let of_step = dispatch.step.iter().flat_map(|step| step_files::variables(step));
    variables.extend(of_step.map(|(name, value)| (name.into(), OsString::from(value).into())));
    variables
}

/// The variable with the number of the socket of a tool that stays.
pub const STAY_FD: &str = "LLTS_STAY_FD";

/// The variable that marks the processes of all tools that stay at one agent.
pub const STAY: &str = "LLTS_STAY";

/// The variables that mark every process of a run, each as `NAME=value`.
#[must_use]
pub fn cookie(task: TaskId, round: Round) -> [String; 2] {
    [format!("{}={task}", words::TASK_ID), format!("{}={round}", words::ROUND)]
}

/// The maximum of bytes in a `defer.info`: short lines, and space for comments.
pub const DEFER_BYTES_MAX: usize = 4096;

/// `defer.info`: the requests of a run.sh that exits with 75, in lines `retry_after=SECONDS`, `gate=NAME` and `until_released`.
/// Also returns messages about lines that cannot be parsed.
#[must_use]
pub fn defer(text: &str) -> (Defer, Vec<String>) {
    let mut defer = Defer::default();
    let mut gates = Vec::new();
    let mut bad = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let known = match line.split_once('=').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("retry_after", seconds)) => {
                let seconds = seconds.parse().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
                seconds.map(|seconds| defer.retry_after = Some(Duration::from_secs_f64(seconds))).is_some()
            }
            None if line == "until_released" => {
                defer.until_released = true;
                true
            }
            Some(("gate", names)) => Labels::parse(names).map(|names| gates.extend(names.iter().cloned())).is_ok(),
            _ => false,
        };
        if !known {
            bad.push(format!("{} is none of retry_after=SECONDS, gate=NAME and until_released", shown(line)));
        }
    }
    match Labels::new(gates) {
        Ok(gates) => defer.gates = gates,
        Err(error) => bad.push(error.to_string()),
    }
    (defer, bad)
}

/// The fields that a run sees, in order, each name once. They are borrowed, because each task writes them three times.
fn task_fields(dispatch: &Dispatch) -> Vec<(Cow<'_, str>, Cow<'_, Scalar>)> {
    let of_step = dispatch.step.as_ref().map(|step| apply::step_fields(step)).unwrap_or_default();
    let own: [(&str, Scalar); 2] =
        [(words::TASK_ID, dispatch.task.to_string().into()), (words::ROUND, Scalar::from(dispatch.round.0))];
    let is_replaced = |name: &str| {
        name == words::TYPE || of_step.get(name).is_some() || own.iter().any(|(replacing, _)| *replacing == name)
    };
    let submitted = dispatch.fields.iter().filter(|(name, _)| !is_replaced(name));
    let mut fields = Vec::with_capacity(1 + dispatch.fields.len() + of_step.len() + own.len());
    fields.push((Cow::Borrowed(words::TYPE), Cow::Owned(Scalar::from(TASK_SUBMIT.word))));
    fields.extend(submitted.map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value))));
    fields.extend(of_step.iter().map(|(name, value)| (Cow::Owned(name.to_owned()), Cow::Owned(value.clone()))));
    fields.extend(own.into_iter().map(|(name, value)| (Cow::Borrowed(name), Cow::Owned(value))));
    fields
}

/// A value as it stands in a line.
fn text_of(value: &Scalar) -> Cow<'_, str> {
    match value {
        Scalar::Text(text) => Cow::Borrowed(text),
        Scalar::Null | Scalar::Bool(_) | Scalar::Number(_) => Cow::Owned(value.to_string()),
    }
}

fn escape(text: &str, also: impl Fn(char) -> bool, out: &mut String) {
    let has_bytes = text.contains('\0') && os_bytes(text).is_some();
    for letter in letters(text) {
        if has_bytes && letter.starts_with('\0') {
            out.push_str(letter);
            continue;
        }
        for c in letter.chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{2028}' | '\u{2029}' => push_escape(c, out),
                c if c.is_control() || also(c) => push_escape(c, out),
                c => out.push(c),
            }
        }
    }
}

fn push_escape(c: char, out: &mut String) {
    // Writing into a String cannot fail.
    let _ = write!(out, "\\u{:04x}", u32::from(c));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use super::*;
    use base::{Fields, PortName, StepContext, StepName, StepRole, ToolName};

    fn dispatch(fields: Fields) -> Dispatch {
        Dispatch {
            pin: None,
            files: None,
            task: "TASK_1480000000.120000_AZazA".parse().unwrap(),
            round: Round(0),
            tool: ToolName::new("test").unwrap(),
            command: None,
            source: None,
            fields,
            batch_delay: Duration::ZERO,
            lease: None,
            step: None,
        }
    }

    /// The example of the original (docs/sources/controller.md, 3.2).
    #[test]
    fn task_info_is_what_was_submitted_and_the_id() {
        let dispatch = dispatch(Fields::new().with("__OPERATION__", "test").with("param1", "value1").with("n", 2u32));
        let expected = "__TYPE__=TASK/SUBMIT\n__OPERATION__=test\nparam1=value1\nn=2\n\
                        __TASK_ID__=TASK_1480000000.120000_AZazA\n__ROUND__=0\n";
        assert_eq!(task_info(&dispatch), expected);
    }

    #[test]
    fn a_defer_says_how_long_and_which_gates() {
        let (defer, bad) = defer("retry_after = 1.5\n\ngate=api, model\nretry_after=soon\nx\n");
        assert_eq!(defer.retry_after, Some(Duration::from_millis(1500)));
        assert_eq!(defer.gates.to_string(), "api,model");
        assert_eq!(bad.len(), 2, "{bad:?}");
    }

    #[test]
    fn a_task_of_a_step_finds_its_place_and_its_inputs() {
        let port = |name| PortName::new(name).unwrap();
        let step = StepContext {
            graph: "GRAPH_1480000000.120000_AZazA".parse().unwrap(),
            step: StepName::new("s").unwrap(),
            role: StepRole::Main,
            partition: 3,
            inputs: [(port("in"), ["a b".into(), "".into()].into())].into(),
            outputs: [].into(),
            grace: Duration::ZERO,
        };
        let dispatch = Dispatch { step: Some(Arc::new(step)), ..dispatch(Fields::new().with("n", 2u32)) };
        let place = "\"__GRAPH_ID__\":\"GRAPH_1480000000.120000_AZazA\",\"__STEP__\":\"s\",\"__ROLE__\":\"MAIN\",\
                     \"__PARTITION__\":3";
        let expected = format!(
            "{{\"__TYPE__\":\"TASK/SUBMIT\",\"n\":2,{place},\"__TASK_ID__\":\"TASK_1480000000.120000_AZazA\",\"__ROUND__\":0,\
             \"__INPUTS__\":{{\"in\":[\"a b\",\"\"]}}}}\n"
        );
        assert_eq!(String::from_utf8(task_json(&dispatch)).unwrap(), expected);
        let info = task_info(&dispatch).into_string().unwrap();
        assert!(info.contains("\n__STEP__=s\n__ROLE__=MAIN\n__PARTITION__=3\n") && !info.contains("INPUT"), "{info}");
        let variables = environment(&dispatch, "", IpAddr::from([127, 0, 0, 1]));
        let has = |name: &str, value: &str| variables.contains(&(name.into(), OsStr::new(value).into()));
        assert!(has("__PARTITION__", "3") && has("INPUT_in", "a b\n") && has("__STEP__", "s"), "{variables:?}");
    }

    /// docs/design/hazards.md, F2.
    #[test]
    fn no_value_forges_a_line() {
        let hostile = "x\n__OPERATION__=evil\r\u{2028}\u{85}\0\u{1b}[2J";
        let dispatch = dispatch(Fields::new().with("a", hostile).with("k=v\nb", "1"));
        let text = task_info(&dispatch).into_string().unwrap();
        assert_eq!(text.lines().count(), 5);
        assert!(text.contains("a=x\\n__OPERATION__=evil\\r\\u2028\\u0085\\u0000\\u001b[2J\n"), "{text}");
        assert!(text.contains("k\\u003dv\\nb=1\n"), "{text}");
    }

    #[test]
    fn a_parameter_cannot_become_path() {
        let dispatch =
            dispatch(Fields::new().with("PATH", "/evil").with("a-b", "1").with("nul", "\0").with("__GIVEN_ID__", "g"));
        let names: Vec<_> =
            environment(&dispatch, "tcp://127.0.0.1:1", IpAddr::from([127, 0, 0, 1])).into_iter().collect();
        let value = |name: &str| names.iter().find(|(n, _)| n == name).map(|(_, v)| &**v);
        assert_eq!((value("PATH"), value("PARAM_PATH")), (None, Some(OsStr::new("/evil"))));
        assert_eq!(
            (value("__GIVEN_ID__"), value("PARAM_nul"), value("PARAM_a-b")),
            (Some(OsStr::new("g")), None, None)
        );
    }

    #[test]
    fn a_value_that_is_not_utf8_is_its_bytes() {
        let dispatch = dispatch(Fields::new().with("file", "a\0ff\0fe\nb").with("nul", "\0c3\0a9"));
        let info = task_info(&dispatch);
        let bytes = info.as_encoded_bytes().escape_ascii().to_string();
        assert!(bytes.contains(r"\nfile=a\xff\xfe\\nb\nnul=\\u0000c3\\u0000a9\n"), "{bytes}");
        let variables = environment(&dispatch, "", IpAddr::from([127, 0, 0, 1]));
        let value = |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| &**value);
        assert_eq!(value("PARAM_file").unwrap().as_encoded_bytes(), b"a\xff\xfe\nb");
        assert_eq!(value("PARAM_nul"), None);
    }
}
