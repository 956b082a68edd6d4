//! The one run of a worker at the level of the system: its files, its process and its results. The engine decides; this
//! module carries the decisions out.
//!
//! The files of a run, in its folder among [`Runs`]:
//!
//! ```text
//! prompt.txt  PROMPT_FILE, and the standard input of the command
//! out, err    its output, until it moves to done/ or failed/
//! defer.info  PROMPT_DEFER_FILE, if the command writes it
//! work/       the folder that it works in, if that is one of its own
//! ```

mod start;
mod tail;

use std::fs::{self, File};
use std::io::{self, ErrorKind::NotFound, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

pub(super) use tail::Answer;

use super::outbox::{Outbox, Outputs};
use super::workdir::{Remains, WorkFolder, Workplace};
use super::{PromptWorkerError, memory, output_ends};
use crate::files::create::TASKS;
use crate::files::results::{ATTEMPTS, Placement, Results};
use crate::wire::{Request, RequestId};
use crate::worker::engine::command_line::CommandLine;
use crate::worker::engine::signs::{RETRY_AFTER_MAX, Signs};
use crate::worker::engine::{ResultFolder, Sign, Signal, StartError, StoreError, USAGE_LIMITED, Worker};
use base::{ExitCode, Usd, Wall};
use proc::clock;
use proc::one_job::OneJob;
use proc::process::{Brand, ChildEnd, Command, Cookie, ProcessId, RecordFile, RunProcesses, RunRecord, Subject};
use proc::runs::{Runs, WorkerRun};
use proc::worker::WorkerStartError;

const PROMPT: &str = "prompt.txt";
const OUT: &str = "out";
const ERR: &str = "err";
const DEFER: &str = "defer.info";

/// The beginning of the reason of a run that is lost because its answer cannot be sent.
pub(super) const UNREAD: &str = "its output cannot be read at its end";

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
    /// The words of the command, if they have places for values.
    line: Option<CommandLine>,
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
    workplace: Workplace,
    /// A run whose folder is being made.
    pending: Option<PendingRun>,
    /// Removes the folder of a run without results.
    cleaning: Option<JoinHandle<()>>,
    /// The results of the last run, and its request.
    last: Option<(RequestId, Outputs)>,
}

/// A run whose command is not started yet.
struct PendingRun {
    id: WorkerRun,
    request: Request,
    name: String,
    folder: PathBuf,
    start: Wall,
}

/// The beginning of a run.
pub(super) enum Startup {
    /// The command was started, or could not be.
    Started(Result<(), StartError>),
    /// The folder that it works in is being made; [`Runner::launch`] follows.
    Preparing(Preparation),
}

/// The folder of a run that is being made.
pub(super) type Preparation = OneJob<Result<WorkFolder, String>>;

/// Results that are being put in place; their outputs can be sent afterwards.
pub(super) type Keeping = OneJob<Result<Outputs, StoreError>>;

struct Run {
    id: WorkerRun,
    request: RequestId,
    /// The name of the prompt as the master gave it, if it gave one.
    given_name: Option<String>,
    /// The part of the result file names that stands for the prompt.
    name: String,
    folder: PathBuf,
    /// `None` once it is being removed.
    work: Option<WorkFolder>,
    start: Wall,
    /// The time and the exit code of the end of the command.
    end: Option<(Wall, ExitCode)>,
    /// Cost of the run, if its output contains it.
    cost: Option<Usd>,
    /// [`memory::kills`] at the start of the run.
    memory_kills: Option<u64>,
}

impl Runner {
    /// Opens the folders and ends the runs that dead workers have left.
    pub(super) fn start(
        root: &Path,
        command: Command,
        runs: Runs,
        durable: bool,
        signs: Signs,
        workplace: Workplace,
    ) -> Result<Self, PromptWorkerError> {
        let own = ProcessId::own().map_err(|error| WorkerStartError::System(error.into()))?;
        runs.sweep();
        runs.sweep_former();
        runs.remove_strays();
        runs.remove_dead_realms();
        workplace.clean_up(runs.around());
        let line = CommandLine::parse(command.raw_words()).map_err(PromptWorkerError::Template)?;
        let line = Some(line).filter(CommandLine::has_places);
        Ok(Self {
            root: root.to_owned(),
            command,
            line,
            durable,
            runs,
            own,
            record: None,
            brand: Brand::fresh(),
            run: None,
            processes: RunProcesses::none(),
            signs,
            workplace,
            pending: None,
            cleaning: None,
            last: None,
        })
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
            output_ends::sign(&self.signs, exit, &run.folder, now.wall)
        };
        let sign = sign.or_else(|| memory::sign(exit, run.memory_kills));
        run.cost = output_ends::cost(&run.folder);
        worker.handle_cost(run.cost);
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
    pub(super) fn check_tree(&mut self, worker: &mut Worker) {
        worker.handle_tree(clock::now(), self.processes.look().left);
    }

    /// Starts to move the results to their place; [`Self::finish`] follows.
    pub(super) fn store_results(&mut self, folder: ResultFolder, worker: &str) -> io::Result<Keeping> {
        let Some(run) = &mut self.run else { return Err(io::Error::other("there is no run")) };
        let (end, exit) = run.end.unwrap_or((run.start, ExitCode::PREPARE_FAILED));
        let outcome = match folder {
            ResultFolder::Done => "done",
            ResultFolder::Failed | ResultFolder::Overdue => "failed",
        };
        log::info!("{}: {outcome} after {:.1} s", run.name, end.since(run.start).as_secs_f64());
        let placement = Placement {
            name: run.name.as_str().into(),
            outcome,
            is_overdue: folder == ResultFolder::Overdue,
            from: run.folder.clone(),
            durable: self.durable,
        };
        let results = Results {
            file: run.given_name.as_ref().unwrap_or(&run.name).clone(),
            run: run.request.label(),
            worker: worker.to_owned(),
            command: self.command.words(),
            exit,
            start: run.start,
            end,
            branch: None,
            workdir: None,
            cost: run.cost,
            placement,
        };
        let (root, work) = (self.root.clone(), run.work.take());
        OneJob::start("results", move || keep(results, work, &root))
    }

    /// The results of a run for a master with another root.
    ///
    /// # Errors
    /// A sentence, when they cannot be read.
    pub(super) fn outbox(&self, run: &RequestId, bytes_max: u64) -> Result<Outbox, String> {
        let unread = |error: &dyn std::fmt::Display| format!("{UNREAD}: {error}");
        let outputs = self.last.as_ref().filter(|(last, _)| last == run);
        let (_, outputs) = outputs.ok_or_else(|| unread(&"it is not kept"))?;
        outputs.outbox(run.clone(), bytes_max).map_err(|error| unread(&error))
    }

    /// Ends the run after the results were stored. If they could not be stored, the output stays where it is.
    pub(super) fn finish(&mut self, outcome: Result<Outputs, StoreError>) -> Result<(), StoreError> {
        let Some(run) = self.run.take() else { return outcome.map(drop) };
        let record = self.record.take();
        match outcome {
            Ok(outputs) => {
                self.last = Some((run.request.clone(), outputs));
                self.runs.clean(&run.id, record);
                Ok(())
            }
            Err(error) => {
                let left = self.runs.put_aside(&run.id, record);
                let left = left.display();
                Err(match error {
                    StoreError::Unread(reason) => {
                        StoreError::Unread(format!("{UNREAD}: {reason}; the rest of it is in {left}"))
                    }
                    StoreError::Disk(reason) => StoreError::Disk(format!(
                        "cannot store the results of {}: {reason}; its output is in {left}",
                        run.name
                    )),
                })
            }
        }
    }

    /// Ends the run without results.
    pub(super) fn discard(&mut self) {
        let Some(mut run) = self.run.take() else { return };
        self.last = None;
        let end = run.end.map_or(run.start, |(end, _)| end);
        log::info!("{}: given back after {:.1} s", run.name, end.since(run.start).as_secs_f64());
        keep_attempt(&self.root, &run.name, &run.folder);
        match run.work.take() {
            Some(work) => self.remove_work_folder(&run.id, work),
            None => self.runs.clean(&run.id, self.record.take()),
        }
    }

    /// Removes the files of a run, and the folder that it worked in, which may take a while.
    fn remove_work_folder(&mut self, id: &WorkerRun, work: WorkFolder) {
        let record = self.record.take();
        if !work.is_own() {
            return self.runs.clean(id, record);
        }
        let (runs, id) = (self.runs.reopen(), id.clone());
        let clean = move || {
            let finished = work.finish();
            match (runs, finished) {
                (Ok(runs), Ok(_)) => runs.clean(&id, record),
                (Ok(runs), Err(reason)) => {
                    log::error!("{reason}; it is kept as {}", runs.put_aside(&id, record).display());
                }
                (Err(error), _) => log::error!("{error}"),
            }
        };
        match std::thread::Builder::new().name("workdir".into()).spawn(clean) {
            Ok(thread) => self.cleaning = Some(thread),
            Err(error) => log::error!("cannot remove the folder of a run, which the next worker will remove: {error}"),
        }
    }

    /// True while a thread may have children of its own, which are not remains of a run.
    pub(super) fn is_cleaning(&self) -> bool {
        self.cleaning.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// True if all runs work in the folder of the worker.
    pub(super) fn is_shared(&self) -> bool {
        self.workplace.is_shared()
    }

    /// The worker is to end: a folder that is being made for a run is of no use.
    pub(super) fn stop(&self) {
        self.workplace.stop();
    }

    /// Waits until the folder of the last run is removed.
    pub(super) fn end(&mut self) {
        if let Some(thread) = self.cleaning.take() {
            // A panic of the thread has already been reported by the thread.
            let _ = thread.join();
        }
    }
}

/// Keeps the output of a run of this prompt without results, until another run of the prompt ends without results. The output may
/// contain the reason, or most of an answer.
fn keep_attempt(root: &Path, name: &str, run: &Path) {
    let folder = root.join(TASKS).join(ATTEMPTS);
    for ending in [OUT, ERR] {
        let (from, to) = (run.join(ending), folder.join(format!("{name}.{ending}")));
        let kept = if from.metadata().is_ok_and(|metadata| metadata.len() > 0) {
            fs::create_dir_all(&folder).and_then(|()| fs::rename(&from, &to))
        } else {
            // An empty output is not kept, and that of an earlier run would be taken for it.
            fs::remove_file(&to).or_else(|error| if error.kind() == NotFound { Ok(()) } else { Err(error) })
        };
        if let Err(error) = kept {
            log::warn!("cannot keep the output of {name} in {}: {error}", folder.display());
        }
    }
}

/// Removes or keeps the folder that a run worked in, and puts its results in place.
fn keep(mut results: Results, work: Option<WorkFolder>, root: &Path) -> Result<Outputs, StoreError> {
    let left = work.map(WorkFolder::finish).transpose().map_err(StoreError::Disk)?;
    (results.branch, results.workdir) = left.map(|Remains { branch, folder }| (branch, folder)).unwrap_or_default();
    let outputs = Outputs::open(&results.placement.from, results.json())
        .map_err(|error| StoreError::Unread(error.to_string()))?;
    results.put_in_place(root).map_err(|error| StoreError::Disk(error.to_string()))?;
    Ok(outputs)
}

/// The time in the file of a limited command: `retry_after=SECONDS`, as a run.sh writes it to `../defer.info`.
fn retry_after(path: &Path) -> Option<Duration> {
    // The command may have put anything there: no link is followed, and no open blocks.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    file.take(DEFER_BYTES_MAX).read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("retry_after="));
    let time = line.and_then(|seconds| Duration::try_from_secs_f64(seconds.trim().parse().ok()?).ok());
    if time.is_none() {
        log::warn!("{PROMPT_DEFER_FILE} has no line retry_after=SECONDS");
    }
    time.map(|time| time.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_run_without_a_result_is_all_of_the_last_one() {
        let root = tempfile::tempdir().unwrap();
        let kept = root.path().join(TASKS).join(ATTEMPTS);
        let (run, names) = (root.path().join("run"), ["a.out", "a.err"]);
        for (outputs, expected) in [
            (["", ""], [None, None]),
            (["begun", "why"], [Some("begun"), Some("why")]),
            (["more", ""], [Some("more"), None]),
            (["", "how"], [None, Some("how")]),
        ] {
            fs::create_dir_all(&run).unwrap();
            for (name, output) in [OUT, ERR].iter().zip(outputs) {
                fs::write(run.join(name), output).unwrap();
            }
            keep_attempt(root.path(), "a", &run);
            let found = names.map(|name| fs::read_to_string(kept.join(name)).ok());
            assert_eq!(found.each_ref().map(Option::as_deref), expected);
        }
    }

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
