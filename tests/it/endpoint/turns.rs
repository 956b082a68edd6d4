//! How much of one peer there is in a turn: the loop has other things to do.

use std::io::Write as _;

use proc::clock;
use zmtp::engine::{Event, Kind, Settings};
use zmtp::sockets::{Address, Endpoint, What};

use crate::endpoint::conformance::socket;
use crate::endpoint::echo::{Echo, PATIENCE, settings};
use crate::endpoint::raw::{Raw, opening};
use testkit::eventually;

/// Far more than there are in a turn, and few enough to be on their way before the first one.
const FLOOD: usize = 20_000;

const EVENTS_OF_A_TURN_MAX: usize = 2_000;

/// Three bytes each, also for a prefix that was never asked for: each is an event that costs the owner something.
#[test]
fn a_flood_of_subscriptions_is_taken_turn_by_turn() {
    let settings = settings();
    let mut endpoint = Endpoint::new(settings.places).unwrap();
    let of_publisher = Settings { kind: Kind::Xpub, limits: settings.limits, security: settings.security };
    let free = Address::parse("tcp://127.0.0.1:0").unwrap();
    let bound = endpoint.listen(&free, of_publisher).unwrap().to_string();
    let mut raw = Raw::connect(bound.strip_prefix("tcp://").unwrap());
    raw.0.write_all(&[opening("SUB"), [0, 1, 0].repeat(FLOOD)].concat()).unwrap();
    let (mut cancelled, mut turns) = (0, 0);
    let end = clock::now().mono + PATIENCE;
    while cancelled < FLOOD {
        let now = clock::now().mono;
        assert!(now < end, "{cancelled} of {FLOOD} events come");
        endpoint.wait(now, Some(end), &[]);
        let events = std::iter::from_fn(|| endpoint.poll_event());
        let of_turn = events.filter(|it| it.what == What::Event(Event::Cancelled(Vec::new()))).count();
        assert!(of_turn <= EVENTS_OF_A_TURN_MAX, "{of_turn} events in one turn");
        cancelled += of_turn;
        turns += 1;
    }
    assert!(turns >= FLOOD / EVENTS_OF_A_TURN_MAX, "{turns}");
}

/// Whether messages are made on demand follows from all subscribers, whichever of them come and go.
#[test]
fn watchers_are_counted() {
    let echo = Echo::start(&settings());
    let context = zmq::Context::new();
    let subscriber = |prefixes: &[&str]| {
        let socket = socket(&context, zmq::SUB, &echo.broadcasts);
        for prefix in prefixes {
            socket.set_subscribe(prefix.as_bytes()).unwrap();
        }
        socket
    };
    let others = subscriber(&["other", "wat?", "x"]);
    let watches = |count: bool| eventually("what is watched is known", || echo.is_watched() == count);
    watches(false);
    // A longer and a shorter beginning count as well, each peer once.
    let (first, second) = (subscriber(&["watch it", "watch me"]), subscriber(&[""]));
    watches(true);
    first.set_unsubscribe(b"watch it").unwrap();
    second.set_unsubscribe(b"").unwrap();
    others.set_unsubscribe(b"wat?").unwrap();
    // Publications arrive in order, after the subscriptions.
    first.set_subscribe(b"done").unwrap();
    first.set_rcvtimeo(10).unwrap();
    eventually("the subscriptions have changed", || {
        echo.publish(b"done");
        first.recv_bytes(0).is_ok()
    });
    assert!(echo.is_watched(), "the first one still does");
    drop(first);
    watches(false);
    second.set_subscribe(b"w").unwrap();
    watches(true);
    drop(second);
    watches(false);
}
