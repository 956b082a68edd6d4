//! The work of a task in one line for people: its step, if it is of a graph, and its command, or its tool with its parameters.

use super::command;
use base::json::FieldLimits;
use base::{Fields, TaskRecord, ToolName, json, middle, words};

/// Columns of the line. A longer line loses its middle, because the tasks of a job differ at the end.
const COLUMNS_MAX: usize = 400;

/// The length in bytes from which a value may be one that is not for people.
const OPAQUE_MIN: usize = 24;

/// The length in bytes up to which a value of letters and digits may be a name.
const NAME_MAX: usize = 80;

/// The line of a task.
#[must_use]
pub fn of(record: &TaskRecord) -> String {
    let fields = json::parse(format!("{{{}}}", record.submitted).as_bytes(), &FieldLimits::TRUSTED);
    let work = line(&fields.unwrap_or_default(), &record.tool);
    let work = record.place().map(|place| format!("{}: {work}", place.step)).unwrap_or(work);
    middle(&work, COLUMNS_MAX)
}

fn line(fields: &Fields, tool: &ToolName) -> String {
    if let Some(command) = command::whole(fields) {
        return command;
    }
    if tool.is_command() {
        // The sender has no right to see the command.
        return "a command".to_owned();
    }
    let source = fields.text(words::SOURCE).map(|source| command::one_line(&format!("{source} {}", input(fields))));
    let mut line = source.unwrap_or_else(|| tool.as_str().to_owned()).trim_end().to_owned();
    let parameters = fields.iter().filter(|(name, _)| !name.starts_with("__"));
    for (name, value) in
        parameters.map(|(name, value)| (name, value.to_string())).filter(|(_, value)| !is_opaque(value))
    {
        line.push_str(&command::one_line(&format!(" {name}={value}")));
    }
    line
}

/// Whether a value is no text for people: bytes in base64, such as a function of Python.
fn is_opaque(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let is_of_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    // A path or a name may have all of these letters, too.
    let is_marked = value.ends_with('=') || value.contains('+') || value.len() >= NAME_MAX;
    let is_whole = value.len() >= OPAQUE_MIN && value.len().is_multiple_of(4) && !value.starts_with('/');
    is_whole && is_mixed && is_marked && value.bytes().all(is_of_base64)
}

fn input(fields: &Fields) -> &str {
    fields.text(words::INPUT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &Fields, tool: &str) -> String {
        line(fields, &ToolName::new(tool).unwrap())
    }

    #[test]
    fn a_tool_is_shown_with_its_parameters() {
        let fields = Fields::new().with(words::OPERATION, "convert").with("in", "/data/a.mov").with("n", 3u32);
        assert_eq!(shown(&fields.with(words::GIVEN_ID, "g"), "convert"), "convert in=/data/a.mov n=3");
        assert_eq!(shown(&Fields::new().with("x", "a\n\u{1b}[2J"), "t"), "t x=a  [2J");
    }

    #[test]
    fn bytes_are_left_out() {
        let call = Fields::new().with("call", "gASVCQAAAAAAAABLHYWUfZSGlC4=").with("name", "score");
        assert_eq!(shown(&call, "python"), "python name=score");
        for text in ["films/2026/September/Number1", "a_name_of_2026-11-29_12:00", "Shot0012LeftFrame0000173"] {
            assert_eq!(shown(&Fields::new().with("in", text), "t"), format!("t in={text}"));
        }
    }

    #[test]
    fn a_command_is_shown_whole() {
        let fields = Fields::new().with(words::COMMAND, r#"["sh","-c","sleep 0.02; [ $(($1 % 37)) -ne 0 ]","_","37"]"#);
        assert_eq!(shown(&fields, "t"), "sh -c sleep 0.02; [ $(($1 % 37)) -ne 0 ] _ 37");
        assert_eq!(shown(&Fields::new().with(words::SHELL, "wc -l *"), "t"), "wc -l *");
    }
}
