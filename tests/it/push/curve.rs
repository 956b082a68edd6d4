//! Pushing to receivers that want CURVE, and to those that only should.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::{AddressPolicy, PushAddress};
use proc::clock;
use zmtp::engine::{KeyPair, PublicKey, Security, ServerKeys};
use zmtp::push_io::PushConfig;
use zmtp::sockets::{PortSettings, Ports};

use crate::push::driver::Driven;
use crate::push::ports;
use crate::push::suite::{PATIENCE, config, keys, start, wait_for};
use testkit::own_ip;

/// How long an address that cannot be reached is tried.
const SHORT: Duration = Duration::from_millis(500);

fn key(seed: u8) -> PublicKey {
    KeyPair::from_bytes([seed; 32]).public()
}

fn address(endpoint: &str, key: Option<PublicKey>) -> Arc<PushAddress> {
    let address = PushAddress::parse(endpoint, &AddressPolicy::everything()).unwrap();
    Arc::new(match key {
        Some(key) => address.with_key(key),
        None => address,
    })
}

/// A receiver that lets in only clients with the keys of [`keys`].
fn receiver(pair: [u8; 32]) -> Ports {
    let keys =
        ServerKeys { pair: KeyPair::from_bytes(pair), authorised: [keys().public()].into(), commanders: [].into() };
    let settings = PortSettings { security: Security::CurveServer(Arc::new(keys)), ..ports::settings(PATIENCE) };
    let free = format!("tcp://{}:0", own_ip());
    Ports::bind(&free, &free, String::new(), &settings).unwrap()
}

/// The next frame, with the one that names its sender.
fn next(ports: &mut Ports) -> (Vec<u8>, String) {
    let end = clock::now().mono + PATIENCE;
    loop {
        let now = clock::now().mono;
        assert!(now < end, "a frame in time");
        if let Some(mut frames) = ports.receive() {
            let text = String::from_utf8(frames.pop().unwrap()).unwrap();
            return (frames.swap_remove(0), text);
        }
        ports.wait(now, Some(end), &[]);
    }
}

fn push(pusher: &mut Driven, address: &Arc<PushAddress>, text: &str) {
    pusher.push(address, text.as_bytes().to_vec());
    pusher.flush();
}

#[test]
fn who_has_the_key_gets_everything_in_order_and_can_answer() {
    let mut receiver = receiver([7; 32]);
    let address = address(receiver.requests(), Some(key(7)));
    let mut pusher = start(PushConfig { acknowledgements_max: 10, ..config() });
    for number in 0..500 {
        push(&mut pusher, &address, &number.to_string());
    }
    for number in 0..500 {
        let (sender, text) = next(&mut receiver);
        assert_eq!(text, number.to_string());
        if number == 499 {
            receiver.send(&[sender, b"ack".to_vec()], Duration::ZERO).unwrap();
            receiver.flush();
        }
    }
    wait_for(&pusher, |counts| counts.received == 1);
    let acks = pusher.acknowledgements();
    assert_eq!((&acks[0].from, acks[0].frame.as_slice()), (&address, &b"ack"[..]));
}

/// The same host and port with other keys, or none, is another receiver: its frames never arrive here.
#[test]
fn who_has_another_key_gets_nothing() {
    let mut receiver = receiver([7; 32]);
    let endpoint = receiver.requests().to_owned();
    let others = [Some(key(8)), None].map(|key| address(&endpoint, key));
    let ours = address(&endpoint, Some(key(7)));
    // The handshake with us must come to its end within that time.
    let mut pusher = start(PushConfig { connect_timeout: Duration::from_secs(10), ..config() });
    push(&mut pusher, &ours, "for you");
    assert_eq!(next(&mut receiver).1, "for you");
    for other in &others {
        push(&mut pusher, other, "for others");
    }
    while pusher.counts().dropped_unreachable < 2 {
        let now = clock::now().mono;
        receiver.wait(now, Some(now + Duration::from_millis(2)), &[]);
        assert_eq!(receiver.receive(), None);
    }
    push(&mut pusher, &ours, "for you too");
    assert_eq!(next(&mut receiver).1, "for you too");
    assert_eq!((receiver.receive(), pusher.counts().sent), (None, 2));
}

/// A receiver whose owner does not know our key is not forced on us either.
#[test]
fn who_does_not_let_us_in_gets_nothing() {
    let mut receiver = receiver([7; 32]);
    let address = address(receiver.requests(), Some(key(7)));
    let mut pusher = Driven::start(PushConfig { connect_timeout: SHORT, ..config() }, KeyPair::from_bytes([2; 32]));
    push(&mut pusher, &address, "secret");
    while pusher.counts().dropped_unreachable < 1 {
        let now = clock::now().mono;
        receiver.wait(now, Some(now + Duration::from_millis(2)), &[]);
        assert_eq!(receiver.receive(), None);
    }
    assert_eq!(pusher.stop().sent, 0);
}

/// A peer that answers each connection with these bytes; received bytes are kept.
fn tap(answer: Vec<u8>) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind((own_ip(), 0)).unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(&answer);
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                hearing.lock().unwrap().extend_from_slice(&chunk[..count]);
            }
        }
    });
    (endpoint, heard)
}

fn greeting(mechanism: &[u8], as_server: u8) -> Vec<u8> {
    let mut greeting = vec![0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..12 + mechanism.len()].copy_from_slice(mechanism);
    greeting[32] = as_server;
    greeting
}

const READY: &[u8] = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER";

#[test]
fn nothing_is_said_in_plain_text_to_an_address_with_a_key() {
    let plain = [&greeting(b"NULL", 0), READY].concat();
    let feigned = [&greeting(b"CURVE", 1), READY].concat();
    for answer in [plain, feigned, Vec::new()] {
        let (endpoint, heard) = tap(answer);
        let mut pusher = start(PushConfig { connect_timeout: SHORT, ..config() });
        push(&mut pusher, &address(&endpoint, Some(key(7))), "secret");
        wait_for(&pusher, |counts| counts.dropped_unreachable == 1);
        assert_eq!(pusher.stop().sent, 0);
        let heard = heard.lock().unwrap();
        assert!(!heard.windows(6).any(|bytes| bytes == b"secret"), "{heard:?}");
    }
}
