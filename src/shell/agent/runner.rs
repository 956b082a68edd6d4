//! The one run of an agent as the system sees it: folder, process, what it leaves behind. The engine decides, this obeys.

use std::ffi::OsStr;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::AgentError;
use super::leftovers;
use super::preparation::{Outcome, Preparation, Prepared, Preparer, STDERR, STDOUT, failure};
use crate::config::{AgentSection, Config, CurveClientFiles};
use crate::engine::slot::{Effect, Exited, Hold, Signal, Slot, SpawnFailure};
use crate::protocol::agent::Job;
use crate::protocol::info;
use crate::shell::clock;
use crate::shell::process::{
    self, Brand, ChildExit, Cookie, Environment, Pid, ProcessId, RecordFile, RunRecord, RunningChild, SpawnError,
    SpawnPlan, Tree,
};
use crate::shell::tools::{Limits, ToolCache};
use crate::shell::transport;
use crate::shell::workspace::{Removed, Remover, Spares, TailLimit, TaskDir, Workspace};
use crate::types::{Defer, ExitCode, Now, OutputBytes, Session, ToolName};

/// Entries of a work folder that are removed on the loop; what is beyond them is removed by a thread.
const INLINE_REMOVALS: u32 = 256;

const REPORT_LOG: &str = "report.log";
const DEFER_INFO: &str = "defer.info";

/// Everything that outlives a run, and the run itself.
pub(super) struct Runner {
    config: AgentSection,
    workspace: Arc<Workspace>,
    /// `None` where none can be kept.
    spares: Option<Spares>,
    remover: Remover,
    record: RecordFile,
    preparer: Preparer,
    controller: String,
    ip: IpAddr,
    /// What each run gets, before what its task adds.
    environment: Environment,
    /// `/dev/null`: what each run reads from its standard input.
    nothing: File,
    agent: ProcessId,
    session: Session,
    /// What all processes of its runs are known by, whatever they do to their environment.
    brand: Option<Brand>,
    /// After this time since the boot, no run may start.
    not_after: Option<Duration>,
    run: Option<Run>,
    /// The tool that the last run has not found.
    missed: Option<ToolName>,
}

struct Run {
    job: Job,
    stop: Arc<AtomicBool>,
    folder: Option<Prepared>,
    started: Option<Started>,
}

/// A run.sh that was started.
struct Started {
    /// `None` once it has been reaped.
    child: Option<RunningChild>,
    tree: Tree,
}

impl Runner {
    /// Opens the folders, and ends what dead agents of this host have left.
    ///
    /// # Errors
    /// When a folder cannot be used.
    pub(super) fn start(config: &Config, session: Session, ip: IpAddr, tools_dir: PathBuf) -> Result<Self, AgentError> {
        let records = leftovers::records(config)?;
        let workspace = Arc::new(Workspace::open(&config.paths.work_dir)?);
        let remover = Remover::start(&workspace)?;
        leftovers::sweep(&records, &workspace, &remover)?;
        let cache = ToolCache::new(
            config.paths.state_dir.join("tools"),
            tools_dir,
            Limits::from(&config.archive),
            config.agent.tool_cache_bytes_max,
        )?;
        let controller = transport::tool_endpoint(config, ip)?;
        let spares = Spares::open(Arc::clone(&workspace))
            .inspect_err(|error| log::warn!("{error}; each task gets a folder that is made for it"))
            .ok();
        let preparation = Preparation { workspace: Arc::clone(&workspace), cache, controller: controller.clone(), ip };
        let preparer = Preparer::start(preparation)?;
        let agent = ProcessId::own().map_err(std::io::Error::from)?;
        let environment = inherited(config)?;
        let nothing = File::open("/dev/null")?;
        let mut record = records.of(agent, session)?;
        if config.agent.cgroup
            && let Err(error) = record.confine()
        {
            log::info!(
                "this agent has no cgroup of its own: {error}; what it leaves if it is killed is found by its marks"
            );
        }
        let config = config.agent.clone();
        Ok(Self {
            config,
            workspace,
            spares,
            remover,
            record,
            preparer,
            controller,
            ip,
            environment,
            nothing,
            agent,
            session,
            brand: Brand::fresh(),
            not_after: None,
            run: None,
            missed: None,
        })
    }

    /// Whether no run is on: the agent has no child then.
    pub(super) const fn is_idle(&self) -> bool {
        self.run.is_none()
    }

    /// Notes until when the lease of the run lets it start.
    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        self.not_after = hold.map(|hold| clock::from_boot(hold.until));
    }

    /// Readable when a preparation has come out.
    pub(super) const fn preparations(&self) -> &impl AsFd {
        &self.preparer
    }

    /// Does what concerns the run; what comes of it goes back into the engine.
    pub(super) fn run(&mut self, now: Now, effect: Effect, slot: &mut Slot) {
        match effect {
            Effect::Prepare(job) => self.prepare(*job, slot),
            Effect::AbortPrepare => {
                if let Some(run) = &self.run {
                    run.stop.store(true, Ordering::Relaxed);
                }
            }
            Effect::Spawn => {
                let outcome = self.spawn();
                slot.handle_spawned(clock::now_with_suspend(), outcome);
            }
            Effect::Signal(signal) => self.signal(now, signal, slot),
            Effect::CheckTree => {
                let (left, reaped) = look_at_tree();
                slot.handle_tree(now, left, reaped);
            }
            Effect::Remove => {
                self.remove();
                slot.handle_removed(clock::now_with_suspend());
            }
            Effect::Send(_) | Effect::Reconnect | Effect::Ready | Effect::Lease(_) | Effect::Exit(_) => {
                unreachable!("{effect:?} does not concern the run")
            }
        }
    }

    fn prepare(&mut self, job: Job, slot: &mut Slot) {
        let stop = Arc::new(AtomicBool::new(false));
        // Before the folder is made, so that there is no instant at which an agent could die and leave one that nobody knows,
        // or at which another one could take it for that of a dead agent.
        let record = self.record_of(&job, None);
        let recorded = self.record.write(&record);
        let outcome = match recorded {
            Ok(()) => self.preparer.begin(&job, &stop, self.spares.as_mut().map(|spares| (spares, &self.remover))),
            Err(error) => Some(Outcome { task: job.task, prepared: None, outcome: Err(failure(&error)) }),
        };
        self.run = Some(Run { job, stop, folder: None, started: None });
        if let Some(outcome) = outcome {
            self.take(outcome, slot);
        }
    }

    /// Takes what the preparing thread has come to.
    pub(super) fn prepared(&mut self, slot: &mut Slot) {
        while let Some(outcome) = self.preparer.poll_outcome() {
            self.take(outcome, slot);
        }
    }

    fn take(&mut self, outcome: Outcome, slot: &mut Slot) {
        let Some(run) = self.run.as_mut().filter(|run| run.job.task == outcome.task) else {
            unreachable!("a preparation of task {} without its run", outcome.task)
        };
        run.folder = outcome.prepared;
        if outcome.outcome.as_ref().is_err_and(|failure| failure.exit_code == ExitCode::TOOL_MISSING) {
            self.missed = Some(run.job.tool.clone());
        }
        slot.handle_prepared(clock::now_with_suspend(), outcome.outcome);
    }

    /// The tool that a run has not found since the last call.
    pub(super) const fn take_missed(&mut self) -> Option<ToolName> {
        self.missed.take()
    }

    fn spawn(&mut self) -> Result<(), SpawnFailure> {
        let failed = |error: &dyn std::fmt::Display| SpawnFailure::Failed(failure(error));
        let Some(Run { job, folder: Some(Prepared { dir, .. }), started, .. }) = &mut self.run else {
            return Err(failed(&"there is no work folder"));
        };
        let mut environment = self.environment.clone();
        for (name, value) in info::environment(job, &self.controller, self.ip) {
            environment.set(name, value).map_err(|error| failed(&error))?;
        }
        // Programs believe it: ours would name the folder of the agent.
        let working_directory = dir.path().join(job.tool.as_str());
        environment.set("PWD", working_directory).map_err(|error| failed(&error))?;
        let folder = dir.tool_folder(&job.tool).map_err(|error| failed(&error))?;
        let stdout = dir.open_output(STDOUT).map_err(|error| failed(&error))?;
        let stderr = dir.open_output(STDERR).map_err(|error| failed(&error))?;
        let plan = SpawnPlan {
            folder: folder.as_fd(),
            environment: &environment,
            stdin: self.nothing.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            brand: self.brand,
            not_after: self.not_after,
        };
        let child = process::spawn(&plan).map_err(|error| match error {
            SpawnError::Busy => SpawnFailure::Busy,
            error => failed(&error),
        })?;
        let id = child.id();
        *started = Some(Started { tree: Tree::of(id), child: Some(child) });
        let record = self.run.as_ref().map(|run| self.record_of(&run.job, Some(id)));
        if let Some(Err(error)) = record.map(|record| self.record.write(&record)) {
            // The run is still known by its mark.
            log::error!("{error}");
        }
        Ok(())
    }

    fn record_of(&self, job: &Job, run: Option<ProcessId>) -> RunRecord {
        RunRecord {
            task: job.task,
            round: job.round,
            run,
            agent: self.agent,
            session: self.session,
            cookie: Cookie::new(info::cookie(job.task, job.round)).branded(self.brand),
        }
    }

    fn signal(&self, now: Now, signal: Signal, slot: &mut Slot) {
        let Some(started) = self.run.as_ref().and_then(|run| run.started.as_ref()) else { return };
        let signalled = match signal {
            Signal::Terminate => started.tree.terminate(&[]),
            Signal::Kill => started.tree.kill(&[]),
        };
        log::debug!("{signal:?}: {signalled:?}");
        if signalled.refused > 0
            && let Some(holders) = process::foreign_processes(&[])
        {
            slot.handle_refused(now, &holders);
        }
    }

    /// Whether run.sh has ended just now.
    fn collect(&mut self, now: Now, slot: &mut Slot) -> bool {
        let Some(run) = &mut self.run else { return false };
        let Some(started) = &mut run.started else { return false };
        let exit = match started.child.as_mut().map(RunningChild::try_wait) {
            None | Some(Ok(None)) => return false,
            Some(Ok(Some(exit))) => exit,
            Some(Err(error)) => {
                // Its exit code is lost. It must not look like a success.
                log::error!("the end of run.sh cannot be read: {error}");
                ChildExit { exit: ExitCode::PREPARE_FAILED, cpu_seconds: 0.0, max_rss_kib: 0 }
            }
        };
        started.child = None;
        let report = TailLimit { bytes_max: self.config.report_keep_bytes, drop_partial_line: true };
        let output = |bytes_max| TailLimit { bytes_max, drop_partial_line: false };
        let tool = run.job.tool.as_str();
        let tails = |dir: &TaskDir| {
            let stdout = dir.output_tail(STDOUT, output(self.config.stdout_keep_bytes));
            let stderr = dir.output_tail(STDERR, output(self.config.stderr_keep_bytes));
            (dir.tail(&[tool], REPORT_LOG, report), stdout, stderr)
        };
        let (report, stdout, stderr) = run.folder.as_ref().map(|folder| tails(&folder.dir)).unwrap_or_default();
        let exited = Exited {
            exit_code: exit.exit,
            cpu_seconds: exit.cpu_seconds,
            max_rss_kib: exit.max_rss_kib,
            output_bytes: Some(OutputBytes { report: report.bytes, stdout: stdout.bytes, stderr: stderr.bytes }),
            report_tail: report.text,
            stdout_tail: stdout.text,
            stderr_tail: stderr.text,
            defer: (exit.exit == ExitCode::DEFERRED).then(|| Box::new(defer(run))),
        };
        slot.handle_exited(now, exited);
        true
    }

    /// A child has ended: run.sh, or an orphan that it left behind.
    pub(super) fn reap(&mut self, now: Now, slot: &mut Slot) {
        // run.sh before the orphans: its exit is known before anything is said of what it left behind.
        if self.collect(now, slot) {
            // The engine asks next what it has left.
            return;
        }
        let known: Vec<Pid> = self.run_pid().into_iter().collect();
        let reaped = process::reap_orphans(&known);
        // Also without a run: something of the last one may have been left.
        if known.is_empty() {
            slot.handle_tree(now, process::any_left(&[]), reaped);
        }
    }

    fn run_pid(&self) -> Option<Pid> {
        Some(self.run.as_ref()?.started.as_ref()?.child.as_ref()?.id().pid)
    }

    /// Does what can wait until nothing else is to be done.
    pub(super) fn tidy(&mut self) {
        if let Some(spares) = &mut self.spares {
            spares.tidy(&self.remover);
        }
    }

    fn remove(&mut self) {
        let Some(run) = self.run.take() else { return };
        if let Some(Prepared { dir, rest }) = run.folder {
            if let Some(rest) = rest {
                self.remover.take(rest);
            }
            let dir = match &mut self.spares {
                Some(spares) => spares.put_aside(dir, &self.remover),
                None => Some(dir),
            };
            match dir.map(|dir| self.workspace.remove(dir, INLINE_REMOVALS)) {
                None | Some(Removed::Done) => {}
                Some(Removed::Rest(rest)) => self.remover.take(rest),
                Some(Removed::Left(error)) => log::error!("{error}"),
            }
        }
        if let Err(error) = self.record.clear() {
            log::error!("{error}");
        }
    }
}

/// Whether anything is left of a run whose run.sh was reaped, and how many processes of it have ended since the last look.
fn look_at_tree() -> (bool, u32) {
    if !process::any_left(&[]) {
        return (false, 0);
    }
    let reaped = process::reap_orphans(&[]);
    (process::any_left(&[]), reaped)
}

/// What a run that has deferred asks for. A line that makes no sense is as good as none: the run has ended.
fn defer(run: &Run) -> Defer {
    let limit = TailLimit { bytes_max: info::DEFER_BYTES_MAX, drop_partial_line: true };
    let text = run.folder.as_ref().map(|folder| folder.dir.tail(&[], DEFER_INFO, limit).text).unwrap_or_default();
    let (defer, bad_lines) = info::defer(&text);
    for line in bad_lines {
        log::warn!("task {}: {DEFER_INFO}: {line}", run.job.task);
    }
    defer
}

/// The agent's own environment, without where it was before and what configures this service, but with where the keys of CURVE
/// are, for an `llts` that a tool starts.
fn inherited(config: &Config) -> Result<Environment, AgentError> {
    let is_ours = |name: &OsStr| name == "OLDPWD" || name.as_bytes().starts_with(b"LLTS_");
    let mut environment = Environment::inherited(is_ours);
    let keys = config.network.curve_client.as_ref().map(CurveClientFiles::variables).transpose()?;
    for (name, path) in keys.into_iter().flatten() {
        environment.set(name, path).map_err(std::io::Error::other)?;
    }
    Ok(environment)
}
