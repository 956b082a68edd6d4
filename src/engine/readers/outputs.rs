//! Requests for outputs: each waits for a phase of its task, for its turn at the agent that has the output, or for the
//! output to grow. An agent is asked for one part at a time, so that it holds one part in memory, whatever the number of
//! readers.
//!
//! | a request | then |
//! |---|---|
//! | is parked | a change of its task, or an offer of its agent, has it considered again |
//! | is queued | it is asked for when the agent has answered those before it |
//! | is asked for | the agent sends the part, or has nothing behind the offset: then the output is watched |
//! | is watched | the output has grown: it is queued; the task has changed: it is considered again |
//!
//! A request ends at the time that the client has set, or when its agent has taken too long to answer. The answer itself, and the
//! part of it that is known without the agent, are the concern of `requests/logs.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::waits::Waits;
use crate::Controller;
use crate::turn::effect::{ConnectionId, Ticket, Timer};
use api::wire::reply::Reply;
use api::wire::requests::serve::Wanted;
use api::wire::{Code, Refusal, reply};
use base::{AgentId, Mono, Now, OutputId, TaskId};

/// A request that has not been answered.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) output: OutputId,
    /// The first wanted byte.
    pub(crate) offset: u64,
    /// The largest number of bytes.
    pub(crate) limit: u64,
    /// How long the client waits for a byte; `None` if it wants an answer at once.
    pub(crate) until: Option<Mono>,
    pub(crate) stage: Stage,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Parked,
    Queued(AgentId),
    Asked(AgentId),
    Watched(AgentId),
}

/// An agent that offers outputs.
#[derive(Debug, Default)]
struct Offer {
    /// The connection of the agent.
    connection: ConnectionId,
    /// Its parked AGENT/SERVE.
    ticket: Option<Ticket>,
    /// The request that it was asked for, with the number of the part.
    asked: Option<(u64, Ticket)>,
    /// The requests that follow, some of which may have ended.
    queue: VecDeque<Ticket>,
    watched: BTreeSet<Ticket>,
}

#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) waits: Waits<TaskId, Pending>,
    offers: BTreeMap<AgentId, Offer>,
    /// The agents whose offers are parked by each connection.
    by_connection: BTreeMap<ConnectionId, BTreeSet<AgentId>>,
    /// The agent that was asked for each part.
    asked: BTreeMap<u64, AgentId>,
    /// The number of the last part that was asked for.
    number: u64,
}

impl Outputs {
    /// The requests that wait for an output.
    pub(crate) const fn waits(&self) -> &Waits<TaskId, Pending> {
        &self.waits
    }

    /// Whether an agent offers outputs.
    pub(crate) fn has_offer(&self, agent: &AgentId) -> bool {
        self.offers.contains_key(agent)
    }

    /// Parks the offer of an agent in place of the one before it, which is returned. True if the agent had none.
    pub(crate) fn park(&mut self, agent: &AgentId, ticket: Ticket) -> (Option<Ticket>, bool) {
        let is_new = !self.has_offer(agent);
        let offer = self.offers.entry(agent.clone()).or_default();
        let before = std::mem::replace(&mut offer.connection, ticket.connection);
        let replaced = offer.ticket.replace(ticket);
        // The connection seldom changes, so that an answer usually costs no change of the index.
        if is_new || before != ticket.connection {
            self.forget_connection(before, agent);
            self.by_connection.entry(ticket.connection).or_default().insert(agent.clone());
        }
        (replaced, is_new)
    }

    fn forget_connection(&mut self, connection: ConnectionId, agent: &AgentId) {
        let Some(agents) = self.by_connection.get_mut(&connection) else { return };
        agents.remove(agent);
        if agents.is_empty() {
            self.by_connection.remove(&connection);
        }
    }

    /// The agents whose offers came by this connection.
    fn offered_by(&self, connection: ConnectionId) -> Vec<AgentId> {
        let of_it = self.by_connection.get(&connection).into_iter().flatten();
        of_it.cloned().collect()
    }

    /// The request that an agent answers with the part of this number.
    pub(crate) fn answered(&mut self, agent: &AgentId, ask: u64) -> Option<Ticket> {
        let offer = self.offers.get_mut(agent)?;
        let (_, ticket) = offer.asked.take_if(|(number, _)| *number == ask)?;
        self.asked.remove(&ask);
        Some(ticket)
    }

    /// The requests that watch an output.
    pub(crate) fn watching(&self, output: &OutputId) -> Vec<Ticket> {
        let watches = |ticket: &Ticket| {
            self.waits
                .get(*ticket)
                .is_some_and(|pending| pending.output == *output && matches!(pending.stage, Stage::Watched(_)))
        };
        self.waits.of_subject(&output.task).into_iter().filter(watches).collect()
    }

    fn set_stage(&mut self, ticket: Ticket, stage: Stage) {
        let Some(pending) = self.waits.get_mut(ticket) else { return };
        let before = std::mem::replace(&mut pending.stage, stage.clone());
        if let Stage::Watched(agent) = before
            && let Some(offer) = self.offers.get_mut(&agent)
        {
            offer.watched.remove(&ticket);
        }
        match stage {
            Stage::Queued(agent) => self.offers.entry(agent).or_default().queue.push_back(ticket),
            Stage::Watched(agent) => drop(self.offers.entry(agent).or_default().watched.insert(ticket)),
            Stage::Parked | Stage::Asked(_) => {}
        }
    }

    fn remove(&mut self, ticket: Ticket) {
        self.set_stage(ticket, Stage::Parked);
        self.waits.remove(ticket);
    }

    /// The next request for an agent that is not occupied with another one, and the parked offer that it answers.
    fn next_ask(&mut self, agent: &AgentId) -> Option<(Ticket, Ticket)> {
        let offer = self.offers.get_mut(agent).filter(|offer| offer.asked.is_none())?;
        let parked = offer.ticket?;
        loop {
            let ticket = offer.queue.pop_front()?;
            let is_next = |pending: &Pending| matches!(pending.stage, Stage::Queued(_));
            if self.waits.get(ticket).is_some_and(is_next) {
                self.number += 1;
                (offer.ticket, offer.asked) = (None, Some((self.number, ticket)));
                self.asked.insert(self.number, agent.clone());
                return Some((parked, ticket));
            }
        }
    }

    /// Removes the offer of an agent; returns its parked request, and the requests of clients that relied on it.
    fn drop_offer(&mut self, agent: &AgentId) -> (Option<Ticket>, Vec<Ticket>) {
        let Some(offer) = self.offers.remove(agent) else { return (None, Vec::new()) };
        self.forget_connection(offer.connection, agent);
        let asked = offer.asked.map(|(number, ticket)| {
            self.asked.remove(&number);
            ticket
        });
        (offer.ticket, asked.into_iter().chain(offer.queue).chain(offer.watched).collect())
    }
}

impl Controller {
    /// Parks a request.
    pub(crate) fn park_output(&mut self, ticket: Ticket, pending: Pending) {
        if let Some(until) = pending.until {
            self.turn.set_timer(Timer::OutputWait(ticket), until);
        }
        self.readers.outputs.waits.park(ticket, pending.output.task, pending);
    }

    /// Queues a parked request for an agent that offers outputs.
    pub(crate) fn queue_output(&mut self, now: Now, ticket: Ticket, agent: &AgentId) {
        self.turn.set_timer(Timer::OutputWait(ticket), now.mono + self.answer_max());
        self.readers.outputs.set_stage(ticket, Stage::Queued(agent.clone()));
        self.ask_agent(now, agent);
    }

    /// A request waits for the output to grow, or for a phase of its task, until the client's time has passed.
    pub(crate) fn wait_for_output(&mut self, ticket: Ticket, until: Mono, stage: Stage) {
        self.turn.set_timer(Timer::OutputWait(ticket), until);
        self.readers.outputs.set_stage(ticket, stage);
    }

    /// Asks an agent for the next part, unless its answer to the last request is still owed.
    pub(crate) fn ask_agent(&mut self, now: Now, agent: &AgentId) {
        let Some((parked, ticket)) = self.readers.outputs.next_ask(agent) else { return };
        self.turn.set_timer(Timer::OutputWait(ticket), now.mono + self.answer_max());
        self.readers.outputs.set_stage(ticket, Stage::Asked(agent.clone()));
        let Some(pending) = self.readers.outputs.waits.get(ticket) else { return };
        let wanted = Wanted {
            ask: self.readers.outputs.number,
            output: pending.output,
            offset: pending.offset,
            limit: pending.limit,
            watch: pending.until.is_some_and(|until| until > now.mono),
        };
        self.turn.reply(parked, Reply::Wanted(wanted));
    }

    /// Answers a request.
    pub(crate) fn answer_output(&mut self, ticket: Ticket, reply: Reply) {
        self.readers.outputs.remove(ticket);
        self.turn.clear_timer(&Timer::OutputWait(ticket));
        self.turn.reply(ticket, reply);
    }

    /// The tasks that have changed in this event: requests for their outputs may be answered.
    pub(crate) fn look_at_changes(&mut self, now: Now) {
        if self.readers.outputs.waits.is_empty() {
            // The usual case keeps its allocation.
            return self.turn.changed.clear();
        }
        for task in std::mem::take(&mut self.turn.changed) {
            for ticket in self.readers.outputs.waits.of_subject(&task) {
                self.reconsider_output(now, ticket);
            }
        }
    }

    /// The time of a request has passed.
    pub(crate) fn end_output_wait(&mut self, ticket: Ticket) {
        let Some(pending) = self.readers.outputs.waits.get(ticket).cloned() else { return };
        match &pending.stage {
            Stage::Parked | Stage::Watched(_) => {
                let reply = self.output_at_present(&pending);
                self.answer_output(ticket, reply);
            }
            Stage::Queued(agent) | Stage::Asked(agent) => {
                let millis = self.answer_max().as_millis();
                let message = format!("agent {agent} has not sent the output within {millis} ms; ask again");
                self.answer_output(ticket, Refusal::new(Code::LimitReached, message).into());
                if let Stage::Asked(agent) = &pending.stage {
                    // It offers its outputs again with its next heartbeat.
                    self.drop_offer(agent);
                }
            }
        }
    }

    /// An agent is gone, or does not answer: its requests are answered with the known part, or wait for its return.
    pub(crate) fn drop_offer(&mut self, agent: &AgentId) {
        self.archives.reads.end(agent);
        let parked = self.rely_no_more_on(agent);
        parked.into_iter().for_each(|parked| self.turn.reply(parked, reply::replaced()));
    }

    /// The part of this number could not be asked for.
    pub fn handle_unasked(&mut self, ask: u64) {
        if let Some(agent) = self.readers.outputs.asked.get(&ask).cloned() {
            self.drop_offer(&agent);
        }
    }

    fn rely_no_more_on(&mut self, agent: &AgentId) -> Option<Ticket> {
        let (parked, tickets) = self.readers.outputs.drop_offer(agent);
        for ticket in tickets {
            let Some(pending) = self.readers.outputs.waits.get(ticket).cloned() else { continue };
            self.readers.outputs.set_stage(ticket, Stage::Parked);
            self.give_up_output(ticket, &pending, &format!("agent {agent} is not connected"));
        }
        parked
    }

    /// A connection is gone: drops its requests, and the offers of its agents. Returns the tickets that get no answer.
    pub(crate) fn forget_outputs(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let mut forgotten = self.readers.outputs.waits.of(connection);
        for ticket in &forgotten {
            self.readers.outputs.remove(*ticket);
            self.turn.clear_timer(&Timer::OutputWait(*ticket));
        }
        for agent in self.readers.outputs.offered_by(connection) {
            forgotten.extend(self.rely_no_more_on(&agent));
        }
        forgotten
    }

    /// Answers every request with the present state.
    pub(crate) fn stop_outputs(&mut self) {
        let tickets: Vec<_> = self.readers.outputs.waits.iter().map(|(ticket, _)| ticket).collect();
        for ticket in tickets {
            let Some(pending) = self.readers.outputs.waits.get(ticket).cloned() else { continue };
            let reply = self.output_at_present(&pending);
            self.answer_output(ticket, reply);
        }
        let offering: Vec<_> = self.readers.outputs.offers.keys().cloned().collect();
        for agent in offering {
            self.drop_offer(&agent);
        }
    }

    /// Checks that every request has a time at which it ends, and is with the agent that its stage names.
    pub(crate) fn check_outputs(&self) {
        self.readers.outputs.waits.sanity_check();
        for (ticket, _) in self.readers.outputs.waits.iter() {
            assert!(self.turn.has_timer(&Timer::OutputWait(ticket)), "{ticket:?} waits forever for an output");
            let Some(pending) = self.readers.outputs.waits.get(ticket) else { continue };
            let offer = |agent| self.readers.outputs.offers.get(agent);
            let is_right = match &pending.stage {
                Stage::Parked => pending.until.is_some(),
                Stage::Queued(agent) => offer(agent).is_some_and(|offer| offer.queue.contains(&ticket)),
                Stage::Asked(agent) => {
                    offer(agent).is_some_and(|offer| offer.asked.is_some_and(|(_, of)| of == ticket))
                }
                Stage::Watched(agent) => offer(agent).is_some_and(|offer| offer.watched.contains(&ticket)),
            };
            assert!(is_right, "{ticket:?} is lost: {pending:?}");
        }
        for (agent, offer) in &self.readers.outputs.offers {
            assert!(offer.ticket.is_some() || offer.asked.is_some(), "agent {agent} offers outputs without a request");
            let known =
                self.readers.outputs.by_connection.get(&offer.connection).is_some_and(|agents| agents.contains(agent));
            assert!(known, "the connection of agent {agent} does not know its offer");
        }
    }
}
