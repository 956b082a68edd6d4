//! What clients ask: submit, kill, query, statistics, lists.

use std::sync::Arc;

use super::Controller;
use super::effect::{Answer, Effect, Ticket, Timer};
use crate::protocol::reply::Reply;
use crate::protocol::request::{self, Parent, Request, Submit};
use crate::protocol::task::{self, Filter};
use crate::protocol::{Code, Refusal, code, words};
use crate::types::{
    Acknowledgement, Counts, KillCause, Mono, Needs, Now, Phase, Round, TaskId, TaskRecord, TaskState, Wall,
};

/// Tasks of one given id that a query looks at without being a search.
const NAMESAKES_MAX: usize = 16;

impl Controller {
    /// Takes a request of a client.
    pub fn handle_request(&mut self, now: Now, ticket: Ticket, request: Request) -> Answer {
        let answer = match request {
            Request::Submit(submit) => answer(self.submit(now, *submit)),
            Request::Kill(task, said) => self.kill_request(now, task, said).into(),
            Request::Query(filter, wait) => self.query(now, ticket, filter, wait.map(|wait| now.mono + wait)),
            Request::AgentQuery => Reply::AgentCounts(self.agents.counts()).into(),
            Request::TaskStatistic => Reply::Statistic(self.tasks.counts()).into(),
            Request::TaskDetails(filter, page) => self.list(now, ticket, filter, page),
            Request::AgentDetails(page) => self.list_agents(now, ticket, page),
            Request::Explain(filter) => self.search_to_explain(now, ticket, filter),
            Request::Retry(task) => answer(self.retry(now, task)),
            Request::Hold(task, hold) => answer(self.hold(now, task, hold)),
            Request::AgentDrain(agent, drain) => answer(self.drain(&agent, drain)),
            Request::GateSet(name, change) => answer(self.set_gate(now, &name, &change)),
            Request::GateQuery(Some(name)) => self.query_gate(now, &name).into(),
            Request::GateQuery(None) => self.list_gates(now, ticket),
        };
        self.settle(now);
        answer
    }

    fn submit(&mut self, now: Now, mut submit: Submit) -> Result<Reply, Refusal> {
        if self.stopping {
            return Err(Refusal::new(Code::Stopping, "the controller is stopping; submit again when it is back"));
        }
        let mut warnings = Vec::new();
        // First, so that the same submit again is compared with what was taken of it.
        self.drop_unknown_parent(&mut submit, &mut warnings);
        if let Some(first) = self.duplicate_of(&submit)? {
            return Ok(Reply::Submitted { task: first, warning: None, duplicate: true });
        }
        let submitted = submit.members();
        self.check_room(now, &submit, size_of::<TaskRecord>() + submitted.len())?;
        if !submit.ignored.is_empty() {
            warnings.push(format!("the service sets {} itself; ignored", submit.ignored.join(", ")));
        }
        if !submit.unknown.is_empty() {
            let unknown = submit.unknown.join(", ");
            warnings.push(format!("this controller knows no field {unknown}; a parameter of the task was made of it"));
        }
        let parent = self.parent(&submit)?;
        let id = self.new_id(now.wall);
        let record = TaskRecord {
            id,
            submitted,
            tool: submit.tool,
            address: submit.address.map(Arc::new),
            parent,
            submitted_at: now.wall,
            round: Round::default(),
            state: TaskState::Waiting { not_before: submit.policy.start_after.filter(|at| *at > now.wall) },
            policy: submit.policy,
            counts: Counts::default(),
            pushes: 0,
            kill: None,
            unconfirmed: false,
            held: None,
            acknowledgement: Acknowledgement::None,
            past: Vec::new(),
        };
        if let Some(parent) = parent {
            self.families.add(id, parent);
        }
        self.tasks.insert(now, record);
        self.dispatch(now);
        self.inform_if_waiting(id);
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        Ok(Reply::Submitted { task: id, warning, duplicate: false })
    }

    /// The task that this key belongs to already, if it was asked for in the same words (HAZARDS row F7).
    fn duplicate_of(&self, submit: &Submit) -> Result<Option<TaskId>, Refusal> {
        let Some(key) = submit.submit_key() else { return Ok(None) };
        let Some(first) = self.tasks.with_submit_key(&key) else { return Ok(None) };
        if !task::is_submitted_as(first, &submit.fields) {
            let message = format!(
                "{} {key} belongs to task {}, which was submitted with other fields; use a key of its own for each task",
                words::SUBMIT_KEY,
                first.id
            );
            return Err(Refusal::new(Code::BadField, message));
        }
        Ok(Some(first.id))
    }

    /// Whether one more task, of so many bytes, can be taken.
    fn check_room(&self, now: Now, submit: &Submit, bytes: usize) -> Result<(), Refusal> {
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        if let Some(trouble) = &self.store_trouble {
            return limit(format!("the task cannot be stored ({trouble}); submit it again later"));
        }
        self.check_queue(&submit.policy.needs, bytes)?;
        match submit.policy.end_before.filter(|at| *at <= now.wall) {
            None => Ok(()),
            Some(at) => {
                let message = format!("{} is {at}, which is over; give a later moment", words::END_BEFORE);
                Err(Refusal::new(Code::BadField, message))
            }
        }
    }

    /// Whether one more task, of so many bytes, can wait.
    pub(super) fn check_queue(&self, needs: &Needs, bytes: usize) -> Result<(), Refusal> {
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        let queue = self.tasks.queue();
        if queue.len() >= self.settings.waiting_max {
            return limit(format!("{} tasks wait already (WAITING_TASKS_MAX); try again later", queue.len()));
        }
        let bytes_max = self.settings.waiting_bytes_max;
        if queue.bytes().saturating_add(bytes) > bytes_max {
            return limit(format!(
                "the tasks that wait hold {} bytes already, and this one needs {bytes}; WAITING_BYTES_MAX is {bytes_max}; try \
                 again later, or send large values in files",
                queue.bytes()
            ));
        }
        let other_needs = queue.other_needs(needs);
        // Tasks without gates and tags always have a line: they are held up by nobody else's.
        let is_plain = needs.gates.is_empty() && needs.tags.is_empty();
        if !is_plain && other_needs >= self.settings.needs_max {
            let (gate, tags, exclusive) = (words::GATE, words::TAGS, words::EXCLUSIVE);
            return limit(format!(
                "tasks with {other_needs} different combinations of {gate}, {tags} and {exclusive} wait already \
                 (WAITING_NEEDS_MAX); try again later"
            ));
        }
        Ok(())
    }

    /// Tells agents that do not park of a task that nobody has taken.
    pub(super) fn inform_if_waiting(&mut self, task: TaskId) {
        if self.tasks.get(task).is_some_and(|record| record.phase() == Phase::Waiting) {
            self.inform();
        }
    }

    /// An unknown parent is dropped with a warning (facts, 1.4).
    fn drop_unknown_parent(&self, submit: &mut Submit, warnings: &mut Vec<String>) {
        let unknown = match &submit.parent {
            None => return,
            Some(Parent::NoTask(text)) => text.clone(),
            Some(Parent::Task(id)) if self.tasks.get(*id).is_none() => id.to_string(),
            Some(Parent::Task(_)) => return,
        };
        let warning = format!("{} {} is unknown; dropped", words::FATHER_ID, code::shown(&unknown));
        log::warn!("{warning}");
        warnings.push(warning);
        submit.forget_parent();
    }

    /// The parent, if it may have children.
    fn parent(&self, submit: &Submit) -> Result<Option<TaskId>, Refusal> {
        let Some(Parent::Task(id)) = submit.parent else { return Ok(None) };
        if self.tasks.get(id).is_some_and(TaskRecord::gets_no_children) {
            let message = format!("{} {id} is ending or has ended: it gets no more children", words::FATHER_ID);
            return Err(Refusal::new(Code::NotAllowed, message));
        }
        Ok(Some(id))
    }

    /// Never the same microsecond twice, so that the order of ids is the order of submission whatever the clock does.
    fn new_id(&mut self, wall: Wall) -> TaskId {
        use rand::RngExt as _;
        let micros = wall.micros().max(self.last_id.wall().micros() + 1);
        self.last_id = TaskId::new(Wall::from_micros(micros), self.random.random());
        self.last_id
    }

    fn kill_request(&mut self, now: Now, task: TaskId, said: Option<Arc<str>>) -> Reply {
        if self.tasks.get(task).is_none() {
            return Reply::Refused(request::no_such_task(&task.to_string()));
        }
        self.kill(now, task, &KillCause::Client(said));
        Reply::Done
    }

    /// An id leads there at once, and so does a given id that few tasks have; anything else is a search.
    fn query(&mut self, now: Now, ticket: Ticket, filter: Filter, wait_until: Option<Mono>) -> Answer {
        let found = match (filter.task_id(), filter.given_id()) {
            (Some(id), _) => {
                let Some(record) = id.and_then(|id| self.tasks.get(id)) else {
                    return Reply::Refused(request::no_such_task(&filter.shown_id())).into();
                };
                filter.matches(record).then_some((record.id, 1))
            }
            (None, Some(given_id)) if self.tasks.with_given_id(given_id, None).nth(NAMESAKES_MAX).is_none() => {
                let mut matches = self.tasks.with_given_id(given_id, None).filter(|record| filter.matches(record));
                matches.next().map(|newest| (newest.id, 1 + matches.count()))
            }
            (None, _) => return self.scan_newest(now, ticket, filter, wait_until),
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
                if let Some(obstacle) = self.waits.obstacle(ticket.connection, self.settings.parked_max) {
                    let message = format!("this query with {} cannot be parked: {obstacle}", words::WAIT);
                    return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
                }
                self.waits.park(ticket, task, matches);
                self.timers.set(Timer::QueryWait(ticket), until);
                Answer::Later
            }
            _ => Reply::Task { record: Box::new(record.clone()), matches }.into(),
        }
    }

    /// Answers those who wait for the end of a task.
    pub(super) fn answer_waiters(&mut self, task: TaskId) {
        for ticket in self.waits.for_task(task) {
            self.answer_waiter(ticket);
        }
    }

    /// Answers one of them with what is known at present.
    pub(super) fn answer_waiter(&mut self, ticket: Ticket) {
        let Some((task, matches)) = self.waits.remove(ticket) else { return };
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

fn answer(outcome: Result<Reply, Refusal>) -> Answer {
    outcome.unwrap_or_else(Reply::Refused).into()
}
