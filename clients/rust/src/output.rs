//! An output of a task, part by part. Each part is asked for when its reader has taken the one before it, so a slow reader holds back
//! only itself.

use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

use api::wire::client::Selector;
use api::wire::requests::logs::{ABSENT, OutputView, output};
use base::{Mono, Stream};
use proc::clock;

use crate::client::{Client, ClientError, PARK_MAX};

/// Refusals in a row for want of room, or of an agent that answers, after which a reader gives up. Each takes seconds.
const REFUSALS_MAX: u32 = 5;

/// The pause before an absent agent is asked for again. The controller has no push for its return.
const ABSENCE_PAUSE: Duration = Duration::from_millis(200);

/// Bytes of one step backwards: what one answer has room for, with any configuration.
const BACK_BYTES: u64 = 16 << 10;

/// An output of one round of a task, made by [`Client::logs`]. It is an iterator of parts, and a reader of bytes:
///
/// ```no_run
/// # use llts_client::{Client, Stream};
/// use std::io::{BufRead as _, BufReader};
///
/// # let client = Client::here()?;
/// for line in BufReader::new(client.logs("TASK_1480000000.120000_AZazA", Stream::Stdout).follow()).lines() {
///     println!("{}", line?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Output<'a> {
    client: &'a Client,
    task: String,
    stream: Stream,
    round: Option<u64>,
    follows: bool,
    patience: Duration,
    /// The next byte that is wanted.
    offset: u64,
    is_cut: bool,
    has_ended: bool,
    /// The end of the wait for an absent agent.
    until: Option<Mono>,
    /// Bytes that were asked for and not read.
    rest: io::Cursor<Vec<u8>>,
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPart {
    /// The bytes; none in the last part.
    pub data: Vec<u8>,
    /// The bytes that are missing before these.
    pub gap: Option<Gap>,
}

/// Bytes of an output that are missing. As a text, it is a clause about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first of them.
    pub offset: u64,
    /// Their number; 0 if it is not known.
    pub bytes: u64,
    /// Why they are missing: one sentence.
    pub why: String,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, bytes, why } = self;
        match bytes {
            0 => f.write_str(why),
            bytes => write!(f, "{bytes} bytes from byte {offset} on are missing: {why}"),
        }
    }
}

impl<'a> Output<'a> {
    pub(crate) fn new(client: &'a Client, task: &str, stream: Stream) -> Self {
        Self {
            client,
            task: task.to_owned(),
            stream,
            round: None,
            follows: false,
            patience: Duration::ZERO,
            offset: 0,
            is_cut: false,
            has_ended: false,
            until: None,
            rest: io::Cursor::default(),
        }
    }

    /// The id of the task.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Which output it is.
    #[must_use]
    pub const fn stream(&self) -> Stream {
        self.stream
    }

    /// The round, once it is known.
    #[must_use]
    pub const fn round(&self) -> Option<u64> {
        self.round
    }

    /// As it is, to its end: it waits for bytes that are not written yet, also before the task starts.
    #[must_use]
    pub fn follow(self) -> Self {
        Self { follows: true, ..self }
    }

    /// As it is, for this round, from 0. Otherwise it is the newest one at the first part: an offset means nothing in another round.
    #[must_use]
    pub fn in_round(self, round: u64) -> Self {
        Self { round: Some(round), ..self }
    }

    /// As it is, where an agent that is being restarted is waited for so long, because it has bytes that nothing else has.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// As it is, from this byte on.
    #[must_use]
    pub fn from_byte(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// As it is, from the first of the last lines on. Reads backwards, part by part.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn from_last_lines(mut self, lines: u64) -> Result<Self, ClientError> {
        self.offset = self.last_lines(lines)?;
        Ok(self)
    }

    fn last_lines(&mut self, lines: u64) -> Result<u64, ClientError> {
        let probe = self.ask(0, Some(0))?;
        self.round = Some(probe.round());
        let mut end = probe.total().unwrap_or_default();
        let mut left = lines;
        let mut is_last = true;
        while end > 0 {
            let from = end.saturating_sub(BACK_BYTES);
            let part = self.ask(from, Some(end - from))?;
            let data = part.data();
            if part.offset() > from || data.is_empty() {
                // Bytes are missing: the rest is what there is.
                return Ok(from);
            }
            let mut bytes = data.as_slice();
            if std::mem::take(&mut is_last) {
                // The end of the last line begins no line.
                bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            }
            while let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Ok(from + at as u64 + 1);
                }
                bytes = bytes.get(..at).unwrap_or_default();
            }
            end = from;
        }
        Ok(0)
    }

    /// The next part; `None` at the end, or, without following, at the present end.
    ///
    /// # Errors
    /// [`ClientError`]; a refusal because of a bad field if the task has no such round.
    pub fn next_part(&mut self) -> Result<Option<OutputPart>, ClientError> {
        while !self.has_ended {
            let part = self.ask(self.offset, None)?;
            self.round = Some(part.round());
            if self.is_waited_for(&part) {
                absence_pause();
                continue;
            }
            // One reason is told once, but each gap, because a reader that is slower than the run meets several.
            let missing = part.missing().filter(|_| !self.is_cut || part.offset() > self.offset);
            let gap = missing.map(|why| Gap {
                offset: self.offset,
                bytes: part.offset().saturating_sub(self.offset),
                why: why.to_owned(),
            });
            self.is_cut |= gap.is_some();
            let data = part.data();
            self.offset = part.offset() + data.len() as u64;
            self.has_ended = part.is_end() || data.is_empty() && !self.follows;
            if !data.is_empty() || gap.is_some() || self.has_ended {
                return Ok(Some(OutputPart { data, gap }));
            }
        }
        Ok(None)
    }

    /// Whether the agent with these bytes may come back.
    fn is_waited_for(&mut self, part: &OutputView) -> bool {
        let is_absent = part.missing().is_some_and(|why| why.ends_with(ABSENT)) && !self.is_cut;
        if !is_absent {
            // Each absence is waited for anew.
            self.until = None;
            return false;
        }
        let now = clock::now().mono;
        now < *self.until.get_or_insert(now + self.patience)
    }

    fn ask(&self, offset: u64, limit: Option<u64>) -> Result<OutputView, ClientError> {
        let park = if self.follows && limit.is_none() { PARK_MAX } else { Duration::ZERO };
        let mut ask = output(&Selector::task(&self.task), self.stream, offset, Some(park));
        if let Some(round) = self.round {
            ask = ask.in_round(round);
        }
        if let Some(limit) = limit {
            ask = ask.at_most(limit);
        }
        let mut refusals = 0;
        loop {
            match self.client.ask_patiently(&ask, park) {
                Err(ClientError::Reply(reply)) if reply.is_limit() && refusals < REFUSALS_MAX => refusals += 1,
                answer => return answer,
            }
        }
    }
}

/// It ends behind the first error.
impl Iterator for Output<'_> {
    type Item = Result<OutputPart, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.next_part();
        self.has_ended |= part.is_err();
        part.transpose()
    }
}

/// Missing bytes are skipped, with a warning in the log of the program.
impl Read for Output<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.rest.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.next_part().map_err(io::Error::other)? {
                None => return Ok(0),
                Some(OutputPart { data, gap }) => {
                    if let Some(gap) = gap {
                        log::warn!("{:?} of {}: {gap}", self.stream, self.task);
                    }
                    self.rest = io::Cursor::new(data);
                }
            }
        }
    }
}

fn absence_pause() {
    let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: ABSENCE_PAUSE.subsec_nanos().into() };
    // A signal may cut it short.
    let _ = rustix::event::poll(&mut [], Some(&pause));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_absence_of_the_agent_is_waited_for_anew() {
        let client = Client::connect("tcp://127.0.0.1:1", Duration::ZERO).unwrap();
        let mut reader = Output::new(&client, "task", Stream::Stdout).patient(Duration::from_hours(1));
        let ask = output(&Selector::task("task"), Stream::Stdout, 0, None);
        let part = |frame: &str| ask.decode(frame.as_bytes()).unwrap();
        let absent = part(&format!(r#"{{"__CODE__":0,"__MISSING__":"agent a, which had it, {ABSENT}"}}"#));
        // The wait for an earlier return is long over.
        reader.until = Some(Mono::from_nanos(0));
        assert!(!reader.is_waited_for(&part(r#"{"__CODE__":0}"#)));
        assert!(reader.is_waited_for(&absent));
        reader.until = Some(Mono::from_nanos(0));
        assert!(!reader.is_waited_for(&absent), "no longer than the patience");
    }
}
