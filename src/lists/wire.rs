//! The messages between the server of task lists and its workers: TCP, one JSON object each, with a newline at its end.
//!
//! | from | type | content |
//! |---|---|---|
//! | worker | `HELLO` | `worker`: its name; `secret`; `lists`: the running lists of which it has tasks or results |
//! | worker | `CLAIM` | the worker takes the next list |
//! | worker | `RESULTS` | `list`, `number`, and `results`: tasks of that list that have ended |
//! | worker | `BEAT` | the worker is alive |
//! | worker | `LEAVE` | the worker runs nothing and ends |
//! | server | `WELCOME` | `lost_after` (ms) without a message, `output_bytes_max`, `void`: the lists that the worker has lost |
//! | server | `LIST` | `list`, and `tasks` in the order in which they run |
//! | server | `ACK` | `number`: these results are stored |
//! | server | `VOID` | `list`: the worker has lost it |
//! | server | `REFUSED` | `reason`, and `is_passing` if a later attempt may succeed; the connection is closed right after it |
//!
//! Outputs may be any bytes, and are written in base64. Unknown members are ignored; an unknown type is an error.

pub mod agents;

use std::fmt;
use std::sync::Arc;

use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use base::lists::{ListTaskId, RunningName};

/// Bytes of the commands of one list. A list with longer ones is divided.
pub const LIST_BYTES_MAX: usize = 4 << 20;

/// Bytes of one message of the server: a control character of a command takes six there, and each task some more.
pub const SERVER_FRAME_BYTES_MAX: usize = 6 * LIST_BYTES_MAX + (8 << 20);

/// Bytes of outputs in one message of a worker, unless one task has more.
pub const RESULTS_BYTES_MAX: usize = 1 << 20;

/// Bytes of one message of a worker whose outputs may have `output_bytes_max` each.
#[must_use]
pub const fn worker_frame_bytes_max(output_bytes_max: usize) -> usize {
    // Two outputs in base64; those that fill a message; ids and numbers.
    3 * output_bytes_max + 2 * RESULTS_BYTES_MAX + (4 << 20)
}

/// A message of a worker.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum FromWorker {
    /// The first message.
    Hello {
        /// Its name.
        worker: String,
        /// The secret that the server's configuration requires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// The running lists of which it has tasks or results.
        #[serde(default)]
        lists: Vec<Name>,
    },
    /// The worker takes the next list.
    Claim {},
    /// Tasks that have ended.
    Results {
        /// Their list.
        list: Name,
        /// Identifies the message on its connection.
        number: u64,
        /// The tasks, in the order in which they ended.
        #[serde(with = "as_shared")]
        results: Vec<Arc<TaskResult>>,
    },
    /// The worker is alive.
    Beat {},
    /// The worker runs nothing and ends.
    Leave {},
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "UPPERCASE")]
pub enum FromServer {
    /// The worker is accepted.
    Welcome {
        /// Milliseconds without a message after which the worker counts as lost.
        lost_after: u64,
        /// Bytes of one output of a task.
        output_bytes_max: usize,
        /// The lists that the worker has lost.
        #[serde(default)]
        void: Vec<Name>,
    },
    /// A list for the worker.
    List {
        /// Its name.
        list: Name,
        /// The tasks, in the order in which they run.
        tasks: Vec<Order>,
    },
    /// Results are stored.
    Ack {
        /// The number of their message.
        number: u64,
    },
    /// The worker has lost a list.
    Void {
        /// Its name.
        list: Name,
    },
    /// The worker is not accepted.
    Refused {
        /// A sentence for people.
        reason: String,
        /// Whether a later attempt may succeed.
        #[serde(default)]
        is_passing: bool,
    },
}

/// The name of a running list as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(pub RunningName);

/// A task to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its id.
    #[serde(with = "as_text")]
    pub id: ListTaskId,
    /// Seconds since 1970: when it is to be started the latest.
    pub until: u64,
    /// The command.
    pub cmd: String,
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its id.
    #[serde(with = "as_text")]
    pub id: ListTaskId,
    /// Seconds since 1970.
    pub started: u64,
    /// Seconds since 1970.
    pub ended: u64,
    /// The stdout of its command.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub out: Vec<u8>,
    /// The stderr of its command, and what the worker adds.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub err: Vec<u8>,
}

impl FromWorker {
    /// Writes the message, with its newline.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Parses an object that a [`zmtp::json::split::Splitter`] has found.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(frame: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(frame).map_err(|error| format!("it sent an unknown message: {error}"))
    }
}

impl FromServer {
    /// Writes the message, with its newline.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// As [`FromWorker::parse`].
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(frame: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(frame).map_err(|error| format!("it sent an unknown message: {error}"))
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Texts and numbers can always be written as JSON.
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The secret is for the server only, not for logs.
impl fmt::Debug for FromWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hello { worker, lists, .. } => {
                f.debug_struct("Hello").field("worker", worker).field("lists", lists).finish_non_exhaustive()
            }
            Self::Claim {} => f.write_str("Claim"),
            Self::Results { list, number, results } => {
                f.debug_tuple("Results").field(list).field(number).field(&results.len()).finish()
            }
            Self::Beat {} => f.write_str("Beat"),
            Self::Leave {} => f.write_str("Leave"),
        }
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        as_text::deserialize(input).map(Self)
    }
}

mod as_text {
    use super::{Deserialize as _, Deserializer, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    pub(super) fn serialize<S: Serializer>(value: &impl Display, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(value)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(input: D) -> Result<T, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

mod as_shared {
    use super::{Arc, Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer, T: Serialize>(items: &[Arc<T>], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(items.iter().map(AsRef::as_ref))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
        input: D,
    ) -> Result<Vec<Arc<T>>, D::Error> {
        Ok(Vec::<T>::deserialize(input)?.into_iter().map(Arc::new).collect())
    }
}

mod as_base64 {
    use super::{BASE64, Deserialize as _, Deserializer, Serialize as _, Serializer};
    use base64::Engine as _;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        BASE64.encode(bytes).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(input)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Name {
        Name("1448978609_worker_123_1448978619".parse().unwrap())
    }

    #[test]
    fn every_message_reads_back_as_itself() {
        let id = "1448978609795035000_0".parse().unwrap();
        let result = TaskResult { id, started: 1, ended: 2, out: vec![0, 255, b'\n'], err: Vec::new() };
        for message in [
            FromWorker::Hello { worker: "w".into(), secret: Some("s".into()), lists: vec![list()] },
            FromWorker::Claim {},
            FromWorker::Results { list: list(), number: 7, results: vec![Arc::new(result)] },
            FromWorker::Beat {},
            FromWorker::Leave {},
        ] {
            let bytes = message.encode();
            assert!(bytes.ends_with(b"}\n") && !bytes[..bytes.len() - 1].contains(&b'\n'));
            assert_eq!(FromWorker::parse(&bytes), Ok(message));
        }
        for message in [
            FromServer::Welcome { lost_after: 1, output_bytes_max: 2, void: vec![list()] },
            FromServer::List { list: list(), tasks: vec![Order { id, until: 3, cmd: "echo \"é\"\t\u{1}".into() }] },
            FromServer::Ack { number: 1 },
            FromServer::Void { list: list() },
            FromServer::Refused { reason: "no".into(), is_passing: true },
        ] {
            assert_eq!(FromServer::parse(&message.encode()), Ok(message));
        }
        let hello = FromWorker::Hello { worker: "w".into(), secret: Some("hunter2".into()), lists: vec![] };
        assert!(!format!("{hello:?}").contains("hunter2"));
    }

    #[test]
    fn anything_else_is_a_sentence() {
        for frame in [
            "{}",
            r#"{"type":"NO"}"#,
            r#"{"type":"HELLO"}"#,
            r#"{"type":"RESULTS","list":"x","number":1,"results":[]}"#,
            r#"{"type":"RESULTS","list":"1_w_2","number":1,"results":[{"id":"1_0","started":1,"ended":1,"out":"?"}]}"#,
        ] {
            assert!(
                FromWorker::parse(frame.as_bytes()).unwrap_err().starts_with("it sent an unknown message"),
                "{frame}"
            );
        }
    }
}
