//! The lines between an agent and a tool that stays (docs/stay.md): one JSON object each.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use base::{ExitCode, Round, TaskId};

/// The version of the lines.
pub(super) const VERSION: u64 = 1;

/// The longest line of a tool, in bytes. A report is a part of one.
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;

/// Bytes of a line that an error message shows.
const SHOWN_BYTES_MAX: usize = 100;

/// A line of a tool.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Ready,
    Done(Done),
}

/// The answer to a task.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) id: String,
    pub(super) round: Round,
    pub(super) exit_code: ExitCode,
    pub(super) report: String,
    /// JSON; `None` also for `null`.
    pub(super) value: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    version: Option<u64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    round: Option<u32>,
    exit_code: Option<i64>,
    #[serde(borrow)]
    report: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
}

/// Reads a line.
///
/// # Errors
/// The rest of a sentence that begins with the tool.
pub(super) fn read(line: &[u8]) -> Result<Said, String> {
    let parsed: Line<'_> = serde_json::from_slice(line)
        .map_err(|error| format!("has written a line that cannot be read: {error}: {}", shown(line)))?;
    match &*parsed.kind {
        "ready" if parsed.version == Some(VERSION) => Ok(Said::Ready),
        "ready" => Err(format!("is ready in version {}, and this agent knows {VERSION}", told(parsed.version))),
        "done" => done(parsed).ok_or_else(|| {
            format!(
                "has answered without a text \"id\", a number \"round\" or an \"exit_code\" from 0 to 255: {}",
                shown(line)
            )
        }),
        other => Err(format!("has written a line of the unknown type {other:?}; known are ready and done")),
    }
}

fn done(line: Line<'_>) -> Option<Said> {
    let exit_code = i32::try_from(line.exit_code?).ok().filter(|code| (0..=255).contains(code))?;
    Some(Said::Done(Done {
        id: line.id?.into_owned(),
        round: Round(line.round?),
        exit_code: ExitCode(exit_code),
        report: line.report.unwrap_or_default().into_owned(),
        value: line.value.map(|value| value.get().into()),
    }))
}

fn told(version: Option<u64>) -> String {
    version.map_or_else(|| "none".to_owned(), |version| version.to_string())
}

fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.get(..SHOWN_BYTES_MAX).unwrap_or(line));
    format!("{text:?}{}", if line.len() > SHOWN_BYTES_MAX { " …" } else { "" })
}

/// The line that hands a task over; `task` is the content of `task.json`.
pub(super) fn task((id, round): (TaskId, Round), folder: Option<&Path>, task: &[u8]) -> Vec<u8> {
    let folder = folder.map_or_else(|| "null".to_owned(), |path| serde_json::json!(path.to_string_lossy()).to_string());
    let head =
        format!(r#"{{"type":"task","version":{VERSION},"id":"{id}","round":{},"folder":{folder},"task":"#, round.0);
    [head.as_bytes(), task.trim_ascii_end(), b"}\n"].concat()
}

/// The line that asks a tool to give a task up.
pub(super) fn kill(id: TaskId) -> Vec<u8> {
    format!("{{\"type\":\"kill\",\"id\":\"{id}\"}}\n").into_bytes()
}

/// The line that ends a tool without a task.
pub(super) const STOP: &[u8] = b"{\"type\":\"stop\"}\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_tool_are_read() {
        assert_eq!(read(br#"{"type": "ready", "version": 1, "more": [1]}"#), Ok(Said::Ready));
        let line = br#"{"type": "done", "id": "T", "round": 2, "exit_code": 3, "report": "a\nb", "value": {"x": [1.50, null]}}"#;
        let value = Some(r#"{"x": [1.50, null]}"#.into());
        let done =
            Done { id: "T".to_owned(), round: Round(2), exit_code: ExitCode(3), report: "a\nb".to_owned(), value };
        assert_eq!(read(line), Ok(Said::Done(done)));
        let short = read(br#"{"type":"done","id":"T","round":0,"exit_code":0,"value":null}"#);
        let Ok(Said::Done(done)) = short else { panic!("{short:?}") };
        assert_eq!((done.report.as_str(), done.value), ("", None));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        for (line, named) in [
            (&b"hello"[..], "cannot be read: expected value at line 1 column 1: \"hello\""),
            (b"\xff\xfe{", "cannot be read"),
            (b"[]", "cannot be read"),
            (b"", "cannot be read"),
            (br#"{"type":"ready"}"#, "version none"),
            (br#"{"type":"ready","version":2}"#, "version 2, and this agent knows 1"),
            (br#"{"type":"done","round":0,"exit_code":0}"#, "without a text \"id\""),
            (br#"{"type":"done","id":"T","exit_code":0}"#, "\"round\""),
            (br#"{"type":"done","id":"T","round":0}"#, "\"exit_code\""),
            (br#"{"type":"done","id":"T","round":0,"exit_code":256}"#, "from 0 to 255"),
            (br#"{"type":"done","id":"T","round":0,"exit_code":-9}"#, "from 0 to 255"),
            (br#"{"type":"progress"}"#, "unknown type \"progress\""),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        let long = read(&[b'x'; 1000]).unwrap_err();
        assert!(long.len() < 300 && long.ends_with('…'), "{long}");
    }
}
