//! An open connection as data, with which another program continues it on the same stream. Neither the peer nor a message
//! notices: what was read in part is read on, and what was queued is written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::connection::{Connection, Peer, Settings, State};
use super::frame::FrameReader;
use super::keys::PublicKey;
use super::kind::Kind;
use super::session::{Session, SuspendedSession};
use crate::types::Mono;

/// See the [module](self). It contains the secrets of the connection.
#[derive(Clone, Deserialize, Serialize)]
pub struct Suspended {
    kind: String,
    is_3_1: bool,
    key: Option<[u8; 32]>,
    session: Option<SuspendedSession>,
    reader: FrameReader,
    parts: Vec<Vec<u8>>,
    output: Vec<u8>,
    ttl: Option<Duration>,
}

impl Connection {
    /// The connection as data; `None` before the handshake is complete, and after the end.
    #[must_use]
    pub fn suspend(&self) -> Option<Suspended> {
        let peer = self.peer()?;
        Some(Suspended {
            kind: peer.kind.name().to_owned(),
            is_3_1: peer.is_3_1,
            key: peer.key.map(|key| *key.as_bytes()),
            session: self.session.as_ref().map(Session::suspend),
            reader: self.reader.clone(),
            parts: self.parts.clone(),
            output: self.output().to_vec(),
            ttl: self.liveness.ttl(),
        })
    }

    /// Continues a connection; `None` if it does not fit these settings.
    #[must_use]
    pub fn resume(now: Mono, settings: Settings, suspended: Suspended) -> Option<Self> {
        let kind = Kind::parse(suspended.kind.as_bytes()).filter(|kind| settings.kind.talks_to(*kind))?;
        if suspended.session.is_some() != settings.security.is_curve() {
            return None;
        }
        let mut connection = Self::new(now, settings, [0; 32]);
        let key = suspended.key.map(PublicKey::from_bytes);
        connection.state = State::Open(Peer { kind, is_3_1: suspended.is_3_1, key });
        connection.session = suspended.session.as_ref().map(Session::resume);
        connection.handshake = super::handshake::Handshake::Null;
        connection.reader = suspended.reader;
        connection.parts_bytes = suspended.parts.iter().map(Vec::len).sum();
        connection.parts = suspended.parts;
        connection.outbox.resume(suspended.output);
        if connection.outbox.is_empty() {
            connection.liveness.moved(now, true);
        }
        if let Some(ttl) = suspended.ttl {
            connection.liveness.set_ttl(ttl);
        }
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{converse, feed, keys, secured, take};
    use super::super::{Event, Security};
    use super::*;

    const NOW: Mono = Mono::from_nanos(0);

    /// The connection in the next program, to which it goes as text.
    fn continued(connection: &Connection, security: Security) -> Connection {
        let text = serde_json::to_vec(&connection.suspend().unwrap()).unwrap();
        let settings = Settings { security, ..connection.settings.clone() };
        Connection::resume(NOW, settings, serde_json::from_slice(&text).unwrap()).unwrap()
    }

    fn pair(is_secured: bool) -> (Connection, Connection, Security) {
        let (of_server, of_client) = if is_secured { keys() } else { (Security::Null, Security::Null) };
        let mut server = secured(Kind::Router, of_server.clone(), 4);
        let mut client = secured(Kind::Req, of_client, 3);
        converse(&mut client, &mut server);
        (server, client, of_server)
    }

    proptest! {
        /// At whatever byte the program changes, also more than once, the messages of both sides arrive.
        #[test]
        fn no_byte_is_lost_in_either_direction(
            is_secured in any::<bool>(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 1..4),
            written in any::<prop::sample::Index>(),
        ) {
            let (mut server, mut client, security) = pair(is_secured);
            let parts: [&[u8]; 2] = [b"", &[7; 300]];
            client.send(NOW, &parts).unwrap();
            client.send(NOW, &parts).unwrap();
            let input = take(&mut client);
            server.send(NOW, &[&b""[..], b"an answer"]).unwrap();
            let output = server.output().to_vec();
            let written = written.index(output.len());
            server.handle_written(NOW, written);
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len())).collect();
            ends.sort_unstable();
            let mut events = Vec::new();
            let mut from = 0;
            for end in ends.into_iter().chain([input.len()]) {
                let (more, reason) = feed(&mut server, &input[from..end]);
                prop_assert_eq!(reason, None);
                events.extend(more);
                server = continued(&server, security.clone());
                from = end;
            }
            let sent = Event::Message(parts.map(<[u8]>::to_vec).to_vec());
            prop_assert_eq!(events, [sent.clone(), sent]);
            prop_assert_eq!(server.output(), &output[written..]);
            // The peer has the first bytes of the answer already.
            let answered = [&output[..written], &take(&mut server)].concat();
            let answer = Event::Message(vec![Vec::new(), b"an answer".to_vec()]);
            prop_assert_eq!(feed(&mut client, &answered), (vec![answer], None));
            server.send(NOW, &[&b""[..], b"another"]).unwrap();
            let another = Event::Message(vec![Vec::new(), b"another".to_vec()]);
            prop_assert_eq!(feed(&mut client, &take(&mut server)), (vec![another], None));
        }
    }

    #[test]
    fn a_connection_that_does_not_fit_is_not_continued() {
        let (server, ..) = pair(true);
        let suspended = server.suspend().unwrap();
        let settings = |kind, security| Settings { kind, security, ..server.settings.clone() };
        let (of_server, _) = keys();
        for settings in [settings(Kind::Router, Security::Null), settings(Kind::Xpub, of_server)] {
            assert!(Connection::resume(NOW, settings, suspended.clone()).is_none());
        }
        let (plain, ..) = pair(false);
        let secured = Settings { security: keys().0, ..plain.settings.clone() };
        assert!(Connection::resume(NOW, secured, plain.suspend().unwrap()).is_none(), "a stranger would be let in");
        let unopened = Connection::new(NOW, plain.settings.clone(), [0; 32]);
        assert!(unopened.suspend().is_none());
    }
}
