//! The verbs of a client, thin over the requests of the service.

use std::env;
use std::time::Duration;
use std::vec;

use api::wire::client::{Ask, Listing, Selector, TaskView};
use api::wire::requests;
use api::wire::requests::agents::AgentRow;
use api::wire::requests::explain::{Explanation, explain};
use api::wire::requests::gate::{GateRow, gates};
use api::wire::requests::graph::{self, GraphAnswer, GraphSubmitted};
use api::wire::requests::hold::hold;
use api::wire::requests::job::{self, JobAnswer};
use api::wire::requests::kill::{Killed, kill};
use api::wire::requests::list::{tasks, tasks_before};
use api::wire::requests::query::query;
use api::wire::requests::retry::retry;
use api::wire::requests::stats::{self, Stats};
use api::wire::requests::submit::many::{SubmittedMany, submit_many};
use api::wire::requests::submit::{Submission, Submitted};
use base::{Fields, Mono, Stream};
use proc::{clock, lending};

use crate::client::{Client, ClientError, Waited};
use crate::named::Named;
use crate::output::Output;

/// The start of the keys that a client makes for submits without one.
const OWN_KEY: &str = "llts ";

/// Entries of one page of a list.
const PAGE: u64 = 1000;

/// Tasks of one frame of submits. Every service accepts as many, unless its SUBMIT_MANY_MAX was lowered.
const FRAME_TASKS_MAX: usize = 250;

/// Bytes of one frame of submits, below the SUBMIT_BYTES_MAX of a service.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// A key for one submit: it can be repeated after a lost answer, and makes one task all the same.
#[must_use]
pub fn own_key() -> String {
    format!("{OWN_KEY}{:032x}", rand::random::<u128>())
}

/// Tasks and jobs and graphs. A task is named by its id.
impl Client {
    /// Connects to the service that `llts` would use here: see [`Named`], by which a program chooses another one.
    ///
    /// # Errors
    /// [`ClientError`], when there is none, or its keys cannot be used.
    pub fn here() -> Result<Self, ClientError> {
        Named::default().client()
    }

    /// Submits a task, and returns when it is accepted, which is then on disk.
    ///
    /// A submission without a key gets one, so that a submit whose answer is lost is sent again and makes one task.
    ///
    /// # Errors
    /// [`ClientError`]. After [`ClientError::NoController`] the task may have been accepted: with a key of its own, a program can submit
    /// it again.
    pub fn submit(&self, submission: &Submission) -> Result<Submitted, ClientError> {
        let prepared = self.prepared(submission);
        let mut submitted = self.ask_repeatably(&prepared.request())?;
        // Only a repetition of this one has the same key.
        submitted.duplicate &= !is_own(&prepared);
        Ok(submitted)
    }

    /// Submits tasks, and returns when all are accepted. They travel in frames of up to 250. A warning names a task by its number in its
    /// frame, from 0 on.
    ///
    /// # Errors
    /// As [`Self::submit`]; a refusal names a task in the same way. The tasks of a frame are accepted all or not at all; those of the
    /// frames before it have been accepted.
    pub fn submit_many(&self, submissions: &[Submission]) -> Result<SubmittedMany, ClientError> {
        let mut all = SubmittedMany::default();
        let prepared: Vec<Submission> = submissions.iter().map(|submission| self.prepared(submission)).collect();
        let mut rest = prepared.as_slice();
        while !rest.is_empty() {
            let (frame, next) = rest.split_at(frame_len(rest));
            let mut answer = self.ask_repeatably(&submit_many(frame, &Fields::new()))?;
            answer.duplicates.retain(|at| frame.get(*at).is_some_and(|task| !is_own(task)));
            append(&mut all, answer);
            rest = next;
        }
        Ok(all)
    }

    fn prepared(&self, submission: &Submission) -> Submission {
        let mut prepared = submission.clone();
        prepared.submit_key.get_or_insert_with(own_key);
        prepared.parent = prepared.parent.or_else(|| self.parent().map(str::to_owned));
        prepared
    }

    /// The present state of a task.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn query(&self, task: &str) -> Result<TaskView, ClientError> {
        self.ask_repeatably(&query(&Selector::task(task), None))
    }

    /// Waits until a task has finished, however it ends: its state at the end. Inside a task, it lends the slot of that task meanwhile.
    ///
    /// # Errors
    /// [`ClientError`]. The task goes on.
    pub fn wait(&self, task: &str) -> Result<TaskView, ClientError> {
        self.waited(task, None)
    }

    /// The same for at most so long: `None` if the task goes on then.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn wait_timeout(&self, task: &str, timeout: Duration) -> Result<Option<TaskView>, ClientError> {
        let state = self.waited(task, Some(clock::now().mono + timeout))?;
        Ok(Some(state).filter(TaskView::is_finished))
    }

    fn waited(&self, task: &str, until: Option<Mono>) -> Result<TaskView, ClientError> {
        if env::var_os(lending::VARIABLE).is_some() {
            // A wait that ends at once lends nothing: the supervisor would start an agent for it.
            let state = self.query(task)?;
            if state.is_finished() {
                return Ok(state);
            }
        }
        let _lent = lending::lend_for_now();
        match self.wait_for_task(&Selector::task(task), until, None)? {
            Waited::Finished(task) | Waited::Expired(task) => Ok(task),
            Waited::Interrupted => unreachable!("a wait without an interrupt was interrupted"),
        }
    }

    /// Ends a task. It has finished when [`Self::wait`] returns. The reason is for people who want to know why it ended.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn kill(&self, task: &str, reason: &str) -> Result<Killed, ClientError> {
        self.ask_repeatably(&kill(task, reason))
    }

    /// Runs a finished task again, with fresh budgets. It is sent once: after [`ClientError::NoController`] it may have been carried out.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn retry(&self, task: &str) -> Result<(), ClientError> {
        self.ask(&retry(task))
    }

    /// Keeps a task from starting.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn hold(&self, task: &str) -> Result<(), ClientError> {
        self.ask_repeatably(&hold(task, true))
    }

    /// Lets a held task start.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn release(&self, task: &str) -> Result<(), ClientError> {
        self.ask_repeatably(&hold(task, false))
    }

    /// What a task does or waits for, or why it ended as it did.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn explain(&self, task: &str) -> Result<Explanation, ClientError> {
        self.ask_repeatably(&explain(task))
    }

    /// The selected tasks that the service knows, newest first, page by page: `client.list(&Selector::all().and_phase(Phase::Running))`.
    #[must_use]
    pub fn list(&self, selector: &Selector) -> Tasks<'_> {
        Tasks { client: self, selector: selector.clone(), page: Vec::new().into_iter(), last: None, has_more: true }
    }

    /// An output of the newest round of a task, from its first byte to its present end. [`Output::follow`] waits for the rest.
    #[must_use]
    pub fn logs(&self, task: &str, stream: Stream) -> Output<'_> {
        Output::new(self, task, stream)
    }

    /// A job: how many of its tasks are in which phase, and how they ended.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn job(&self, name: &str) -> Result<JobAnswer, ClientError> {
        self.ask_repeatably(&job::query(name, None))
    }

    /// All jobs, newest first.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn jobs(&self) -> Result<Vec<JobAnswer>, ClientError> {
        self.all(job::jobs)
    }

    /// Submits a graph: its document, in JSON or TOML.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_graph(&self, document: &str) -> Result<GraphSubmitted, ClientError> {
        self.ask_repeatably(&graph::submit_as(document, None, Some(&own_key()), None))
    }

    /// The present state of a graph. [`Self::wait_for_graph`] waits for its end.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn graph(&self, graph: &str) -> Result<GraphAnswer, ClientError> {
        self.ask_repeatably(&graph::query(graph, None))
    }

    /// All graphs, newest first.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn graphs(&self) -> Result<Vec<GraphAnswer>, ClientError> {
        self.all(graph::graphs)
    }
}

/// The service.
impl Client {
    /// The number of tasks in each phase.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn stats(&self) -> Result<Stats, ClientError> {
        self.ask_repeatably(&stats::service())
    }

    /// All agents.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn agents(&self) -> Result<Vec<AgentRow>, ClientError> {
        self.all(requests::agents::agents)
    }

    /// All gates that are set or that a task names. [`requests::gate::set`] sets one.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn gates(&self) -> Result<Vec<GateRow>, ClientError> {
        Ok(self.ask_repeatably(&gates())?.rows)
    }

    /// Every entry of a list that comes in pages, such as `client.all(requests::tool::list)`.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn all<T>(&self, page: impl Fn(u64, u64) -> Ask<Listing<T>>) -> Result<Vec<T>, ClientError> {
        let mut all = Vec::new();
        loop {
            let Listing { total, rows } = self.ask_repeatably(&page(all.len() as u64, PAGE))?;
            let is_last = rows.is_empty();
            all.extend(rows);
            if is_last || all.len() as u64 >= total {
                return Ok(all);
            }
        }
    }
}

/// Tasks, newest first: see [`Client::list`]. It ends behind the first error.
#[derive(Debug)]
pub struct Tasks<'a> {
    client: &'a Client,
    selector: Selector,
    page: vec::IntoIter<TaskView>,
    /// The last task of the page. The next one begins behind it, so tasks that are submitted meanwhile do not move it.
    last: Option<String>,
    has_more: bool,
}

impl Iterator for Tasks<'_> {
    type Item = Result<TaskView, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 && self.has_more {
            let ask = match &self.last {
                None => tasks(&self.selector, 0, PAGE),
                Some(last) => tasks_before(&self.selector, last, PAGE),
            };
            match self.client.ask_repeatably(&ask) {
                Ok(Listing { rows, .. }) => {
                    self.has_more = !rows.is_empty();
                    self.page = rows.into_iter();
                }
                Err(error) => {
                    self.has_more = false;
                    return Some(Err(error));
                }
            }
        }
        let task = self.page.next()?;
        if self.page.len() == 0 {
            self.last = Some(task.id().to_owned());
        }
        Some(Ok(task))
    }
}

/// Whether a client has made the key of a submission.
fn is_own(submission: &Submission) -> bool {
    submission.submit_key.as_deref().is_some_and(|key| key.starts_with(OWN_KEY))
}

/// Adds the answer to the next frame, whose duplicates are counted from its beginning.
fn append(all: &mut SubmittedMany, answer: SubmittedMany) {
    all.duplicates.extend(answer.duplicates.into_iter().map(|at| at + all.ids.len()));
    all.ids.extend(answer.ids);
    all.warning = match (all.warning.take(), answer.warning) {
        (Some(before), Some(warning)) => Some(format!("{before}; {warning}")),
        (before, warning) => before.or(warning),
    };
}

/// The number of tasks of the next frame, of at least one.
fn frame_len(rest: &[Submission]) -> usize {
    let mut bytes = 0;
    let fits = |submission: &&Submission| {
        bytes += submission.request().encode().len();
        bytes <= FRAME_BYTES_MAX
    };
    rest.iter().take(FRAME_TASKS_MAX).take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_bounded_by_its_tasks_and_its_bytes() {
        let tasks = |count: usize, bytes: usize| vec![Submission::new("t").with("x", "x".repeat(bytes)); count];
        assert_eq!(frame_len(&tasks(3, 1)), 3);
        assert_eq!(frame_len(&tasks(FRAME_TASKS_MAX + 1, 1)), FRAME_TASKS_MAX);
        assert_eq!(frame_len(&tasks(9, FRAME_BYTES_MAX / 4)), 3, "their own bytes and those of their other fields");
        assert_eq!(frame_len(&tasks(2, FRAME_BYTES_MAX)), 1, "the service refuses it with a sentence of its own");
    }

    #[test]
    fn answers_to_several_frames_are_put_together_with_every_warning() {
        let answer = |id: &str, warning: Option<&str>| SubmittedMany {
            ids: vec![id.to_owned()],
            duplicates: vec![0],
            warning: warning.map(str::to_owned),
        };
        let mut all = SubmittedMany::default();
        for (id, warning) in [("a", None), ("b", Some("0: one")), ("c", None), ("d", Some("0: two"))] {
            append(&mut all, answer(id, warning));
        }
        assert_eq!((all.ids.concat().as_str(), all.duplicates), ("abcd", vec![0, 1, 2, 3]));
        assert_eq!(all.warning.as_deref(), Some("0: one; 0: two"));
    }
}
