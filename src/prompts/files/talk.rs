//! A connection of a command to the prompt master, for one message and the answer to it.

use std::io::{self, Read as _, Write as _};
use std::time::Duration;

use rustix::net::sockopt;

use crate::wire::{FromMaster, FromWorker, MASTER_FRAME_BYTES_MAX, MessageError};
use base::Mono;
use proc::clock;
use zmtp::json::json_dial::{DialError, Dialled, Server, dial};
use zmtp::json::json_wire::Decoded;

/// A master whose machine has gone sends nothing: the kernel probes after this silence.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(15);

/// Why a master did not answer.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No master answers.
    #[error("no prompt master answers at {host}:{port}: {source}")]
    NoMaster {
        /// Host of the master.
        host: String,
        /// Port of the master.
        port: u16,
        /// Error of the system.
        source: io::Error,
    },
    /// The master refuses to answer.
    #[error("the prompt master at {host}:{port} refuses: {reason}")]
    Refused {
        /// Host of the master.
        host: String,
        /// Port of the master.
        port: u16,
        /// Reason of the master.
        reason: String,
    },
}

/// A connection to a master.
pub(crate) struct Talk<'a> {
    master: &'a Server,
    dialled: Dialled,
}

impl<'a> Talk<'a> {
    /// Connects. `timeout` is for this, and for each message that is sent.
    pub(crate) fn open(master: &'a Server, timeout: Duration) -> Result<Self, RequestError> {
        let dialled = dial(master, timeout, MASTER_FRAME_BYTES_MAX).map_err(|error| match error {
            DialError::Unreachable(reason) => failed(master, io::Error::other(reason)),
            DialError::Denied(reason) => refused(master, reason),
        })?;
        let set = || -> io::Result<()> {
            sockopt::set_socket_keepalive(&dialled.stream, true)?;
            sockopt::set_tcp_keepidle(&dialled.stream, KEEP_ALIVE_IDLE)?;
            dialled.stream.set_write_timeout(Some(timeout))
        };
        set().map_err(|error| failed(master, error))?;
        Ok(Self { master, dialled })
    }

    pub(crate) fn send(&mut self, message: &FromWorker) -> Result<(), RequestError> {
        let Dialled { stream, wire, .. } = &mut self.dialled;
        stream.write_all(&wire.encode(message.encode())).map_err(|error| failed(self.master, error))
    }

    /// The first message that `take` accepts, until a moment if there is one. A refusal is an error.
    pub(crate) fn answer<T>(
        &mut self,
        until: Option<Mono>,
        take: impl Fn(FromMaster) -> Option<T>,
    ) -> Result<T, RequestError> {
        let Self { master, dialled: Dialled { stream, wire, splitter } } = self;
        let failed = |error| failed(master, error);
        let odd = |error: String| failed(io::Error::new(io::ErrorKind::InvalidData, error));
        let mut bytes = [0; 16 << 10];
        loop {
            while let Some(object) = splitter.next_object().map_err(|error| odd(error.to_string()))? {
                match FromMaster::parse(object) {
                    Ok(FromMaster::Refused(reason)) => return Err(refused(master, reason)),
                    Ok(message) => match take(message) {
                        Some(answer) => return Ok(answer),
                        None => continue,
                    },
                    Err(MessageError::UnknownType(_)) => {}
                    Err(error) => return Err(odd(error.to_string())),
                }
            }
            let left = until.map(|until| until.since(clock::now().mono));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            stream.set_read_timeout(left).map_err(failed)?;
            match stream.read(&mut bytes) {
                Ok(0) => {
                    return Err(odd(
                        "it closes the connection; a master of the document answers workers only".to_owned()
                    ));
                }
                Ok(length) => {
                    let bytes = bytes.get(..length).unwrap_or_default();
                    let Decoded { refusal, .. } = wire.decode(bytes, MASTER_FRAME_BYTES_MAX, splitter);
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
}

fn failed(Server { host, port, .. }: &Server, source: io::Error) -> RequestError {
    RequestError::NoMaster { host: host.clone(), port: *port, source }
}

fn refused(Server { host, port, .. }: &Server, reason: String) -> RequestError {
    RequestError::Refused { host: host.clone(), port: *port, reason }
}
