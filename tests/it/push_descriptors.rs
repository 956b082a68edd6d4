//! Pushing while the process has no descriptors left. Alone in its process, because the limit holds for all of it.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use base::{AddressPolicy, PushAddress};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use proc::clock;
use testkit::{Receiver, eventually, found};
use zmtp::engine::KeyPair;
use zmtp::push_io::{PushConfig, Pusher};

use crate::scenario::alone;

#[test]
fn frames_wait_until_descriptors_come_back() {
    alone(|| {
        let receiver = Receiver::bind();
        let policy = AddressPolicy { allow: vec!["127.0.0.0/8".parse().unwrap()], own: vec![] };
        let address = Arc::new(PushAddress::parse(&receiver.address, &policy).unwrap());
        let mut pusher = found("a frame is lost", || {
            let mut pusher = start(&policy);
            let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
            let held = all_descriptors(hard);
            pusher.push(clock::now().mono, &address, b"lost".to_vec());
            eventually("the fate of a frame is known", || {
                pusher.turn(clock::now().mono, true);
                pusher.counts().sent + pusher.counts().dropped_unreachable > 0
            });
            drop(held);
            setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            // A thread of the receiver may have closed one since, which is enough to connect.
            (pusher.counts().sent == 0).then_some(pusher)
        });
        assert_eq!(pusher.counts().dropped_unreachable, 1);

        pusher.push(clock::now().mono, &address, b"kept".to_vec());
        eventually("a frame is sent", || {
            pusher.turn(clock::now().mono, true);
            pusher.counts().sent > 0
        });
        let mut received = std::iter::repeat_with(|| receiver.socket.recv_bytes(0).unwrap());
        assert_eq!(received.find(|frame| frame != b"lost").as_deref(), Some(&b"kept"[..]));
    });
}

fn start(policy: &AddressPolicy) -> Pusher {
    let config = PushConfig {
        sockets_max: 10,
        queue_max: 100,
        queue_bytes_max: 100_000,
        connect_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(60),
        linger: Duration::from_millis(100),
        acknowledgements_max: 0,
        policy: policy.clone(),
    };
    Pusher::start(config, KeyPair::from_bytes([1; 32])).expect("threads and descriptors are left")
}

/// Every descriptor that this process can have. The limit is one on their numbers, not on how many there are: a parent that leaves a high one
/// open leaves a gap below it, which has to be filled too.
fn all_descriptors(hard: u64) -> Vec<File> {
    setrlimit(Resource::RLIMIT_NOFILE, 64, hard).expect("below the hard limit");
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}
