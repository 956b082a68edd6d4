//! Pushing while the process has no descriptors left. Alone in its process, because the limit holds for all of it.

use std::fs;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use llts::engine::zmtp::KeyPair;
use llts::shell::clock;
use llts::shell::push::{PushConfig, Pusher};
use llts::types::{AddressPolicy, PushAddress};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::scenario::alone;

#[test]
fn frames_wait_until_descriptors_come_back() {
    alone(|| {
        let context = zmq::Context::new();
        let receiver = context.socket(zmq::DEALER).unwrap();
        receiver.bind("tcp://127.0.0.1:*").unwrap();
        let policy = AddressPolicy { allow: vec!["127.0.0.0/8".parse().unwrap()], own: vec![] };
        let endpoint = receiver.get_last_endpoint().unwrap().unwrap();
        let address = Arc::new(PushAddress::parse(&endpoint, &policy).unwrap());
        let config = PushConfig {
            sockets_max: 10,
            queue_max: 100,
            queue_bytes_max: 100_000,
            connect_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(60),
            linger: Duration::from_millis(100),
            acknowledgements_max: 0,
            policy,
        };
        let mut pusher = Pusher::start(config, KeyPair::from_bytes([1; 32])).unwrap();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let used = || fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
        // A socket needs one.
        setrlimit(Resource::RLIMIT_NOFILE, used(), hard).unwrap();
        pusher.push(clock::now().mono, &address, b"lost".to_vec());
        wait_until(|| {
            pusher.turn(clock::now().mono, true);
            pusher.counts().dropped_unreachable > 0
        });
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        let counts = pusher.counts();
        assert_eq!((counts.sent, counts.dropped_unreachable), (0, 1));

        pusher.push(clock::now().mono, &address, b"kept".to_vec());
        wait_until(|| {
            pusher.turn(clock::now().mono, true);
            pusher.counts().sent > 0
        });
        receiver.set_rcvtimeo(60_000).unwrap();
        assert_eq!(receiver.recv_bytes(0).unwrap(), b"kept");
    });
}

/// Checks repeatedly, for at most a minute.
fn wait_until(mut holds: impl FnMut() -> bool) {
    let (_keep, never) = mpsc::channel::<()>();
    for _ in 0..30_000 {
        if holds() {
            return;
        }
        let _ = never.recv_timeout(Duration::from_millis(2));
    }
}
