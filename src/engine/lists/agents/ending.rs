//! From the answers and changes of the controller to the result of a task.

use std::iter::once;

use super::{Agents, Answer, Asked, Current, Part, Question, Refusal, Sight, Stage, State, Timer};
use crate::engine::hosted::reading::{ABSENCE_PAUSE, Progress, Read, Reading, STREAMS, is_of_a_signal, sentence};
use crate::engine::lists::result::{Output, Ran, failed_to_start, not_started, result};
use crate::engine::lists::seconds;
use crate::protocol::hosted::End;
use crate::types::lists::RunningName;
use crate::types::{Now, Outcome, TaskId};

impl Agents {
    /// The answer to a question.
    pub fn handle_answer(&mut self, now: Now, number: u64, answer: Answer) {
        match self.asked.remove(&number) {
            Some(Asked::Free) => match answer {
                Answer::Agents { free, .. } => self.free(now, free),
                _ => self.free(now, 0),
            },
            Some(Asked::List(list)) => self.take_answer(now, &list, answer),
            Some(Asked::Order) | None => {}
        }
    }

    fn take_answer(&mut self, now: Now, list: &RunningName, answer: Answer) {
        let Some(current) = self.current(list) else {
            // The list was taken from us in the meantime.
            if let Answer::Submitted(task, _) = answer {
                self.ask(Asked::Order, Question::Kill(task, super::pulling::TAKEN_BACK));
            }
            return;
        };
        match (&mut current.state, answer) {
            (State::Asking, Answer::Submitted(task, is_duplicate)) => self.accepted(now, list, task, is_duplicate),
            (State::Asking, Answer::Refused { reason, refusal: Refusal::Passing }) => {
                current.state = State::Refused;
                self.timers.set(Timer::Submit(list.clone()), now.mono + super::SUBMIT_PAUSE);
                if !std::mem::replace(&mut self.is_refused, true) {
                    self.journal.warn(format!("the tasks of {list} are submitted later: {reason}"));
                }
            }
            (State::Asking, Answer::Refused { reason, .. }) => {
                let result = failed_to_start(current.order.id, now, &reason);
                self.end(now, list, result);
            }
            (State::Finding, Answer::Refused { refusal: Refusal::Unknown, .. }) => {
                let result = not_started(&current.order, now);
                self.end(now, list, result);
            }
            // The controller has forgotten it since it said that it has it.
            (State::Looking(task), Answer::Refused { refusal: Refusal::Unknown, .. }) => {
                let task = *task;
                current.state = State::Refused;
                self.tasks.remove(&task);
                self.submit(list);
            }
            (State::Finding, Answer::Refused { .. }) => {
                let question = Question::Find((list.clone(), current.order.id));
                self.ask(Asked::List(list.clone()), question);
            }
            (State::Looking(task), Answer::Refused { .. }) => {
                let question = Question::Look(*task);
                self.ask(Asked::List(list.clone()), question);
            }
            (State::Finding, Answer::Seen(sight)) => {
                self.tasks.insert(sight.task, list.clone());
                self.take_sight(now, list, sight);
            }
            (State::Looking(_), Answer::Seen(sight)) => self.take_sight(now, list, sight),
            (State::Waiting { .. } | State::Started(_), answer) => self.pulled(now, list, answer),
            (State::Reading(_), Answer::Part(part)) => self.take_part(now, list, part),
            (State::Reading(_), Answer::Refused { reason, refusal }) => {
                let is_absent = refusal == Refusal::Passing;
                let part = Part { offset: 0, bytes: Vec::new(), is_end: true, missing: Some(reason), is_absent };
                self.take_part(now, list, part);
            }
            _ => {}
        }
    }

    fn accepted(&mut self, now: Now, list: &RunningName, task: TaskId, is_duplicate: bool) {
        if std::mem::take(&mut self.is_refused) {
            self.journal.info("tasks of lists are accepted again");
        }
        self.tasks.insert(task, list.clone());
        if is_duplicate {
            if let Some(current) = self.current(list) {
                current.state = State::Looking(task);
            }
            return self.ask(Asked::List(list.clone()), Question::Look(task));
        }
        self.waits(now, list, task);
    }

    /// The task of a list waits for an agent.
    fn waits(&mut self, now: Now, list: &RunningName, task: TaskId) {
        let Some(current) = self.current(list) else { return };
        let until = current.order.until;
        current.state = State::Waiting { task, since: now.mono, pull: None };
        self.set_until(now, list, until);
        self.handle_demand(now, self.has_open, self.is_wanted);
    }

    /// A task has changed, or was looked at. Tasks that are not of our lists are ignored.
    pub fn handle_change(&mut self, now: Now, sight: Sight) {
        if let Some(list) = self.tasks.get(&sight.task).cloned() {
            self.take_sight(now, &list, sight);
        }
    }

    pub(super) fn take_sight(&mut self, now: Now, list: &RunningName, sight: Sight) {
        let Some(current) = self.current(list) else { return };
        let Sight { task, is_held, stage } = sight;
        match (stage, &current.state) {
            (_, State::Reading(_)) => {}
            (Stage::Waiting, State::Waiting { .. }) => {}
            (Stage::Waiting, state) => {
                if is_held && matches!(state, State::Looking(_)) {
                    self.journal.warn(format!(
                        "{task} of the list {list} is held, so that the list waits; llts resume {task} lets it start"
                    ));
                }
                self.waits(now, list, task);
            }
            (Stage::Started, state) => {
                // An order to hold it is under way, which its answer takes back.
                if !matches!(state, State::Waiting { pull: Some(_), .. }) {
                    current.state = State::Started(task);
                    self.timers.clear(&Timer::Until(list.clone()));
                    self.consider_claim();
                }
            }
            (Stage::Finished(end), _) => self.finished(now, list, task, end),
        }
    }

    fn finished(&mut self, now: Now, list: &RunningName, task: TaskId, end: Box<End>) {
        self.tasks.remove(&task);
        self.timers.clear(&Timer::Until(list.clone()));
        let Some(current) = self.current(list) else { return };
        if end.outcome == Outcome::Killed && end.started.is_none() {
            match super::pulling::why_of(end.reason.as_deref()) {
                Some(super::pulling::Why::Late) => {
                    let result = not_started(&current.order, now);
                    return self.end(now, list, result);
                }
                Some(super::pulling::Why::Wanted) => return self.give_back(now, list),
                None => {}
            }
        }
        let bytes_max = self.output_bytes_max as u64;
        let reading = Reading::new(now, task, end, |length| once(0..length.min(bytes_max)).collect());
        let Some(current) = self.current(list) else { return };
        current.state = State::Reading(Box::new(reading));
        self.read_on(now, list);
    }

    /// Asks for the next part of an output, or ends the task.
    pub(super) fn read_on(&mut self, now: Now, list: &RunningName) {
        let Some(Current { state: State::Reading(reading), .. }) = self.current(list) else { return };
        match reading.question() {
            Some(question) => self.ask(Asked::List(list.clone()), question),
            None => self.collected(now, list),
        }
    }

    fn take_part(&mut self, now: Now, list: &RunningName, part: Part) {
        let Some(Current { state: State::Reading(reading), .. }) = self.current(list) else { return };
        match reading.take(now, part) {
            Progress::Next => self.read_on(now, list),
            Progress::Later => self.timers.set(Timer::Output(list.clone()), now.mono + ABSENCE_PAUSE),
        }
    }

    /// Both outputs have been read.
    fn collected(&mut self, now: Now, list: &RunningName) {
        let bytes_max = self.output_bytes_max;
        let Some(current) = self.current(list) else { return };
        let id = current.order.id;
        let State::Reading(reading) = std::mem::replace(&mut current.state, State::Asking) else { return };
        let Read { end, outputs, mut notes } = reading.finish();
        let mut outputs = outputs.into_iter();
        let mut output = |stream| {
            let bytes = outputs.next().unwrap_or_default().concat();
            Output { bytes, length: end.length(stream) }
        };
        let [out, err] = STREAMS.map(&mut output);
        notes.extend(sentence(&end));
        let ended = end.ended.unwrap_or(now.wall);
        let ran = Ran { started: seconds(end.started.unwrap_or(ended)), ended: seconds(ended) };
        let result = result(id, ran, end.exit.filter(is_of_a_signal), (out, err), notes, bytes_max);
        self.end(now, list, result);
    }

    /// The task of a list has this result.
    pub(super) fn end(&mut self, now: Now, list: &RunningName, result: crate::protocol::lists::TaskResult) {
        self.timers.clear(&Timer::Until(list.clone()));
        if let Some(held) = self.lists.get_mut(list) {
            held.current = None;
        }
        self.report(list, result);
        self.go_on(now, list);
    }
}
