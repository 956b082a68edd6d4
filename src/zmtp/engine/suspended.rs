//! A connection as data, with which another program continues it on the same stream. The peer does not notice and no
//! message is lost: a partly read message is read further, and queued output is written.
//!
//! The handshake is included in any state. A client whose last command is in transit may already consider the
//! connection open, and it sends its first request only once.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::connection::{Connection, Peer, Settings, State};
use super::curve::SuspendedHello;
use super::frame::FrameReader;
use super::greeting::GreetingReader;
use super::handshake::Handshake;
use super::keys::PublicKey;
use super::kind::Kind;
use super::session::{Session, SuspendedSession};
use crate::envelope::TooLong;
use base::Mono;

/// See the [module](self). It contains the secrets of the connection.
#[derive(Clone, Deserialize, Serialize)]
pub struct Suspended {
    state: SuspendedState,
    reader: FrameReader,
    parts: Vec<Vec<u8>>,
    too_long: Option<TooLong>,
    output: Vec<u8>,
    ttl: Option<Duration>,
}

#[derive(Clone, Deserialize, Serialize)]
enum SuspendedState {
    /// The bytes of the peer's greeting, and the number of ours that have been queued.
    Greeting {
        theirs: Vec<u8>,
        said: usize,
        is_curve: bool,
    },
    /// The handshake. Under CURVE, with the HELLO of the client if it has arrived.
    Handshake {
        is_3_1: bool,
        is_curve: bool,
        hello: Option<SuspendedHello>,
    },
    Open {
        kind: String,
        is_3_1: bool,
        key: Option<[u8; 32]>,
        session: Option<SuspendedSession>,
    },
}

impl Connection {
    /// The connection as data; `None` after its end, and for the handshake of a client under CURVE.
    #[must_use]
    pub fn suspend(&self) -> Option<Suspended> {
        let is_curve = self.settings.security.is_curve();
        let state = match &self.state {
            State::Greeting { theirs, said } => {
                SuspendedState::Greeting { theirs: theirs.bytes().to_vec(), said: *said, is_curve }
            }
            State::Handshake { is_3_1 } => {
                SuspendedState::Handshake { is_3_1: *is_3_1, is_curve, hello: self.handshake.suspend()? }
            }
            State::Open(peer) => SuspendedState::Open {
                kind: peer.kind.name().to_owned(),
                is_3_1: peer.is_3_1,
                key: peer.key.map(|key| *key.as_bytes()),
                session: self.session.as_ref().map(Session::suspend),
            },
            State::Over => return None,
        };
        Some(Suspended {
            state,
            reader: self.reader.clone(),
            parts: self.parts.clone(),
            too_long: self.too_long,
            output: self.output().to_vec(),
            ttl: self.liveness.ttl(),
        })
    }

    /// Continues a connection; `None` if it does not fit these settings. The seed is as in [`Self::new`].
    #[must_use]
    pub fn resume(now: Mono, settings: Settings, suspended: Suspended, seed: [u8; 32]) -> Option<Self> {
        let was_curve = match &suspended.state {
            SuspendedState::Greeting { is_curve, .. } | SuspendedState::Handshake { is_curve, .. } => *is_curve,
            SuspendedState::Open { session, .. } => session.is_some(),
        };
        if was_curve != settings.security.is_curve() {
            return None;
        }
        let ours = settings.kind;
        let mut connection = Self::new(now, settings, seed);
        match suspended.state {
            SuspendedState::Greeting { theirs, said, .. } => {
                connection.state = State::Greeting { theirs: GreetingReader::resume(&theirs)?, said };
            }
            SuspendedState::Handshake { is_3_1, hello, .. } => {
                connection.state = State::Handshake { is_3_1 };
                connection.handshake.resume(hello);
            }
            SuspendedState::Open { kind, is_3_1, key, session } => {
                let kind = Kind::parse(kind.as_bytes()).filter(|kind| ours.talks_to(*kind))?;
                connection.state = State::Open(Peer { kind, is_3_1, key: key.map(PublicKey::from_bytes) });
                connection.session = session.as_ref().map(Session::resume);
                connection.handshake = Handshake::Null;
            }
        }
        connection.reader = suspended.reader;
        connection.parts_bytes = suspended.parts.iter().map(Vec::len).sum();
        connection.parts = suspended.parts;
        connection.too_long = suspended.too_long;
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

    /// The connection in the next program, passed on as text.
    fn continued(connection: &Connection, security: Security) -> Connection {
        let text = serde_json::to_vec(&connection.suspend().unwrap()).unwrap();
        let settings = Settings { security, ..connection.settings.clone() };
        Connection::resume(NOW, settings, serde_json::from_slice(&text).unwrap(), [5; 32]).unwrap()
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
            // The peer already has the first bytes of the answer.
            let answered = [&output[..written], &take(&mut server)].concat();
            let answer = Event::Message(vec![Vec::new(), b"an answer".to_vec()]);
            prop_assert_eq!(feed(&mut client, &answered), (vec![answer], None));
            server.send(NOW, &[&b""[..], b"another"]).unwrap();
            let another = Event::Message(vec![Vec::new(), b"another".to_vec()]);
            prop_assert_eq!(feed(&mut client, &take(&mut server)), (vec![another], None));
        }
    }

    /// At whatever byte of the handshake the program changes: the request that a client sends as soon as it sees the connection as
    /// open, and its answer, arrive.
    #[test]
    fn a_handshake_is_continued_at_each_byte() {
        for is_secured in [false, true] {
            let (of_server, of_client) = if is_secured { keys() } else { (Security::Null, Security::Null) };
            let settings = secured(Kind::Router, of_server.clone(), 4).settings;
            let mut server = Connection::accepted(NOW, settings, [4; 32]);
            let mut client = secured(Kind::Req, of_client, 3);
            let (mut heard, mut answered) = (Vec::new(), Vec::new());
            let (mut is_sent, mut turns) = (false, 0);
            while answered.is_empty() {
                turns += 1;
                assert!(turns < 2_000, "after {turns} bytes there is no answer");
                let written = server.output().len().min(1);
                let (events, reason) = feed(&mut client, &server.output()[..written]);
                assert_eq!(reason, None);
                server.handle_written(NOW, written);
                answered.extend(events.into_iter().filter(|event| matches!(event, Event::Message(_))));
                if client.peer().is_some() && !std::mem::replace(&mut is_sent, true) {
                    client.send(NOW, &[&b""[..], b"a request"]).unwrap();
                }
                server = continued(&server, of_server.clone());
                let written = client.output().len().min(1);
                let (events, reason) = feed(&mut server, &client.output()[..written]);
                assert_eq!(reason, None);
                client.handle_written(NOW, written);
                if events.iter().any(|event| matches!(event, Event::Message(_))) {
                    server.send(NOW, &[&b""[..], b"an answer"]).unwrap();
                }
                heard.extend(events);
                server = continued(&server, of_server.clone());
            }
            let [Event::Opened(_), Event::Message(request)] = &heard[..] else { panic!("{heard:?}") };
            assert_eq!(request[1], b"a request");
        }
    }

    #[test]
    fn a_connection_that_does_not_fit_is_not_continued() {
        let (server, ..) = pair(true);
        let suspended = server.suspend().unwrap();
        let settings = |kind, security| Settings { kind, security, ..server.settings.clone() };
        let (of_server, _) = keys();
        for settings in [settings(Kind::Router, Security::Null), settings(Kind::Xpub, of_server)] {
            assert!(Connection::resume(NOW, settings, suspended.clone(), [5; 32]).is_none());
        }
        let (plain, ..) = pair(false);
        let secured = Settings { security: keys().0, ..plain.settings.clone() };
        let resumed =
            |connection: &Connection| Connection::resume(NOW, secured.clone(), connection.suspend().unwrap(), [5; 32]);
        assert!(resumed(&plain).is_none(), "a stranger would be let in");
        let unopened = Connection::new(NOW, plain.settings.clone(), [0; 32]);
        assert!(resumed(&unopened).is_none(), "its greeting has named the mechanism");
    }
}
