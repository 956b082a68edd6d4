//! Messages of strangers (docs/design/hazards.md, W5, W6, W8, W9): the connection is closed or the message skipped, and all other
//! peers are served.

use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt as _, SeedableRng};

use crate::endpoint::conformance::{ask, socket};
use crate::endpoint::echo::{Echo, PATIENCE, settings};
use crate::endpoint::raw::{Raw, message, opening};

/// A client that was there before, and is served whatever happens.
struct Witness {
    client: zmq::Socket,
    _context: zmq::Context,
}

impl Witness {
    fn of(echo: &Echo) -> Self {
        let context = zmq::Context::new();
        let client = socket(&context, zmq::REQ, &echo.requests);
        ask(&client, "first");
        Self { client, _context: context }
    }

    fn is_served(&self) {
        ask(&self.client, "still there");
    }
}

/// A message without an envelope reaches the owner unchanged, and no connection is closed (docs/design/hazards.md, W5).
#[test]
fn odd_envelopes_arrive_as_they_are() {
    let echo = Echo::start(&settings());
    let mut raw = Raw::dealer(echo.address());
    for parts in [&[b"x".as_slice()][..], &[b""], &[b"", b""], &[b"", b"", b"", b""], &[&[b'e'; 300], b"", b"x"]] {
        raw.0.write_all(&message(parts)).unwrap();
        for (index, part) in parts.iter().enumerate() {
            let (flags, body) = raw.frame();
            assert_eq!((flags & 1, body.as_slice()), (u8::from(index + 1 < parts.len()), *part));
        }
    }
}

#[test]
fn every_byte_may_come_alone() {
    let echo = Echo::start(&settings());
    let mut raw = Raw::connect(echo.address());
    for byte in [opening("REQ"), message(&[b"", &[b'x'; 300]]), message(&[b"", b"y"])].concat() {
        raw.0.write_all(&[byte]).unwrap();
    }
    raw.skip_handshake();
    assert_eq!(raw.frame(), (1, vec![]));
    assert_eq!(raw.frame(), (2, vec![b'x'; 300]));
    assert_eq!(raw.frame(), (1, vec![]));
    assert_eq!(raw.frame(), (0, vec![b'y']));
}

/// The end of its bytes may come together with them.
#[test]
fn a_client_may_say_all_and_close_at_once() {
    let echo = Echo::start(&settings());
    for _ in 0..50 {
        let mut raw = Raw::connect(echo.address());
        raw.0.write_all(&[opening("DEALER"), message(&[b"", b"x"])].concat()).unwrap();
        raw.0.shutdown(Shutdown::Write).unwrap();
        assert!(raw.is_closed());
    }
}

/// More requests than may wait as answers: it is not listened to until it has read some, and nothing is lost.
#[test]
fn a_client_that_reads_late_gets_every_answer() {
    let echo = Echo::start(&settings());
    let raw = Raw::dealer(echo.address());
    let mut reader = Raw(raw.0.try_clone().unwrap());
    let count = 20_000;
    let writer = std::thread::spawn(move || {
        let mut raw = raw;
        let request = message(&[b"", &[b'x'; 1000]]);
        let written = (0..count).all(|_| raw.0.write_all(&request).is_ok());
        assert!(written, "it was cut");
        raw
    });
    // Until both directions are full.
    while !reader.is_stuck() {}
    for number in 0..count {
        assert_eq!(reader.frame(), (1, vec![]), "{number}");
        assert_eq!(reader.frame().1.len(), 1000);
    }
    writer.join().unwrap();
}

#[test]
fn a_client_may_close_its_half_and_read_on() {
    let echo = Echo::start(&settings());
    let mut raw = Raw::connect(echo.address());
    raw.0.write_all(&[opening("DEALER"), message(&[b"", b"x"])].concat()).unwrap();
    raw.skip_handshake();
    assert_eq!((raw.frame(), raw.frame()), ((1, vec![]), (0, vec![b'x'])));
    raw.0.shutdown(Shutdown::Write).unwrap();
    assert!(raw.is_closed());
}

/// docs/design/hazards.md, W6.
#[test]
fn what_does_not_end_is_cut() {
    let echo = Echo::start(&settings());
    let witness = Witness::of(&echo);
    // The maximum that the kernel buffers of a connection on both sides.
    let kernel = 16 << 20;
    let sent = Raw::dealer(echo.address()).flood(&[1, 0].repeat(1000));
    assert!(sent < kernel, "{sent} bytes of endless parts");
    let sent = Raw::dealer(echo.address()).flood(&[b"\x01\xFF".as_slice(), &[0; 255]].concat());
    assert!(sent < kernel, "{sent} bytes of endless parts");
    for length in [(256_u64 << 20) + 1, 8 << 30, 1 << 62, u64::MAX] {
        let mut raw = Raw::dealer(echo.address());
        raw.0.write_all(&[&[2][..], &length.to_be_bytes()].concat()).unwrap();
        assert!(raw.is_closed(), "{length} bytes announced");
    }
    witness.is_served();
}

/// docs/design/hazards.md, W6.
#[test]
fn one_byte_now_and_then_is_no_handshake() {
    let mut settings = settings();
    settings.limits.handshake_timeout = Duration::from_millis(200);
    let echo = Echo::start(&settings);
    let mut raw = Raw::connect(echo.address());
    let bytes = opening("DEALER");
    let mut sent = 0;
    while sent < bytes.len() && !raw.is_closed_within(Duration::from_millis(100)) {
        let _ = raw.0.write_all(&bytes[sent..=sent]);
        sent += 1;
        raw.read_away();
    }
    assert!(sent < bytes.len() - 1, "{sent} bytes were taken in many seconds");
}

/// docs/design/hazards.md, W6.
#[test]
fn random_bytes_do_no_harm() {
    let echo = Echo::start(&settings());
    let witness = Witness::of(&echo);
    let mut random = StdRng::seed_from_u64(6);
    for round in 0..300 {
        let mut raw = if round % 2 == 0 { Raw::dealer(echo.address()) } else { Raw::connect(echo.address()) };
        let mut bytes = vec![0; random.random_range(1..200)];
        random.fill_bytes(&mut bytes);
        let _ = raw.0.write_all(&bytes);
    }
    witness.is_served();
}

/// docs/design/hazards.md, W8.
#[test]
fn other_protocols_are_closed() {
    let echo = Echo::start(&settings());
    let witness = Witness::of(&echo);
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\0\x01\0\x01\xFC\x03\x03",
        &[0; 100],
        b"{\"__TYPE__\":\"TASK/QUERY\"}\n",
        // ZMTP 1 and 2.
        b"\x01\0\x01\x7E\0\0",
        b"\xFF\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0",
        b"\xFF\0\0\0\0\0\0\0\x01\x7F\x01\x05\0\0",
    ] {
        let mut raw = Raw::connect(echo.address());
        raw.0.write_all(bytes).unwrap();
        assert!(raw.is_closed(), "{}", bytes.escape_ascii());
    }
    for kind in ["PUB", "SUB", "PUSH", "PULL", "PAIR", "REP", "", "X"] {
        let mut raw = Raw::connect(echo.address());
        raw.0.write_all(&opening(kind)).unwrap();
        assert!(raw.is_closed(), "{kind}");
    }
    witness.is_served();
}

/// docs/design/hazards.md, W9.
#[test]
fn who_reads_no_answers_is_not_listened_to_then_cut() {
    let mut settings = settings();
    settings.limits.stall_timeout = Duration::from_secs(1);
    let echo = Echo::start(&settings);
    let witness = Witness::of(&echo);
    let mut raw = Raw::dealer(echo.address());
    let mut request = Vec::new();
    for _ in 0..100 {
        request.extend(message(&[b"", &[b'x'; 1000]]));
    }
    // It ends, so it was cut; and much less was taken in than a minute of sending would be.
    let sent = raw.flood(&request);
    assert!(sent < 32 << 20, "{sent} bytes were taken of a peer that does not read");
    witness.is_served();
}

#[test]
fn who_falls_silent_is_asked_then_cut() {
    let mut settings = settings();
    // A peer that is to survive has twice as long for an answer.
    settings.limits.ping_interval = Some(Duration::from_secs(4));
    let echo = Echo::start(&settings);
    let witness = Witness::of(&echo);
    let mut raw = Raw::dealer(echo.address());
    assert_eq!(raw.frame(), (4, b"\x04PING\0\0".to_vec()));
    raw.0.write_all(b"\x04\x05\x04PONG").unwrap();
    assert_eq!(raw.frame(), (4, b"\x04PING\0\0".to_vec()));
    assert!(raw.is_closed());
    witness.is_served();
}

#[test]
fn a_slow_subscriber_loses_broadcasts_and_nobody_else_does() {
    let mut settings = settings();
    settings.limits.queue_messages_max = 10;
    let echo = Echo::start(&settings);
    let context = zmq::Context::new();
    let mut slow = Raw::connect(echo.broadcasts.strip_prefix("tcp://").unwrap());
    slow.0.write_all(&[opening("SUB"), message(&[b"\x01watch"])].concat()).unwrap();
    testkit::eventually("it has subscribed", || echo.is_watched());
    let subscriber = socket(&context, zmq::SUB, &echo.broadcasts);
    subscriber.set_subscribe(b"").unwrap();
    subscriber.set_rcvtimeo(5).unwrap();
    testkit::eventually("the subscription", || {
        echo.publish(b"probe");
        subscriber.recv_bytes(0).is_ok()
    });
    subscriber.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    let frame = [b"watch".as_slice(), &[0; 100_000]].concat();
    for number in 0_u8..200 {
        echo.publish(&[&frame[..], &[number]].concat());
        while subscriber.recv_bytes(0).unwrap().last() != Some(&number) {}
    }
}

#[test]
fn too_many_subscriptions_are_cut() {
    let echo = Echo::start(&settings());
    let mut raw = Raw::connect(echo.broadcasts.strip_prefix("tcp://").unwrap());
    raw.0.write_all(&opening("SUB")).unwrap();
    for number in 0..11 {
        raw.0.write_all(&message(&[format!("\x01{number}").as_bytes()])).unwrap();
    }
    assert!(raw.is_closed());
}
