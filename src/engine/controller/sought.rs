//! Submits of tools that no agent is known to have: every agent looks anew ([`super::looks`]), and then the submit is accepted
//! or refused with the nearest name.
//!
//! | the tools of a submit | then |
//! |---|---|
//! | each is held by the controller, or reported by a present agent | it is accepted at once |
//! | another one, and no agent is present, or one does not report its tools or cannot be asked | it is accepted at once, and -129 is the end of a task whose tool is not found |
//! | another one, and each present agent reports its tools | the request is parked until all have looked, a second at most |

use std::sync::Arc;
use std::time::Duration;

use super::effect::{Answer, ConnectionId, Effect, Ticket, Timer};
use super::{Controller, waits};
use crate::engine::graph::Graph;
use crate::protocol::reply::Reply;
use crate::protocol::requests::Request;
use crate::protocol::{Code, Refusal};
use crate::types::{Now, ToolName, nearest};

/// Time that agents have to look for the tools of a submit. A client waits longer for an answer (`ZMQ_RECV_TIMEOUT`), and an agent
/// that is well needs milliseconds.
const LOOK_TIME_MAX: Duration = Duration::from_secs(1);

/// A parked submit.
#[derive(Debug)]
struct Sought {
    request: Request,
    /// The connected steps of a graph.
    plan: Option<Arc<Graph>>,
    /// Its share of `WAITING_BYTES_MAX`.
    bytes: usize,
}

/// The parked submits, each with the number of the last look that had begun before.
#[derive(Debug, Default)]
pub(super) struct SoughtSubmits {
    waits: waits::Waits<u64, Sought>,
    /// Whether a tool may have been found outside of a look.
    has_news: bool,
    bytes: usize,
}

impl SoughtSubmits {
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// The bytes of all of them.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// An agent or the controller has got a tool, perhaps.
    pub(super) fn note_news(&mut self) {
        self.has_news = !self.is_empty();
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Sought> {
        let (_, sought) = self.waits.remove(ticket)?;
        self.bytes -= sought.bytes;
        Some(sought)
    }

    pub(super) fn sanity_check(&self) {
        self.waits.sanity_check();
        let bytes: usize = self.waits.entries().map(|(_, sought)| sought.bytes).sum();
        assert_eq!(bytes, self.bytes, "the bytes of parked submits have drifted");
    }
}

impl Controller {
    /// Whether it is certain that no agent has one of these tools. The cost is that of one look-up for a tool that the controller
    /// holds.
    pub(super) fn lacks_any<'a>(&self, tools: impl IntoIterator<Item = &'a ToolName>) -> bool {
        let mut last = None;
        // Many tasks of a request name the same tool.
        let is_unknown = |tool: &'a ToolName| last.replace(tool) != Some(tool) && self.is_unknown(tool);
        tools.into_iter().any(is_unknown) && self.is_lack_certain()
    }

    /// Whether neither the controller nor an agent that reports its tools has this one.
    pub(super) fn is_unknown(&self, tool: &ToolName) -> bool {
        tool.is_archive() && !self.tasks.queue().sets().is_known(tool)
    }

    /// Whether each present agent reports its tools and can be asked to look anew, and there is one.
    fn is_lack_certain(&self) -> bool {
        let counts = self.agents.counts();
        self.tasks.queue().sets().are_all_told() && self.agents.that_look().count() == counts.total - counts.lost
    }

    fn request_lacks_any(&self, request: &Request) -> bool {
        let mut is_unknown = false;
        request.for_each_tool(|tool| is_unknown = is_unknown || self.is_unknown(tool));
        is_unknown && self.is_lack_certain()
    }

    /// Whether a submit must wait for an earlier one of its connection, which is parked. One that is parked itself need not: one look
    /// serves both.
    pub(super) fn is_behind_sought(&self, ticket: Ticket, request: &Request) -> bool {
        let is_second = !self.sought.is_empty() && !self.sought.waits.of(ticket.connection).is_empty();
        is_second && !self.request_lacks_any(request)
    }

    /// The refusal of a submit whose tool no agent has. `place` names the step; `subject` is a graph or a task, which the sentence says
    /// to submit again.
    pub(super) fn missing_tool(&self, tool: &ToolName, place: &str, subject: &str) -> Refusal {
        let known = self.tasks.queue().sets().names().map(ToolName::as_str);
        let silent = self.first_awaited().map(|agent| format!("; agent {agent} has not told its tools in time"));
        let hint = match nearest(tool.as_str(), known) {
            Some(nearest) => format!("; did you mean {nearest}? If not, put"),
            None => "; put".to_owned(),
        };
        let message = format!(
            "{place}no agent has the tool {tool}{}{hint} {} into the tools folder of an agent or of the controller, and submit the \
             {subject} again",
            silent.unwrap_or_default(),
            tool.archive_name()
        );
        Refusal::new(Code::BadOperation, message)
    }

    /// Parks a submit until all agents have looked for its tools.
    pub(super) fn seek(
        &mut self,
        now: Now,
        ticket: Ticket,
        request: Request,
        plan: Option<Arc<Graph>>,
        bytes: usize,
    ) -> Result<Answer, Refusal> {
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        if let Some(obstacle) = self.sought.waits.obstacle(ticket.connection, self.settings.parked_max) {
            return limit(format!("the agents cannot be asked for the tools of this submit: {obstacle}"));
        }
        let (held, max) = (self.tasks.queue().bytes() + self.sought.bytes, self.settings.waiting_bytes_max);
        if held.saturating_add(bytes) > max {
            return limit(format!(
                "the waiting tasks and submits hold {held} bytes already, and this request needs {bytes}; WAITING_BYTES_MAX is \
                 {max}; try again later"
            ));
        }
        self.sought.bytes += bytes;
        self.sought.waits.park(ticket, self.looks.number(), Sought { request, plan, bytes });
        self.timers.set(Timer::SoughtTools(ticket), now.mono + LOOK_TIME_MAX);
        Ok(Answer::Later)
    }

    /// Carries out the parked submits whose tools have been found before all agents have looked.
    pub(super) fn submit_found(&mut self, now: Now) {
        if !std::mem::take(&mut self.sought.has_news) {
            return;
        }
        let found = |(ticket, sought): (Ticket, &Sought)| (!self.request_lacks_any(&sought.request)).then_some(ticket);
        let found: Vec<_> = self.sought.waits.entries().filter_map(found).collect();
        self.submit_sought(now, &found);
    }

    /// All agents have looked for the tools of the submits that were parked before this look.
    pub(super) fn submit_looked_for(&mut self, now: Now, look: u64) {
        self.submit_sought(now, &self.sought.waits.before(&look));
    }

    /// Accepts or refuses parked submits, in this order, and carries out what waits behind them.
    pub(super) fn submit_sought(&mut self, now: Now, tickets: &[Ticket]) {
        for ticket in tickets {
            let Some(Sought { request, plan, .. }) = self.sought.remove(*ticket) else { continue };
            self.timers.clear(&Timer::SoughtTools(*ticket));
            self.submit_waited(now, *ticket, request, plan, true);
        }
        if !tickets.is_empty() {
            self.resume_postponed(now);
        }
    }

    /// The service stops: no submit waits any more.
    pub(super) fn refuse_sought(&mut self) {
        let Err(refusal) = self.check_open() else { return };
        for ticket in self.sought.waits.before(&u64::MAX) {
            self.forget_sought_one(ticket);
            self.tasks.effects.push_back(Effect::Reply(ticket, Reply::Refused(refusal.clone())));
        }
    }

    /// A connection is gone. Returns the tickets that therefore get no answer.
    pub(super) fn forget_sought(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let tickets = self.sought.waits.of(connection);
        tickets.iter().for_each(|ticket| self.forget_sought_one(*ticket));
        tickets
    }

    fn forget_sought_one(&mut self, ticket: Ticket) {
        self.sought.remove(ticket);
        self.timers.clear(&Timer::SoughtTools(ticket));
    }
}
