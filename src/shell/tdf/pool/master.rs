//! The thread of the pool: one loop between Redis, the controller and the fetches.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;

use super::line::{Answer, Call, Line};
use crate::engine::hosted::{Answer as Said, Question as Asked, Refusal};
use crate::engine::tdf::pool::{Effect, Ended, Pool, Question, RunNumber, Unanswered};
use crate::engine::tdf::worker::Assignment;
use crate::protocol::requests::list::tasks;
use crate::protocol::tdf::agents;
use crate::shell::clock;
use crate::shell::hosted::questions::Questions;
use crate::shell::hosted::{News, Seam};
use crate::shell::logging;
use crate::shell::readable;
use crate::shell::source::Held;
use crate::shell::tdf::fetch::{Fetch, Fetcher, Preparation, complaint};
use crate::shell::tdf::results::{Finished, Results};
use crate::shell::tdf::worker::{assignment, dropped, found};
use crate::shell::tdf::{LogLine, RedisError, Wake};
use crate::types::tdf::Fence;

/// The numbers of the requests for tasks of earlier times; those of the engine are smaller.
const LISTINGS: u64 = 1 << 63;

/// Tasks of one phase that are looked at after a start.
const LISTED_MAX: u64 = 1000;

/// The thread.
pub(super) struct Master {
    pool: Pool,
    seam: Seam,
    questions: Questions,
    namespace: String,
    /// The folder of all programs.
    folder: String,
    fetches: BTreeMap<RunNumber, (String, Fetch)>,
    /// Programs that stay as they are while their runs go on.
    held: BTreeMap<RunNumber, Held>,
    finished: BTreeMap<RunNumber, Arc<Finished>>,
    /// Runs whose results an earlier process has left, in the order of their numbers.
    left: Vec<Fence>,
}

impl Master {
    pub(super) fn new(pool: Pool, seam: Seam, namespace: String, folder: String, left: Vec<Fence>) -> Self {
        Self {
            pool,
            seam,
            questions: Questions::default(),
            namespace,
            folder,
            fetches: BTreeMap::new(),
            held: BTreeMap::new(),
            finished: BTreeMap::new(),
            left,
        }
    }

    /// Works until the controller stops.
    pub(super) fn serve(&mut self, line: &Line, mut wake: Wake, fetcher: &Fetcher, results: &Results) {
        loop {
            self.obey(line, fetcher, results);
            self.seam.wants_agents.store(self.pool.wants_agents(), Ordering::Relaxed);
            logging::write(self.pool.take_log());
            let mut fds = vec![self.seam.bell.as_fd(), line.as_fd(), wake.as_fd()];
            fds.extend(self.fetches.values().map(|(_, fetch)| fetch.as_fd()));
            readable::wait(fds, self.pool.poll_timeout().map(|at| at.since(clock::now().mono)));
            if !self.take_news() {
                break;
            }
            self.finish_fetches();
            while let Some(answer) = line.poll() {
                self.handle(answer);
            }
            if !wake.take().is_empty() {
                self.pool.handle_woken();
            }
            self.pool.handle_timeout(clock::now());
        }
        self.pool.handle_stop();
        self.obey(line, fetcher, results);
        line.leave().into_iter().for_each(|answer| self.handle(answer));
        self.obey(line, fetcher, results);
        logging::write(self.pool.take_log());
    }

    /// Takes the news of the controller; false when it stops.
    fn take_news(&mut self) -> bool {
        let now = clock::now();
        self.seam.bell.take();
        loop {
            match self.seam.news.try_recv() {
                Ok(News::Answer(number, body)) if number >= LISTINGS => self.take_listed(&body),
                Ok(News::Answer(number, body)) => {
                    if let Some(answer) = self.questions.answer(number, &body) {
                        self.pool.handle_answer(now, number, answer);
                    }
                }
                Ok(News::Change(message)) => {
                    if let Some((sight, key)) = agents::of_change(&self.namespace, &message) {
                        self.pool.handle_change(now, sight, &key);
                    }
                }
                Ok(News::Freed) => self.pool.handle_freed(),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Tasks that an earlier controller has submitted: those whose runs have become others' meanwhile are ended.
    fn take_listed(&mut self, body: &[u8]) {
        match tasks(&agents::all(), 0, 0).decode(body) {
            Ok(listing) => {
                for (sight, key) in listing.rows.iter().filter_map(|task| agents::of_task(&self.namespace, task)) {
                    self.pool.handle_change(clock::now(), sight, &key);
                }
            }
            Err(error) => log::warn!("the tasks of the job {} cannot be listed: {error}", agents::JOB),
        }
    }

    fn finish_fetches(&mut self) {
        let done: Vec<_> =
            self.fetches.iter().filter_map(|(run, (_, fetch))| fetch.poll().map(|outcome| (*run, outcome))).collect();
        for (run, outcome) in done {
            let Some((program, _)) = self.fetches.remove(&run) else { continue };
            let outcome = match outcome {
                Ok(held) => {
                    self.held.insert(run, held);
                    Ok(())
                }
                Err(error) => Err(complaint(&program, &error.to_string())),
            };
            self.pool.handle_prepared(clock::now(), run, outcome);
        }
    }

    fn handle(&mut self, answer: Answer) {
        let now = clock::now();
        let all = |claimed: Vec<_>| claimed.into_iter().map(assignment).collect();
        match answer {
            Answer::Joined(claimed) => {
                let has_joined = claimed.is_ok();
                self.pool.handle_joined(now, claimed.map(all).map_err(|error| unanswered(&error)));
                if has_joined {
                    self.list();
                }
            }
            Answer::Claimed(claimed) => {
                self.pool.handle_claimed(now, claimed.map(all).map_err(|error| unanswered(&error)));
            }
            Answer::Reported(run, reported) => {
                self.pool.handle_reported(now, run, reported.map(dropped).map_err(|error| unanswered(&error)));
            }
            Answer::Returned(run, returned) => {
                self.pool.handle_returned(now, run, returned.map_err(|error| unanswered(&error)));
            }
            Answer::Renewed(fences, lost) => {
                let lost = lost.map(|lost| {
                    let of = |lost: &super::super::Lost| fences.iter().find(|fence| fence.task == lost.task).cloned();
                    lost.iter().filter_map(|lost| Some((of(lost)?, found(&lost.state, &lost.round)))).collect()
                });
                self.pool.handle_renewed(now, lost.map_err(|error| unanswered(&error)));
            }
            Answer::Left => {}
        }
    }

    /// Asks for all tasks of the job that may still run.
    fn list(&self) {
        for (at, phase) in agents::UNFINISHED.into_iter().enumerate() {
            self.seam.ask(LISTINGS + at as u64, tasks(&agents::unfinished(phase), 0, LISTED_MAX).encode());
        }
    }

    fn prepare(&mut self, fetcher: &Fetcher, run: RunNumber, task: &Assignment, doubted: bool) {
        match fetcher.prepare(task, doubted) {
            Preparation::Present(held) => {
                self.held.insert(run, held);
                self.pool.handle_prepared(clock::now(), run, Ok(()));
            }
            Preparation::Impossible(reason) => self.pool.handle_prepared(clock::now(), run, Err(reason)),
            Preparation::Fetching(fetch) => {
                self.fetches.insert(run, (task.program.clone(), fetch));
            }
        }
    }

    fn ask(&mut self, number: u64, question: &Question) {
        let request = if let Asked::Submit((task, timeout)) = question {
            let command = (task.program.as_str(), &task.input[..]);
            match agents::submit(&self.namespace, &task.fence, command, *timeout, &self.folder) {
                Ok(ask) => self.questions.request(number, question, |_| ask, |never| match *never {}),
                Err(reason) => {
                    let refused = Said::Refused { reason: reason.to_owned(), refusal: Refusal::Final };
                    return self.pool.handle_answer(clock::now(), number, refused);
                }
            }
        } else {
            self.questions.request(number, question, |_| unreachable!("it is no submit"), |never| match *never {})
        };
        self.seam.ask(number, request);
    }

    fn result(&self, run: RunNumber, results: &Results) -> Option<Arc<Finished>> {
        let of_earlier = || usize::try_from(run).ok().and_then(|at| self.left.get(at));
        let finished = self.finished.get(&run).cloned();
        finished.or_else(|| of_earlier().and_then(|fence| results.load(fence).ok()).map(Arc::new))
    }

    fn obey(&mut self, line: &Line, fetcher: &Fetcher, results: &Results) {
        while let Some(effect) = self.pool.poll_effect() {
            match effect {
                Effect::Join => line.ask(Call::Join),
                Effect::Claim(number, count) => {
                    line.ask(Call::Claim(number, u32::try_from(count).unwrap_or(u32::MAX)));
                }
                Effect::Renew(fences) => line.ask(Call::Renew(fences)),
                Effect::Return(run, fence, is_loss) => line.ask(Call::Return(run, fence, is_loss)),
                Effect::Prepare { run, task, doubted } => self.prepare(fetcher, run, &task, doubted),
                Effect::Release(run) => {
                    self.held.remove(&run);
                    self.fetches.remove(&run).into_iter().for_each(|(_, fetch)| fetch.cancel());
                }
                Effect::Ask(number, question) => self.ask(number, &question),
                Effect::Collect(run, ended) => {
                    self.finished.insert(run, Arc::new(finished(*ended)));
                }
                Effect::Report(run) => match self.result(run, results) {
                    Some(finished) => line.ask(Call::Report(run, finished)),
                    // A user has removed it: the task waits again when its lease has ended.
                    None => self.pool.handle_reported(clock::now(), run, Ok(Some("without its result".to_owned()))),
                },
                Effect::Keep(run) => {
                    if let Some(finished) = self.finished.get(&run)
                        && let Err(error) = results.keep(finished)
                    {
                        log::error!(
                            "the result of TDF task {} cannot be kept on the disk: {error}",
                            finished.fence.task
                        );
                    }
                }
                Effect::Forget(run) => {
                    let fence = self.finished.remove(&run).map(|finished| finished.fence.clone());
                    let of_earlier = || usize::try_from(run).ok().and_then(|at| self.left.get(at)).cloned();
                    fence.or_else(of_earlier).into_iter().for_each(|fence| results.forget(&fence));
                }
            }
        }
    }
}

fn finished(ended: Ended) -> Finished {
    let Ended { fence, timed_out, output, error, log } = ended;
    let log = log.into_iter().map(|(since_start, text)| LogLine { since_start, text }).collect();
    Finished { fence, timed_out, output, error, log }
}

fn unanswered(error: &RedisError) -> Unanswered {
    match error {
        RedisError::NameTaken { .. } => Unanswered::Displaced(error.to_string()),
        _ => Unanswered::Away(error.to_string()),
    }
}
