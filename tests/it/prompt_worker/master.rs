//! A master that says what a test tells it to, over real TCP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::prompt_worker::sandbox::{PATIENCE, found};

pub(crate) struct Master(TcpListener);

/// A worker as its master sees it.
pub(crate) struct Peer(BufReader<TcpStream>);

impl Master {
    pub(crate) fn new() -> Self {
        Self::at((testkit::own_ip(), 0).into())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("a socket of ours");
        Self(listener)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("bound")
    }

    /// An address without a listener.
    pub(crate) fn gone() -> SocketAddr {
        Self::new().address()
    }

    /// The next connection.
    #[track_caller]
    pub(crate) fn accept(&self) -> Peer {
        let (stream, _) = found("a connection", || self.0.accept().ok());
        stream.set_nonblocking(false).expect("a socket of ours");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket of ours");
        stream.set_nodelay(true).expect("a socket of ours");
        Peer(BufReader::new(stream))
    }

    /// The next worker that joins.
    #[track_caller]
    pub(crate) fn join(&self) -> Peer {
        let mut peer = self.accept();
        peer.hears("JOIN");
        peer.say(&json!({ "type": "JOIN_ACK", "msg": "" }));
        peer
    }
}

impl Peer {
    /// The next message, which is of this type.
    #[track_caller]
    pub(crate) fn hears(&mut self, kind: &str) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap_or_else(|error| panic!("no {kind}: {error}"));
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{kind}: {error}: {line:?}"));
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    /// The connection ends.
    #[track_caller]
    pub(crate) fn hears_the_end(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("an end");
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("a worker that reads");
    }

    /// Hands a prompt over, as our master does.
    #[track_caller]
    pub(crate) fn request(&mut self, file: &str, prompt: &str) {
        let id = format!("id of {file}");
        self.say(&json!({ "type": "REQUEST", "msg": prompt, "req_id": id, "file": file }));
        assert_eq!(self.hears("REQUEST_ACK")["req_id"], id);
    }

    /// Asks whether the worker is alive, and waits for its answer.
    #[track_caller]
    pub(crate) fn check(&mut self) {
        self.say(&json!({ "type": "CHECK", "msg": "", "req_id": "c1" }));
        assert_eq!(self.hears("CHECK_ACK")["req_id"], "c1");
    }
}
