//! The state of a prompt master: its own answer to STATUS, or the counts of its folders.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use super::clock;
use super::json_dial::{DialError, Dialled, Server, dial};
use super::json_wire::Decoded;
use super::prompt_create::{FOLDERS, TASKS};
use crate::engine::master::{FileName, count_prompts};
use crate::protocol::prompt::{FromMaster, FromWorker, MASTER_FRAME_BYTES_MAX, MessageError, Order, Status};
use crate::shell::readable;

/// Why a master did not answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No master answers.
    #[error("no prompt master answers at {host}:{port}: {source}")]
    NoMaster {
        /// Host of the master.
        host: String,
        /// Its port.
        port: u16,
        /// Error of the system.
        source: io::Error,
    },
    /// The master refuses to answer.
    #[error("the prompt master at {host}:{port} refuses: {reason}")]
    Refused {
        /// Host of the master.
        host: String,
        /// Its port.
        port: u16,
        /// Its reason.
        reason: String,
    },
}

/// The numbers of files in the four folders, without results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In `pending/`.
    pub pending: u64,
    /// In `working/`.
    pub working: u64,
    /// In `done/`.
    pub done: u64,
    /// In `failed/`.
    pub failed: u64,
}

/// Asks the master. `timeout` applies to each step, and to the whole answer.
///
/// # Errors
/// [`AskError`].
pub fn ask(master: &Server, secret: Option<String>, timeout: Duration) -> Result<Status, AskError> {
    send(master, &FromWorker::Status { secret }, timeout)
}

/// Orders the master to change what it does; returns its state afterwards. `timeout` as in [`ask`].
///
/// # Errors
/// [`AskError`].
pub fn order(master: &Server, order: Order, secret: Option<String>, timeout: Duration) -> Result<Status, AskError> {
    send(master, &FromWorker::Order { order, secret }, timeout)
}

fn send(master: &Server, message: &FromWorker, timeout: Duration) -> Result<Status, AskError> {
    let Server { host, port, .. } = master;
    let (host, port) = (host.clone(), *port);
    let refused = |reason| AskError::Refused { host: host.clone(), port, reason };
    let failed = |error| AskError::NoMaster { host: host.clone(), port, source: error };
    let dialled = dial(master, timeout, MASTER_FRAME_BYTES_MAX).map_err(|error| match error {
        DialError::Unreachable(reason) => failed(io::Error::other(reason)),
        DialError::Denied(reason) => refused(reason),
    })?;
    let Dialled { mut stream, mut wire, mut splitter } = dialled;
    stream.set_write_timeout(Some(timeout)).map_err(failed)?;
    stream.write_all(&wire.encode(message.encode())).map_err(failed)?;
    let until = clock::now().mono + timeout;
    let mut bytes = [0; 16 << 10];
    loop {
        let odd = |error: String| failed(io::Error::new(io::ErrorKind::InvalidData, error));
        while let Some(object) = splitter.next_object().map_err(|error| odd(error.to_string()))? {
            match FromMaster::parse(object) {
                Ok(FromMaster::StatusAck(status)) => return Ok(*status),
                Ok(FromMaster::Refused(reason)) => {
                    return Err(refused(reason));
                }
                Ok(_) | Err(MessageError::UnknownType(_)) => {}
                Err(error) => return Err(odd(error.to_string())),
            }
        }
        let left = until.since(clock::now().mono);
        if left.is_zero() {
            return Err(failed(io::ErrorKind::TimedOut.into()));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut bytes) {
            Ok(0) => return Err(odd("it closes the connection; a master of the document knows no STATUS".to_owned())),
            Ok(length) => {
                let bytes = bytes.get(..length).unwrap_or_default();
                let Decoded { refusal, .. } = wire.decode(bytes, MASTER_FRAME_BYTES_MAX, &mut splitter);
                refusal.map_or(Ok(()), |reason| Err(odd(reason)))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The system's name for a read time-out would not help the reader.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Counts the prompts below a root, with or without a running master.
///
/// # Errors
/// When there is no `.tasks/`, or it cannot be read.
pub fn count(root: &Path) -> io::Result<Counts> {
    let tasks = root.join(TASKS);
    fs::read_dir(&tasks)?;
    let [pending, working, done, failed] = FOLDERS.map(|folder| list(&tasks.join(folder)));
    let [pending, working, done, failed] = count_prompts(&[pending?, working?, done?, failed?]);
    Ok(Counts { pending, working, done, failed })
}

/// The names of the files in a folder, which may not exist.
pub(super) fn list(folder: &Path) -> io::Result<BTreeSet<FileName>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        // An entry may be renamed away meanwhile.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            names.insert(FileName::new(entry.file_name()));
        }
    }
    Ok(names)
}

/// Waits until the descriptor is readable, or the time has passed; returns which.
pub fn wait(fd: &impl AsFd, time: Duration) -> bool {
    readable::is_readable(fd, Some(time))
}

impl From<&Status> for Counts {
    fn from(status: &Status) -> Self {
        let Status { pending, working, done, failed, .. } = *status;
        Self { pending, working, done, failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_counted_and_their_results_are_not() {
        let root = tempfile::tempdir().unwrap();
        assert!(count(root.path()).is_err());
        let done = root.path().join(".tasks/done");
        fs::create_dir_all(done.join("folder")).unwrap();
        assert_eq!(count(root.path()).unwrap(), Counts::default());
        for name in ["a", "a.out", "a.err", "a.json", "b.json", ".hidden", "b.json.out", "c.out.txt"] {
            fs::write(done.join(name), "").unwrap();
        }
        assert_eq!(count(root.path()).unwrap(), Counts { done: 3, ..Counts::default() });
        let failed = root.path().join(".tasks/failed");
        fs::create_dir(&failed).unwrap();
        for name in ["a.out", "c.out", "c.err", "c.json"] {
            fs::write(failed.join(name), "").unwrap();
        }
        assert_eq!(count(root.path()).unwrap(), Counts { done: 3, ..Counts::default() }, "of runs before the last");
    }
}
