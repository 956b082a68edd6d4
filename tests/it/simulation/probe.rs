//! Looking into the controller: questions that change nothing, and what an old round must not do.

use api::wire::page::PageBytes;
use api::wire::reply::Reply;
use api::wire::requests::{FromAgent, Message, Sender};
use api::wire::{reply, requests};
use base::{KillCause, Now, Phase, Session, TaskId, TaskRecord};
use engine::{Answer, ConnectionId, Ticket};

use crate::simulation::controller::rules;
use crate::simulation::event::Defect;
use crate::simulation::world::World;

/// Of a connection that never breaks.
const TICKET: Ticket = Ticket { connection: ConnectionId { door: 0, number: u64::MAX }, number: 0 };

impl World {
    /// Answers a question that is answered at once, through the bytes of both sides.
    pub(crate) fn ask_directly(&mut self, body: &[u8]) -> Vec<u8> {
        let now = self.controller_now();
        let Ok((kind, Message::Client(request))) = requests::parse(body, &rules()) else { panic!("{body:?}") };
        match self.life().sequencer.controller().handle_request(now, TICKET, request) {
            Answer::Now(reply) => reply::encode(kind, &reply, PageBytes(1 << 20)),
            answer => panic!("{answer:?}"),
        }
    }

    /// The task of a report about a round that has ended.
    pub(crate) fn stale_report(
        &mut self,
        now: Now,
        sender: &mut Sender,
        message: &mut FromAgent,
    ) -> Option<TaskRecord> {
        let FromAgent::Report(report) = message else { return None };
        let record = self.lookup(now, report.task)?;
        if report.round.is_none_or(|round| round >= record.round) {
            return None;
        }
        if self.defect == Some(Defect::OldRoundAsNew)
            && let Some(run) = record.assignment()
            && let Some(host) = self.hosts.iter().find(|host| host.name == run.agent)
        {
            report.round = Some(record.round);
            *sender = Sender::new(run.agent.clone(), Session(host.session));
            return None;
        }
        Some(record)
    }

    /// An old round changes nothing; but what is due may be handed out at the same moment, to its agent or to another one, or its
    /// time may be over then.
    pub(crate) fn check_unchanged(&mut self, now: Now, before: &TaskRecord) {
        let Some(after) = self.lookup(now, before.id) else { panic!("{} is gone", before.id) };
        let handed_out =
            before.phase() == Phase::Waiting && after.phase() == Phase::Dispatched && after.round == before.round;
        let begins_another_round =
            before.is_out_of_contact() && after.phase() == Phase::Dispatched && after.round == before.round.next();
        let is_over = before.phase() == Phase::Waiting
            && after.round == before.round
            && after.kill.as_ref().is_some_and(|kill| kill.cause == KillCause::Expired && kill.at == now.wall);
        assert!(
            handed_out || begins_another_round || is_over || after == *before,
            "an old round has changed its task from {before:?} to {after:?}"
        );
    }

    /// The engine's state of a task. A query by id changes nothing.
    pub(crate) fn lookup(&mut self, now: Now, task: TaskId) -> Option<TaskRecord> {
        let body = format!("{{\"__TYPE__\":\"TASK/QUERY\",\"__TASK_ID__\":\"{task}\"}}");
        let Ok((_, Message::Client(query))) = requests::parse(body.as_bytes(), &rules()) else { panic!("{body}") };
        match self.life().sequencer.controller().handle_request(now, TICKET, query) {
            Answer::Now(Reply::Task { record, .. }) => Some(*record),
            _ => None,
        }
    }
}
