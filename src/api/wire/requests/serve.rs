//! AGENT/SERVE: an agent offers the outputs of its runs. The request stays parked until the controller wants a part. The answer
//! names the part, and the next AGENT/SERVE contains it. So an agent needs no port, and is asked for one part at a time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{FromAgent, Kind, Reader, Refusal, words};
use crate::wire::typed::{bad, truth};
use base::json::ObjectWriter;
use base::{Fields, OutputId, Round, Scalar, Wall};

/// The offer of an agent, with the part that it was asked for.
pub const AGENT_SERVE: Kind = Kind::of_agents("AGENT/SERVE", |reader| Ok(FromAgent::Serve(reader.served()?)));

/// A message of an agent about its outputs. Each one replaces the offer before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// Only the offer.
    Offer,
    /// The answer to [`Wanted::ask`] with this number.
    Part(u64, Part),
    /// A watched output has grown.
    Grown(OutputId),
}

/// The answer of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A part of a run that goes on.
    Live {
        /// The bytes. They are empty if the output is not longer than the wanted offset. The agent then watches it, if
        /// [`Wanted::watch`] is set.
        data: Vec<u8>,
        /// The present length of the output.
        size: u64,
        /// The bytes between the wanted offset and `data`, if they are gone.
        gap: Option<Gap>,
        /// When the output was written to last, by the clock of the agent, if there are bytes.
        written: Option<Wall>,
    },
    /// A part of a run that has ended.
    Kept {
        /// The bytes.
        data: Vec<u8>,
        /// The number of bytes that were kept, from the first.
        kept: u64,
        /// Why the rest was not kept.
        cut: Option<String>,
    },
    /// The agent does not have the output, for this reason.
    Missing(String),
}

/// Bytes in the middle of an output that its agent has dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The offset of the first byte behind them.
    pub end: u64,
    /// Why they are gone.
    pub why: String,
}

/// The part of an output that the controller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number that the answer repeats.
    pub ask: u64,
    /// The output.
    pub output: OutputId,
    /// The first byte.
    pub offset: u64,
    /// The largest number of bytes.
    pub limit: u64,
    /// Whether to watch an output that is not longer than the offset.
    pub watch: bool,
}

impl Reader<'_> {
    fn served(&self) -> Result<Served, Refusal> {
        let Some(ask) = self.number(words::ASK)? else {
            return Ok(if self.fields.get(words::TASK_ID).is_some() {
                Served::Grown(self.output_id()?)
            } else {
                Served::Offer
            });
        };
        let missing = self.text(words::MISSING).map(str::to_owned);
        let has_bytes = [words::KEPT, words::TOTAL].iter().any(|name| self.fields.get(name).is_some());
        if let Some(reason) = missing.clone().filter(|_| !has_bytes) {
            return Ok(Served::Part(ask, Part::Missing(reason)));
        }
        let unreadable = || bad(words::BASE64, &Scalar::Text(String::new()), "bytes in base 64");
        let data = read_data(&self.fields).ok_or_else(unreadable)?;
        Ok(Served::Part(
            ask,
            match self.number(words::KEPT)? {
                Some(kept) => Part::Kept { data, kept, cut: missing },
                None => Part::Live {
                    data,
                    size: self.number(words::TOTAL)?.unwrap_or_default(),
                    gap: self.number(words::OFFSET)?.zip(missing).map(|(end, why)| Gap { end, why }),
                    written: self.fields.moment(words::TIME),
                },
            },
        ))
    }

    fn output_id(&self) -> Result<OutputId, Refusal> {
        let stream = self.fields.get(words::STREAM).unwrap_or(&Scalar::Null);
        let known = stream.as_text().and_then(words::stream_of);
        let stream = known.ok_or_else(|| bad(words::STREAM, stream, "STDOUT, STDERR or REPORT"))?;
        Ok(OutputId { task: self.task_id()?, round: self.round()?.unwrap_or_default(), stream })
    }
}

/// Writes a message of an agent.
pub(in crate::wire) fn write(served: &Served, writer: &mut ObjectWriter<'_>) {
    match served {
        Served::Offer => {}
        Served::Grown(output) => write_output(output, writer),
        Served::Part(ask, part) => {
            writer.literal(words::ASK, ask);
            match part {
                Part::Live { data, size, gap, written } => {
                    writer.literal(words::TOTAL, size);
                    writer.maybe_moment(words::TIME, *written);
                    if let Some(Gap { end, why }) = gap {
                        writer.literal(words::OFFSET, end);
                        writer.text(words::MISSING, why);
                    }
                    writer.text(words::BASE64, &STANDARD.encode(data));
                }
                Part::Kept { data, kept, cut } => {
                    writer.literal(words::KEPT, kept);
                    writer.maybe_text(words::MISSING, cut.as_deref());
                    writer.text(words::BASE64, &STANDARD.encode(data));
                }
                Part::Missing(reason) => writer.text(words::MISSING, reason),
            }
        }
    }
}

fn write_output(output: &OutputId, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &output.task.to_string());
    writer.literal(words::ROUND, output.round);
    writer.text(words::STREAM, words::stream(output.stream));
}

impl Wanted {
    pub(in crate::wire) fn write(&self, writer: &mut ObjectWriter<'_>) {
        writer.literal(words::ASK, self.ask);
        write_output(&self.output, writer);
        writer.literal(words::OFFSET, self.offset);
        writer.literal(words::LIMIT, self.limit);
        writer.literal(words::WATCH, self.watch);
    }

    /// Reads a part as written by [`Self::write`]; `None` for an invalid one.
    pub(in crate::wire) fn read(fields: &Fields) -> Option<Self> {
        let round = u32::try_from(fields.count(words::ROUND)?).ok().map(Round)?;
        let stream = words::stream_of(fields.text(words::STREAM)?)?;
        Some(Self {
            ask: fields.count(words::ASK)?,
            output: OutputId { task: fields.text(words::TASK_ID)?.parse().ok()?, round, stream },
            offset: fields.count(words::OFFSET)?,
            limit: fields.count(words::LIMIT)?,
            watch: truth(fields, words::WATCH).ok().flatten().unwrap_or_default(),
        })
    }
}

/// Writes bytes: as text if they are UTF-8, else in base 64.
pub(super) fn write_data(data: &[u8], writer: &mut ObjectWriter<'_>) {
    match str::from_utf8(data) {
        Ok(text) => writer.text(words::TEXT, text),
        Err(_) => writer.text(words::BASE64, &STANDARD.encode(data)),
    }
}

/// Reads bytes as written by [`write_data`]; `None` if they are missing or invalid.
pub(super) fn read_data(fields: &Fields) -> Option<Vec<u8>> {
    match fields.text(words::TEXT) {
        Some(text) => Some(text.as_bytes().to_vec()),
        None => STANDARD.decode(fields.text(words::BASE64)?).ok(),
    }
}
