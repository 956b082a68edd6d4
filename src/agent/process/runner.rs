//! The system's side of an agent's one run: folder, process, remains. The engine decides, this obeys.

mod inherited;
mod preparing;
mod removal;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::command::{CommandStart, CommandStarter, NotStarted};
use super::failure::failure;
use super::preparation::{Preparation, Prepared, Preparer, STDERR, STDOUT};
use super::progress::{PROGRESS, ProgressFile};
use super::serving::Serving;
use super::sources::{Halt, SourceTools};
use super::{AgentError, ending, fetch, leftovers};
use crate::outputs::{KeepLimits, Lifetime, Outputs};
use crate::slot::{Effect, Exited, Hold, Signal, Slot, SpawnFailure};
use crate::workspace::{DirPool, OutKeeper, OutLimits, Remover, Workspace};
use api::client::transport;
use api::config::{AgentSection, Config};
use api::tools::ToolSnapshot;
use api::wire::requests::Sender;
use api::wire::requests::apply::Job;
use api::wire::{info, policy, source, step_files};
use base::{AgentId, ExitCode, Now, Session, ToolName};
use inherited::inherited;
use proc::process::{
    Brand, ChildEnd, ChildExit, Cookie, Environment, ProcessId, RecordFile, Rest, RunProcesses, RunRecord,
    RunningChild, SpawnError, SpawnPlan, TaskRun,
};
use proc::{clock, process};

/// The exit code of a run.sh that has withstood every signal: that of the last one.
const SIGKILL: i32 = -9;

/// The state that outlives a run, and the run itself.
pub(super) struct Runner {
    config: AgentSection,
    workspace: Arc<Workspace>,
    /// `None` where folders cannot be kept.
    dir_pool: Option<DirPool>,
    remover: Remover,
    record: RecordFile,
    preparer: Preparer,
    controller: String,
    ip: IpAddr,
    /// Environment of each run, before the variables of its task.
    environment: Environment,
    starter: CommandStarter,
    agent: ProcessId,
    /// The mark by which all processes of its runs are recognised, whatever they do to their environment.
    brand: Option<Brand>,
    /// No run may start later than this time since the boot.
    not_after: Option<Duration>,
    run: Option<Run>,
    processes: RunProcesses,
    /// The tool that the last run did not find.
    missed: Option<ToolName>,
    serving: Serving,
    progress: ProgressFile,
    outs: OutKeeper,
}

struct Run {
    job: Job,
    halt: Arc<Halt>,
    is_prepared: bool,
    folder: Option<Prepared>,
}

impl Runner {
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
        let dir_pool = DirPool::open(Arc::clone(&workspace), config.agent.spare_folders_max)
            .inspect_err(|error| log::warn!("{error}; each task gets a new folder"))
            .ok();
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
        };
        let preparer = Preparer::start(preparation)?;
        let agent = ProcessId::own().map_err(std::io::Error::from)?;
        let starter = CommandStarter::open()?;
        let mut record = records.of(agent, Some(session))?;
        if lifetime == Lifetime::Lasting {
            record.set_owner(name.as_str());
        }
        if config.agent.cgroup
            && let Err(error) = record.confine()
        {
            log::info!(
                "this agent has no cgroup of its own: {error}; if it is killed, its processes are found by their marks"
            );
        }
        let limits = KeepLimits {
            output_bytes_max: config.agent.output_keep_bytes,
            budget_bytes: config.agent.output_budget_bytes,
            age_max: config.controller.task_keep,
            disk_reserve: config.tools.disk_reserve,
        };
        let serving = Serving::of(Outputs::open(workspace.path(), name, lifetime, limits)?);
        let limits = OutLimits { bytes_max: config.agent.out_keep_bytes, age_max: config.controller.task_keep };
        let outs = OutKeeper::start(Arc::clone(&workspace), limits)?;
        let config = config.agent.clone();
        Ok(Self {
            config,
            workspace,
            dir_pool,
            remover,
            record,
            preparer,
            controller,
            ip,
            environment,
            starter,
            agent,
            brand,
            not_after: None,
            run: None,
            processes: RunProcesses::none(),
            missed: None,
            serving,
            progress: ProgressFile::default(),
            outs,
        })
    }

    /// Whether no run is in progress: the agent has no child then.
    pub(super) const fn is_idle(&self) -> bool {
        self.run.is_none()
    }

    /// Sets how long the lease of the run allows a start.
    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        self.not_after = hold.map(|hold| clock::from_boot(hold.until));
    }

    /// Readable when a preparation has finished.
    pub(super) const fn preparations(&self) -> &impl AsFd {
        &self.preparer
    }

    /// Carries out an effect on the run; the result goes back into the engine.
    pub(super) fn run(&mut self, now: Now, effect: Effect, slot: &mut Slot) {
        match effect {
            Effect::Prepare(job) => self.prepare(*job, slot),
            Effect::AbortPrepare | Effect::AbortKeep => {
                if let Some(run) = &self.run {
                    run.halt.set();
                    self.preparer.interrupt();
                }
            }
            Effect::Spawn => {
                // A short run may have ended before the spawn returns.
                let now = clock::now_with_suspend();
                let outcome = self.spawn();
                slot.handle_spawned(now, outcome);
            }
            Effect::ToolsFolder(folder) => self.preparer.note_controller_folder(&folder),
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
                self.remove();
                slot.handle_removed(clock::now_with_suspend());
            }
            Effect::Read(wanted) => {
                let run = self.run.as_ref().and_then(|run| Some((&run.job, &run.folder.as_ref()?.dir)));
                self.serving.read(wanted, run, slot);
            }
            Effect::LookAtProgress => {
                let told = self.run.as_ref().and_then(|run| self.progress.look(&run.folder.as_ref()?.dir));
                slot.handle_progress(now, told);
            }
            Effect::TrimOutputs => {
                let run = self.run.as_ref().and_then(|run| Some((&run.job, &run.folder.as_ref()?.dir)));
                let is_long = run.is_some_and(|(job, dir)| self.serving.trim(job, dir));
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
        let (end_signal, _) = self.run.as_ref().map(|run| policy::of_run(&run.job.fields)).unwrap_or_default();
        self.processes = RunProcesses::of(child).ending_with(end_signal);
        if let Some(run) = &self.run {
            let record = self.record_of(&run.job, Some(id));
            if let Err(error) = self.record.write(&record) {
                // The run can still be identified by its mark.
                log::error!("{error}");
            }
        }
        Ok(())
    }

    /// Starts run.sh, or the command in its place.
    fn start_child(&mut self) -> Result<RunningChild, NotStarted> {
        let failed = |error: &dyn std::fmt::Display| NotStarted::Failed(SpawnFailure::Failed(failure(error)));
        let Some(Run { job, folder: Some(Prepared { dir, streams, out, .. }), .. }) = &self.run else {
            return Err(failed(&"there is no work folder"));
        };
        let mut environment = self.environment.clone();
        for (name, value) in job.command.iter().flat_map(|command| &command.environment) {
            environment.set(name, value).map_err(|error| failed(&error))?;
        }
        // Later, because a program must not be mistaken about its task.
        for (name, value) in info::environment(job, &self.controller, self.ip) {
            environment.set(&*name, &*value).map_err(|error| failed(&error))?;
        }
        environment.set(info::PROGRESS_FILE, dir.path().join(PROGRESS)).map_err(|error| failed(&error))?;
        if let Some(out) = out {
            environment.set(step_files::OUT_PATH, out.path()).map_err(|error| failed(&error))?;
            environment.set(step_files::TASK_PATH, dir.path()).map_err(|error| failed(&error))?;
        }
        let stdout = dir.open_output(STDOUT).map_err(|error| failed(&error))?;
        let (_, is_merged) = policy::of_run(&job.fields);
        let stderr = dir.open_output(if is_merged { STDOUT } else { STDERR }).map_err(|error| failed(&error))?;
        let working_directory = dir.path().join(job.tool.folder_name());
        let started =
            job.source.as_ref().and_then(|from| Some(source::command(job.tool.as_str(), from.input.as_ref()?)));
        let command = job.command.as_deref().map(|command| (command, &*working_directory));
        if let Some((command, folder)) = command.or_else(|| Some((started.as_ref()?, dir.path()))) {
            let (environment, streams) = (&mut environment, streams.as_ref());
            let (brand, not_after) = (self.brand, self.not_after);
            let shared = CommandStart { folder, environment, streams, stdout, stderr, brand, not_after };
            return self.starter.start(command, shared);
        }
        // Programs believe PWD: ours would name the folder of the agent.
        environment.set("PWD", working_directory).map_err(|error| failed(&error))?;
        let folder = dir.tool_folder(&job.tool).map_err(|error| failed(&error))?;
        let plan = SpawnPlan {
            folder: folder.as_fd(),
            environment: &environment,
            stdin: self.starter.nothing.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            brand: self.brand,
            not_after: self.not_after,
        };
        process::spawn(&plan).map_err(|error| match error {
            SpawnError::Busy => NotStarted::Failed(SpawnFailure::Busy),
            error => failed(&error),
        })
    }

    fn record_of(&self, job: &Job, root: Option<ProcessId>) -> RunRecord {
        RunRecord {
            subject: TaskRun { task: job.task, round: job.round },
            root,
            agent: self.agent,
            cookie: Cookie::new(info::cookie(job.task, job.round)).branded(self.brand),
        }
    }

    fn signal(&self, now: Now, signal: Signal, slot: &mut Slot) {
        if self.processes.signal(signal).refused > 0
            && let Some(holders) = process::foreign_processes(&[])
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

    fn known(&mut self, exit: &ChildExit) -> Exited {
        let run = self.run.as_ref().and_then(|run| Some((&run.job, run.folder.as_ref()?)));
        let exited = ending::read(&self.config, exit, run);
        self.serving.note_end(&exited);
        self.progress.end();
        exited
    }

    /// Readable when [`Self::serve`] has something to do.
    pub(super) fn outputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.serving.fds().chain(self.progress.fd())
    }

    /// Sends the parts of outputs that have been read.
    pub(super) fn serve(&mut self, slot: &mut Slot) {
        self.serving.poll(slot);
        if self.progress.poll() {
            slot.handle_progress_change(clock::now_with_suspend());
        }
    }

    /// The agent ends.
    pub(super) fn close(self) {
        self.serving.close();
    }

    /// A child has ended: run.sh, or an orphan that it left behind.
    pub(super) fn reap(&mut self, now: Now, slot: &mut Slot) {
        // A fetch may have started rsync, and waits for it itself.
        if self.run.as_ref().is_some_and(|run| run.job.source.is_some() && !run.is_prepared) {
            return;
        }
        match self.processes.reap() {
            Some(ChildEnd::Root(exit)) => slot.handle_exited(now, self.known(&exit)),
            // Also without a run: processes of the last one may have been left.
            Some(ChildEnd::Rest(Rest { left, reaped })) => slot.handle_tree(now, left, reaped),
            None => {}
        }
    }

    /// Does work that can wait until nothing else is due.
    pub(super) fn tidy(&mut self) {
        if let Some(dir_pool) = &mut self.dir_pool {
            dir_pool.tidy(&self.remover);
        }
    }
}
