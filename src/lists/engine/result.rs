//! The result of a task of a list: its outputs, and the sentences that are added to its stderr.

use crate::wire::{Order, TaskResult};
use base::lists::ListTaskId;
use base::{ExitCode, Now};

/// One output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// The whole length.
    pub length: u64,
}

/// When a command ran, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSpan {
    pub(super) started: u64,
    pub(super) ended: u64,
}

/// The result of a task that was not started before its `until`.
pub(super) fn not_started(order: &Order, now: Now) -> TaskResult {
    of_sentence(order.id, now, &format!("not started before {}", order.until))
}

/// The result of a task whose command cannot be started.
pub(super) fn failed_to_start(id: ListTaskId, now: Now, reason: &str) -> TaskResult {
    of_sentence(id, now, &format!("could not be started: {reason}"))
}

fn of_sentence(id: ListTaskId, now: Now, sentence: &str) -> TaskResult {
    let at = super::seconds(now.wall);
    TaskResult { id, started: at, ended: at, out: Vec::new(), err: format!("{sentence}\n").into_bytes() }
}

/// The result of a command that has run. The exit code counts only if it says that a signal ended the command, which then could not
/// write a word about its end.
pub(super) fn result(
    id: ListTaskId,
    ran: RunSpan,
    exit: Option<ExitCode>,
    (out, mut err): (Output, Output),
    notes: Vec<String>,
    bytes_max: usize,
) -> TaskResult {
    let signal = exit.filter(|exit| exit.0 < 0).map(|exit| format!("ended by signal {}", exit.0.unsigned_abs()));
    let cut = [("stdout", &out), ("stderr", &err)].into_iter().filter(|(_, output)| output.length > bytes_max as u64);
    let cut: Vec<String> = cut
        .map(|(stream, Output { length, .. })| {
            format!("{stream} has {length} bytes; those after the first {bytes_max} are left out")
        })
        .collect();
    for note in signal.into_iter().chain(notes).chain(cut) {
        if !err.bytes.is_empty() && !err.bytes.ends_with(b"\n") {
            err.bytes.push(b'\n');
        }
        err.bytes.extend(note.into_bytes());
        err.bytes.push(b'\n');
    }
    TaskResult { id, started: ran.started, ended: ran.ended, out: out.bytes, err: err.bytes }
}
