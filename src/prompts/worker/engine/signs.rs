//! Signs in the output of a command about the service behind it: a limit is reached, until some moment, or no run can succeed
//! before a person has done something.
//!
//! An answer may talk about limits, so its text is no sign. A match counts in an error message of a known JSON form, or in the last
//! lines of a run that has failed.

mod reset;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;

use base::{ExitCode, Usd, Wall};

pub use reset::{RETRY_AFTER_MAX, Zones};

/// Bytes of the end of each output that are searched.
pub const TAIL_BYTES: usize = 64 << 10;

/// Lines at the end of the output and of the error output that may be a message of the command.
const OUT_LINES: usize = 4;
const ERR_LINES: usize = 12;

/// A longer line is a paragraph of an answer.
const LINE_CHARS_MAX: usize = 600;

/// Characters of a line that are shown to people.
const TEXT_CHARS_MAX: usize = 200;

/// The subtype of a result of claude that has ended because of its own number of turns, with a part of an answer.
const MAX_TURNS: &str = "error_max_turns";

/// The wording of the known services.
const BUILT_IN: &str = include_str!("limits.toml");

/// A sign in an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The service behind the command has reached its limit.
    Limited {
        /// Time until the limit ends, if the output contains it.
        retry_after: Option<Duration>,
        /// The message of the command.
        text: String,
    },
    /// The next run would fail for the same reason; the message of the command.
    Trouble(String),
    /// Memory ran out on this machine during the run, and a shell reports that a process of the command was killed.
    OutOfMemory,
}

/// The ends of the outputs of a command that has ended.
#[derive(Clone, Copy, Debug)]
pub struct OutputEnds<'a> {
    /// Exit code of the command.
    pub exit: ExitCode,
    /// End of the output.
    pub out: &'a str,
    /// End of the error output.
    pub err: &'a str,
}

/// The patterns of signs.
#[derive(Clone, Debug, Default)]
pub struct Signs {
    limits: Vec<Regex>,
    troubles: Vec<Regex>,
    /// The programs whose wording is known.
    programs: BTreeSet<String>,
}

/// The form of `limits.toml`.
#[derive(Deserialize)]
struct Wordings {
    #[serde(default)]
    limits: Vec<String>,
    #[serde(default)]
    troubles: Vec<String>,
    #[serde(flatten)]
    programs: BTreeMap<String, Wording>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wording {
    #[serde(default)]
    limits: Vec<String>,
    #[serde(default)]
    troubles: Vec<String>,
}

/// A message of a command: the text for people, and the text in which a reset time may be.
struct Message {
    text: String,
    whole: String,
}

impl Signs {
    /// The patterns for the known services, with those of the user's own `limits.toml`.
    ///
    /// # Errors
    /// A sentence, when the text is not of the form of `limits.toml`, or a pattern is no regular expression.
    pub fn new(own: Option<&str>) -> Result<Self, String> {
        let mut signs = Self::default();
        for text in std::iter::once(BUILT_IN).chain(own) {
            signs.add(toml::from_str(text).map_err(|error| error.to_string())?)?;
        }
        Ok(signs)
    }

    /// Replaces all patterns of limits by these, if there are any. An empty pattern matches nothing.
    ///
    /// # Errors
    /// A sentence, when a pattern is no regular expression.
    pub fn limited_by(mut self, patterns: &[String]) -> Result<Self, String> {
        if !patterns.is_empty() {
            self.limits = compiled(patterns)?;
        }
        Ok(self)
    }

    fn add(&mut self, Wordings { limits, troubles, programs }: Wordings) -> Result<(), String> {
        let general = Wording { limits, troubles };
        for Wording { limits, troubles } in std::iter::once(&general).chain(programs.values()) {
            self.limits.extend(compiled(limits)?);
            self.troubles.extend(compiled(troubles)?);
        }
        self.programs.extend(programs.into_keys());
        Ok(())
    }

    /// Whether the patterns have the wording of this program. Its limits belong to an account.
    #[must_use]
    pub fn has_wording_of(&self, program: &str) -> bool {
        self.programs.contains(program)
    }

    /// The sign in the ends of the outputs of a command.
    #[must_use]
    pub fn read(&self, ends: &OutputEnds<'_>, now: Wall, zones: Zones<'_>) -> Option<Sign> {
        let messages = messages(ends);
        let find = |patterns: &[Regex]| {
            messages.iter().find(|message| patterns.iter().any(|pattern| pattern.is_match(&message.whole)))
        };
        let short = |message: &Message| message.text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        if let Some(message) = find(&self.limits) {
            let times = std::iter::once(message).chain(&messages);
            let retry_after = times.map(|message| reset::after(&message.whole, now, zones)).find_map(|time| time);
            return Some(Sign::Limited { retry_after, text: short(message) });
        }
        find(&self.troubles).map(|message| Sign::Trouble(short(message)))
    }
}

fn compiled(patterns: &[String]) -> Result<Vec<Regex>, String> {
    let compile = |pattern: &String| Regex::new(pattern).map_err(|error| format!("{pattern:?} is no pattern: {error}"));
    patterns.iter().filter(|pattern| !pattern.is_empty()).map(compile).collect()
}

/// The messages of the command, the most likely first.
fn messages(ends: &OutputEnds<'_>) -> Vec<Message> {
    let [out, err] = [ends.out, ends.err].map(without_colours);
    let ends = &OutputEnds { exit: ends.exit, out: &out, err: &err };
    if ends.exit == ExitCode::SUCCESS {
        // Any other JSON is an answer, and errors on the side did no harm.
        return last_object(ends.out).and_then(|object| in_known_form(&object)).into_iter().collect();
    }
    let objects = [ends.out, ends.err].map(last_object);
    let mut messages: Vec<Message> = objects.iter().flatten().filter_map(in_json).collect();
    // The answer in a result is no message.
    let out = if is_answer(ends.out) { "" } else { ends.out };
    for (text, lines_max) in [(ends.err, ERR_LINES), (out, OUT_LINES)] {
        let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(lines_max);
        let lines = lines.filter(|line| line.chars().count() <= LINE_CHARS_MAX);
        // Of an event in JSON, only its error counts: others contain parts of an answer.
        messages.extend(lines.filter_map(|line| match serde_json::from_str::<Value>(line) {
            Ok(object) if object.is_object() => in_json(&object),
            _ => Some(Message { text: line.to_owned(), whole: line.to_owned() }),
        }));
    }
    messages
}

/// A text without the sequences that set the colours of a terminal.
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for (number, part) in text.split("\x1b[").enumerate() {
        let end =
            if number == 0 { 0 } else { part.find(|letter: char| letter.is_ascii_alphabetic()).map_or(0, |at| at + 1) };
        plain.push_str(&part[end..]);
    }
    Cow::Owned(plain)
}

/// The error message in the JSON object with which claude or codex ends, whatever its exit code: `is_error` with `result`, and the event
/// `turn.failed`.
fn in_known_form(object: &Value) -> Option<Message> {
    let is_known = (object["type"] == "result" && object["is_error"] == true) || object["type"] == "turn.failed";
    if is_known { in_json(object) } else { None }
}

/// The error message in a JSON object of a run that has failed: also `error` with `message`, as gemini and codex write it, and the event
/// `error`.
fn in_json(object: &Value) -> Option<Message> {
    if object["is_error"] == false || object["subtype"] == MAX_TURNS {
        return None;
    }
    let error = &object["error"];
    let is_error = object["is_error"] == true;
    let found = [
        object["result"].as_str().filter(|_| is_error),
        error["message"].as_str(),
        error.as_str(),
        object["message"].as_str().filter(|_| object["type"] == "error"),
        object["subtype"].as_str().filter(|_| is_error),
    ];
    let text = found.into_iter().flatten().next()?.to_owned();
    // An answer may be beside the message.
    let mut whole = if is_error { format!("{text} {}", object["subtype"]) } else { format!("{text} {error}") };
    if error["code"] == 429 {
        whole.push_str(" status 429");
    }
    Some(Message { text, whole })
}

/// The cost of a run in the JSON output of claude. Codex and gemini report tokens without a price, which give no cost.
#[must_use]
pub fn cost(out: &str) -> Option<Usd> {
    let object = last_object(out).filter(|object| object["type"] == "result")?;
    Usd::from_dollars(object["total_cost_usd"].as_f64()?)
}

/// True for an answer in JSON.
fn is_answer(text: &str) -> bool {
    last_object(text).is_some_and(|object| {
        object["is_error"] == false || object["subtype"] == MAX_TURNS || object["response"].is_string()
    })
}

/// The JSON object that the output consists of, or the last one of several.
fn last_object(text: &str) -> Option<Value> {
    let text = text.trim();
    let whole = || serde_json::from_str(text).ok();
    let last_line = || serde_json::from_str(text.lines().next_back()?).ok();
    match whole().or_else(last_line)? {
        Value::Array(mut all) => all.pop().filter(Value::is_object),
        value => Some(value).filter(Value::is_object),
    }
}

#[cfg(test)]
mod tests;
