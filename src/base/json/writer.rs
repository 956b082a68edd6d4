//! Writing one flat object.

use std::fmt;

use crate::{Scalar, Wall, words};

/// Writes one flat object, member by member, into a reusable buffer.
#[derive(Debug)]
pub struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
    /// The prefix of each name.
    prefix: String,
}

impl<'a> ObjectWriter<'a> {
    /// Opens the object with `__TYPE__`, which comes first in every message, so that subscribers can filter by it.
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
    pub const fn of_members(out: &'a mut Vec<u8>) -> Self {
        Self { out, empty: true, prefix: String::new() }
    }

    fn name(&mut self, name: &str) {
        let is_first = std::mem::replace(&mut self.empty, false);
        if self.prefix.is_empty() && !has_escapes(name.as_bytes()) {
            // Almost every name: a message has dozens.
            self.out.reserve(name.len() + 4);
            self.out.extend_from_slice(if is_first { b"\"" } else { b",\"" });
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b"\":");
            return;
        }
        if !is_first {
            self.out.push(b',');
        }
        let bytes = self.prefix.len();
        self.prefix.push_str(name);
        write_text(self.out, &self.prefix);
        self.prefix.truncate(bytes);
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

    /// As [`Self::literal`], if there is a value.
    pub fn maybe(&mut self, name: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.literal(name, value);
        }
    }

    /// Writes a moment, in unix seconds.
    pub fn moment(&mut self, name: &str, moment: Wall) {
        self.name(name);
        self.out.extend_from_slice(moment.to_text().as_bytes());
    }

    /// Writes a moment, if there is one.
    pub fn maybe_moment(&mut self, name: &str, moment: Option<Wall>) {
        if let Some(moment) = moment {
            self.moment(name, moment);
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
    if has_escapes(text.as_bytes()) {
        // Writing a str into a Vec cannot fail.
        let _ = serde_json::to_writer(out, text);
        return;
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Whether a text has characters to escape: control characters, quotes or backslashes. Hardly any has, and checking
/// eight bytes at once is the fastest way to see that.
fn has_escapes(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk() else {
        return text.iter().any(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\');
    };
    let (chunks, _) = text.as_chunks();
    chunks.iter().any(is_any_escaped) || is_any_escaped(last)
}

fn is_any_escaped(chunk: &[u8; 8]) -> bool {
    const EACH: u64 = u64::MAX / 0xff;
    const HIGHEST_BITS: u64 = EACH * 0x80;
    let chunk = u64::from_ne_bytes(*chunk);
    // A byte below the limit borrows into its highest bit, which was not set.
    let has_below = |chunk: u64, limit: u8| chunk.wrapping_sub(EACH * u64::from(limit)) & !chunk;
    let has = |byte: u8| has_below(chunk ^ (EACH * u64::from(byte)), 1);
    (has_below(chunk, b' ') | has(b'"') | has(b'\\')) & HIGHEST_BITS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_with_any_character_reads_back_as_itself() {
        let texts = |character| (0..20).map(move |at| format!("{}{character}b", "a".repeat(at)));
        for text in (0..0x300).filter_map(char::from_u32).flat_map(texts) {
            let mut out = Vec::new();
            write_text(&mut out, &text);
            assert_eq!(serde_json::from_slice::<String>(&out).ok(), Some(text.clone()), "{text:?}");
        }
    }
}
