//! A client that follows the output of a prompt, through its master, from any machine. It asks for one part after the other.

use std::io::Write;
use std::time::Duration;

use super::json_dial::Server;
use super::prompt_talk::{AskError, Talk};
use crate::protocol::prompt::{FromMaster, FromWorker, RESULT_PART_BYTES_MAX, TailQuery};

/// The pause after a part that was not full: a command that writes single letters costs 20 messages a second at most.
const PAUSE: Duration = Duration::from_millis(50);

/// The end of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailEnd {
    /// All of it was written.
    Whole,
    /// The receiver has gone.
    Broken,
}

/// Writes the output to `out` until the run has ended, and texts for people to `tell`. `timeout` is for the connection.
///
/// # Errors
/// [`AskError`].
pub fn tail(
    master: &Server,
    secret: Option<&str>,
    timeout: Duration,
    mut query: TailQuery,
    out: &mut impl Write,
    mut tell: impl FnMut(&str),
) -> Result<TailEnd, AskError> {
    let mut talk = Talk::open(master, timeout)?;
    loop {
        talk.send(&FromWorker::Tail { query: Box::new(query.clone()), secret: secret.map(str::to_owned) })?;
        let part = talk.answer(None, |message| match message {
            FromMaster::TailPart(part) => Some(*part),
            _ => None,
        })?;
        if !part.note.is_empty() {
            tell(&part.note);
        }
        if out.write_all(&part.bytes).and_then(|()| out.flush()).is_err() {
            return Ok(TailEnd::Broken);
        }
        if part.ended {
            return Ok(TailEnd::Whole);
        }
        query.offset += part.bytes.len() as u64;
        if !part.run.is_empty() {
            query.run = Some(part.run);
        }
        if !part.bytes.is_empty() && part.bytes.len() < RESULT_PART_BYTES_MAX {
            std::thread::park_timeout(PAUSE);
        }
    }
}
