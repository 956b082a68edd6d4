//! Peers of a controller, made with libzmq.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::waiting::{eventually, found};

/// Milliseconds for anything that must happen: generous, because a test machine may be busy.
const LIMIT: i32 = 60_000;

/// Milliseconds that a question waits at the controller for the end of a task.
const WAIT: i32 = 55_000;

/// Milliseconds for an answer, where the controller is killed meanwhile.
const SHORT: i32 = 1000;

/// The number of submits that may be repeated.
static SUBMITS: AtomicU64 = AtomicU64::new(0);

/// A client of any language: one JSON object there, one back.
pub struct Client {
    endpoint: String,
    socket: RefCell<zmq::Socket>,
    /// Whether a question without an answer is asked again, on another connection.
    persists: bool,
}

impl Client {
    /// A client of a service that answers each question.
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), socket: connected(zmq::REQ, endpoint).into(), persists: false }
    }

    /// A client of a service that is killed, and soon there again.
    pub fn that_persists(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), socket: connected_for(zmq::REQ, endpoint, SHORT).into(), persists: true }
    }

    /// The answer to these bytes, if it comes. Without one it is unknown whether they were received.
    fn exchange(&self, body: &[u8]) -> Option<Value> {
        let mut socket = self.socket.borrow_mut();
        let Ok(reply) = socket.send(body, 0).and_then(|()| socket.recv_bytes(0)) else {
            *socket = connected_for(zmq::REQ, &self.endpoint, SHORT);
            return None;
        };
        assert!(reply.starts_with(b"{\"__TYPE__\":"), "{}", String::from_utf8_lossy(&reply));
        Some(serde_json::from_slice(&reply).expect("JSON"))
    }

    /// Sends whatever bytes, and reads the answer.
    #[track_caller]
    pub fn raw(&self, body: &[u8]) -> Value {
        let answer = || self.exchange(body);
        if self.persists { found("an answer", answer) } else { answer().expect("the service answers") }
    }

    /// Asks once.
    pub fn try_ask(&self, kind: &str, mut fields: Value) -> Option<Value> {
        fields["__TYPE__"] = kind.into();
        self.exchange(fields.to_string().as_bytes())
    }

    /// Asks, and reads the answer.
    #[track_caller]
    pub fn ask(&self, kind: &str, mut fields: Value) -> Value {
        fields["__TYPE__"] = kind.into();
        self.raw(fields.to_string().as_bytes())
    }

    /// The code in an answer. One that is not 0 comes with a sentence.
    #[track_caller]
    pub fn code(&self, kind: &str, fields: Value) -> i64 {
        let reply = self.ask(kind, fields);
        let code = reply["__CODE__"].as_i64().expect("a code");
        assert_eq!(code != 0, reply["__ERROR_MSG__"].as_str().is_some_and(|text| !text.is_empty()), "{reply}");
        code
    }

    /// Submits a task that must be accepted, and returns its id.
    #[track_caller]
    pub fn submit(&self, tool: &str, mut fields: Value) -> String {
        fields["__OPERATION__"] = tool.into();
        if self.persists {
            // An answer that comes late is asked for again, and is that of the same task.
            fields["__SUBMIT_KEY__"] = SUBMITS.fetch_add(1, Ordering::Relaxed).to_string().into();
        }
        let reply = self.ask("TASK/SUBMIT", fields);
        id_of(&reply).unwrap_or_else(|| panic!("{reply}"))
    }

    /// What is known of a task.
    #[track_caller]
    pub fn query(&self, task: &str) -> Value {
        self.ask("TASK/QUERY", json!({ "__TASK_ID__": task }))
    }

    /// The phase of a task.
    #[track_caller]
    pub fn status(&self, task: &str) -> String {
        self.query(task)["__STATUS__"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits for the end of a task.
    #[track_caller]
    pub fn end(&self, task: &str) -> Value {
        let reply = self.ask("TASK/QUERY", json!({ "__TASK_ID__": task, "__WAIT__": WAIT }));
        assert_eq!(reply["__STATUS__"], "FINISHED", "{reply}");
        reply
    }

    /// The number of tasks in these phases.
    #[track_caller]
    pub fn count(&self, phases: &[&str]) -> u64 {
        let counts = self.ask("TASK/STATISTIC", json!({}));
        phases.iter().map(|phase| counts[phase].as_u64().unwrap_or_else(|| panic!("{counts}"))).sum()
    }

    /// Asks until the answer is as it should be; each question is answered at once.
    #[track_caller]
    pub fn until(&self, kind: &str, fields: &Value, what: impl Fn(&Value) -> bool) -> Value {
        let mut reply = Value::Null;
        eventually(&format!("{kind} {fields} says what it should"), || {
            reply = self.ask(kind, fields.clone());
            what(&reply)
        });
        reply
    }
}

/// A bound DEALER: states are pushed to it.
pub struct Receiver {
    /// Its socket.
    pub socket: zmq::Socket,
    /// Its address.
    pub address: String,
}

impl Receiver {
    /// One on a free port, for any number of messages.
    pub fn bind() -> Self {
        let socket = socket(zmq::DEALER, LIMIT);
        socket.bind("tcp://127.0.0.1:*").expect("a free port");
        let address = socket.get_last_endpoint().expect("an option").expect("text");
        Self { socket, address }
    }

    /// The next message.
    #[track_caller]
    pub fn next(&self) -> Value {
        let frames = self.socket.recv_multipart(0).expect("a push comes");
        assert_eq!(frames.len(), 1);
        serde_json::from_slice(&frames[0]).expect("JSON")
    }
}

/// The id in an answer with code 0.
pub fn id_of(answer: &Value) -> Option<String> {
    (answer["__CODE__"] == 0).then(|| answer["__TASK_ID__"].as_str().expect("an id").to_owned())
}

/// A socket with a context of its own, for messages that a [`Client`] does not send.
pub fn connected(kind: zmq::SocketType, endpoint: &str) -> zmq::Socket {
    connected_for(kind, endpoint, LIMIT)
}

fn connected_for(kind: zmq::SocketType, endpoint: &str, millis: i32) -> zmq::Socket {
    let socket = socket(kind, millis);
    socket.connect(endpoint).expect("an address");
    socket
}

fn socket(kind: zmq::SocketType, millis: i32) -> zmq::Socket {
    let socket = zmq::Context::new().socket(kind).expect("a socket");
    socket.set_linger(0).expect("an option");
    socket.set_rcvtimeo(millis).expect("an option");
    socket.set_sndtimeo(millis).expect("an option");
    socket.set_rcvhwm(0).expect("an option");
    socket
}
