//! FILE/PUT and FILE/GET: the files that travel with tasks, on their way into the store of the controller and out of it.
//!
//! In the store, the only name of a file is its SHA-256. Like the archive of a tool ([`super::tool`]), a file is put in parts.
//! The first request carries no bytes and asks where to begin, so that a file that the controller holds is not sent. The answer
//! also identifies the folder of the store: a sender that sees the same folder puts the complete file there itself, and asks
//! again. An agent names the run that has made the file. A client that may not send commands may only put a file that a refused
//! submit on the same connection was missing.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::tool::{PutAnswer, ToolGet};
use super::{Ask, Kind, Request, words};
use base::json::ObjectWriter;
use base::{AgentId, Session, TaskId, ToolDigest};

/// The refusal of an input whose name exists in the folder of the tool.
pub const NAME_IS_TAKEN: &str = "the tool has a file of this name; use another one: --in NAME=PATH";

/// Puts a part of a file.
pub const FILE_PUT: Kind = Kind::order("FILE/PUT", |reader| {
    let (total, offset, data) = reader.part()?;
    let run = match reader.fields.get(words::AGENT_ID) {
        None => None,
        Some(_) => {
            let session = Session(reader.number(words::SESSION)?.unwrap_or_default());
            Some(Maker { agent: reader.agent_id()?, session, task: reader.task_id()? })
        }
    };
    let put = FilePut { digest: reader.digest()?, total, offset, data, run, is_trusted: false };
    Ok(Request::FilePut(Box::new(put)))
});

/// Asks for a part of a file.
pub const FILE_GET: Kind = Kind::question("FILE/GET", |reader| Ok(Request::FileGet(reader.tool_get()?)));

/// A part of a file on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePut {
    /// The digest of the whole file.
    pub digest: ToolDigest,
    /// Bytes of the whole file.
    pub total: u64,
    /// The place of the part in it.
    pub offset: u64,
    /// The part. Without bytes, the request asks where to begin.
    pub data: Vec<u8>,
    /// The run that has made the file.
    pub run: Option<Maker>,
    /// Whether its sender may send commands.
    pub is_trusted: bool,
}

/// The run that has made a file, as its agent reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Its agent.
    pub agent: AgentId,
    /// The session of the agent.
    pub session: Session,
    /// Its task.
    pub task: TaskId,
}

impl FilePut {
    /// The first request for a file, which asks where to begin.
    #[must_use]
    pub const fn begin(digest: ToolDigest, total: u64) -> Self {
        Self { digest, total, offset: 0, data: Vec::new(), run: None, is_trusted: false }
    }
}

/// The state of a file on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileState {
    /// Number of bytes that are there.
    pub end: u64,
    /// Whether the file is complete and matches its digest.
    pub is_whole: bool,
    /// The largest part, in bytes.
    pub limit: u64,
    /// The identity of the folder of the store.
    pub store: Option<Arc<str>>,
}

/// Writes the answer to a part that was put.
pub(in crate::wire) fn write_state(state: &FileState, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::OFFSET, state.end);
    writer.literal(words::LIMIT, state.limit);
    writer.literal(words::COMPLETE, state.is_whole);
    writer.maybe_text(words::STORE, state.store.as_deref());
}

/// Puts a part.
#[must_use]
pub fn put(put: &FilePut) -> Ask<PutAnswer> {
    let ask = FILE_PUT.ask().with(words::TOOL_DIGEST, put.digest.to_string()).with(words::TOTAL, put.total);
    let mut ask = ask.with(words::OFFSET, put.offset);
    if let Some(Maker { agent, session, task }) = &put.run {
        ask = ask.with(words::AGENT_ID, agent.to_string()).with(words::TASK_ID, task.to_string());
        ask = ask.with(words::SESSION, session.0);
    }
    if put.data.is_empty() { ask } else { ask.with(words::BASE64, STANDARD.encode(&put.data)) }
}

/// Asks for a part: its offset, the bytes of the whole file, and its bytes.
#[must_use]
pub fn get(get: &ToolGet) -> Ask<(u64, u64, Vec<u8>)> {
    let ask = Ask::new(FILE_GET.word, super::tool::read_part);
    let ask = ask.with(words::TOOL_DIGEST, get.digest.to_string()).with(words::OFFSET, get.offset);
    if get.is_doubted { ask.with(words::DOUBTED, true) } else { ask }
}
