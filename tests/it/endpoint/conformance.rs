//! The ports with clients of libzmq.

use crate::endpoint::echo::{Echo, PATIENCE_MILLIS, WATCHABLE, settings};
use testkit::eventually;

pub(crate) fn socket(context: &zmq::Context, kind: zmq::SocketType, endpoint: &str) -> zmq::Socket {
    let socket = context.socket(kind).unwrap();
    socket.set_linger(0).unwrap();
    socket.set_rcvtimeo(PATIENCE_MILLIS).unwrap();
    socket.set_sndtimeo(PATIENCE_MILLIS).unwrap();
    socket.set_sndhwm(0).unwrap();
    socket.set_rcvhwm(0).unwrap();
    socket.set_reconnect_ivl(10).unwrap();
    socket.connect(endpoint).unwrap();
    socket
}

pub(crate) fn ask(socket: &zmq::Socket, text: &str) {
    socket.send(text, 0).unwrap();
    assert_eq!(socket.recv_string(0).expect("an answer").unwrap(), text);
}

#[test]
fn req_clients_are_answered() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let clients: Vec<zmq::Socket> = (0..5).map(|_| socket(&context, zmq::REQ, &echo.requests)).collect();
    for round in 0..100 {
        for (number, client) in clients.iter().enumerate() {
            ask(client, &format!("{number} {round}"));
        }
    }
}

#[test]
fn a_message_of_any_size_within_the_limit_comes_back() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let client = socket(&context, zmq::REQ, &echo.requests);
    for bytes in [0, 1, 255, 256, 16_384, 100_000, 262_144] {
        let body: Vec<u8> = (0..bytes).map(|index| u8::try_from(index % 251).unwrap()).collect();
        client.send(&body, 0).unwrap();
        assert!(client.recv_bytes(0).unwrap() == body, "{bytes} bytes");
    }
}

#[test]
fn a_dealer_may_have_many_requests_under_way() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let client = socket(&context, zmq::DEALER, &echo.requests);
    let count = 20_000;
    for number in 0..count {
        client.send_multipart([b"".as_slice(), number.to_string().as_bytes()], 0).unwrap();
    }
    for number in 0..count {
        assert_eq!(client.recv_multipart(0).unwrap(), [b"".to_vec(), number.to_string().into_bytes()]);
    }
}

#[test]
fn all_parts_of_a_message_come_back() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let client = socket(&context, zmq::DEALER, &echo.requests);
    // As many proxies as libzmq's own REP socket answers through, too.
    let mut parts: Vec<&[u8]> = vec![b"hop"; 50];
    parts.extend([b"".as_slice(), b"a", &[b'x'; 300], b"", b"", b"b", b"c"]);
    client.send_multipart(&parts, 0).unwrap();
    assert_eq!(client.recv_multipart(0).unwrap(), parts);
}

#[test]
fn clients_come_back_after_a_restart() {
    let mut echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let client = socket(&context, zmq::REQ, &echo.requests);
    client.set_req_relaxed(true).unwrap();
    client.set_req_correlate(true).unwrap();
    ask(&client, "before");
    client.set_rcvtimeo(500).unwrap();
    for round in 0..3 {
        echo = echo.restarted();
        let text = format!("after {round}");
        // Messages sent while the old connection breaks may go out on it, and are lost.
        eventually("an answer", || {
            client.send(&text, 0).unwrap();
            client.recv_string(0).is_ok_and(|answer| answer.unwrap() == text)
        });
    }
}

#[test]
fn clients_come_and_go() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    for round in 0..200 {
        let client = socket(&context, zmq::REQ, &echo.requests);
        ask(&client, &round.to_string());
    }
}

#[test]
fn subscribers_get_what_they_ask_for() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let subscribers: Vec<zmq::Socket> = (0..3).map(|_| socket(&context, zmq::SUB, &echo.broadcasts)).collect();
    for (subscriber, prefix) in subscribers.iter().zip(["a", "ab", ""]) {
        subscriber.set_subscribe(prefix.as_bytes()).unwrap();
        // A subscription takes its time: what is heard first shows that it is there.
        let probe = format!("{prefix}?");
        subscriber.set_rcvtimeo(5).unwrap();
        eventually("the subscription", || {
            echo.publish(probe.as_bytes());
            subscriber.recv_bytes(0).is_ok()
        });
        subscriber.set_rcvtimeo(PATIENCE_MILLIS).unwrap();
    }
    for text in ["abc", "ad", "x", "end", "aend", "abend"] {
        echo.publish(text.as_bytes());
    }
    let heard = |subscriber: &zmq::Socket, end: &str| {
        let texts = std::iter::repeat_with(|| subscriber.recv_string(0).expect("a broadcast").unwrap());
        let texts: Vec<String> = texts.take_while(|text| text != end).collect();
        texts.into_iter().filter(|text| !text.contains('?')).collect::<Vec<String>>()
    };
    assert_eq!(heard(&subscribers[0], "abend"), ["abc", "ad", "aend"]);
    assert_eq!(heard(&subscribers[1], "abend"), ["abc"]);
    assert_eq!(heard(&subscribers[2], "abend"), ["abc", "ad", "x", "end", "aend"]);
}

#[test]
fn it_is_known_whether_anybody_watches() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    assert!(!echo.is_watched());
    let subscriber = socket(&context, zmq::SUB, &echo.broadcasts);
    subscriber.set_subscribe(b"other").unwrap();
    subscriber.set_subscribe(WATCHABLE.as_bytes()).unwrap();
    eventually("it is watched", || echo.is_watched());
    subscriber.set_unsubscribe(WATCHABLE.as_bytes()).unwrap();
    eventually("it is not watched any more", || !echo.is_watched());
    subscriber.set_subscribe(b"").unwrap();
    eventually("it is watched again", || echo.is_watched());
    drop(subscriber);
    eventually("the subscriber has gone", || !echo.is_watched());
}

#[test]
fn libzmq_asks_whether_we_live() {
    let echo = Echo::bound([0, 0]);
    let context = zmq::Context::new();
    let client = context.socket(zmq::DEALER).unwrap();
    client.set_linger(0).unwrap();
    client.set_heartbeat_ivl(20).unwrap();
    client.set_heartbeat_timeout(PATIENCE_MILLIS).unwrap();
    client.set_rcvtimeo(300).unwrap();
    client.monitor("inproc://monitor", i32::from(zmq::SocketEvent::DISCONNECTED.to_raw())).unwrap();
    let monitor = context.socket(zmq::PAIR).unwrap();
    monitor.connect("inproc://monitor").unwrap();
    client.connect(&echo.requests).unwrap();
    // Some fifteen PINGs.
    assert!(client.recv_bytes(0).is_err());
    assert!(monitor.recv_bytes(zmq::DONTWAIT).is_err(), "the connection was lost");
    client.send_multipart([b"".as_slice(), b"x"], 0).unwrap();
    assert_eq!(client.recv_multipart(0).unwrap(), [b"".to_vec(), b"x".to_vec()]);
}

#[test]
fn a_unix_socket_may_stand_beside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("local");
    let mut settings = settings();
    settings.local = Some(zmtp::sockets::Address::Ipc(path.clone()));
    let echo = Echo::start(&settings);
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let context = zmq::Context::new();
    ask(&socket(&context, zmq::REQ, &format!("ipc://{}", path.display())), "local");
    ask(&socket(&context, zmq::REQ, &echo.requests), "remote");
}

#[test]
fn a_unix_socket_is_as_good() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = |name: &str| format!("ipc://{}/{name}", folder.path().display());
    let context = zmq::Context::new();
    // The remains of a killed process.
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("requests")).unwrap());
    for _ in 0..2 {
        let echo = Echo::start_at(&endpoint("requests"), &endpoint("broadcasts"), &settings());
        assert_eq!(echo.requests, endpoint("requests"));
        let client = socket(&context, zmq::REQ, &echo.requests);
        for round in 0..100 {
            ask(&client, &"x".repeat(round * 1000));
        }
    }
    assert!(!folder.path().join("requests").exists(), "the file has gone with the port");
    let _echo = Echo::start_at(&endpoint("requests"), &endpoint("broadcasts"), &settings());
    let again =
        zmtp::sockets::Ports::bind(&endpoint("requests"), &endpoint("others"), WATCHABLE.to_owned(), &settings());
    assert!(again.unwrap_err().to_string().starts_with("cannot bind ipc://"));
}
