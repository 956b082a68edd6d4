//! Copies an output of a task, part by part, to stdout or stderr.

use std::io;
use std::time::Duration;

use api::wire::client::TaskView;
use base::{Stream, exact_tail};
use llts_client::{Client, ClientError, Output};
use term::exit::Failure;
use term::output::{Sink, note};

/// How long to wait for the absent agent of a finished task: a supervisor restarts one within seconds, even after repeated failures.
pub(super) const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// The same for a reader that follows a task into its next round: a run on a lost machine must not delay that.
pub(super) const RESTART_MAX: Duration = Duration::from_secs(5);

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
    /// The reader of this program's output has closed its end.
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

/// Copies all available bytes of the output.
///
/// # Errors
/// When the controller refuses, or does not answer, or the bytes cannot be written.
pub(super) fn copy(mut output: Output<'_>, sink: &mut Sink) -> Result<Copied, Failure> {
    let mut is_cut = false;
    loop {
        let part = match output.next_part() {
            Ok(Some(part)) => part,
            Ok(None) => return Ok(Copied::All { round: output.round().unwrap_or_default(), is_cut }),
            Err(ClientError::Reply(reply)) if output.round().is_some() && reply.is_bad_field() => {
                return Ok(Copied::NoSuchRound);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(gap) = part.gap {
            is_cut = true;
            note(&format!("{} of {}: {gap}", name(output.stream()), output.task()));
        }
        match sink.write(&part.data) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Copied::Closed),
            Err(error) => return Err(Failure::failed(format!("cannot write the output: {error}"))),
        }
    }
}

/// Prints an output of a finished task's last round: from the result if that has all of it, otherwise from the agent. Returns false if
/// bytes are missing.
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
    let output = client.logs(task.id(), stream).in_round(task.round()).patient(patience);
    match copy(output, sink) {
        Ok(copied) => !matches!(copied, Copied::NoSuchRound | Copied::All { is_cut: true, .. }),
        Err(failure) => {
            note(&format!("{}: {}", name(stream), failure.sentence));
            if sink.is_unused() {
                // If the controller does not know TASK/OUTPUT, the tail is better than nothing.
                let _ = sink.write(tail.as_bytes());
            }
            false
        }
    }
}
