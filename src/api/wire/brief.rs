//! The reason why a task waits, in a few words for a column. [`super::history::why`] has the whole sentence.

use base::{
    GateVerdict, Holdup, Outcome, Prior, Round, RoundOutcome, TaskId, TaskRecord, Term, UNTIL_OPENED, Wanted, words,
};

/// The holdup in a few words. Moments in them are unix seconds with six decimals.
#[must_use]
pub fn brief(record: &TaskRecord, holdup: &Holdup) -> String {
    match holdup {
        Holdup::Agents { before: 0, .. } => "next; agents are busy".to_owned(),
        Holdup::Agents { before: 1, .. } => "1 task before it".to_owned(),
        Holdup::Agents { before, .. } => format!("{before} tasks before it"),
        other => reason(record, other),
    }
}

/// As [`brief`], without the place in the queue, so that tasks that wait for the same thing have the same text.
#[must_use]
pub fn reason(record: &TaskRecord, holdup: &Holdup) -> String {
    let needs = &record.policy.needs;
    match holdup {
        Holdup::Paused(until) if *until >= UNTIL_OPENED => "service paused".to_owned(),
        Holdup::Paused(until) => format!("service paused until {until}"),
        Holdup::Drained(agents) if agents.len() == 1 => format!("agent {} paused", agents[0]),
        Holdup::Drained(_) => "agents paused".to_owned(),
        Holdup::Held(_) => "held".to_owned(),
        Holdup::After(term, count) => after(term, *count),
        Holdup::NotBefore(at) => match super::rounds::of_record::newest(record) {
            Some(round) if record.round > Round(0) => {
                format!("starts {at}: round {} {}", round.round, ended(round.outcome))
            }
            _ => format!("starts {at}"),
        },
        Holdup::Gate(gate, GateVerdict::Closed(until)) if *until >= UNTIL_OPENED => format!("gate {gate} closed"),
        Holdup::Gate(gate, GateVerdict::Closed(until)) => format!("gate {gate} closed until {until}"),
        Holdup::Gate(gate, GateVerdict::Full) => format!("gate {gate} full"),
        Holdup::Gate(gate, GateVerdict::Paced) => format!("gate {gate} at its pace"),
        Holdup::Gate(gate, GateVerdict::Open) => format!("gate {gate} open"),
        Holdup::Lease(until) => format!("lease of its last run until {until}"),
        Holdup::Silent { .. } => {
            format!("its agent {} is lost", record.last_run().map_or("", |run| run.agent.as_str()))
        }
        Holdup::Claims(until) => format!("starts {until} unless an agent has it"),
        Holdup::Outdated(_) => "another controller has the agents".to_owned(),
        Holdup::Store(_) => "the store cannot be written".to_owned(),
        Holdup::Unfit(_) => "no other agent may run it".to_owned(),
        Holdup::NoSuchAgent if needs.tags.is_empty() => "no agent".to_owned(),
        Holdup::NoSuchAgent => format!("no agent has tag {}", needs.tags),
        Holdup::OnlySimpleAgents => format!("no agent takes {}", beyond_tools(record)),
        Holdup::NoTool => format!("no agent has tool {}", record.tool),
        Holdup::ToolElsewhere => format!("agents with tool {} may not run it", record.tool),
        Holdup::Fetching { offset, total, .. } => {
            format!("fetching its tool, {} %", (offset * 100).checked_div(*total).unwrap_or_default())
        }
        Holdup::HeldSlots { .. } => "agents wait for children of their tasks".to_owned(),
        Holdup::Agents { .. } => "agents are busy".to_owned(),
    }
}

/// What a task asks of its agent that an agent of the document, which only runs its tools, does not have.
fn beyond_tools(record: &TaskRecord) -> &'static str {
    match &record.tool {
        tool if tool.is_command() => "commands",
        tool if tool.is_source() => "programs from a source",
        _ if record.policy.needs.files => "files of tasks",
        _ => "exclusive tasks",
    }
}

fn after(term: &Term, count: usize) -> String {
    let wanted = match term.wanted {
        Wanted::Success => "",
        Wanted::End => "the end of ",
        Wanted::Failure => "a failure of ",
    };
    let of = match &term.of {
        Prior::Task(task) => short(*task),
        Prior::Job(job) => format!("job {job}"),
    };
    let others = count.saturating_sub(1);
    let others = if others == 0 { String::new() } else { format!(" and {others} more") };
    format!("after {wanted}{of}{others}")
}

/// The random letters of an id. People use them in place of the id.
#[must_use]
pub fn short(task: TaskId) -> String {
    String::from_utf8_lossy(&task.letters()).into_owned()
}

/// One line about the state of a task: the reason of its wait, the order to end it, the progress of its run, or the line about
/// its last end.
#[must_use]
pub fn why(record: &TaskRecord, holdup: Option<&Holdup>) -> Option<String> {
    if let Some(holdup) = holdup {
        return Some(brief(record, holdup));
    }
    match (&record.kill, super::rounds::of_record::newest(record)) {
        (_, Some(round)) if round.is_last && round.outcome == RoundOutcome::Ended(Outcome::Skipped) => {
            Some(skipped(&round.line))
        }
        (_, Some(round)) if round.is_last && round.round == record.round => {
            Some(round.line.into_owned()).filter(|line| !line.is_empty())
        }
        (Some(kill), _) => Some(format!("is told to end: {}", kill.cause)),
        (None, _) if let Some(told) = super::task::told(record) => Some(told.progress.to_string()),
        (None, Some(round)) => Some(format!("round {}: round {} {}", record.round, round.round, ended(round.outcome))),
        (None, None) => None,
    }
}

fn ended(outcome: base::RoundOutcome) -> String {
    format!("ended as {}", words::round_outcome(outcome))
}

/// Why a task was skipped, for example `task MEylh ended as FAILED`. The term that could not be met is left out.
fn skipped(line: &str) -> String {
    let why = line.split_once(" cannot be met: ").map_or(line, |(_, why)| why);
    let word = |word: &str| word.parse().map_or_else(|_| word.to_owned(), short);
    why.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_task_says_what_it_has_waited_for() {
        let line = "the term TASK_1480000000.120000_AZazA of __AFTER__ cannot be met: task TASK_1480000000.120000_AZazA ended as FAILED";
        assert_eq!(skipped(line), "task AZazA ended as FAILED");
        assert_eq!(skipped("its graph was killed"), "its graph was killed");
    }
}
