//! The agent's link against libzmq, and against our own ports.

use std::time::Duration;

use llts::engine::zmtp::{Limits, Security};
use llts::shell::clock;
use llts::shell::endpoint::{LinkSettings, OwnLink};
use llts::shell::transport::Link;

use crate::echo::{Echo, PATIENCE, PATIENCE_MILLIS, settings};
use crate::loopback::own_ip;

fn connect(requests: &str, broadcasts: &str) -> OwnLink {
    let limits = Limits { message_bytes_max: 1 << 30, ..settings().limits };
    let settings =
        LinkSettings { limits, security: Security::Null, reconnect_interval_max: Duration::from_millis(100) };
    OwnLink::connect(requests, broadcasts, &["a".to_owned()], settings).unwrap()
}

/// Waits until the link has something.
fn until<T>(link: &mut OwnLink, mut what: impl FnMut(&mut OwnLink) -> Option<T>) -> T {
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

/// Does it again until something comes of it.
fn retry<T>(link: &mut OwnLink, step: impl Fn(&mut OwnLink), what: impl Fn(&mut OwnLink) -> Option<T>) -> T {
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

fn bound(context: &zmq::Context, kind: zmq::SocketType, endpoint: &str) -> (zmq::Socket, String) {
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_rcvtimeo(PATIENCE_MILLIS).unwrap();
    crate::echo::wait_until("the port is free", || socket.bind(endpoint).is_ok());
    let endpoint = socket.get_last_endpoint().unwrap().unwrap();
    (socket, endpoint)
}

#[test]
fn it_talks_to_libzmq() {
    let context = zmq::Context::new();
    let (router, requests) = bound(&context, zmq::ROUTER, "tcp://127.0.0.1:*");
    let (publisher, broadcasts) = bound(&context, zmq::XPUB, "tcp://127.0.0.1:*");
    let mut link = connect(&requests, &broadcasts);
    link.send(b"first".to_vec());
    let subscription = std::thread::spawn(move || {
        assert_eq!(publisher.recv_bytes(0).unwrap(), b"\x01a");
        publisher.send("b", 0).unwrap();
        publisher.send("abc", 0).unwrap();
        publisher
    });
    assert_eq!(until(&mut link, OwnLink::receive_broadcast), b"abc");
    let frames = router.recv_multipart(0).unwrap();
    assert_eq!(frames[1..], [b"".to_vec(), b"first".to_vec()]);
    router.send_multipart([&frames[0][..], b"", &[b'x'; 1_000_000]], 0).unwrap();
    assert_eq!(until(&mut link, OwnLink::receive_answer).len(), 1_000_000);
    // Frames that are none of ours are passed over.
    router.send_multipart([&frames[0][..], b"x"], 0).unwrap();
    router.send_multipart([&frames[0][..], b"", b"second"], 0).unwrap();
    assert_eq!(until(&mut link, OwnLink::receive_answer), b"second");
    drop(subscription.join().unwrap());
}

#[test]
fn it_waits_for_a_controller_that_comes_later() {
    let free = std::net::TcpListener::bind((own_ip(), 0)).unwrap();
    let requests = format!("tcp://{}", free.local_addr().unwrap());
    let mut link = connect(&requests, "tcp://127.0.0.1:1");
    link.send(b"early".to_vec());
    link.wait(clock::now().mono, Some(clock::now().mono + Duration::from_millis(50)), &[]);
    drop(free);
    let echo = Echo::start_at(&requests, "tcp://127.0.0.1:0", &settings());
    assert_eq!(until(&mut link, OwnLink::receive_answer), b"early");
    drop(echo);
}

#[test]
fn it_comes_back_after_a_restart_and_by_order() {
    let mut echo = Echo::start(&settings());
    let (requests, broadcasts) = (echo.requests.clone(), echo.broadcasts.clone());
    let mut link = connect(&requests, &broadcasts);
    for round in 0_u8..4 {
        link.send(vec![round]);
        assert_eq!(until(&mut link, OwnLink::receive_answer), [round]);
        if round % 2 == 0 {
            drop(echo);
            echo = Echo::start_at(&requests, &broadcasts, &settings());
            // What is sent into a connection that is just breaking is lost, and the engine says it again.
            retry(&mut link, |link| link.send(b"again".to_vec()), OwnLink::receive_answer);
            link.send(b"end".to_vec());
            let rest =
                |link: &mut OwnLink| std::iter::from_fn(|| link.receive_answer()).find(|answer| answer == b"end");
            until(&mut link, rest);
        } else {
            link.reconnect().unwrap();
        }
        assert_eq!(retry(&mut link, |_| echo.publish(b"a"), OwnLink::receive_broadcast), b"a");
        while link.receive_broadcast().is_some() {}
    }
}
