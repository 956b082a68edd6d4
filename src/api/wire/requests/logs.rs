//! TASK/OUTPUT: a part of an output of a task, whether the task runs or has ended.
//!
//! A client asks for one part after the other, so a slow client delays no other. The data of an answer is `__TEXT__`, or
//! `__BASE64__` if it is not UTF-8. Where bytes are missing, `__OFFSET__` of the answer is larger than that of the request, and
//! `__MISSING__` has the reason.

use std::time::Duration;

use super::query::millis;
use super::serve::{read_data, write_data};
use super::{Ask, Filter, Kind, Reader, Refusal, Request, words};
use crate::wire::client::{Selector, view};
use crate::wire::typed::{bad, truth};
use base::code::Code;
use base::json::ObjectWriter;
use base::{Fields, OutputId, Phase, Round, Stream, Wall};

/// A part of an output of a task.
pub const TASK_OUTPUT: Kind = Kind::question("TASK/OUTPUT", |reader| Ok(Request::Output(Box::new(reader.output()?))));

/// The wanted part of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputAsk {
    /// The task: by its id or its given id.
    pub filter: Filter,
    /// The round; `None` is the newest.
    pub round: Option<Round>,
    /// The output.
    pub stream: Stream,
    /// The first byte.
    pub offset: u64,
    /// The largest number of bytes; `None` for as many as fit into one answer.
    pub limit: Option<u64>,
    /// How long the answer may wait for a byte or for the end.
    pub wait: Option<Duration>,
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputPart {
    /// The output.
    pub output: OutputId,
    /// The phase of its task.
    pub phase: Phase,
    /// The first byte of the data in the output.
    pub offset: u64,
    /// The bytes.
    pub data: Vec<u8>,
    /// Whether the output is complete and nothing follows.
    pub end: bool,
    /// The length of the output, or the present length while the run goes on; `None` if it is unknown.
    pub total: Option<u64>,
    /// If not all bytes were kept: the number of kept bytes, from the first.
    pub kept: Option<u64>,
    /// Why bytes are missing before the data, or at the end: one sentence.
    pub missing: Option<String>,
    /// If there is data of a running task: when the run wrote last, by the clock of its agent.
    pub written: Option<Wall>,
}

impl Reader<'_> {
    fn output(&self) -> Result<OutputAsk, Refusal> {
        let mut selected = Fields::new();
        for name in [words::TASK_ID, words::GIVEN_ID] {
            if let Some(value) = self.fields.get(name) {
                selected.set(name, value.clone());
            }
        }
        if selected.is_empty() {
            let message = "__TASK_ID__ is missing; set it, or __GIVEN_ID__, to the task whose output is wanted";
            return Err(Refusal::new(Code::InvalidTaskId, message));
        }
        let stream = match self.fields.get(words::STREAM) {
            None => Stream::Stdout,
            Some(value) => value
                .as_text()
                .and_then(words::stream_of)
                .ok_or_else(|| bad(words::STREAM, value, "STDOUT, STDERR or REPORT"))?,
        };
        Ok(OutputAsk {
            filter: Filter::new(&selected),
            round: self.round()?,
            stream,
            offset: self.number(words::OFFSET)?.unwrap_or_default(),
            limit: self.number(words::LIMIT)?,
            wait: self.wait()?,
        })
    }
}

/// The end of `__MISSING__` if the agent with the bytes may come back.
pub const ABSENT: &str = "does not offer outputs at present";

/// Requests the bytes of an output of the newest selected task from an offset on; with a time, the reply waits until there
/// are some, the output has ended or the time has passed.
#[must_use]
pub fn output(selector: &Selector, stream: Stream, offset: u64, wait: Option<Duration>) -> Ask<OutputView> {
    let ask = Ask::new(TASK_OUTPUT.word, |frame| crate::wire::client::decode(frame).map(OutputView::from));
    let ask = ask.matching(selector).with(words::STREAM, words::stream(stream)).with(words::OFFSET, offset);
    match wait {
        Some(wait) => ask.with(words::WAIT, millis(wait)),
        None => ask,
    }
}

impl<A> Ask<A> {
    /// Restricts the request to the output of this round.
    #[must_use]
    pub fn in_round(self, round: u64) -> Self {
        self.with(words::ROUND, round)
    }

    /// Restricts the answer to this number of bytes.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        self.with(words::LIMIT, bytes)
    }
}

/// Writes a part of an output.
pub(in crate::wire) fn write(part: &OutputPart, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &part.output.task.to_string());
    writer.literal(words::ROUND, part.output.round);
    writer.text(words::STREAM, words::stream(part.output.stream));
    writer.text(words::STATUS, words::phase(part.phase));
    writer.literal(words::OFFSET, part.offset);
    writer.literal(words::BYTES, part.data.len());
    writer.literal(words::END, part.end);
    writer.maybe(words::TOTAL, part.total);
    writer.maybe(words::KEPT, part.kept);
    writer.maybe_text(words::MISSING, part.missing.as_deref());
    writer.maybe_moment(words::TIME, part.written);
    write_data(&part.data, writer);
}

view! {
    /// A part of an output.
    OutputView {
        /// The task.
        task: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// The number of the round.
        round: u64 = |fields| fields.count(words::ROUND).unwrap_or_default();
        /// The word for the phase of the task.
        status: &str = |fields| fields.text(words::STATUS).unwrap_or_default();
        /// The first byte of the data in the output.
        offset: u64 = |fields| fields.count(words::OFFSET).unwrap_or_default();
        /// Whether the output is complete and nothing follows.
        is_end: bool = |fields| truth(fields, words::END).ok().flatten().unwrap_or_default();
        /// The length of the output, as far as it is known.
        total: Option<u64> = |fields| fields.count(words::TOTAL);
        /// Why bytes are missing.
        missing: Option<&str> = |fields| fields.text(words::MISSING);
        /// When a running task wrote last.
        written_at: Option<Wall> = |fields| fields.moment(words::TIME);
        /// The bytes; none if they cannot be read.
        data: Vec<u8> = |fields| read_data(fields).unwrap_or_default();
    }
}
