//! TASK/SUBMIT: accepts a task.

use std::sync::Arc;

use super::{Code, Controller, Refusal, Reply, words};
use crate::protocol::requests::submit::{Parent, Submit};
use crate::protocol::{code, task};
use crate::types::{Acknowledgement, Counts, Now, Phase, Requirements, Round, TaskId, TaskRecord, TaskState, Wall};

impl Controller {
    pub(super) fn submit(&mut self, now: Now, mut submit: Submit) -> Result<Reply, Refusal> {
        if self.stopping {
            return Err(Refusal::new(Code::Stopping, "the controller is stopping; submit again when it is back"));
        }
        let mut warnings = Vec::new();
        // This comes first, so that a repeated submit is compared with the accepted one in the same form.
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
            warnings
                .push(format!("this controller does not know the field {unknown}; it became a parameter of the task"));
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

    /// The task that already belongs to this key, if it was submitted with the same fields (HAZARDS row F7).
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

    /// Whether there is room for one more task with this number of bytes.
    fn check_room(&self, now: Now, submit: &Submit, bytes: usize) -> Result<(), Refusal> {
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        if let Some(trouble) = &self.store_trouble {
            return limit(format!("the task cannot be stored ({trouble}); submit it again later"));
        }
        self.check_queue(&submit.policy.needs, bytes)?;
        match submit.policy.end_before.filter(|at| *at <= now.wall) {
            None => Ok(()),
            Some(at) => {
                let message = format!("{} is {at}, which has passed; use a later moment", words::END_BEFORE);
                Err(Refusal::new(Code::BadField, message))
            }
        }
    }

    /// Whether there is room in the queue for one more task with this number of bytes.
    pub(in crate::engine::controller) fn check_queue(&self, needs: &Requirements, bytes: usize) -> Result<(), Refusal> {
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        let queue = self.tasks.queue();
        if queue.len() >= self.settings.waiting_max {
            return limit(format!("{} tasks wait already (WAITING_TASKS_MAX); try again later", queue.len()));
        }
        let bytes_max = self.settings.waiting_bytes_max;
        if queue.bytes().saturating_add(bytes) > bytes_max {
            return limit(format!(
                "the waiting tasks hold {} bytes already, and this one needs {bytes}; WAITING_BYTES_MAX is {bytes_max}; try \
                 again later, or send large values in files",
                queue.bytes()
            ));
        }
        let other_needs = queue.other_needs(needs);
        // Tasks without gates and tags always get a line, because lines of other tasks do not hold them up.
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

    /// Tells agents that do not park of a task that no agent has taken.
    pub(in crate::engine::controller) fn inform_if_waiting(&mut self, task: TaskId) {
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

    /// Never uses the same microsecond twice, so that the order of ids is the order of submission, whatever the clock does.
    fn new_id(&mut self, wall: Wall) -> TaskId {
        use rand::RngExt as _;
        let micros = wall.micros().max(self.last_id.wall().micros() + 1);
        self.last_id = TaskId::new(Wall::from_micros(micros), self.random.random());
        self.last_id
    }
}
