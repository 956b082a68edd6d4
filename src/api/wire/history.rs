//! The rounds of a task: as fields, and as a log for people.
//!
//! A field of a past round keeps its name, with the number of the round as prefix: `0:__EXIT_CODE__`. The log is derived from the
//! record, so that no data is stored twice.

use std::fmt::Write as _;

use super::result;
use base::json::ObjectWriter;
use base::{
    AgentId, Assignment, BlockedAgent, ExitCode, GateVerdict, Holdup, Kill, KillCause, PastRound, Phase, PhaseTimes,
    Prior, Requirements, RoundEnd, RunResult, Servers, TaskRecord, TaskState, Term, ToolDigest, ToolName, UNTIL_OPENED,
    Wall, Wanted, words,
};

/// Writes the rounds before the present one.
pub fn write(record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    for past in &record.past {
        out.prefixed(format!("{}:", past.round), |out| write_past(past, out));
    }
}

fn write_past(past: &PastRound, out: &mut ObjectWriter<'_>) {
    out.text(words::ROUND_END, words::round_end(past.end));
    out.moment(words::ROUND_END_TIME, past.at);
    if let Some(run) = &past.assignment {
        write_run(run, out);
    }
    if let Some(result) = &past.result {
        result::write(result, out);
    }
}

/// Writes the agent of a run, and the times of its phases.
pub(super) fn write_run(run: &Assignment, out: &mut ObjectWriter<'_>) {
    out.text(words::AGENT_ID, run.agent.as_str());
    out.maybe_text(words::AGENT_IP, run.host.map(|host| host.to_string()));
    out.moment(words::DISPATCH_TIME, run.dispatched_at);
    result::write_times(run.times, out);
}

/// One line for each transition, with its time and, if there is one, its reason. Times are unix seconds.
#[must_use]
pub fn log(record: &TaskRecord) -> String {
    let mut log = Log(Vec::new());
    log.line(record.submitted_at, "WAITING: submitted");
    for past in &record.past {
        if let Some(run) = &past.assignment {
            log.start(run);
            log.end(run, past.result.as_deref());
        }
        let next = past.round.next();
        log.line(past.at, &format!("WAITING: {}; round {next} follows", ended(past.end)));
    }
    if let Some(run) = record.last_run() {
        log.start(run);
    }
    let ended_at = record.last_run().and_then(|run| run.times.end);
    let is_late = |kill: &&Kill| ended_at.is_some_and(|ended_at| ended_at < kill.at);
    if let Some(kill) = record.kill.as_deref().filter(|kill| !is_late(kill)) {
        log.kill(kill);
    }
    if let Some(run) = record.last_run() {
        log.end(run, record.result().map(|result| &**result));
    }
    if let Some(kill) = record.kill.as_deref().filter(is_late) {
        log.kill(kill);
    }
    if let Some(at) = record.held {
        log.insert(at, "held".to_owned());
    }
    if let TaskState::Finished { at, outcome, .. } = record.state {
        log.line(at, &format!("FINISHED: {}", words::outcome(outcome)));
    }
    log.0.iter().fold(String::new(), |mut text, (at, what)| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{at} {what}");
        text
    })
}

struct Log(Vec<(Wall, String)>);

impl Log {
    fn line(&mut self, at: Wall, what: &str) {
        self.0.push((at, what.to_owned()));
    }

    /// Inserts a line at its place by time. The phases keep their order, even if the clocks of agents disagree.
    fn insert(&mut self, at: Wall, what: String) {
        let later = self.0.iter().rev().take_while(|(other, _)| *other > at).count();
        self.0.insert(self.0.len() - later, (at, what));
    }

    fn kill(&mut self, kill: &Kill) {
        let what = match &kill.cause {
            KillCause::Skipped(why) => format!("skipped: {why}"),
            KillCause::GraphEnds(why) => format!("ended with its graph: {why}"),
            cause => format!("to be ended: {cause}"),
        };
        self.insert(kill.at, what);
    }

    fn start(&mut self, run: &Assignment) {
        let PhaseTimes { prepare, run: running, .. } = run.times;
        let host = run.host.map_or_else(String::new, |host| format!(" on {host}"));
        self.line(run.dispatched_at, &format!("DISPATCHED: to agent {}{host}", run.agent));
        for (at, phase) in [(prepare, Phase::Preparing), (running, Phase::Running)] {
            if let Some(at) = at {
                self.line(at, words::phase(phase));
            }
        }
    }

    fn end(&mut self, run: &Assignment, result: Option<&RunResult>) {
        match (run.times.end, result) {
            (Some(at), Some(result)) => {
                self.line(at, &format!("ENDED: {}", exit(result)));
                let files = result.files.iter().flat_map(|files| [&files.note, &files.idle]);
                files.filter(|said| !said.is_empty()).for_each(|said| self.line(at, &format!("its files: {said}")));
            }
            (Some(at), None) => self.line(at, words::phase(Phase::Ended)),
            (None, _) => {}
        }
    }
}

fn exit(result: &RunResult) -> String {
    match (result.error.is_empty(), result.exit_code) {
        (true, ExitCode(code)) if code < 0 => format!("signal {}", -code),
        (true, code) => format!("exit code {code}"),
        (false, code) => format!("exit code {code}: {}", result.error),
    }
}

const fn ended(end: RoundEnd) -> &'static str {
    match end {
        RoundEnd::Failed => "the run failed",
        RoundEnd::TimedOut => "the run took too long",
        RoundEnd::Lost => "its agent was lost",
        RoundEnd::Deferred => "run.sh asked to be run again later",
        RoundEnd::Returned => "its agent left, or came back without it",
        RoundEnd::Retried => "another round was requested",
        RoundEnd::NoTool => "its agent did not have its tool, and another agent has it",
        RoundEnd::DiskFull => "the disk of its agent was full, so another agent gets it",
        RoundEnd::NotHere => "the machine of its agent does not have its folder or its client, so another one gets it",
    }
}

/// Why a task is in its present state: one sentence.
#[must_use]
pub fn why(record: &TaskRecord, holdup: Option<&Holdup>) -> String {
    match (&record.state, holdup) {
        (_, Some(Holdup::Silent { since, until, other })) => silent(record, *since, *until, other),
        (TaskState::Waiting { .. }, Some(holdup)) => waits(record, holdup) + &unfit_agents(record),
        (TaskState::Waiting { .. }, None) => "it waits for an agent".to_owned(),
        (TaskState::Finished { outcome, .. }, _) => match super::task::reason_of(record) {
            Some(reason) => format!("it ended as {}: {reason}", words::outcome(*outcome)),
            None => match record.result() {
                Some(result) => format!("it ended as {}: {}", words::outcome(*outcome), exit(result)),
                None => format!("it ended as {}", words::outcome(*outcome)),
            },
        },
        (TaskState::Dispatched(run), None) if run.ahead.is_some() => match &record.kill {
            Some(kill) => format!("agent {} has it in a list and is told not to start it: {}", run.agent, kill.cause),
            None => format!(
                "agent {} has it in a list of short tasks, and starts it when those before it have ended; if that takes \
                 longer than LIST_TIME_MAX, it waits again for any agent",
                run.agent
            ),
        },
        (_, Some(Holdup::Lease(until))) => lease(record, *until),
        (_, Some(Holdup::HeldSlots { agents, is_parent })) => held(record, agents, *is_parent),
        (_, Some(Holdup::Fetching { digest, offset, total })) => fetching(record, digest, *offset, *total),
        (_, _) => {
            let agent = record.assignment().map_or("", |run| run.agent.as_str());
            let does = does(record.phase());
            let told = match &record.kill {
                Some(kill) => format!("agent {agent} {does} and is told to end it: {}", kill.cause),
                None => format!("agent {agent} {does}"),
            };
            let told = match super::task::told(record) {
                Some(known) => format!("{told}; {}", known.progress),
                None => told,
            };
            match record.result().filter(|result| !result.error.is_empty()) {
                Some(result) => format!("{told}: {}", result.error),
                None => told,
            }
        }
    }
}

/// What an agent does with a task that it has.
const fn does(phase: Phase) -> &'static str {
    match phase {
        Phase::Preparing => "prepares it",
        Phase::Running => "runs it",
        Phase::Ended => "has run it and ends what it left",
        Phase::Waiting | Phase::Dispatched | Phase::Finished => "has it",
    }
}

/// A clause that says whether the last run found its tool running; empty for a tool that does not stay.
pub(super) fn started(record: &TaskRecord) -> String {
    let Some((run, is_warm)) = record.last_run().zip(record.result().and_then(|result| result.warm)) else {
        return String::new();
    };
    let tool = if is_warm { "had it running" } else { "started it" };
    format!("; started on {}, which {tool}", run.agent)
}

/// A clause about an agent whose own version of the tool replaces the pinned one.
pub(super) fn own_version(record: &TaskRecord, own: ToolDigest) -> String {
    let agent = record.last_run().map_or("", |run| run.agent.as_str());
    let pin = record.pin.map(|pin| format!(", which goes before version {} of the controller", pin.short()));
    format!(
        "; AGENT_TOOLS_DIR of agent {agent} has version {} of tool {}{}",
        own.short(),
        record.tool,
        pin.unwrap_or_default()
    )
}

/// Why some agents do not get the task.
fn unfit_agents(record: &TaskRecord) -> String {
    let Some(last) = record.unfit_rounds().next() else { return String::new() };
    let needs = record.needs();
    let agents: Vec<_> = needs.avoided.iter().map(AgentId::as_str).collect();
    let why = last.result.as_ref().map_or("it was unfit", |result| result.error.as_str());
    let until = record.next_trial().unwrap_or(last.at);
    format!("; it has been with {} and does not go there again before {until}: {why}", agents.join(", "))
}

/// Why a task waits after its agent has fallen silent.
fn silent(record: &TaskRecord, since: Wall, until: Option<Wall>, other: &Holdup) -> String {
    let agent = record.last_run().map_or("", |run| run.agent.as_str());
    let next = match until {
        Some(until) => format!(
            "most agents have fallen silent at once, so the controller may be cut off itself and gives the task to no other agent \
             before {until}"
        ),
        None => format!("another agent gets the task as soon as one can take it; {}", waits(record, other)),
    };
    format!(
        "agent {agent} is lost since {since}; if it comes back before another round begins, its run goes on; {next}"
    )
}

fn lease(record: &TaskRecord, until: Wall) -> String {
    let agent = record.last_run().map_or("", |run| run.agent.as_str());
    format!(
        "agent {agent} is silent; the task is exclusive (__EXCLUSIVE__), so it continues when the lease of its run has expired, at \
         {until} at the latest"
    )
}

/// The event that a term waits for, and the number of other terms.
fn after(term: &Term, count: usize) -> String {
    let waits = match (term.wanted, &term.of) {
        (Wanted::Success, Prior::Task(task)) => format!("task {task} to succeed"),
        (Wanted::End, Prior::Task(task)) => format!("task {task} to finish"),
        (Wanted::Failure, Prior::Task(task)) => format!("task {task} to fail"),
        (Wanted::Success, Prior::Job(job)) => format!("every older task of job {job} to succeed"),
        (Wanted::End, Prior::Job(job)) => format!("every older task of job {job} to finish"),
        (Wanted::Failure, Prior::Job(job)) => format!("one of the older tasks of job {job} to fail"),
    };
    let others = match count {
        0 | 1 => String::new(),
        2 => " and for one more term".to_owned(),
        _ => format!(" and for {} more terms", count - 1),
    };
    format!("it waits for {waits}{others} ({})", words::AFTER)
}

fn fetching(record: &TaskRecord, digest: &ToolDigest, offset: u64, total: u64) -> String {
    format!(
        "its agent {} fetches version {} of the tool {} from the controller: {offset} of {total} bytes are there",
        record.last_run().map_or("", |run| run.agent.as_str()),
        digest.short(),
        record.tool
    )
}

/// The tool of a task in a sentence.
fn named(tool: &ToolName) -> String {
    if tool.is_command() {
        "the operation for commands".to_owned()
    } else if tool.is_source() {
        "the operation for fetched programs".to_owned()
    } else {
        format!("its tool {tool}")
    }
}

fn waits(record: &TaskRecord, holdup: &Holdup) -> String {
    let needs = &record.policy.needs;
    let tool = named(&record.tool);
    match holdup {
        Holdup::Paused(until) => service_paused(*until),
        Holdup::Held(since) => format!("it has been held since {since}; `llts resume {}` lets it start", record.id),
        Holdup::After(term, count) => after(term, *count),
        Holdup::NotBefore(at) => {
            let because = match record.past.last() {
                Some(past) if record.policy.start_after != Some(*at) => ended(past.end),
                _ => "its submitter set that time (__START_AFTER__)",
            };
            format!("it does not start before {at}: {because}")
        }
        Holdup::Gate(gate, GateVerdict::Closed(until)) if *until >= UNTIL_OPENED => {
            format!("its gate {gate} is closed; `llts resume --gate {gate}` opens it")
        }
        Holdup::Gate(gate, GateVerdict::Closed(until)) => format!("its gate {gate} is closed until {until}"),
        Holdup::Gate(gate, GateVerdict::Full) => {
            format!("its gate {gate} is full: the maximum number of tasks that passed it are running")
        }
        Holdup::Gate(gate, GateVerdict::Paced) => {
            format!("its gate {gate} has reached its number of starts for the moment")
        }
        Holdup::Gate(gate, GateVerdict::Open) => format!("its gate {gate} is open; it starts at once"),
        Holdup::Lease(until) => lease(record, *until),
        Holdup::Silent { since, until, other } => silent(record, *since, *until, other),
        Holdup::Claims(until) => {
            format!(
                "the controller has started, and an agent may have the task already: it starts at {until}, unless one says so"
            )
        }
        Holdup::Outdated(why) => why.clone(),
        Holdup::Store(why) => format!("an agent gets it when that is stored, and the store cannot be written ({why})"),
        Holdup::Unfit(drained) => no_other(drained),
        Holdup::Drained(agents) => paused("the agents", agents),
        Holdup::NoSuchAgent if needs.tags.is_empty() => "no agent exists that may run it".to_owned(),
        Holdup::NoSuchAgent => format!("no agent has the tags {} that it requires", needs.tags),
        Holdup::OnlySimpleAgents => only_simple_agents(record, needs),
        Holdup::NoTool => format!(
            "no agent has its tool {}; the next free agent looks for it again, and if it is still missing, the task ends with \
             exit code {}",
            record.tool,
            ExitCode::TOOL_MISSING
        ),
        Holdup::Fetching { digest, offset, total } => fetching(record, digest, *offset, *total),
        Holdup::ToolElsewhere if needs.tags.is_empty() => {
            format!("the agents that have {tool} get no tasks: `llts agents` shows the drained ones")
        }
        Holdup::ToolElsewhere => format!(
            "no agent that may take it has both {tool} and the tags {} that it requires: `llts agents` shows tools and tags",
            needs.tags
        ),
        Holdup::HeldSlots { agents, is_parent } => held(record, agents, *is_parent),
        Holdup::Agents { before, servers, is_one_idle, blocked } => {
            agents(*before, *servers, *is_one_idle, blocked.as_deref(), &tool)
        }
    }
}

/// All agents that could run the task are held by parents that wait for their children.
fn held(record: &TaskRecord, agents: &[AgentId], is_parent: bool) -> String {
    let agents: Vec<_> = agents.iter().map(AgentId::as_str).collect();
    let agents = agents.join(", ");
    let advice = "start more agents, or let tasks lend their slots while they wait (AGENT_LEND_MAX)";
    if is_parent {
        let own = record.assignment().map_or("", |run| run.agent.as_str());
        return format!(
            "agent {own} runs it, and children of it wait: the agents that could run them ({agents}) run tasks that wait for \
             children of theirs; {advice}"
        );
    }
    format!(
        "the agents that could run it ({agents}) run tasks that wait for children of theirs, so that none becomes free; {advice}"
    )
}

/// The task needs a full agent, and there are only simple ones.
fn only_simple_agents(record: &TaskRecord, needs: &Requirements) -> String {
    let what = match &record.tool {
        tool if tool.is_command() => "it is a command".to_owned(),
        tool if tool.is_source() => format!("its program is fetched by its agent ({})", words::SOURCE),
        _ if needs.files => format!("files travel with it ({}, {})", words::IN, words::OUT),
        _ => format!("it is exclusive ({})", words::EXCLUSIVE),
    };
    let tags = if needs.tags.is_empty() { String::new() } else { format!(" with the tags {}", needs.tags) };
    format!(
        "{what}, and no agent here{tags} takes such tasks: their heartbeats have no {}; start agents with `llts up --add N`",
        words::WIRE_VERSION
    )
}

/// A client has paused the service.
fn service_paused(until: Wall) -> String {
    let until = if until >= UNTIL_OPENED { String::new() } else { format!(" until {until}") };
    format!("a client has paused the service{until}; `llts resume --service` lets tasks start")
}

fn no_other(drained: &[AgentId]) -> String {
    if drained.is_empty() {
        return "no other agent here may run it".to_owned();
    }
    paused("the other agents", drained)
}

fn paused(which: &str, agents: &[AgentId]) -> String {
    let agents: Vec<_> = agents.iter().map(AgentId::as_str).collect();
    let (named, listed) = (agents.join(", "), agents.join(" "));
    format!("{which} that could run it are paused: {named}; `llts resume --agent {listed}` gives them tasks again")
}

/// Why a task that is ready does not start: its agents are busy.
fn agents(before: usize, servers: Servers, is_one_idle: bool, blocked: Option<&BlockedAgent>, tool: &str) -> String {
    let tool = match servers {
        Servers::All => String::new(),
        Servers::Told => format!(" that have {tool} and"),
        Servers::Untold => format!(" that have {tool}, or do not report their tools, and"),
    };
    let busy = if is_one_idle { "are busy or do not ask for a task" } else { "are busy" };
    let blocked = blocked.map_or_else(String::new, |BlockedAgent { agent, task, reason }| {
        format!("; agent {agent} is kept busy by the remains of task {task}: {reason}")
    });
    match before {
        0 => format!("it is next in the queue; all agents{tool} that could run it {busy}{blocked}"),
        1 => format!("one task is before it, and all agents{tool} that could run it {busy}{blocked}"),
        _ => format!("{before} tasks are before it, and all agents{tool} that could run them {busy}{blocked}"),
    }
}
