//! TASK/OUTPUT: a part of an output of a task.
//!
//! | the round | the answer |
//! |---|---|
//! | has not begun | none yet |
//! | runs | the bytes that its agent has |
//! | has ended, and the end that came with the result covers the wanted part | from the record |
//! | has ended otherwise | the bytes that its agent has kept; without them, the end that came with the result, and why the rest is missing |

use super::{Answer, Code, Controller, Refusal, Reply, Ticket, words};
use crate::readers::outputs::{Pending, Stage};
use api::wire::requests::logs::{ABSENT, OutputAsk, OutputPart};
use api::wire::requests::serve::Part;
use base::{AgentId, Now, OutputId, Phase, Round, RunResult, TaskRecord, TaskState, exact_tail};

/// A part, as far as it is known without its agent.
pub(crate) enum Seen {
    /// The answer.
    Part(OutputPart),
    /// There is nothing yet; the answer for a client that does not wait.
    Nothing(OutputPart),
    /// The agent has the part; `empty` is an answer without data.
    Agent { agent: AgentId, is_live: bool, empty: OutputPart },
}

/// The progress of a round.
enum Progress<'a> {
    Ahead,
    Live(&'a AgentId),
    Over(Option<&'a AgentId>, Option<&'a RunResult>),
    /// The round is so old that the record no longer has it.
    Forgotten,
}

impl Controller {
    pub(super) fn output(&mut self, now: Now, ticket: Ticket, ask: &OutputAsk) -> Answer {
        let found = match (ask.filter.task_id(), ask.filter.given_id()) {
            (Some(id), _) => id.and_then(|id| self.tasks.get(id)).filter(|record| ask.filter.matches(record)),
            (None, Some(given_id)) => self.tasks.with_given_id(given_id, None).next(),
            (None, None) => None,
        };
        let Some(record) = found else {
            return Reply::Refused(Refusal::no_such_task(ask.filter.shown_id())).into();
        };
        let output = OutputId { task: record.id, round: ask.round.unwrap_or(record.round), stream: ask.stream };
        let limit = ask.limit.unwrap_or(u64::MAX).min(self.settings.part_bytes_max);
        // Without room for a byte there is nothing to wait for.
        let wait = ask.wait.filter(|wait| limit > 0 && !wait.is_zero());
        let until = wait.map(|wait| now.mono + wait);
        let pending = Pending { output, offset: ask.offset, limit, until, stage: Stage::Parked };
        let agent = match self.seen(&pending, None, self.may_agents_return(now)) {
            Err(refusal) => return Reply::Refused(refusal).into(),
            Ok(Seen::Part(part)) => return part.into(),
            Ok(Seen::Nothing(part)) if until.is_none() => return part.into(),
            Ok(Seen::Nothing(_)) => None,
            Ok(Seen::Agent { agent, .. }) => Some(agent),
        };
        if let Some(obstacle) = self.readers.outputs.waits().obstacle(ticket.connection, self.settings.parked_max) {
            let message = format!("this request for an output cannot be parked: {obstacle}");
            return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
        }
        self.park_output(ticket, pending);
        if let Some(agent) = agent {
            self.queue_output(now, ticket, &agent);
        }
        Answer::Later
    }

    /// The task of a parked or watched request has changed, or its agent offers outputs again.
    pub(crate) fn reconsider_output(&mut self, now: Now, ticket: Ticket) {
        let Some(pending) = self.readers.outputs.waits().get(ticket).cloned() else { return };
        if matches!(pending.stage, Stage::Queued(_) | Stage::Asked(_)) {
            return;
        }
        match self.seen(&pending, None, self.may_agents_return(now)) {
            Err(refusal) => self.answer_output(ticket, refusal.into()),
            Ok(Seen::Part(part)) => self.answer_output(ticket, part.into()),
            Ok(Seen::Nothing(_)) => {}
            Ok(Seen::Agent { is_live: true, .. }) if matches!(pending.stage, Stage::Watched(_)) => {}
            Ok(Seen::Agent { agent, .. }) => self.queue_output(now, ticket, &agent),
        }
    }

    /// The agent has answered for a request.
    pub(super) fn take_part(&mut self, now: Now, agent: &AgentId, ticket: Ticket, part: Part) {
        let Some(pending) = self.readers.outputs.waits().get(ticket).cloned() else { return };
        let total = self.true_length(pending.output);
        let offset = pending.offset;
        let (data, length, cut) = match part {
            Part::Live { data, size, gap, written } => {
                if data.is_empty() {
                    return self.nothing_to_send(now, agent, ticket, (&pending, size));
                }
                let (offset, missing) = gap.map_or((offset, None), |gap| (gap.end.max(offset), Some(gap.why)));
                let part = self.part(pending.output, offset, clipped(data, &pending, total));
                let end = total.is_some_and(|total| part.offset + part.data.len() as u64 >= total);
                let part = OutputPart { end, total: total.or(Some(size)), missing, written, ..part };
                return self.answer_output(ticket, part.into());
            }
            Part::Missing(reason) => return self.give_up_output(ticket, &pending, &reason),
            Part::Kept { data, kept, cut } => (data, kept, cut),
        };
        let whole = total.unwrap_or(length);
        // An output is complete if the result says that it is no longer than this, even if the agent cannot know that.
        let is_cut = total.map_or(cut.is_some(), |total| length < total);
        let cut = cut.filter(|_| is_cut);
        if data.is_empty() && is_cut && pending.limit > 0 {
            let reason = cut.unwrap_or_else(|| format!("agent {agent} has only the first {length} bytes of it"));
            return self.give_up_output(ticket, &pending, &reason);
        }
        let part = self.part(pending.output, offset, clipped(data, &pending, Some(whole)));
        let end = !is_cut && offset + part.data.len() as u64 >= whole;
        let total = if cut.is_some() { total } else { Some(whole) };
        let kept = is_cut.then_some(length);
        self.answer_output(ticket, OutputPart { end, total, kept, ..part }.into());
    }

    /// The output of this length is not longer than the offset, or only its length is wanted.
    fn nothing_to_send(&mut self, now: Now, agent: &AgentId, ticket: Ticket, (pending, size): (&Pending, u64)) {
        match (self.seen(pending, None, false), pending.until) {
            (Ok(Seen::Agent { is_live: true, .. } | Seen::Nothing(_)), Some(until)) if until > now.mono => {
                self.wait_for_output(ticket, until, Stage::Watched(agent.clone()));
            }
            (Ok(Seen::Agent { is_live: false, .. }), _) if pending.limit > 0 => {
                self.give_up_output(ticket, pending, &format!("agent {agent} has less of it than was written"));
            }
            (Ok(Seen::Agent { empty, .. }), _) => {
                let total = empty.total.or(Some(size));
                self.answer_output(ticket, OutputPart { total, ..empty }.into());
            }
            (seen, _) => self.answer_output(ticket, at_present(seen)),
        }
    }

    /// The agent cannot send the part, for this reason: the answer is the known part, unless the run goes on.
    pub(crate) fn give_up_output(&mut self, ticket: Ticket, pending: &Pending, reason: &str) {
        match (self.seen(pending, Some(reason), false), pending.until) {
            (Ok(Seen::Nothing(_)), Some(until)) => self.wait_for_output(ticket, until, Stage::Parked),
            (seen, _) => self.answer_output(ticket, at_present(seen)),
        }
    }

    /// The answer with the bytes that are there now, without the agent.
    pub(crate) fn output_at_present(&self, pending: &Pending) -> Reply {
        at_present(self.seen(pending, None, false))
    }

    /// The wanted part, as far as it is known; `gone` says why its agent cannot be asked, `may_return` whether an unknown agent may have
    /// been one of the controller before.
    fn seen(&self, pending: &Pending, gone: Option<&str>, may_return: bool) -> Result<Seen, Refusal> {
        let OutputId { task, round, stream } = pending.output;
        let Some(record) = self.tasks.get(task) else { return Err(Refusal::no_such_task(task)) };
        let empty = self.part(pending.output, pending.offset, Vec::new());
        let ended = |missing: Option<String>| OutputPart { end: true, missing, ..empty.clone() };
        let (agent, result) = match progress(record, round)? {
            Progress::Ahead => return Ok(Seen::Nothing(empty)),
            Progress::Forgotten => {
                let reason = format!("round {round} of task {task} is so long ago that only its number is known");
                return Ok(Seen::Part(ended(Some(reason))));
            }
            Progress::Live(agent) => {
                return Ok(match self.why_not(agent, gone, may_return) {
                    None => Seen::Agent { agent: agent.clone(), is_live: true, empty },
                    Some(missing) => Seen::Nothing(OutputPart { missing: Some(missing), ..empty }),
                });
            }
            Progress::Over(agent, result) => (agent, result),
        };
        let Some(result) = result else {
            // Its agent was lost, and may have come back with what the run has written.
            let Some(agent) = agent else { return Ok(Seen::Part(ended(None))) };
            return Ok(match self.why_not(agent, gone, may_return) {
                None => Seen::Agent { agent: agent.clone(), is_live: false, empty },
                Some(reason) => Seen::Part(ended(Some(format!("the run has no result: {reason}")))),
            });
        };
        let tail = result.tail(stream);
        let Some(total) = result.total(stream) else {
            return Ok(Seen::Part(of_tail(&empty, pending, tail, tail.len() as u64, None)));
        };
        let empty = OutputPart { total: Some(total), ..empty };
        // The tail may be longer than the output: a byte that is not UTF-8 became three.
        if pending.offset >= total {
            return Ok(Seen::Part(OutputPart { end: true, ..empty }));
        }
        if exact_tail(tail, total).is_some_and(|start| pending.offset >= start) {
            return Ok(Seen::Part(of_tail(&empty, pending, tail, total, None)));
        }
        Ok(match agent.map(|agent| (agent, self.why_not(agent, gone, may_return))) {
            Some((agent, None)) => Seen::Agent { agent: agent.clone(), is_live: false, empty },
            Some((_, Some(reason))) => Seen::Part(of_tail(&empty, pending, tail, total, Some(reason))),
            None => Seen::Part(of_tail(&empty, pending, tail, total, Some("its agent is not known".to_owned()))),
        })
    }

    /// Why an agent cannot be asked for an output.
    fn why_not(&self, agent: &AgentId, gone: Option<&str>, may_return: bool) -> Option<String> {
        match (gone, self.fleet.get(agent)) {
            (Some(gone), _) => Some(gone.to_owned()),
            (None, _) if self.readers.outputs.has_offer(agent) => None,
            (None, None) if !may_return => Some(format!("agent {agent}, which had it, is gone")),
            (None, _) => Some(format!("agent {agent}, which had it, {ABSENT}")),
        }
    }

    /// The bytes of an output of a run whose result is known.
    fn true_length(&self, output: OutputId) -> Option<u64> {
        let record = self.tasks.get(output.task)?;
        match progress(record, output.round) {
            Ok(Progress::Over(_, Some(result))) => result.total(output.stream),
            _ => None,
        }
    }

    fn part(&self, output: OutputId, offset: u64, data: Vec<u8>) -> OutputPart {
        let phase = self.tasks.get(output.task).map_or(Phase::Finished, TaskRecord::phase);
        OutputPart { output, phase, offset, data, end: false, total: None, kept: None, missing: None, written: None }
    }
}

impl From<OutputPart> for Answer {
    fn from(part: OutputPart) -> Self {
        Reply::from(part).into()
    }
}

fn at_present(seen: Result<Seen, Refusal>) -> Reply {
    match seen {
        Ok(Seen::Part(part) | Seen::Nothing(part) | Seen::Agent { empty: part, .. }) => part.into(),
        Err(refusal) => refusal.into(),
    }
}

/// The bytes within the limit of a request and the true length of the output.
fn clipped(mut data: Vec<u8>, pending: &Pending, total: Option<u64>) -> Vec<u8> {
    let left = total.map_or(u64::MAX, |total| total.saturating_sub(pending.offset)).min(pending.limit);
    data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
    data
}

/// The wanted part of the end that came with a result. If bytes before that end are missing, the part begins with it.
fn of_tail(empty: &OutputPart, pending: &Pending, tail: &str, total: u64, missing: Option<String>) -> OutputPart {
    let start = total.saturating_sub(tail.len() as u64);
    let offset = pending.offset.max(start);
    let from = usize::try_from(offset - start).unwrap_or(usize::MAX);
    let rest = tail.as_bytes().get(from..).unwrap_or_default();
    let data = rest[..rest.len().min(usize::try_from(pending.limit).unwrap_or(usize::MAX))].to_vec();
    OutputPart { offset, end: data.len() == rest.len(), data, missing, ..empty.clone() }
}

fn progress(record: &TaskRecord, round: Round) -> Result<Progress<'_>, Refusal> {
    if round < record.round {
        let Some(past) = record.past.iter().find(|past| past.round == round) else {
            // A round number may be skipped to fence off a run that may be out there. Such a round has no run of its own.
            let has_dropped = record.past.len() >= TaskRecord::PAST_ROUNDS_MAX;
            let is_before = record.past.first().is_none_or(|first| round < first.round);
            return Ok(if has_dropped && is_before { Progress::Forgotten } else { Progress::Over(None, None) });
        };
        return Ok(Progress::Over(past.assignment.as_ref().map(|run| &run.agent), past.result.as_deref()));
    }
    if round > record.round && record.phase() == Phase::Finished {
        let (task, last) = (record.id, record.round);
        let message = format!("{} is {round}; task {task} has finished in round {last}", words::ROUND);
        return Err(Refusal::new(Code::BadField, message));
    }
    if round > record.round {
        return Ok(Progress::Ahead);
    }
    Ok(match record.stored_state() {
        TaskState::Waiting { .. }
        | TaskState::OutOfContact { .. }
        | TaskState::Dispatched(_)
        | TaskState::Preparing(_) => Progress::Ahead,
        TaskState::Running(run) | TaskState::Ended { assignment: run, result: None } => Progress::Live(&run.agent),
        TaskState::Ended { assignment, result: Some(result) } => Progress::Over(Some(&assignment.agent), Some(result)),
        TaskState::Finished { run, .. } => match run {
            Some((run, result)) => Progress::Over(Some(&run.agent), result.as_deref()),
            None => Progress::Over(None, None),
        },
    })
}
