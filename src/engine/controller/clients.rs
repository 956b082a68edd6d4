//! What clients ask: submit, kill, query, statistics, lists.

use std::sync::Arc;

use super::Controller;
use super::effect::{Answer, Effect, Ticket, Timer};
use crate::protocol::reply::Reply;
use crate::protocol::request::{self, Page, Parent, Request, Submit};
use crate::protocol::task::{self, Filter};
use crate::protocol::{Code, Refusal, code, words};
use crate::types::{KillCause, Mono, Now, Phase, Round, TaskId, TaskRecord, TaskState, Wall};

impl Controller {
    /// Takes a request of a client.
    pub fn handle_request(&mut self, now: Now, ticket: Ticket, request: Request) -> Answer {
        match request {
            Request::Submit(submit) => self.submit(now, *submit).unwrap_or_else(Reply::Refused).into(),
            Request::Kill(task) => self.kill_request(now, task).into(),
            Request::Query(filter, wait) => self.query(now, ticket, filter, wait.map(|wait| now.mono + wait)),
            Request::AgentQuery => Reply::AgentCounts(self.agents.counts()).into(),
            Request::TaskStatistic => Reply::Statistic(self.tasks.counts()).into(),
            Request::TaskDetails(filter, page) => self.list(now, ticket, filter, page),
            Request::AgentDetails(Page { offset, limit }) => {
                let limit = self.page_limit(limit);
                Reply::Agents { agents: self.agents.page(offset, limit), total: self.agents.len() }.into()
            }
        }
    }

    fn submit(&mut self, now: Now, mut submit: Submit) -> Result<Reply, Refusal> {
        if self.stopping {
            return Err(Refusal::new(Code::Stopping, "the controller is stopping; submit again when it is back"));
        }
        if let Some(trouble) = &self.store_trouble {
            let message = format!("the task cannot be stored ({trouble}); submit it again later");
            return Err(Refusal::new(Code::LimitReached, message));
        }
        if self.tasks.waiting() >= self.settings.waiting_max {
            let message =
                format!("{} tasks wait already (WAITING_TASKS_MAX); submit again later", self.tasks.waiting());
            return Err(Refusal::new(Code::LimitReached, message));
        }
        let mut warnings = Vec::new();
        if !submit.ignored.is_empty() {
            warnings.push(format!("the service sets {} itself; ignored", submit.ignored.join(", ")));
        }
        let parent = self.parent(&mut submit, &mut warnings)?;
        let id = self.new_id(now.wall);
        let record = TaskRecord {
            id,
            submitted: submit.members(),
            tool: submit.tool,
            address: submit.address.map(Arc::new),
            parent,
            submitted_at: now.wall,
            round: Round::default(),
            losses: 0,
            losses_max: submit.losses_max.unwrap_or(self.settings.losses_max),
            pushes: 0,
            kill: None,
            state: TaskState::Waiting,
        };
        if let Some(parent) = parent {
            self.families.add(id, parent);
        }
        let given_id = task::given_id(&record);
        self.tasks.insert(record, given_id);
        self.dispatch(now);
        if self.tasks.get(id).is_some_and(|record| record.phase() == Phase::Waiting) {
            self.inform();
        }
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        Ok(Reply::Submitted { task: id, warning })
    }

    /// The parent, if it may have children. An unknown one is dropped with a warning (facts, 1.4).
    fn parent(&self, submit: &mut Submit, warnings: &mut Vec<String>) -> Result<Option<TaskId>, Refusal> {
        let parent = match &submit.parent {
            None => return Ok(None),
            Some(Parent::NoTask(text)) => Err(text.clone()),
            Some(Parent::Task(id)) => self.tasks.get(*id).ok_or_else(|| id.to_string()),
        };
        match parent {
            Ok(parent) if parent.phase() >= Phase::Ended || parent.kill.is_some() => {
                let message =
                    format!("{} {} is ending or has ended: it gets no more children", words::FATHER_ID, parent.id);
                Err(Refusal::new(Code::NotAllowed, message))
            }
            Ok(parent) => Ok(Some(parent.id)),
            Err(unknown) => {
                let warning = format!("{} {} is unknown; dropped", words::FATHER_ID, code::shown(&unknown));
                log::warn!("{warning}");
                warnings.push(warning);
                submit.forget_parent();
                Ok(None)
            }
        }
    }

    /// Never the same microsecond twice, so that the order of ids is the order of submission whatever the clock does.
    fn new_id(&mut self, wall: Wall) -> TaskId {
        use rand::RngExt as _;
        let micros = wall.micros().max(self.last_id.wall().micros() + 1);
        self.last_id = TaskId::new(Wall::from_micros(micros), self.random.random());
        self.last_id
    }

    fn kill_request(&mut self, now: Now, task: TaskId) -> Reply {
        if self.tasks.get(task).is_none() {
            return Reply::Refused(request::no_such_task(&task.to_string()));
        }
        self.kill(now, task, KillCause::Client);
        Reply::Done
    }

    /// An id or a given id leads there at once; anything else is looked for slice by slice.
    fn query(&mut self, now: Now, ticket: Ticket, filter: Filter, wait_until: Option<Mono>) -> Answer {
        let found = match (filter.task_id(), filter.given_id()) {
            (Some(id), _) => {
                let Some(record) = id.and_then(|id| self.tasks.get(id)) else {
                    let shown = id.map_or_else(|| "of that id".to_owned(), |id| id.to_string());
                    return Reply::Refused(request::no_such_task(&shown)).into();
                };
                filter.matches(record).then_some((record.id, 1))
            }
            (None, Some(given_id)) => {
                let mut matches = self.tasks.with_given_id(given_id).filter(|record| filter.matches(record));
                matches.next().map(|newest| (newest.id, 1 + matches.count()))
            }
            (None, None) => return self.scan_newest(now, ticket, filter, wait_until),
        };
        self.found(ticket, found, wait_until)
    }

    /// Answers a query, or parks it until the task has finished.
    pub(super) fn found(&mut self, ticket: Ticket, found: Option<(TaskId, usize)>, wait_until: Option<Mono>) -> Answer {
        let Some((task, matches)) = found else {
            return Reply::Refused(Refusal::new(Code::InvalidTaskId, "no task matches all fields of the query")).into();
        };
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} was found and is gone") };
        match wait_until {
            Some(until) if record.phase() < Phase::Finished => {
                if self.waits.len() >= self.settings.parked_max {
                    let message = format!("{} queries with {} are parked already", self.waits.len(), words::WAIT);
                    return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
                }
                self.waits.insert(ticket, (task, matches));
                self.waiters.insert((task, ticket));
                self.timers.set(Timer::QueryWait(ticket), until);
                Answer::Later
            }
            _ => Reply::Task { record: Box::new(record.clone()), matches }.into(),
        }
    }

    /// Answers those who wait for the end of a task.
    pub(super) fn answer_waiters(&mut self, task: TaskId) {
        let waiters = self.waiters.range((task, Ticket(0))..=(task, Ticket(u64::MAX)));
        for (_, ticket) in waiters.copied().collect::<Vec<_>>() {
            self.answer_waiter(ticket);
        }
    }

    /// Answers one of them with what is known at present.
    pub(super) fn answer_waiter(&mut self, ticket: Ticket) {
        let Some((task, matches)) = self.waits.remove(&ticket) else { return };
        self.waiters.remove(&(task, ticket));
        self.timers.clear(&Timer::QueryWait(ticket));
        let reply = match self.tasks.get(task) {
            Some(record) => Reply::Task { record: Box::new(record.clone()), matches },
            None => Reply::Refused(request::no_such_task(&task.to_string())),
        };
        self.tasks.effects.push_back(Effect::Reply(ticket, reply));
    }

    pub(super) fn page_limit(&self, limit: Option<usize>) -> usize {
        limit.unwrap_or(usize::MAX).min(self.settings.page_max)
    }
}
