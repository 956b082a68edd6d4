//! The one run of a worker at the level of the system: its program, its files, its processes. The engine decides.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::output::{self, Outputs, Templates};
use crate::engine::pool::{Finished, RunLine};
use crate::engine::worker::{Assignment, Outcome, StartFailure, Worker};
use agent::source::{HeldProgram, ProgramName};
use base::Mono;
use proc::clock;
use proc::process::{ChildEnd, CommandError};
use proc::runs::Runs;
use proc::worker::WorkerStartError;
use proc::worker::commands::Commands;

/// Marks every process of a run.
const MARK: &str = "LLTS_RUN_TDF";

/// The state that outlives a run, and the run itself.
pub(super) struct Runner {
    root: PathBuf,
    templates: Templates,
    output_bytes_max: u64,
    pub(super) commands: Commands,
    run: Option<Run>,
}

struct Run {
    task: Assignment,
    claimed: Mono,
    log: Vec<RunLine>,
    /// While the program may run.
    program: Option<HeldProgram>,
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
    ) -> Result<Self, WorkerStartError> {
        Ok(Self { root, templates, output_bytes_max, commands: Commands::start(MARK, runs)?, run: None })
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
        self.write_record()
    }

    /// The program is there and stays as it is.
    pub(super) fn hold(&mut self, program: HeldProgram) {
        if let Some(run) = &mut self.run {
            run.program = Some(program);
        }
    }

    /// The name of the program of the present task.
    pub(super) fn program(&self) -> &str {
        self.run.as_ref().map(|run| run.task.program.as_str()).unwrap_or_default()
    }

    /// Adds a line for the log of the task.
    pub(super) fn note(&mut self, text: String) {
        let now = clock::now().mono;
        if let Some(run) = &mut self.run {
            run.log.push(RunLine { since_start: now.since(run.claimed), text });
        }
    }

    /// Starts the program.
    pub(super) fn begin(&mut self) -> Result<(), StartFailure> {
        let Some(run) = &self.run else { return Err(StartFailure::Worker("there is no task".to_owned())) };
        let program = ProgramName::new(&run.task.program).map_err(|error| StartFailure::Task(error.to_string()))?;
        let outputs = self.templates.create(&self.root, &program, &run.task.fence).map_err(StartFailure::Task)?;
        let line = command_line(&program, &run.task.input);
        self.note(format!("executing task: {}", String::from_utf8_lossy(line.as_bytes())));
        // Before the start, so that the processes can be found by their mark at any time.
        self.write_record().map_err(StartFailure::Worker)?;
        let begun = self.commands.begin(line, &self.root, [&outputs.output, &outputs.error]);
        begun.map_err(|error| match error {
            CommandError::Unpassable(_) => {
                StartFailure::Task("cannot run the program: its input holds a NUL byte".to_owned())
            }
            error if error.is_of_words() => StartFailure::Task(format!("cannot run the program: {error}")),
            error => StartFailure::Worker(format!("cannot run the program: {error}")),
        })?;
        if let Some(run) = &mut self.run {
            run.outputs = Some(outputs);
        }
        Ok(())
    }

    fn write_record(&mut self) -> Result<(), String> {
        self.commands.write_record(None).map_err(|error| error.to_string())
    }

    /// A child has ended: the shell of the program, or an orphan that it left behind.
    pub(super) fn reap(&mut self, worker: &mut Worker) {
        // Before the start, all children belong to a fetch, which waits for them itself.
        if self.run.as_ref().is_none_or(|run| run.outputs.is_none()) {
            return;
        }
        match self.commands.reap() {
            Some(ChildEnd::Root(_)) => worker.handle_exited(),
            Some(ChildEnd::Rest(rest)) => worker.handle_tree(clock::now(), rest.left),
            None => {}
        }
    }

    /// The result of the run.
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
        if let Err(error) = self.commands.clear_record() {
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
