//! A client with a plain REQ socket, as the document has it: it waits for a while, then opens the socket anew.

use serde_json::{Value, json};

use crate::crash::sandbox::eventually;

const RECEIVE_TIMEOUT_MS: i32 = 1000;

pub(crate) struct Client {
    context: zmq::Context,
    endpoint: String,
    socket: zmq::Socket,
}

impl Client {
    pub(crate) fn new(endpoint: &str) -> Self {
        let context = zmq::Context::new();
        let socket = open(&context, endpoint);
        Self { context, endpoint: endpoint.to_owned(), socket }
    }

    /// The answer, if it comes. Without one it is unknown whether the request was received.
    pub(crate) fn ask(&mut self, request: &Value) -> Option<Value> {
        let sent = self.socket.send(request.to_string().as_bytes(), 0);
        let received = sent.and_then(|()| self.socket.recv_bytes(0));
        if received.is_err() {
            self.socket = open(&self.context, &self.endpoint);
        }
        received.ok().map(|body| serde_json::from_slice(&body).expect("an answer in JSON"))
    }

    /// The answer of a service that runs, or will soon.
    #[track_caller]
    pub(crate) fn answer(&mut self, request: &Value) -> Value {
        let mut answer = None;
        eventually("an answer", || {
            answer = self.ask(request);
            answer.is_some()
        });
        answer.expect("it was waited for")
    }

    /// The id of a task that was accepted.
    pub(crate) fn submit(&mut self, operation: &str) -> String {
        let answer = self.answer(&json!({"__TYPE__": "TASK/SUBMIT", "__OPERATION__": operation}));
        id_of(&answer).unwrap_or_else(|| panic!("{answer}"))
    }

    pub(crate) fn query(&mut self, id: &str) -> Value {
        self.answer(&json!({"__TYPE__": "TASK/QUERY", "__TASK_ID__": id}))
    }

    pub(crate) fn status(&mut self, id: &str) -> String {
        self.query(id)["__STATUS__"].as_str().unwrap_or_default().to_owned()
    }

    /// How many tasks are in each phase.
    pub(crate) fn count(&mut self, phases: &[&str]) -> u64 {
        let counts = self.answer(&json!({"__TYPE__": "TASK/STATISTIC"}));
        phases.iter().map(|phase| counts[phase].as_u64().unwrap_or_else(|| panic!("{counts}"))).sum()
    }
}

/// The phases of a task that is not over.
pub(crate) const UNFINISHED: [&str; 5] = ["WAITING", "DISPATCHED", "PREPARING", "RUNNING", "ENDED"];

/// The id in an answer with code 0.
pub(crate) fn id_of(answer: &Value) -> Option<String> {
    (answer["__CODE__"] == 0).then(|| answer["__TASK_ID__"].as_str().expect("an id").to_owned())
}

fn open(context: &zmq::Context, endpoint: &str) -> zmq::Socket {
    let make = || {
        let socket = context.socket(zmq::REQ)?;
        socket.set_linger(0)?;
        socket.set_rcvtimeo(RECEIVE_TIMEOUT_MS)?;
        socket.set_sndtimeo(RECEIVE_TIMEOUT_MS)?;
        socket.connect(endpoint)?;
        Ok::<_, zmq::Error>(socket)
    };
    make().expect("a socket")
}
