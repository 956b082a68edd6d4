//! Arguments, paths and variables as message texts.
//!
//! They are bytes without NUL, and usually UTF-8, which needs no change. NUL is therefore free to mark an escape: a
//! byte that belongs to no character becomes NUL and its two lower-case hexadecimal digits, `\u0000ff` in JSON.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

const MARK: char = '\0';

/// The text of bytes without NUL.
#[must_use]
pub fn os_text(bytes: &OsStr) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a text cannot fail.
            let _ = write!(text, "{MARK}{byte:02x}");
        }
    }
    text
}

/// The bytes of a text made by [`os_text`]; `None` for any other text with a NUL.
#[must_use]
pub fn os_bytes(text: &str) -> Option<OsString> {
    if !text.contains(MARK) {
        return Some(text.into());
    }
    let bytes = decoded(text);
    (!bytes.as_bytes().contains(&0) && os_text(&bytes) == text).then_some(bytes)
}

/// The canonical text for the bytes of a concatenated one: the end of one part and the beginning of the next may form a
/// character.
#[must_use]
pub fn rejoined(text: String) -> String {
    if text.contains(MARK) { os_text(&decoded(&text)) } else { text }
}

/// The number of bytes that a text represents.
#[must_use]
pub fn os_len(text: &str) -> usize {
    if text.contains(MARK) {
        letters(text).map(|letter| if is_byte(letter) { 1 } else { letter.len() }).sum()
    } else {
        text.len()
    }
}

/// The text for people: an escaped byte is shown as `\xff`.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(MARK) {
        return Cow::Borrowed(text);
    }
    let shown = letters(text).map(|letter| match byte_at(letter) {
        Some(byte) => Cow::Owned(format!("\\x{byte:02x}")),
        None => Cow::Borrowed(letter),
    });
    Cow::Owned(shown.collect())
}

/// The characters of a text. An escaped byte counts as one.
pub fn letters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let len = if is_byte(rest) { ESCAPE_BYTES } else { rest.chars().next()?.len_utf8() };
        let (letter, others) = rest.split_at(len);
        rest = others;
        Some(letter)
    })
}

/// Bytes of an escape.
const ESCAPE_BYTES: usize = 3;

/// The escaped byte at the beginning of a text. A byte below 0x80 is never escaped, because it is a character.
fn byte_at(text: &str) -> Option<u8> {
    let digits = text.strip_prefix(MARK)?.get(..ESCAPE_BYTES - 1)?;
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let byte = u8::from_str_radix(digits, 16).ok().filter(|byte| !byte.is_ascii());
    byte.filter(|_| digits.bytes().all(is_digit))
}

/// Whether a text begins with an escaped byte.
#[must_use]
pub fn is_byte(text: &str) -> bool {
    byte_at(text).is_some()
}

fn decoded(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in letters(text) {
        match byte_at(letter) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(letter.as_bytes()),
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        os_text(OsStr::from_bytes(bytes))
    }

    #[test]
    fn what_is_utf8_is_its_own_text_and_other_bytes_are_escaped() {
        for (bytes, expected) in [
            (&b"a\xc3\xa9\n"[..], "a\u{e9}\n"),
            (b"a\xff\xfeb", "a\0ff\0feb"),
            (b"\xc3", "\0c3"),
            (b"\xed\xa0\x80", "\0ed\0a0\080"),
            (b"", ""),
        ] {
            assert_eq!(text(bytes), expected);
            assert_eq!(os_bytes(expected).unwrap().as_bytes(), bytes);
            assert_eq!(os_len(expected), bytes.len());
        }
        assert_eq!(shown("a\0ff\0feb\0"), "a\\xff\\xfeb\0");
    }

    #[test]
    fn any_other_text_with_a_nul_has_no_bytes() {
        for text in ["\0", "a\0", "\0f", "\0FF", "\0fg", "\0+f", "\x0041", "\0\0ff", "\0c3\0a9", "\0ff\0"] {
            assert_eq!(os_bytes(text), None, "{text:?}");
        }
        assert_eq!(rejoined("\0c3\0a9\0ff".to_owned()), "\u{e9}\0ff");
    }

    proptest! {
        /// Few values, so that characters and parts of characters meet often.
        #[test]
        fn every_sequence_of_bytes_comes_back(
            bytes in proptest::collection::vec(proptest::sample::select(&b"\x01a0f/.\x7f\x80\x90\xa0\xbf\xc2\xc3\xe0\xed\xf0\xf4\xff"[..]), 0..40),
            cut in 0usize..40,
        ) {
            let whole = text(&bytes);
            prop_assert_eq!(os_bytes(&whole), Some(OsString::from_vec(bytes.clone())));
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(rejoined(text(left) + &text(right)), whole.clone());
            // A part of a text is a text.
            let all: Vec<_> = letters(&whole).collect();
            let part = all[cut.min(all.len())..].concat();
            prop_assert!(os_bytes(&part).is_some());
        }
    }
}
