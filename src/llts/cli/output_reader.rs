//! Copies an output of a task, part by part, to stdout or stderr. Each part is asked for when the one before it has been
//! written, so a slow reader holds back only itself.

use std::io;
use std::time::Duration;

use api::client::{Client, ClientError, PARK_MAX};
use api::wire::client::{Selector, TaskView};
use api::wire::requests::logs::{ABSENT, OutputView, output};
use base::{Stream, exact_tail};
use proc::clock;
use term::exit::Failure;
use term::output::{Sink, note};

/// Refusals in a row for want of room, or of an agent that answers, after which a reader gives up. Each takes seconds.
const REFUSALS_MAX: u32 = 5;

/// How long the agent of a finished task may be absent: a supervisor restarts one within seconds, also after some failures in a row.
pub(super) const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// The same for a reader that follows a task into its next round: the run of a machine that is gone must not hold that up.
pub(super) const RESTART_MAX: Duration = Duration::from_secs(5);

/// The pause before an absent agent is asked for again. The controller has no push for its return.
const ABSENCE_PAUSE: Duration = Duration::from_millis(200);

fn absence_pause() {
    let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: ABSENCE_PAUSE.subsec_nanos().into() };
    // A signal may cut it short.
    let _ = rustix::event::poll(&mut [], Some(&pause));
}

/// An output of one round of a task.
pub(super) struct OutputReader<'a> {
    pub(super) client: &'a Client,
    pub(super) task: &'a str,
    pub(super) stream: Stream,
    /// `None` is the newest.
    pub(super) round: Option<u64>,
    /// Whether to wait for bytes that have not been written yet.
    pub(super) follows: bool,
    /// How long to ask again for bytes whose agent is being restarted.
    pub(super) patience: Duration,
}

/// The result of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// To the end, or, without following, to the present end.
    All {
        /// The round that was copied.
        round: u64,
        /// Whether bytes were missing.
        is_cut: bool,
    },
    /// The task has finished in an earlier round.
    NoSuchRound,
    /// The reader of this program has closed its end.
    Closed,
}

/// The name of an output for people.
pub(super) const fn name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Report => "report.log",
    }
}

impl OutputReader<'_> {
    /// Copies everything from the offset on. The newest round is that of the first answer: if another round follows meanwhile,
    /// an offset means nothing in it.
    ///
    /// # Errors
    /// When the controller refuses, or does not answer, or the bytes cannot be written.
    pub(super) fn copy(&mut self, mut offset: u64, sink: &mut Sink) -> Result<Copied, Failure> {
        let mut is_cut = false;
        let mut until = None;
        loop {
            let part = match self.part(offset, None) {
                Ok(part) => part,
                Err(ClientError::Reply(reply)) if self.round.is_some() && reply.is_bad_field() => {
                    return Ok(Copied::NoSuchRound);
                }
                Err(error) => return Err(error.into()),
            };
            self.round = Some(part.round());
            let is_absent = part.missing().is_some_and(|why| why.ends_with(ABSENT)) && !is_cut;
            if is_absent && clock::now().mono < *until.get_or_insert_with(|| clock::now().mono + self.patience) {
                absence_pause();
                continue;
            }
            // One reason is told once, but each gap, because a reader that is slower than the run meets several.
            if let Some(why) = part.missing().filter(|_| !is_cut || part.offset() > offset) {
                is_cut = true;
                self.note_missing(&part, offset, why);
            }
            let data = part.data();
            match sink.write(&data) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Copied::Closed),
                Err(error) => return Err(Failure::failed(format!("cannot write the output: {error}"))),
            }
            offset = part.offset() + data.len() as u64;
            if part.is_end() || data.is_empty() && !self.follows {
                return Ok(Copied::All { round: part.round(), is_cut });
            }
        }
    }

    /// Where the last lines begin. Reads backwards, part by part.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub(super) fn tail(&mut self, lines: u64) -> Result<u64, Failure> {
        let probe = self.part(0, Some(0))?;
        self.round = Some(probe.round());
        let mut end = probe.total().unwrap_or_default();
        let mut left = lines;
        let mut is_last = true;
        while end > 0 {
            let from = end.saturating_sub(BACK_BYTES);
            let part = self.part(from, Some(end - from))?;
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

    fn part(&self, offset: u64, limit: Option<u64>) -> Result<OutputView, ClientError> {
        let park = if self.follows && limit.is_none() { PARK_MAX } else { Duration::ZERO };
        let mut ask = output(&Selector::task(self.task), self.stream, offset, Some(park));
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

    fn note_missing(&self, part: &OutputView, offset: u64, why: &str) {
        let (name, task) = (name(self.stream), self.task);
        let missing = match part.offset().saturating_sub(offset) {
            0 => String::new(),
            bytes => format!("{bytes} bytes from byte {offset} on are missing: "),
        };
        note(&format!("{name} of {task}: {missing}{why}"));
    }
}

/// Bytes of one step backwards: what one answer has room for, with any configuration.
const BACK_BYTES: u64 = 16 << 10;

/// Prints an output of the last round of a finished task: from the result if that has all of it, otherwise from its agent.
/// False if bytes are missing.
pub(super) fn print_finished(
    client: &Client,
    task: &TaskView,
    stream: Stream,
    patience: Duration,
    sink: &mut Sink,
) -> bool {
    let (tail, total) = match stream {
        Stream::Stdout => (task.stdout(), task.output_bytes().map(|bytes| bytes.stdout)),
        Stream::Stderr => (task.stderr(), task.output_bytes().map(|bytes| bytes.stderr)),
        Stream::Report => (task.report(), task.output_bytes().map(|bytes| bytes.report)),
    };
    if total.is_none_or(|total| exact_tail(tail, total) == Some(0)) {
        if let Err(error) = sink.write(tail.as_bytes())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            note(&format!("{}: cannot write the output: {error}", name(stream)));
        }
        return true;
    }
    let mut reader =
        OutputReader { client, task: task.id(), stream, round: Some(task.round()), follows: false, patience };
    match reader.copy(0, sink) {
        Ok(copied) => !matches!(copied, Copied::NoSuchRound | Copied::All { is_cut: true, .. }),
        Err(failure) => {
            note(&format!("{}: {}", name(stream), failure.sentence));
            if sink.is_unused() {
                // Of a controller that does not know TASK/OUTPUT, the end is better than nothing.
                let _ = sink.write(tail.as_bytes());
            }
            false
        }
    }
}
