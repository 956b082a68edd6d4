//! The questions of a master as requests to its controller, and the replies as answers.

use std::collections::BTreeMap;

use crate::guest::task::{Snapshot, reading_submit};
use crate::guest::{Answer, Part, Question, Refusal};
use crate::wire::client::{Ask, ReplyError, Selector, TaskView};
use crate::wire::requests::hold::hold;
use crate::wire::requests::kill::kill;
use crate::wire::requests::logs::{ABSENT, OutputView, output};
use crate::wire::requests::query::query;
use crate::wire::requests::stats;
use crate::wire::requests::submit::Submitted;
use base::Stream;

/// The questions without an answer yet.
#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<u64, Kind>,
}

/// How the answer to a question is read.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Free,
    Submit,
    Task,
    Order,
    Output,
}

impl Questions {
    /// The request for a question. `submit` and `find` make the requests that differ between masters.
    pub fn request<Work, Known>(
        &mut self,
        number: u64,
        question: &Question<Work, Known>,
        submit: impl FnOnce(&Work) -> Ask<Submitted>,
        find: impl FnOnce(&Known) -> Selector,
    ) -> Vec<u8> {
        let (kind, request) = match question {
            Question::Free => (Kind::Free, stats::agents().encode()),
            Question::Submit(work) => (Kind::Submit, submit(work).encode()),
            Question::Find(known) => (Kind::Task, query(&find(known), None).encode()),
            Question::Look(task) => (Kind::Task, query(&Selector::task(&task.to_string()), None).encode()),
            Question::Hold(task, is_held) => (Kind::Order, hold(&task.to_string(), *is_held).encode()),
            Question::Kill(task, reason) => (Kind::Order, kill(&task.to_string(), reason).encode()),
            Question::Output { task, round, stream, offset, bytes_max } => {
                let ask = output(&Selector::task(&task.to_string()), *stream, *offset, None);
                (Kind::Output, ask.in_round(*round).at_most(*bytes_max).encode())
            }
        };
        self.open.insert(number, kind);
        request
    }

    /// The answer in a reply; `None` if no question has this number.
    pub fn answer(&mut self, number: u64, reply: &[u8]) -> Option<Answer> {
        let answer = match self.open.remove(&number)? {
            Kind::Free => {
                stats::agents().decode(reply).map(|counts| Answer::Agents { free: counts.free, busy: counts.busy })
            }
            Kind::Submit => reading_submit().decode(reply).and_then(|reply| submitted(&reply)),
            Kind::Task => query(&Selector::all(), None).decode(reply).and_then(|task| seen(&task)),
            Kind::Order => hold("", false).decode(reply).map(|()| Answer::Done),
            Kind::Output => {
                output(&Selector::all(), Stream::Stdout, 0, None).decode(reply).map(|part| read_part(&part))
            }
        };
        Some(answer.unwrap_or_else(|error| refused(&error)))
    }
}

fn submitted(submitted: &Submitted) -> Result<Answer, ReplyError> {
    let task =
        submitted.id.parse().map_err(|error| ReplyError::Malformed(format!("the reply has no task: {error}")))?;
    Ok(Answer::Submitted(task, submitted.duplicate))
}

fn seen(task: &TaskView) -> Result<Answer, ReplyError> {
    let unreadable = || ReplyError::Malformed("the reply has no task".to_owned());
    Snapshot::of(task).map(Answer::Seen).ok_or_else(unreadable)
}

fn read_part(part: &OutputView) -> Answer {
    let missing = part.missing().map(str::to_owned);
    let is_absent = missing.as_ref().is_some_and(|why| why.ends_with(ABSENT));
    Answer::Part(Part { offset: part.offset(), bytes: part.data(), is_end: part.is_end(), missing, is_absent })
}

fn refused(error: &ReplyError) -> Answer {
    let refusal = match error {
        error if error.is_no_such_task() => Refusal::Unknown,
        error if error.is_limit() || error.is_stopping() => Refusal::Passing,
        _ => Refusal::Final,
    };
    Answer::Refused { reason: error.to_string(), refusal }
}
