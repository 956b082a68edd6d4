//! The calls to Redis: each is repeated until it is answered.

use super::claims::Counted;
use super::{
    Assignment, Effect, FREE_PAUSE, Fence, Life, Now, POLL_INTERVAL_MAX, Pool, Question, READ_PAUSE, READS_MAX,
    RENEWAL_INTERVAL, REPORT_DELAY_MAX, RETRY_MAX, RETURN_PAUSE, Run, RunNumber, State, Subject, Timer,
};
use base::tdf::TaskId;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Redis is away or refuses, for this reason.
    Away(String),
    /// Another process has the name of this worker.
    Displaced(String),
}

impl Pool {
    /// Makes all calls that are due and have no answer.
    pub(super) fn call(&mut self) {
        // Before the pool has joined, another process may have its name.
        if self.claims.has_joined() {
            self.timers.clear(&Timer::Report);
            for (number, run) in &mut self.runs {
                match &mut run.state {
                    State::Reporting { is_calling: is_calling @ false } => {
                        *is_calling = true;
                        self.effects.push_back(Effect::Report(*number));
                    }
                    State::Returning { is_loss, is_calling: is_calling @ false } => {
                        *is_calling = true;
                        self.effects.push_back(Effect::Return(*number, run.task.fence.clone(), *is_loss));
                    }
                    _ => {}
                }
            }
        }
        // The claim goes behind the reports, with which it shares a round trip.
        self.effects.extend(self.claims.call());
    }

    /// Reports the results that have no answer: at once, or, while short programs queue in the namespace, soon, so that several share
    /// a round trip, which costs Redis, this process and the server about as much as a report.
    pub(super) fn report(&mut self, now: Now) {
        if self.outage.is_on() {
            return;
        }
        if self.claims.has_short_queue() {
            self.timers.set_earlier(Timer::Report, now.mono + REPORT_DELAY_MAX);
        } else {
            self.call();
        }
    }

    /// This process has the name, and takes up these runs of an earlier process.
    pub fn handle_joined(&mut self, now: Now, answer: Result<Vec<Assignment>, Unanswered>) {
        match answer {
            Ok(runs) => {
                self.answered(now);
                if std::mem::take(&mut self.is_displaced) {
                    self.journal.info("the name of this worker is free again");
                }
                self.claims.joined();
                self.timers.set(Timer::Renew, now.mono + RENEWAL_INTERVAL);
                let known: Vec<Fence> = self.runs.values().map(|run| run.task.fence.clone()).collect();
                let runs: Vec<Assignment> = runs.into_iter().filter(|task| !known.contains(&task.fence)).collect();
                if !runs.is_empty() {
                    self.journal.info(format!("{} runs of an earlier process are taken up", runs.len()));
                }
                runs.into_iter().for_each(|task| self.begin(now, task));
                self.call();
                self.consider_claim();
            }
            Err(reason) => {
                self.claims.join();
                self.unanswered(now, reason);
            }
        }
    }

    /// Asks for free agents, unless a claim is under way.
    pub(super) fn consider_claim(&mut self) {
        if !self.outage.is_on() && self.claims.count() {
            self.timers.clear(&Timer::Poll);
            self.timers.clear(&Timer::Free);
            self.ask(Subject::Free, Question::Free);
        }
    }

    /// Claims the next tasks before the last ones have an agent, if there may be more.
    pub(super) fn consider_more(&mut self) {
        if self.lacks_agents() || self.claims.is_due(|| self.waiting()) {
            self.consider_claim();
        }
    }

    /// Runs that no agent has yet.
    fn waiting(&self) -> usize {
        self.runs.values().filter(|run| run.state.has_no_agent()).count()
    }

    pub(super) fn free(&mut self, now: Now, free: usize, busy: usize) {
        match self.claims.counted((free, busy), self.waiting()) {
            // The next end of a run looks again.
            Some(Counted::EnoughAhead) => self.timers.set(Timer::Poll, now.mono + POLL_INTERVAL_MAX),
            Some(Counted::NoneFree(is_stale)) => {
                self.timers.set(Timer::Free, now.mono + FREE_PAUSE);
                if is_stale {
                    self.consider_claim();
                }
            }
            Some(Counted::Claim) => self.call(),
            None => {}
        }
    }

    /// The claimed tasks.
    pub fn handle_claimed(&mut self, now: Now, answer: Result<Vec<Assignment>, Unanswered>) {
        if !self.claims.is_claiming() {
            return;
        }
        match answer {
            Ok(tasks) => {
                self.claims.claimed(tasks.len());
                self.answered(now);
                tasks.into_iter().for_each(|task| self.begin(now, task));
                if self.claims.may_find_more() {
                    self.consider_claim();
                } else {
                    self.timers.set(Timer::Poll, now.mono + POLL_INTERVAL_MAX);
                }
            }
            Err(reason) => {
                self.claims.unanswered();
                self.unanswered(now, reason);
            }
        }
    }

    /// Takes a claimed task, or one of an earlier process.
    fn begin(&mut self, now: Now, task: Assignment) {
        let number = self.next_number();
        self.runs.insert(number, Run::new(task, now.mono, State::AtController(Life::Refused)));
        self.submit(now, number);
    }

    /// Redis has the result, or another state of the task.
    pub fn handle_reported(&mut self, now: Now, run: RunNumber, answer: Result<Option<String>, Unanswered>) {
        let Some(State::Reporting { is_calling }) = self.state(run) else { return };
        *is_calling = false;
        match answer {
            Ok(found) => {
                self.answered(now);
                if let Some(Run { task, .. }) = self.runs.remove(&run)
                    && let Some(found) = found
                {
                    self.log_dropped(task.fence.task, &found);
                }
                self.timers.clear(&Timer::Keep(run));
                self.effects.push_back(Effect::Forget(run));
            }
            Err(reason) => self.unanswered(now, reason),
        }
    }

    /// The kept result of a run cannot be read, for this reason. That may pass; otherwise the task waits again, and the result stays on
    /// the disk for the next process.
    pub fn handle_unreadable(&mut self, now: Now, number: RunNumber, reason: &str) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        run.reads += 1;
        if run.reads < READS_MAX {
            // Until then the report counts as under way, so that the other calls do not hasten it.
            self.timers.set(Timer::Read(number), now.mono + READ_PAUSE);
            return;
        }
        self.journal.error(format!(
            "the result of TDF task {} stays on the disk: {reason}; make it readable for the next start of the controller, or remove it",
            run.task.fence.task
        ));
        self.give_back(number, true);
    }

    pub(super) fn read_again(&mut self, run: RunNumber) {
        if let Some(State::Reporting { is_calling }) = self.state(run) {
            *is_calling = false;
            self.call();
        }
    }

    /// The round of a run waits again, or belongs to another worker.
    pub fn handle_returned(&mut self, now: Now, run: RunNumber, answer: Result<(), Unanswered>) {
        let Some(State::Returning { is_calling, .. }) = self.state(run) else { return };
        *is_calling = false;
        match answer {
            Ok(()) => {
                self.answered(now);
                self.runs.remove(&run);
                // Another worker gets the time to take the task.
                self.timers.set_earlier(Timer::Free, now.mono + RETURN_PAUSE);
            }
            Err(reason) => self.unanswered(now, reason),
        }
    }

    pub(super) fn renew(&mut self) {
        if self.claims.has_joined() {
            let fences = self.runs.values().map(|run| run.task.fence.clone()).collect();
            self.effects.push_back(Effect::Renew(fences));
        }
    }

    /// Leases are renewed; these runs are lost.
    pub fn handle_renewed(&mut self, now: Now, answer: Result<Vec<(Fence, String)>, Unanswered>) {
        let pause = match answer {
            Ok(lost) => {
                if self.has_calls() {
                    // Only an answer to such a call shows the end of the outage: Redis may refuse it alone, because a key has a wrong
                    // type.
                    self.timers.set_earlier(Timer::Retry, now.mono);
                } else {
                    self.answered(now);
                }
                for (fence, found) in lost {
                    let run = self.runs.iter().find(|(_, run)| run.task.fence == fence);
                    // The answer to a report, or to a return, shows the loss of its run. It may be overtaken by this one.
                    let run = run.filter(|(_, run)| matches!(run.state, State::AtController(_)));
                    if let Some(number) = run.map(|(number, _)| *number) {
                        self.log_dropped(fence.task, &found);
                        self.forget(number);
                    }
                }
                RENEWAL_INTERVAL
            }
            Err(reason) => {
                self.unanswered(now, reason);
                self.outage.pause().min(RENEWAL_INTERVAL)
            }
        };
        if self.claims.has_joined() {
            self.timers.set(Timer::Renew, now.mono + pause);
        }
    }

    /// Whether a call that has failed is not answered yet.
    fn has_calls(&self) -> bool {
        let is_call = |run: &Run| matches!(run.state, State::Reporting { .. } | State::Returning { .. });
        let is_claiming = !self.claims.has_joined() || self.claims.is_claiming();
        self.outage.is_on() && (is_claiming || self.runs.values().any(is_call))
    }

    fn log_dropped(&mut self, task: TaskId, found: &str) {
        self.journal.warn(format!("TDF task {task} is not this controller's any more ({found}): its run is dropped"));
    }

    fn answered(&mut self, now: Now) {
        if self.outage.end() {
            self.journal.info("Redis answers again");
            // Pending calls need not wait longer.
            self.timers.set(Timer::Retry, now.mono);
            self.consider_claim();
        }
    }

    fn unanswered(&mut self, now: Now, reason: Unanswered) {
        match reason {
            Unanswered::Displaced(reason) => {
                if !std::mem::replace(&mut self.is_displaced, true) {
                    self.journal.error(format!("{reason}; no TDF task is run until then"));
                }
                // The other process has found the runs of this one in Redis, and continues them.
                let mine = self.runs.iter().filter(|(_, run)| !matches!(run.state, State::Reporting { .. }));
                let mine: Vec<RunNumber> = mine.map(|(number, _)| *number).collect();
                mine.into_iter().for_each(|run| self.forget(run));
                self.claims.join();
                self.timers.clear(&Timer::Renew);
                self.timers.set(Timer::Retry, now.mono + RETRY_MAX);
            }
            Unanswered::Away(reason) => {
                let (pause, is_new) = self.outage.fail(now.mono, &reason);
                if is_new {
                    self.journal.warn(format!("{reason}; the work in progress goes on, and its results wait"));
                }
                self.timers.set_earlier(Timer::Retry, now.mono + pause);
            }
        }
    }
}
