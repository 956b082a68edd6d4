//! The input of a map: splits bytes into lines (in the form of [`base::os_text()`]), lines into values, and combines several sources.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::template::ARGUMENT_BYTES_MAX;
use super::work::BadLine;
use base::{os_bytes, os_text};

/// Cuts a stream of bytes into lines. A line that is too long for an argument is counted, not kept.
#[derive(Debug)]
pub struct Splitter {
    delimiter: u8,
    line: Vec<u8>,
    /// Bytes of the present line, including dropped ones.
    bytes: u64,
}

impl Splitter {
    /// A splitter for lines that end with this byte: a line feed or NUL.
    #[must_use]
    pub const fn new(delimiter: u8) -> Self {
        Self { delimiter, line: Vec::new(), bytes: 0 }
    }

    /// Takes bytes, and adds the lines that are complete with them.
    pub fn push(&mut self, mut bytes: &[u8], lines: &mut Vec<Result<String, BadLine>>) {
        while let Some(at) = bytes.iter().position(|byte| *byte == self.delimiter) {
            self.keep(&bytes[..at]);
            lines.push(self.take());
            bytes = &bytes[at + 1..];
        }
        self.keep(bytes);
    }

    /// The last line, if it has no end.
    pub fn finish(&mut self) -> Option<Result<String, BadLine>> {
        (self.bytes > 0).then(|| self.take())
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let room = (ARGUMENT_BYTES_MAX + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn take(&mut self) -> Result<String, BadLine> {
        let (line, bytes) = (std::mem::take(&mut self.line), std::mem::take(&mut self.bytes));
        if line.len() > ARGUMENT_BYTES_MAX {
            return Err(BadLine::TooLong { bytes });
        }
        if let Some(at) = line.iter().position(|byte| *byte == 0) {
            return Err(BadLine::Nul { at });
        }
        Ok(String::from_utf8(line).unwrap_or_else(|error| os_text(&OsString::from_vec(error.into_bytes()))))
    }
}

/// The values of a line: its columns, or the line itself.
#[must_use]
pub fn columns(line: String, separator: Option<&str>) -> Vec<String> {
    match separator {
        None => vec![line],
        Some(separator) if line.contains('\0') => {
            let (line, separator) = (os_bytes(&line).unwrap_or_default(), os_bytes(separator).unwrap_or_default());
            cut(line.as_bytes(), separator.as_bytes()).map(|value| os_text(OsStr::from_bytes(value))).collect()
        }
        Some(separator) => line.split(separator).map(str::to_owned).collect(),
    }
}

/// The parts between separators. A separator is not searched for inside an escape.
fn cut<'a>(line: &'a [u8], separator: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        let len = separator.len().max(1);
        let Some(at) = line.windows(len).position(|part| part == separator) else { return rest.take() };
        rest = line.get(at + len..);
        line.get(..at)
    })
}

/// All combinations of one value from each source; the last source changes fastest.
#[derive(Debug)]
pub struct Combinations {
    sources: Vec<Vec<String>>,
    /// The number of combinations before the next one; `None` after the last.
    next: Option<u64>,
}

impl Combinations {
    /// The combinations of these sources. One without values leaves none.
    #[must_use]
    pub fn new(sources: Vec<Vec<String>>) -> Self {
        let next = (!sources.is_empty()).then_some(0);
        Self { sources, next }
    }
}

impl Iterator for Combinations {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        let number = self.next?;
        let mut rest = number;
        let mut values = Vec::with_capacity(self.sources.len());
        for source in self.sources.iter().rev() {
            let len = source.len() as u64;
            let index = usize::try_from(rest.checked_rem(len)?).ok()?;
            rest /= len;
            values.push(source.get(index)?.clone());
        }
        values.reverse();
        self.next = if rest > 0 { None } else { number.checked_add(1) };
        (rest == 0).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(delimiter: u8, chunks: &[&[u8]]) -> Vec<Result<String, BadLine>> {
        let mut splitter = Splitter::new(delimiter);
        let mut lines = Vec::new();
        chunks.iter().for_each(|chunk| splitter.push(chunk, &mut lines));
        lines.extend(splitter.finish());
        lines
    }

    fn texts(lines: Vec<Result<String, BadLine>>) -> Vec<String> {
        lines.into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn lines_are_whole_wherever_the_chunks_end() {
        assert_eq!(texts(lines(b'\n', &[b"a\nb", b"c\n", b"\n", b"d"])), ["a", "bc", "", "d"]);
        assert_eq!(texts(lines(0, &[b"a\nb\0c\0"])), ["a\nb", "c"]);
        assert_eq!(lines(b'\n', &[b""]), []);
        assert_eq!(texts(lines(b'\n', &[b"\n"])), [""]);
    }

    #[test]
    fn a_line_that_is_no_argument_does_not_harm_the_others() {
        let long = vec![b'x'; 2_000_000];
        let found = lines(b'\n', &[b"a\n\xc3\x28\nb\0c\n", &long, b"y\nd"]);
        assert_eq!(
            found,
            [
                Ok("a".to_owned()),
                Ok("\0c3(".to_owned()),
                Err(BadLine::Nul { at: 1 }),
                Err(BadLine::TooLong { bytes: 2_000_001 }),
                Ok("d".to_owned())
            ]
        );
        let longest = [vec![b'x'; ARGUMENT_BYTES_MAX], b"\n".to_vec()].concat();
        assert!(lines(b'\n', &[&longest])[0].is_ok());
    }

    #[test]
    fn a_long_line_takes_bounded_memory() {
        let mut splitter = Splitter::new(b'\n');
        for _ in 0..100 {
            splitter.push(&[b'x'; 65_536], &mut Vec::new());
        }
        assert!(splitter.line.capacity() <= 4 * ARGUMENT_BYTES_MAX);
    }

    #[test]
    fn sources_are_combined_as_nested_loops() {
        let combined = |sources: &[&[&str]]| -> Vec<String> {
            let sources = sources.iter().map(|values| values.iter().map(|value| (*value).to_owned()).collect());
            Combinations::new(sources.collect()).map(|values| values.join("")).collect()
        };
        assert_eq!(combined(&[&["a", "b"], &["1", "2", "3"]]), ["a1", "a2", "a3", "b1", "b2", "b3"]);
        assert_eq!(combined(&[&["a", "b"]]), ["a", "b"]);
        assert_eq!(combined(&[&["a"], &[]]), [""; 0]);
        assert_eq!(combined(&[]), [""; 0]);
    }

    #[test]
    fn columns_are_cut_at_the_separator() {
        assert_eq!(columns("a\tb\t".to_owned(), Some("\t")), ["a", "b", ""]);
        assert_eq!(columns("a b".to_owned(), None), ["a b"]);
        assert_eq!(columns("xf\0fffy\0ff".to_owned(), Some("f")), ["x", "\0ff", "y\0ff"], "no part of an escape");
        assert_eq!(columns("\0ff--".to_owned(), Some("--")), ["\0ff", ""]);
    }
}
