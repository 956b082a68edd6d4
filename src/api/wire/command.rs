//! A plain command in the fields of a submit, and the agent's reading of it.
//!
//! | field | value |
//! |---|---|
//! | `__COMMAND__` | the program and its arguments: an array of texts, as JSON in a text |
//! | `__SHELL__` | in place of `__COMMAND__`: one line for `/bin/sh -c` |
//! | `__CWD__` | absolute path of the working directory; without it the folder of the task |
//! | `__STDIN__` | the standard input, at most [`base::json::STDIN_BYTES_MAX`]; without it empty |
//! | `__STREAMS__` | in place of `__STDIN__`: an abstract unix socket through which the client passes stdin, or all three streams |
//! | `__UMASK__` | the umask as an octal text, "022" |
//! | `__ENV__` | further variables: an object of texts, as JSON in a text |
//!
//! The words, the line, the folder and the variables are bytes, in the form of [`base::os_text()`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::typed::field;
use base::code::{Code, Refusal};
use base::{
    AllowCommands, Caller, CallerKey, Fields, Scalar, TaskCommand, is_harmful, middle, os_bytes, os_text, words,
};

/// The fields that describe a command.
pub(super) const WORDS: [&str; 7] =
    [words::COMMAND, words::SHELL, words::CWD, words::STDIN, words::STREAMS, words::UMASK, words::ENV];

/// The fields that name the work of a task; a submit has exactly one of them.
pub(super) const WORK: [&str; 3] = [words::OPERATION, words::COMMAND, words::SHELL];

/// Reads the command of a task; `None` for the task of a tool.
///
/// # Errors
/// -1007 when a field has an invalid value.
pub fn read(fields: &Fields) -> Result<Option<TaskCommand>, Refusal> {
    let command = field(fields, words::COMMAND, "a JSON array of texts, in a text: [\"program\", \"argument\"]", argv)?;
    let shell = field(fields, words::SHELL, "a line for sh, not empty and without a NUL byte", line)?;
    let Some(words) = command.or_else(|| shell.map(|line| ["/bin/sh".into(), "-c".into(), line].into())) else {
        let strays = fields.iter().map(|(name, _)| name).filter(|name| WORDS.contains(name));
        let refused = |name| {
            let message = format!("{name} belongs to a command: send it with {} or {}", words::COMMAND, words::SHELL);
            Refusal::new(Code::BadField, message)
        };
        return strays.map(refused).next().map_or(Ok(None), Err);
    };
    let folder = field(fields, words::CWD, "an absolute path without a NUL byte", |value| {
        line(value).map(PathBuf::from).filter(|path| path.is_absolute())
    })?;
    let stdin = field(fields, words::STDIN, "a text", |value| value.as_text().map(str::to_owned))?;
    let streams =
        field(fields, words::STREAMS, "the name of an abstract unix socket: letters, digits and -", socket_name)?;
    if stdin.is_some() && streams.is_some() {
        let message = format!("{} and {} exclude one another; send one of them", words::STDIN, words::STREAMS);
        return Err(Refusal::new(Code::BadField, message));
    }
    let umask = field(fields, words::UMASK, "an octal text from \"0\" to \"777\"", |value| {
        u32::from_str_radix(value.as_text()?, 8).ok().filter(|mask| *mask <= 0o777)
    })?;
    let environment = field(fields, words::ENV, "a JSON object of texts, in a text: {\"NAME\": \"value\"}", variables)?;
    Ok(Some(TaskCommand { words, folder, stdin, streams, umask, environment: environment.unwrap_or_default() }))
}

/// The refusal of `what`, because `ALLOW_COMMANDS` does not admit its sender.
#[must_use]
pub fn not_allowed(allow: AllowCommands, caller: Caller, what: &str) -> Refusal {
    let remedy = match (allow, caller.key) {
        (AllowCommands::No, _) => "submit a tool instead",
        (_, CallerKey::Authorised | CallerKey::Commands) => {
            "`llts keys accept NAME --may commands` on the machine of the service allows it to the key of this one"
        }
        (AllowCommands::SameUser, CallerKey::None) => {
            "use the unix socket of the service, or connect from its machine as its user or as root"
        }
        (AllowCommands::Loopback, CallerKey::None) => "connect from the machine of the service",
        (AllowCommands::Keys, CallerKey::None) => {
            "use the unix socket of the service, or connect with an authorised key"
        }
    };
    let value = allow.word();
    let message =
        format!("ALLOW_COMMANDS is \"{value}\", which excludes this sender from {what}: {remedy}, or change the key");
    Refusal::new(Code::NotAllowed, message)
}

/// `__COMMAND__` for these words.
#[must_use]
pub fn command_text(words: &[String]) -> String {
    // Texts always become JSON.
    serde_json::to_string(words).unwrap_or_default()
}

/// The surroundings of a command that is submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Absolute path of the working directory; `None` for the folder of the task.
    pub folder: Option<String>,
    /// The umask, 0 to 0o777; `None` for that of the agent's tools.
    pub umask: Option<u32>,
    /// Variables. They override those of the agent, and those of the task override them.
    pub environment: BTreeMap<String, String>,
}

impl Surroundings {
    /// The fields that describe them.
    pub(super) fn fields(&self) -> Fields {
        let mut fields = Fields::new();
        if let Some(folder) = &self.folder {
            fields.set(words::CWD, folder.as_str());
        }
        if let Some(umask) = self.umask {
            fields.set(words::UMASK, format!("{umask:03o}"));
        }
        if !self.environment.is_empty() {
            // Texts always become JSON.
            fields.set(words::ENV, serde_json::to_string(&self.environment).unwrap_or_default());
        }
        fields
    }
}

/// Columns of a command in a table.
const SHOWN_MAX: usize = 40;

/// A command on one line, without its middle if it is long. `None` for the task of a tool.
pub(super) fn shown(fields: &Fields) -> Option<String> {
    whole(fields).map(|whole| middle(&whole, SHOWN_MAX))
}

/// A command on one line; `None` for the task of a tool.
pub(super) fn whole(fields: &Fields) -> Option<String> {
    let words = || serde_json::from_str::<Vec<String>>(fields.text(words::COMMAND)?).ok();
    let whole = fields.text(words::SHELL).map(str::to_owned).or_else(|| words().map(|words| words.join(" ")))?;
    Some(one_line(&whole))
}

/// A text of a submitter on one line.
pub(super) fn one_line(text: &str) -> String {
    os_text::shown(text).chars().map(|c| if is_harmful(c) { ' ' } else { c }).collect()
}

fn line(value: &Scalar) -> Option<OsString> {
    value.as_text().filter(|text| !text.is_empty()).and_then(os_bytes)
}

fn socket_name(value: &Scalar) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    value.as_text().filter(|name| (1..=100).contains(&name.len()) && name.bytes().all(is_part)).map(str::to_owned)
}

fn argv(value: &Scalar) -> Option<Vec<OsString>> {
    let words: Vec<String> = serde_json::from_str(value.as_text()?).ok()?;
    let has_program = words.first().is_some_and(|program| !program.is_empty());
    words.iter().map(|word| os_bytes(word)).collect::<Option<_>>().filter(|_| has_program)
}

fn variables(value: &Scalar) -> Option<Vec<(OsString, OsString)>> {
    let variables: BTreeMap<String, String> = serde_json::from_str(value.as_text()?).ok()?;
    let variable = |(name, value): (&String, &String)| {
        let name = os_bytes(name).filter(|_| !name.is_empty() && !name.contains('='))?;
        Some((name, os_bytes(value)?))
    };
    variables.iter().map(variable).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

    use super::*;

    fn words_of(name: &str, value: impl Into<Scalar>) -> Result<Vec<OsString>, Refusal> {
        read(&Fields::new().with(name, value)).map(|command| command.unwrap().words)
    }

    #[test]
    fn a_command_is_its_words_and_a_line_goes_to_the_shell() {
        assert_eq!(words_of(words::COMMAND, r#"["echo","a b",""]"#).unwrap(), ["echo", "a b", ""]);
        assert_eq!(words_of(words::SHELL, "wc -l *").unwrap(), ["/bin/sh", "-c", "wc -l *"]);
        assert_eq!(read(&Fields::new().with(words::OPERATION, "hello")), Ok(None));
        let strange = OsString::from_vec(b"a\xff\xfe".to_vec());
        assert_eq!(words_of(words::COMMAND, r#"["a\u0000ff\u0000fe"]"#).unwrap(), std::slice::from_ref(&strange));
        assert_eq!(words_of(words::SHELL, "a\0ff\0fe").unwrap()[2], strange);
    }

    #[test]
    fn a_command_that_cannot_be_one_is_refused_with_its_field() {
        for value in [
            "",
            "echo",
            "{}",
            "[]",
            r#"[""]"#,
            r#"["a",1]"#,
            r#"["a\u0000"]"#,
            r#"["\u0000FF"]"#,
            r#"["\u0000c3\u0000a9"]"#,
            r#"["a"] x"#,
            r#"[["a"]]"#,
        ] {
            let refusal = words_of(words::COMMAND, value).unwrap_err();
            assert_eq!(refusal.code, Code::BadField, "{value}");
            assert!(refusal.message.contains(words::COMMAND), "{}", refusal.message);
        }
        assert_eq!(words_of(words::COMMAND, 7u32).unwrap_err().code, Code::BadField);
        assert!(words_of(words::SHELL, "").is_err() && words_of(words::SHELL, "a\0").is_err());
    }

    #[test]
    fn the_surroundings_of_a_command_are_checked() {
        let with = |name: &str, value: &str| {
            read(&Fields::new().with(words::SHELL, "true").with(name, value)).map(Option::unwrap)
        };
        assert_eq!(with(words::CWD, "/tmp").unwrap().folder, Some(PathBuf::from("/tmp")));
        assert_eq!(with(words::CWD, "/\0ff").unwrap().folder.unwrap().as_os_str().as_bytes(), b"/\xff");
        assert_eq!(with(words::UMASK, "027").unwrap().umask, Some(0o27));
        assert_eq!(with(words::STDIN, "a\0b").unwrap().stdin.as_deref(), Some("a\0b"));
        assert_eq!(with(words::STREAMS, "llts-1").unwrap().streams.as_deref(), Some("llts-1"));
        let both = Fields::new().with(words::SHELL, "cat").with(words::STDIN, "a").with(words::STREAMS, "llts-1");
        assert_eq!(read(&both).unwrap_err().code, Code::BadField);
        let environment = vec![("A".into(), "1=2".into())];
        assert_eq!(with(words::ENV, r#"{"A":"1=2"}"#).unwrap().environment, environment);
        let strange = with(words::ENV, r#"{"A\u0000ff":"\u0000fe"}"#).unwrap().environment;
        assert_eq!(strange, [(OsString::from_vec(b"A\xff".to_vec()), OsString::from_vec(b"\xfe".to_vec()))]);
        for (name, value) in [
            (words::CWD, "tmp"),
            (words::CWD, ""),
            (words::CWD, "/a\0"),
            (words::ENV, r#"{"A":"\u0000"}"#),
            (words::STREAMS, ""),
            (words::STREAMS, "/tmp/x"),
            (words::UMASK, "8"),
            (words::UMASK, "1000"),
            (words::ENV, "A=1"),
            (words::ENV, r#"{"A=":"1"}"#),
            (words::ENV, r#"{"":"1"}"#),
            (words::ENV, r#"{"A":1}"#),
        ] {
            assert_eq!(with(name, value).unwrap_err().code, Code::BadField, "{name} {value:?}");
        }
    }

    #[test]
    fn a_table_shows_the_ends_of_a_command() {
        let of = |name: &str, value: &str| shown(&Fields::new().with(name, value)).unwrap_or_default();
        assert_eq!(of(words::COMMAND, r#"["echo","a\nb"]"#), "echo a b");
        assert_eq!(of(words::SHELL, &"é".repeat(50)), format!("{}…{}", "é".repeat(13), "é".repeat(26)));
        assert_eq!(of(words::COMMAND, r#"["ls","a\u0000ff"]"#), "ls a\\xff");
        assert_eq!(of(words::OPERATION, "hello"), "");
    }

    #[test]
    fn the_surroundings_of_a_command_are_nothing_to_a_tool() {
        let fields = Fields::new().with(words::OPERATION, "hello").with(words::CWD, "/tmp");
        assert_eq!(read(&fields).unwrap_err().code, Code::BadField);
    }
}
