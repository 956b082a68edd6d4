//! What holds only where libzmq hides frames of its own.

use std::time::Duration;

use llts::shell::push::PushConfig;

use crate::zmq::{BIG_FRAMES, PATIENCE, Receiver, config, push_more_than_the_kernel_holds, start, wait_for};

#[test]
fn closing_a_socket_delivers_what_libzmq_has_taken() {
    let receiver = Receiver::bind();
    let mut pusher = start(PushConfig {
        idle_timeout: Duration::from_millis(50),
        linger: PATIENCE,
        queue_bytes_max: 64_000_000,
        ..config()
    });
    push_more_than_the_kernel_holds(&mut pusher, &receiver);
    wait_for(&pusher, |counts| counts.open_sockets == 0);
    for _ in 0..BIG_FRAMES {
        assert_eq!(receiver.text().len(), 250_000);
    }
}
