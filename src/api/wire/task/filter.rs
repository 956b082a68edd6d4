//! The tasks that a request selects by their fields.

use super::FIELDS;
use base::{Fields, JobName, Scalar, TaskId, TaskRecord, json, words};

/// The fields by which tasks are selected: all must be equal in type and value (docs/sources/controller.md, 2.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    fields: Vec<FilterField>,
    before: Option<TaskId>,
    /// The number of wanted fields that are searched among the submitted ones.
    searched: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct FilterField {
    name: String,
    value: Scalar,
    /// The field as a member of canonical JSON, for comparison with the submitted fields.
    member: String,
}

impl Filter {
    /// A filter with all these fields.
    #[must_use]
    pub fn new(fields: &Fields) -> Self {
        let wanted = |(name, value): (&str, &Scalar)| FilterField {
            name: name.to_owned(),
            value: value.clone(),
            member: json::members(&Fields::new().with(name, value.clone())),
        };
        let is_submitted = |name: &str| !FIELDS.iter().any(|(ours, _)| *ours == name);
        let searched = fields.iter().filter(|(name, _)| is_submitted(name)).count();
        Self { fields: fields.iter().map(wanted).collect(), before: None, searched }
    }

    /// Restricts the filter to tasks that are older than this one. So the next page of a list begins at the right place, even if
    /// tasks were added or removed.
    #[must_use]
    pub fn older_than(self, before: Option<TaskId>) -> Self {
        Self { before, ..self }
    }

    /// The task that a match must be older than, if there is one.
    #[must_use]
    pub const fn before(&self) -> Option<TaskId> {
        self.before
    }

    /// Whether every task matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The only id that can match: `None` when the filter has no id, `Some(None)` when it has one that no task can have.
    #[must_use]
    pub fn task_id(&self) -> Option<Option<TaskId>> {
        let wanted = self.fields.iter().find(|wanted| wanted.name == words::TASK_ID)?;
        Some(wanted.value.as_text().and_then(|text| text.parse().ok()))
    }

    /// The id or given id that a match must have, as it was sent: for people.
    #[must_use]
    pub fn shown_id(&self) -> String {
        let named = |name| self.fields.iter().find(|wanted| wanted.name == name);
        let wanted = named(words::TASK_ID).or_else(|| named(words::GIVEN_ID));
        wanted.map(|wanted| wanted.value.to_string()).unwrap_or_default()
    }

    /// The given id that a match must have, as JSON.
    #[must_use]
    pub fn given_id(&self) -> Option<&str> {
        let wanted = self.fields.iter().find(|wanted| wanted.name == words::GIVEN_ID)?;
        json::value_of(&wanted.member)
    }

    /// Whether a match must belong to a job.
    #[must_use]
    pub fn has_job(&self) -> bool {
        self.fields.iter().any(|wanted| wanted.name == words::JOB)
    }

    /// The job that a match must belong to; `None` for a name that no job can have.
    #[must_use]
    pub fn job(&self) -> Option<JobName> {
        let wanted = self.fields.iter().find(|wanted| wanted.name == words::JOB)?;
        JobName::new(wanted.value.as_text()?).ok()
    }

    /// The bytes of a task that a match may have to read: its submitted fields, once for each field that is searched among them.
    #[must_use]
    pub fn searched_bytes(&self, record: &TaskRecord) -> usize {
        self.searched * record.submitted.len()
    }

    /// Whether this task matches.
    #[must_use]
    pub fn matches(&self, record: &TaskRecord) -> bool {
        self.fields.iter().all(|wanted| match FIELDS.iter().find(|(name, _)| *name == wanted.name) {
            Some((_, value)) => value(record).is_some_and(|value| value.equals(&wanted.value)),
            None => json::has_member(&record.submitted, &wanted.member),
        })
    }
}
