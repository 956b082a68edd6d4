//! A client that follows the output of a prompt, through its master, from any machine. The client requests one part after the other.
//! After a lost connection it connects again, and continues where the last part has ended. After a run without a result it
//! follows the next run of the prompt.

use std::io::Write;
use std::time::Duration;

use crate::files::talk::{RequestError, Talk};
use crate::wire::{FromMaster, FromWorker, RESULT_PART_BYTES_MAX, TailPart, TailQuery};
use base::Mono;
use proc::clock;
use zmtp::json::json_dial::Server;

/// The pause after a part that was not full: a command that writes single letters costs 20 messages a second at most.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause after the first failed attempt to connect again; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The end of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailEnd {
    /// All of it was written.
    Whole,
    /// The receiver has gone.
    Broken,
}

/// The master, and the limits of a client.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    /// The master.
    pub master: &'a Server,
    /// Secret of the master.
    pub secret: Option<&'a str>,
    /// Time limit for making the connection, and for sending a message.
    pub timeout: Duration,
    /// The longest absence of a master that was there before; `None` is for ever.
    pub patience: Option<Duration>,
    /// The longest pause between two attempts to reach the master.
    pub pause_max: Duration,
}

/// Writes the output to `out` until the run has ended, and passes texts for people to `notify`.
///
/// # Errors
/// [`RequestError`].
pub fn tail(
    source: &Source<'_>,
    mut query: TailQuery,
    out: &mut impl Write,
    mut notify: impl FnMut(&str),
) -> Result<TailEnd, RequestError> {
    let mut talk = Talk::open(source.master, source.timeout)?;
    loop {
        let part = match ask(&mut talk, source, &query) {
            Ok(part) => part,
            Err(error @ RequestError::NoMaster { .. }) => {
                talk = connect_again(source, &error, &mut notify)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        if !part.note.is_empty() {
            notify(&part.note);
        }
        if out.write_all(&part.bytes).and_then(|()| out.flush()).is_err() {
            return Ok(TailEnd::Broken);
        }
        if part.ended && !(part.again && query.run.is_some()) {
            return Ok(TailEnd::Whole);
        }
        if part.bytes.len() < RESULT_PART_BYTES_MAX {
            std::thread::park_timeout(PAUSE);
        }
        advance(&mut query, part, &mut notify);
    }
}

/// Makes the query for the part after this one.
fn advance(query: &mut TailQuery, part: TailPart, notify: &mut impl FnMut(&str)) {
    if part.ended {
        notify("waiting for the output of the next run");
        (query.offset, query.next) = (0, true);
        return;
    }
    query.offset += part.bytes.len() as u64;
    if !part.run.is_empty() && query.run.as_ref() != Some(&part.run) {
        (query.run, query.next) = (Some(part.run), false);
    }
}

fn ask(talk: &mut Talk<'_>, source: &Source<'_>, query: &TailQuery) -> Result<TailPart, RequestError> {
    let secret = source.secret.map(str::to_owned);
    talk.send(&FromWorker::Tail { query: Box::new(query.clone()), secret })?;
    talk.answer(None, |message| match message {
        FromMaster::TailPart(part) => Some(*part),
        _ => None,
    })
}

/// Connects to a master that was there before, and may be being restarted.
fn connect_again<'a>(
    source: &Source<'a>,
    error: &RequestError,
    notify: &mut impl FnMut(&str),
) -> Result<Talk<'a>, RequestError> {
    let until: Option<Mono> = source.patience.map(|patience| clock::now().mono + patience);
    notify(&format!("{error}; trying again"));
    let mut pause = FIRST_PAUSE;
    loop {
        std::thread::park_timeout(pause);
        match Talk::open(source.master, source.timeout) {
            Ok(talk) => {
                notify("the prompt master is there again");
                return Ok(talk);
            }
            Err(error @ RequestError::NoMaster { .. }) => {
                if until.is_some_and(|until| until.since(clock::now().mono).is_zero()) {
                    return Err(error);
                }
                pause = (pause * 2).min(source.pause_max);
            }
            Err(error) => return Err(error),
        }
    }
}
