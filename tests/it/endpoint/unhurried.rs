//! An answer that no peer waits for shares the write of the next one.

use std::time::Duration;

use proc::clock;
use zmtp::sockets::Ports;

use crate::endpoint::conformance::socket;
use crate::endpoint::echo::{PATIENCE, PATIENCE_MILLIS, WATCHABLE, settings};
use testkit::own_ip;

fn request(ports: &mut Ports) -> Vec<Vec<u8>> {
    let end = clock::now().mono + PATIENCE;
    loop {
        ports.wait(clock::now().mono, Some(end), &[]);
        if let Some(frames) = ports.receive() {
            return frames;
        }
        assert!(clock::now().mono < end, "a request");
    }
}

#[test]
fn an_answer_that_can_wait_goes_with_the_next_one_or_after_its_time() {
    let free = format!("tcp://{}:0", own_ip());
    let mut ports = Ports::bind(&free, &free, WATCHABLE.to_owned(), &settings()).unwrap();
    let context = zmq::Context::new();
    let peer = socket(&context, zmq::DEALER, ports.requests());
    peer.send_multipart(["", "request"], 0).unwrap();
    let envelope = request(&mut ports)[..2].to_vec();
    let answer = |text: &str| [&envelope[..], &[text.into()]].concat();

    ports.send(&answer("first"), PATIENCE).unwrap();
    ports.flush();
    assert_eq!(peer.poll(zmq::POLLIN, 100).unwrap(), 0, "it has left alone");
    ports.send(&answer("second"), Duration::ZERO).unwrap();
    ports.flush();
    for text in ["first", "second"] {
        assert_eq!(peer.poll(zmq::POLLIN, PATIENCE_MILLIS.into()).unwrap(), 1, "{text}");
        assert_eq!(peer.recv_multipart(0).unwrap(), [b"", text.as_bytes()]);
    }

    ports.send(&answer("third"), Duration::from_millis(10)).unwrap();
    let end = clock::now().mono + PATIENCE;
    while peer.poll(zmq::POLLIN, 0).unwrap() == 0 {
        let now = clock::now().mono;
        assert!(now < end, "no answer waits for more than its time");
        ports.wait(now, Some(now + Duration::from_millis(10)), &[]);
        ports.flush();
    }
    assert_eq!(peer.recv_multipart(0).unwrap(), [b"".as_slice(), b"third"]);
}
