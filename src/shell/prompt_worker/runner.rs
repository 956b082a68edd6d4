//! The one run of a worker at the level of the system: its files, its process and its results. The engine decides; this
//! module carries the decisions out.
//!
//! The files of a run, in its folder among [`Runs`]:
//!
//! ```text
//! prompt.txt  PROMPT_FILE, and the standard input of the command
//! out, err    its output, until it moves to done/ or failed/
//! defer.info  PROMPT_DEFER_FILE, if the command writes it
//! ```

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::PromptWorkerError;
use super::outbox::{Outbox, Outputs};
use super::tails;
use crate::engine::worker::signs::{RETRY_AFTER_MAX, Signs};
use crate::engine::worker::{ResultFolder, Sign, Signal, StartError, USAGE_LIMITED, Worker};
use crate::protocol::prompt::{Request, RequestId};
use crate::shell::clock;
use crate::shell::disk_room::check_room;
use crate::shell::one_job::OneJob;
use crate::shell::process::{
    self, Brand, ChildEnd, Command, CommandPlan, Cookie, Environment, ProcessId, RecordFile, RunProcesses, RunRecord,
    RunningChild, Subject,
};
use crate::shell::prompt_create::TASKS;
use crate::shell::prompt_results::{Results, file_name};
use crate::shell::runs::{Runs, WorkerRun};
use crate::types::{ExitCode, Wall};

const PROMPT: &str = "prompt.txt";
const OUT: &str = "out";
const ERR: &str = "err";
const DEFER: &str = "defer.info";

/// The folder for the output of runs without results, beside the folders of prompts.
const ATTEMPTS: &str = "attempts";

/// Variables that are added to the environment of the command.
const PROMPT_FILE: &str = "PROMPT_FILE";
const PROMPT_NAME: &str = "PROMPT_NAME";
const PROMPT_DEFER_FILE: &str = "PROMPT_DEFER_FILE";

/// The environment variable that marks every process of a run.
const MARK: &str = "LLTS_RUN_PROMPT";

/// The maximum number of bytes read from `defer.info`; the file contains one line.
const DEFER_BYTES_MAX: u64 = 4096;

/// The current run and the state that outlives a run.
pub(super) struct Runner {
    root: PathBuf,
    command: Command,
    durable: bool,
    runs: Runs,
    own: ProcessId,
    /// The run record; `Some` while there is a run.
    record: Option<RecordFile>,
    /// Identifies all processes of the command, whatever they do to their environment.
    brand: Option<Brand>,
    run: Option<Run>,
    processes: RunProcesses,
    signs: Signs,
    /// The results of the last run, and its request.
    last: Option<(RequestId, Outputs)>,
}

struct Run {
    id: WorkerRun,
    request: RequestId,
    /// The name of the prompt as the master gave it, if it gave one.
    said: Option<String>,
    /// The part of the result file names that stands for the prompt.
    name: String,
    folder: PathBuf,
    start: Wall,
    /// The time and the exit code of the end of the command.
    end: Option<(Wall, ExitCode)>,
}

impl Runner {
    /// Opens the folders and ends the runs that dead workers have left.
    pub(super) fn start(
        root: &Path,
        command: Command,
        runs: Runs,
        durable: bool,
        signs: Signs,
    ) -> Result<Self, PromptWorkerError> {
        let own = ProcessId::own().map_err(io::Error::from)?;
        runs.sweep();
        runs.sweep_former();
        runs.remove_strays();
        runs.remove_dead_realms();
        let (root, brand) = (root.to_owned(), Brand::fresh());
        let processes = RunProcesses::none();
        Ok(Self { root, command, durable, runs, own, record: None, brand, run: None, processes, signs, last: None })
    }

    /// Starts the command for a prompt.
    pub(super) fn begin(&mut self, request: &Request) -> Result<(), StartError> {
        let start = clock::now().wall;
        self.last = None;
        let id = WorkerRun::new(start);
        let folder = self.runs.folder_of(&id);
        let name = file_name(request.file.as_deref(), request.id.as_str());
        if let Some(said) = request.file.as_deref().filter(|said| *said != name) {
            log::info!(
                "the results of {said:?} are stored as {name}, because the given name cannot be part of a file name"
            );
        }
        match self.spawn(&id, &folder, &name, &request.prompt) {
            Ok(child) => {
                log::info!("{name}: started");
                let present = self.record_of(&id, Some(child.id()));
                if let Some(Err(error)) = self.record.as_mut().map(|record| record.write(&present)) {
                    // The run can still be identified by its mark.
                    log::error!("{error}");
                }
                self.processes = RunProcesses::of(child);
                let said = request.file.clone();
                let request = request.id.clone();
                self.run = Some(Run { id, request, said, name, folder, start, end: None });
                Ok(())
            }
            Err(error) => {
                self.runs.clean(&id, self.record.take());
                Err(error)
            }
        }
    }

    /// Makes the files and starts the command.
    fn spawn(&mut self, id: &WorkerRun, folder: &Path, name: &str, prompt: &str) -> Result<RunningChild, StartError> {
        // The folder .tasks/ may have been removed since the last run.
        self.runs = self.runs.reopen().map_err(|error| StartError::Place(error.to_string()))?;
        let mut record = self.runs.records.of(self.own, None).map_err(|error| StartError::Place(error.to_string()))?;
        record.write(&self.record_of(id, None)).map_err(|error| StartError::Place(error.to_string()))?;
        self.record = Some(record);
        let failed = |error: io::Error| {
            StartError::Place(format!("cannot make the files of a run in {}: {error}", folder.display()))
        };
        // The answer would be lost on a full disk.
        check_room(folder.parent().unwrap_or(folder)).map_err(failed)?;
        DirBuilder::new().mode(0o700).create(folder).map_err(failed)?;
        let path = folder.join(PROMPT);
        fs::write(&path, prompt).map_err(failed)?;
        // The command must not see the configuration of its worker: with the secret it could take prompts and report
        // results.
        let mut environment = Environment::inherited(|name| name.as_bytes().starts_with(b"LLTS_"));
        let added: [(&str, OsString); 4] = [
            (PROMPT_FILE, path.clone().into()),
            (PROMPT_NAME, name.into()),
            (PROMPT_DEFER_FILE, folder.join(DEFER).into()),
            (MARK, id.folder().into()),
        ];
        for (name, value) in added {
            environment.set(name, value).map_err(|error| StartError::Command(error.to_string()))?;
        }
        let stdin = File::open(&path).map_err(failed)?;
        let stdout = File::create_new(folder.join(OUT)).map_err(failed)?;
        let stderr = File::create_new(folder.join(ERR)).map_err(failed)?;
        let plan = CommandPlan {
            command: &self.command,
            folder: &self.root,
            environment: &environment,
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            brand: self.brand,
        };
        process::spawn_command(&plan).map_err(|error| StartError::Command(error.to_string()))
    }

    fn record_of(&self, id: &WorkerRun, root: Option<ProcessId>) -> RunRecord<WorkerRun> {
        let cookie = Cookie::new([format!("{MARK}={}", id.folder())]).branded(self.brand);
        RunRecord { subject: id.clone(), root, agent: self.own, cookie }
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.processes.signal(signal);
    }

    /// Handles the end of the command.
    fn collect(&mut self, exit: ExitCode, worker: &mut Worker) {
        let Some(run) = &mut self.run else { return };
        let now = clock::now();
        run.end = Some((now.wall, exit));
        let sign = if exit == USAGE_LIMITED {
            let text = format!("the command says so with exit code {}", exit.0);
            retry_after(&run.folder.join(DEFER)).map(|time| Sign::Limited { retry_after: Some(time), text })
        } else {
            tails::sign(&self.signs, exit, &run.folder, now.wall)
        };
        worker.handle_exited(now, exit, sign);
    }

    /// Collects a child that has ended: the command, or an orphan that it left behind.
    pub(super) fn reap(&mut self, worker: &mut Worker) {
        match self.processes.reap() {
            Some(ChildEnd::Root(exit)) => self.collect(exit.exit, worker),
            Some(ChildEnd::Rest(rest)) => worker.handle_tree(clock::now(), rest.left),
            None => {}
        }
    }

    /// Reports whether processes of the tree are left.
    pub(super) fn check_tree(&self, worker: &mut Worker) {
        worker.handle_tree(clock::now(), self.processes.look().left);
    }

    /// Starts to move the results to their place; [`Self::finish`] follows.
    pub(super) fn store_results(
        &mut self,
        folder: ResultFolder,
        worker: &str,
    ) -> io::Result<OneJob<Result<(), String>>> {
        let Some(run) = &self.run else { return Err(io::Error::other("there is no run")) };
        let (end, exit) = run.end.unwrap_or((run.start, ExitCode::PREPARE_FAILED));
        let outcome = match folder {
            ResultFolder::Done => "done",
            ResultFolder::Failed | ResultFolder::Overdue => "failed",
        };
        log::info!("{}: {outcome} after {:.1} s", run.name, end.since(run.start).as_secs_f64());
        let results = Results {
            name: run.name.clone(),
            said: run.said.clone(),
            outcome,
            may_be_late: folder == ResultFolder::Overdue,
            from: run.folder.clone(),
            worker: worker.to_owned(),
            command: self.command.words(),
            exit,
            start: run.start,
            end,
            durable: self.durable,
        };
        match Outputs::open(&run.folder, results.json()) {
            Ok(outputs) => self.last = Some((run.request.clone(), outputs)),
            Err(error) => log::warn!("the results of {} cannot be sent: {error}", run.name),
        }
        let root = self.root.clone();
        OneJob::start("results", move || results.put_in_place(&root).map_err(|error| error.to_string()))
    }

    /// The results of a run for a master with another root.
    pub(super) fn outbox(&self, run: &RequestId, bytes_max: u64) -> Option<Outbox> {
        let (_, outputs) = self.last.as_ref().filter(|(last, _)| last == run)?;
        match outputs.outbox(run.clone(), bytes_max) {
            Ok(outbox) => Some(outbox),
            Err(error) => {
                log::error!("cannot read the results that are to be sent to the master: {error}");
                None
            }
        }
    }

    /// Ends the run after the results were stored. If they could not be stored, the output stays where it is.
    pub(super) fn finish(&mut self, outcome: Result<(), String>) -> Result<(), String> {
        let Some(run) = self.run.take() else { return outcome };
        let record = self.record.take();
        match outcome {
            Ok(()) => {
                self.runs.clean(&run.id, record);
                Ok(())
            }
            Err(error) => {
                let left = self.runs.put_aside(&run.id, record);
                Err(format!("cannot store the results of {}: {error}; its output is in {}", run.name, left.display()))
            }
        }
    }

    /// Keeps the output of a run without results, until another one of its prompt ends like that: it may say more about the
    /// reason, and may be most of an answer.
    fn keep_attempt(&self, run: &Run) {
        let folder = self.root.join(TASKS).join(ATTEMPTS);
        for ending in [OUT, ERR] {
            let from = run.folder.join(ending);
            if !from.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                continue;
            }
            let to = folder.join(format!("{}.{ending}", run.name));
            if let Err(error) = fs::create_dir_all(&folder).and_then(|()| fs::rename(&from, &to)) {
                log::warn!("cannot keep the output of {} in {}: {error}", run.name, folder.display());
            }
        }
    }

    /// Ends the run without results.
    pub(super) fn discard(&mut self) {
        let Some(run) = self.run.take() else { return };
        self.last = None;
        let end = run.end.map_or(run.start, |(end, _)| end);
        log::info!("{}: given back after {:.1} s", run.name, end.since(run.start).as_secs_f64());
        self.keep_attempt(&run);
        self.runs.clean(&run.id, self.record.take());
    }
}

/// The limit that a limited command reports: `retry_after=SECONDS`, as a run.sh writes it to `../defer.info`.
fn retry_after(path: &Path) -> Option<Duration> {
    // The command may have put anything there: no link is followed, and no open blocks.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(DEFER_BYTES_MAX).read_to_string(&mut text).ok()?;
    let said = text.lines().find_map(|line| line.trim().strip_prefix("retry_after="));
    let time = said.and_then(|seconds| Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok());
    if time.is_none() {
        log::warn!("{PROMPT_DEFER_FILE} has no line retry_after=SECONDS");
    }
    time.map(|time| time.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_and_nothing_else_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("defer");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            retry_after(&path)
        };
        assert_eq!(read("retry_after=90\n"), Some(Duration::from_secs(90)));
        assert_eq!(read("# why\n retry_after= 0.5 \n"), Some(Duration::from_millis(500)));
        assert_eq!(read("retry_after=1e9\n"), Some(RETRY_AFTER_MAX));
        for text in
            ["", "retry_after=", "retry_after=soon", "retry_after=-1", "retry_after=nan", "retry_after=1e30", "90"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(retry_after(&path), None);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(retry_after(&path), None);
    }
}
