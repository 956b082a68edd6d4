//! The agent's side of the conversation: it writes messages and reads the answers.

use super::Code;
use super::requests::apply::{self, Dispatch, DispatchList, LIST_TASKS_MAX, TASK_APPLY};
use super::requests::exit::AGENT_EXIT;
use super::requests::heartbeat::{self, AGENT_HEARTBEAT, Heard};
use super::requests::report::{self, TASK_REPORT};
use super::requests::serve::{self, AGENT_SERVE, Wanted};
use super::requests::tool::{self, TOOL_GET};
use super::requests::{FromAgent, Sender};
use base::json::{FieldLimits, List, ObjectWriter};
use base::{Phase, Round, Session, TaskId, json, words};

/// The answer of a controller to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ToAgent {
    /// The answer to a heartbeat.
    Heard(Heard),
    /// A task.
    Dispatch(Box<Dispatch>),
    /// Several tasks, to be run one after the other.
    List(Box<DispatchList>),
    /// There is no task.
    NoTask,
    /// The answer to a report. If the report is refused, the controller wants no more reports on that run.
    Reported {
        /// The task.
        task: TaskId,
        /// The round of the task.
        round: Round,
        /// Whether the report was FINISHED.
        finished: bool,
        /// Whether it was accepted.
        accepted: bool,
    },
    /// The agent was refused for this reason, for example because another agent has its id.
    Rejected(String),
    /// The controller wants a part of an output.
    Wanted(Wanted),
    /// The answered offer of outputs was replaced by a later one.
    Replaced,
    /// The exit was recorded.
    Left,
}

/// Writes a message to the controller.
#[must_use]
pub fn encode(sender: &Sender, message: &FromAgent) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let kind = match message {
        FromAgent::Heartbeat(_) => AGENT_HEARTBEAT,
        FromAgent::Exit => AGENT_EXIT,
        FromAgent::Apply(_) => TASK_APPLY,
        FromAgent::Report(_) => TASK_REPORT,
        FromAgent::Serve(_) => AGENT_SERVE,
        FromAgent::ToolGet(_) => TOOL_GET,
    };
    let mut writer = ObjectWriter::typed(&mut out, kind.word);
    writer.text(words::AGENT_ID, sender.agent.as_str());
    if sender.session != Session::default() {
        writer.literal(words::SESSION, sender.session.0);
    }
    match message {
        FromAgent::Heartbeat(heartbeat) => heartbeat::write(heartbeat, &mut writer),
        FromAgent::Exit => {}
        FromAgent::Apply(wait) => apply::write(*wait, &mut writer),
        FromAgent::Report(report) => report::write(report, &mut writer),
        FromAgent::Serve(served) => serve::write(served, &mut writer),
        FromAgent::ToolGet(get) => tool::write_get(get, &mut writer),
    }
    writer.end();
    out
}

/// Reads an answer; `None` for a message that a controller does not send.
#[must_use]
pub fn decode(frame: &[u8]) -> Option<ToAgent> {
    let mut ahead = List::named(words::AHEAD, LIST_TASKS_MAX);
    let fields = json::parse_with_list(frame, &FieldLimits::TRUSTED, &mut ahead).ok()?;
    let code = fields.get(words::CODE)?.as_i64()?;
    let kind = fields.text(words::TYPE)?;
    let run = || apply::run(&fields);
    // A sender that is refused as such, whatever it reports, is not told of the run.
    if kind == TASK_REPORT.word
        && let Some((task, round)) = run()
    {
        let finished = fields.text(words::STATUS) == Some(words::phase(Phase::Finished));
        return Some(ToAgent::Reported { task, round, finished, accepted: code == 0 });
    }
    if kind == AGENT_SERVE.word {
        let wanted = if code == 0 { Wanted::read(&fields) } else { None };
        return Some(wanted.map_or(ToAgent::Replaced, ToAgent::Wanted));
    }
    if code == i64::from(Code::NoTask.number()) {
        return Some(ToAgent::NoTask);
    }
    if code != 0 {
        return Some(ToAgent::Rejected(fields.text(words::ERROR_MSG).unwrap_or_default().to_owned()));
    }
    match kind {
        _ if kind == AGENT_HEARTBEAT.word => Some(ToAgent::Heard(Heard::read(&fields, run()))),
        _ if kind == AGENT_EXIT.word => Some(ToAgent::Left),
        _ if kind == TASK_APPLY.word => {
            let run = run()?;
            let list = DispatchList::read(&fields, ahead);
            let dispatch = Dispatch::read(fields, run)?;
            Some(match list {
                None => ToAgent::Dispatch(Box::new(dispatch)),
                Some((terms, mut dispatches)) => {
                    dispatches.push_front(dispatch);
                    ToAgent::List(Box::new(DispatchList { dispatches, terms }))
                }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::wire::Refusal;
    use crate::wire::page::PageBytes;
    use crate::wire::reply;
    use crate::wire::reply::Reply;
    use crate::wire::requests::heartbeat::Directive;
    use crate::wire::requests::report::Report;
    use crate::wire::requests::{Message, parse};
    use crate::wire::rules::Rules;
    use base::{
        AddressPolicy, AgentId, Epoch, ExitCode, Phase, PhaseTimes, PortName, RunResult, StepContext, StepName,
        StepRole, TaskRecord, Wall,
    };

    fn heard(reply: &Reply) -> ToAgent {
        decode(&reply::encode(AGENT_HEARTBEAT.word, reply, PageBytes(1))).unwrap()
    }

    #[test]
    fn the_answer_to_a_heartbeat_arrives_as_it_was_meant() {
        let task = "TASK_1480000000.120000_AZazA".parse().unwrap();
        let run = |directive| Some((task, Round(2), directive));
        let (kill, finish) = (run(Directive::Kill), run(Directive::Finish));
        for (wanted, parked, tools) in [(None, true, None), (kill, true, Some(3)), (finish, false, None)] {
            let beat = parked.then_some(8);
            let serving = tools.map(|_| parked);
            let folder = tools.map(|_| "boot:1:2".into());
            let epoch = tools.map(|_| Epoch { service: 1 << 52, number: (1 << 53) - 1 });
            let clock = tools.map(|_| Wall::from_micros(1_480_000_000_000_001));
            let told = Heard { controller: 7, beat, wanted, parked, tools, serving, folder, epoch, clock };
            assert_eq!(heard(&Reply::Heartbeat(told.clone())), ToAgent::Heard(told));
        }
    }

    /// As by a controller that knows another process of its name.
    #[test]
    fn a_report_of_a_refused_agent_is_answered_with_the_reason() {
        let refused = Reply::Refused(Refusal::new(Code::NotAllowed, "another agent".to_owned()));
        let answer = decode(&reply::encode(TASK_REPORT.word, &refused, PageBytes(1)));
        assert_eq!(answer, Some(ToAgent::Rejected("another agent".to_owned())));
    }

    /// With the bound for clients, the controller would answer an agent before it asks again, and leave it idle in between.
    #[test]
    fn an_agent_waits_by_a_bound_of_its_own() {
        let [short, long] = [1, 6].map(Duration::from_secs);
        let addresses = AddressPolicy::default();
        let limits = FieldLimits::TRUSTED;
        let rules = Rules { limits, addresses, wait_max: short, apply_wait_max: long, ..Rules::of_history() };
        let sender = Sender::new(AgentId::new("a").unwrap(), Session(1));
        let understood = |message: FromAgent| match parse(&encode(&sender, &message), &rules) {
            Ok((_, Message::Agent(_, message))) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(understood(FromAgent::Apply(Some(long))), FromAgent::Apply(Some(long)));
        assert_eq!(understood(FromAgent::Apply(Some(long * 2))), FromAgent::Apply(Some(long)));
        let task = "TASK_1480000000.120000_AZazA".parse().unwrap();
        let times = PhaseTimes::default();
        let (phase, ran, wait) = (Phase::Running, Some(Duration::from_micros(1_500_001)), Some(long));
        let report = Report {
            task,
            round: None,
            phase,
            times,
            ran,
            result: None,
            provided: None,
            progress: None,
            let_go: None,
            wait,
        };
        let report = FromAgent::Report(Box::new(report));
        assert_eq!(understood(report.clone()), report);
    }

    fn understood(message: &FromAgent, rules: &Rules) -> Result<FromAgent, crate::wire::requests::Refused> {
        let sender = Sender::new(AgentId::new("a").unwrap(), Session(1));
        match parse(&encode(&sender, message), rules) {
            Ok((_, Message::Agent(_, message))) => Ok(message),
            Ok(other) => panic!("{other:?}"),
            Err(refused) => Err(refused),
        }
    }

    fn provides(locations: Vec<Arc<str>>) -> FromAgent {
        let times = PhaseTimes::default();
        FromAgent::Report(Box::new(Report {
            task: "TASK_1480000000.120000_AZazA".parse().unwrap(),
            round: Some(Round(0)),
            phase: Phase::Finished,
            times,
            ran: None,
            result: Some(RunResult { told_to_finish: true, ..RunResult::of(ExitCode(-15), String::new()) }),
            provided: Some(Box::new([(PortName::new("out").unwrap(), locations)].into())),
            progress: None,
            let_go: None,
            wait: None,
        }))
    }

    /// The frame of a report with many locations is longer than other messages may be, and the escapes within it are longer still.
    #[test]
    fn a_report_may_provide_many_locations() {
        let limits =
            FieldLimits { message_bytes: 4096, fields: 64, name_bytes: 64, value_bytes: 1024, command_bytes: 1024 };
        let rules = Rules { limits, ..Rules::of_history() };
        let long = provides((0..10_000).map(|n| format!("{n:0>300}\"").into()).collect());
        // A failure does not print megabytes.
        assert!(understood(&long, &rules) == Ok(long), "it arrives as it was");
        let refused = |locations| understood(&provides(locations), &rules).unwrap_err().refusal;
        assert_eq!(refused(vec!["x".into(); StepContext::PROVIDED_MAX + 1]).code, Code::BadField);
        let too_long = refused(vec!["x".repeat(4096).into(); StepContext::PROVIDED_BYTES_MAX / 4096]);
        assert_eq!(too_long.code, Code::LimitReached, "{too_long}");
        let too_long = refused(vec!["\"".repeat(4096).into(); StepContext::PROVIDED_BYTES_MAX / 4096]);
        assert_eq!(too_long.code, Code::LimitReached, "{too_long}");
    }

    fn record() -> TaskRecord {
        use crate::wire::record::{Row, decode};
        let row = Row {
            micros: 1_480_000_000_120_000,
            id: "TASK_1480000000.120000_AZazA".to_owned(),
            status: "WAITING".to_owned(),
            operation: "t".to_owned(),
            round: 2,
            submitted_at: 0,
            submitted: r#"{"__OPERATION__":"t","n":1,"__STEP__":"s"}"#.to_owned(),
            state: "{}".to_owned(),
        };
        decode(&row, &Rules::of_history()).unwrap()
    }

    #[test]
    fn a_task_of_a_step_arrives_with_its_place_and_all_its_inputs() {
        let port = |name| PortName::new(name).unwrap();
        let many: Arc<[Arc<str>]> = (0..10_000).map(|n| format!("{n:0>1000}").into()).collect();
        for (role, outputs) in [
            (StepRole::Main, Arc::from([port("a"), port("b")])),
            (StepRole::Prepare(port("in")), Arc::from(Vec::new())),
        ] {
            let step = Arc::new(StepContext {
                graph: "GRAPH_1480000000.120000_AZazA".parse().unwrap(),
                step: StepName::new("s").unwrap(),
                role,
                partition: 7,
                inputs: [(port("in"), many.clone()), (port("none"), Arc::from(Vec::new()))].into(),
                outputs,
                grace: Duration::from_millis(5000),
            });
            let reply = Reply::Assigned(Box::new(record()), Some(Arc::clone(&step)));
            let Some(ToAgent::Dispatch(dispatch)) = decode(&reply::encode(TASK_APPLY.word, &reply, PageBytes(1)))
            else {
                panic!()
            };
            assert!((dispatch.step, dispatch.round) == (Some(step), Round(2)), "it arrives as it was");
            let names: Vec<_> = dispatch.fields.iter().map(|(name, _)| name).collect();
            assert_eq!(names, ["__OPERATION__", "n"], "the place is no field of the submit");
        }
    }
}
