//! From the answers and changes of the controller to the result of a task.

use std::iter::once;

use super::exchange::{Known, Work};
use super::pulling::{LATE, TAKEN_BACK, pull_of};
use super::{Agents, Answer, Current, Life, Next, Question, Reading, Snapshot, Stage, Subject, Timer};
use crate::engine::result::{Output, RunSpan, failed_to_start, not_started, result};
use crate::engine::seconds;
use api::guest::reading::{ABSENCE_PAUSE, Read, STREAMS, is_of_a_signal, sentence};
use api::guest::task::End;
use base::lists::RunningName;
use base::{Now, Outcome, TaskId};

impl Agents {
    /// The answer to a question.
    pub fn handle_answer(&mut self, now: Now, number: u64, answer: Answer) {
        match self.unanswered.remove(&number) {
            Some(Subject::Free) => match answer {
                Answer::Agents { free, .. } => self.free(now, free),
                _ => self.free(now, 0),
            },
            Some(Subject::List(list)) => self.take_answer(now, &list, answer),
            Some(Subject::Order) | None => {}
        }
    }

    fn take_answer(&mut self, now: Now, list: &RunningName, answer: Answer) {
        let Some(current) = self.current(list) else {
            // The list was lost in the meantime.
            if let Answer::Submitted(task, _) = answer {
                self.ask(Subject::Order, Question::Kill(task, TAKEN_BACK));
            }
            return;
        };
        let next = current.life.take_answer(now, answer);
        self.follow(now, list, next);
    }

    pub(super) fn follow(&mut self, now: Now, list: &RunningName, next: Next<Work, Known>) {
        let Some(current) = self.current(list) else { return };
        match next {
            Next::Stay => {}
            Next::Ask(question) => self.ask(Subject::List(list.clone()), question),
            Next::Find => {
                let question = Question::Find((list.clone(), current.order.id));
                self.ask(Subject::List(list.clone()), question);
            }
            Next::Submit => {
                self.tasks.retain(|_, of| of != list);
                self.submit(list);
            }
            Next::SubmitLater(reason) => {
                self.timers.set(Timer::Submit(list.clone()), now.mono + super::SUBMIT_PAUSE);
                if !std::mem::replace(&mut self.is_refused, true) {
                    self.journal.warn(format!("the tasks of {list} are submitted later: {reason}"));
                }
            }
            Next::Never(reason) => {
                let result = failed_to_start(current.order.id, now, &reason);
                self.end(now, list, result);
            }
            Next::Unknown => {
                let result = not_started(&current.order, now);
                self.end(now, list, result);
            }
            Next::Accepted(task, is_duplicate) => self.accepted(now, list, task, is_duplicate),
            Next::Waits(task, is_held) => {
                if is_held && matches!(current.life, Life::Looking(_)) {
                    self.journal.warn(format!(
                        "{task} of the list {list} is held, so that the list waits; llts resume {task} lets it start"
                    ));
                }
                self.tasks.insert(task, list.clone());
                self.waits(now, list, task);
            }
            Next::Started => {
                self.timers.clear(&Timer::Until(list.clone()));
                self.consider_claim();
            }
            Next::Keeps(sight) => {
                if sight.stage == Stage::Started {
                    self.ask(Subject::Order, Question::Hold(sight.task, false));
                }
                self.take_sight(now, list, sight);
            }
            Next::Finished(task, end) => self.finished(now, list, task, end),
            Next::Read => self.read_on(now, list),
            Next::ReadLater => self.timers.set(Timer::Output(list.clone()), now.mono + ABSENCE_PAUSE),
        }
    }

    fn accepted(&mut self, now: Now, list: &RunningName, task: TaskId, is_duplicate: bool) {
        if std::mem::take(&mut self.is_refused) {
            self.journal.info("tasks of lists are accepted again");
        }
        self.tasks.insert(task, list.clone());
        if is_duplicate {
            return self.ask(Subject::List(list.clone()), Question::Look(task));
        }
        self.waits(now, list, task);
    }

    /// The task of a list waits for an agent.
    fn waits(&mut self, now: Now, list: &RunningName, task: TaskId) {
        let Some(current) = self.current(list) else { return };
        let until = current.order.until;
        current.life.waits(now, task);
        self.set_until(now, list, until);
        self.handle_demand(now, self.has_open, self.is_wanted);
    }

    /// A task has changed, or was queried. Tasks of other lists are ignored.
    pub fn handle_change(&mut self, now: Now, sight: Snapshot) {
        if let Some(list) = self.tasks.get(&sight.task).cloned() {
            self.take_sight(now, &list, sight);
        }
    }

    fn take_sight(&mut self, now: Now, list: &RunningName, sight: Snapshot) {
        if let Some(current) = self.current(list) {
            let next = current.life.take_sight(sight);
            self.follow(now, list, next);
        }
    }

    fn finished(&mut self, now: Now, list: &RunningName, task: TaskId, end: Box<End>) {
        self.tasks.remove(&task);
        self.timers.clear(&Timer::Until(list.clone()));
        let Some(current) = self.current(list) else { return };
        if end.outcome == Outcome::Killed && end.started.is_none() {
            match pull_of(end.reason.as_deref()) {
                Some(LATE) => {
                    let result = not_started(&current.order, now);
                    return self.end(now, list, result);
                }
                Some(_) => return self.give_back(now, list),
                None => {}
            }
        }
        let bytes_max = self.output_bytes_max as u64;
        let reading = Reading::new(now, task, end, |length| once(0..length.min(bytes_max)).collect());
        let Some(current) = self.current(list) else { return };
        current.life = Life::Reading(Box::new(reading));
        self.read_on(now, list);
    }

    /// Asks for the next part of an output, or ends the task.
    pub(super) fn read_on(&mut self, now: Now, list: &RunningName) {
        let Some(Current { life: Life::Reading(reading), .. }) = self.current(list) else { return };
        match reading.question() {
            Some(question) => self.ask(Subject::List(list.clone()), question),
            None => self.collected(now, list),
        }
    }

    /// Both outputs have been read.
    fn collected(&mut self, now: Now, list: &RunningName) {
        let bytes_max = self.output_bytes_max;
        let Some(current) = self.current(list) else { return };
        let id = current.order.id;
        let Life::Reading(reading) = std::mem::replace(&mut current.life, Life::Asking) else { return };
        let Read { end, outputs, mut notes } = reading.finish();
        let mut outputs = outputs.into_iter();
        let mut output = |stream| {
            let bytes = outputs.next().unwrap_or_default().concat();
            Output { bytes, length: end.length(stream) }
        };
        let [out, err] = STREAMS.map(&mut output);
        notes.extend(sentence(&end));
        let ended = end.ended.unwrap_or(now.wall);
        let ran = RunSpan { started: seconds(end.started.unwrap_or(ended)), ended: seconds(ended) };
        let result = result(id, ran, end.exit.filter(is_of_a_signal), (out, err), notes, bytes_max);
        self.end(now, list, result);
    }

    /// The task of a list has this result.
    pub(super) fn end(&mut self, now: Now, list: &RunningName, result: crate::wire::TaskResult) {
        self.timers.clear(&Timer::Until(list.clone()));
        if let Some(held) = self.lists.get_mut(list) {
            held.current = None;
        }
        self.report(list, result);
        self.go_on(now, list);
    }
}
