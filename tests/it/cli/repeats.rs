//! A submit whose answer is lost.

use serde_json::{Value, json};

use crate::cli::sandbox::{Sandbox, eventually};

fn bind(context: &zmq::Context, endpoint: &str) -> zmq::Socket {
    let socket = context.socket(zmq::ROUTER).expect("a socket");
    socket.set_rcvtimeo(60_000).expect("an option");
    socket.set_linger(0).expect("an option");
    // The port of a closed socket becomes free a moment later.
    eventually("the port is free", || socket.bind(endpoint).is_ok());
    socket
}

/// The frames around a request, and the request.
fn receive(socket: &zmq::Socket) -> (Vec<Vec<u8>>, Value) {
    let mut frames = socket.recv_multipart(0).expect("a request");
    let body = frames.pop().expect("a body");
    (frames, serde_json::from_slice(&body).expect("JSON"))
}

#[test]
fn a_submit_is_repeated_with_its_own_key_when_the_connection_is_lost() {
    let sandbox = Sandbox::new();
    let context = zmq::Context::new();
    let first = bind(&context, &format!("tcp://{}:*", testkit::own_ip()));
    let endpoint = first.get_last_endpoint().expect("asked").expect("text");
    let client = sandbox.start(&format!("submit --controller {endpoint} -- true"));
    let (_, lost) = receive(&first);
    // The controller has accepted it, and dies.
    drop(first);
    let second = bind(&context, &endpoint);
    let (mut frames, repeated) = receive(&second);
    assert_eq!(lost, repeated);
    assert!(lost["__SUBMIT_KEY__"].as_str().is_some_and(|key| key.starts_with("llts ")), "{lost}");
    let answer = json!({ "__TYPE__": "TASK/SUBMIT", "__CODE__": 0, "__TASK_ID__": "TASK_1480000000.120000_AZazA", "__DUPLICATE__": true });
    frames.push(answer.to_string().into_bytes());
    second.send_multipart(frames, 0).expect("sent");
    let said = client.said();
    assert_eq!((said.code, said.out.as_str()), (Some(0), "TASK_1480000000.120000_AZazA\n"), "{said:?}");
    assert_eq!(said.err, "", "a repetition is nothing to tell of");
}
