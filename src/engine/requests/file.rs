//! FILE/PUT and FILE/GET: files that travel with tasks.
//!
//! # The path of a file
//!
//! | owner | does |
//! |---|---|
//! | the client (`src/llts/cli/file.rs`) | names inputs by digest (`__IN__`) and patterns of outputs (`__OUT__`), and puts what the controller lacks before it submits |
//! | the controller (here, and the `files` of the catalog) | refuses a submit whose inputs it does not hold or whose tool has their names, counts the tasks that name each file, and removes files that none names |
//! | the thread of the archives (`src/controller/archives`) | has the files, beside the archives of tools: by digest, checked before they count |
//! | the agent (`src/agent/process/inputs.rs`) | fetches each input once per machine, as an archive of a tool, and puts a copy into the folder of the run |
//! | the agent (`src/agent/process/keep.rs`) | puts what matches a pattern when no process of the run is left, and then reports the result, which names it |
//! | the client (`src/llts/cli/get.rs`) | gets the files that a result names |
//!
//! | event | then |
//! |---|---|
//! | a part of a file is put by a client that may not send commands, and no submit of its connection was refused because the file is missing | it is refused |
//! | a part of a file is put | it is written; with the last one, its digest is checked and the store holds the file |
//! | the store would have more than `FILE_STORE_BYTES_MAX` | the part is refused |
//! | a task is accepted | its inputs are named until it is forgotten |
//! | a task finishes | the files of its last run are named, until it is forgotten or runs again |
//! | no task names a file any more | it is removed a second later, when the end of the last one is stored |
//! | files that arrive at the same time would together exceed `FILE_STORE_BYTES_MAX` | those without a part for a while make room, for a run all those of clients; otherwise the part is refused |
//! | the disk has less room than `DISK_RESERVE` | the part is refused |
//! | a file was put and no task has named it | it is removed after `TOOL_STORE_KEEP`, like the version of a tool |
//!
//! A file is named by its digest alone, so many tasks with the same file share one copy. A file that is damaged in the store is put
//! aside. Its tasks fail in their preparation with a sentence that names it, and a client that submits it again puts it again.

use std::collections::BTreeSet;

use super::{Answer, Code, Controller, Refusal, Reply, Ticket, words};
use crate::archives::tool_order::{FileRoom, FileWritten, ToolOrder, Uploader};
use crate::fleet::agent::{Agent, Liveness};
use crate::turn::effect::{ConnectionId, Effect};
use api::wire::requests::file::{FilePut, FileState, Maker, NAME_IS_TAKEN};
use api::wire::requests::submit::{IN_FOLDER, Submit};
use api::wire::requests::tool::ToolGet;
use base::{Phase, TaskInput, TaskRecord, in_quotes};

/// Senders that may not send commands may fill the store, together with all other files, up to its limit divided by this.
const STRANGERS_SHARE: u64 = 2;

/// Maximum number of files that one connection may put because its submit lacks them.
const EXPECTED_MAX: usize = 1000;

impl Controller {
    pub(super) fn put_file(&mut self, ticket: Ticket, put: Box<FilePut>) -> Answer {
        let (catalog, max) = (&self.archives.catalog, self.settings.tools.store_bytes_max);
        if catalog.size(&put.digest).is_none() && catalog.bytes().saturating_add(put.total) > max {
            let message = format!(
                "the file {} has {} bytes, and the store of the controller has {} of at most {max} (FILE_STORE_BYTES_MAX); forget \
                 tasks that have ended, or raise the limit",
                put.digest.short(),
                put.total,
                catalog.bytes()
            );
            return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
        }
        let uploader = match self.uploader(ticket.connection, &put) {
            Ok(uploader) => uploader,
            Err(refusal) => return Reply::Refused(refusal).into(),
        };
        let max = if let Uploader::Stranger(_) = uploader { max / STRANGERS_SHARE } else { max };
        let bytes = max.saturating_sub(self.archives.catalog.bytes());
        self.order_tool(ToolOrder::WriteFile(ticket, put, FileRoom { uploader, bytes }))
    }

    /// The sender of a file.
    ///
    /// # Errors
    /// When it may not put this one.
    fn uploader(&self, connection: ConnectionId, put: &FilePut) -> Result<Uploader, Refusal> {
        let has_outputs = |record: &&TaskRecord| {
            record.phase() < Phase::Finished && record.files.as_ref().is_some_and(|files| !files.outputs.is_empty())
        };
        let run = put.run.as_ref().and_then(|run| Some((run, self.tasks.get(run.task).filter(has_outputs)?)));
        let is_its_run = |Maker { agent, session, .. }: &Maker, record: &TaskRecord| {
            let is_its_session = |known: &Agent| match known.contact.liveness {
                Liveness::Session(known) => known == *session,
                Liveness::Restored | Liveness::Returned(_) => true,
            };
            record.assignment().is_some_and(|run| run.is_with(agent, *session))
                && self.fleet.get(agent).is_some_and(is_its_session)
        };
        if run.is_some_and(|(run, record)| is_its_run(run, record)) {
            return Ok(Uploader::Run);
        }
        if put.is_trusted {
            return Ok(Uploader::Client);
        }
        // The run of an agent that has come back may not be confirmed yet, or the submit of this client may have been refused
        // without the file.
        let is_expected = || self.archives.is_expected(connection, &put.digest);
        if run.is_some() || is_expected() {
            return Ok(Uploader::Stranger(connection));
        }
        let message = format!(
            "the file {} is put by a sender that may not send commands (ALLOW_COMMANDS), and no submit of this connection waits for \
             it; submit the task first, and put the file that it lacks",
            put.digest.short()
        );
        Err(Refusal::new(Code::NotAllowed, message))
    }

    /// Notes which files a connection may put because its submit lacks them, if its sender may not send commands.
    pub(super) fn expect_inputs<'a>(
        &mut self,
        connection: ConnectionId,
        submits: impl IntoIterator<Item = &'a Submit>,
    ) {
        let strangers = submits.into_iter().filter(|submit| !submit.is_trusted);
        let inputs = strangers.filter_map(|submit| submit.files.as_ref()).flat_map(|files| &files.inputs);
        let missing = inputs.map(|input| input.digest).filter(|digest| self.archives.catalog.size(digest).is_none());
        let missing: BTreeSet<_> = missing.take(EXPECTED_MAX).collect();
        if !missing.is_empty() {
            self.archives.expect(connection, missing);
        }
    }

    /// A connection is gone.
    pub(crate) fn abandon_files(&mut self, connection: ConnectionId) {
        if self.archives.expect_no_more(connection) {
            self.turn.emit(Effect::Tool(ToolOrder::Abandon(connection)));
        }
    }

    pub(crate) fn file_written(&mut self, ticket: Ticket, written: Result<FileWritten, Refusal>) {
        let limit = self.settings.part_bytes_max;
        let reply = written.map(|FileWritten { digest, end, is_whole }| {
            if is_whole {
                self.archives.catalog.hold(digest, end);
            }
            Reply::FilePut(FileState { end, is_whole, limit, store: self.archives.store().cloned() })
        });
        self.tell(ticket, reply);
    }

    pub(super) fn get_file(&mut self, ticket: Ticket, get: ToolGet) -> Answer {
        let Some(total) = self.archives.catalog.size(&get.digest) else {
            let message = format!("the controller does not hold the file {}", get.digest);
            return Reply::Refused(Refusal::new(Code::NotAllowed, message)).into();
        };
        self.archives.reads.add(ticket, None, get, total);
        self.read_next();
        Answer::Later
    }

    /// Whether the store has the inputs of a submit.
    pub(super) fn check_files(&self, submit: &Submit) -> Result<(), Refusal> {
        let Some(files) = &submit.files else { return Ok(()) };
        let is_missing = |input: &&TaskInput| self.archives.catalog.size(&input.digest).is_none();
        let Some(TaskInput { name, digest, .. }) = files.inputs.iter().find(is_missing) else { return Ok(()) };
        let message = format!(
            "{}: the controller does not hold the file {digest} for the name {}; send it with FILE/PUT first",
            words::IN,
            in_quotes(name.as_str())
        );
        Err(Refusal::new(Code::BadField, message))
    }

    /// Puts the inputs of a sender that may not send commands where the tool expects them, or into a folder of their own.
    pub(super) fn confine_inputs(&self, submit: &mut Submit, warnings: &mut Vec<String>) -> Result<(), Refusal> {
        if submit.is_trusted {
            return Ok(());
        }
        let held = self.archives.catalog.present(&submit.tool).cloned();
        let expected = held.iter().filter_map(|held| held.manifest.as_ref()).flat_map(|manifest| &manifest.inputs);
        let expected: Vec<_> = expected.collect();
        if submit.confine_inputs(|name| expected.iter().any(|pattern| pattern.matches(name)))? {
            warnings.push(format!(
                "the inputs are in {IN_FOLDER}/ of the folder of the task, because this sender may not send commands \
                 (ALLOW_COMMANDS); a tool.toml names other places: inputs = [\"*.csv\"]"
            ));
        }
        Ok(())
    }

    /// Whether the version of the tool that the task will pin leaves room for its inputs. An agent checks the same for a version of
    /// its own.
    pub(super) fn check_input_names(&self, submit: &Submit) -> Result<(), Refusal> {
        let Some(files) = &submit.files else { return Ok(()) };
        let Some(held) = self.archives.catalog.present(&submit.tool) else { return Ok(()) };
        let Some(TaskInput { name, .. }) = files.inputs.iter().find(|input| held.paths.has(&input.name)) else {
            return Ok(());
        };
        let message = format!("{}: the name {}: {NAME_IS_TAKEN}", words::IN, in_quotes(name.as_str()));
        Err(Refusal::new(Code::BadField, message))
    }
}
