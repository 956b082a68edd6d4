//! The agent's side of the conversation: what it sends, and what it understands of the answers.

use std::time::Duration;

use super::json::{self, FieldLimits, ObjectWriter};
use super::reply::Wanted;
use super::request::{Beat, FromAgent, Heartbeat, Report, Sender};
use super::task;
use super::words::{self, kind};
use crate::types::{Fields, OutputBytes, PhaseTimes, Round, RunResult, Scalar, Session, TaskId, ToolName};

/// A task as an agent gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub task: TaskId,
    /// Which run of it this is.
    pub round: Round,
    /// The tool to run.
    pub tool: ToolName,
    /// What was submitted.
    pub fields: Fields,
    /// How late all but the end of it may be reported.
    pub batch_delay: Duration,
    /// The term of its lease, if it must be ended when the controller is not heard.
    pub lease: Option<Duration>,
}

/// What a controller answers to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ToAgent {
    /// The heartbeat was heard.
    Heard {
        /// Which life of the controller answers.
        controller: u64,
        /// Which heartbeat is answered, if that had a number.
        beat: Option<u32>,
        /// What shall become of the run.
        wanted: Option<(TaskId, Round, Wanted)>,
        /// False if the controller has no APPLY of this agent, and no task on its way to it.
        parked: bool,
        /// The number of the list of tools that the controller knows of this agent.
        tools: Option<u64>,
        /// The look for tools that the agent is asked for.
        look: Option<u64>,
    },
    /// A task.
    Job(Box<Job>),
    /// There is no task.
    NoJob,
    /// A report arrived; when it is refused, nobody wants to hear more of that run.
    Reported {
        /// The task.
        task: TaskId,
        /// Its round.
        round: Round,
        /// Whether FINISHED was reported.
        finished: bool,
        /// Whether it was taken.
        accepted: bool,
    },
    /// The agent is not welcome: another one has its id, for example.
    Rejected(String),
    /// The exit was noted.
    Left,
}

/// Writes a message to the controller.
#[must_use]
pub fn encode(sender: &Sender, message: &FromAgent) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let kind = match message {
        FromAgent::Heartbeat(_) => kind::AGENT_HEARTBEAT,
        FromAgent::Exit => kind::AGENT_EXIT,
        FromAgent::Apply(_) => kind::TASK_APPLY,
        FromAgent::Report(_) => kind::TASK_REPORT,
    };
    let mut writer = ObjectWriter::typed(&mut out, kind);
    writer.text(words::AGENT_ID, sender.agent.as_str());
    if sender.session != Session::default() {
        writer.literal(words::SESSION, sender.session.0);
    }
    match message {
        FromAgent::Heartbeat(heartbeat) => write_heartbeat(heartbeat, &mut writer),
        FromAgent::Exit => {}
        FromAgent::Apply(wait) => {
            if let Some(wait) = wait {
                writer.literal(words::WAIT, wait.as_millis());
            }
        }
        FromAgent::Report(report) => write_report(report, &mut writer),
    }
    writer.end();
    out
}

fn write_heartbeat(heartbeat: &Heartbeat, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::AGENT_STATUS, u8::from(heartbeat.busy));
    if let Some((task, round)) = heartbeat.run {
        writer.text(words::TASK_ID, &task.to_string());
        writer.literal(words::ROUND, round);
    }
    if let Some(ip) = &heartbeat.ip {
        writer.text(words::AGENT_IP, ip);
    }
    if !heartbeat.tags.is_empty() {
        writer.text(words::TAGS, &heartbeat.tags.to_string());
    }
    if let Some(Beat { number, kill_budget }) = heartbeat.beat {
        writer.literal(words::BEAT, number);
        if let Some(budget) = kill_budget {
            writer.literal(words::KILL_BUDGET, budget.as_millis());
        }
    }
    if let Some(session) = heartbeat.replaces {
        writer.literal(words::REPLACES, session.0);
    }
    if let Some(told) = &heartbeat.tools {
        if let Some(generation) = told.generation {
            writer.literal(words::TOOLS_GENERATION, generation);
        }
        if let Some(set) = &told.set {
            writer.text(words::TOOLS, &set.to_string());
        }
        if let Some(looked) = told.looked {
            writer.literal(words::LOOKED, looked);
        }
    }
}

fn write_report(report: &Report, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &report.task.to_string());
    if let Some(round) = report.round {
        writer.literal(words::ROUND, round);
    }
    writer.text(words::STATUS, words::phase(report.phase));
    write_times(report.times, writer);
    if let Some(ran) = report.ran {
        writer.scalar(words::RAN_SECONDS, &Scalar::from(ran.as_secs_f64()));
    }
    if let Some(result) = &report.result {
        write_result(result, writer);
    }
    if let Some(wait) = report.wait {
        writer.literal(words::WAIT, wait.as_millis());
    }
}

pub(super) fn write_times(times: PhaseTimes, writer: &mut ObjectWriter<'_>) {
    let PhaseTimes { prepare, run, end, finish } = times;
    for (name, wall) in
        [(words::PREPARE_TIME, prepare), (words::RUN_TIME, run), (words::END_TIME, end), (words::FINISH_TIME, finish)]
    {
        if let Some(wall) = wall {
            writer.literal(name, wall);
        }
    }
}

pub(super) fn write_result(result: &RunResult, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::EXIT_CODE, result.exit_code);
    for (name, text) in [
        (words::REASON, &result.error),
        (words::REPORT_LOG, &result.report_tail),
        (words::STDOUT, &result.stdout_tail),
        (words::STDERR, &result.stderr_tail),
    ] {
        if !text.is_empty() {
            writer.text(name, text);
        }
    }
    if let Some(OutputBytes { report, stdout, stderr }) = result.output_bytes {
        writer.literal(words::REPORT_BYTES, report);
        writer.literal(words::STDOUT_BYTES, stdout);
        writer.literal(words::STDERR_BYTES, stderr);
    }
    writer.scalar(words::CPU_SECONDS, &Scalar::from(result.cpu_seconds));
    writer.literal(words::MAX_RSS_KB, result.max_rss_kib);
    writer.literal(words::REAPED, result.reaped);
    if result.by_itself {
        writer.literal(words::BY_ITSELF, true);
    }
    if let Some(defer) = &result.defer {
        if let Some(after) = defer.retry_after {
            writer.scalar(words::RETRY_AFTER, &Scalar::from(after.as_secs_f64()));
        }
        if !defer.gates.is_empty() {
            writer.text(words::CLOSE_GATE, &defer.gates.to_string());
        }
    }
}

/// Reads an answer; `None` for what no controller says.
#[must_use]
pub fn decode(frame: &[u8]) -> Option<ToAgent> {
    let fields = json::parse(frame, &FieldLimits::TRUSTED).ok()?;
    let text = |name| fields.get(name).and_then(Scalar::as_text);
    let code = fields.get(words::CODE)?.as_i64()?;
    let run = || Some((text(words::TASK_ID)?.parse().ok()?, Round(number(&fields, words::ROUND)?)));
    match text(words::TYPE)? {
        kind::TASK_REPORT => {
            let (task, round) = run()?;
            let finished = text(words::STATUS) == Some(words::phase(crate::types::Phase::Finished));
            Some(ToAgent::Reported { task, round, finished, accepted: code == 0 })
        }
        _ if code == i64::from(super::Code::NoTask.number()) => Some(ToAgent::NoJob),
        _ if code != 0 => Some(ToAgent::Rejected(text(words::ERROR_MSG).unwrap_or_default().to_owned())),
        kind::AGENT_HEARTBEAT => {
            let controller = fields.get(words::CONTROLLER_ID).and_then(Scalar::as_u64).unwrap_or_default();
            let wanted = text(words::WANTED).and_then(Wanted::of);
            let wanted = wanted.and_then(|wanted| run().map(|(t, r)| (t, r, wanted)));
            let parked = fields.get(words::PARKED) != Some(&Scalar::Bool(false));
            let whole = |name| fields.get(name).and_then(Scalar::as_u64);
            let (tools, look) = (whole(words::TOOLS_GENERATION), whole(words::LOOK));
            Some(ToAgent::Heard { controller, beat: number(&fields, words::BEAT), wanted, parked, tools, look })
        }
        kind::AGENT_EXIT => Some(ToAgent::Left),
        kind::TASK_APPLY => {
            let (task, round) = run()?;
            let tool = ToolName::new(text(words::OPERATION)?).ok()?;
            let mut submitted = fields.clone();
            submitted.retain(|name, _| !task::is_ours(name));
            let millis = |name| number(&fields, name).map(|millis| Duration::from_millis(millis.into()));
            let (batch_delay, lease) = (millis(words::SLACK).unwrap_or_default(), millis(words::LEASE));
            Some(ToAgent::Job(Box::new(Job { task, round, tool, fields: submitted, batch_delay, lease })))
        }
        _ => None,
    }
}

fn number(fields: &Fields, name: &str) -> Option<u32> {
    u32::try_from(fields.get(name)?.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::json::FieldLimits;
    use crate::protocol::reply::{self, PageBytes, Reply};
    use crate::protocol::request::{Message, Rules, parse};
    use crate::types::{AddressPolicy, AgentId, Phase};

    fn heard(reply: &Reply) -> ToAgent {
        decode(&reply::encode(kind::AGENT_HEARTBEAT, reply, PageBytes(1))).unwrap()
    }

    #[test]
    fn the_answer_to_a_heartbeat_arrives_as_it_was_meant() {
        let run = ("TASK_1480000000.120000_AZazA".parse().unwrap(), Round(2), Wanted::Kill);
        for (wanted, parked, tools) in [(None, true, None), (Some(run), true, Some(3)), (None, false, None)] {
            let beat = parked.then_some(8);
            let look = tools.map(|_| 1 << 52);
            let reply = Reply::Heartbeat { controller: 7, beat, wanted, parked, tools, look };
            assert_eq!(heard(&reply), ToAgent::Heard { controller: 7, beat, wanted, parked, tools, look });
        }
    }

    /// The bound for clients would answer an agent before it asks again, and leave it idle in between.
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
