//! Connects to a server whose messages are JSON objects, with CURVE if there are keys. It blocks.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use super::json_wire::{HANDSHAKE_TIMEOUT, Wire, ZMTP, take_output};
use crate::engine::{ClientKeys, DisconnectReason, Event, Security};
use crate::json::split::Splitter;
use crate::port::Denial;
use base::is_loopback;
use proc::clock;

/// Bytes of one read of a handshake.
const READ_BYTES: usize = 4 << 10;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// It may succeed later.
    #[error("{0}")]
    Unreachable(String),
    /// The keys of one side are wrong.
    #[error("{0}")]
    Denied(String),
}

/// The server to connect to.
#[derive(Clone, Debug)]
pub struct Server {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Our keys, if the connection is to be secured.
    pub keys: Option<Arc<ClientKeys>>,
}

/// A new connection.
pub struct Dialled {
    /// The stream, which is connected.
    pub stream: TcpStream,
    /// The encoding of its bytes.
    pub wire: Wire,
    /// Splits its input into objects.
    pub splitter: Splitter,
}

/// Connects to the first address of the server that accepts. `timeout` applies to each address. Messages from the
/// server have at most `read_bytes_max` bytes.
///
/// # Errors
/// [`DialError`], for the last address.
pub fn dial(server: &Server, timeout: Duration, read_bytes_max: usize) -> Result<Dialled, DialError> {
    let Server { host, port, keys } = server;
    let addresses = (host.as_str(), *port).to_socket_addrs();
    let addresses = addresses.map_err(|error| unreachable(&format!("cannot resolve {host}"), &error))?;
    let mut last = DialError::Unreachable(format!("{host} has no address"));
    for address in addresses {
        let dialled = match keys {
            Some(keys) => secured(address, keys, timeout, read_bytes_max),
            None => plain(address, timeout, read_bytes_max),
        };
        match dialled {
            Ok(dialled) => return Ok(dialled),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn plain(address: SocketAddr, timeout: Duration, read_bytes_max: usize) -> Result<Dialled, DialError> {
    let stream = TcpStream::connect_timeout(&address, timeout)
        .map_err(|error| unreachable(&format!("cannot connect to {address}"), &error))?;
    Ok(Dialled { stream, wire: Wire::Plain, splitter: Splitter::new(read_bytes_max) })
}

/// The outcome of a handshake.
enum Handshake {
    Complete,
    /// The server answers with JSON.
    IsPlain,
}

fn secured(
    address: SocketAddr,
    keys: &Arc<ClientKeys>,
    timeout: Duration,
    read_bytes_max: usize,
) -> Result<Dialled, DialError> {
    let mut dialled = plain(address, timeout, read_bytes_max)?;
    match shake(&mut dialled, keys, read_bytes_max).map_err(|error| match error {
        DialError::Unreachable(why) => DialError::Unreachable(format!("cannot connect to {address}: {why}")),
        denied @ DialError::Denied(_) => denied,
    })? {
        Handshake::Complete => Ok(dialled),
        // No other machine can eavesdrop.
        Handshake::IsPlain if is_loopback(address.ip()) => plain(address, timeout, read_bytes_max),
        Handshake::IsPlain => Err(DialError::Denied(
            "it takes connections without keys only, and keys are configured here (CURVE_SECRET_KEY_FILE); --plain connects \
             without them, and everything can then be read on the network"
                .to_owned(),
        )),
    }
}

fn shake(dialled: &mut Dialled, keys: &Arc<ClientKeys>, read_bytes_max: usize) -> Result<Handshake, DialError> {
    let security = Security::CurveClient(Arc::clone(keys));
    let denied = |reason: DisconnectReason| match Denial::of(&reason, &security) {
        Some(denial) => DialError::Denied(denial.to_string()),
        None => DialError::Unreachable(format!("{reason}; a master without keys needs --plain")),
    };
    let failed = |error: io::Error| unreachable("the handshake has failed", &error);
    let mut connection = Wire::client(security.clone(), read_bytes_max);
    let until = clock::now().mono + HANDSHAKE_TIMEOUT;
    let mut bytes = [0; READ_BYTES];
    let mut is_first = true;
    loop {
        dialled.stream.set_write_timeout(Some(HANDSHAKE_TIMEOUT)).map_err(failed)?;
        dialled.stream.write_all(&take_output(&mut connection)).map_err(failed)?;
        let left = until.since(clock::now().mono);
        if left.is_zero() {
            return Err(denied(DisconnectReason::SlowHandshake));
        }
        dialled.stream.set_read_timeout(Some(left)).map_err(failed)?;
        let length = match dialled.stream.read(&mut bytes) {
            Ok(0) => return Err(denied(connection.meaning_of_end().unwrap_or(DisconnectReason::Over))),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(denied(DisconnectReason::SlowHandshake));
            }
            Err(error) => return Err(failed(error)),
        };
        let mut input = bytes.get(..length).unwrap_or_default();
        if std::mem::take(&mut is_first) && input.first() != Some(&ZMTP) {
            return Ok(Handshake::IsPlain);
        }
        if let Some(Event::Opened(_)) = connection.handle_input(clock::now().mono, &mut input).map_err(denied)? {
            dialled.wire = Wire::Curve(connection);
            let rest = dialled.wire.decode(input, read_bytes_max, &mut dialled.splitter);
            return rest.refusal.map_or(Ok(Handshake::Complete), |why| Err(DialError::Unreachable(why)));
        }
    }
}

fn unreachable(what: &str, error: &io::Error) -> DialError {
    DialError::Unreachable(format!("{what}: {error}"))
}
