//! A connection to a master, one JSON object after the other, written from the document alone.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use crate::prompt::sandbox::PATIENCE;

pub(crate) struct Peer {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Peer {
    pub(crate) fn connect(port: u16) -> Self {
        Self::try_connect(port).unwrap()
    }

    pub(crate) fn try_connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let lines = BufReader::new(stream.try_clone()?);
        Ok(Self { stream, lines })
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.try_raw(bytes).unwrap();
    }

    pub(crate) fn try_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// The next message; `None` when the master has closed the connection.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("the master says nothing: {error}"),
        }
    }

    /// Joins as one that splits the stream, and hears that it is welcome.
    #[track_caller]
    pub(crate) fn join(&mut self, id: &str) {
        self.say(&json!({ "type": "JOIN", "msg": id, "splits": true }));
        assert_eq!(self.next().expect("an answer")["type"], "JOIN_ACK");
    }

    /// The next REQUEST, while each CHECK is answered.
    #[track_caller]
    pub(crate) fn request(&mut self) -> Value {
        loop {
            let message = self.next().expect("the connection is open");
            match message["type"].as_str().unwrap() {
                "CHECK" => self.say(&json!({ "type": "CHECK_ACK", "msg": "", "req_id": message["req_id"] })),
                "REQUEST" => return message,
                other => panic!("{other}: {message}"),
            }
        }
    }

    pub(crate) fn acknowledge(&mut self, request: &Value) {
        self.say(&json!({ "type": "REQUEST_ACK", "msg": "", "req_id": request["req_id"] }));
    }

    /// Gets and acknowledges the next prompt, and returns its text.
    #[track_caller]
    pub(crate) fn take(&mut self) -> String {
        let request = self.request();
        self.acknowledge(&request);
        request["msg"].as_str().unwrap().to_owned()
    }

    pub(crate) fn done(&mut self) {
        self.say(&json!({ "type": "DONE", "msg": "task_x" }));
    }

    pub(crate) fn failed(&mut self) {
        self.say(&json!({ "type": "FAILED", "msg": "task_x" }));
    }

    /// Goes, so that no prompt comes to it any more.
    pub(crate) fn leave(&mut self) {
        self.say(&json!({ "type": "LEAVE", "msg": "" }));
        self.until_closed();
    }

    /// Reads until the master closes the connection; returns the last message.
    #[track_caller]
    pub(crate) fn until_closed(&mut self) -> Option<Value> {
        let mut last = None;
        while let Some(message) = self.next() {
            last = Some(message);
        }
        last
    }

    /// Asks how everything stands.
    pub(crate) fn status(&mut self) -> Value {
        self.say(&json!({ "type": "STATUS" }));
        self.next().expect("a status")
    }

    /// Says that nothing more will be said.
    pub(crate) fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}
