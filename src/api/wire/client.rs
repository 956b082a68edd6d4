//! The client's side of the conversation: requests and answers.
//!
//! Each file of [`requests`](super::requests) constructs its own request. The crate `llts-client` sends it and waits for the
//! answer.

mod reply;
mod view;

pub use reply::{Listing, ReplyError, decode, decode_listing};
pub(super) use reply::{decode_parts, flat};
pub(super) use view::view;
pub use view::{TaskView, is_time};

use base::{Fields, Outcome, Phase, Scalar, json, words};

/// A request of a client, with the function that reads its answer.
#[derive(Clone, Debug)]
pub struct Ask<A> {
    fields: Fields,
    /// The one field that is a list of flat objects, if there is one.
    list: Option<(&'static str, Vec<Fields>)>,
    read: fn(&[u8]) -> Result<A, ReplyError>,
}

impl<A> Ask<A> {
    /// A request with this `__TYPE__`, whose answer is read by `read`.
    #[must_use]
    pub fn new(kind: &str, read: fn(&[u8]) -> Result<A, ReplyError>) -> Self {
        Self { fields: Fields::new().with(words::TYPE, kind), list: None, read }
    }

    /// Sets one more field, or another value of a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.fields.set(name, value);
        self
    }

    /// Sets the list of flat objects.
    pub(super) fn with_list(mut self, name: &'static str, items: Vec<Fields>) -> Self {
        self.list = Some((name, items));
        self
    }

    /// Restricts the request to the selected tasks.
    pub(super) fn matching(self, Selector(fields): &Selector) -> Self {
        let fields = fields.iter().filter(|(name, _)| *name != words::TYPE);
        fields.fold(self, |ask, (name, value)| ask.with(name, value.clone()))
    }

    /// The fields of the request, including `__TYPE__`.
    #[must_use]
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The same request, with an answer that is reduced to its warning.
    #[must_use]
    pub fn for_its_warning(self) -> Ask<Option<String>> {
        let read = |frame: &[u8]| decode(frame).map(|fields| fields.text(words::WARNING).map(str::to_owned));
        Ask { fields: self.fields, list: self.list, read }
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Some((name, items)) = &self.list else { return json::to_vec(&self.fields) };
        let mut out = Vec::new();
        let mut writer = json::ObjectWriter::new(&mut out);
        writer.members(&json::members(&self.fields));
        writer.list(name, items.iter().map(|item| format!("{{{}}}", json::members(item))));
        writer.end();
        out
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// When the request was refused, or the frame is not an answer to it.
    pub fn decode(&self, frame: &[u8]) -> Result<A, ReplyError> {
        (self.read)(frame)
    }
}

/// A selection of tasks: those that have all these fields. Without fields, all tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector(Fields);

impl Selector {
    /// All tasks.
    #[must_use]
    pub const fn all() -> Self {
        Self(Fields::new())
    }

    /// The task with this id.
    #[must_use]
    pub fn task(id: &str) -> Self {
        Self::all().and(words::TASK_ID, id)
    }

    /// Restricted to tasks with this id, chosen by their submitter.
    #[must_use]
    pub fn and_given_id(self, id: &str) -> Self {
        self.and(words::GIVEN_ID, id)
    }

    /// Restricted to tasks of this job.
    #[must_use]
    pub fn and_job(self, name: &str) -> Self {
        self.and(words::JOB, name)
    }

    /// Restricted to tasks in this phase.
    #[must_use]
    pub fn and_phase(self, phase: Phase) -> Self {
        self.and(words::STATUS, words::phase(phase))
    }

    /// Restricted to tasks with this outcome.
    #[must_use]
    pub fn and_outcome(self, outcome: Outcome) -> Self {
        self.and(words::OUTCOME, words::outcome(outcome))
    }

    /// Restricted to tasks that have this field with exactly this value.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.0.set(name, value);
        self
    }

    /// Whether it selects all tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
