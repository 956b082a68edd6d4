//! The one run of a worker as the system sees it: its program, its files, its processes. The engine decides, this obeys.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::TdfWorkerError;
use super::output::{self, Outputs, Templates};
use crate::engine::tdf::worker::{Assignment, Outcome, Signal, StartFailure, Worker};
use crate::shell::clock;
use crate::shell::process::{
    self, Brand, ChildEnd, Command, CommandError, CommandPlan, Cookie, Environment, ProcessId, RecordFile,
    RunProcesses, RunRecord, RunningChild, Subject as _,
};
use crate::shell::runs::{Runs, WorkerRun};
use crate::shell::source::{Held, ProgramName};
use crate::shell::tdf::LogLine;
use crate::shell::tdf::results::Finished;
use crate::types::Mono;

/// Marks every process of a run.
const MARK: &str = "LLTS_RUN_TDF";

/// Everything that outlives a run, and the run itself.
pub(super) struct Runner {
    root: PathBuf,
    templates: Templates,
    output_bytes_max: u64,
    own: ProcessId,
    record: RecordFile,
    /// Runs of this worker have the folder of their records.
    _runs: Runs,
    environment: Environment,
    brand: Option<Brand>,
    run: Option<Run>,
    processes: RunProcesses,
}

struct Run {
    task: Assignment,
    claimed: Mono,
    log: Vec<LogLine>,
    /// While the program may run.
    program: Option<Held>,
    /// `None` for one that was not started.
    outputs: Option<Outputs>,
}

impl Runner {
    /// Ends what dead workers have left.
    pub(super) fn start(
        root: PathBuf,
        templates: Templates,
        output_bytes_max: u64,
        runs: Runs,
    ) -> Result<Self, TdfWorkerError> {
        let own = ProcessId::own().map_err(io::Error::from)?;
        runs.sweep();
        runs.remove_dead_realms();
        let record = runs.records.of(own, None)?;
        // A program must not see the configuration of its worker.
        let environment = Environment::inherited(|name| name.as_bytes().starts_with(b"LLTS_"));
        let (brand, processes) = (Brand::fresh(), RunProcesses::none());
        Ok(Self {
            root,
            templates,
            output_bytes_max,
            own,
            record,
            _runs: runs,
            environment,
            brand,
            run: None,
            processes,
        })
    }

    pub(super) const fn environment(&self) -> &Environment {
        &self.environment
    }

    pub(super) const fn brand(&self) -> Option<Brand> {
        self.brand
    }

    /// Takes a task; its program is not there yet.
    ///
    /// # Errors
    /// A sentence why nothing can be run here.
    pub(super) fn take(&mut self, task: Assignment) -> Result<(), String> {
        let claimed = clock::now().mono;
        log::debug!("task {}, round {}: {} {}", task.fence.task, task.fence.round, task.program, task.source);
        self.run = Some(Run { task, claimed, log: Vec::new(), program: None, outputs: None });
        // What a fetch starts is known by the brand.
        self.write_record(&WorkerRun::new(clock::now().wall), None)
    }

    /// The program is there and stays as it is.
    pub(super) fn hold(&mut self, program: Held) {
        if let Some(run) = &mut self.run {
            run.program = Some(program);
        }
    }

    /// The name of the program of the present task.
    pub(super) fn program(&self) -> &str {
        self.run.as_ref().map(|run| run.task.program.as_str()).unwrap_or_default()
    }

    /// Notes something for the log of the task.
    pub(super) fn note(&mut self, text: String) {
        let now = clock::now().mono;
        if let Some(run) = &mut self.run {
            run.log.push(LogLine { since_start: now.since(run.claimed), text });
        }
    }

    /// Starts the program.
    pub(super) fn begin(&mut self) -> Result<(), StartFailure> {
        let Some(run) = &self.run else { return Err(StartFailure::Worker("there is no task".to_owned())) };
        let program = ProgramName::new(&run.task.program).map_err(|error| StartFailure::Task(error.to_string()))?;
        let outputs = self.templates.create(&self.root, &program, &run.task.fence).map_err(StartFailure::Task)?;
        let id = WorkerRun::new(clock::now().wall);
        let line = command_line(&program, &run.task.input);
        self.note(format!("executing task: {}", String::from_utf8_lossy(line.as_bytes())));
        // Before the start: whatever happens next, the processes are known by their mark.
        self.write_record(&id, None).map_err(StartFailure::Worker)?;
        let child = self.spawn(&id, line, &outputs)?;
        if let Err(error) = self.write_record(&id, Some(child.id())) {
            log::error!("{error}");
        }
        self.processes = RunProcesses::of(child);
        if let Some(run) = &mut self.run {
            run.outputs = Some(outputs);
        }
        Ok(())
    }

    fn spawn(&self, id: &WorkerRun, line: OsString, outputs: &Outputs) -> Result<RunningChild, StartFailure> {
        let worker = |error: io::Error| StartFailure::Worker(format!("cannot start a program: {error}"));
        let words = ["/bin/sh".into(), "-c".into(), line];
        let command = Command::find(&words, None).map_err(|error| StartFailure::Worker(error.to_string()))?;
        let mut environment = self.environment.clone();
        environment.set(MARK, id.folder()).map_err(|error| StartFailure::Worker(error.to_string()))?;
        let null = File::open("/dev/null").map_err(worker)?;
        let plan = CommandPlan {
            command: &command,
            folder: &self.root,
            environment: &environment,
            stdin: null.as_fd(),
            stdout: outputs.output.as_fd(),
            stderr: outputs.error.as_fd(),
            brand: self.brand,
        };
        process::spawn_command(&plan).map_err(|error| {
            let sentence = format!("cannot run the program: {error}");
            match error {
                CommandError::Unpassable(_) => {
                    StartFailure::Task("cannot run the program: its input holds a NUL byte".to_owned())
                }
                CommandError::Start { source: Errno::TOOBIG, .. } => StartFailure::Task(sentence),
                _ => StartFailure::Worker(sentence),
            }
        })
    }

    fn write_record(&mut self, id: &WorkerRun, root: Option<ProcessId>) -> Result<(), String> {
        let cookie = Cookie::new([format!("{MARK}={}", id.folder())]).branded(self.brand);
        let record = RunRecord { subject: id.clone(), root, agent: self.own, cookie };
        self.record.write(&record).map_err(|error| error.to_string())
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.processes.signal(signal);
    }

    /// A child has ended: the shell of the program, or an orphan that it left behind.
    pub(super) fn reap(&mut self, worker: &mut Worker) {
        // Before the start, the children are those of a fetch, which waits for them itself.
        if self.run.as_ref().is_none_or(|run| run.outputs.is_none()) {
            return;
        }
        match self.processes.reap() {
            Some(ChildEnd::Root(_)) => worker.handle_exited(),
            Some(ChildEnd::Rest(rest)) => worker.handle_tree(clock::now(), rest.left),
            None => {}
        }
    }

    /// Looks what is left of the tree.
    pub(super) fn check_tree(&self, worker: &mut Worker) {
        worker.handle_tree(clock::now(), self.processes.look().left);
    }

    /// What the run has come to.
    pub(super) fn collect(&mut self, outcome: Outcome) -> Option<Arc<Finished>> {
        let run = self.end()?;
        let (mut output, mut error) = (Vec::new(), Vec::new());
        if let Some(outputs) = run.outputs {
            let read = |file| output::read(file, self.output_bytes_max);
            match (read(&outputs.output), read(&outputs.error)) {
                (Ok(written), Ok(complaints)) => (output, error) = (written, complaints),
                (Err(failure), _) | (_, Err(failure)) => {
                    error = format!("cannot read what the program has written: {failure}\n").into_bytes();
                }
            }
        }
        let mut timed_out = None;
        match outcome {
            Outcome::Executed => {}
            Outcome::Unstarted(reason) => error = format!("{reason}\n").into_bytes(),
            Outcome::TimedOut(_) => timed_out = Some(run.task.timeouts),
        }
        Some(Arc::new(Finished { fence: run.task.fence, timed_out, output, error, log: run.log }))
    }

    /// Lets go of the run, whose processes have ended.
    pub(super) fn discard(&mut self) {
        drop(self.end());
    }

    fn end(&mut self) -> Option<Run> {
        let run = self.run.take()?;
        if let Err(error) = self.record.clear() {
            log::warn!("{error}");
        }
        Some(run)
    }
}

/// The document's command. The name of the program needs no quotes, and the input is the rest of the line, as the user wrote it.
fn command_line(program: &ProgramName, input: &[u8]) -> OsString {
    let mut line = format!("cd ./{program}/; ./run.sh ").into_bytes();
    line.extend_from_slice(input);
    OsStr::from_bytes(&line).to_owned()
}
