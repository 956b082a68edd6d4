//! Makes texts from outside safe for a log line: they cannot forge a second line or reorder the displayed text.

use std::fmt::{self, Write};

use base::is_harmful;

/// Maximum characters shown of a text from outside: enough to recognise an id, a path or the start of a message.
const SHOWN_CHARS_MAX: usize = 200;

/// Maximum bytes of one message. [`shown`] keeps texts short; this limit is for texts that did not go through it.
const MESSAGE_BYTES_MAX: usize = 8192;

/// The text with control characters and `\` escaped, cut after 200 characters.
///
/// `\` becomes `\\`; newline, return and tab become `\n`, `\r`, `\t`; any other character that a terminal may act on or
/// that has no width becomes `\u{hex}`. Everything else is unchanged.
pub fn shown(text: &str) -> impl fmt::Display + '_ {
    Shown(text)
}

struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.char_indices().nth(SHOWN_CHARS_MAX).map_or(self.0.len(), |(at, _)| at);
        for letter in self.0[..cut].chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                letter => write_harmless(f, letter)?,
            }
        }
        let left = self.0.len() - cut;
        if left > 0 { write!(f, "… (+{left} bytes)") } else { Ok(()) }
    }
}

/// A whole message as one line of bounded length, with the same escapes except for `\`. It covers texts that did not go
/// through [`shown`].
pub(super) struct OneLine<'a>(pub(super) fmt::Arguments<'a>);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Bounded { f, left: Some(MESSAGE_BYTES_MAX) };
        line.write_fmt(self.0)
    }
}

struct Bounded<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    /// Bytes that may still be written; `None` once the message has been cut.
    left: Option<usize>,
}

impl Write for Bounded<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            let Some(left) = self.left else { return Ok(()) };
            self.left = left.checked_sub(written_bytes(letter));
            match self.left {
                Some(_) => write_harmless(self.f, letter)?,
                None => self.f.write_char('…')?,
            }
        }
        Ok(())
    }
}

fn written_bytes(letter: char) -> usize {
    if is_harmful(letter) { letter.escape_default().count() } else { letter.len_utf8() }
}

fn write_harmless(f: &mut impl Write, letter: char) -> fmt::Result {
    if is_harmful(letter) { write!(f, "{}", letter.escape_default()) } else { f.write_char(letter) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_escaped_and_the_rest_stays() {
        for (text, expected) in [
            ("plain: Grüße, 低遅延 🚀", "plain: Grüße, 低遅延 🚀"),
            ("x\n[ERROR] forged", "x\\n[ERROR] forged"),
            ("\r\t\0\u{1b}[2J\u{7f}\u{9b}", "\\r\\t\\u{0}\\u{1b}[2J\\u{7f}\\u{9b}"),
            ("\u{2028}\u{2029}\u{85}", "\\u{2028}\\u{2029}\\u{85}"),
            ("\u{202e}evil\u{2066}\u{200f}", "\\u{202e}evil\\u{2066}\\u{200f}"),
            ("\\n is not a newline", "\\\\n is not a newline"),
        ] {
            assert_eq!(shown(text).to_string(), expected);
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = "é".repeat(SHOWN_CHARS_MAX);
        assert_eq!(shown(&text).to_string(), text);
        assert_eq!(shown(&format!("{text}éé")).to_string(), format!("{text}… (+4 bytes)"));
    }

    #[test]
    fn a_message_is_one_bounded_line() {
        assert_eq!(OneLine(format_args!("a{}c\\d", "\nb")).to_string(), "a\\nbc\\d");
        for (piece, shown) in [("ab", "ab"), ("\n", "\\n")] {
            let exact = OneLine(format_args!("{}", piece.repeat(MESSAGE_BYTES_MAX / shown.len()))).to_string();
            let long = OneLine(format_args!("{}{}", piece.repeat(MESSAGE_BYTES_MAX), "tail")).to_string();
            let expected = shown.repeat(MESSAGE_BYTES_MAX / shown.len());
            assert_eq!(long, format!("{expected}…"), "{piece:?}");
            assert_eq!(exact, expected, "{piece:?}");
        }
    }
}
