//! The preparation of a run: its folder, the files that the document promises, and the tool.
//!
//! A run of a small tool gets the restored folder of an earlier run, if there is a spare one. Otherwise a known and small
//! tool is placed on the loop itself, because a thread would cost more than the copy. A thread does everything else, and
//! the first unpacking of a tool in any case, so that a kill is obeyed meanwhile. A program that the agent fetches is a tool
//! as soon as it is there ([`super::sources`]). The same thread keeps the files of a run that has ended ([`super::keep`]).

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::failure::{not_here, unprepared};
use super::fetch::{Fetcher, Subject};
use super::inputs;
use super::keep::{self, Before};
use super::needs::{Needs, needs_folder, stay_terms};
use super::sources::{self, Halt, SourceTools};
use super::stay::{Cold, Identity};
use crate::slot::Failure;
use crate::workspace::{DirPool, Homes, OutFolder, Remover, TaskDir, TrashRemainder, Workspace, WorkspaceError};
use api::archives_dir::folder_identity;
use api::tools::{ToolCache, ToolError, ToolSnapshot, ToolVersion};
use api::wire::info;
use api::wire::requests::apply::Dispatch;
use api::wire::requests::heartbeat::OwnVersions;
use base::{ExitCode, KeptFiles, Stay, TaskCommand, TaskId};
use proc::background::Background;
use proc::stdio;
use proc::stdio::{Streams, TakeError};

/// Limits for copying on the loop: less than a millisecond's worth.
const INLINE_ENTRIES_MAX: u64 = 32;
const INLINE_BYTES_MAX: u64 = 1 << 20;

/// How often a version is fetched for one run that disappears again before it can be unpacked.
const FETCHES_MAX: usize = 3;

const TASK_INFO: &str = "task.info";
const TASK_JSON: &str = "task.json";

/// Files for the output of run.sh.
pub(super) const STDOUT: &str = "stdout";
pub(super) const STDERR: &str = "stderr";

/// A folder that is ready for run.sh, and the remains of older ones of the same names, which must still be removed.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) dir: TaskDir,
    pub(super) rest: Vec<TrashRemainder>,
    /// The folder for the outputs of a task of a step.
    pub(super) out: Option<OutFolder>,
    /// The streams that its client has given to a command.
    pub(super) streams: Option<Streams>,
    /// The files of the tool that are kept only if the run changes them.
    pub(super) before: Arc<Before>,
}

impl Prepared {
    fn new(dir: TaskDir, rest: Option<TrashRemainder>) -> Self {
        Self { dir, rest: rest.into_iter().collect(), out: None, streams: None, before: Arc::default() }
    }
}

/// The data that every preparation of this agent needs.
pub(super) struct Preparation {
    pub(super) workspace: Arc<Workspace>,
    pub(super) cache: ToolCache,
    pub(super) sources: Arc<SourceTools>,
    pub(super) fetcher: Fetcher,
    pub(super) tools_dir: PathBuf,
    /// Whether that folder is also the one from which the controller takes tools.
    pub(super) is_controllers_folder: AtomicBool,
    /// The content of the folder of a command.
    pub(super) no_tool: Arc<ToolSnapshot>,
    pub(super) controller: String,
    pub(super) ip: IpAddr,
    /// Bytes of the files of one run that are kept.
    pub(super) out_files_bytes_max: u64,
    pub(super) homes: OnceLock<Homes>,
}

impl Preparation {
    fn is_quick(&self, dispatch: &Dispatch, needs: Needs) -> bool {
        if has_large_inputs(dispatch) || dispatch.files.is_some() {
            return false;
        }
        if needs == Needs::Folder {
            return true;
        }
        let size = match self.fetched(dispatch) {
            None => self.version(dispatch, INLINE_BYTES_MAX).ok().and_then(|version| self.cache.is_warm(version)),
            Some(tools) => tools.and_then(|tools| tools.is_warm(&dispatch.tool)),
        };
        size.is_some_and(|size| size.entries <= INLINE_ENTRIES_MAX && size.bytes <= INLINE_BYTES_MAX)
    }

    /// The folder of an earlier run of this tool for the new run; `None` if there is none.
    fn reuse(&self, dispatch: &Dispatch, dir_pool: &mut DirPool, remover: &Remover) -> Option<Outcome> {
        let tool = self.snapshot(dispatch)?;
        let (dir, rest) = dir_pool.take((&tool, dispatch.step.is_some()), dispatch.task, remover)?;
        let mut prepared = Prepared::new(dir, rest);
        let outcome = self
            .write_files(dispatch, &mut prepared.dir)
            .and_then(|()| self.make_step(dispatch, &mut prepared, Some(dir_pool)));
        let outcome = outcome.map_err(|error| unprepared(&error));
        Some(Outcome { task: dispatch.task, prepared: Some(prepared), cold: None, outcome })
    }

    /// The content of the folder in which a run starts, if that folder can be reused.
    fn snapshot(&self, dispatch: &Dispatch) -> Option<Arc<ToolSnapshot>> {
        if dispatch.command.is_some() {
            return Some(Arc::clone(&self.no_tool));
        }
        match self.fetched(dispatch) {
            None => self.cache.snapshot(self.version(dispatch, INLINE_BYTES_MAX).ok()?),
            Some(tools) => tools?.snapshot(&dispatch.tool),
        }
    }

    /// For a task whose program the agent fetches: the cache that has it, unless its source has to be asked first. `None` for one
    /// with a tool.
    fn fetched(&self, dispatch: &Dispatch) -> Option<Option<Arc<ToolCache>>> {
        let source = dispatch.source.as_ref().filter(|source| !self.sources.is_installed(source))?;
        Some(self.sources.known(source))
    }

    /// The archive for a run. The version that its task has pinned counts, with one exception: an archive in a tools folder of
    /// the agent's own, which is not the controller's, goes first, because its operator has put it there for this machine.
    /// `bytes_max` is the size of the largest archive that is read for this.
    fn version(&self, dispatch: &Dispatch, bytes_max: u64) -> Result<ToolVersion, ToolError> {
        let own = ToolVersion::from(&dispatch.tool);
        let Some(pin) = dispatch.pin else { return Ok(own) };
        let is_own = match self.cache.own_digest(&dispatch.tool, bytes_max)? {
            None => false,
            Some(digest) if digest == pin => {
                self.fetcher.own.note_agreement(&dispatch.tool);
                true
            }
            Some(digest) => {
                let goes_first = !self.is_controllers_folder.load(Ordering::Relaxed);
                if goes_first {
                    self.fetcher.own.note_difference(&dispatch.tool, digest, pin);
                }
                goes_first
            }
        };
        Ok(if is_own { own } else { ToolVersion { fetched: Some(pin), ..own } })
    }

    /// Places the tool of a run, after fetching it if necessary.
    fn place_tool(&self, dispatch: &Dispatch, into: &Path, stop: &AtomicBool) -> Result<(), ToolError> {
        let mut tries = 0;
        loop {
            let version = self.version(dispatch, u64::MAX)?;
            if let Some(digest) = &version.fetched {
                self.fetcher.fetch(&Subject::Tool(&version.tool), digest, stop)?;
            }
            match self.cache.place(&version, into, stop) {
                // The archive was removed to make room for another one, or was damaged.
                Err(ToolError::Missing { .. }) if version.fetched.is_some() && tries < FETCHES_MAX => tries += 1,
                placed => return placed.map(drop),
            }
        }
    }

    /// A failure is returned together with everything that has been made, which must be removed.
    fn prepare(&self, dispatch: &Dispatch, needs: Needs, halt: &Arc<Halt>, dir_pool: Option<&mut DirPool>) -> Outcome {
        let (dir, rest) = match self.workspace.create(dispatch.task) {
            Ok(created) => created,
            Err(error) => return Outcome::failed(dispatch, None, unprepared(&error)),
        };
        let mut prepared = Prepared::new(dir, rest);
        // Before the copy, because the archive may change meanwhile.
        let identity = if needs == Needs::Tool { self.identity(dispatch, u64::MAX) } else { None };
        let begun = self.begin(dispatch, needs, &mut prepared.dir, halt);
        if needs == Needs::Tool
            && begun.is_ok()
            && let Some(terms) = stay_terms(dispatch, &prepared.dir)
            && let Some(identity) = identity.or_else(|| self.identity(dispatch, u64::MAX))
        {
            return self.settle_in(dispatch, prepared, (identity, terms), halt);
        }
        let filled = begun.and_then(|()| self.fill(dispatch, needs, &mut prepared, halt));
        let made =
            filled.and_then(|()| self.make_step(dispatch, &mut prepared, dir_pool).map_err(|error| unprepared(&error)));
        let outcome = made.and_then(|()| streams(dispatch)).map(|streams| prepared.streams = streams);
        Outcome { task: dispatch.task, prepared: Some(prepared), cold: None, outcome }
    }

    /// The folder of a task becomes the home of its tool, which stays. The task gets another one if it needs one.
    fn settle_in(
        &self,
        dispatch: &Dispatch,
        Prepared { dir, rest, .. }: Prepared,
        (identity, terms): (Identity, Stay),
        halt: &Arc<Halt>,
    ) -> Outcome {
        let homes = self.homes();
        let adopted = match homes {
            Ok(homes) => homes.adopt(dir, &[TASK_INFO, TASK_JSON]),
            Err(error) => Err(Box::new((dir, error))),
        };
        let home = match adopted {
            Ok(home) => home,
            Err(failed) => {
                let (dir, error) = *failed;
                let prepared = Prepared { rest, ..Prepared::new(dir, None) };
                return Outcome::failed(dispatch, Some(prepared), unprepared(&error));
            }
        };
        let mut outcome = match needs_folder(dispatch, &terms) {
            true => self.prepare(dispatch, Needs::Folder, halt, None),
            false => Outcome { task: dispatch.task, prepared: None, cold: None, outcome: Ok(()) },
        };
        outcome.cold = Some(Cold { identity, terms, home, rest });
        outcome
    }

    /// The homes of tools that stay, made when the first one is needed.
    fn homes(&self) -> Result<&Homes, WorkspaceError> {
        if let Some(homes) = self.homes.get() {
            return Ok(homes);
        }
        let homes = Homes::open(Arc::clone(&self.workspace))?;
        Ok(self.homes.get_or_init(|| homes))
    }

    /// What a tool is recognised by that may stay; `None` for a command, a fetched program, and an archive of more than `bytes_max` bytes
    /// that would have to be read.
    fn identity(&self, dispatch: &Dispatch, bytes_max: u64) -> Option<Identity> {
        if dispatch.command.is_some() || dispatch.source.is_some() {
            return None;
        }
        let version = self.version(dispatch, bytes_max).ok()?;
        let stamp = self.cache.stamp(&version)?;
        Some(Identity { version, stamp })
    }

    /// The files of llts, and the tool or an empty folder in its place.
    fn begin(&self, dispatch: &Dispatch, needs: Needs, dir: &mut TaskDir, halt: &Arc<Halt>) -> Result<(), Failure> {
        self.write_files(dispatch, dir).map_err(|error| unprepared(&error))?;
        match needs {
            Needs::Folder => dir.make_folder(&dispatch.tool).map_err(|error| unprepared(&error)),
            Needs::Tool => self.place(dispatch, dir, halt),
        }
    }

    fn fill(
        &self,
        dispatch: &Dispatch,
        needs: Needs,
        prepared: &mut Prepared,
        halt: &Arc<Halt>,
    ) -> Result<(), Failure> {
        let dir = &mut prepared.dir;
        if dispatch.step.is_some() {
            dir.make_step_folders().map_err(|error| unprepared(&error))?;
        }
        if let Some(files) = &dispatch.files {
            if needs == Needs::Tool && !files.outputs.is_empty() {
                let folder = dir.tool_folder(&dispatch.tool).map_err(|error| unprepared(&error))?;
                let before = Before::read(&folder, files);
                prepared.before = Arc::new(before.map_err(|error| unprepared(&error))?);
            }
            // The folder of a task with files is not kept for another task.
            return inputs::place(&self.fetcher, (dispatch, files), dir, halt.flag());
        }
        if (needs == Needs::Tool || dispatch.command.is_some())
            && let Some(tool) = self.snapshot(dispatch)
        {
            dir.keep_for(&tool, dispatch.step.is_some());
        }
        Ok(())
    }

    fn place(&self, dispatch: &Dispatch, dir: &TaskDir, halt: &Arc<Halt>) -> Result<(), Failure> {
        let failed = |error: ToolError| match unprepared(&error) {
            failure @ Failure { exit_code: ExitCode::DISK_FULL, .. } => failure,
            failure => Failure { exit_code: error.exit_code(), ..failure },
        };
        let (Some(fetched), Some(source)) = (self.fetched(dispatch), &dispatch.source) else {
            return self.place_tool(dispatch, dir.path(), halt.flag()).map_err(failed);
        };
        let (tools, _held) = match fetched.filter(|tools| tools.is_warm(&dispatch.tool).is_some()) {
            Some(tools) => (tools, None),
            None => self.sources.fetch(source, halt).map(|(tools, held)| (tools, Some(held)))?,
        };
        let placed = tools.place(&dispatch.tool, dir.path(), halt.flag()).map(drop).map_err(failed);
        placed.map_err(|failure| Failure { exit_code: sources::exit_code(failure.exit_code), ..failure })
    }

    fn keep(&self, dispatch: &Dispatch, (folder, before): (&OwnedFd, &Before), halt: &Halt) -> KeptFiles {
        let Some(files) = &dispatch.files else { return KeptFiles::default() };
        keep::keep(&self.fetcher, (dispatch, files, before), folder, self.out_files_bytes_max, halt.flag())
    }

    /// Makes what only this task of a step has. It comes last: a folder that is kept for the next task does not contain it.
    fn make_step(
        &self,
        dispatch: &Dispatch,
        prepared: &mut Prepared,
        dir_pool: Option<&mut DirPool>,
    ) -> Result<(), WorkspaceError> {
        let Some(step) = &dispatch.step else { return Ok(()) };
        let (out, rest) = match dir_pool {
            Some(dir_pool) => dir_pool.make_out(step.graph, dispatch.task)?,
            None => self.workspace.make_out(step.graph, dispatch.task)?,
        };
        prepared.rest.extend(rest);
        let made = prepared.dir.make_step(step, &out);
        prepared.out = Some(out);
        made
    }

    fn write_files(&self, dispatch: &Dispatch, dir: &mut TaskDir) -> Result<(), WorkspaceError> {
        dir.write_file(TASK_INFO, info::task_info(dispatch).as_encoded_bytes())?;
        dir.write_file(TASK_JSON, &info::task_json(dispatch))?;
        dir.write_file("controller.info", info::controller_info(&self.controller, self.ip).as_bytes())?;
        dir.create_output(STDOUT)?;
        dir.create_output(STDERR)
    }
}

/// Whether a task has more inputs than the loop writes in less than a millisecond.
fn has_large_inputs(dispatch: &Dispatch) -> bool {
    let bytes = |locations: &Arc<[Arc<str>]>| locations.iter().map(|text| text.len() as u64 + 1).sum::<u64>();
    dispatch.step.as_ref().is_some_and(|step| step.inputs.values().map(bytes).sum::<u64>() > INLINE_BYTES_MAX)
}

/// The streams that a command gets from its client.
fn streams(dispatch: &Dispatch) -> Result<Option<Streams>, Failure> {
    let Some(name) = awaited_streams(dispatch) else { return Ok(None) };
    let refused = |error| {
        let sentence = format!("cannot take the standard streams of the command: {error}");
        match error {
            TakeError::NoGiver => not_here(&sentence),
            TakeError::Refused | TakeError::System(_) => {
                Failure { exit_code: TaskCommand::NOT_STARTED, error: sentence }
            }
        }
    };
    stdio::take(name).map(Some).map_err(refused)
}

fn awaited_streams(dispatch: &Dispatch) -> Option<&str> {
    dispatch.command.as_ref()?.streams.as_deref()
}

/// Work for the thread. An agent has one run, which is never prepared and kept at once.
enum Work {
    Prepare(Dispatch, Needs, Arc<Halt>),
    Keep(Dispatch, (OwnedFd, Arc<Before>), Arc<Halt>),
}

/// The result of the thread.
pub(super) enum Done {
    Prepared(Box<Outcome>),
    Kept(TaskId, KeptFiles),
}

/// The result of a preparation.
pub(super) struct Outcome {
    pub(super) task: TaskId,
    pub(super) prepared: Option<Prepared>,
    /// The tool of the run, which stays and is not running.
    pub(super) cold: Option<Cold>,
    pub(super) outcome: Result<(), Failure>,
}

impl Outcome {
    pub(super) const fn failed(dispatch: &Dispatch, prepared: Option<Prepared>, failure: Failure) -> Self {
        Self { task: dispatch.task, prepared, cold: None, outcome: Err(failure) }
    }
}

/// Prepares runs: quick ones at once, others on a thread of its own.
pub(super) struct Preparer {
    preparation: Arc<Preparation>,
    thread: Background<Work, Done>,
}

impl Preparer {
    /// # Errors
    /// When the thread or its descriptor cannot be made.
    pub(super) fn start(preparation: Preparation) -> std::io::Result<Self> {
        let preparation = Arc::new(preparation);
        let its_preparation = Arc::clone(&preparation);
        let thread = Background::start("prepare", move |work, done| {
            done(match work {
                Work::Prepare(dispatch, needs, halt) => {
                    Done::Prepared(Box::new(its_preparation.prepare(&dispatch, needs, &halt, None)))
                }
                Work::Keep(dispatch, (folder, before), halt) => {
                    Done::Kept(dispatch.task, its_preparation.keep(&dispatch, (&folder, &before), &halt))
                }
            });
        })?;
        Ok(Self { preparation, thread })
    }

    /// Prepares a run: at once if that is quick; otherwise `None`, and the outcome comes later.
    pub(super) fn begin(
        &self,
        dispatch: &Dispatch,
        needs: Needs,
        halt: &Arc<Halt>,
        dir_pool: Option<(&mut DirPool, &Remover)>,
    ) -> Option<Outcome> {
        // The client may be stopped, and must not stop the loop.
        let is_waiting = awaited_streams(dispatch).is_some();
        let mut dir_pool = dir_pool.filter(|_| !is_waiting && !has_large_inputs(dispatch) && dispatch.files.is_none());
        let has_spares = needs == Needs::Tool || dispatch.command.is_some();
        if let Some((dir_pool, remover)) = dir_pool.as_mut().filter(|_| has_spares)
            && let Some(outcome) = self.preparation.reuse(dispatch, dir_pool, remover)
        {
            return Some(outcome);
        }
        if !is_waiting && self.preparation.is_quick(dispatch, needs) {
            return Some(self.preparation.prepare(dispatch, needs, halt, dir_pool.map(|(dir_pool, _)| dir_pool)));
        }
        self.thread.give(Work::Prepare(dispatch.clone(), needs, Arc::clone(halt)));
        None
    }

    /// What the tool of a task is recognised by, if that is known at once and it may stay.
    pub(super) fn identity(&self, dispatch: &Dispatch) -> Option<Identity> {
        self.preparation.identity(dispatch, INLINE_BYTES_MAX)
    }

    /// Removes the home of a tool that has ended.
    pub(super) fn remove_home(&self, home: TaskDir, remover: &Remover) {
        if let Some(homes) = self.preparation.homes.get() {
            homes.remove(home, remover);
        }
    }

    /// The agent ends.
    pub(super) fn close(&self) {
        if let Some(homes) = self.preparation.homes.get() {
            homes.close();
        }
    }

    /// Keeps the files of a run whose processes have ended, which started in this folder. The outcome comes later.
    pub(super) fn keep(&self, dispatch: &Dispatch, folder: (OwnedFd, Arc<Before>), halt: &Arc<Halt>) {
        self.thread.give(Work::Keep(dispatch.clone(), folder, Arc::clone(halt)));
    }

    /// The versions of this machine that have replaced versions of the controller, if they have changed since the last call.
    pub(super) fn take_own_versions(&self) -> Option<OwnVersions> {
        self.preparation.fetcher.own.take_new()
    }

    /// Wakes work that waits, after its stop was set.
    pub(super) fn interrupt(&self) {
        self.preparation.fetcher.interrupt();
    }

    /// Sets the identity of the tools folder from which the controller takes tools.
    pub(super) fn set_controller_folder(&self, folder: &Arc<str>) {
        let is_same = folder_identity(&self.preparation.tools_dir).as_ref() == Some(folder);
        self.preparation.is_controllers_folder.store(is_same, Ordering::Relaxed);
    }

    /// The result of the thread.
    pub(super) fn poll_done(&self) -> Option<Done> {
        self.thread.poll()
    }
}

impl AsFd for Preparer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.as_fd()
    }
}
