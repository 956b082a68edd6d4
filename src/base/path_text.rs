//! Paths as texts, for addresses, variables and files that can only hold text.
//!
//! A path of UTF-8 without control characters is its own text. In the text of any other path, every byte that is not
//! plain becomes `%XX`, and so does the first one: an escaped `/` or `.` at the beginning marks such a text.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::quoted;

/// The beginnings of escaped paths: of an absolute one, and of any other.
const BEGINNINGS: [&str; 2] = ["%2F", "%2E"];

/// The text of a path.
#[must_use]
pub fn path_text(path: &Path) -> String {
    let is_plain = |text: &str| !text.chars().any(char::is_control) && !is_escaped(text);
    if let Some(text) = path.to_str().filter(|text| is_plain(text)) {
        return text.to_owned();
    }
    let bytes = path.as_os_str().as_bytes();
    let (beginning, rest) = match bytes.strip_prefix(b"/") {
        Some(rest) => ("%2F", rest),
        None => ("%2E/", bytes),
    };
    let mut text = beginning.to_owned();
    for byte in rest {
        match byte {
            b'%' | 0..0x20 | 0x7f.. => {
                // Writing to a text cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
            plain => text.push(char::from(*plain)),
        }
    }
    text
}

/// The path of the socket of broadcasts that belongs to a socket of requests.
#[must_use]
pub fn broadcast_socket(requests: &Path) -> PathBuf {
    let mut name = OsString::from(requests);
    name.push(".pub");
    name.into()
}

/// A path as a word of a shell command.
#[must_use]
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string()).into_owned()
}

/// The path of a text made by [`path_text`], or of any other text.
#[must_use]
pub fn path_of_text(text: &str) -> PathBuf {
    if !is_escaped(text) {
        return text.into();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

fn is_escaped(text: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// For `#[serde(with)]`.
pub mod as_text {
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Writes the text of a path.
    ///
    /// # Errors
    /// Of the serializer.
    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::path_text(path))
    }

    /// Reads the text of a path.
    ///
    /// # Errors
    /// Of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        String::deserialize(deserializer).map(|text| super::path_of_text(&text))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_plain_path_is_its_own_text() {
        for text in ["/var/lib/llts", "state/x.sock", "/a b/%41/é", "./100%", ""] {
            assert_eq!(path_text(Path::new(text)), text);
            assert_eq!(path_of_text(text), Path::new(text));
        }
    }

    #[test]
    fn any_other_path_has_a_plain_text() {
        for (bytes, expected) in [
            (&b"/a\nb/c"[..], "%2Fa%0Ab/c"),
            (b"/\xff%/\xc3\xa9", "%2F%FF%25/%C3%A9"),
            (b"\x1b[2J", "%2E/%1B[2J"),
            (b"%2Fa", "%2E/%252Fa"),
        ] {
            let path = Path::new(OsStr::from_bytes(bytes));
            let text = path_text(path);
            assert_eq!(text, expected);
            let same = if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) };
            assert_eq!(path_of_text(&text), same, "{expected}");
        }
    }

    #[test]
    fn a_command_names_any_path_as_one_word() {
        assert_eq!(quoted_path(Path::new("/a/b-c_1.d")), "/a/b-c_1.d");
        assert_eq!(quoted_path(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
