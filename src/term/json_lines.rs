//! The output of a task as JSON Lines: an object for each line.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::schema;
use base::Stream;

/// Maximum bytes of a line in one object. A longer line is split, because a program may write no line feed at all.
const LINE_BYTES_MAX: usize = 64 << 10;

/// See the [module](self).
pub struct JsonLines {
    task: String,
    stream: &'static str,
    /// The bytes of an incomplete line.
    rest: Vec<u8>,
}

impl JsonLines {
    /// For this output of a task.
    pub fn new(task: &str, stream: Stream) -> Self {
        Self { task: task.to_owned(), stream: stream.word(), rest: Vec::new() }
    }

    /// The objects of all lines that these bytes complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut all = String::new();
        let mut begin = 0;
        while let Some(length) = complete(self.rest.get(begin..).unwrap_or_default()) {
            all.push_str(&self.object(begin, begin + length));
            begin += length;
        }
        self.rest.drain(..begin);
        all
    }

    /// The object of the last line, if it has no end.
    pub(crate) fn end(&mut self) -> String {
        let last = if self.rest.is_empty() { String::new() } else { self.object(0, self.rest.len()) };
        self.rest.clear();
        last
    }

    fn object(&self, begin: usize, end: usize) -> String {
        let bytes = self.rest.get(begin..end).unwrap_or_default();
        // JSON cannot represent other bytes.
        let (name, text) = match std::str::from_utf8(bytes) {
            Ok(text) => ("text", text.to_owned()),
            Err(_) => ("base64", BASE64_STANDARD.encode(bytes)),
        };
        let mut object = json!({ "llts": schema::VERSION, "task_id": self.task, "stream": self.stream });
        object[name] = Value::String(text);
        format!("{object}\n")
    }
}

/// The length of the first line, if it is complete.
fn complete(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    match end {
        Some(length) if length <= LINE_BYTES_MAX => Some(length),
        Some(_) => Some(LINE_BYTES_MAX),
        None => (bytes.len() >= LINE_BYTES_MAX).then_some(LINE_BYTES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_an_object_and_no_byte_is_lost() {
        let mut lines = JsonLines::new("T", Stream::Stderr);
        assert_eq!(lines.take(b"a\nb"), "{\"llts\":1,\"task_id\":\"T\",\"stream\":\"stderr\",\"text\":\"a\\n\"}\n");
        assert_eq!(lines.take(b"\xff\n"), "{\"llts\":1,\"task_id\":\"T\",\"stream\":\"stderr\",\"base64\":\"Yv8K\"}\n");
        assert_eq!(
            (lines.take(b"end"), lines.end().contains("\"text\":\"end\""), lines.end()),
            (String::new(), true, String::new())
        );
        let long = lines.take(&[b'x'; LINE_BYTES_MAX + 1]);
        assert_eq!((long.lines().count(), lines.end().contains("\"x\"")), (1, true));
    }
}
