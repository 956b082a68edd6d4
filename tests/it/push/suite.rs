//! Pushing to real receivers: the behaviour of the kernel, the stream and libzmq. The assignment of sockets and the deadlines are
//! tested as scenarios of the engine, on virtual time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base::{AddressPolicy, PushAddress};
use zmtp::engine::KeyPair;
use zmtp::push_io::{PushConfig, PushCounts};

use crate::push::driver::Driven;
use testkit::{eventually, own_ip, pass};

/// Longer than any condition takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

fn policy() -> AddressPolicy {
    AddressPolicy { allow: vec!["127.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()], own: vec![] }
}

/// Generous limits: a test narrows the one that it is about.
pub(crate) fn config() -> PushConfig {
    PushConfig {
        sockets_max: 512,
        queue_max: 10_000,
        queue_bytes_max: 16_000_000,
        connect_timeout: PATIENCE,
        idle_timeout: PATIENCE,
        linger: Duration::from_secs(1),
        acknowledgements_max: 0,
        policy: policy(),
    }
}

/// The keys that pushers prove to receivers that require CURVE.
pub(crate) fn keys() -> KeyPair {
    KeyPair::from_bytes([1; 32])
}

pub(crate) fn start(config: PushConfig) -> Driven {
    Driven::start(config, keys())
}

fn address(text: &str) -> Arc<PushAddress> {
    Arc::new(PushAddress::parse(text, &policy()).unwrap())
}

fn free_port() -> String {
    format!("tcp://{}:*", own_ip())
}

/// A bound socket with its address. The context goes last, and waits until the port is free again.
pub(crate) struct Receiver {
    socket: zmq::Socket,
    address: Arc<PushAddress>,
    _context: zmq::Context,
}

impl Receiver {
    pub(crate) fn bind() -> Self {
        Self::bind_to(&zmq::Context::new(), &free_port())
    }

    fn bind_to(context: &zmq::Context, endpoint: &str) -> Self {
        let socket = context.socket(zmq::DEALER).unwrap();
        socket.set_linger(0).unwrap();
        socket.set_rcvhwm(10).unwrap();
        socket.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
        socket.set_sndtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
        // The port may be held for a moment by a context that is being taken down.
        eventually("the port is free", || socket.bind(endpoint).is_ok());
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        Self { socket, address: address(&endpoint), _context: context.clone() }
    }

    pub(crate) fn text(&self) -> String {
        self.socket.recv_string(0).expect("a frame in time").unwrap()
    }

    fn expect(&self, frames: impl Iterator<Item = usize>) {
        for frame in frames {
            assert_eq!(self.text(), frame.to_string(), "{}", self.address);
        }
    }
}

/// A port without a listener: an accepted connection keeps it after its listener is closed.
struct DeadPort {
    _connection: [TcpStream; 2],
    port: u16,
}

impl DeadPort {
    fn new() -> Self {
        let listener = TcpListener::bind((own_ip(), 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let client = TcpStream::connect(local).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self { _connection: [client, server], port: local.port() }
    }

    /// One of many addresses that refuse each connection. Number 0 is where the port is kept: a receiver can bind to it.
    fn address(&self, number: usize) -> Arc<PushAddress> {
        let ip = match number {
            0 => own_ip().to_string(),
            _ => format!("127.{}.{}.1", 100 + number % 100, number / 100),
        };
        address(&format!("tcp://{ip}:{}", self.port))
    }
}

#[track_caller]
pub(crate) fn wait_for(pusher: &Driven, condition: impl Fn(PushCounts) -> bool) {
    eventually("the counts are as they should", || condition(pusher.counts()));
}

fn push(pusher: &mut Driven, address: &Arc<PushAddress>, frames: impl Iterator<Item = usize>) {
    for frame in frames {
        pusher.push(address, frame.to_string().into_bytes());
    }
    pusher.flush();
}

fn dropped(counts: PushCounts) -> u64 {
    counts.dropped_unreachable + counts.dropped_full + counts.dropped_evicted
}

#[test]
fn frames_arrive_in_order() {
    let receiver = Receiver::bind();
    let mut pusher = start(config());
    push(&mut pusher, &receiver.address, 0..100);
    receiver.expect(0..100);
    // From here on it is connected, and nothing but a push wakes the loop.
    for turn in 1..100 {
        push(&mut pusher, &receiver.address, turn * 100..turn * 100 + 100);
    }
    receiver.expect(100..10_000);
    let counts = pusher.stop();
    assert_eq!((counts.sent, dropped(counts)), (10_000, 0));
}

// More sockets than are reported ready at once, half of them refused.
#[test]
fn the_living_of_many_addresses_get_everything() {
    let context = zmq::Context::new();
    let live: Vec<Receiver> = (0..150).map(|_| Receiver::bind_to(&context, &free_port())).collect();
    let dead = DeadPort::new();
    let mut pusher = start(PushConfig { linger: Duration::from_millis(10), ..config() });
    for frame in 0..2 {
        for (number, receiver) in live.iter().enumerate() {
            push(&mut pusher, &dead.address(number), frame..=frame);
            push(&mut pusher, &receiver.address, frame..=frame);
        }
        for receiver in &live {
            receiver.expect(frame..=frame);
        }
    }
    let counts = pusher.stop();
    assert_eq!((counts.sent, counts.dropped_unreachable, counts.open_sockets), (300, 300, 0), "{counts:?}");
}

// The queue of a receiver that never reads is bounded; the others do not notice (docs/design/hazards.md, F5).
#[test]
fn a_receiver_that_does_not_read_loses_the_oldest_and_costs_nobody_else() {
    let (lazy, busy) = (Receiver::bind(), Receiver::bind());
    let mut pusher = start(PushConfig { queue_max: 50, ..config() });
    let mut pushed = 0;
    while pusher.counts().dropped_full < 100 {
        assert!(pushed < 10_000, "the queue is not bounded");
        pusher.push(&lazy.address, format!("{pushed:60000}").into_bytes());
        push(&mut pusher, &busy.address, pushed..=pushed);
        busy.expect(pushed..=pushed);
        pushed += 1;
    }
    // It reads after all: the beginning and the end are there, in order.
    let mut numbers = vec![];
    while numbers.last() != Some(&(pushed - 1)) {
        numbers.push(lazy.text().trim().parse::<usize>().unwrap());
    }
    assert!(numbers.is_sorted() && numbers[..10] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "{numbers:?}");
    let counts = pusher.stop();
    assert_eq!(counts.sent, (numbers.len() + pushed) as u64);
    assert_eq!(dropped(counts), (pushed - numbers.len()) as u64);
}

#[test]
fn a_receiver_may_restart() {
    let receiver = Receiver::bind();
    let address = Arc::clone(&receiver.address);
    let mut pusher = start(config());
    push(&mut pusher, &address, 0..1);
    receiver.expect(0..1);
    drop(receiver);
    wait_for(&pusher, |counts| counts.open_sockets == 0);
    push(&mut pusher, &address, 1..200);
    let receiver = Receiver::bind_to(&zmq::Context::new(), &address.to_string());
    receiver.expect(1..200);
}

// The connection breaks while more waits than libzmq has taken: the rest goes to the next receiver.
#[test]
fn what_still_waits_outlives_a_lost_connection() {
    let receiver = Receiver::bind();
    let address = Arc::clone(&receiver.address);
    let mut pusher = start(PushConfig { queue_bytes_max: 64_000_000, ..config() });
    for frame in 0..1000 {
        pusher.push(&address, format!("{frame:60000}").into_bytes());
    }
    pusher.flush();
    assert_eq!(receiver.text().trim(), "0");
    drop(receiver);
    let receiver = Receiver::bind_to(&zmq::Context::new(), &address.to_string());
    let mut number = 0;
    while number < 999 {
        let next: usize = receiver.text().trim().parse().unwrap();
        assert!(next > number, "{next} after {number}");
        number = next;
    }
}

/// Frames that no kernel buffers hold, while the receiver does not read.
pub(crate) fn push_more_than_the_kernel_holds(pusher: &mut Driven, receiver: &Receiver) {
    for _ in 0..BIG_FRAMES {
        pusher.push(&receiver.address, vec![b'x'; 250_000]);
    }
    pusher.flush();
    wait_for(pusher, |counts| counts.sent > 0);
}

pub(crate) const BIG_FRAMES: u64 = 90;

#[test]
fn stopping_delivers_what_the_receiver_is_slow_to_take() {
    let receiver = Receiver::bind();
    let mut pusher = start(PushConfig { linger: PATIENCE, queue_bytes_max: 64_000_000, ..config() });
    push_more_than_the_kernel_holds(&mut pusher, &receiver);
    let reader = std::thread::spawn(move || (0..BIG_FRAMES).all(|_| receiver.text().len() == 250_000));
    pusher.stop();
    assert!(reader.join().unwrap());
}

// The receiver dies while its connection is full: its end is told from a mere pause.
#[test]
fn the_end_of_a_receiver_that_read_nothing_is_noticed() {
    let lazy = Receiver::bind();
    let mut pusher = start(PushConfig { queue_max: 50, linger: Duration::from_millis(10), ..config() });
    push(&mut pusher, &lazy.address, 0..1);
    wait_for(&pusher, |counts| counts.sent == 1);
    // Until nothing more fits into the kernel and the queue; the kernel may find some room a little later.
    let (mut sent, mut quiet_looks) = (0, 0);
    while quiet_looks < 500 {
        for _ in 0..60 {
            pusher.push(&lazy.address, vec![b'x'; 60_000]);
        }
        pusher.flush();
        let before = std::mem::replace(&mut sent, pusher.counts().sent);
        quiet_looks = if sent == before { quiet_looks + 1 } else { 0 };
        pass(Duration::from_millis(2));
    }
    drop(lazy);
    wait_for(&pusher, |counts| counts.open_sockets == 0);
    assert_eq!(pusher.counts().dropped_unreachable, 0, "the frames wait for the next receiver");
    assert_eq!(pusher.stop().dropped_unreachable, 50);
}

// Measured with a linger of 0: of 200 frames none arrived (docs/design/hazards.md, F5).
#[test]
fn stopping_delivers_what_waits() {
    let receivers = [Receiver::bind(), Receiver::bind()];
    let mut pusher = start(PushConfig { linger: PATIENCE, ..config() });
    for frame in 0..200 {
        for receiver in &receivers {
            pusher.push(&receiver.address, frame.to_string().into_bytes());
        }
    }
    let counts = pusher.stop();
    for receiver in &receivers {
        receiver.expect(0..200);
    }
    assert_eq!((counts.sent, dropped(counts), counts.open_sockets), (400, 0, 0), "{counts:?}");
}

// Without room for acknowledgements all that comes back is thrown away (docs/design/hazards.md, F6).
#[test]
fn an_echo_of_garbage_is_thrown_away_and_costs_nobody_else() {
    let (chatty, quiet) = (Receiver::bind(), Receiver::bind());
    let mut pusher = start(config());
    push(&mut pusher, &chatty.address, 0..1);
    chatty.expect(0..1);
    let garbage: [&[u8]; 4] = [b"{", &[0xff; 300], &[0; 5_000], &[b'x'; 200_000]];
    for round in 0..1000 {
        for frame in garbage {
            chatty.socket.send(frame, 0).unwrap();
        }
        push(&mut pusher, &quiet.address, round..=round);
        quiet.expect(round..=round);
    }
    for _ in 0..2000 {
        chatty.socket.send("{", 0).unwrap();
    }
    wait_for(&pusher, |counts| counts.discarded == 6000);
    assert_eq!((pusher.counts().received, dropped(pusher.counts())), (0, 0));
    push(&mut pusher, &chatty.address, 1..2);
    chatty.expect(1..2);
}

// A frame beyond the limit of libzmq breaks the connection for good; the address must not stay dead.
#[test]
fn a_receiver_that_was_cut_for_a_huge_frame_is_reached_again() {
    let rude = Receiver::bind();
    let mut pusher = start(config());
    push(&mut pusher, &rude.address, 0..1);
    rude.expect(0..1);
    rude.socket.send(vec![0; 1_000_000], 0).unwrap();
    wait_for(&pusher, |counts| counts.open_sockets == 0);
    push(&mut pusher, &rude.address, 1..2);
    rude.expect(1..2);
}

#[test]
fn acknowledgements_are_handed_on_as_far_as_there_is_room() {
    let receiver = Receiver::bind();
    let mut pusher = start(PushConfig { acknowledgements_max: 10, ..config() });
    push(&mut pusher, &receiver.address, 0..1);
    receiver.expect(0..1);
    // A receiver of another kind sends a delimiter first; it is no frame of its own.
    receiver.socket.send_multipart([&b""[..], b"ack"], 0).unwrap();
    wait_for(&pusher, |counts| counts.received == 1);
    let acks = pusher.acknowledgements();
    assert_eq!((&acks[0].from, acks[0].frame.as_slice(), acks.len()), (&receiver.address, &b"ack"[..], 1));
    receiver.socket.send(vec![0; 4097], 0).unwrap();
    for _ in 0..19 {
        receiver.socket.send("ack", 0).unwrap();
    }
    wait_for(&pusher, |counts| counts.received + counts.discarded == 21);
    assert_eq!(pusher.counts().received, 11, "one before, ten that fit");
    assert_eq!(pusher.acknowledgements().len(), 10);
}

// The frames queued for it are not sent to it, and wait for a receiver that speaks ZMTP.
#[test]
fn a_server_of_another_protocol_gets_nothing_and_costs_nobody_else() {
    let listener = TcpListener::bind((own_ip(), 0)).unwrap();
    let http = address(&format!("tcp://{}", listener.local_addr().unwrap()));
    let receiver = Receiver::bind();
    let mut pusher = start(PushConfig { linger: Duration::from_millis(10), ..config() });
    push(&mut pusher, &http, 0..5);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    // It is closed, or reset if it did not read all of the answer.
    let _ = stream.read_to_end(&mut heard);
    assert_eq!(heard.first(), Some(&0xff), "it was greeted");
    drop((stream, listener));
    push(&mut pusher, &receiver.address, 0..5);
    receiver.expect(0..5);
    let counts = pusher.stop();
    assert_eq!((counts.sent, counts.dropped_unreachable), (5, 5), "{counts:?}");
}

#[test]
fn a_name_that_does_not_exist_is_given_up_and_costs_nobody_else() {
    let receiver = Receiver::bind();
    let mut pusher = start(PushConfig { connect_timeout: Duration::from_secs(10), ..config() });
    push(&mut pusher, &address("tcp://nowhere.invalid:80"), 0..5);
    push(&mut pusher, &receiver.address, 0..5);
    receiver.expect(0..5);
    wait_for(&pusher, |counts| counts.dropped_unreachable == 5);
}

#[test]
fn receivers_on_ipv6_are_reached() {
    let context = zmq::Context::new();
    let socket = context.socket(zmq::DEALER).unwrap();
    socket.set_ipv6(true).unwrap();
    socket.set_rcvtimeo(i32::try_from(PATIENCE.as_millis()).unwrap()).unwrap();
    socket.bind("tcp://[::1]:*").unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    let mut pusher = start(config());
    push(&mut pusher, &address(&endpoint), 0..1);
    assert_eq!(socket.recv_string(0).unwrap().unwrap(), "0");
}
