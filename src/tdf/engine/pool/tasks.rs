//! A run as a task of the controller: from its submit to its result.

use std::convert::Infallible;
use std::time::Duration;

use super::{
    Answer, Assignment, Effect, Finished, KEEP_AFTER, Life, Next, Now, PULL_AFTER, Pool, Question, Reading, Run,
    RunLine, RunNumber, SUBMIT_PAUSE, State, Subject, TAKEN_BACK, TaskId, Timer, Work,
};
use crate::engine::cut;
use crate::wire::agents;
use api::guest::reading::{ABSENCE_PAUSE, Read, STREAMS, sentence};
use api::guest::task::{End, Snapshot, Stage};
use api::wire::source;
use base::Outcome;

impl State {
    /// Whether no agent has the run.
    pub(super) const fn has_no_agent(&self) -> bool {
        matches!(self, Self::AtController(Life::Asking | Life::Refused | Life::Looking(_) | Life::Waiting { .. }))
    }

    /// The task at the controller, as long as it may run.
    const fn task(&self) -> Option<TaskId> {
        match self {
            Self::AtController(life) => life.task(),
            Self::Reporting { .. } | Self::Returning { .. } => None,
        }
    }
}

impl Pool {
    pub(super) fn submit(&mut self, now: Now, number: RunNumber) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        if !matches!(run.state, State::AtController(Life::Refused)) {
            return;
        }
        let left = run.task.timeout.map(|timeout| timeout.saturating_sub(now.mono.since(run.claimed)));
        if left.is_some_and(|left| left.is_zero()) {
            return self.ended(now, number, Some(Outcome::TimedOut), String::new());
        }
        let Assignment { fence, program, source, input, .. } = &run.task;
        if let Err(sentence) = (agents::Run { fence, program, source, input }).check() {
            return self.ended(now, number, None, format!("{sentence}\n"));
        }
        let line = source::command_line(&run.task.program, &run.task.input);
        let since = now.mono.since(run.claimed);
        let text = format!("executing task: {}", String::from_utf8_lossy(&line));
        run.log = vec![RunLine { since_start: since, text }];
        run.state = State::AtController(Life::Asking);
        let question = Question::Submit((Box::new(run.task.clone()), left));
        self.ask(Subject::Run(number), question);
    }

    pub(super) fn take_answer(&mut self, now: Now, run: RunNumber, answer: Answer) {
        match self.state(run) {
            Some(State::AtController(life)) => {
                let next = life.take_answer(now, answer);
                self.follow(now, run, next);
            }
            Some(State::Reporting { .. } | State::Returning { .. }) => {}
            // The run was lost in the meantime.
            None => {
                if let Answer::Submitted(task, _) = answer {
                    self.kill(task);
                }
            }
        }
    }

    fn follow(&mut self, now: Now, run: RunNumber, next: Next<Work, Infallible>) {
        match next {
            Next::Ask(question) => self.ask(Subject::Run(run), question),
            Next::Submit => {
                self.tasks.retain(|_, of| *of != run);
                self.submit(now, run);
            }
            Next::SubmitLater(reason) => {
                self.timers.set(Timer::Submit(run), now.mono + SUBMIT_PAUSE);
                if !std::mem::replace(&mut self.is_refused, true) {
                    self.journal.warn(format!("TDF tasks are submitted later: {reason}"));
                }
            }
            Next::Never(reason) => {
                self.ended(now, run, None, format!("the controller does not run it: {reason}\n"));
            }
            Next::Accepted(task, is_duplicate) => self.accepted(now, run, task, is_duplicate),
            Next::Waits(task, _) => self.seems_to_wait(now, run, task),
            Next::Started => self.timers.clear(&Timer::Pull(run)),
            Next::Keeps(sight) => {
                if sight.stage == Stage::Started {
                    self.ask(Subject::Order, Question::Hold(sight.task, false));
                }
                self.take_sight(now, run, sight);
            }
            Next::Finished(task, end) => self.finished(now, run, task, end),
            Next::Read => self.read_on(now, run),
            Next::ReadLater => self.timers.set(Timer::Output(run), now.mono + ABSENCE_PAUSE),
            // Every run has its task at the controller.
            Next::Stay | Next::Find | Next::Unknown => {}
        }
    }

    fn accepted(&mut self, now: Now, run: RunNumber, task: TaskId, is_duplicate: bool) {
        if std::mem::take(&mut self.is_refused) {
            self.journal.info("TDF tasks are accepted again");
        }
        self.tasks.insert(task, run);
        if is_duplicate {
            return self.ask(Subject::Run(run), Question::Look(task));
        }
        self.waits(now, run, task);
    }

    fn seems_to_wait(&mut self, now: Now, run: RunNumber, task: TaskId) {
        match self.life(run) {
            Some(life @ Life::Looking(_)) => {
                *life = Life::Doubtful(task);
                self.timers.set(Timer::Pull(run), now.mono + self.silence_max);
            }
            _ => self.waits(now, run, task),
        }
    }

    fn waits(&mut self, now: Now, run: RunNumber, task: TaskId) {
        if let Some(life) = self.life(run) {
            life.waits(now, task);
            self.timers.set(Timer::Pull(run), now.mono + PULL_AFTER);
        }
    }

    /// A task has changed, of the run with this key. The task of a lost run is killed.
    pub fn handle_change(&mut self, now: Now, sight: Snapshot, key: &str) {
        match self.tasks.get(&sight.task) {
            Some(run) => self.take_sight(now, *run, sight),
            None if matches!(sight.stage, Stage::Finished(_)) => {
                self.killed.remove(&sight.task);
            }
            // The answer to the submit is on its way.
            None if self.runs.values().any(|run| agents::key(&run.task.fence) == key) => {}
            None => self.kill(sight.task),
        }
    }

    fn kill(&mut self, task: TaskId) {
        if self.killed.insert(task) {
            self.ask(Subject::Order, Question::Kill(task, TAKEN_BACK));
        }
    }

    fn take_sight(&mut self, now: Now, run: RunNumber, sight: Snapshot) {
        if let Some(life) = self.life(run) {
            let next = life.take_sight(sight);
            self.follow(now, run, next);
        }
    }

    fn finished(&mut self, now: Now, run: RunNumber, task: TaskId, end: Box<End>) {
        self.tasks.remove(&task);
        self.timers.clear(&Timer::Pull(run));
        if let Some((started, ended)) = end.started.zip(end.ended) {
            self.claims.add_time(Duration::from_micros(ended.micros().saturating_sub(started.micros())));
        }
        // The door may not have announced the free agent: it learns late that the pool wants one.
        self.consider_more();
        let is_ours = end.reason.as_deref().is_some_and(|reason| reason.ends_with(TAKEN_BACK));
        if end.outcome == Outcome::Killed && end.started.is_none() && is_ours {
            return self.give_back(run, false);
        }
        if end.outcome == Outcome::Lost {
            self.journal.warn(format!("{task} was lost with its agent"));
            return self.give_back(run, true);
        }
        let bytes_max = self.output_bytes_max;
        let reading = Reading::new(now, task, end, |length| cut::ranges(length, bytes_max));
        if let Some(life) = self.life(run) {
            *life = Life::Reading(Box::new(reading));
        }
        self.read_on(now, run);
    }

    /// Asks for the next part of an output, or ends the run.
    pub(super) fn read_on(&mut self, now: Now, number: RunNumber) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        let State::AtController(life @ Life::Reading(_)) = &mut run.state else { return };
        let Life::Reading(mut reading) = std::mem::replace(life, Life::Asking) else { return };
        if let Some(question) = reading.question() {
            *life = Life::Reading(reading);
            return self.ask(Subject::Run(number), question);
        }
        let (fence, timeouts) = (run.task.fence.clone(), run.task.timeouts);
        let Read { end, outputs, notes } = reading.finish();
        let max = self.output_bytes_max;
        let mut outputs =
            STREAMS.into_iter().zip(outputs).map(|(stream, pieces)| cut::joined(&pieces, end.length(stream), max));
        let (output, mut error) = (outputs.next().unwrap_or_default(), outputs.next().unwrap_or_default());
        let is_timeout = end.outcome == Outcome::TimedOut;
        for note in notes.into_iter().chain(sentence(&end).filter(|_| !is_timeout)) {
            if !error.is_empty() && !error.ends_with(b"\n") {
                error.push(b'\n');
            }
            error.extend(note.into_bytes());
            error.push(b'\n');
        }
        self.collect(
            now,
            number,
            Finished { fence, timed_out: is_timeout.then_some(timeouts), output, error, log: Vec::new() },
        );
    }

    /// A run has ended without a task at the controller.
    fn ended(&mut self, now: Now, number: RunNumber, outcome: Option<Outcome>, error: String) {
        let Some(Run { task, .. }) = self.runs.get(&number) else { return };
        let timed_out = (outcome == Some(Outcome::TimedOut)).then_some(task.timeouts);
        let fence = task.fence.clone();
        self.collect(
            now,
            number,
            Finished { fence, timed_out, output: Vec::new(), error: error.into_bytes(), log: Vec::new() },
        );
    }

    fn collect(&mut self, now: Now, number: RunNumber, mut ended: Finished) {
        let Some(run) = self.runs.get_mut(&number) else { return };
        ended.log = std::mem::take(&mut run.log);
        run.state = State::Reporting { is_calling: false };
        self.timers.set(Timer::Keep(number), now.mono + KEEP_AFTER);
        self.effects.push_back(Effect::Collect(number, Box::new(ended)));
        self.report(now);
    }

    /// Opens the round of a run for other workers.
    pub(super) fn give_back(&mut self, number: RunNumber, is_loss: bool) {
        let Some(state) = self.state(number) else { return };
        *state = State::Returning { is_loss, is_calling: false };
        if !self.outage.is_on() {
            self.call();
        }
    }

    /// Forgets a lost run, and kills its task.
    pub(super) fn forget(&mut self, number: RunNumber) {
        let Some(run) = self.runs.remove(&number) else { return };
        for timer in [Timer::Submit(number), Timer::Pull(number), Timer::Output(number), Timer::Keep(number)] {
            self.timers.clear(&timer);
        }
        self.tasks.retain(|_, of| *of != number);
        run.state.task().into_iter().for_each(|task| self.kill(task));
        self.effects.push_back(Effect::Forget(number));
    }

    /// No agent has taken the run.
    pub(super) fn pull(&mut self, now: Now, run: RunNumber) {
        match self.life(run) {
            Some(Life::Doubtful(task)) => {
                let task = *task;
                self.waits(now, run, task);
            }
            Some(life) => {
                let next = life.pull(TAKEN_BACK);
                self.follow(now, run, next);
            }
            None => {}
        }
    }
}
