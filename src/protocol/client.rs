//! The client's side of the conversation: requests out, replies in.
//!
//! What a client shows to people is in [`view`]; sending and waiting is [`crate::client`]'s concern.

mod reply;
mod view;

use std::time::Duration;

pub use reply::{Listing, ReplyError, decode, decode_listing};
pub use view::{AgentRow, TaskView, is_time};

use super::json;
use super::words::{self, kind};
use crate::types::{Fields, Phase, Scalar};

/// A task to submit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// The tool to run.
    pub tool: String,
    /// The id that the submitter chose.
    pub given_id: Option<String>,
    /// The task whose end ends this one.
    pub parent: Option<String>,
    /// Where changes of its state are pushed to.
    pub address: Option<String>,
    /// Everything else.
    pub parameters: Fields,
}

impl Submission {
    /// A submission without parameters.
    #[must_use]
    pub fn new(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), ..Self::default() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.parameters.set(name, value);
        self
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> Fields {
        let mut fields = request(kind::TASK_SUBMIT).with(words::OPERATION, self.tool.as_str());
        for (name, value) in self.parameters.iter().filter(|(name, _)| !is_reserved(name)) {
            fields.set(name, value.clone());
        }
        let named =
            [(words::GIVEN_ID, &self.given_id), (words::FATHER_ID, &self.parent), (words::ADDRESS, &self.address)];
        for (name, value) in named {
            if let Some(value) = value {
                fields.set(name, value.as_str());
            }
        }
        fields
    }
}

/// Whether a field says what the request is, so that it cannot be a parameter of a task.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    [words::TYPE, words::OPERATION].contains(&name)
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

    fn request(&self, kind: &str) -> Fields {
        let mut fields = request(kind);
        for (name, value) in self.0.iter().filter(|(name, _)| *name != words::TYPE) {
            fields.set(name, value.clone());
        }
        fields
    }
}

/// Asks for the newest task that is meant; with a time, the reply waits until that task has finished or the time is over.
#[must_use]
pub fn query(selector: &Selector, wait: Option<Duration>) -> Fields {
    let fields = selector.request(kind::TASK_QUERY);
    match wait {
        Some(wait) => fields.with(words::WAIT, millis(wait)),
        None => fields,
    }
}

/// Asks for the end of a task.
#[must_use]
pub fn kill(id: &str) -> Fields {
    request(kind::TASK_KILL).with(words::TASK_ID, id)
}

/// Asks how many tasks are in each phase.
#[must_use]
pub fn statistic() -> Fields {
    request(kind::TASK_STATISTIC)
}

/// Asks how many agents there are.
#[must_use]
pub fn agent_counts() -> Fields {
    request(kind::AGENT_QUERY)
}

/// Asks for tasks, newest first.
#[must_use]
pub fn tasks(selector: &Selector, offset: u64, limit: u64) -> Fields {
    page(selector.request(kind::TASK_DETAILS), offset, limit)
}

/// Asks for agents, by their ids.
#[must_use]
pub fn agents(offset: u64, limit: u64) -> Fields {
    page(request(kind::AGENT_DETAILS), offset, limit)
}

/// The bytes of a request.
#[must_use]
pub fn encode(request: &Fields) -> Vec<u8> {
    json::to_vec(request)
}

fn request(kind: &str) -> Fields {
    Fields::new().with(words::TYPE, kind)
}

fn page(fields: Fields, offset: u64, limit: u64) -> Fields {
    fields.with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// Rounded up: a time that is not over must not become no time at all.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::FieldLimits;
    use crate::protocol::request::{Message, Page, Parent, Request, Rules, parse};
    use crate::types::AddressPolicy;

    /// What the controller makes of a request.
    fn understood(request: &Fields) -> Request {
        let rules = Rules {
            limits: FieldLimits::TRUSTED,
            addresses: AddressPolicy::default(),
            wait_max: Duration::from_secs(60),
            apply_wait_max: Duration::from_secs(60),
            defaults: std::sync::Arc::default(),
        };
        match parse(&encode(request), &rules) {
            Ok((_, Message::Client(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    const ID: &str = "TASK_1480000000.120000_AZazA";

    #[test]
    fn a_submission_arrives_as_it_was_meant() {
        let mut submission = Submission::new("hello").with("name", "world").with("n", 5u32);
        submission.given_id = Some("mine".into());
        submission.parent = Some(ID.into());
        let Request::Submit(submit) = understood(&submission.request()) else { panic!() };
        assert_eq!(submit.tool.as_str(), "hello");
        assert_eq!(submit.parent, Some(Parent::Task(ID.parse().unwrap())));
        assert_eq!(submit.fields.get(words::GIVEN_ID), Some(&"mine".into()));
        assert_eq!(submit.fields.get("n"), Some(&Scalar::from(5u32)));
    }

    #[test]
    fn a_parameter_cannot_change_what_the_request_is() {
        let submission = Submission::new("hello").with(words::TYPE, kind::TASK_KILL).with(words::OPERATION, "other");
        let Request::Submit(submit) = understood(&submission.request()) else { panic!() };
        assert_eq!(submit.tool.as_str(), "hello");
        let selector = Selector::task(ID).and(words::TYPE, kind::TASK_KILL);
        assert!(matches!(understood(&query(&selector, None)), Request::Query(_, None)));
    }

    #[test]
    fn the_other_requests_arrive_too() {
        assert_eq!(understood(&kill(ID)), Request::Kill(ID.parse().unwrap(), None));
        assert_eq!(understood(&statistic()), Request::TaskStatistic);
        assert_eq!(understood(&agent_counts()), Request::AgentQuery);
        assert_eq!(understood(&agents(2, 3)), Request::AgentDetails(Page { offset: 2, limit: Some(3) }));
        let Request::TaskDetails(filter, page) = understood(&tasks(&Selector::all(), 0, 9)) else { panic!() };
        assert!(filter.is_empty());
        assert_eq!(page, Page { offset: 0, limit: Some(9) });
        let wait = Duration::from_micros(1_001);
        let Request::Query(filter, wait) = understood(&query(&Selector::task(ID), Some(wait))) else { panic!() };
        assert_eq!(filter.task_id(), Some(ID.parse().ok()));
        assert_eq!(wait, Some(Duration::from_millis(2)));
    }
}
