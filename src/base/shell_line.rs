//! Values in a shell line: each is quoted for its place, or the line is refused before it runs.
//!
//! | place of the placeholder | the value |
//! |---|---|
//! | bare, also in `(…)` and `$(…)` | `'…'`, one word |
//! | in `'…'` or `"…"` | closes the quotation, adds `'…'`, and opens it again |
//! | in `$((…))` or `((…))` | a whole number; any other value is refused |
//! | in `` `…` ``, `$'…'`, `${…}`, a comment, a here-document, after a backslash or a `$` | the line is refused |
//! | in a text that another shell reads, such as that of `sh -c` or `eval` | the line is refused, unless it is all of that text |
//!
//! A value is always in single quotes, in which no character is special to a shell, in any locale. Where sh and bash
//! may read a line differently, every value after that point is refused.

mod here_documents;
mod readers;
mod scanner;
mod words;

pub use readers::{Reader, is_shell, reader_behind};

use std::borrow::Cow;

/// Bytes of the longest argument that Linux passes to a program, without the NUL at its end.
pub const ARGUMENT_BYTES_MAX: usize = 131_071;

/// Characters besides letters and digits that need no quotes in a separate word.
const PLAIN: &str = "@%+:,./-_";

/// Words with a special meaning where a command is expected.
const RESERVED: [&str; 17] = [
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select", "then",
    "time", "until", "while",
];

/// A text, quoted as one word for sh.
#[must_use]
pub fn quoted(text: &str) -> Cow<'_, str> {
    if is_plain(text, "=") {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    push_quoted(&mut quoted, text);
    Cow::Owned(quoted)
}

fn is_plain(text: &str, others: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || PLAIN.contains(letter) || others.contains(letter);
    !text.is_empty() && text.chars().all(is_plain)
}

fn push_quoted(line: &mut String, text: &str) {
    line.push('\'');
    for (index, part) in text.split('\'').enumerate() {
        line.push_str(if index > 0 { r"'\''" } else { "" });
        line.push_str(part);
    }
    line.push('\'');
}

/// A part of a shell line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePart<'a> {
    /// Text of the line itself.
    Text(&'a str),
    /// A value to be quoted.
    Value,
    /// A value that needs no quotes: no character of it is special to a shell.
    Word,
}

/// The place of a value in a shell line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside of quotes, next to other text.
    Bare,
    /// Outside of quotes, between blanks.
    Apart,
    /// In single quotes.
    Single,
    /// In double quotes.
    Double,
    /// In an arithmetic expression.
    Arithmetic,
    /// In a text that no shell reads, or all of one. The value is inserted unchanged.
    Raw,
}

/// A value in an arithmetic expression that is not a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is in an arithmetic expression, but is not a whole number of at most 18 digits")]
pub struct NotANumber {
    /// The beginning of the value.
    shown: String,
}

impl Place {
    /// The place of each value in a line that is made of these parts.
    ///
    /// # Errors
    /// The index of the first value that no quoting makes safe in its place.
    pub fn all<'a>(parts: impl IntoIterator<Item = LinePart<'a>>) -> Result<Vec<Self>, (usize, Misplaced)> {
        scanner::places(parts.into_iter())
    }

    /// Appends the values to the line. Outside quotes each is a word; elsewhere they are joined with blanks.
    ///
    /// # Errors
    /// When a value is no number where only numbers are possible.
    pub fn put<'a>(self, values: impl Iterator<Item = &'a str>, line: &mut String) -> Result<(), NotANumber> {
        match self {
            Self::Bare | Self::Apart => {
                for (index, value) in values.enumerate() {
                    line.push_str(if index > 0 { " " } else { "" });
                    if self == Self::Apart && is_plain(value, "") && !RESERVED.contains(&value) {
                        line.push_str(value);
                    } else {
                        push_quoted(line, value);
                    }
                }
            }
            Self::Single => {
                // The line has the quotes around it.
                let quoted = joined(values).replace('\'', r"'\''");
                line.push_str(&quoted);
            }
            Self::Double => {
                line.push('"');
                push_quoted(line, &joined(values));
                line.push('"');
            }
            Self::Arithmetic => {
                let value = joined(values);
                let digits = value.strip_prefix(['-', '+']).unwrap_or(&value);
                if !(1..=18).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(NotANumber { shown: value.chars().take(40).collect() });
                }
                // A sign next to another one would be an operator.
                line.push_str(if digits.len() < value.len() { " " } else { "" });
                line.push_str(&value);
            }
            Self::Raw => line.push_str(&joined(values)),
        }
        Ok(())
    }
}

fn joined<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for (index, value) in values.enumerate() {
        text.push_str(if index > 0 { " " } else { "" });
        text.push_str(value);
    }
    text
}

/// Why a value cannot be inserted safely. The message is a sentence without its subject, the placeholder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misplaced {
    /// In backticks.
    #[error("is in backticks, where no value can be quoted; write $(…) instead of the backticks")]
    Backticks,
    /// In `$'…'`.
    #[error("is in $'…', which sh and bash read differently; remove these quotes around it")]
    DollarQuotes,
    /// In `${…}`.
    #[error("is in ${{…}}, where no value can be quoted; put it into a variable first: x=PLACEHOLDER; … ${{x…}}")]
    Parameter,
    /// In a comment.
    #[error("is in a comment, which ends with the first line of the value; remove it there")]
    Comment,
    /// In a here-document.
    #[error(
        "is in a here-document, which a line of the value can end; write printf '%s\\n' PLACEHOLDER | COMMAND instead"
    )]
    HereDocument,
    /// After a backslash.
    #[error("comes directly after a backslash, which would cancel its quotes; remove the backslash")]
    Backslash,
    /// After a dollar sign.
    #[error("comes directly after a $, which would begin an expansion; remove the $")]
    Dollar,
    /// A second shell reads it.
    #[error(
        "is in a text that {0} reads as a script, so it would run as code; remove the quotes and pass it to the script as an \
         argument: sh -c 'echo \"$1\"' _ PLACEHOLDER"
    )]
    ReadAgain(String),
    /// In the script of a shell with other rules.
    #[error(
        "is in a script for {0}, whose quotes are not those of sh; pass it to the script as an argument, or use sh -c"
    )]
    OtherShell(String),
    /// After something that shells may read differently.
    #[error(
        "comes after {0}, from where sh and bash may read the line differently; move it before that, or into a separate script"
    )]
    Doubt(&'static str),
}

impl Misplaced {
    /// The sentence about a placeholder.
    #[must_use]
    pub fn sentence(&self, placeholder: &str) -> String {
        format!("{placeholder} {self}").replace("PLACEHOLDER", placeholder)
    }
}

#[cfg(test)]
mod tests;
