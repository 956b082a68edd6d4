//! A client that follows the output of a prompt, through its master, from any machine. It asks for one part after the other.

use std::io::{self, Read as _, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

use super::prompt_status::{AskError, connect};
use crate::protocol::prompt::{
    FromMaster, FromWorker, MASTER_FRAME_BYTES_MAX, MessageError, RESULT_PART_BYTES_MAX, Splitter, TailPart, TailQuery,
};

/// The pause after a part that was not full: a command that writes single letters costs 20 messages a second at most.
const PAUSE: Duration = Duration::from_millis(50);

/// A master whose machine has gone sends nothing: the kernel probes after this silence.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);

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
    (host, port): (&str, u16),
    secret: Option<&str>,
    timeout: Duration,
    mut query: TailQuery,
    out: &mut impl Write,
    mut tell: impl FnMut(&str),
) -> Result<TailEnd, AskError> {
    let failed = |source| AskError::NoMaster { host: host.to_owned(), port, source };
    let mut stream = connect(host, port, timeout).map_err(failed)?;
    sockopt::set_socket_keepalive(&stream, true).map_err(|error| failed(error.into()))?;
    sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_IDLE).map_err(|error| failed(error.into()))?;
    let mut splitter = Splitter::new(MASTER_FRAME_BYTES_MAX);
    loop {
        let message = FromWorker::Tail { query: Box::new(query.clone()), secret: secret.map(str::to_owned) };
        stream.write_all(&message.encode()).map_err(failed)?;
        let part = match next_part(&mut stream, &mut splitter).map_err(failed)? {
            Ok(part) => part,
            Err(reason) => return Err(AskError::Refused { host: host.to_owned(), port, reason }),
        };
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

/// The next answer: a part, or the reason of a refusal.
fn next_part(stream: &mut TcpStream, splitter: &mut Splitter) -> io::Result<Result<TailPart, String>> {
    let odd = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut bytes = [0; 16 << 10];
    loop {
        while let Some(object) = splitter.next_object().map_err(|error| odd(error.to_string()))? {
            match FromMaster::parse(object) {
                Ok(FromMaster::TailPart(part)) => return Ok(Ok(*part)),
                Ok(FromMaster::Refused(reason)) => return Ok(Err(reason)),
                Ok(_) | Err(MessageError::UnknownType(_)) => {}
                Err(error) => return Err(odd(error.to_string())),
            }
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Err(odd("it has closed the connection".to_owned())),
            Ok(length) => splitter.push(bytes.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
