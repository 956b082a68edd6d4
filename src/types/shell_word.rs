//! Arguments of programs, and words for a shell.

use std::borrow::Cow;

/// Bytes of the longest argument that Linux hands over to a program, without the NUL at its end.
pub const ARGUMENT_BYTES_MAX: usize = 131_071;

/// A text as one word for sh.
#[must_use]
pub fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "@%+=:,./-_".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}
