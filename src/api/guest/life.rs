//! The life of a run as a task of the controller, from its submit to the end of its outputs. A pool and the lists of a controller
//! hold one [`Life`] for each of their runs, ask the questions, and carry out the next step ([`Next`]).
//!
//! | a run is | event | next |
//! |---|---|---|
//! | Finding: an earlier controller may have submitted it | found; not | Waiting, Started or the end; [`Next::Unknown`] |
//! | Asking | accepted; accepted before, with the same key; refused for now; refused for good | Waiting; Looking; Refused; [`Next::Never`] |
//! | Refused | its time | Asking |
//! | Looking | the task as it is; the controller has forgotten it | Waiting, Started or the end; Refused |
//! | Doubtful: it seems to wait, and may have been handed out | an agent has it; its time; it has finished | Started; Waiting; the end |
//! | Waiting | an agent has it; it has finished | Started; the end |
//! | Started | its agent is lost; it has finished | Waiting; the end |
//! | Reading: the end | the outputs are in the result, or are read from the agent | gone |
//!
//! Pulling a waiting run back never ends a program: the task is held, looked at, and killed only if it still waits. An agent that
//! has taken it in the meantime keeps it.

use super::reading::{Progress, Reading};
use super::{Answer, Part, Question, Refusal};
use crate::guest::task::{End, Snapshot, Stage};
use base::{Mono, Now, TaskId};

/// See the [module](self).
#[derive(Debug)]
pub enum Life {
    /// An earlier controller may have submitted it: it is searched for.
    Finding,
    /// Its submit has no answer.
    Asking,
    /// It is to be submitted, for the first time or again.
    Refused,
    /// The controller had the task already, and is asked for its state.
    Looking(TaskId),
    /// It seems to wait, but an earlier controller may have handed it out before that controller was killed.
    Doubtful(TaskId),
    /// No agent has it.
    Waiting {
        /// The task.
        task: TaskId,
        /// The beginning of the wait.
        since: Mono,
        /// The pull in progress, if there is one.
        pull: Option<Pull>,
    },
    /// An agent has it.
    Started(TaskId),
    /// It has finished, and its outputs are read.
    Reading(Box<Reading>),
}

/// A pull in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The reason of the kill, which is stored with the task.
    reason: &'static str,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Holding,
    Looking,
    Killing,
}

/// The next step of the master after an event.
#[derive(Debug, PartialEq)]
pub enum Next<Work, Known> {
    /// Nothing.
    Stay,
    /// Ask this about the run.
    Ask(Question<Work, Known>),
    /// Look for it again.
    Find,
    /// Submit it again: the controller has forgotten the task.
    Submit,
    /// Submit it again later, for this reason.
    SubmitLater(String),
    /// It is refused for good, for this reason.
    Never(String),
    /// It was never submitted.
    Unknown,
    /// The controller has accepted it. True if it had the task already: the run is [`Life::Looking`] then.
    Accepted(TaskId, bool),
    /// It waits for an agent; true if it is held. The master calls [`Life::waits`], unless it knows better.
    Waits(TaskId, bool),
    /// An agent has it.
    Started,
    /// The pull came too late. Release the task, and go on from this state of it.
    Keeps(Snapshot),
    /// It has finished. [`Life::Reading`] follows.
    Finished(TaskId, Box<End>),
    /// [`Reading::question`] says what is read next.
    Read,
    /// As [`Self::Read`], but after [`super::reading::ABSENCE_PAUSE`].
    ReadLater,
}

impl Life {
    /// The task at the controller; `None` before the controller is known to have it, and after it has finished.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Looking(task) | Self::Doubtful(task) | Self::Waiting { task, .. } | Self::Started(task) => {
                Some(*task)
            }
            Self::Finding | Self::Asking | Self::Refused | Self::Reading(_) => None,
        }
    }

    /// Notes that the task waits for an agent from now on.
    pub fn waits(&mut self, now: Now, task: TaskId) {
        *self = Self::Waiting { task, since: now.mono, pull: None };
    }

    /// Begins to pull the task back, if it waits. By the reason, a restarted controller knows that the task has not failed.
    pub fn pull<Work, Known>(&mut self, reason: &'static str) -> Next<Work, Known> {
        let Self::Waiting { task, pull: pull @ None, .. } = self else { return Next::Stay };
        *pull = Some(Pull { reason, step: Step::Holding });
        Next::Ask(Question::Hold(*task, true))
    }

    /// Takes the answer to a question about the run.
    pub fn take_answer<Work, Known>(&mut self, now: Now, answer: Answer) -> Next<Work, Known> {
        match (&mut *self, answer) {
            (Self::Asking, Answer::Submitted(task, is_duplicate)) => {
                if is_duplicate {
                    *self = Self::Looking(task);
                }
                Next::Accepted(task, is_duplicate)
            }
            (Self::Asking, Answer::Refused { reason, refusal: Refusal::Passing }) => {
                *self = Self::Refused;
                Next::SubmitLater(reason)
            }
            (Self::Asking, Answer::Refused { reason, .. }) => Next::Never(reason),
            (Self::Finding, Answer::Refused { refusal: Refusal::Unknown, .. }) => Next::Unknown,
            (Self::Finding, Answer::Refused { .. }) => Next::Find,
            (Self::Looking(_), Answer::Refused { refusal: Refusal::Unknown, .. }) => {
                *self = Self::Refused;
                Next::Submit
            }
            (Self::Looking(task), Answer::Refused { .. }) => Next::Ask(Question::Look(*task)),
            (Self::Finding | Self::Looking(_), Answer::Seen(sight)) => self.take_sight(sight),
            (Self::Waiting { task, pull, .. }, answer) => pulled(*task, pull, answer),
            (Self::Reading(reading), Answer::Part(part)) => read(now, reading, part),
            (Self::Reading(reading), Answer::Refused { reason, refusal }) => {
                let is_absent = refusal == Refusal::Passing;
                let part = Part { offset: 0, bytes: Vec::new(), is_end: true, missing: Some(reason), is_absent };
                read(now, reading, part)
            }
            _ => Next::Stay,
        }
    }

    /// Takes the state of the task, after a change or a look.
    pub fn take_sight<Work, Known>(&mut self, Snapshot { task, is_held, stage }: Snapshot) -> Next<Work, Known> {
        match (stage, &*self) {
            (_, Self::Asking | Self::Refused | Self::Reading(_))
            | (Stage::Waiting, Self::Waiting { .. } | Self::Doubtful(_))
            // A pull is in progress. The answer to its look ends it ([`Next::Keeps`]).
            | (Stage::Started, Self::Waiting { pull: Some(_), .. } | Self::Started(_)) => Next::Stay,
            (Stage::Waiting, _) => Next::Waits(task, is_held),
            (Stage::Started, _) => {
                *self = Self::Started(task);
                Next::Started
            }
            (Stage::Finished(end), _) => Next::Finished(task, end),
        }
    }
}

/// Takes the answer to a step of a pull.
fn pulled<Work, Known>(task: TaskId, pull: &mut Option<Pull>, answer: Answer) -> Next<Work, Known> {
    let Some(Pull { reason, step }) = pull else { return Next::Stay };
    let (next, question) = match (*step, answer) {
        // A refused hold means that the task has finished, which arrives as a change. A refused look means that the controller
        // has no room for the answer.
        (Step::Holding, Answer::Done | Answer::Refused { .. })
        | (Step::Looking, Answer::Refused { refusal: Refusal::Passing, .. }) => (Step::Looking, Question::Look(task)),
        (Step::Looking, Answer::Seen(Snapshot { stage: Stage::Waiting, is_held: true, .. })) => {
            (Step::Killing, Question::Kill(task, reason))
        }
        (Step::Looking, Answer::Seen(Snapshot { stage: Stage::Waiting, .. })) => {
            (Step::Holding, Question::Hold(task, true))
        }
        (Step::Looking, Answer::Seen(sight)) => {
            *pull = None;
            return Next::Keeps(sight);
        }
        _ => return Next::Stay,
    };
    *step = next;
    Next::Ask(question)
}

fn read<Work, Known>(now: Now, reading: &mut Reading, part: Part) -> Next<Work, Known> {
    match reading.take(now, part) {
        Progress::Next => Next::Read,
        Progress::Later => Next::ReadLater,
    }
}
