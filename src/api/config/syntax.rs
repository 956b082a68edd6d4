//! Messages for the most common mistakes in a configuration: a text without quotes, a key that is set twice, and bytes that are
//! not UTF-8. The messages of the parser only speak of its grammar.

use super::error::shown;

/// A sentence about the mistake in this line. `message` is that of the parser.
pub(super) fn sentence(text: &str, line: usize, message: &str) -> String {
    let found = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    unquoted(found).or_else(|| twice(text, found, line, message)).unwrap_or_else(|| {
        let found = shown(found.trim());
        format!("{} in the line {found}; write KEY = VALUE, a text in quotes", shown(message))
    })
}

/// A value without quotes: `KEY = word`.
fn unquoted(line: &str) -> Option<String> {
    let (key, value) = key_and_value(line)?;
    let word = value.split('#').next()?.trim();
    let is_word = word.starts_with(|letter: char| letter.is_alphabetic() || "/~.".contains(letter))
        && !["true", "false", "inf", "nan"].contains(&word)
        && !word.contains(['"', '\'']);
    is_word.then(|| format!("{key} = {}: a text needs quotes: {key} = \"{0}\"", shown(word)))
}

/// A key that is set a second time.
fn twice(text: &str, line: &str, number: usize, message: &str) -> Option<String> {
    let (key, _) = key_and_value(line).filter(|_| message.contains("duplicate"))?;
    let is_it = |line: &str| key_and_value(line).is_some_and(|(other, _)| other == key);
    let first = text.lines().take(number.saturating_sub(1)).position(is_it)? + 1;
    Some(format!("{key} is set a second time; line {first} sets it, too: remove one of the two"))
}

fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let (key, value) = (key.trim(), value.trim());
    let is_key = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    (!key.is_empty() && key.chars().all(is_key)).then_some((key, value))
}

/// A sentence about bytes that are not UTF-8.
pub(super) fn not_text(bytes: &[u8]) -> Option<String> {
    let at = std::str::from_utf8(bytes).err()?.valid_up_to();
    let line = 1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count();
    let byte = bytes.get(at)?;
    Some(format!("line {line} is not text in UTF-8 (it has the byte 0x{byte:02x}); save the file as UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    #[test]
    fn common_damages_are_told_with_the_line_that_mends_them() {
        for (text, expected) in [
            ("LOG_LEVEL = info", "my.toml:1: LOG_LEVEL = info: a text needs quotes: LOG_LEVEL = \"info\""),
            (
                "\nSTATE_DIR = /srv/x # there",
                "my.toml:2: STATE_DIR = /srv/x: a text needs quotes: STATE_DIR = \"/srv/x\"",
            ),
            (
                "LOG_DIR = \"a\"\n\nLOG_DIR = \"b\"\n",
                "my.toml:3: LOG_DIR is set a second time; line 1 sets it, too: remove one of the two",
            ),
        ] {
            let refused = Config::from_parts(Some((Path::new("my.toml"), text)), []).unwrap_err();
            assert_eq!(refused.to_string(), expected);
        }
        let refused = Config::from_parts(Some((Path::new("my.toml"), "LOG_LEVEL\n")), []).unwrap_err().to_string();
        assert!(
            refused.starts_with("my.toml:1: ") && refused.contains("in the line LOG_LEVEL; write KEY = VALUE"),
            "{refused}"
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_told_with_their_line() {
        assert_eq!(not_text(b"A = 1\n"), None);
        let expected = "line 2 is not text in UTF-8 (it has the byte 0xff); save the file as UTF-8";
        assert_eq!(not_text(b"A = 1\nB = \xff").as_deref(), Some(expected));
    }
}
