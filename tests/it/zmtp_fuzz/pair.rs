//! Two connections of ours over two pipes of bytes. A seed decides when each of them sends, writes and reads how much; in the end
//! everything that was sent has arrived, and neither side waits.

use std::collections::VecDeque;

use base::Mono;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use zmtp::engine::{Connection, Event, Kind, Timer};

use crate::zmtp_fuzz::drive::Role;

const NOW: Mono = Mono::from_nanos(0);
const STEPS: usize = 400;

/// One of the two, and the bytes that are on their way to it.
struct Side {
    connection: Connection,
    kind: Kind,
    wire: VecDeque<u8>,
    is_open: bool,
    said: Vec<Vec<Vec<u8>>>,
    heard: Vec<Vec<Vec<u8>>>,
}

impl Side {
    fn new(role: Role) -> Self {
        let (said, heard) = (Vec::new(), Vec::new());
        Self { connection: role.connect(), kind: role.kind, wire: VecDeque::new(), is_open: false, said, heard }
    }

    /// Says something; a subscription is what a subscriber can say, and a publisher hears.
    fn say(&mut self, random: &mut StdRng) {
        let bytes = |random: &mut StdRng| vec![random.random(); random.random_range(0..300)];
        match self.kind {
            Kind::Sub => {
                let prefix = bytes(random);
                self.connection.subscribe(NOW, &prefix);
                if self.is_open {
                    self.said.push(vec![prefix]);
                }
            }
            _ => {
                let parts: Vec<Vec<u8>> = (0..random.random_range(1..4)).map(|_| bytes(random)).collect();
                if self.connection.send(NOW, &parts).is_ok() {
                    assert!(self.is_open, "a message is accepted before a peer is connected");
                    self.said.push(parts);
                }
            }
        }
    }

    /// Hands some of what is to be written over.
    fn write(&mut self, to: &mut Self, count: usize) {
        let output = self.connection.output();
        let count = count.min(output.len());
        to.wire.extend(&output[..count]);
        self.connection.handle_written(NOW, count);
    }

    /// Takes some of what has come; what is behind an event may stay for later.
    fn read(&mut self, count: usize, stops: bool) {
        let count = count.min(self.wire.len());
        let bytes: Vec<u8> = self.wire.drain(..count).collect();
        let mut input = &bytes[..];
        while let Some(event) = self.connection.handle_input(NOW, &mut input).expect("a valid conversation") {
            match event {
                Event::Opened(_) => self.is_open = true,
                Event::Message(parts) => self.heard.push(parts),
                Event::Subscribed(prefix) => self.heard.push(vec![prefix]),
                Event::TooLong(..) => unreachable!("all messages are within the limits"),
                Event::Cancelled(_) => unreachable!("no call cancels"),
            }
            if stops {
                break;
            }
        }
        input.iter().rev().for_each(|byte| self.wire.push_front(*byte));
    }
}

/// # Panics
/// When something is lost, or waits for ever.
pub(crate) fn converse(role: Role, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut sides = [Side::new(role), Side::new(role.opposite())];
    for _ in 0..STEPS {
        let [one, other] = &mut sides;
        let (ours, theirs) = if random.random() { (one, other) } else { (other, one) };
        let count = if random.random() { random.random_range(0..40) } else { 1000 };
        match random.random_range(0..4) {
            0 => ours.say(&mut random),
            1 => ours.write(theirs, count),
            _ => ours.read(count, random.random()),
        }
    }
    let is_idle = |side: &Side| side.wire.is_empty() && side.connection.output().is_empty();
    while !sides.iter().all(is_idle) {
        let [one, other] = &mut sides;
        one.write(other, usize::MAX);
        other.write(one, usize::MAX);
        sides.iter_mut().for_each(|side| side.read(usize::MAX, false));
    }
    let [one, other] = &sides;
    for (ours, theirs) in [(one, other), (other, one)] {
        assert!(ours.is_open, "the handshake has stopped");
        assert_eq!(ours.said, theirs.heard, "what was said has not arrived");
        let waits = ours.connection.poll_timeout().map(|(_, timer)| timer);
        assert!(matches!(waits, Some(Timer::Ping)), "it waits for {waits:?} and nothing is under way");
    }
}
