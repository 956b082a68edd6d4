//! Clients whose keys do not fit: they are told at once, each what is wrong.

use std::sync::Arc;
use std::time::Duration;

use llts::engine::zmtp::{ClientKeys, KeyPair, Security, ServerKeys};
use llts::shell::clock;
use llts::shell::endpoint::{LinkSettings, Outcome, PortSettings, Requester};
use llts::shell::port::Denial;

use crate::echo::{Echo, PATIENCE, settings};

fn pair(seed: u8) -> KeyPair {
    KeyPair::from_bytes([seed; 32])
}

fn client(seed: u8, server: u8) -> Security {
    Security::CurveClient(Arc::new(ClientKeys { pair: pair(seed), server: pair(server).public() }))
}

/// The outcome of a request.
fn ask(echo: &Echo, security: Security) -> Outcome {
    let settings =
        LinkSettings { limits: settings().limits, security, reconnect_interval_max: Duration::from_millis(100) };
    let mut requester = Requester::connect(&echo.requests, settings).unwrap();
    requester.exchange(b"x".to_vec(), clock::now().mono + PATIENCE, None)
}

#[test]
fn each_mistake_with_keys_has_its_answer() {
    let plain = Echo::start(&settings());
    let authorised = [pair(2).public()].into_iter().collect();
    let keys = Arc::new(ServerKeys { pair: pair(1), authorised });
    let secured = Echo::start(&PortSettings { security: Security::CurveServer(keys), ..settings() });
    let answer = Outcome::Answer(vec![b"x".to_vec()]);
    assert_eq!((ask(&plain, Security::Null), ask(&secured, client(2, 1))), (answer.clone(), answer));
    assert_eq!(ask(&secured, Security::Null), Outcome::Denied(Denial::KeyMissing));
    assert_eq!(ask(&plain, client(2, 1)), Outcome::Denied(Denial::KeyUnused));
    assert_eq!(ask(&secured, client(3, 1)), Outcome::Denied(Denial::KeyRefused(pair(3).public())));
    assert_eq!(ask(&secured, client(2, 4)), Outcome::Denied(Denial::OtherController(pair(4).public())));
}
