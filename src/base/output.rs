//! The outputs of a run, and the position of the tail that comes with the result.

use super::{Round, RunResult, TaskId};

/// One output of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// The standard output of run.sh.
    Stdout,
    /// The standard error of run.sh.
    Stderr,
    /// The file report.log in the folder of the tool.
    Report,
}

impl Stream {
    /// All outputs.
    pub const ALL: [Self; 3] = [Self::Stdout, Self::Stderr, Self::Report];

    /// The word for it in JSON and in names of files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Report => "report",
        }
    }
}

/// One output of one round of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputId {
    /// The task.
    pub task: TaskId,
    /// The round.
    pub round: Round,
    /// The output.
    pub stream: Stream,
}

/// The offset in bytes at which the tail of an output begins, if `text` consists of exactly its last bytes. A
/// replacement character (U+FFFD) hides the original byte.
#[must_use]
pub fn exact_tail(text: &str, total: u64) -> Option<u64> {
    if text.contains(char::REPLACEMENT_CHARACTER) { None } else { total.checked_sub(text.len() as u64) }
}

impl RunResult {
    /// The tail of an output.
    #[must_use]
    pub const fn tail(&self, stream: Stream) -> &str {
        match stream {
            Stream::Stdout => self.stdout_tail.as_str(),
            Stream::Stderr => self.stderr_tail.as_str(),
            Stream::Report => self.report_tail.as_str(),
        }
    }

    /// Bytes written to an output, if the agent counts them.
    #[must_use]
    pub fn total(&self, stream: Stream) -> Option<u64> {
        self.output_bytes.map(|bytes| match stream {
            Stream::Stdout => bytes.stdout,
            Stream::Stderr => bytes.stderr,
            Stream::Report => bytes.report,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_exact_only_if_no_byte_of_it_was_replaced() {
        assert_eq!(exact_tail("", 0), Some(0));
        assert_eq!(exact_tail("abc", 3), Some(0));
        assert_eq!(exact_tail("abc", 10), Some(7));
        assert_eq!(exact_tail("abc", 2), None, "longer than the output");
        // Three bytes of a four-byte character become one replacement character, which also has three bytes.
        assert_eq!(exact_tail(&String::from_utf8_lossy(b"\xf0\x9f\x98"), 3), None);
    }
}
