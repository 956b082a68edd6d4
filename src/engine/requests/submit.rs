//! TASK/SUBMIT: accepts a task.

mod many;
mod relations;

use std::sync::Arc;

use relations::Companions;

use super::{Code, Controller, Refusal, Reply, words};
use api::wire::requests::submit::{Parent, Submit};
use api::wire::task;
use base::{Membership, Now, Phase, Requirements, TaskId, TaskRecord, code};

/// A submit that can be accepted.
struct Checked {
    submit: Submit,
    submitted: Arc<str>,
    parent: Option<TaskId>,
    warnings: Vec<String>,
}

/// The result of a check.
#[expect(clippy::large_enum_variant, reason = "a box would cost every submit an allocation")]
enum Found {
    /// It was accepted before, as this task.
    Before(TaskId),
    New(Checked),
}

impl Controller {
    /// Accepts a task.
    pub(super) fn submit(&mut self, now: Now, submit: Submit) -> Reply {
        self.submit_checked(now, submit).unwrap_or_else(Reply::Refused)
    }

    fn submit_checked(&mut self, now: Now, submit: Submit) -> Result<Reply, Refusal> {
        self.check_open()?;
        let checked = match self.check_submit(now, submit)? {
            Found::Before(task) => return Ok(Reply::Submitted { task, warning: None, duplicate: true }),
            Found::New(checked) => checked,
        };
        self.check_room(&checked)?;
        if let Some(relations) = &checked.submit.relations {
            self.check_relations_of(relations, &checked.submit, &Companions::default())?;
        }
        let warning = (!checked.warnings.is_empty()).then(|| checked.warnings.join("; "));
        let task = self.accept(now, checked);
        self.dispatch(now);
        self.inform_if_waiting(task);
        Ok(Reply::Submitted { task, warning, duplicate: false })
    }

    pub(crate) fn check_open(&self) -> Result<(), Refusal> {
        if self.mode.is_stopping {
            return Err(Refusal::new(Code::Stopping, "the controller is stopping; submit again when it is back"));
        }
        if let Some(why) = self.mode.outdated() {
            return Err(Refusal::new(Code::Stopping, why));
        }
        Ok(())
    }

    /// Checks everything that does not depend on the other tasks of the request.
    fn check_submit(&mut self, now: Now, mut submit: Submit) -> Result<Found, Refusal> {
        let mut warnings = Vec::new();
        // This comes first, so that a repeated submit is compared with the accepted one in the same form.
        self.drop_unknown_parent(&mut submit, &mut warnings);
        self.fit_parameters(&mut submit)?;
        self.confine_inputs(&mut submit, &mut warnings)?;
        if let Some(first) = self.duplicate_of(&submit)? {
            return Ok(Found::Before(first));
        }
        if let Some(trouble) = &self.mode.store_trouble {
            let message = format!("the task cannot be stored ({trouble}); submit it again later");
            return Err(Refusal::new(Code::LimitReached, message));
        }
        if let Some(at) = submit.policy.end_before.filter(|at| *at <= now.wall) {
            let message = format!("{} is {at}, which has passed; use a later moment", words::END_BEFORE);
            return Err(Refusal::new(Code::BadField, message));
        }
        if submit.requires_tool {
            self.check_tool(&submit.tool, "", "task")?;
        }
        self.check_files(&submit)?;
        self.check_input_names(&submit)?;
        if !submit.ignored.is_empty() {
            warnings.push(format!("a submit does not set {}; ignored", submit.ignored.join(", ")));
        }
        if !submit.unknown.is_empty() {
            let unknown = submit.unknown.join(", ");
            warnings
                .push(format!("this controller does not know the field {unknown}; it became a parameter of the task"));
        }
        let parent = self.parent(&submit)?;
        let submitted = submit.members();
        Ok(Found::New(Checked { submit, submitted, parent, warnings }))
    }

    /// Accepts a task that has been checked.
    fn accept(&mut self, now: Now, Checked { submit, submitted, parent, .. }: Checked) -> TaskId {
        let id = self.tasks.new_id(now.wall);
        let terms = submit.relations.as_ref().map_or(0, |relations| relations.after.len());
        let record = TaskRecord {
            address: submit.address.map(Arc::new),
            parent,
            unmet: (0..).take(terms).collect(),
            relations: submit.relations,
            files: submit.files,
            ..TaskRecord::accepted(id, submit.tool, submitted, submit.policy, now.wall)
        };
        if let Some(parent) = parent {
            self.tasks.families.add(id, parent);
            self.watch_slots(now);
        }
        self.note_young(now, id, &record.tool);
        let member = record.membership().cloned();
        self.insert_task(now, record);
        if let Some(Membership { name, fails_max: Some(max), .. }) = member {
            self.limit_fails(id, &name, max);
        }
        if terms > 0 {
            self.judge_terms(now, id);
        }
        id
    }

    /// The task that already belongs to this key, if it was submitted with the same fields (docs/design/hazards.md, F7).
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

    /// Whether there is room for one more task.
    fn check_room(&self, checked: &Checked) -> Result<(), Refusal> {
        self.check_queue(&checked.submit.policy.needs, size_of::<TaskRecord>() + checked.submitted.len())
    }

    /// Whether there is room in the queue for one more task with this number of bytes.
    pub(crate) fn check_queue(&self, needs: &Requirements, bytes: usize) -> Result<(), Refusal> {
        self.check_queue_for(needs, 1, bytes, 0)
    }

    /// Like [`Self::check_queue`], for `count` more tasks with this number of bytes together. The last one has these needs. The
    /// others add `other_needs` combinations of needs to those that wait already.
    fn check_queue_for(
        &self,
        needs: &Requirements,
        count: usize,
        bytes: usize,
        other_needs: usize,
    ) -> Result<(), Refusal> {
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        let queue = &self.queue;
        if queue.len() + count > self.settings.waiting_max {
            let (waiting, max) = (queue.len(), self.settings.waiting_max);
            let request = if count == 1 { String::new() } else { format!(", and this request has {count}") };
            return limit(format!(
                "{waiting} of {max} tasks wait already (WAITING_TASKS_MAX){request}; try again later"
            ));
        }
        let bytes_max = self.settings.waiting_bytes_max;
        if queue.bytes().saturating_add(bytes) > bytes_max {
            return limit(format!(
                "the waiting tasks hold {} bytes already, and this request needs {bytes}; WAITING_BYTES_MAX is {bytes_max}; try \
                 again later, or send large values in files",
                queue.bytes()
            ));
        }
        let known_needs = queue.other_needs(needs);
        let other_needs = if known_needs == 0 { 0 } else { known_needs + other_needs };
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

    /// Informs agents that do not park of a task that no agent has taken.
    pub(crate) fn inform_if_waiting(&mut self, task: TaskId) {
        if self.tasks.get(task).is_some_and(|record| record.phase() == Phase::Waiting) {
            self.turn.inform();
        }
    }

    /// An unknown parent is dropped with a warning (docs/sources/controller.md, 5.2).
    fn drop_unknown_parent(&mut self, submit: &mut Submit, warnings: &mut Vec<String>) {
        let unknown = match &submit.parent {
            None => return,
            Some(Parent::NoTask(text)) => text.clone(),
            Some(Parent::Task(id)) if self.tasks.get(*id).is_none() => id.to_string(),
            Some(Parent::Task(_)) => return,
        };
        let warning = format!("{} {} is unknown; dropped", words::FATHER_ID, code::shown(&unknown));
        self.turn.warn(warning.clone());
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
}
