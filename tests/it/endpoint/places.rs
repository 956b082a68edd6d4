//! The rules of admission when there are more connections than places (docs/design/hazards.md, W7).

use std::io::Write;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use zmtp::endpoint::ConnectionLimits;

use crate::endpoint::conformance::{ask, socket};
use crate::endpoint::echo::{AGENT, Echo, WAIT, settings};
use crate::endpoint::raw::{Raw, message, opening};
use crate::scenario::alone;

#[test]
fn connections_that_say_nothing_make_room() {
    for places in [(20, 1000), (1000, 20)] {
        let mut settings = settings();
        settings.places = ConnectionLimits { connections_max: places.0, per_address_max: places.1, ..settings.places };
        let echo = Echo::start(&settings);
        let context = zmq::Context::new();
        let before = socket(&context, zmq::REQ, &echo.requests);
        ask(&before, "before");
        let idle: Vec<Raw> = (0..200).map(|_| Raw::connect(echo.address())).collect();
        ask(&before, "meanwhile");
        let newcomer = socket(&context, zmq::REQ, &echo.requests);
        ask(&newcomer, "after");
        let closed = idle.into_iter().map(|mut raw| {
            raw.0.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            raw.is_closed()
        });
        assert!(closed.filter(|closed| *closed).count() >= 180);
    }
}

#[test]
fn one_address_does_not_take_all_places() {
    let mut settings = settings();
    settings.places = ConnectionLimits { connections_max: 20, per_address_max: 5, ..settings.places };
    let echo = Echo::start(&settings);
    let mut held: Vec<Raw> = (0..5).map(|_| Raw::waiting(echo.address())).collect();
    let mut refused = Raw::connect(echo.address());
    assert!(refused.is_closed());
    held.pop();
    // The place is free when the close has been seen.
    testkit::eventually("the place is free", || {
        let mut raw = Raw::connect(echo.address());
        raw.0.write_all(&opening("DEALER")).is_ok() && !raw.is_closed_within(Duration::from_millis(50))
    });
}

/// In a process of its own, whose time is that of the loop.
#[test]
fn a_full_house_waits_until_somebody_leaves() {
    alone(|| {
        let mut settings = settings();
        settings.places = ConnectionLimits { connections_max: 5, per_address_max: 100, ..settings.places };
        let echo = Echo::start(&settings);
        let mut held: Vec<Raw> = (0..5).map(|_| Raw::waiting(echo.address())).collect();
        let mut waits = Raw::connect(echo.address());
        waits.0.write_all(&[opening("DEALER"), message(&[b"", b"x"])].concat()).unwrap();
        assert!(!waits.is_closed_within(Duration::from_millis(100)));
        held.iter_mut().for_each(Raw::is_answered);
        // A loop that asks for what it cannot take would spin.
        let before = cpu_time();
        assert!(!waits.is_closed_within(Duration::from_millis(300)));
        assert!(cpu_time() - before < Duration::from_millis(150), "the loop spins");
        held.pop();
        waits.skip_handshake();
        assert_eq!((waits.frame(), waits.frame()), ((1, vec![]), (0, vec![b'x'])));
    });
}

/// Whether it is closed at present.
fn has_gone(raw: &mut Raw) -> bool {
    raw.is_closed_within(Duration::from_millis(20))
}

/// Complete handshakes that say nothing more: the one that has been silent the longest gives way, and none before that is needed.
#[test]
fn who_is_silent_the_longest_gives_way_to_a_newcomer() {
    for places in [(6, 1000), (1000, 6)] {
        let mut settings = settings();
        settings.places = ConnectionLimits { connections_max: places.0, per_address_max: places.1, ..settings.places };
        let echo = Echo::start(&settings);
        let mut agent = Raw::dealer(echo.address());
        agent.0.write_all(&message(&[b"", AGENT])).unwrap();
        assert_eq!((agent.frame(), agent.frame()), ((1, vec![]), (0, AGENT.to_vec())));
        let mut waiting = Raw::waiting(echo.address());
        let mut idle: Vec<Raw> = (0..4).map(|_| Raw::dealer(echo.address())).collect();
        assert!(!idle.iter_mut().any(has_gone), "there is a place for each of them");
        // The first one speaks, so the second one is the next to go.
        idle[0].is_answered();
        let mut newcomer = Raw::dealer(echo.address());
        newcomer.is_answered();
        assert!(idle.remove(1).is_closed());
        let _newcomers: Vec<Raw> = (0..3).map(|_| Raw::dealer(echo.address())).collect();
        assert!(idle.iter_mut().all(Raw::is_closed), "they are silent for longer than the newcomers");
        waiting.is_answered();
        agent.is_answered();
    }
}

/// The last places are for the unix socket, and for addresses without a connection.
#[test]
fn a_crowd_does_not_keep_the_operator_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("controller.sock");
    let mut settings = settings();
    settings.places = ConnectionLimits { connections_max: 64, per_address_max: 1000, ..settings.places };
    settings.local = Some(zmtp::sockets::Address::Ipc(path.clone()));
    let echo = Echo::start(&settings);
    let mut crowd: Vec<Raw> = (0..60).map(|_| Raw::waiting(echo.address())).collect();
    for _ in 0..3 {
        let mut refused = Raw::connect(echo.address());
        // It may be closed before it has said all.
        let _ = refused.0.write_all(&[opening("DEALER"), message(&[b"", WAIT])].concat());
        assert!(refused.is_closed(), "it has an address with connections");
    }
    let context = zmq::Context::new();
    let operators: Vec<_> = (0..2).map(|_| socket(&context, zmq::REQ, &format!("ipc://{}", path.display()))).collect();
    operators.iter().for_each(|operator| ask(operator, "stats"));
    crowd.iter_mut().for_each(Raw::is_answered);
}

/// Half messages, each well within its limit: the oldest are dropped first, and a peer that completes its message is not
/// among them.
#[test]
fn half_messages_of_many_do_not_add_up() {
    let mut settings = settings();
    settings.places.held_bytes_max = 2 << 20;
    let echo = Echo::start(&settings);
    let context = zmq::Context::new();
    let honest = socket(&context, zmq::REQ, &echo.requests);
    let whole = message(&[b"", &[b'x'; 200_000]]);
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut raw = Raw::dealer(echo.address());
        raw.0.write_all(&whole[..150_000]).unwrap();
        halves.push(raw);
        ask(&honest, &"y".repeat(200_000));
    }
    let mut last = halves.pop().unwrap();
    for raw in &mut halves[..30] {
        assert!(raw.is_closed());
    }
    last.0.write_all(&whole[150_000..]).unwrap();
    assert_eq!((last.frame(), last.frame().1.len()), ((1, vec![]), 200_000));
}

/// Answers that are not read, well within the limit of each.
#[test]
fn answers_for_many_do_not_add_up() {
    let mut settings = settings();
    settings.places.held_bytes_max = 1 << 20;
    settings.limits.stall_timeout = Duration::from_secs(3600);
    let echo = Echo::start(&settings);
    let context = zmq::Context::new();
    let honest = socket(&context, zmq::REQ, &echo.requests);
    let mut raw = Raw::dealer(echo.address());
    raw.flood(&message(&[b"", &[b'x'; 10_000]]).repeat(10));
    assert!(raw.is_closed());
    ask(&honest, &"y".repeat(200_000));
}

/// In a process of its own: the limit belongs to all of it.
#[test]
fn without_descriptors_the_others_are_served() {
    alone(|| {
        let mut settings = settings();
        settings.places = ConnectionLimits { connections_max: 1000, per_address_max: 1000, ..settings.places };
        let echo = Echo::start(&settings);
        let mut before = Raw::dealer(echo.address());
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        setrlimit(Resource::RLIMIT_NOFILE, open + 20, hard).unwrap();
        let mut held = Vec::new();
        while let Ok(stream) = std::net::TcpStream::connect(echo.address()) {
            held.push(stream);
        }
        for _ in 0..10 {
            before.0.write_all(&message(&[b"", b"y"])).unwrap();
            assert_eq!((before.frame(), before.frame()), ((1, vec![]), (0, vec![b'y'])));
        }
        drop(held);
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        Raw::dealer(echo.address());
    });
}

fn cpu_time() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| {
        Duration::new(u64::try_from(time.tv_sec()).unwrap(), u32::try_from(time.tv_usec() * 1000).unwrap())
    };
    seconds(usage.user_time()) + seconds(usage.system_time())
}
