//! Reads the outputs of a finished task: from its result, or in parts from the agent that has them.

use std::ops::Range;
use std::time::Duration;

use super::{Part, Question};
use crate::guest::task::End;
use base::{ExitCode, Mono, Now, Outcome, Stream, TaskId};

/// Pause before an absent agent is asked again.
pub const ABSENCE_PAUSE: Duration = Duration::from_millis(200);

/// How long the agent with an output may be absent: a supervisor restarts an agent within seconds.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// The outputs of a task, in the order in which they are read.
pub const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// A task that has finished, while its outputs are read.
#[derive(Debug)]
pub struct Reading {
    task: TaskId,
    end: Box<End>,
    since: Mono,
    pieces: Vec<Piece>,
    /// The piece that is read next.
    at: usize,
    notes: Vec<String>,
}

/// A range of an output.
#[derive(Debug)]
struct Piece {
    stream: Stream,
    range: Range<u64>,
    bytes: Vec<u8>,
}

/// The next step after a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The next question, if there is one.
    Next,
    /// The same question again, after [`ABSENCE_PAUSE`]: the agent is absent.
    Later,
}

/// Both outputs.
#[derive(Debug)]
pub struct Read {
    /// The end of the task.
    pub end: Box<End>,
    /// The bytes of each wanted range, for stdout and for stderr.
    pub outputs: [Vec<Vec<u8>>; 2],
    /// Why bytes are missing, each as a sentence.
    pub notes: Vec<String>,
}

impl Reading {
    /// Begins to read both outputs. `ranges` gets the length of an output, and returns the wanted ranges.
    #[must_use]
    pub fn new(now: Now, task: TaskId, end: Box<End>, ranges: impl Fn(u64) -> Vec<Range<u64>>) -> Self {
        let pieces = STREAMS.into_iter().flat_map(|stream| {
            let ranges = ranges(end.length(stream)).into_iter();
            ranges.map(move |range| Piece { stream, range, bytes: Vec::new() })
        });
        Self { task, since: now.mono, pieces: pieces.collect(), at: 0, notes: Vec::new(), end }
    }

    /// The next question; `None` when all ranges were read.
    pub fn question<Work, Known>(&mut self) -> Option<Question<Work, Known>> {
        loop {
            let piece = self.pieces.get_mut(self.at)?;
            let Some(text) = self.end.whole(piece.stream) else { break };
            let range = usize::try_from(piece.range.start).ok().zip(usize::try_from(piece.range.end).ok());
            let bytes = range.and_then(|(from, to)| text.as_bytes().get(from..to));
            piece.bytes = bytes.unwrap_or_default().to_vec();
            self.at += 1;
        }
        let piece = self.pieces.get(self.at)?;
        let offset = piece.range.start + piece.bytes.len() as u64;
        let (task, round, bytes_max) = (self.task, self.end.round, piece.range.end.saturating_sub(offset));
        Some(Question::Output { task, round, stream: piece.stream, offset, bytes_max })
    }

    /// Takes the answer to the question.
    pub fn take(&mut self, now: Now, part: Part) -> Progress {
        let Some(piece) = self.pieces.get_mut(self.at) else { return Progress::Next };
        if part.is_absent && now.mono.since(self.since) < ABSENCE_MAX {
            return Progress::Later;
        }
        let (wanted, has) = (piece.range.end, piece.range.start + piece.bytes.len() as u64);
        let is_progress = part.offset == has && !part.bytes.is_empty();
        if is_progress {
            piece.bytes.extend(part.bytes);
        }
        let has = piece.range.start + piece.bytes.len() as u64;
        if has >= wanted {
            self.at += 1;
        } else if !is_progress || part.is_end {
            let (name, reason) = (piece.stream.word(), part.missing);
            let reason = reason.unwrap_or_else(|| "its agent has no more of it".to_owned());
            let note = if piece.range.start == 0 {
                format!("{name} has {wanted} bytes, of which the first {has} are here: {reason}")
            } else {
                format!("{name} has {wanted} bytes, of which those from byte {has} on are missing: {reason}")
            };
            self.notes.push(note);
            self.at += 1;
        }
        Progress::Next
    }

    /// The outputs, when all ranges were read.
    #[must_use]
    pub fn finish(self) -> Read {
        let mut outputs = [Vec::new(), Vec::new()];
        for mut piece in self.pieces {
            let length = usize::try_from(piece.range.end - piece.range.start).unwrap_or(usize::MAX);
            piece.bytes.truncate(length);
            outputs[usize::from(piece.stream == Stream::Stderr)].push(piece.bytes);
        }
        Read { end: self.end, outputs, notes: self.notes }
    }
}

/// Why a task has ended, unless the outputs of its command tell.
#[must_use]
pub fn sentence(end: &End) -> Option<String> {
    let no_command = end.exit.is_some_and(|exit| exit.0 < 0 && !is_of_a_signal(&exit));
    let said = end.reason.clone().filter(|reason| !reason.is_empty());
    match end.outcome {
        Outcome::Succeeded => None,
        Outcome::Failed => said.filter(|_| no_command || end.exit.is_none()),
        Outcome::Killed => Some(said.unwrap_or_else(|| "it was killed".to_owned())),
        Outcome::TimedOut => Some(said.unwrap_or_else(|| "it took too long".to_owned())),
        Outcome::Expired => Some(said.unwrap_or_else(|| "its time was over".to_owned())),
        Outcome::Lost => Some(said.unwrap_or_else(|| "its agent was lost".to_owned())),
        Outcome::Skipped => Some(said.unwrap_or_else(|| "it was skipped".to_owned())),
    }
}

/// Whether a signal ended the command; codes below those of signals are for runs without a command.
#[must_use]
pub const fn is_of_a_signal(exit: &ExitCode) -> bool {
    exit.0 < 0 && exit.0 > ExitCode::KILLED_PREPARING.0
}
