//! The agent's link against libzmq, and against the ports.

use std::time::Duration;

use api::transport;
use proc::clock;
use zmtp::sockets::Link;

use crate::endpoint::echo::{Echo, PATIENCE, PATIENCE_MILLIS, configured};
use testkit::own_ip;

/// As an agent connects to a controller with these ports at the address of this process.
fn connect(ports: [u16; 2]) -> Link {
    transport::connect(&configured(own_ip(), ports), &["a".to_owned()]).unwrap()
}

/// Waits until the link has something.
fn until<T>(link: &mut Link, mut what: impl FnMut(&mut Link) -> Option<T>) -> T {
    let end = clock::now().mono + PATIENCE;
    loop {
        if let Some(found) = what(link) {
            return found;
        }
        let now = clock::now().mono;
        assert!(now < end, "nothing comes");
        link.wait(now, Some(end), &[]);
    }
}

fn connected(link: &mut Link) {
    until(link, |link| link.is_connected().then_some(()));
}

/// Does it again until something comes of it.
fn retry<T>(link: &mut Link, step: impl Fn(&mut Link), what: impl Fn(&mut Link) -> Option<T>) -> T {
    let end = clock::now().mono + PATIENCE;
    loop {
        step(link);
        let now = clock::now().mono;
        assert!(now < end, "nothing comes");
        link.wait(now, Some(now + Duration::from_millis(20)), &[]);
        if let Some(found) = what(link) {
            return found;
        }
    }
}

fn bound(context: &zmq::Context, kind: zmq::SocketType) -> (zmq::Socket, u16) {
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_rcvtimeo(PATIENCE_MILLIS).unwrap();
    socket.bind(&format!("tcp://{}:*", own_ip())).unwrap();
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    (socket, endpoint.rsplit_once(':').unwrap().1.parse().unwrap())
}

#[test]
fn it_talks_to_libzmq() {
    let context = zmq::Context::new();
    let (router, requests) = bound(&context, zmq::ROUTER);
    let (publisher, broadcasts) = bound(&context, zmq::XPUB);
    let mut link = connect([requests, broadcasts]);
    let link = &mut link;
    connected(link);
    link.send(b"first".to_vec());
    let subscription = std::thread::spawn(move || {
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01a");
        publisher.send("b", 0).unwrap();
        publisher.send("abc", 0).unwrap();
        publisher
    });
    assert_eq!(until(link, Link::receive_broadcast), b"abc");
    let frames = router.recv_multipart(0).unwrap();
    assert_eq!(frames[1..], [b"".to_vec(), b"first".to_vec()]);
    router.send_multipart([&frames[0][..], b"", &[b'x'; 1_000_000]], 0).unwrap();
    assert_eq!(until(link, Link::receive_answer).len(), 1_000_000);
    // Frames that are none of ours are passed over.
    router.send_multipart([&frames[0][..], b"x"], 0).unwrap();
    router.send_multipart([&frames[0][..], b"", b"second"], 0).unwrap();
    assert_eq!(until(link, Link::receive_answer), b"second");
    drop(subscription.join().unwrap());
}

#[test]
fn it_waits_for_a_controller_that_comes_later() {
    let free = std::net::TcpListener::bind((own_ip(), 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    let mut link = connect([port, 1]);
    let link = &mut link;
    link.send(b"early".to_vec());
    link.wait(clock::now().mono, Some(clock::now().mono + Duration::from_millis(50)), &[]);
    drop(free);
    let echo = Echo::bound([port, 0]);
    connected(link);
    link.send(b"late".to_vec());
    assert_eq!(until(link, Link::receive_answer), b"late", "without a connection nothing is kept");
    drop(echo);
}

#[test]
fn it_comes_back_after_a_restart_and_by_order() {
    let mut echo = Echo::bound([0, 0]);
    let mut link = connect(echo.ports());
    let link = &mut link;
    for round in 0_u8..4 {
        connected(link);
        link.send(vec![round]);
        assert_eq!(until(link, Link::receive_answer), [round]);
        if round % 2 == 0 {
            echo = echo.restarted();
            // A message sent into a connection that is just breaking is lost, and the engine repeats it.
            retry(link, |link| link.send(b"again".to_vec()), Link::receive_answer);
            link.send(b"end".to_vec());
            until(link, |link| std::iter::from_fn(|| link.receive_answer()).find(|answer| answer == b"end"));
        } else {
            link.reconnect();
        }
        assert_eq!(retry(link, |_| echo.publish(b"a"), Link::receive_broadcast), b"a");
        while link.receive_broadcast().is_some() {}
    }
}
