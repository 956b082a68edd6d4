//! The handshake of either mechanism. With NULL, each side sends a READY with its properties (RFC 37).

use super::command::{self, ERROR, READY};
use super::curve::{CurveClient, CurveServer, SuspendedHello};
use super::disconnect_reason::DisconnectReason;
use super::keys::{PublicKey, Security};
use super::kind::Kind;
use super::session::Session;

#[derive(Debug)]
pub(super) enum Handshake {
    Null,
    CurveServer(Box<CurveServer>),
    CurveClient(Box<CurveClient>),
}

/// The result of a handshake.
pub(super) struct Done {
    pub(super) kind: Kind,
    /// The session for all further frames.
    pub(super) session: Option<Session>,
    /// Public key of the peer.
    pub(super) key: Option<PublicKey>,
}

impl Handshake {
    pub(super) fn new(security: &Security, seed: [u8; 32]) -> Self {
        match security {
            Security::Null => Self::Null,
            Security::CurveServer(keys) => Self::CurveServer(Box::new(CurveServer::new(keys.clone(), seed))),
            Security::CurveClient(keys) => Self::CurveClient(Box::new(CurveClient::new(keys.clone(), seed))),
        }
    }

    /// Our first command, sent after the greeting of the peer.
    pub(super) fn begin(&self, ours: Kind, out: &mut Vec<u8>) {
        match self {
            Self::Null => command::write(out, READY, &[&command::properties(ours)]),
            Self::CurveServer(_) => {}
            Self::CurveClient(client) => client.begin(out),
        }
    }

    /// Whether our first command has been sent and not answered.
    pub(super) const fn is_unanswered(&self) -> bool {
        match self {
            Self::CurveClient(client) => client.is_unanswered(),
            Self::Null | Self::CurveServer(_) => false,
        }
    }

    /// The state of a server, for [`Self::resume`]: the HELLO of the client, if it has arrived. `None` for a client
    /// under CURVE.
    #[expect(clippy::option_option, reason = "a handshake that cannot be suspended differs from one without a HELLO")]
    pub(super) fn suspend(&self) -> Option<Option<SuspendedHello>> {
        match self {
            Self::Null => Some(None),
            Self::CurveServer(server) => Some(server.suspend()),
            Self::CurveClient(_) => None,
        }
    }

    /// Continues after the HELLO of a client.
    pub(super) fn resume(&mut self, hello: Option<SuspendedHello>) {
        if let Self::CurveServer(server) = self {
            server.resume(hello);
        }
    }

    /// Handles a command; `None` while the handshake is incomplete.
    pub(super) fn handle(
        &mut self,
        ours: Kind,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Done>, DisconnectReason> {
        let secured = match self {
            Self::Null => {
                let kind = read_ready(ours, body)?;
                return Ok(Some(Done { kind, session: None, key: None }));
            }
            Self::CurveServer(server) => server.handle(ours, body, out)?,
            Self::CurveClient(client) => client.handle(ours, body, out)?,
        };
        Ok(secured.map(|it| Done { kind: it.kind, session: Some(it.session), key: Some(it.key) }))
    }
}

fn read_ready(ours: Kind, body: &[u8]) -> Result<Kind, DisconnectReason> {
    match command::split(body)? {
        (READY, properties) => command::peer_kind(ours, properties),
        (ERROR, reason) => Err(DisconnectReason::Refused(command::error_reason(reason))),
        _ => Err(DisconnectReason::Protocol("the handshake of NULL is a READY")),
    }
}
