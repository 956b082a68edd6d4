//! Untrusted texts made safe for a terminal: characters that could act there instead of being shown are replaced. Bytes
//! that are not characters are shown as `\xff`.

use super::os_text::{is_byte, letters, shown};

/// Whether a character can act on a terminal or mislead its reader: control characters, and those that reorder, hide or
/// break a line, such as directional marks, U+2028 and U+2029, zero-width characters and tags.
#[must_use]
pub fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A text as part of one line.
#[must_use]
pub fn printable(text: &str) -> String {
    shown(text).chars().map(|letter| if is_harmful(letter) { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

/// A text in quotes, with harmful characters escaped.
#[must_use]
pub fn in_quotes(text: &str) -> String {
    let mut out = "\"".to_owned();
    for letter in letters(text) {
        let is_escaped = |letter: char| matches!(letter, '"' | '\\') || is_harmful(letter);
        if !is_byte(letter) && letter.contains(is_escaped) {
            out.extend(letter.escape_debug());
        } else {
            out.push_str(&shown(letter));
        }
    }
    out.push('"');
    out
}

/// A text of several lines. Line ends and tabs stay.
#[must_use]
pub fn printable_lines(text: &str) -> String {
    let harmless = |letter| match letter {
        '\n' | '\t' => letter,
        _ if is_harmful(letter) => char::REPLACEMENT_CHARACTER,
        _ => letter,
    };
    shown(text).chars().map(harmless).collect()
}

/// Makes an output readable on a terminal, piece by piece: a control character is shown in caret notation, such as `^[`
/// for escape.
#[derive(Debug, Default)]
pub struct Readable {
    /// The first bytes of an incomplete character.
    open: Vec<u8>,
}

impl Readable {
    /// The text of the next bytes.
    #[must_use]
    pub fn text(&mut self, bytes: &[u8]) -> String {
        self.open.extend_from_slice(bytes);
        let mut text = String::with_capacity(bytes.len());
        let mut rest = 0;
        for chunk in self.open.utf8_chunks() {
            chunk.valid().chars().for_each(|letter| show(letter, &mut text));
            rest += chunk.valid().len();
            let is_last = rest + chunk.invalid().len() == self.open.len();
            // At most three bytes can be an incomplete character.
            if is_last && !chunk.invalid().is_empty() && is_beginning(chunk.invalid()) {
                break;
            }
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
            rest += chunk.invalid().len();
        }
        self.open.drain(..rest);
        text
    }

    /// The text of an incomplete character at the end of the output.
    #[must_use]
    pub fn end(&mut self) -> String {
        std::mem::take(&mut self.open).iter().map(|byte| format!("\\x{byte:02x}")).collect()
    }
}

/// Whether more bytes can complete these to a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

fn show(letter: char, text: &mut String) {
    match letter {
        '\n' | '\t' => text.push(letter),
        '\u{7f}' => text.push_str("^?"),
        '\0'..='\u{1f}' => text.extend(['^', char::from(letter as u8 ^ 0x40)]),
        _ if is_harmful(letter) => text.push(char::REPLACEMENT_CHARACTER),
        _ => text.push(letter),
    }
}

/// A JSON text with the same value, in which harmful characters are escaped. Outside its strings, JSON has none except
/// line ends.
#[must_use]
pub fn printable_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter == '\n' || !is_harmful(letter) {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_replaced_and_the_rest_stays() {
        for (text, line, lines) in [
            ("Grüße, 低遅延 🚀", "Grüße, 低遅延 🚀", "Grüße, 低遅延 🚀"),
            ("a\tb\nc", "a\u{fffd}b\u{fffd}c", "a\tb\nc"),
            (
                "\u{1b}]0;x\u{7}\r\u{9b}2J",
                "\u{fffd}]0;x\u{fffd}\u{fffd}\u{fffd}2J",
                "\u{fffd}]0;x\u{fffd}\u{fffd}\u{fffd}2J",
            ),
            ("a\0ff\0b", "a\\xff\u{fffd}b", "a\\xff\u{fffd}b"),
            ("exe\u{202e}txt\u{2066}\u{200f}", "exe\u{fffd}txt\u{fffd}\u{fffd}", "exe\u{fffd}txt\u{fffd}\u{fffd}"),
        ] {
            assert_eq!((&*printable(text), &*printable_lines(text)), (line, lines), "{text:?}");
        }
    }

    #[test]
    fn a_text_in_quotes_shows_all_of_it() {
        assert_eq!(in_quotes("a\0ff\"\n\u{e9}"), "\"a\\xff\\\"\\n\u{e9}\"");
        assert_eq!(in_quotes("\0c\u{202e}"), "\"\\0c\\u{202e}\"");
    }

    #[test]
    fn an_output_is_shown_as_text_however_its_bytes_arrive() {
        let bytes = "a\u{1b}]0;x\u{7}\r\n\té東\u{202e}\u{7f}".as_bytes();
        let bytes = [bytes, b"\xff\xe6z\xe6\x9d"].concat();
        let wanted = "a^[]0;x^G^M\n\té東\u{fffd}^?\\xff\\xe6z\\xe6\\x9d";
        for size in 1..bytes.len() {
            let mut readable = Readable::default();
            let mut text: String = bytes.chunks(size).map(|part| readable.text(part)).collect();
            text.push_str(&readable.end());
            assert_eq!(text, wanted, "in parts of {size}");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "a\u{202e}": "\u{9b}2J\u{e0041}\u{7f}\n\u{1b}é" });
        let text = printable_json(&format!("{value}\n"));
        assert!(!text.trim_end().chars().any(is_harmful), "{text:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
