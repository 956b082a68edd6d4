//! The client's side of the conversation: what is asked, and what is answered.
//!
//! How each request is made stands in its file of [`requests`](super::requests); sending and waiting is [`crate::client`]'s
//! concern.

mod reply;
mod view;

pub use reply::{Listing, ReplyError, decode, decode_listing};
pub(super) use view::view;
pub use view::{TaskView, is_time};

use super::{json, words};
use crate::types::{Fields, Outcome, Phase, Scalar};

/// A request as a client makes it, and how its answer is read.
#[derive(Clone, Debug)]
pub struct Ask<A> {
    fields: Fields,
    read: fn(&[u8]) -> Result<A, ReplyError>,
}

impl<A> Ask<A> {
    /// A request of this `__TYPE__`, whose answer `read` reads.
    #[must_use]
    pub fn new(kind: &str, read: fn(&[u8]) -> Result<A, ReplyError>) -> Self {
        Self { fields: Fields::new().with(words::TYPE, kind), read }
    }

    /// The same with one more field, or with another value of it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.fields.set(name, value);
        self
    }

    /// The same about the tasks that are meant.
    pub(super) fn matching(self, Selector(fields): &Selector) -> Self {
        let fields = fields.iter().filter(|(name, _)| *name != words::TYPE);
        fields.fold(self, |ask, (name, value)| ask.with(name, value.clone()))
    }

    /// The fields of the request, `__TYPE__` among them.
    #[must_use]
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The bytes to send.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        json::to_vec(&self.fields)
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// When the request was refused, or the frame is no answer to it.
    pub fn decode(&self, frame: &[u8]) -> Result<A, ReplyError> {
        (self.read)(frame)
    }
}

/// Which tasks are meant: those that have all these fields. Without any, all tasks.
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

    /// The same, of those only whose submitter chose this id.
    #[must_use]
    pub fn and_given_id(self, id: &str) -> Self {
        self.and(words::GIVEN_ID, id)
    }

    /// The same, of those only that are in this phase.
    #[must_use]
    pub fn and_phase(self, phase: Phase) -> Self {
        self.and(words::STATUS, words::phase(phase))
    }

    /// The same, of those only that ended like this.
    #[must_use]
    pub fn and_outcome(self, outcome: Outcome) -> Self {
        self.and(words::OUTCOME, words::outcome(outcome))
    }

    /// The same, of those only that have this field with this very value.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.0.set(name, value);
        self
    }

    /// Whether it means all tasks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
