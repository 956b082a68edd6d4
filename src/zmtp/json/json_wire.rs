//! The encoding of a connection whose messages are JSON objects: plain, or with CURVE, where each object is a ZMTP
//! message of one part. The first byte of a client distinguishes them: ZMTP begins with 0xFF, which occurs in no JSON
//! text.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::curve_keys::KeyFolder;
use crate::engine::{Connection, DisconnectReason, Event, Kind, Limits, PublicKey, Security, ServerKeys, Settings};
use crate::envelope::TooLong;
use crate::json::split::Splitter;
use base::is_loopback;
use proc::clock;

/// The first byte of a ZMTP greeting.
pub(crate) const ZMTP: u8 = 0xFF;

/// Time limit of a client's handshake. A server has its own limits for connections that do not join.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a connection without keys is refused.
const PLAIN: &str = "this connection has no key, and this master takes such connections from its own machine only; configure \
                     CURVE_SECRET_KEY_FILE and CURVE_SERVER_PUBLIC_KEY_FILE, or set ALLOW_INSECURE = true at the master";

/// The encoding of one connection.
#[derive(Debug)]
pub enum Wire {
    /// JSON objects as they are.
    Plain,
    /// A client of a server with keys, before its first byte.
    Undecided {
        /// The keys of the server.
        keys: Arc<ServerKeys>,
        /// Whether it may do without a key.
        may_be_plain: bool,
    },
    /// Secured by CURVE.
    Curve(Box<Connection>),
}

/// The effect of received bytes.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Bytes to send to the peer.
    pub(crate) answer: Vec<u8>,
    /// The key of the peer, if it has just proved it.
    pub(crate) key: Option<PublicKey>,
    /// Why nothing more can be read.
    pub refusal: Option<String>,
}

impl Wire {
    /// Our side of a connection that we have made, with this security. Messages from the server have at most
    /// `read_bytes_max` bytes.
    pub(crate) fn client(security: Security, read_bytes_max: usize) -> Box<Connection> {
        let settings = settings(Kind::Dealer, security, read_bytes_max);
        Box::new(Connection::new(clock::now().mono, settings, rand::random()))
    }

    /// Takes received bytes and pushes their content to the splitter.
    pub fn decode(&mut self, mut bytes: &[u8], read_bytes_max: usize, splitter: &mut Splitter) -> Decoded {
        if let (Self::Undecided { keys, may_be_plain }, Some(first)) = (&*self, bytes.first()) {
            let is_refused = *first != ZMTP && !may_be_plain;
            *self = if *first == ZMTP {
                let settings = settings(Kind::Router, Security::CurveServer(Arc::clone(keys)), read_bytes_max);
                Self::Curve(Box::new(Connection::accepted(clock::now().mono, settings, rand::random())))
            } else {
                Self::Plain
            };
            if is_refused {
                return Decoded { refusal: Some(PLAIN.to_owned()), ..Decoded::default() };
            }
        }
        let Self::Curve(connection) = self else {
            splitter.push(bytes);
            return Decoded::default();
        };
        let mut decoded = Decoded::default();
        loop {
            match connection.handle_input(clock::now().mono, &mut bytes) {
                Ok(Some(Event::Opened(peer))) => decoded.key = peer.key,
                Ok(Some(Event::Message(parts))) => parts.iter().for_each(|part| splitter.push(part)),
                Ok(Some(Event::TooLong(_, TooLong { bytes, max, .. }))) => {
                    decoded.refusal = Some(DisconnectReason::TooLong { bytes, max }.to_string());
                    break;
                }
                Ok(Some(Event::Subscribed(_) | Event::Cancelled(_))) => {}
                Ok(None) => break,
                Err(reason) => {
                    decoded.refusal = Some(format!("{reason}{}", reason.remedy()));
                    break;
                }
            }
        }
        decoded.answer = take_output(connection);
        decoded
    }

    /// The bytes for a message. There are none before the handshake is complete, because the peer could not read them.
    pub fn encode(&mut self, message: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Plain | Self::Undecided { .. } => message,
            Self::Curve(connection) => {
                let sent = connection.send(clock::now().mono, &[message]);
                if sent.is_ok() { take_output(connection) } else { Vec::new() }
            }
        }
    }

    /// The key that the peer has proved.
    fn key(&self) -> Option<PublicKey> {
        if let Self::Curve(connection) = self { connection.peer().and_then(|peer| peer.key) } else { None }
    }

    /// Whether the peer has a key that is not among these.
    pub(crate) fn is_revoked(&self, keys: &ServerKeys) -> bool {
        self.key().is_some_and(|key| !keys.authorised.contains(&key))
    }
}

/// Everything that a connection has for its peer.
pub(crate) fn take_output(connection: &mut Connection) -> Vec<u8> {
    let output = connection.output().to_vec();
    connection.handle_written(clock::now().mono, output.len());
    output
}

fn settings(kind: Kind, security: Security, read_bytes_max: usize) -> Settings {
    let limits = Limits {
        message_bytes_max: read_bytes_max,
        long: None,
        parts_max: 1,
        // The output is taken at once, and the queue behind it has its own limit.
        queue_messages_max: usize::MAX,
        queue_bytes_max: usize::MAX,
        handshake_timeout: HANDSHAKE_TIMEOUT,
        stall_timeout: HANDSHAKE_TIMEOUT,
        ping_interval: None,
    };
    Settings { kind, limits, security }
}

/// The keys of a server.
#[derive(Debug)]
pub struct PortKeys {
    /// The keys of the server.
    pub folder: KeyFolder,
    /// Whether clients on other machines may do without a key. Those on this machine always may.
    pub plain_from_anywhere: bool,
}

impl PortKeys {
    /// The encoding of a new connection from this address.
    pub(crate) fn wire(&mut self, from: SocketAddr) -> Wire {
        self.folder.look(clock::now().wall);
        Wire::Undecided { keys: self.folder.keys(), may_be_plain: self.plain_from_anywhere || is_loopback(from.ip()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::KeyPair;

    #[test]
    fn a_connection_without_a_key_is_refused_unless_it_may_be_plain() {
        let keys =
            Arc::new(ServerKeys { pair: KeyPair::from_bytes([1; 32]), authorised: [].into(), commanders: [].into() });
        let say = |may_be_plain| {
            let (mut wire, mut splitter) = (Wire::Undecided { keys: keys.clone(), may_be_plain }, Splitter::new(100));
            let refusal = wire.decode(b"{\"type\":\"JOIN\"}", 100, &mut splitter).refusal;
            // The peer can read the reason.
            assert_eq!(wire.encode(b"{}".to_vec()), b"{}");
            (refusal, splitter.next_object().unwrap().is_some())
        };
        assert_eq!(say(true), (None, true));
        assert_eq!(say(false), (Some(PLAIN.to_owned()), false));
    }
}
