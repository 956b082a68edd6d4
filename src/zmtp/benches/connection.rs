//! The wire: messages through two connections, from bytes to bytes, and their JSON.

use std::time::Duration;

use base::json::FieldLimits;
use base::{Mono, json};
use divan::counter::{BytesCount, ItemsCount};
use zmtp::engine::{Connection, Event, Kind, Limits, Security, Settings};

fn main() {
    divan::main();
}

const NOW: Mono = Mono::from_nanos(0);

/// The number of messages that share a write.
const MANY: usize = 64;

fn connection(kind: Kind) -> Connection {
    let limits = Limits {
        message_bytes_max: 1 << 20,
        long: None,
        parts_max: 8,
        queue_messages_max: 1000,
        queue_bytes_max: 1 << 24,
        handshake_timeout: Duration::from_secs(3),
        stall_timeout: Duration::from_secs(60),
        ping_interval: None,
    };
    Connection::new(NOW, Settings { kind, limits, security: Security::Null }, [7; 32])
}

/// Transfers all output of one side, and counts the messages in it.
fn carry(from: &mut Connection, to: &mut Connection) -> usize {
    let mut messages = 0;
    let bytes = from.output().to_vec();
    from.handle_written(NOW, bytes.len());
    let mut input = bytes.as_slice();
    while let Some(event) = to.handle_input(NOW, &mut input).expect("a good peer") {
        messages += usize::from(matches!(event, Event::Message(_)));
    }
    messages
}

fn pair() -> (Connection, Connection) {
    let (mut dealer, mut router) = (connection(Kind::Dealer), connection(Kind::Router));
    while dealer.peer().is_none() || router.peer().is_none() {
        carry(&mut dealer, &mut router);
        carry(&mut router, &mut dealer);
    }
    (dealer, router)
}

fn submit() -> Vec<u8> {
    br#"{"__TYPE__":"TASK/SUBMIT","__OPERATION__":"tool","alpha":"a value","beta":"another value","gamma":7}"#.to_vec()
}

/// A request with its delimiter, encoded by one side and decoded by the other.
#[divan::bench(args = [1, MANY])]
fn request(bencher: divan::Bencher<'_, '_>, messages: usize) {
    let (mut dealer, mut router) = pair();
    let body = submit();
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        for _ in 0..messages {
            dealer.send(NOW, &[b"".as_slice(), &body]).expect("room");
        }
        assert_eq!(carry(&mut dealer, &mut router), messages);
    });
}

/// A large message.
#[divan::bench(args = [10_000, 200_000])]
fn large(bencher: divan::Bencher<'_, '_>, bytes: usize) {
    let (mut dealer, mut router) = pair();
    let body = vec![b'x'; bytes];
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        dealer.send(NOW, &[b"".as_slice(), &body]).expect("room");
        assert_eq!(carry(&mut dealer, &mut router), 1);
    });
}

/// The JSON of a submit, read and written.
#[divan::bench]
fn submit_json(bencher: divan::Bencher<'_, '_>) {
    let body = submit();
    bencher.counter(BytesCount::of_slice(&body)).bench_local(|| {
        let fields = json::parse(divan::black_box(&body), &FieldLimits::TRUSTED);
        json::to_vec(&fields.unwrap_or_else(|rejected| panic!("{rejected:?}")))
    });
}
