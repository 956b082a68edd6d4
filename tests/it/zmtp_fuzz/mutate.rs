//! Valid conversations, and what a seed makes of them.

use std::time::Duration;

use base::Mono;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use zmtp::engine::Kind;

use crate::zmtp_fuzz::drive::{
    HANDSHAKE_DONE, HEAD_BYTES, NOBODY_READS, Role, SEALED, TIME_PASSES, WE_TALK, carry, opening,
};

/// More bytes say nothing new.
const INPUT_BYTES_MAX: usize = 100_000;

/// Inputs that no rule is broken in, for every role: whole ones, and what follows on a handshake, plain and sealed.
pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for (number, role) in (0_u8..).zip(Role::ALL) {
        let (opening, rest) = (opening(role), talk(role));
        inputs.push([&[number, 0, 0], opening, &rest].concat());
        inputs.push([&[number, 0, HANDSHAKE_DONE], &rest[..]].concat());
        if role.is_secured {
            inputs.push([&[number, 0, HANDSHAKE_DONE | SEALED], &to_be_sealed(role.kind)[..]].concat());
        } else {
            // A peer of 3.0, and commands that the engine itself does not say.
            let mut older = [&[number, 0, 0], opening, &rest].concat();
            older[HEAD_BYTES + 11] = 0;
            inputs.push(older);
            inputs.push([&[number, 0, HANDSHAKE_DONE], &commands()[..]].concat());
        }
    }
    inputs
}

/// The messages of the other end of this role after the handshake.
fn talk(role: Role) -> Vec<u8> {
    let at = |seconds| Mono::from_nanos(0) + Duration::from_secs(seconds);
    let (mut ours, mut theirs) = (role.connect(), role.opposite().connect());
    while ours.peer().is_none() || theirs.peer().is_none() {
        carry(&mut theirs, &mut ours);
        carry(&mut ours, &mut theirs);
    }
    let mut said = Vec::new();
    let messages: [&[&[u8]]; 5] =
        [&[b"", b"{}"], &[b"hop", b"", &[b'x'; 300]], &[b""], &[b"\x01old", b"a", b"b", b"c"], &[&[7; 900]]];
    for (seconds, parts) in (1..).zip(messages) {
        match role.opposite().kind {
            Kind::Sub => theirs.subscribe(at(1), parts[parts.len() - 1]),
            _ => theirs.send(at(1), parts).expect("there is room"),
        }
        theirs.handle_timeout(at(20 * seconds)).expect("it is heard of");
        said.extend(carry(&mut theirs, &mut ours));
        carry(&mut ours, &mut theirs);
    }
    said
}

fn commands() -> Vec<u8> {
    [
        &b"\x04\x0e\x09SUBSCRIBEabcd"[..],
        b"\x04\x08\x06CANCELa",
        b"\x04\x0b\x04PING\0\x64ping",
        b"\x04\x09\x04PONGping",
        b"\x04\x04\x03NEW",
        b"\0\x03\x01ab\0\x03\0ab",
        b"\x01\x01h\x01\0\x02\0\0\0\0\0\0\0\x02{}",
        b"\x04\x0a\x05ERROR\x03bad",
    ]
    .concat()
}

/// Frames in the form that the driver seals: flags of a box, a length of two bytes, a body.
fn to_be_sealed(kind: Kind) -> Vec<u8> {
    let mut said = Vec::new();
    let mut frame = |flags: u8, body: &[u8]| {
        said.push(flags);
        said.extend(u16::try_from(body.len()).expect("a short body").to_be_bytes());
        said.extend(body);
    };
    frame(2, b"\x04PING\0\x64ping");
    frame(2, b"\x04PONGping");
    if kind == Kind::Xpub {
        frame(2, b"\x09SUBSCRIBEabcd");
        frame(2, b"\x06CANCELabcd");
        frame(0, b"\x01old");
    } else {
        frame(1, b"");
        frame(0, b"{}");
        frame(1, &[7; 500]);
        frame(0, &[8; 500]);
    }
    said
}

/// The input of a seed.
pub(crate) fn input(conversations: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut input = conversations.choose(&mut random).expect("there are some").clone();
    input[1] = *[0, 1, 2, 7, 64, 255].choose(&mut random).expect("there are some");
    for flag in [NOBODY_READS, WE_TALK, TIME_PASSES] {
        if random.random_ratio(1, 4) {
            input[2] |= flag;
        }
    }
    for _ in 0..random.random_range(0..6) {
        mutate(&mut input, conversations, &mut random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn mutate(input: &mut Vec<u8>, conversations: &[Vec<u8>], random: &mut StdRng) {
    let place = random.random_range(HEAD_BYTES..=input.len().max(HEAD_BYTES));
    let end = random.random_range(place..=(place + 40).min(input.len()).max(place));
    match random.random_range(0..10) {
        0 if place < input.len() => input[place] ^= 1 << random.random_range(0..8),
        1 if place < input.len() => {
            input[place] = *[0, 1, 2, 3, 4, 5, 6, 8, 0x7F, 0x80, 0xFE, 0xFF].choose(random).expect("there are some");
        }
        2 => {
            let lengths = [0, 1, 255, 256, 1000, 1001, 8192, 8193, 1 << 16, 8 << 30, 1 << 62, u64::MAX];
            let length = lengths.choose(random).expect("there are some").to_be_bytes();
            input.splice(place..(place + 8).min(input.len()), length);
        }
        3 => {
            let mut bytes = vec![0; random.random_range(1..20)];
            random.fill_bytes(&mut bytes);
            input.splice(place..place, bytes);
        }
        4 => drop(input.drain(place..end)),
        5 => {
            let twice = input[place..end].to_vec();
            input.splice(end..end, twice);
        }
        6 => {
            let other = conversations.choose(random).expect("there are some");
            let from = random.random_range(HEAD_BYTES..=other.len());
            input.splice(place.., other[from..].iter().copied());
        }
        7 => input.truncate(place),
        8 => {
            // The same again and again: parts without an end, questions without a pause.
            let frames: [&[u8]; 5] =
                [b"\x01\0", b"\0\x01x", b"\x04\x0b\x04PING\0\0ping", b"\x01\0\0", b"\x02\0\x0b\x04PING\0\0ping"];
            let frame = frames.choose(random).expect("there are some").repeat(random.random_range(2..1000));
            input.splice(place..place, frame);
        }
        _ => {
            let last = input.len() - 1;
            input.swap(place.min(last), end.min(last));
        }
    }
}
