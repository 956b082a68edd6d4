//! `llts tdf worker`: one task of a namespace at a time, one loop.
//!
//! The loop waits for Redis, the signals, a fetch and the end of the program, all at once: calls to Redis are made on a thread of
//! their own ([`super::calls`]), a program that is not there is fetched on another ([`super::fetch`]), what a program writes goes to files, its
//! end is a descriptor.
//!
//! Beside it stands its guard ([`proc::guard`]): a worker that is killed leaves no program running. A worker whose guard is
//! killed stops.

mod output;
mod runner;
mod worker_dir;

use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::caller::Caller;
use super::calls::{Answer, Call, RedisCalls};
use super::fetch::{Fetch, Fetcher, Preparation};
use super::outage::patiently;
use super::results::{Results, Unread};
use super::{Channel, Namespace, RedisError, Reported, Wake, WakeError, WorkerKind};
use crate::engine::pool::Finished;
use crate::engine::worker::{Assignment, Effect, End, Note, Settings, Worker};
use crate::wire::words;
use agent::source::{ProgramForm, Programs, SourceError, Timeouts};
use api::config::WorkerConfig;
use api::tools::Limits;
use api::wire::source::complaint;
use base::tdf::{Fence, WorkerName};
use proc::clock;
use proc::guard::GuardPlan;
use proc::readable::PollSet;
use proc::worker::{Watch, Woken, WorkerEvent, WorkerStartError};

use output::Templates;
use runner::Runner;
pub(super) use worker_dir::WorkerDir;
pub use worker_dir::runs;

/// The parameters of a worker.
#[derive(Clone, Debug)]
pub struct Work {
    /// The name of the worker.
    pub name: WorkerName,
    /// The configuration file.
    pub config: WorkerConfig,
    /// The folder with the programs.
    pub root: PathBuf,
    /// The limits of an archive of a program.
    pub limits: Limits,
    /// When a fetch of a program is given up.
    pub timeouts: Timeouts,
    /// Bytes of stdout, and of stderr, that are reported.
    pub output_bytes_max: u64,
    /// How often a task may be given to another worker because this one was lost with it.
    pub max_losses: u32,
    /// Settings of the engine.
    pub settings: Settings,
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TdfWorkerError {
    /// Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// The messages of new tasks cannot be received.
    #[error(transparent)]
    Wake(#[from] WakeError),
    /// As for any worker.
    #[error(transparent)]
    Start(#[from] WorkerStartError),
    /// Both streams would go to one file.
    #[error("task_output_filename and task_error_filename are both {0:?}; give them different names")]
    OneOutputFile(String),
    /// The folders of programs cannot be made.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The system refuses something that every process may have.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Works until SIGINT, SIGTERM or SIGHUP; returns why it has ended. Call it before any thread is started.
///
/// # Errors
/// [`TdfWorkerError`], before any task is claimed.
pub fn run(work: Work, guard: GuardPlan) -> Result<End, TdfWorkerError> {
    let config = work.config;
    let templates = Templates { output: config.task_output_filename, error: config.task_error_filename };
    if templates.output == templates.error {
        return Err(TdfWorkerError::OneOutputFile(templates.output));
    }
    let (redis, name) = (&config.tdf.redis, &config.tdf.namespace);
    let dir = WorkerDir::open(&work.root, &work.name)?;
    let runs = runs(&dir.root).map_err(WorkerStartError::from)?;
    let mut namespace = Namespace::connect(redis, name)?;
    patiently(RedisError::is_away, || namespace.register(&work.name, WorkerKind::Worker))?;
    let watch = Watch::start(&guard.of_tdf(dir.root.clone()))?;
    let runner = Runner::start(dir.root.clone(), templates, work.output_bytes_max, runs)?;
    let programs =
        Arc::new(Programs::open((&dir.root, &dir.programs()), ProgramForm::Folders, work.limits, work.timeouts)?);
    let fetcher = Fetcher {
        programs,
        root: dir.root.clone(),
        environment: runner.commands.environment().clone(),
        brand: runner.commands.brand(),
    };
    let results = Results::open(&dir.own, &work.name, format!("{}:{}/{} {name}", redis.host, redis.port, redis.db))?;
    let worker = Worker::new(clock::now(), work.settings, results.left()?);
    let wake = Wake::start(redis, name, &[Channel::Open])?;
    let caller = Caller::new(namespace, work.name.clone(), WorkerKind::Worker, true);
    let calls = RedisCalls::start(caller, work.max_losses)?;
    log::info!("worker {} works for {name} in {}", work.name, dir.root.display());
    let mut turns = Loop { watch, worker, runner, fetcher, fetch: None, results, finished: None, calls, wake };
    let end = turns.serve();
    turns.calls.leave();
    turns.watch.release();
    Ok(end)
}

struct Loop {
    watch: Watch,
    worker: Worker,
    runner: Runner,
    fetcher: Fetcher,
    fetch: Option<Fetch>,
    results: Results,
    /// Until it is reported.
    finished: Option<Arc<Finished>>,
    calls: RedisCalls<()>,
    wake: Wake,
}

impl Loop {
    fn serve(&mut self) -> End {
        loop {
            if let Some(end) = self.obey() {
                return end;
            }
            let woken = self.wait();
            for event in self.watch.events(woken) {
                match event {
                    WorkerEvent::Child => self.runner.reap(&mut self.worker),
                    WorkerEvent::Stop => self.worker.handle_stop(clock::now()),
                }
            }
            self.finish_fetch();
            while let Some(answers) = self.calls.poll() {
                answers.into_iter().for_each(|answer| self.handle(answer));
            }
            if !self.wake.take().is_empty() {
                self.worker.handle_woken();
            }
            self.worker.handle_timeout(clock::now());
        }
    }

    fn wait(&self) -> Woken {
        let mut set = PollSet::default();
        let watch = self.watch.add_to(&mut set);
        for fd in self.calls.fds() {
            set.add(fd);
        }
        set.add(self.wake.as_fd());
        if let Some(fetch) = &self.fetch {
            set.add(fetch.as_fd());
        }
        set.wait(self.worker.poll_timeout().map(|(at, _)| at.since(clock::now().mono)));
        watch.woken(&set)
    }

    fn handle(&mut self, answer: Answer<()>) {
        let (worker, now) = (&mut self.worker, clock::now());
        if let Some(error @ RedisError::NameTaken { .. }) = answer.error() {
            worker.handle_displaced(now, error.to_string());
        }
        match answer {
            Answer::Recovered(lost) => worker.handle_recovered(now, displayed(lost)),
            Answer::Claimed(tasks) => {
                worker.handle_claimed(now, displayed(tasks.map(|tasks| tasks.into_iter().next())));
            }
            Answer::Reported((), reported) => worker.handle_reported(now, displayed(reported.map(dropped))),
            Answer::Renewed(held, lost) => {
                let lost = lost.map(|lost| lost.first().map(|lost| found(&lost.state, &lost.round)));
                worker.handle_renewed(now, held.first(), displayed(lost));
            }
            Answer::Returned((), given_back) => worker.handle_given_back(now, displayed(given_back)),
            Answer::Joined(_) | Answer::Left => {}
        }
    }

    fn prepare(&mut self, task: &Assignment, doubted: bool) {
        if let Err(reason) = self.runner.take(task.clone()) {
            // The start of the program fails for the same reason, which ends the worker.
            log::error!("{reason}");
        }
        match self.fetcher.prepare(task, doubted) {
            Preparation::Present(held) => {
                self.runner.hold(held);
                self.worker.handle_prepared(clock::now(), Ok(()));
            }
            Preparation::Impossible(reason) => self.worker.handle_prepared(clock::now(), Err(reason)),
            Preparation::Fetching(fetch) => {
                self.runner.note(format!("fetching {} from {}", task.program, task.source));
                self.fetch = Some(fetch);
            }
        }
    }

    fn finish_fetch(&mut self) {
        let Some(outcome) = self.fetch.as_ref().and_then(Fetch::poll) else { return };
        self.fetch = None;
        let outcome = match outcome {
            Ok(held) => {
                self.runner.hold(held);
                Ok(())
            }
            Err(error) => Err(complaint(self.runner.program(), &error.to_string())),
        };
        self.worker.handle_prepared(clock::now(), outcome);
    }

    /// The result of this run: the last one, or one that an earlier process has left.
    fn result(&self, fence: &Fence) -> Result<Arc<Finished>, Unread> {
        match &self.finished {
            Some(finished) if finished.fence == *fence => Ok(Arc::clone(finished)),
            _ => self.results.load(fence).map(Arc::new),
        }
    }

    fn report(&mut self, fence: &Fence, claim: Option<u64>) {
        match self.result(fence) {
            Ok(finished) => {
                let claim = claim.map(|number| Call::Claim(number, 1));
                self.calls.ask([Call::Report((), finished)].into_iter().chain(claim).collect());
            }
            // There is nothing to report, and the task is lost with its lease.
            Err(Unread::Removed) => {
                self.worker.handle_reported(clock::now(), Ok(Some("without its result".to_owned())));
            }
            Err(Unread::Unreadable(reason)) => self.worker.handle_unreadable(clock::now(), reason),
        }
    }

    fn keep(&self) {
        let Some(finished) = &self.finished else { return };
        if let Err(error) = self.results.keep(finished) {
            log::error!("the result of task {} cannot be kept on the disk: {error}", finished.fence.task);
        }
    }

    /// Does what the engine has decided. `Some` when the worker is done.
    fn obey(&mut self) -> Option<End> {
        while let Some(effect) = self.worker.poll_effect() {
            match effect {
                Effect::Recover => self.calls.ask(vec![Call::Recover]),
                Effect::Claim(number) => self.calls.ask(vec![Call::Claim(number, 1)]),
                Effect::Renew(fence) => self.calls.ask(vec![Call::Renew(fence.into_iter().collect())]),
                Effect::GiveBack(fence) => self.calls.ask(vec![Call::Return((), fence, false)]),
                Effect::Report { fence, claim } => self.report(&fence, claim),
                Effect::Prepare { task, doubted } => self.prepare(&task, doubted),
                Effect::CancelPreparation => {
                    self.fetch.take().into_iter().for_each(Fetch::cancel);
                    self.worker.handle_prepared(clock::now(), Err("stopped".to_owned()));
                }
                Effect::Start => {
                    let started = self.runner.begin();
                    self.worker.handle_started(clock::now(), started);
                }
                Effect::Signal(signal) => self.runner.commands.signal(signal),
                Effect::CheckTree => self.worker.handle_tree(clock::now(), self.runner.commands.is_any_left()),
                Effect::Collect(outcome) => {
                    self.finished = self.runner.collect(outcome);
                    let has_failed = self.finished.as_ref().is_none_or(|finished| !finished.error.is_empty());
                    self.worker.handle_collected(clock::now(), has_failed);
                }
                Effect::Discard => self.runner.discard(),
                Effect::Keep => self.keep(),
                Effect::Forget(fence) => {
                    self.finished = self.finished.take().filter(|finished| finished.fence != fence);
                    self.results.forget(&fence);
                }
                Effect::Log(note) => log_note(&note),
                Effect::Exit(end) => return Some(end),
            }
        }
        None
    }
}

fn displayed<T>(answer: Result<T, RedisError>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

pub(super) fn dropped(reported: Reported) -> Option<String> {
    match reported {
        Reported::Moved | Reported::Already => None,
        Reported::Gone { state, round } => Some(found(&state, &round)),
    }
}

pub(super) fn found(state: &str, round: &str) -> String {
    if round.is_empty() { state.to_owned() } else { format!("{state}, round {round}") }
}

fn log_note(note: &Note) {
    match note {
        Note::Away(reason) => log::warn!("{reason}; the work in progress goes on, and its result waits"),
        Note::Back => log::info!("Redis answers again"),
        Note::Dropped(task, found) => {
            log::warn!("task {task} is not this worker's any more ({found}): its run is dropped");
        }
        Note::Orphan(task, state) => {
            let state = words::state(*state);
            log::warn!("task {task} was running when a worker of this name died: its run is lost, and it is {state}");
        }
        Note::Unreadable(task, reason) => log::error!(
            "the result of task {task} stays on the disk: {reason}; make it readable for the next start of the worker, or remove it"
        ),
        Note::GivenBack(task) => log::info!("task {task} is given back: it waits again in the same round"),
    }
}
