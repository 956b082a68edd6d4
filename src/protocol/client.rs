//! The client's side of the conversation: requests out, replies in.
//!
//! What a client shows to people is in [`view`]; sending and waiting is [`crate::client`]'s concern.

mod operators;
mod reply;
mod view;

use std::time::Duration;

pub use super::gate::{GateChange, UNTIL_OPENED};
pub use operators::{drain, explain, gate, gates, hold, retry, set_gate};
pub use reply::{Listing, ReplyError, decode, decode_listing};
pub use view::{AgentRow, Explanation, GateRow, TaskView, is_time};

use super::words::{self, kind};
use super::{json, policy};
use crate::types::{Fields, Outcome, Phase, PolicyField, Scalar};

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
    /// The public key of who is there, in Z85: it is pushed to with CURVE then, and never without.
    pub address_key: Option<String>,
    /// The same key returns the same task.
    pub submit_key: Option<String>,
    /// Everything else, what it demands of its life among it.
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

    /// Demands one thing more of its life: a field of [`crate::types::Policy::FIELDS`], with its value as the wire has it, which is
    /// in seconds, or unix seconds, for times. What is not demanded is for the controller to say.
    #[must_use]
    pub fn demanding(self, field: &PolicyField, value: impl Into<Scalar>) -> Self {
        self.with(&policy::word(field), value)
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> Fields {
        let mut fields = request(kind::TASK_SUBMIT).with(words::OPERATION, self.tool.as_str());
        for (name, value) in self.parameters.iter().filter(|(name, _)| !is_reserved(name)) {
            fields.set(name, value.clone());
        }
        let named = [
            (words::GIVEN_ID, &self.given_id),
            (words::FATHER_ID, &self.parent),
            (words::ADDRESS, &self.address),
            (words::ADDRESS_KEY, &self.address_key),
            (words::SUBMIT_KEY, &self.submit_key),
        ];
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

/// Asks for the end of a task. `reason` says who asks, for those who wonder later why it ended.
#[must_use]
pub fn kill(id: &str, reason: &str) -> Fields {
    request(kind::TASK_KILL).with(words::TASK_ID, id).with(words::REASON, reason)
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
    use crate::types::{AddressPolicy, AgentId, Label, Labels, Pace, Policy, PolicySlot, Requirements, Wall};

    /// What the controller makes of a request.
    fn understood(request: &Fields) -> Request {
        let rules = Rules {
            limits: FieldLimits::TRUSTED,
            addresses: AddressPolicy::everything(),
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
    fn demands_arrive_as_a_policy() {
        let names = |text| Labels::parse(text).unwrap();
        let mut submission = Submission::new("hello").with(words::MAX_FAILS, 9u32);
        submission.address = Some("tcp://10.0.0.1:5000".into());
        submission.address_key = Some("Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID".into());
        submission.submit_key = Some("k".into());
        let mut counts = 1..;
        let mut moments = [1_480_000_000.000_001, 1_480_000_009.0].into_iter();
        let mut labels = ["api,db", "gpu"].into_iter();
        for field in Policy::FIELDS {
            let value = match field.slot {
                PolicySlot::Priority(_) => Scalar::from(-7),
                PolicySlot::Count(_) => counts.next().unwrap().into(),
                PolicySlot::Limit(_) => 1.5.into(),
                PolicySlot::Time(_) => 0.25.into(),
                PolicySlot::Moment(_) => moments.next().unwrap().into(),
                PolicySlot::Truth(_) => true.into(),
                PolicySlot::Labels(_) => labels.next().unwrap().into(),
            };
            submission = submission.demanding(field, value);
        }
        let Request::Submit(submit) = understood(&submission.request()) else { panic!() };
        let expected = Policy {
            priority: -7,
            start_after: Some(Wall::from_micros(1_480_000_000_000_001)),
            end_before: Some(Wall::from_micros(1_480_000_009_000_000)),
            timeout: Some(Duration::from_millis(1500)),
            fails_max: 1,
            timeouts_max: 2,
            losses_max: 3,
            defers_max: 4,
            retry_delay: Duration::from_millis(250),
            fail_on_stderr: true,
            needs: Requirements { gates: names("api,db"), tags: names("gpu"), exclusive: true },
            push_ack: true,
        };
        assert_eq!(*submit.policy, expected);
        let address = submit.address.as_ref().unwrap();
        assert_eq!(address.key().map(|key| key.to_string()), submission.address_key);
        assert_eq!(submit.submit_key().as_deref(), Some("\"k\""));
        let Request::Submit(submit) = understood(&Submission::new("hello").request()) else { panic!() };
        assert_eq!(submit.fields, Fields::new().with(words::OPERATION, "hello"), "nothing is demanded unasked");
    }

    #[test]
    fn the_requests_of_operators_arrive() {
        let task = || ID.parse().unwrap();
        let agent = || AgentId::new("agent-1").unwrap();
        let gate = || Label::new("api").unwrap();
        assert!(matches!(understood(&explain(ID)), Request::Explain(filter) if filter.task_id() == Some(Some(task()))));
        assert_eq!(understood(&retry(ID)), Request::Retry(task()));
        assert_eq!(understood(&hold(ID, true)), Request::Hold(task(), true));
        assert_eq!(understood(&hold(ID, false)), Request::Hold(task(), false));
        assert_eq!(understood(&drain("agent-1", true)), Request::AgentDrain(agent(), true));
        assert_eq!(understood(&drain("agent-1", false)), Request::AgentDrain(agent(), false));
        assert_eq!(understood(&gates()), Request::GateQuery(None));
        assert_eq!(understood(&super::gate("api")), Request::GateQuery(Some(gate())));
        let pace = Pace { starts: 5, interval: Duration::from_millis(1500) };
        for change in [
            GateChange::default(),
            GateChange { running_max: Some(Some(3)), pace: Some(Some(pace)), closed_until: Some(Some(UNTIL_OPENED)) },
            GateChange { running_max: Some(None), pace: Some(None), closed_until: Some(None) },
        ] {
            assert_eq!(understood(&set_gate("api", &change)), Request::GateSet(gate(), Box::new(change)));
        }
    }

    #[test]
    fn the_other_requests_arrive_too() {
        assert_eq!(understood(&kill(ID, "me")), Request::Kill(ID.parse().unwrap(), Some("me".into())));
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
