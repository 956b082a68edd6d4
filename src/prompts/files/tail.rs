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

/// The absence of a master that was there before. It ends with a part of the output: a tunnel without a master behind it takes each
/// connection, and closes it.
struct Absence {
    until: Option<Mono>,
    /// Before the next attempt.
    pause: Duration,
}

impl Absence {
    fn new(source: &Source<'_>) -> Self {
        Self { until: source.patience.map(|patience| clock::now().mono + patience), pause: FIRST_PAUSE }
    }

    fn is_too_long(&self) -> bool {
        self.until.is_some_and(|until| until.since(clock::now().mono).is_zero())
    }
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
    let mut absence: Option<Absence> = None;
    loop {
        let part = match ask(&mut talk, source, &query) {
            Ok(part) => part,
            Err(error @ RequestError::NoMaster { .. }) => {
                if absence.as_ref().is_some_and(Absence::is_too_long) {
                    return Err(error);
                }
                let absence = absence.get_or_insert_with(|| Absence::new(source));
                talk = connect_again(source, absence, &error, &mut notify)?;
                continue;
            }
            Err(error) => return Err(error),
        };
        absence = None;
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
    absence: &mut Absence,
    error: &RequestError,
    notify: &mut impl FnMut(&str),
) -> Result<Talk<'a>, RequestError> {
    notify(&format!("{error}; trying again"));
    loop {
        std::thread::park_timeout(absence.pause);
        absence.pause = (absence.pause * 2).min(source.pause_max);
        match Talk::open(source.master, source.timeout) {
            Ok(talk) => {
                notify("the prompt master is there again");
                return Ok(talk);
            }
            Err(error @ RequestError::NoMaster { .. }) => {
                if absence.is_too_long() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;
    use crate::wire::ResultFile;

    #[test]
    fn patience_ends_also_when_each_connection_is_made_and_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (closed, count) = mpsc::channel();
        // As a tunnel without a master behind it. The limit ends a client whose patience does not.
        std::thread::spawn(move || {
            for stream in listener.incoming().take(20) {
                drop(stream.unwrap());
                closed.send(()).unwrap();
            }
        });
        let master = Server { host: "127.0.0.1".into(), port, keys: None };
        let source = Source {
            master: &master,
            secret: None,
            timeout: Duration::from_secs(60),
            patience: Some(Duration::from_millis(500)),
            pause_max: Duration::from_secs(60),
        };
        let query = TailQuery { file: "a".into(), output: ResultFile::Out, offset: 0, run: None, next: false };
        let ended = tail(&source, query, &mut Vec::new(), |_| {});
        assert!(matches!(ended, Err(RequestError::NoMaster { .. })), "{ended:?}");
        // At once, and after 100, 200 and 400 ms.
        assert!(count.try_iter().count() <= 4);
    }
}
