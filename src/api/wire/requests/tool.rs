//! TOOL/PUT, TOOL/LIST, TOOL/SHOW, TOOL/REMOVE, TOOL/LOG and TOOL/GET: the archives of tools that the controller holds.
//!
//! A client pushes an archive in parts, each with the digest of the whole. A part that does not begin at the end of the earlier
//! ones is not written, and the answer tells where they end. So an interrupted push continues, and an archive that the controller
//! already holds is not sent at all. An agent fetches a version in parts, by its digest.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::serve::read_data;
use super::{Ask, Code, FromAgent, Kind, Listing, Reader, Refusal, Request, words};
use crate::wire::client;
use crate::wire::client::view;
use crate::wire::typed::{bad, truth};
use base::json::{FieldLimits, ObjectWriter};
use base::{Fields, HeldTool, Scalar, ToolDigest, ToolName, Wall, is_harmful, json};

/// Pushes a part of an archive.
pub const TOOL_PUT: Kind = Kind::order("TOOL/PUT", |reader| Ok(Request::ToolPut(Box::new(reader.tool_put()?))));

/// The tools that the controller holds, in pages.
pub const TOOL_LIST: Kind = Kind::question("TOOL/LIST", |mut reader| Ok(Request::ToolList(reader.page()?)));

/// Everything about one tool.
pub const TOOL_SHOW: Kind = Kind::question("TOOL/SHOW", |reader| Ok(Request::ToolShow(reader.tool()?)));

/// Removes a pushed tool.
pub const TOOL_REMOVE: Kind =
    Kind::order("TOOL/REMOVE", |reader| Ok(Request::ToolRemove(reader.tool()?, reader.person())));

/// The changes of the name of a tool.
pub const TOOL_LOG: Kind = Kind::question("TOOL/LOG", |reader| Ok(Request::ToolLog(reader.tool()?)));

/// An agent asks for a part of a version.
pub const TOOL_GET: Kind = Kind::of_agents("TOOL/GET", |reader| Ok(FromAgent::ToolGet(reader.tool_get()?)));

/// Maximum bytes of the name of a person in the log of a tool.
const PERSON_BYTES_MAX: usize = 300;

/// A part of an archive during a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPut {
    /// The name that the archive will have.
    pub tool: ToolName,
    /// The digest of the whole archive.
    pub digest: ToolDigest,
    /// Bytes of the whole archive.
    pub total: u64,
    /// The place of the part in it.
    pub offset: u64,
    /// The part. Without bytes, the request asks where to begin.
    pub data: Vec<u8>,
    /// The person who pushes.
    pub by: Arc<str>,
}

/// The part that an agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolGet {
    /// The version.
    pub digest: ToolDigest,
    /// The first byte.
    pub offset: u64,
    /// Whether the bytes that the agent received before did not match the digest.
    pub is_doubted: bool,
}

/// A part of a version.
#[derive(Clone, PartialEq, Eq)]
pub struct ToolPart {
    /// The version.
    pub digest: ToolDigest,
    /// The first byte.
    pub offset: u64,
    /// Bytes of the whole version.
    pub total: u64,
    /// The bytes in base 64, encoded by the thread that has read them.
    pub text: Arc<str>,
}

/// Without its bytes.
impl std::fmt::Debug for ToolPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bytes from {} of {:?}", self.offset, self.digest)
    }
}

impl ToolPart {
    /// The part with these bytes.
    #[must_use]
    pub fn new(get: (ToolDigest, u64), total: u64, data: &[u8]) -> Self {
        Self { digest: get.0, offset: get.1, total, text: STANDARD.encode(data).into() }
    }
}

/// An entry in the log of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLogRow {
    /// The moment.
    pub at: Wall,
    /// The name.
    pub tool: ToolName,
    /// The version that the name has had since then; `None` if it was removed.
    pub digest: Option<ToolDigest>,
    /// Bytes of that version.
    pub size: u64,
    /// The person, or the folder.
    pub by: Arc<str>,
    /// Whether it is a change of the controller's own tools folder, and not of a pushed name.
    pub is_of_folder: bool,
}

impl ToolLogRow {
    /// The entry as a line of a file, without the line end. The name in a change of the folder has another key, so that programs
    /// that only know pushed names skip the line.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = Vec::new();
        let mut writer = ObjectWriter::new(&mut out);
        self.write(if self.is_of_folder { words::TOOLS_FOLDER } else { words::OPERATION }, &mut writer);
        writer.end();
        String::from_utf8(out).unwrap_or_default()
    }

    /// Reads a line as written by [`Self::encode`]; `None` for any other.
    #[must_use]
    pub fn decode(line: &[u8]) -> Option<Self> {
        let fields = json::parse(line, &FieldLimits::TRUSTED).ok()?;
        let pushed = fields.text(words::OPERATION);
        Some(Self {
            at: fields.moment(words::SINCE)?,
            tool: ToolName::new(pushed.or_else(|| fields.text(words::TOOLS_FOLDER))?).ok()?,
            is_of_folder: pushed.is_none(),
            digest: fields.text(words::TOOL_DIGEST).map(str::parse).transpose().ok()?,
            size: fields.count(words::BYTES)?,
            by: fields.text(words::BY)?.into(),
        })
    }

    fn write(&self, key: &str, writer: &mut ObjectWriter<'_>) {
        writer.text(key, self.tool.as_str());
        writer.maybe_text(words::TOOL_DIGEST, self.digest.map(|digest| digest.to_string()));
        writer.literal(words::BYTES, self.size);
        writer.literal(words::SINCE, self.at);
        writer.text(words::BY, &self.by);
    }
}

/// A file, folder or link of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFile {
    /// Its path in the folder of the tool.
    pub path: String,
    /// Bytes of a file.
    pub bytes: u64,
}

/// A tool as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolView {
    /// The version.
    pub held: Arc<HeldTool>,
    /// Number of agents that have it in a folder of their own.
    pub own: usize,
    /// Number of agents that would fetch it.
    pub fetching: usize,
    /// Number of unfinished tasks that have pinned any version of it.
    pub pinned: usize,
    /// Whether the store has lost this version, or has other bytes in its place.
    pub is_damaged: bool,
    /// Its files, if they were requested.
    pub files: Vec<ToolFile>,
}

impl Reader<'_> {
    fn tool(&self) -> Result<ToolName, Refusal> {
        let value = self.fields.get(words::OPERATION).unwrap_or(&Scalar::Null);
        let name = value.as_text().unwrap_or_default();
        ToolName::new(name).map_err(|error| Refusal::new(Code::BadOperation, format!("__OPERATION__ {error}")))
    }

    pub(super) fn digest(&self) -> Result<ToolDigest, Refusal> {
        let value = self.fields.get(words::TOOL_DIGEST).unwrap_or(&Scalar::Null);
        let digest = value.as_text().and_then(|text| text.parse().ok());
        digest.ok_or_else(|| bad(words::TOOL_DIGEST, value, "a SHA-256 of 64 hexadecimal digits in lower case"))
    }

    fn person(&self) -> Arc<str> {
        let said = self.text(words::BY).unwrap_or("a client");
        said.chars().map(|c| if is_harmful(c) { ' ' } else { c }).take(PERSON_BYTES_MAX).collect::<String>().into()
    }

    /// Reads a part: the size of the whole, the offset of the part in it, and its bytes.
    pub(super) fn part(&self) -> Result<(u64, u64, Vec<u8>), Refusal> {
        let total = self.number(words::TOTAL)?.unwrap_or_default();
        let unreadable = || bad(words::BASE64, &Scalar::Text(String::new()), "bytes in base 64");
        let data = match self.fields.get(words::BASE64) {
            None => Vec::new(),
            Some(_) => read_data(&self.fields).ok_or_else(unreadable)?,
        };
        let offset = self.number(words::OFFSET)?.unwrap_or_default();
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > total) {
            let shown = Scalar::from(offset);
            return Err(bad(words::OFFSET, &shown, "a place within the whole, whose bytes are in __TOTAL__"));
        }
        Ok((total, offset, data))
    }

    fn tool_put(&self) -> Result<ToolPut, Refusal> {
        let (total, offset, data) = self.part()?;
        Ok(ToolPut { tool: self.tool()?, digest: self.digest()?, total, offset, data, by: self.person() })
    }

    pub(super) fn tool_get(&self) -> Result<ToolGet, Refusal> {
        let offset = self.number(words::OFFSET)?.unwrap_or_default();
        let is_doubted = truth(&self.fields, words::DOUBTED)?.unwrap_or_default();
        Ok(ToolGet { digest: self.digest()?, offset, is_doubted })
    }
}

/// Writes the request of an agent.
pub(in crate::wire) fn write_get(get: &ToolGet, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TOOL_DIGEST, &get.digest.to_string());
    writer.literal(words::OFFSET, get.offset);
    if get.is_doubted {
        writer.literal(words::DOUBTED, true);
    }
}

/// Writes a part.
pub(in crate::wire) fn write_part(part: &ToolPart, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TOOL_DIGEST, &part.digest.to_string());
    writer.literal(words::OFFSET, part.offset);
    writer.literal(words::TOTAL, part.total);
    writer.text(words::BASE64, &part.text);
}

/// A part as an agent receives it: its offset, the bytes of the whole version, and its bytes.
///
/// # Errors
/// When the controller refuses it, or the frame is not an answer to it.
pub fn read_part(frame: &[u8]) -> Result<(u64, u64, Vec<u8>), client::ReplyError> {
    let fields = client::decode(frame)?;
    let number = |name| fields.count(name);
    let part = number(words::OFFSET).zip(number(words::TOTAL)).zip(read_data(&fields));
    let malformed = || client::ReplyError::Malformed("a part of a tool without its bytes".to_owned());
    part.map(|((offset, total), data)| (offset, total, data)).ok_or_else(malformed)
}

/// Writes the answer to a part that was pushed.
pub(in crate::wire) fn write_put(
    (end, is_whole): (u64, bool),
    limit: u64,
    warning: Option<&str>,
    writer: &mut ObjectWriter<'_>,
) {
    writer.literal(words::OFFSET, end);
    writer.literal(words::LIMIT, limit);
    writer.literal(words::COMPLETE, is_whole);
    writer.maybe_text(words::WARNING, warning);
}

/// Writes a tool.
pub(in crate::wire) fn write(view: &ToolView, writer: &mut ObjectWriter<'_>) {
    writer.text(words::OPERATION, view.held.name.as_str());
    writer.text(words::TOOL_DIGEST, &view.held.digest.to_string());
    writer.literal(words::BYTES, view.held.size);
    writer.literal(words::SINCE, view.held.at);
    writer.text(words::BY, &view.held.by);
    writer.literal(words::OWN_AGENTS, view.own);
    writer.literal(words::FETCHING_AGENTS, view.fetching);
    writer.literal(words::PINNED, view.pinned);
    if view.is_damaged {
        writer.literal(words::DAMAGED, true);
    }
    writer.maybe_text(words::MANIFEST, view.held.manifest.as_ref().map(|manifest| manifest.text.as_str()));
    if !view.files.is_empty() {
        let lines: Vec<String> = view.files.iter().map(|file| format!("{} {}", file.bytes, file.path)).collect();
        writer.text(words::FILES, &lines.join("\n"));
    }
}

/// Writes a tool as a row.
pub(in crate::wire) fn write_row(view: &ToolView, writer: &mut ObjectWriter<'_>) {
    writer.object(view.held.name.as_str(), |writer| write(view, writer));
}

/// Writes the log of a tool.
pub(in crate::wire) fn write_log(rows: &[ToolLogRow], writer: &mut ObjectWriter<'_>) {
    writer.literal(words::TOTAL, rows.len());
    for (number, row) in rows.iter().enumerate() {
        writer.object(&number.to_string(), |writer| row.write(words::OPERATION, writer));
    }
}

/// Pushes a part.
#[must_use]
pub fn put(put: &ToolPut) -> Ask<PutAnswer> {
    let ask = TOOL_PUT.ask().with(words::OPERATION, put.tool.as_str());
    let ask = ask.with(words::TOOL_DIGEST, put.digest.to_string()).with(words::TOTAL, put.total);
    let ask = ask.with(words::OFFSET, put.offset).with(words::BY, &*put.by);
    if put.data.is_empty() { ask } else { ask.with(words::BASE64, STANDARD.encode(&put.data)) }
}

/// The tools that the controller holds.
#[must_use]
pub fn list(offset: u64, limit: u64) -> Ask<Listing<ToolRow>> {
    TOOL_LIST.ask_for_rows().with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// Everything about a tool.
#[must_use]
pub fn show(tool: &ToolName) -> Ask<ToolRow> {
    TOOL_SHOW.ask().with(words::OPERATION, tool.as_str())
}

/// Removes a pushed tool.
#[must_use]
pub fn remove(tool: &ToolName, by: &str) -> Ask<()> {
    TOOL_REMOVE.demand().with(words::OPERATION, tool.as_str()).with(words::BY, by)
}

/// The changes of the name of a tool, oldest first.
#[must_use]
pub fn log(tool: &ToolName) -> Ask<Listing<ToolRow>> {
    TOOL_LOG.ask_for_rows().with(words::OPERATION, tool.as_str())
}

view! {
    /// The answer to a part that was pushed.
    PutAnswer {
        /// Number of bytes that are there.
        end: u64 = |fields| fields.count(words::OFFSET).unwrap_or_default();
        /// The largest part, in bytes.
        limit: u64 = |fields| fields.count(words::LIMIT).unwrap_or_default();
        /// Whether the archive is complete.
        is_complete: bool = |fields| fields.flag(words::COMPLETE);
        /// The identity of the folder of the store, or an empty text; for a file.
        store: &str = |fields| fields.text(words::STORE).unwrap_or_default();
        /// A warning, or an empty text.
        warning: &str = |fields| fields.text(words::WARNING).unwrap_or_default();
    }
}

view! {
    /// A tool, or an entry of its log.
    ToolRow {
        /// Its name.
        name: &str = |fields| fields.text(words::OPERATION).unwrap_or_default();
        /// The version; an empty text in a log entry about its removal.
        digest: &str = |fields| fields.text(words::TOOL_DIGEST).unwrap_or_default();
        /// Bytes of the archive.
        size: u64 = |fields| fields.count(words::BYTES).unwrap_or_default();
        /// Since when the name has this version.
        since: Option<Wall> = |fields| fields.moment(words::SINCE);
        /// The person, or the folder.
        by: &str = |fields| fields.text(words::BY).unwrap_or_default();
        /// Number of agents that have it in a folder of their own.
        own: u64 = |fields| fields.count(words::OWN_AGENTS).unwrap_or_default();
        /// Number of agents that would fetch it.
        fetching: u64 = |fields| fields.count(words::FETCHING_AGENTS).unwrap_or_default();
        /// Number of unfinished tasks that have pinned any version of it.
        pinned: u64 = |fields| fields.count(words::PINNED).unwrap_or_default();
        /// Whether the store of the controller has lost it, or has other bytes in its place.
        is_damaged: bool = |fields| fields.flag(words::DAMAGED);
        /// The text of its `tool.toml`, or an empty text.
        manifest: &str = |fields| fields.text(words::MANIFEST).unwrap_or_default();
        /// Its files: a line for each, with its bytes and its path.
        files: &str = |fields| fields.text(words::FILES).unwrap_or_default();
    }
}
