//! The thread of the pool: one loop between Redis and the controller.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use crate::engine::pool::{Effect, Finished, Pool, Question, RunNumber, Unanswered};
use crate::engine::worker::Assignment;
use crate::shell::calls::{Answer, Call, RedisCalls};
use crate::shell::results::{Results, Unread};
use crate::shell::worker::{dropped, found};
use crate::shell::{RedisError, Wake};
use crate::wire::agents;
use api::guest::questions::Questions;
use api::wire::requests::list::tasks;
use base::tdf::Fence;
use controller::hosted::{ControllerLink, FromController};
use proc::{clock, logging, readable};

/// The numbers of the requests for tasks of an earlier controller; those of the engine are smaller.
const LISTINGS: u64 = 1 << 63;

/// Tasks of one phase that are listed after a start.
const LISTED_MAX: u64 = 1000;

/// The thread.
pub(super) struct PoolThread {
    pool: Pool,
    link: ControllerLink,
    questions: Questions,
    namespace: String,
    finished: BTreeMap<RunNumber, Arc<Finished>>,
    /// Runs whose results an earlier process has left, in the order of their numbers.
    left: Vec<Fence>,
}

impl PoolThread {
    pub(super) fn new(pool: Pool, link: ControllerLink, namespace: String, left: Vec<Fence>) -> Self {
        Self { pool, link, questions: Questions::default(), namespace, finished: BTreeMap::new(), left }
    }

    /// Works until the controller stops.
    pub(super) fn serve(&mut self, calls: &RedisCalls<RunNumber>, mut wake: Wake, results: &Results) {
        loop {
            self.obey(calls, results);
            self.link.wants_agents.store(self.pool.wants_agents(), Ordering::Relaxed);
            logging::write(self.pool.take_log());
            let [answers, renewals] = calls.fds();
            let fds = [self.link.bell.as_fd(), answers, renewals, wake.as_fd()];
            readable::wait(fds, self.pool.poll_timeout().map(|at| at.since(clock::now().mono)));
            if !self.take_messages() {
                break;
            }
            while let Some(answers) = calls.poll() {
                answers.into_iter().for_each(|answer| self.handle(answer));
            }
            if !wake.take().is_empty() {
                self.pool.handle_woken();
            }
            self.pool.handle_timeout(clock::now());
        }
        self.pool.handle_stop();
        self.obey(calls, results);
        calls.leave().into_iter().for_each(|answer| self.handle(answer));
        self.obey(calls, results);
        logging::write(self.pool.take_log());
    }

    /// Takes the messages of the controller; false when it stops.
    fn take_messages(&mut self) -> bool {
        let now = clock::now();
        self.link.bell.take();
        loop {
            match self.link.messages.try_recv() {
                Ok(FromController::Answer(number, body)) if number >= LISTINGS => self.take_listed(&body),
                Ok(FromController::Answer(number, body)) => {
                    if let Some(answer) = self.questions.answer(number, &body) {
                        self.pool.handle_answer(now, number, answer);
                    }
                }
                Ok(FromController::Change(message)) => {
                    if let Some((sight, key)) = agents::of_change(&self.namespace, &message) {
                        self.pool.handle_change(now, sight, &key);
                    }
                }
                Ok(FromController::Freed) => self.pool.handle_freed(),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Tasks that an earlier controller has submitted: those whose runs are lost are killed.
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

    fn handle(&mut self, answer: Answer<RunNumber>) {
        let now = clock::now();
        match answer {
            Answer::Joined(claimed) => {
                let has_joined = claimed.is_ok();
                self.pool.handle_joined(now, claimed.map_err(|error| unanswered(&error)));
                if has_joined {
                    self.list();
                }
            }
            Answer::Claimed(claimed) => {
                self.pool.handle_claimed(now, claimed.map_err(|error| unanswered(&error)));
            }
            Answer::Reported(run, reported) => {
                self.pool.handle_reported(now, run, reported.map(dropped).map_err(|error| unanswered(&error)));
            }
            Answer::Returned(run, returned) => {
                self.pool.handle_returned(now, run, returned.map(drop).map_err(|error| unanswered(&error)));
            }
            Answer::Renewed(fences, lost) => {
                let lost = lost.map(|lost| {
                    let of =
                        |lost: &super::super::LostRun| fences.iter().find(|fence| fence.task == lost.task).cloned();
                    lost.iter().filter_map(|lost| Some((of(lost)?, found(&lost.state, &lost.round)))).collect()
                });
                self.pool.handle_renewed(now, lost.map_err(|error| unanswered(&error)));
            }
            Answer::Recovered(_) | Answer::Left => {}
        }
    }

    /// Asks for all tasks of the job that may still run.
    fn list(&self) {
        for (at, phase) in agents::UNFINISHED.into_iter().enumerate() {
            self.link.ask(LISTINGS + at as u64, tasks(&agents::unfinished(phase), 0, LISTED_MAX).encode());
        }
    }

    fn ask(&mut self, number: u64, question: &Question) {
        let submit = |(task, timeout): &(Box<Assignment>, Option<Duration>)| {
            let Assignment { fence, program, source, input, .. } = &**task;
            agents::Run { fence, program, source, input }.submit(&self.namespace, *timeout)
        };
        let request = self.questions.request(number, question, submit, |never| match *never {});
        self.link.ask(number, request);
    }

    fn result(&self, run: RunNumber, results: &Results) -> Result<Arc<Finished>, Unread> {
        match (self.finished.get(&run), self.of_earlier(run)) {
            (Some(finished), _) => Ok(Arc::clone(finished)),
            (None, Some(fence)) => results.load(fence).map(Arc::new),
            (None, None) => Err(Unread::Removed),
        }
    }

    /// The run of a result that an earlier process has left.
    fn of_earlier(&self, run: RunNumber) -> Option<&Fence> {
        usize::try_from(run).ok().and_then(|at| self.left.get(at))
    }

    fn obey(&mut self, calls: &RedisCalls<RunNumber>, results: &Results) {
        let mut asked = Vec::new();
        while let Some(effect) = self.pool.poll_effect() {
            match effect {
                Effect::Join => asked.push(Call::Join),
                Effect::Claim(number, count) => {
                    asked.push(Call::Claim(number, u32::try_from(count).unwrap_or(u32::MAX)));
                }
                Effect::Renew(fences) => asked.push(Call::Renew(fences)),
                Effect::Return(run, fence, is_loss) => asked.push(Call::Return(run, fence, is_loss)),
                Effect::Ask(number, question) => self.ask(number, &question),
                Effect::Collect(run, ended) => {
                    self.finished.insert(run, Arc::from(ended));
                }
                Effect::Report(run) => match self.result(run, results) {
                    Ok(finished) => asked.push(Call::Report(run, finished)),
                    // The task waits again when its lease has ended.
                    Err(Unread::Removed) => {
                        self.pool.handle_reported(clock::now(), run, Ok(Some("without its result".to_owned())));
                    }
                    Err(Unread::Unreadable(reason)) => self.pool.handle_unreadable(clock::now(), run, &reason),
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
                    let fence = fence.or_else(|| self.of_earlier(run).cloned());
                    fence.into_iter().for_each(|fence| results.forget(&fence));
                }
            }
        }
        calls.ask(asked);
        self.link.flush();
    }
}

fn unanswered(error: &RedisError) -> Unanswered {
    match error {
        RedisError::NameTaken { .. } => Unanswered::Displaced(error.to_string()),
        _ => Unanswered::Away(error.to_string()),
    }
}
