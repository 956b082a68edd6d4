#![cfg(test)]
//! Two connections against each other, and one against hand-made bytes: valid, split, cut short, and wrong.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::envelope::TooLong;
use base::Mono;

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> Limits {
    Limits {
        message_bytes_max: 1000,
        long: None,
        parts_max: 4,
        queue_messages_max: 8,
        queue_bytes_max: 4000,
        handshake_timeout: SECOND * 3,
        stall_timeout: SECOND * 30,
        ping_interval: Some(SECOND * 10),
    }
}

fn at(time: Duration) -> Mono {
    Mono::from_nanos(0) + time
}

/// A frame beyond the limit is taken only if its first bytes permit it, however the stream is split.
#[test]
fn a_long_message_says_in_its_first_bytes_that_it_is_one() {
    let kind = |start: &[u8]| match start {
        [b'L', b'O', ..] => LongKind::Submit,
        [b'L', b'G', ..] => LongKind::Graph,
        [b'L'] | [] => LongKind::Unknown,
        _ => LongKind::None,
    };
    let long = LongMessages { submit_bytes_max: 5000, graph_bytes_max: 9000, report_bytes_max: 0, kind };
    for (start, before, length, is_taken) in [
        ("LO", 0, 5000, true),
        ("LX", 0, 1001, false),
        ("X", 0, 1001, false),
        ("LO", 0, 5001, false),
        ("LG", 0, 9000, true),
        ("LG", 0, 9001, false),
        ("X", 0, 1000, true),
        ("LO", 10, 4990, true),
        ("LO", 10, 4991, false),
    ] {
        for split in [1, 7, 4096] {
            let mut reader = frame::FrameReader::default();
            let allowed = frame::Allowance {
                command_bytes: 10,
                message_bytes: 1000,
                long: Some(long),
                skips: split == 7,
                overhead: 0,
                before,
            };
            let mut stream = Vec::new();
            frame::write_header(&mut stream, 0, length);
            stream.extend(start.bytes().chain(std::iter::repeat(b'x')).take(length));
            let mut read = || {
                for mut chunk in stream.chunks(split) {
                    if let Some(frame) = reader.read(&mut chunk, allowed)? {
                        return Ok(frame.too_long.map_or(Ok(frame.body.len()), Err));
                    }
                }
                Ok::<_, DisconnectReason>(Ok(0))
            };
            match read() {
                Ok(Ok(read)) => assert_eq!((read, is_taken), (length, true), "{start} {length}"),
                Ok(Err(too_long)) => {
                    assert!(!is_taken && allowed.skips, "{start} {length}");
                    assert_eq!(too_long.bytes, length as u64, "{start}");
                    assert_eq!(reader.held(), 0, "nothing of it is kept");
                }
                Err(reason) => {
                    assert!(!is_taken && matches!(reason, DisconnectReason::TooLong { .. }), "{start} {length}");
                }
            }
        }
    }
}

fn connection(kind: Kind) -> Connection {
    secured(kind, Security::Null, 0)
}

pub(super) fn secured(kind: Kind, security: Security, seed: u8) -> Connection {
    Connection::new(at(Duration::ZERO), Settings { kind, limits: limits(), security }, [seed; 32])
}

/// All events that result from some bytes, and the reason for the end.
pub(super) fn feed(connection: &mut Connection, mut input: &[u8]) -> (Vec<Event>, Option<DisconnectReason>) {
    let mut events = Vec::new();
    loop {
        match connection.handle_input(at(Duration::ZERO), &mut input) {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(reason) => return (events, Some(reason)),
        }
    }
}

pub(super) fn take(connection: &mut Connection) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.handle_written(at(Duration::ZERO), bytes.len());
    bytes
}

/// Carries bytes back and forth until both sides are silent.
pub(super) fn converse(one: &mut Connection, other: &mut Connection) -> (Vec<Event>, Vec<Event>) {
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    while !(one.output().is_empty() && other.output().is_empty()) {
        let (events, reason) = feed(other, &take(one));
        assert_eq!(reason, None);
        of_other.extend(events);
        let (events, reason) = feed(one, &take(other));
        assert_eq!(reason, None);
        of_one.extend(events);
    }
    (of_one, of_other)
}

/// The bytes of a peer of this kind up to the end of the handshake.
fn opening(kind: Kind) -> Vec<u8> {
    let mut bytes = greeting::greeting("NULL", false).to_vec();
    handshake::Handshake::Null.begin(kind, &mut bytes);
    bytes
}

fn opened(ours: Kind, theirs: Kind) -> Connection {
    let mut connection = connection(ours);
    let (events, reason) = feed(&mut connection, &opening(theirs));
    assert_eq!((events, reason), (vec![Event::Opened(Peer { kind: theirs, is_3_1: true, key: None })], None));
    take(&mut connection);
    connection
}

fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        frame::write_header(&mut bytes, u8::from(index + 1 < parts.len()), part.len());
        bytes.extend_from_slice(part);
    }
    bytes
}

fn owned(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

#[test]
fn two_of_us_shake_hands_and_talk() {
    let (mut client, mut server) = (connection(Kind::Dealer), connection(Kind::Router));
    let (of_client, of_server) = converse(&mut client, &mut server);
    assert_eq!(of_client, [Event::Opened(Peer { kind: Kind::Router, is_3_1: true, key: None })]);
    assert_eq!(of_server, [Event::Opened(Peer { kind: Kind::Dealer, is_3_1: true, key: None })]);
    let long = vec![7; 900];
    client.send(at(SECOND), &[&b""[..], &long]).unwrap();
    client.send(at(SECOND), &[b"x"]).unwrap();
    let (_, of_server) = converse(&mut client, &mut server);
    assert_eq!(of_server, [Event::Message(owned(&[b"", &long])), Event::Message(owned(&[b"x"]))]);
}

/// A peer of another protocol also gets no more than the signature.
#[test]
fn who_was_called_says_the_signature_and_waits_for_the_first_byte() {
    let settings = || Settings { kind: Kind::Router, limits: limits(), security: Security::Null };
    let accepted = || Connection::accepted(at(Duration::ZERO), settings(), [0; 32]);
    let greeting = greeting::greeting("NULL", false);
    let mut server = accepted();
    assert_eq!(take(&mut server), greeting[..10]);
    assert_eq!(feed(&mut server, b"\xFF"), (vec![], None));
    assert_eq!(take(&mut server), greeting[10..]);
    assert_eq!(feed(&mut server, &opening(Kind::Req)[1..]).0.len(), 1);
    assert!(take(&mut server).starts_with(b"\x04\x29\x05READY"));

    let mut server = accepted();
    assert_eq!(feed(&mut server, b"GET"), (vec![], Some(DisconnectReason::NotZmtp)));
    assert_eq!(take(&mut server), greeting[..10]);
    // A peer that speaks another form of ZMTP can see why it is disconnected.
    let mut server = accepted();
    assert!(matches!(
        feed(&mut server, &greeting::greeting("PLAIN", false)).1,
        Some(DisconnectReason::Mechanism { .. })
    ));
    assert_eq!(take(&mut server), greeting);
}

/// No output waits for a peer whose greeting comes byte by byte: it does not count as a peer that does not read.
#[test]
fn a_slow_greeting_is_no_stall() {
    let keys = ServerKeys { pair: KeyPair::from_bytes([1; 32]), authorised: [].into(), commanders: [].into() };
    let limits = Limits { stall_timeout: SECOND, ..limits() };
    let security = Security::CurveServer(std::sync::Arc::new(keys));
    let mut server =
        Connection::accepted(at(Duration::ZERO), Settings { kind: Kind::Router, limits, security }, [0; 32]);
    for byte in greeting::greeting("CURVE", false) {
        assert_eq!(feed(&mut server, &[byte]), (vec![], None));
        take(&mut server);
    }
    assert_eq!(server.poll_timeout(), Some((at(SECOND * 3), Timer::Handshake)));
}

#[test]
fn the_first_wrong_byte_ends_it() {
    for (bytes, expected) in [
        (&b"G"[..], DisconnectReason::NotZmtp),
        (b"\x16\x03\x01", DisconnectReason::NotZmtp),
        (b"\0", DisconnectReason::NotZmtp),
        // ZMTP 1 with a long identity, and with a short one.
        (b"\xFF\0\0\0\0\0\0\0\x01\0", DisconnectReason::OldVersion(1)),
        (b"\x01\0", DisconnectReason::NotZmtp),
        (b"\xFF\0\0\0\0\0\0\0\x01\x7F\x01", DisconnectReason::OldVersion(2)),
    ] {
        assert_eq!(feed(&mut connection(Kind::Router), bytes), (vec![], Some(expected)), "{bytes:?}");
    }
    let plain = greeting::greeting("PLAIN", false);
    let expected = DisconnectReason::Mechanism { theirs: "PLAIN".to_owned(), ours: "NULL" };
    assert_eq!(feed(&mut connection(Kind::Router), &plain).1, Some(expected));
}

#[test]
fn sockets_that_do_not_fit_are_told() {
    for kind in [Kind::Pub, Kind::Sub, Kind::Rep] {
        let mut router = connection(Kind::Router);
        assert_eq!(feed(&mut router, &opening(kind)).1, Some(DisconnectReason::SocketType(kind.name().to_owned())));
        let said = take(&mut router);
        assert!(said.windows(6).any(|bytes| bytes == b"\x05ERROR"), "{said:?}");
        assert_eq!(feed(&mut connection(kind), &said).1, Some(DisconnectReason::SocketType("ROUTER".to_owned())));
    }
}

#[test]
fn an_error_of_the_peer_ends_the_handshake() {
    let mut bytes = greeting::greeting("NULL", false).to_vec();
    command::write_error(&mut bytes, "no\n");
    assert_eq!(feed(&mut connection(Kind::Dealer), &bytes).1, Some(DisconnectReason::Refused("no\\n".to_owned())));
}

#[test]
fn nothing_is_stored_of_an_announced_length() {
    for length in [frame::SKIPPED_BYTES_MAX + 1, 8 << 30, 1 << 62, u64::MAX] {
        let mut router = opened(Kind::Router, Kind::Dealer);
        let bytes = [&[2][..], &length.to_be_bytes()].concat();
        assert_eq!(feed(&mut router, &bytes).1, Some(DisconnectReason::TooLong { bytes: length, max: 1000 }));
    }
    let mut router = opened(Kind::Router, Kind::Dealer);
    // All parts of a message share its limit.
    let bytes = [message(&[&[0; 900], b""]), vec![0, 101]].concat();
    let bytes = [&bytes[..bytes.len() - 4], &[1, 0], &bytes[bytes.len() - 2..]].concat();
    assert_eq!(feed(&mut router, &[bytes, vec![7; 101]].concat()).0, [too_long(&[&[0; 900], b""], 101, 100)]);
}

fn too_long(parts: &[&[u8]], bytes: u64, max: usize) -> Event {
    Event::TooLong(owned(parts), TooLong::message(bytes, max))
}

#[test]
fn a_message_that_is_too_long_and_never_ends_is_cut() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    let part = [&[3][..], &1001_u64.to_be_bytes(), &[0; 1001]].concat();
    let cut = (0..10).find_map(|_| feed(&mut router, &part).1);
    assert_eq!(cut, Some(DisconnectReason::TooManyParts(4)));
}

/// The sender waits for an answer, so the envelope is kept and the connection continues.
#[test]
fn a_message_that_is_too_long_is_skipped_with_its_envelope_kept() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    let bytes = [message(&[b"", &[7; 1001]]), message(&[b"", b"next"])].concat();
    for chunk in bytes.chunks(100) {
        let (events, reason) = feed(&mut router, chunk);
        assert_eq!(reason, None);
        assert!(router.held() < 600, "{}", router.held());
        if let [Event::TooLong(..), ..] = &events[..] {
            assert_eq!(events, [too_long(&[b""], 1001, 1000), Event::Message(owned(&[b"", b"next"]))]);
            return;
        }
    }
    panic!("the sender is not told");
}

/// A requester cannot use the envelope of an answer alone, so an answer that is too long ends the connection.
#[test]
fn an_answer_that_is_too_long_ends_its_connection() {
    let mut dealer = opened(Kind::Dealer, Kind::Router);
    let reason = feed(&mut dealer, &message(&[b"", &[7; 1001]])).1;
    assert_eq!(reason, Some(DisconnectReason::TooLong { bytes: 1001, max: 1000 }));
}

#[test]
fn endless_parts_end() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    assert_eq!(feed(&mut router, &[1, 0].repeat(5)), (vec![], Some(DisconnectReason::TooManyParts(4))));
    let mut router = opened(Kind::Router, Kind::Dealer);
    assert_eq!(feed(&mut router, &message(&[b"", b"", b"", b""])).0, [Event::Message(owned(&[b"", b"", b"", b""]))]);
}

#[test]
fn wrong_frames_end_it() {
    for bytes in [&[8_u8, 0][..], &[0x80, 0], &[5, 1], &[4, 0], &[4, 2, 5, b'P'], &[4, 5, 4, b'P', b'I', b'N', b'G']] {
        let (events, reason) = feed(&mut opened(Kind::Router, Kind::Dealer), bytes);
        assert!(events.is_empty() && matches!(reason, Some(DisconnectReason::Protocol(_))), "{bytes:?}: {reason:?}");
    }
}

#[test]
fn a_dead_connection_stays_dead() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    assert!(feed(&mut router, &[8]).1.is_some());
    assert_eq!(router.poll_timeout(), None);
    assert_eq!(router.send(at(SECOND), &[b"x"]), Err(Full));
    assert_eq!(feed(&mut router, &message(&[b"x"])).1, Some(DisconnectReason::Over));
}

#[test]
fn publishers_are_asked_by_command_or_by_message() {
    let mut publisher = opened(Kind::Xpub, Kind::Sub);
    let mut bytes = message(&[b"\x01old"]);
    command::write(&mut bytes, b"SUBSCRIBE", &[b"new"]);
    bytes.extend(message(&[b"\x00old"]));
    command::write(&mut bytes, b"CANCEL", &[b"new"]);
    bytes.extend(message(&[b"\x02noise"]));
    bytes.extend(message(&[b""]));
    let asked = |text: &[u8]| Event::Subscribed(text.to_vec());
    let cancelled = |text: &[u8]| Event::Cancelled(text.to_vec());
    let expected = vec![asked(b"old"), asked(b"new"), cancelled(b"old"), cancelled(b"new")];
    assert_eq!(feed(&mut publisher, &bytes), (expected, None));
}

#[test]
fn a_subscriber_asks_a_peer_of_3_0_by_message() {
    for (minor, expected) in [(0, &b"\0\x03\x01ab"[..]), (1, b"\x04\x0c\x09SUBSCRIBEab")] {
        let mut subscriber = connection(Kind::Sub);
        let mut bytes = opening(Kind::Xpub);
        bytes[11] = minor;
        assert_eq!(feed(&mut subscriber, &bytes).1, None);
        take(&mut subscriber);
        subscriber.subscribe(at(SECOND), b"ab");
        assert_eq!(take(&mut subscriber), expected);
    }
}

#[test]
fn a_ping_is_answered_with_its_context() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    let mut ping = Vec::new();
    command::write(&mut ping, b"PING", &[&[0, 0], b"context"]);
    assert_eq!(feed(&mut router, &ping), (vec![], None));
    assert_eq!(take(&mut router), b"\x04\x0c\x04PONGcontext");
}

#[test]
fn a_silent_peer_is_asked_then_cut() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    assert_eq!(router.poll_timeout(), Some((at(SECOND * 10), Timer::Ping)));
    router.handle_timeout(at(SECOND * 10)).unwrap();
    assert_eq!(take(&mut router), b"\x04\x07\x04PING\0\0");
    assert_eq!(router.poll_timeout(), Some((at(SECOND * 30), Timer::Silence)));
    // Any byte is a sign of life.
    assert_eq!(router.handle_input(at(SECOND * 29), &mut &b"\x04"[..]), Ok(None));
    router.handle_timeout(at(SECOND * 38)).unwrap();
    assert_eq!(router.poll_timeout(), Some((at(SECOND * 39), Timer::Ping)));
    assert_eq!(router.handle_timeout(at(SECOND * 60)), Ok(()), "it is asked first");
    take(&mut router);
    router.handle_timeout(at(SECOND * 79)).unwrap();
    assert_eq!(router.handle_timeout(at(SECOND * 80)), Err(DisconnectReason::Silent));
}

#[test]
fn the_ttl_of_a_ping_is_kept() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    let mut ping = Vec::new();
    command::write(&mut ping, b"PING", &[&20_u16.to_be_bytes()]);
    assert_eq!(feed(&mut router, &ping), (vec![], None));
    take(&mut router);
    assert_eq!(router.handle_timeout(at(SECOND * 2)), Err(DisconnectReason::Silent));
}

#[test]
fn a_slow_handshake_ends() {
    let mut router = connection(Kind::Router);
    take(&mut router);
    // An occasional byte is not enough.
    assert_eq!(router.handle_input(at(SECOND * 2), &mut &b"\xFF"[..]), Ok(None));
    assert_eq!(router.poll_timeout(), Some((at(SECOND * 3), Timer::Handshake)));
    assert_eq!(router.handle_timeout(at(SECOND * 3)), Err(DisconnectReason::SlowHandshake));
}

#[test]
fn who_does_not_read_is_noticed() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    for _ in 0..4 {
        router.send(at(SECOND), &[b"reply"]).unwrap();
    }
    assert!(!router.is_clogged());
    for _ in 0..4 {
        router.send(at(SECOND), &[b"reply"]).unwrap();
    }
    assert!(router.is_clogged());
    assert_eq!(router.send(at(SECOND), &[b"reply"]), Err(Full));
    // A slow reader makes room, message by message, and does not count as stalled.
    router.handle_written(at(SECOND * 5), 7);
    router.send(at(SECOND * 6), &[b"reply"]).unwrap();
    router.handle_written(at(SECOND * 7), 3);
    assert_eq!(router.send(at(SECOND * 8), &[b"reply"]), Err(Full));
    router.handle_timeout(at(SECOND * 36)).unwrap();
    assert_eq!(router.handle_timeout(at(SECOND * 37)), Err(DisconnectReason::NotReading));
}

/// As long as its queue is full, nothing is read from it, and so no answer to a probe.
#[test]
fn who_reads_slowly_from_a_full_queue_is_not_silent() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    let fill = |router: &mut Connection, now| while router.send(at(now), &[b"reply"]).is_ok() {};
    for second in 1..600_u32 {
        fill(&mut router, SECOND * second);
        router.handle_written(at(SECOND * second), 7);
        router.handle_timeout(at(SECOND * second)).unwrap();
    }
    fill(&mut router, SECOND * 600);
    router.handle_timeout(at(SECOND * 640)).unwrap_err();
}

#[test]
fn one_message_may_wait_whatever_its_size() {
    let mut router = opened(Kind::Router, Kind::Dealer);
    router.send(at(SECOND), &[vec![0; 100_000]]).unwrap();
    assert_eq!(router.send(at(SECOND), &[b""]), Err(Full));
}

#[test]
fn pings_of_one_who_does_not_read_end() {
    let mut ping = Vec::new();
    command::write(&mut ping, b"PING", &[&[0, 0], &[b'x'; 16]]);
    for has_message in [false, true] {
        let mut router = opened(Kind::Router, Kind::Dealer);
        if has_message {
            router.send(at(SECOND), &[b"reply"]).unwrap();
        }
        assert_eq!(feed(&mut router, &ping.repeat(4000)).1, Some(DisconnectReason::NotReading));
        assert!(router.output().len() < 80_000);
    }
    let mut router = opened(Kind::Router, Kind::Dealer);
    for _ in 0..100 {
        assert_eq!(feed(&mut router, &ping.repeat(100)).1, None);
        take(&mut router);
    }
}

#[test]
fn subscriptions_count() {
    let mut subscriptions = Subscriptions::default();
    for prefix in [&b"ab"[..], b"ab", b"c"] {
        subscriptions.add(prefix.to_vec(), 2).unwrap();
    }
    assert_eq!(subscriptions.add(b"d".to_vec(), 2), Err(TooMany));
    assert_eq!(subscriptions.add(vec![b'x'; 257], 9), Err(TooMany));
    subscriptions.remove(b"ab");
    assert!(subscriptions.matches(b"abc") && !subscriptions.matches(b"b"));
    assert!(subscriptions.may_match(b"abcd") && subscriptions.may_match(b"a") && !subscriptions.may_match(b"x"));
    subscriptions.remove(b"ab");
    subscriptions.remove(b"ab");
    assert!(!subscriptions.matches(b"abc") && subscriptions.len() == 1);
}

fn any_message() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..4)
        .prop_filter("within the limit", |parts| parts.iter().map(Vec::len).sum::<usize>() <= 1000)
}

/// A valid stream: the opening, messages, and commands in between.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let message = any_message().prop_map(|parts| message(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    let ping = proptest::collection::vec(any::<u8>(), 0..20).prop_map(|context| {
        let mut bytes = Vec::new();
        command::write(&mut bytes, b"PING", &[&[0, 0], &context]);
        bytes
    });
    proptest::collection::vec(prop_oneof![4 => message, 1 => ping], 0..8)
        .prop_map(|parts| [opening(Kind::Dealer), parts.concat()].concat())
}

/// Cuts a stream into pieces at these positions.
fn pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let ends = places.iter().copied().chain([bytes.len()]);
    let starts = [0].into_iter().chain(places.iter().copied());
    starts.zip(ends).map(|(start, end)| bytes[start..end].to_vec()).collect()
}

fn feed_all(connection: &mut Connection, pieces: &[Vec<u8>]) -> (Vec<Event>, Option<DisconnectReason>, Vec<u8>) {
    let (mut events, mut said) = (Vec::new(), Vec::new());
    for piece in pieces {
        let (more, reason) = feed(connection, piece);
        events.extend(more);
        said.extend(take(connection));
        if reason.is_some() {
            return (events, reason, said);
        }
    }
    (events, None, said)
}

proptest! {
    #[test]
    fn any_split_gives_the_same(stream in any_stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let whole = feed_all(&mut connection(Kind::Router), std::slice::from_ref(&stream));
        prop_assert_eq!(&whole.1, &None);
        let split = feed_all(&mut connection(Kind::Router), &pieces(&stream, &cuts));
        prop_assert_eq!(&whole, &split);
        let bytes: Vec<Vec<u8>> = stream.iter().map(|byte| vec![*byte]).collect();
        prop_assert_eq!(&whole, &feed_all(&mut connection(Kind::Router), &bytes));
    }

    #[test]
    fn what_was_sent_comes_out(messages in proptest::collection::vec(any_message(), 0..8)) {
        let (mut client, mut server) = (connection(Kind::Dealer), connection(Kind::Router));
        converse(&mut client, &mut server);
        for parts in &messages {
            client.send(at(SECOND), parts).unwrap();
            let (_, events) = converse(&mut client, &mut server);
            prop_assert_eq!(events, vec![Event::Message(parts.clone())]);
        }
    }

    /// The first events of a truncated stream are those of the whole one, without further effects.
    #[test]
    fn a_truncation_is_a_beginning(stream in any_stream(), end in any::<prop::sample::Index>()) {
        let whole = feed(&mut connection(Kind::Router), &stream).0;
        let (events, reason) = feed(&mut connection(Kind::Router), &stream[..end.index(stream.len() + 1)]);
        prop_assert_eq!(reason, None);
        prop_assert!(whole.starts_with(&events));
    }

    #[test]
    fn garbage_is_harmless(
        stream in any_stream(),
        garbage in proptest::collection::vec(any::<u8>(), 0..400),
        place in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..10),
        kind in prop_oneof![Just(Kind::Router), Just(Kind::Xpub), Just(Kind::Sub), Just(Kind::Dealer)],
    ) {
        let place = place.index(stream.len() + 1);
        let bytes = [&stream[..place], &garbage, &stream[place..]].concat();
        let mut connection = connection(kind);
        let _ = feed_all(&mut connection, &pieces(&bytes, &cuts));
        let held = connection.held();
        prop_assert!(held <= 2 * (1000 + command::COMMAND_BYTES_MAX) + 4 * 24 + 80_000, "{held} bytes");
        let _ = connection.poll_timeout();
        let _ = connection.handle_timeout(at(SECOND * 100));
    }
}

pub(super) fn keys() -> (Security, Security) {
    let (server, client) = (KeyPair::from_bytes([1; 32]), KeyPair::from_bytes([2; 32]));
    let authorised = [client.public()].into_iter().collect();
    let client = ClientKeys { pair: client, server: server.public() };
    (
        Security::CurveServer(ServerKeys { pair: server, authorised, commanders: [].into() }.into()),
        Security::CurveClient(client.into()),
    )
}

#[test]
fn a_key_is_written_as_others_write_it() {
    // The client of the libzmq manual, zmq_curve(7).
    let pair = KeyPair::parse("D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs").unwrap();
    assert_eq!(pair.public().to_string(), "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID");
    assert_eq!(PublicKey::parse(&pair.public().to_string()), Ok(pair.public()));
    assert_eq!(pair.secret_text(), "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs");
    assert!(!format!("{pair:?}").contains("D:)Q"));
    for text in
        ["", "x", "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hI", "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hI\"", "~~~~~"]
    {
        assert_eq!(PublicKey::parse(text), Err(BadKey::NotZ85), "{text}");
    }
}

#[test]
fn secured_connections_talk_and_know_each_other() {
    let (server, client) = keys();
    let (mut client, mut server) = (secured(Kind::Sub, client, 3), secured(Kind::Xpub, server, 4));
    let (of_client, of_server) = converse(&mut client, &mut server);
    let peer =
        |kind, seed| Event::Opened(Peer { kind, is_3_1: true, key: Some(KeyPair::from_bytes([seed; 32]).public()) });
    assert_eq!((of_client, of_server), (vec![peer(Kind::Xpub, 1)], vec![peer(Kind::Sub, 2)]));
    client.subscribe(at(SECOND), b"prefix");
    assert_eq!(converse(&mut client, &mut server).1, [Event::Subscribed(b"prefix".to_vec())]);
    server.send(at(SECOND), &[&b""[..], b"secret", &[7; 900]]).unwrap();
    assert!(!server.output().windows(6).any(|bytes| bytes == b"secret"));
    let (of_client, _) = converse(&mut client, &mut server);
    assert_eq!(of_client, [Event::Message(owned(&[b"", b"secret", &[7; 900]]))]);
}

#[test]
fn wrong_keys_do_not_get_in() {
    let stranger = KeyPair::from_bytes([9; 32]);
    let (server, Security::CurveClient(known)) = keys() else { panic!() };
    let unknown = ClientKeys { pair: stranger.clone(), ..ClientKeys::clone(&known) };
    let mistaken = ClientKeys { server: stranger.public(), ..ClientKeys::clone(&known) };
    for (client, expected) in [
        (unknown, DisconnectReason::Unauthorised(stranger.public().to_string())),
        (mistaken, DisconnectReason::Keys("a box cannot be opened")),
    ] {
        let mut client = secured(Kind::Dealer, Security::CurveClient(client.into()), 3);
        let mut server = secured(Kind::Router, server.clone(), 4);
        let reason = std::iter::repeat_with(|| {
            let reason = feed(&mut server, &take(&mut client)).1;
            let told = feed(&mut client, &take(&mut server)).1;
            assert!(told.is_none() || told == Some(DisconnectReason::Refused("400".to_owned())));
            reason
        });
        assert_eq!(reason.take(9).find_map(|reason| reason), Some(expected));
    }
    let mut plain = connection(Kind::Dealer);
    let reason = feed(&mut plain, &take(&mut secured(Kind::Router, server, 4))).1;
    assert_eq!(reason, Some(DisconnectReason::Mechanism { theirs: "CURVE".to_owned(), ours: "NULL" }));
}

/// RFC 26: the server checks each field of a HELLO.
#[test]
fn a_malformed_hello_is_refused() {
    let hello = |change: fn(&mut Vec<u8>)| {
        let (server, client) = keys();
        let (mut client, mut server) = (secured(Kind::Dealer, client, 3), secured(Kind::Router, server, 4));
        feed(&mut server, &take(&mut client));
        feed(&mut client, &take(&mut server));
        let mut hello = take(&mut client);
        assert!(hello.starts_with(b"\x04\xC8\x05HELLO\x01\x00"), "the head of a frame, and version 1.0");
        change(&mut hello);
        (feed(&mut server, &hello).1, take(&mut server).is_empty())
    };
    assert_eq!(hello(|_| {}), (None, false), "it is welcome");
    let changes: [fn(&mut Vec<u8>); 4] = [
        |hello| hello[8] = 2,
        |hello| hello[9] = 9,
        |hello| hello[50] = 1,
        |hello| {
            hello.pop();
            hello[1] -= 1;
        },
    ];
    for change in changes {
        let (reason, is_silent) = hello(change);
        assert!(matches!(reason, Some(DisconnectReason::Protocol(_))) && is_silent, "{reason:?}");
    }
}

/// The client's conclusion from a server that closes: after the first CURVE command, and at no other time.
#[test]
fn a_close_instead_of_a_welcome_tells_of_another_key() {
    let (server, client) = keys();
    let (mut client, mut server) = (secured(Kind::Dealer, client, 3), secured(Kind::Router, server, 4));
    assert_eq!(client.meaning_of_end(), None, "it may be crowded");
    feed(&mut client, &take(&mut server));
    assert_eq!(client.meaning_of_end(), Some(DisconnectReason::Unanswered));
    converse(&mut client, &mut server);
    assert_eq!((client.meaning_of_end(), server.meaning_of_end()), (None, None));
}

#[test]
fn boxes_are_bounded_and_not_taken_twice() {
    let open = || {
        let (server, client) = keys();
        let (mut client, mut server) = (secured(Kind::Dealer, client, 3), secured(Kind::Router, server, 4));
        converse(&mut client, &mut server);
        (client, server)
    };
    let (mut client, mut server) = open();
    client.send(at(SECOND), &[&[1; 1000]]).unwrap();
    let sealed = take(&mut client);
    assert_eq!(feed(&mut server, &sealed).0, [Event::Message(owned(&[&[1; 1000]]))]);
    assert!(matches!(feed(&mut server, &sealed).1, Some(DisconnectReason::Protocol(_))));
    let (mut client, mut server) = open();
    client.send(at(SECOND), &[&[1; 1001]]).unwrap();
    assert_eq!(feed(&mut server, &take(&mut client)), (vec![too_long(&[], 1001, 1000)], None));
    client.send(at(SECOND), &[&b""[..], &[1; 70_000]]).unwrap();
    let mut sealed = take(&mut client);
    client.send(at(SECOND), &[&[1; 1000]]).unwrap();
    sealed.extend(take(&mut client));
    let next = Event::Message(owned(&[&[1; 1000]]));
    let max = command::COMMAND_BYTES_MAX;
    assert_eq!(feed(&mut server, &sealed), (vec![too_long(&[b""], 70_000, max), next], None));
    let (_, mut server) = open();
    let reason = feed(&mut server, &[2, 0, 0, 0, 1, 0, 0, 0, 0]).1;
    assert_eq!(reason, Some(DisconnectReason::TooLong { bytes: (1 << 32) - 33, max }));
    let (_, mut server) = open();
    assert!(matches!(feed(&mut server, &message(&[b"plain"])).1, Some(DisconnectReason::Protocol(_))));
}

proptest! {
    /// A byte that is changed on the way, or a split of the stream, anywhere in a secured conversation.
    #[test]
    fn a_changed_byte_is_noticed(place in any::<prop::sample::Index>(), change in 1..=255_u8, byte_by_byte in any::<bool>()) {
        let (server, client) = keys();
        let (mut client, mut server) = (secured(Kind::Dealer, client, 3), secured(Kind::Router, server, 4));
        converse(&mut client, &mut server);
        client.send(at(SECOND), &[&b""[..], b"first", &[7; 300]]).unwrap();
        client.send(at(SECOND), &[b"second"]).unwrap();
        let mut bytes = take(&mut client);
        let sent = [Event::Message(owned(&[b"", b"first", &[7; 300]])), Event::Message(owned(&[b"second"]))];
        if byte_by_byte {
            let pieces: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
            prop_assert_eq!(&feed_all(&mut server, &pieces).0, &sent);
        } else {
            let place = place.index(bytes.len());
            bytes[place] ^= change;
            let (events, _) = feed(&mut server, &bytes);
            // Only the flags in the box count, not those of the outer frame: RFC 26 also calls MESSAGE a command.
            let may_be_flags = change & !(frame::MORE | frame::COMMAND) == 0;
            prop_assert!((may_be_flags || events.len() < sent.len()) && sent.starts_with(&events));
        }
    }
}
