//! The system's side of the one run of an agent: its folder, its processes, their remains. The engine decides.

mod folders;
mod launcher;
mod preparing;
mod record_keeper;
mod staying;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::command::NotStarted;
use super::ending::Places;
use super::preparation::{Preparation, Prepared, Preparer};
use super::progress::ProgressFile;
use super::serving::Serving;
use super::sources::{Halt, SourceTools};
use super::stay::Stays;
use super::{AgentError, fetch, leftovers};
use crate::outputs::{KeepLimits, Lifetime, Outputs};
use crate::slot::{Effect, Hold, Signal, Slot, SpawnFailure};
use crate::workspace::{Remover, Workspace};
use api::config::{AgentSection, Config};
use api::tools::ToolSnapshot;
use api::transport;
use api::wire::policy;
use api::wire::requests::Sender;
use api::wire::requests::apply::Dispatch;
use base::{AgentId, ExitCode, Mono, Now, Session, ToolName};
use folders::Folders;
use launcher::{Launcher, inherited, not_started};
use proc::clock;
use proc::process::{Brand, ChildEnd, ChildExit, Rest, RunProcesses, RunningChild};
use record_keeper::RecordKeeper;
pub(super) use record_keeper::of_tools_that_stay;
use staying::Staying;

/// The exit code of a run.sh that has survived every signal: that of the last one.
const SIGKILL: i32 = -9;

/// The longest time that a tool gets which stays and is told to end.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The state that outlives a run, and the run itself.
pub(super) struct Runner {
    config: AgentSection,
    folders: Folders,
    record: RecordKeeper,
    preparer: Preparer,
    launcher: Launcher,
    run: Option<Run>,
    processes: RunProcesses,
    /// The tool that was missing for the last run.
    missed: Option<ToolName>,
    serving: Serving,
    progress: ProgressFile,
    stays: Stays,
    /// The ends of processes that a task has left behind in a tool that stays: they need not be children of the agent.
    ends: Vec<OwnedFd>,
    /// The tools of them that the engine knows.
    warm: BTreeSet<ToolName>,
}

struct Run {
    dispatch: Dispatch,
    halt: Arc<Halt>,
    is_prepared: bool,
    folder: Option<Prepared>,
    /// The part of a tool that stays.
    staying: Option<Staying>,
    /// Whether it stands in the record of the agent.
    has_record: bool,
}

impl Runner {
    /// Whether the work folder is found removed while no run needs it. True once.
    pub(super) fn has_no_folder(&mut self) -> bool {
        self.is_idle() && self.folders.are_removed()
    }

    /// Opens the folders, and ends the remains of dead agents of this host.
    ///
    /// # Errors
    /// When a folder cannot be used.
    pub(super) fn start(
        config: &Config,
        (name, lifetime): (&AgentId, Lifetime),
        session: Session,
        ip: IpAddr,
        tools_dir: PathBuf,
    ) -> Result<Self, AgentError> {
        let records = leftovers::records(config)?;
        let workspace = Arc::new(Workspace::open(&config.paths.work_dir)?);
        let remover = Remover::start(&workspace)?;
        leftovers::sweep(&config.agent, &records, &workspace, &remover)?;
        let environment = inherited(config)?;
        let brand = Brand::fresh();
        let sources = SourceTools::open(config, tools_dir.clone(), environment.clone(), brand)?;
        let sender = Sender::new(name.clone(), session);
        let (cache, fetcher) = fetch::tools(config, sender, tools_dir.clone())?;
        let controller = transport::tool_endpoint(config, ip)?;
        let folders = Folders::open(config, Arc::clone(&workspace), remover)?;
        let preparation = Preparation {
            workspace: Arc::clone(&workspace),
            cache,
            fetcher,
            sources: Arc::new(sources),
            tools_dir,
            is_controllers_folder: AtomicBool::new(false),
            no_tool: Arc::new(ToolSnapshot::empty(ToolName::command())),
            controller: controller.clone(),
            ip,
            out_files_bytes_max: config.tools.out_files_bytes_max,
            homes: OnceLock::new(),
        };
        let preparer = Preparer::start(preparation)?;
        let launcher = Launcher::open(environment, (controller, ip), brand)?;
        let owner = (lifetime == Lifetime::Lasting).then_some(name.as_str());
        let record = RecordKeeper::open(config, &records, (session, owner), brand)?;
        let limits = KeepLimits {
            output_bytes_max: config.agent.output_keep_bytes,
            budget_bytes: config.agent.output_budget_bytes,
            age_max: config.controller.task_keep,
            disk_reserve: config.tools.disk_reserve,
        };
        let serving = Serving::of(Outputs::open(workspace.path(), name, lifetime, limits)?);
        Ok(Self {
            config: config.agent.clone(),
            folders,
            record,
            preparer,
            launcher,
            run: None,
            processes: RunProcesses::none(),
            missed: None,
            serving,
            progress: ProgressFile::default(),
            stays: Stays::new(config.agent.stay_memory_max, config.agent.kill_interval.min(STOP_MAX)),
            ends: Vec::new(),
            warm: BTreeSet::new(),
        })
    }

    /// Whether no run is in progress and no tool stays, so that the agent has no child.
    pub(super) const fn is_idle(&self) -> bool {
        self.run.is_none() && self.stays.is_empty()
    }

    /// Sets how long the lease of the run allows a start.
    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        self.launcher.set_hold(hold);
    }

    /// Readable when a preparation has finished.
    pub(super) const fn preparations(&self) -> &impl AsFd {
        &self.preparer
    }

    /// Carries out an effect on the run; the result goes back into the engine.
    pub(super) fn run(&mut self, now: Now, effect: Effect, slot: &mut Slot) {
        match effect {
            Effect::Prepare(dispatch) => self.prepare(*dispatch, slot),
            Effect::AbortPrepare | Effect::AbortKeep => {
                if let Some(run) = &self.run {
                    run.halt.set();
                    self.preparer.interrupt();
                }
            }
            Effect::Spawn if self.run.as_ref().is_some_and(|run| run.staying.is_some()) => self.spawn_staying(slot),
            Effect::Spawn => {
                // A short run may have ended before the spawn returns.
                let now = clock::now_with_suspend();
                let outcome = self.spawn();
                slot.handle_spawned(now, outcome);
            }
            Effect::ToolsFolder(folder) => self.preparer.set_controller_folder(&folder),
            Effect::AbortStart => self.abort_start(slot),
            Effect::Cancel { ends_tool } => self.cancel(ends_tool),
            Effect::TellToFinish => self.tell_to_finish(),
            Effect::Signal(signal) => self.signal(now, signal, slot),
            Effect::Unended => {
                let known = self.known(&ChildExit::unused(ExitCode(SIGKILL)));
                slot.handle_unended(now, known);
            }
            Effect::CheckTree => {
                let Rest { left, reaped } = self.processes.look();
                slot.handle_tree(now, left, reaped);
            }
            Effect::ReadAgain(exit) => slot.handle_read_again(self.known(&ChildExit::unused(exit))),
            Effect::Keep => self.keep(slot),
            Effect::Remove => {
                self.remove(slot);
                slot.handle_removed(clock::now_with_suspend());
            }
            Effect::Read(wanted) => {
                let places = self.run.as_ref().and_then(|run| run.places(&self.stays));
                self.serving.read(wanted, places.map(|places| (places.dispatch, places.outputs)), slot);
            }
            Effect::LookAtProgress => {
                let places = self.run.as_ref().and_then(|run| run.places(&self.stays));
                let told = places.and_then(|places| self.progress.look(places.outputs));
                slot.handle_progress(now, told);
            }
            Effect::TrimOutputs => {
                let places = self.run.as_ref().and_then(|run| run.places(&self.stays));
                let is_long = places.is_some_and(|places| self.serving.trim(places.dispatch, places.outputs));
                slot.handle_trimmed(now, is_long);
            }
            Effect::Send(_)
            | Effect::Reconnect
            | Effect::Ready
            | Effect::Remember(_)
            | Effect::Lease(_)
            | Effect::Exit(_) => {
                unreachable!("{effect:?} does not concern the run")
            }
        }
    }

    /// The tool that a run has not found since the last call.
    pub(super) const fn take_missed(&mut self) -> Option<ToolName> {
        self.missed.take()
    }

    fn spawn(&mut self) -> Result<(), SpawnFailure> {
        let child = self.start_child().map_err(|why| match why {
            NotStarted::Failed(failure) => failure,
            NotStarted::Ended(exit) => SpawnFailure::Exited(Box::new(self.known(&ChildExit::unused(exit)))),
        })?;
        let id = child.id();
        let (end_signal, _) = self.run.as_ref().map(|run| policy::of_run(&run.dispatch.fields)).unwrap_or_default();
        self.processes.start(child, end_signal);
        if let Some(run) = &self.run
            && let Err(error) = self.record.write(&run.dispatch, Some(id))
        {
            // The run can still be identified by its mark.
            log::error!("{error}");
        }
        Ok(())
    }

    fn start_child(&mut self) -> Result<RunningChild, NotStarted> {
        match &self.run {
            Some(Run { dispatch, folder: Some(folder), .. }) => self.launcher.start(dispatch, folder),
            _ => Err(not_started(&"there is no work folder")),
        }
    }

    fn signal(&mut self, now: Now, signal: Signal, slot: &mut Slot) {
        self.include_tool(signal);
        self.watch_left();
        if self.processes.signal(signal).refused > 0
            && let Some(holders) = self.processes.foreign()
        {
            slot.handle_refused(now, &holders);
        }
    }

    fn tell_to_finish(&self) {
        let Some(Run { folder: Some(Prepared { dir, .. }), .. }) = &self.run else { return };
        if let Err(error) = dir.tell_to_finish() {
            // The run gets a signal, too.
            log::warn!("{error}");
        }
    }

    /// Readable when [`Self::serve`] has something to do.
    pub(super) fn outputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let ends = self.ends.iter().map(AsFd::as_fd);
        self.serving.fds().chain(self.progress.fd()).chain(self.stays.fds()).chain(ends)
    }

    /// Sends the parts of outputs that have been read.
    pub(super) fn serve(&mut self, slot: &mut Slot) {
        self.serving.poll(slot);
        if self.progress.poll() {
            slot.handle_progress_change(clock::now_with_suspend());
        }
        self.look_at_ends(slot);
        self.poll_stays(slot);
    }

    /// When something is due for tools that stay.
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.stays.deadline()
    }

    /// Whether there is a controller: tools do not stay long without one.
    pub(super) fn set_contact(&mut self, is_there: bool) {
        self.stays.set_contact(is_there);
    }

    /// The agent ends.
    pub(super) fn close(mut self) {
        self.close_stays();
        self.serving.close();
    }

    /// A child has ended: run.sh, or an orphan that it left behind.
    pub(super) fn reap(&mut self, now: Now, slot: &mut Slot) {
        self.reap_stays(slot);
        self.tell_warm(slot);
        // A fetch may have started rsync, and waits for it itself.
        if self.run.as_ref().is_some_and(|run| run.dispatch.source.is_some() && !run.is_prepared) {
            return;
        }
        if self.run.as_ref().is_some_and(|run| run.staying.as_ref().is_some_and(|staying| !staying.has_ended())) {
            // Processes that the task leaves behind are looked for at its end.
            self.processes.reap_orphans();
            return;
        }
        match self.processes.reap() {
            Some(ChildEnd::Root(exit)) => slot.handle_exited(now, self.known(&exit)),
            // Also without a run: processes of the last one may have been left.
            Some(ChildEnd::Rest(Rest { left, reaped })) => slot.handle_tree(now, left, reaped),
            None => {}
        }
    }

    /// Keeps the outputs of the run, and keeps or removes its folders.
    fn remove(&mut self, slot: &mut Slot) {
        let Some(mut run) = self.run.take() else { return };
        // A run.sh that could not be ended may still be running: from here on it counts as a process that the run has left.
        self.processes.end();
        self.ends.clear();
        self.serving.end_run();
        self.release_tool(&mut run, slot);
        if let Some(mut folder) = run.folder {
            self.serving.keep(&run.dispatch, &mut folder.dir);
            self.folders.end(folder);
        }
        if self.stays.is_empty() {
            self.record.clear();
        } else if run.has_record
            && let Err(error) = self.record.write_staying(None)
        {
            log::error!("{error}");
        }
    }

    /// Does work that can wait until nothing else is due.
    pub(super) fn tidy(&mut self) {
        self.folders.tidy();
    }
}

impl Run {
    /// Where it has left something; `None` before there is a folder for its outputs.
    fn places<'a>(&'a self, stays: &'a Stays) -> Option<Places<'a>> {
        let folder = self.folder.as_ref();
        let (outputs, report) = match &self.staying {
            Some(staying) => (stays.home()?, Some(staying.report())),
            None => (&folder?.dir, None),
        };
        Some(Places { dispatch: &self.dispatch, folder, outputs, report })
    }
}
