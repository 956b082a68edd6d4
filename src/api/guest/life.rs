//! The life of a run as a task of the controller, from its submit to the end of its outputs. A pool and the lists of a controller hold
//! one for each of their runs, ask the questions, and carry out what follows ([`Next`]).
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
//! A waiting run is pulled back so that no program is ended by it: it is held, looked at, and killed only if it still waits. An agent
//! that has taken it meanwhile keeps it.

use super::reading::{Progress, Reading};
use super::{Answer, Part, Question, Refusal};
use crate::guest::task::{End, Snapshot, Stage};
use base::{Mono, Now, TaskId};

/// See the [module](self).
#[derive(Debug)]
pub enum Life {
    /// It is looked for.
    Finding,
    /// Its submit has no answer.
    Asking,
    /// Its submit is to be made, or made again.
    Refused,
    /// The controller had it before; how far is it?
    Looking(TaskId),
    /// The controller that got it first may have handed it out before it was killed.
    Doubtful(TaskId),
    /// No agent has it.
    Waiting {
        /// The task.
        task: TaskId,
        /// From when on.
        since: Mono,
        /// The pull that is under way.
        pull: Option<Pull>,
    },
    /// An agent has it.
    Started(TaskId),
    /// It has finished, and its outputs are read.
    Reading(Box<Reading>),
}

/// A pull that is under way.
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

/// What an event asks of the master.
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
    /// The controller has it; with true, it had it before, and the run is [`Life::Looking`].
    Accepted(TaskId, bool),
    /// It waits for an agent, and may be held: [`Life::waits`], unless the master knows better.
    Waits(TaskId, bool),
    /// An agent has it.
    Started,
    /// The pull was too late: let it start, and take this sight of it.
    Keeps(Snapshot),
    /// It has finished; then [`Life::Reading`].
    Finished(TaskId, Box<End>),
    /// [`Reading::question`] says what is read next.
    Read,
    /// The same after [`super::reading::ABSENCE_PAUSE`].
    ReadLater,
}

impl Life {
    /// The task at the controller, as long as it may go on.
    #[must_use]
    pub const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Looking(task) | Self::Doubtful(task) | Self::Waiting { task, .. } | Self::Started(task) => {
                Some(*task)
            }
            Self::Finding | Self::Asking | Self::Refused | Self::Reading(_) => None,
        }
    }

    /// It waits for an agent from here on.
    pub fn waits(&mut self, now: Now, task: TaskId) {
        *self = Self::Waiting { task, since: now.mono, pull: None };
    }

    /// Begins to pull it back, if it waits. The reason tells a restarted controller that the task has not failed.
    pub fn pull<Work, Known>(&mut self, reason: &'static str) -> Next<Work, Known> {
        let Self::Waiting { task, pull: pull @ None, .. } = self else { return Next::Stay };
        *pull = Some(Pull { reason, step: Step::Holding });
        Next::Ask(Question::Hold(*task, true))
    }

    /// The answer to a question about it.
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

    /// The task has changed, or was looked at.
    pub fn take_sight<Work, Known>(&mut self, Snapshot { task, is_held, stage }: Snapshot) -> Next<Work, Known> {
        match (stage, &*self) {
            (_, Self::Asking | Self::Refused | Self::Reading(_))
            | (Stage::Waiting, Self::Waiting { .. } | Self::Doubtful(_))
            // An order to hold it is under way, which its answer takes back.
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

/// The answer to a step of a pull.
fn pulled<Work, Known>(task: TaskId, pull: &mut Option<Pull>, answer: Answer) -> Next<Work, Known> {
    let Some(Pull { reason, step }) = pull else { return Next::Stay };
    let (next, question) = match (*step, answer) {
        // A refusal: it has finished, which is a change of the task, or the controller has no room for the answer.
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
