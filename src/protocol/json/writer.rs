//! Writing one flat object.

use std::fmt;

use crate::protocol::words;
use crate::types::Scalar;

/// Writes one flat object, member by member, into a reusable buffer.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
    /// The prefix of each name.
    prefix: String,
}

impl<'a> ObjectWriter<'a> {
    /// Opens the object with `__TYPE__`, the first name in every message (design, section 6).
    pub fn typed(out: &'a mut Vec<u8>, kind: &str) -> Self {
        let mut writer = Self::new(out);
        writer.text(words::TYPE, kind);
        writer
    }

    /// Opens an object.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self::of_members(out)
    }

    /// For the members of an object without its braces.
    pub(super) const fn of_members(out: &'a mut Vec<u8>) -> Self {
        Self { out, empty: true, prefix: String::new() }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        if self.prefix.is_empty() {
            write_text(self.out, name);
        } else {
            let bytes = self.prefix.len();
            self.prefix.push_str(name);
            write_text(self.out, &self.prefix);
            self.prefix.truncate(bytes);
        }
        self.out.push(b':');
    }

    /// Writes members whose names all have this prefix.
    pub fn prefixed(&mut self, prefix: String, write: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.prefix, prefix);
        write(self);
        self.prefix = outer;
    }

    /// Writes a text.
    pub fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        write_text(self.out, value);
    }

    /// Writes a value that is formatted as a JSON number or literal.
    pub fn literal(&mut self, name: &str, value: impl fmt::Display) {
        use std::io::Write as _;
        self.name(name);
        // Writing into a Vec cannot fail.
        let _ = write!(self.out, "{value}");
    }

    /// Writes such a value, if there is one.
    pub fn maybe(&mut self, name: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.literal(name, value);
        }
    }

    /// Writes a text, if there is one.
    pub fn maybe_text(&mut self, name: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.text(name, value.as_ref());
        }
    }

    /// Writes any scalar.
    pub fn scalar(&mut self, name: &str, value: &Scalar) {
        match value {
            Scalar::Text(text) => self.text(name, text),
            Scalar::Null | Scalar::Bool(_) | Scalar::Number(_) => self.literal(name, value),
        }
    }

    /// Writes members that are already JSON: `"a":1,"b":"x"`.
    pub fn members(&mut self, members: &str) {
        if members.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(members.as_bytes());
    }

    /// Writes an object as the value of a member.
    pub fn object(&mut self, name: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        let mut inner = ObjectWriter::new(self.out);
        write(&mut inner);
        inner.end();
    }

    /// Writes a list of values that are already JSON.
    pub fn list(&mut self, name: &str, items: impl Iterator<Item = String>) {
        self.name(name);
        self.out.push(b'[');
        for (number, item) in items.enumerate() {
            if number > 0 {
                self.out.push(b',');
            }
            self.out.extend_from_slice(item.as_bytes());
        }
        self.out.push(b']');
    }

    /// Writes a list of objects.
    pub fn objects<T>(&mut self, name: &str, items: &[T], write: impl Fn(&T, &mut ObjectWriter<'_>)) {
        self.name(name);
        self.out.push(b'[');
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                self.out.push(b',');
            }
            let mut inner = ObjectWriter::new(self.out);
            write(item, &mut inner);
            inner.end();
        }
        self.out.push(b']');
    }

    /// The number of bytes in the buffer.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.out.len()
    }

    /// Closes the object.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    // Almost no text has a character to escape, which a look at all of its bytes at once finds out fastest.
    let is_escaped = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    if text.as_bytes().iter().fold(false, |found, byte| found | is_escaped(byte)) {
        // Writing a str into a Vec cannot fail.
        let _ = serde_json::to_writer(out, text);
        return;
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_any_character_reads_back_as_itself() {
        for text in (0..0x300).filter_map(char::from_u32).map(|character| format!("a{character}b")) {
            let mut out = Vec::new();
            write_text(&mut out, &text);
            assert_eq!(serde_json::from_slice::<String>(&out).ok(), Some(text.clone()), "{text:?}");
        }
    }
}
