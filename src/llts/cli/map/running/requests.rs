//! The requests of a running map, many of which are in progress at once.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use api::wire::client::{Ask, ReplyError, Selector, TaskView};
use api::wire::requests::query::query;
use base::{Mono, TaskId};
use llts_client::{Arrival, ClientError, PARK_MAX, Pipeline, RequestId};

pub(super) struct Requests {
    pipeline: Pipeline,
    unanswered: BTreeMap<RequestId, Subject>,
    /// Reads the answers to queries.
    query: Ask<TaskView>,
}

/// The subject of an unanswered request.
#[derive(Clone, Copy)]
pub(super) enum Subject {
    Submit {
        frame: u64,
    },
    Task {
        number: u64,
    },
    Retry {
        number: u64,
    },
    /// To follow the ends of the job.
    Following,
    /// The next ends of the job.
    Ends,
}

impl Requests {
    pub(super) fn new(pipeline: Pipeline) -> Self {
        Self { pipeline, unanswered: BTreeMap::new(), query: parked_query("") }
    }

    pub(super) fn send<A>(&mut self, subject: Subject, ask: &Ask<A>) {
        let id = self.pipeline.send(ask);
        self.unanswered.insert(id, subject);
    }

    /// Sends a request whose answer changes nothing.
    pub(super) fn send_order<A>(&mut self, ask: &Ask<A>) {
        self.pipeline.send(ask);
    }

    /// Asks for a task; the answer comes when it has finished.
    pub(super) fn watch(&mut self, number: u64, task: TaskId) {
        self.send(Subject::Task { number }, &parked_query(&task.to_string()));
    }

    /// Queries a task as it is now.
    pub(super) fn look(&mut self, number: u64, task: TaskId) {
        self.send(Subject::Task { number }, &query(&Selector::task(&task.to_string()), None));
    }

    /// Takes the subject of a request that was answered.
    pub(super) fn take(&mut self, id: RequestId) -> Option<Subject> {
        self.unanswered.remove(&id)
    }

    pub(super) fn read_task(&self, answer: &[u8]) -> Result<TaskView, ReplyError> {
        self.query.decode(answer)
    }

    pub(super) fn wait(
        &mut self,
        until: Option<Mono>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Vec<bool>, Vec<Arrival>), ClientError> {
        self.pipeline.wait(until, fds)
    }
}

fn parked_query(id: &str) -> Ask<TaskView> {
    query(&Selector::task(id), Some(PARK_MAX))
}
