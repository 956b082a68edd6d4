//! A program that the agent fetches, in the fields of a submit, and the agent's reading of it.
//!
//! | field | value |
//! |---|---|
//! | `__OPERATION__` | the name of the program |
//! | `__SOURCE__` | where to fetch it: see [`Source`] |
//! | `__SOURCE_SHA256__` | the SHA-256 of the fetched file, in hexadecimal digits |
//! | `__INPUT__` | the text behind `./run.sh` in the line for `sh` that starts it; without it run.sh is started like that of a tool |
//! | `__INPUT_HEX__` | in place of `__INPUT__`: the same in hexadecimal digits, as it need not be text |
//! | `__SOURCE_UNCHECKED__` | true if the controller itself submits the task for a namespace of TDF, whose manager may name any source |
//! | `__ALLOWED_SOURCES__` | set by the service: the sources that were allowed at the submit, or `any` |

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::typed::{field, truth};
use base::code::{Code, Refusal};
use base::{AllowedSources, Fields, Scalar, Source, TaskCommand, TaskSource, ToolName, words};

/// The fields that describe a source.
pub(super) const WORDS: [&str; 5] =
    [words::SOURCE, words::SOURCE_SHA256, words::INPUT, words::INPUT_HEX, words::SOURCE_UNCHECKED];

/// `__ALLOWED_SOURCES__` of a task whose source was not checked.
const ANY: &str = "any";

/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// The command that the specification prescribes, as a line for `sh`. The name of the program is checked and needs no quotes. The
/// input is the rest of the line, as the user wrote it.
#[must_use]
pub fn command_line(program: &str, input: &[u8]) -> Vec<u8> {
    let mut line = format!("cd ./{program}/; ./run.sh ").into_bytes();
    line.extend_from_slice(input);
    line
}

/// The same as a command for an agent, in the folder above that of the program.
#[must_use]
pub fn command(program: &str, input: &[u8]) -> TaskCommand {
    TaskCommand {
        words: ["/bin/sh".into(), "-c".into(), OsString::from_vec(command_line(program, input))].into(),
        folder: None,
        stdin: None,
        streams: None,
        umask: None,
        environment: Vec::new(),
    }
}

/// Why a task has failed because its program is missing: the words of the original, then the reason, which the original does not
/// give.
#[must_use]
pub fn complaint(program: &str, reason: &str) -> String {
    format!("program './{program}/run.sh' does not exist! {reason}")
}

/// Reads the source of a submitted task, and notes which sources are allowed; false for a task without one.
///
/// # Errors
/// As [`check`], and -1011 when the source is not allowed.
pub(super) fn submitted(fields: &mut Fields, allowed: &AllowedSources) -> Result<bool, Refusal> {
    let Some(source) = check(fields)? else { return Ok(false) };
    let is_unchecked = truth(fields, words::SOURCE_UNCHECKED)? == Some(true);
    if !is_unchecked {
        let refused = |refusal| Refusal::new(Code::NotAllowed, format!("{}: {refusal}", words::SOURCE));
        allowed.check(&source).map_err(refused)?;
    }
    fields.set(words::ALLOWED_SOURCES, if is_unchecked { ANY.to_owned() } else { allowed.to_string() });
    Ok(true)
}

/// Checks the form of a submitted source, and of the fields that belong to it; `None` for a task without one.
///
/// # Errors
/// -1007 when a field has an invalid value.
pub(super) fn check(fields: &Fields) -> Result<Option<Source>, Refusal> {
    let Some(value) = fields.get(words::SOURCE) else {
        let strays = WORDS.into_iter().find(|name| fields.get(name).is_some());
        let refused = |name| {
            let message = format!("{name} belongs to a program that is fetched: send it with {}", words::SOURCE);
            Err(Refusal::new(Code::BadField, message))
        };
        return strays.map_or(Ok(None), refused);
    };
    let refused = |message: String| Refusal::new(Code::BadField, message);
    let Some(text) = value.as_text() else { return Err(refused(format!("{} {value} is not a text", words::SOURCE))) };
    let source = Source::new(text).map_err(|error| refused(format!("{}: {error}", words::SOURCE)))?;
    if fields.get(words::OPERATION).is_none() {
        let (source, operation) = (words::SOURCE, words::OPERATION);
        return Err(refused(format!(
            "{source} belongs to {operation}, the name of the program: send it, and no command"
        )));
    }
    sha256(fields)?;
    input(fields)?;
    Ok(Some(source))
}

/// Whether a submit has text for a shell. Only senders that may send commands may send it.
pub(super) fn has_input(fields: &Fields) -> bool {
    [words::INPUT, words::INPUT_HEX].into_iter().any(|name| fields.get(name).is_some())
}

/// Whether a submit names a source that is not checked: only the controller itself may do that.
pub(super) fn is_unchecked(fields: &Fields) -> bool {
    fields.flag(words::SOURCE_UNCHECKED)
}

/// The refusal of a client that asks for an unchecked source.
#[must_use]
pub fn not_yours() -> Refusal {
    let message = format!("{} is for the tasks of the controller itself: leave it out", words::SOURCE_UNCHECKED);
    Refusal::new(Code::NotAllowed, message)
}

/// Reads the source in a task for an agent; `None` for a task without one, `Some(None)` for an invalid one.
pub(super) fn read(fields: &Fields, program: &ToolName) -> Option<Option<TaskSource>> {
    // This field decides, because only the service sets it: parameters of tasks without a source may have the other names.
    let allowed = match fields.text(words::ALLOWED_SOURCES)? {
        ANY => None,
        lists => match AllowedSources::parse(lists) {
            Some(lists) => Some(lists),
            None => return Some(None),
        },
    };
    let read = || {
        let source = Source::new(fields.text(words::SOURCE)?).ok()?;
        let (sha256, input) = (sha256(fields).ok()?, input(fields).ok()?);
        Some(TaskSource { program: program.clone(), source, sha256, input, allowed })
    };
    Some(read())
}

fn sha256(fields: &Fields) -> Result<Option<String>, Refusal> {
    field(fields, words::SOURCE_SHA256, "a SHA-256 of 64 hexadecimal digits", |value| {
        let text = value.as_text()?;
        let fits = text.len() == SHA256_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| text.to_ascii_lowercase())
    })
}

fn input(fields: &Fields) -> Result<Option<Vec<u8>>, Refusal> {
    let passable = |bytes: Vec<u8>| (!bytes.contains(&0)).then_some(bytes);
    let text = field(fields, words::INPUT, "a text without a NUL byte", |value: &Scalar| {
        passable(value.as_text()?.as_bytes().to_vec())
    })?;
    let bytes =
        field(fields, words::INPUT_HEX, "hexadecimal digits, two for each byte, without a NUL byte", |value| {
            passable(bytes_of(value.as_text()?)?)
        })?;
    if text.is_some() && bytes.is_some() {
        let message = format!("{} and {} exclude one another; send one of them", words::INPUT, words::INPUT_HEX);
        return Err(Refusal::new(Code::BadField, message));
    }
    Ok(text.or(bytes))
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| if let [high, low] = pair { Some(digit(high)? << 4 | digit(low)?) } else { None }).collect()
}

/// `__INPUT__`, or `__INPUT_HEX__` for bytes that are not UTF-8.
pub fn input_field(input: &[u8]) -> (&'static str, String) {
    match std::str::from_utf8(input) {
        Ok(text) => (words::INPUT, text.to_owned()),
        Err(_) => (words::INPUT_HEX, input.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://example.org/p.tar.gz";

    fn fields() -> Fields {
        Fields::new().with(words::OPERATION, "p").with(words::SOURCE, URL)
    }

    fn lists() -> AllowedSources {
        AllowedSources::parse("https example.org").unwrap()
    }

    #[test]
    fn an_agent_reads_what_was_submitted() {
        let sha256 = "Ab".repeat(32);
        let mut sent = fields().with(words::SOURCE_SHA256, sha256.as_str()).with(words::INPUT, "'a b' ; #");
        assert_eq!(submitted(&mut sent, &lists()), Ok(true));
        let program = ToolName::new("p").unwrap();
        let source = read(&sent, &program).unwrap().unwrap();
        assert_eq!([source.source.as_str(), source.sha256.as_deref().unwrap()], [URL, &"ab".repeat(32)]);
        assert_eq!((source.input, source.allowed), (Some(b"'a b' ; #".to_vec()), Some(lists())));
    }

    #[test]
    fn bytes_that_are_no_text_are_sent_as_digits() {
        for input in [&b"a \xff\xc3"[..], b"text", b""] {
            let (name, value) = input_field(input);
            let mut sent = fields().with(name, value);
            submitted(&mut sent, &lists()).unwrap();
            assert_eq!(read(&sent, &ToolName::new("p").unwrap()).unwrap().unwrap().input.as_deref(), Some(input));
        }
    }

    #[test]
    fn a_source_that_cannot_be_one_is_refused_with_its_field() {
        for (name, value) in [
            (words::SOURCE, "ftp://x/run.sh"),
            (words::SOURCE, "https://example.org/p.rar"),
            (words::SOURCE_SHA256, "ab"),
            (words::SOURCE_SHA256, &"g".repeat(64)),
            (words::INPUT, "a\0"),
            (words::INPUT_HEX, "6"),
            (words::INPUT_HEX, "00"),
            (words::INPUT_HEX, "+6"),
        ] {
            let mut sent = fields();
            sent.set(name, value);
            let refusal = submitted(&mut sent, &lists()).unwrap_err();
            assert_eq!(refusal.code, Code::BadField, "{name} {value:?}");
            assert!(refusal.message.contains(name), "{}", refusal.message);
        }
        for name in WORDS {
            let mut stray = Fields::new().with(words::OPERATION, "p").with(name, "x");
            assert!(submitted(&mut stray, &lists()).is_err(), "{name}");
        }
        let mut command = Fields::new().with(words::SHELL, "true").with(words::SOURCE, URL);
        assert!(submitted(&mut command, &lists()).unwrap_err().message.contains(words::OPERATION));
    }

    #[test]
    fn a_source_that_is_not_allowed_is_refused_unless_it_need_not_be() {
        for lists in [AllowedSources::default(), AllowedSources::parse("https other.org").unwrap()] {
            let refusal = submitted(&mut fields(), &lists).unwrap_err();
            assert_eq!(refusal.code, Code::NotAllowed);
            assert!(refusal.message.contains("source.ALLOW_HOSTS"), "{}", refusal.message);
            let mut own = fields().with(words::SOURCE_UNCHECKED, true);
            assert!(submitted(&mut own, &lists).is_ok() && is_unchecked(&own));
            assert_eq!(read(&own, &ToolName::new("p").unwrap()).unwrap().unwrap().allowed, None);
        }
    }

    #[test]
    fn parameters_of_other_tasks_are_no_source() {
        assert!(read(&fields(), &ToolName::new("p").unwrap()).is_none());
    }

    #[test]
    fn a_command_is_that_of_the_document_and_bytes_that_are_no_text_reach_the_program() {
        assert_eq!(command("p", b"'b c' #").words, ["/bin/sh", "-c", "cd ./p/; ./run.sh 'b c' #"]);
        assert_eq!(command("p", b"'\xff' a").words[2].as_encoded_bytes(), b"cd ./p/; ./run.sh '\xff' a");
    }
}
