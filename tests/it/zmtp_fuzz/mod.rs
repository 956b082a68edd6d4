//! Mutated conversations against the engine of ZMTP: recorded from valid ones, in any pieces, in every role, with NULL and CURVE.
//! Whatever comes, nothing panics, what is held stays within the limits, and the connection is either over or as it must be.
//!
//! `FUZZ_SEED=17` runs one seed and prints what comes of it; `FUZZ_SEEDS=10000000` runs so many: with `cargo test`, for nextest ends
//! a test after a quarter of an hour. `FUZZ_CORPUS=DIR` writes the valid conversations there, for the fuzzer that is guided by coverage (`fuzz/`).

mod drive;
mod mutate;
mod pair;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use drive::{Outcome, Role, drive};
use mutate::{conversations, input};
use zmtp::engine::{DisconnectReason, Event};

/// Seeds in a normal run.
const SEEDS: u64 = 2_000;

/// Pairs in a normal run, of each role.
const PAIR_SEEDS: u64 = 30;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; it must be a number")))
}

#[test]
fn mutated_conversations_do_no_harm() {
    let conversations = conversations();
    for seed in 0..variable("FUZZ_SEEDS").unwrap_or(SEEDS) {
        let outcome = catch_unwind(AssertUnwindSafe(|| drive(&input(&conversations, seed))));
        assert!(
            outcome.is_ok(),
            "see above; replay: FUZZ_SEED={seed} cargo nextest run --no-capture zmtp_fuzz::one_seed"
        );
    }
}

/// Nothing is lost, in whatever pieces the two sides write and read: including the bytes after a handshake.
#[test]
fn two_of_us_never_wait_for_each_other() {
    for seed in 0..variable("PAIR_SEEDS").unwrap_or(PAIR_SEEDS) {
        for role in Role::ALL {
            let outcome = catch_unwind(AssertUnwindSafe(|| pair::converse(role, seed)));
            assert!(outcome.is_ok(), "see above: {role:?}, seed {seed}");
        }
    }
}

/// The replay of a seed.
#[test]
fn one_seed_does_no_harm() {
    if let Some(seed) = variable("FUZZ_SEED") {
        let input = input(&conversations(), seed);
        println!("{:?}: {}", Role::ALL[usize::from(input[0]) % Role::ALL.len()], input.escape_ascii());
        println!("{:#?}", drive(&input));
    }
}

/// Valid conversations come through whole, so that a mutation has something to break.
#[test]
fn valid_conversations_are_understood() {
    let folder = std::env::var_os("FUZZ_CORPUS");
    for (number, input) in conversations().iter().enumerate() {
        let Outcome { events, cut } = drive(input);
        assert!(matches!(cut, None | Some(DisconnectReason::Refused(_))), "{number}: {cut:?}");
        assert!(matches!(events[0], Event::Opened(_)) && events.len() > 1, "{number}: {events:?}");
        if let Some(folder) = &folder {
            std::fs::write(std::path::Path::new(folder).join(format!("valid-{number:02}")), input)
                .expect("FUZZ_CORPUS");
        }
    }
}

/// Mutations that reach nothing would do no harm.
#[test]
fn mutations_reach_every_end() {
    let conversations = conversations();
    let reached: BTreeSet<&str> = (0..2_000)
        .map(|seed| match drive(&input(&conversations, seed)).cut {
            None => "none",
            Some(DisconnectReason::NotZmtp) => "not ZMTP",
            Some(DisconnectReason::OldVersion(_)) => "old version",
            Some(DisconnectReason::Mechanism { .. }) => "mechanism",
            Some(DisconnectReason::Protocol(_)) => "protocol",
            Some(DisconnectReason::TooLong { .. }) => "too long",
            Some(DisconnectReason::TooManyParts(_)) => "too many parts",
            Some(DisconnectReason::SocketType(_)) => "socket type",
            Some(DisconnectReason::Refused(_)) => "refused",
            Some(DisconnectReason::Keys(_)) => "keys",
            Some(DisconnectReason::SlowHandshake) => "slow handshake",
            Some(DisconnectReason::NotReading) => "not reading",
            Some(DisconnectReason::Silent) => "silent",
            // No peer guesses a key; one connection is no crowd; the last is the report of a dead connection.
            Some(
                DisconnectReason::Unauthorised(_)
                | DisconnectReason::Crowded
                | DisconnectReason::Stranger
                | DisconnectReason::Idle
                | DisconnectReason::Unanswered
                | DisconnectReason::Over,
            ) => "impossible",
        })
        .collect();
    let expected = [
        "none",
        "not ZMTP",
        "old version",
        "mechanism",
        "protocol",
        "too long",
        "too many parts",
        "socket type",
        "refused",
        "keys",
        "slow handshake",
        "not reading",
        "silent",
    ];
    assert_eq!(reached, expected.into_iter().collect());
}
