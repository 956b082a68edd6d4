//! The agent's side of the conversation: its messages, and the answers that it understands.

use super::json::{self, FieldLimits, ObjectWriter};
use super::requests::apply::{self, Job, TASK_APPLY};
use super::requests::exit::AGENT_EXIT;
use super::requests::heartbeat::{self, AGENT_HEARTBEAT, Heard};
use super::requests::report::{self, TASK_REPORT};
use super::requests::serve::{self, AGENT_SERVE, Wanted};
use super::requests::{FromAgent, Sender};
use super::{Code, words};
use crate::types::{Phase, Round, Session, TaskId};

/// The answer of a controller to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ToAgent {
    /// The answer to a heartbeat.
    Heard(Heard),
    /// A task.
    Job(Box<Job>),
    /// There is no task.
    NoJob,
    /// The answer to a report. If the report is refused, reports on that run are not wanted any more.
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
    /// The agent was refused, for example because another one has its id; the reason.
    Rejected(String),
    /// A part of an output is wanted.
    Wanted(Wanted),
    /// A later offer of outputs has replaced the answered one.
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
    }
    writer.end();
    out
}

/// Reads an answer; `None` for a message that a controller does not send.
#[must_use]
pub fn decode(frame: &[u8]) -> Option<ToAgent> {
    let fields = json::parse(frame, &FieldLimits::TRUSTED).ok()?;
    let code = fields.get(words::CODE)?.as_i64()?;
    let kind = fields.text(words::TYPE)?;
    let run = || {
        let round = u32::try_from(fields.count(words::ROUND)?).ok()?;
        Some((fields.text(words::TASK_ID)?.parse().ok()?, Round(round)))
    };
    if kind == TASK_REPORT.word {
        let (task, round) = run()?;
        let finished = fields.text(words::STATUS) == Some(words::phase(Phase::Finished));
        return Some(ToAgent::Reported { task, round, finished, accepted: code == 0 });
    }
    if kind == AGENT_SERVE.word {
        let wanted = if code == 0 { Wanted::read(&fields) } else { None };
        return Some(wanted.map_or(ToAgent::Replaced, ToAgent::Wanted));
    }
    if code == i64::from(Code::NoTask.number()) {
        return Some(ToAgent::NoJob);
    }
    if code != 0 {
        return Some(ToAgent::Rejected(fields.text(words::ERROR_MSG).unwrap_or_default().to_owned()));
    }
    match kind {
        _ if kind == AGENT_HEARTBEAT.word => Some(ToAgent::Heard(Heard::read(&fields, run()))),
        _ if kind == AGENT_EXIT.word => Some(ToAgent::Left),
        _ if kind == TASK_APPLY.word => {
            let run = run()?;
            Some(ToAgent::Job(Box::new(Job::read(fields, run)?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::page::PageBytes;
    use crate::protocol::reply::{self, Reply};
    use crate::protocol::requests::heartbeat::Directive;
    use crate::protocol::requests::report::Report;
    use crate::protocol::requests::{Message, parse};
    use crate::protocol::rules::Rules;
    use crate::types::{AddressPolicy, AgentId, Phase, PhaseTimes};

    fn heard(reply: &Reply) -> ToAgent {
        decode(&reply::encode(AGENT_HEARTBEAT.word, reply, PageBytes(1))).unwrap()
    }

    #[test]
    fn the_answer_to_a_heartbeat_arrives_as_it_was_meant() {
        let run = ("TASK_1480000000.120000_AZazA".parse().unwrap(), Round(2), Directive::Kill);
        for (wanted, parked, tools) in [(None, true, None), (Some(run), true, Some(3)), (None, false, None)] {
            let beat = parked.then_some(8);
            let look = tools.map(|_| 1 << 52);
            let serving = tools.map(|_| parked);
            let told = Heard { controller: 7, beat, wanted, parked, tools, look, serving };
            assert_eq!(heard(&Reply::Heartbeat(told.clone())), ToAgent::Heard(told));
        }
    }

    /// With the bound for clients, the controller would answer an agent before it asks again, and leave it idle in between.
    #[test]
    fn an_agent_waits_by_a_bound_of_its_own() {
        let [short, long] = [1, 6].map(Duration::from_secs);
        let addresses = AddressPolicy::default();
        let limits = FieldLimits::TRUSTED;
        let rules = Rules { limits, addresses, wait_max: short, apply_wait_max: long, ..Rules::of_history() };
        let sender = Sender { agent: AgentId::new("a").unwrap(), session: Session(1) };
        let understood = |message: FromAgent| match parse(&encode(&sender, &message), &rules) {
            Ok((_, Message::Agent(_, message))) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(understood(FromAgent::Apply(Some(long))), FromAgent::Apply(Some(long)));
        assert_eq!(understood(FromAgent::Apply(Some(long * 2))), FromAgent::Apply(Some(long)));
        let task = "TASK_1480000000.120000_AZazA".parse().unwrap();
        let times = PhaseTimes::default();
        let (phase, ran, wait) = (Phase::Running, Some(Duration::from_micros(1_500_001)), Some(long));
        let report = Report { task, round: None, phase, times, ran, result: None, wait };
        let report = FromAgent::Report(Box::new(report));
        assert_eq!(understood(report.clone()), report);
    }
}
