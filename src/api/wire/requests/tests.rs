//! Each request arrives at the controller with the meaning that its client gave it.

pub(in crate::wire) mod samples;

use super::drain::{Drain, drain};
use super::explain::explain;
use super::gate::{self, GateChange};
use super::hold::hold;
use super::kill::{self, kill};
use super::query::query;
use super::retry::retry;
use super::step::{self, Providing};
use super::submit::{Parent, Submission};
use super::{agents, list, stats, *};
use crate::wire::client::Selector;
use base::json::FieldLimits;
use base::{
    AddressPolicy, EndSignal, Labels, Pace, Policy, PolicySlot, PortName, Requirements, StepName, UNTIL_OPENED, Wall,
};

/// The request as the controller parses it.
fn understood<A>(ask: &Ask<A>) -> Request {
    let rules = Rules {
        limits: FieldLimits::TRUSTED,
        addresses: AddressPolicy::everything(),
        wait_max: Duration::from_secs(60),
        apply_wait_max: Duration::from_secs(60),
        submits: crate::wire::rules::SubmitLimits::DEFAULT,
        graphs: base::GraphLimits::DEFAULT,
        sources: base::AllowedSources::default(),
        defaults: crate::wire::rules::DefaultPolicies::default(),
    };
    match parse(&ask.encode(), &rules) {
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
    let submission = Submission::new("hello").with(words::TYPE, kill::TASK_KILL.word).with(words::OPERATION, "other");
    let Request::Submit(submit) = understood(&submission.request()) else { panic!() };
    assert_eq!(submit.tool.as_str(), "hello");
    let selector = Selector::task(ID).and(words::TYPE, kill::TASK_KILL.word);
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
            PolicySlot::Moment(..) => moments.next().unwrap().into(),
            PolicySlot::Truth(_) => true.into(),
            PolicySlot::Labels(_) => labels.next().unwrap().into(),
            PolicySlot::Signal(_) => "SIGINT".into(),
        };
        // Merged outputs exclude it.
        if field.name == "MERGE" {
            continue;
        }
        submission = submission.demanding(field, value);
    }
    let Request::Submit(submit) = understood(&submission.request()) else { panic!() };
    let expected = Policy {
        priority: -7,
        start_after: Some(Wall::from_micros(1_480_000_000_000_001)),
        end_before: Some(Wall::from_micros(1_480_000_009_000_000)),
        timeout: Some(Duration::from_millis(1500)),
        lost_after: Some(Duration::from_millis(1500)),
        ahead: Default::default(),
        fails_max: 1,
        timeouts_max: 2,
        losses_max: 3,
        defers_max: 4,
        retry_delay: Duration::from_millis(250),
        fail_on_stderr: true,
        needs: Requirements { gates: names("api,db"), tags: names("gpu"), exclusive: true, ..Requirements::default() },
        push_ack: true,
        end_signal: EndSignal::Int,
        merge: false,
        eager: true,
    };
    assert_eq!(*submit.policy, expected);
    let address = submit.address.as_ref().unwrap();
    assert_eq!(address.key().map(|key| key.to_string()), submission.address_key);
    assert_eq!(submit.submit_key().as_deref(), Some("\"k\""));
    let Request::Submit(submit) = understood(&Submission::new("hello").request()) else { panic!() };
    assert_eq!(submit.fields, Fields::new().with(words::OPERATION, "hello"), "nothing is demanded unasked");
}

#[test]
fn the_requests_that_steer_tasks_and_gates_arrive() {
    let task = || ID.parse().unwrap();
    let agent = || AgentId::new("agent-1").unwrap();
    let api = || Label::new("api").unwrap();
    assert!(matches!(understood(&explain(ID)), Request::Explain(filter) if filter.task_id() == Some(Some(task()))));
    assert_eq!(understood(&retry(ID)), Request::Retry(task()));
    assert_eq!(understood(&hold(ID, true)), Request::Hold(task(), true));
    assert_eq!(understood(&hold(ID, false)), Request::Hold(task(), false));
    for order in [Drain::Begin, Drain::Ahead, Drain::Undo] {
        assert_eq!(understood(&drain("agent-1", order)), Request::AgentDrain(agent(), order));
    }
    assert_eq!(understood(&gate::gates()), Request::GateQuery(None));
    assert_eq!(understood(&gate::gate("api")), Request::GateQuery(Some(api())));
    let pace = Pace { starts: 5, interval: Duration::from_millis(1500) };
    for change in [
        GateChange::default(),
        GateChange {
            running_max: Some(Some(3)),
            pace: Some(Some(pace)),
            closed_until: Some(Some(UNTIL_OPENED)),
            closed_for: None,
        },
        GateChange { closed_for: Some(Duration::from_millis(1500)), ..GateChange::default() },
        GateChange { running_max: Some(None), pace: Some(None), closed_until: Some(None), closed_for: None },
    ] {
        assert_eq!(understood(&gate::set("api", &change)), Request::GateSet(api(), Box::new(change)));
    }
}

#[test]
fn the_other_requests_arrive_too() {
    assert_eq!(understood(&kill(ID, "me")), Request::Kill(ID.parse().unwrap(), Some("me".into())));
    assert_eq!(understood(&stats::tasks()), Request::TaskStatistic);
    assert_eq!(understood(&stats::agents()), Request::AgentQuery);
    assert_eq!(understood(&agents::agents(2, 3)), Request::AgentDetails(Page { offset: 2, limit: Some(3) }));
    let Request::TaskDetails(filter, page) = understood(&list::tasks(&Selector::all(), 0, 9)) else { panic!() };
    assert!(filter.is_empty());
    assert_eq!(page, Page { offset: 0, limit: Some(9) });
    let wait = Duration::from_micros(1_001);
    let Request::Query(filter, wait) = understood(&query(&Selector::task(ID), Some(wait))) else { panic!() };
    assert_eq!(filter.task_id(), Some(ID.parse().ok()));
    assert_eq!(wait, Some(Duration::from_millis(2)));
}

#[test]
fn what_a_step_does_arrives_as_it_was_meant() {
    let port = PortName::new("out").unwrap();
    for (round, location) in [(None, ""), (Some(Round(2)), "/a b")] {
        let task = ID.parse().unwrap();
        let wanted = Providing { task, round, port: port.clone(), location: location.into() };
        let request = understood(&step::providing(ID, round, "out", location));
        assert_eq!(request, Request::StepProviding(Box::new(wanted)));
    }
    let graph = "GRAPH_1480000000.120000_AZazA";
    let wanted = Request::StepComplete(graph.parse().unwrap(), StepName::new("a-b").unwrap());
    assert_eq!(understood(&step::complete(graph, "a-b")), wanted);
}

#[test]
fn what_no_step_can_do_is_refused_with_the_field() {
    let refusal = |ask: &Ask<()>| parse(&ask.encode(), &Rules::of_history()).unwrap_err().refusal;
    let providing = |port: &str, location: &str| refusal(&step::providing(ID, None, port, location));
    let codes =
        [(-1007, providing("a-b", "x")), (-1007, providing("a", "x\ny")), (-1007, providing("a", &"x".repeat(4097)))];
    for (code, refusal) in codes {
        assert_eq!(refusal.code.number(), code, "{refusal}");
        assert!(refusal.message.starts_with("__PORT__: ") || refusal.message.starts_with("__LOCATION__ "), "{refusal}");
    }
    assert_eq!(refusal(&step::complete("GRAPH_1", "s")).code.number(), -1004);
    assert_eq!(refusal(&step::complete("GRAPH_1480000000.120000_AZazA", "__s")).code.number(), -1007);
    let missing = refusal(&step::STEP_COMPLETE.demand()).message;
    assert_eq!(
        missing,
        "STEP/COMPLETE has no text __GRAPH_ID__; set it to the id that the submit of the graph returned"
    );
}
