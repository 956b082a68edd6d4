//! TAIL and TAIL_PART: the output of a prompt, part by part, from its worker through the master to a client. The client asks for the
//! next part when it has written the last one, so no side holds more than one. A request for a part that does not exist yet is
//! answered when the output has grown, or without bytes after a while.

use super::result_part::{bytes, offset, output, write_bytes};
use super::{FILE, MessageError, REQ_ID, RequestId, ResultFile, needed, text};
use base::json::ObjectWriter;
use base::{Fields, Scalar};

const OUTPUT: &str = "output";
const OFFSET: &str = "offset";
const RUN: &str = "run";
const TAIL: &str = "tail";
const ENDED: &str = "ended";
const AGAIN: &str = "again";
const NEXT: &str = "next";

/// Letters of a request id that distinguish the runs of a prompt. The whole id would be a key to the run.
const LABEL_BYTES: usize = 8;

/// A client's request for the next part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailQuery {
    /// The name of the prompt.
    pub file: String,
    /// The output or the error output.
    pub output: ResultFile,
    /// Position of the first wanted byte.
    pub offset: u64,
    /// The run that the parts before this one came from, as in [`TailPart::run`].
    pub run: Option<String>,
    /// True to get the run after that one.
    pub next: bool,
}

/// The request for the next part, as the master passes it on to the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailOrder {
    /// Identifies the client.
    pub tail: u64,
    /// The run; `None` for the kept output of a run without a result.
    pub run: Option<RequestId>,
    /// The name of the prompt.
    pub file: String,
    /// The output or the error output.
    pub output: ResultFile,
    /// Position of the first wanted byte.
    pub offset: u64,
}

/// A part of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TailPart {
    /// Identifies the client; 0 in the message to it.
    pub tail: u64,
    /// A label of the run; empty if it has ended.
    pub run: String,
    /// Position of the first byte.
    pub offset: u64,
    /// At most [`super::RESULT_PART_BYTES_MAX`] bytes.
    pub bytes: Vec<u8>,
    /// No part follows.
    pub ended: bool,
    /// The run has ended without a result, and another run follows.
    pub again: bool,
    /// A text for people; empty if there is none.
    pub note: String,
}

impl RequestId {
    /// A label of the run, which does not allow to report on it.
    #[must_use]
    pub fn label(&self) -> String {
        self.as_str().chars().take(LABEL_BYTES).collect()
    }
}

impl TailQuery {
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        out.text(FILE, &self.file);
        out.text(OUTPUT, self.output.ending());
        out.literal(OFFSET, self.offset);
        out.maybe_text(RUN, self.run.as_deref());
        if self.next {
            out.literal(NEXT, true);
        }
    }

    pub(super) fn read(fields: &Fields, kind: &str) -> Result<Self, MessageError> {
        let (output, offset) = (output(fields, kind)?, offset(fields, kind)?);
        let (run, next) = (text(fields, RUN), is_true(fields, NEXT));
        Ok(Self { file: needed(fields, FILE, kind)?, output, offset, run, next })
    }
}

impl TailOrder {
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        out.literal(TAIL, self.tail);
        out.maybe_text(REQ_ID, self.run.as_ref().map(RequestId::as_str));
        out.text(FILE, &self.file);
        out.text(OUTPUT, self.output.ending());
        out.literal(OFFSET, self.offset);
    }

    pub(super) fn read(fields: &Fields, kind: &str) -> Result<Self, MessageError> {
        Ok(Self {
            tail: tail(fields, kind)?,
            run: text(fields, REQ_ID).map(RequestId::new),
            file: needed(fields, FILE, kind)?,
            output: output(fields, kind)?,
            offset: offset(fields, kind)?,
        })
    }
}

impl TailPart {
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        out.literal(TAIL, self.tail);
        out.text(RUN, &self.run);
        out.literal(OFFSET, self.offset);
        out.literal(ENDED, self.ended);
        if self.again {
            out.literal(AGAIN, true);
        }
        write_bytes(&self.bytes, out);
    }

    pub(super) fn read(fields: &Fields, kind: &str) -> Result<Self, MessageError> {
        Ok(Self {
            tail: tail(fields, kind)?,
            run: text(fields, RUN).unwrap_or_default(),
            offset: offset(fields, kind)?,
            bytes: bytes(fields, kind)?,
            ended: is_true(fields, ENDED),
            again: is_true(fields, AGAIN),
            note: text(fields, super::MSG).unwrap_or_default(),
        })
    }
}

fn is_true(fields: &Fields, name: &str) -> bool {
    matches!(fields.get(name), Some(Scalar::Bool(true)))
}

fn tail(fields: &Fields, kind: &str) -> Result<u64, MessageError> {
    let number = needed(fields, TAIL, kind)?;
    number.parse().map_err(|_| MessageError::Malformed(format!("{kind} has no valid {TAIL:?}")))
}
