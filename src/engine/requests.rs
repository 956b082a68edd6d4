//! The requests of clients and agents: a file for each, named as in `src/api/wire/requests/`.

mod agents;
mod apply;
mod down;
mod drain;
mod exit;
mod explain;
mod file;
mod forget;
mod gate;
mod graph;
mod heartbeat;
mod history;
mod hold;
mod job;
mod kill;
mod list;
mod logs;
mod query;
mod report;
mod retry;
mod rows;
mod serve;
mod stats;
mod status;
mod step;
mod submit;
mod tool;

use std::sync::Arc;

use super::Controller;
use crate::archives::tool_order::ToolOrder;
use crate::fleet::agent::Slot;
use crate::fleet::leases::Remains;
use crate::graph::Graph;
use crate::readers::scan::Goal;
use crate::readers::waits::{Query, Subject};
use crate::tasks::transition::TaskEvent;
use crate::turn::effect::{Answer, Effect, Record, Ticket, Timer};
use api::wire::page::Page;
use api::wire::publish::Published;
use api::wire::reply::Reply;
use api::wire::requests::heartbeat::Heartbeat;
use api::wire::requests::{FromAgent, Request, Sender};
use api::wire::task::Filter;
use api::wire::{Code, Refusal, reply};
use base::{Now, Session, TaskId, TaskRecord, words};

impl Controller {
    /// Handles a request of a client.
    pub fn handle_request(&mut self, now: Now, ticket: Ticket, request: Request) -> Answer {
        if self.must_postpone(ticket, &request) {
            return self.postpone(ticket, request, None);
        }
        let answer = self.answer_request(now, ticket, request);
        self.settle(now);
        answer
    }

    fn answer_request(&mut self, now: Now, ticket: Ticket, request: Request) -> Answer {
        match request {
            Request::Submit(submit) => {
                self.expect_inputs(ticket.connection, [&*submit]);
                let until = submit.wait.map(|wait| now.mono + wait);
                let reply = self.submit(now, *submit);
                match until {
                    Some(until) => self.park_submit(ticket, reply, until),
                    None => reply.into(),
                }
            }
            Request::SubmitMany(many) => {
                self.expect_inputs(ticket.connection, &many.tasks);
                self.submit_many(now, *many).into()
            }
            Request::Kill(task, said) => self.kill_request(now, task, said).into(),
            Request::Query(filter, wait) => self.query(now, ticket, filter, wait.map(|wait| now.mono + wait)),
            Request::AgentQuery => self.count_agents().into(),
            Request::TaskStatistic => self.count_tasks().into(),
            Request::TaskDetails(filter, page) => self.list(now, ticket, filter, page),
            Request::TaskRows(filter, wanted, page) => self.list_rows(now, ticket, filter, *wanted, page),
            Request::Status(ask) => self.ask_status(now, ticket, ask),
            Request::AgentDetails(page) => self.list_agents(now, ticket, page),
            Request::Explain(filter) => self.search_to_explain(now, ticket, filter),
            Request::Output(ask) => self.output(now, ticket, &ask),
            Request::History(_) => history::without_one().into(),
            Request::Retry(task) => answer(self.retry(now, task)),
            Request::Pause(interval) => self.pause(now, interval).into(),
            Request::Forget(task) => answer(self.forget_request(now, task)),
            Request::Hold(task, hold) => answer(self.hold(now, task, hold)),
            Request::AgentDrain(agent, drain) => answer(self.drain(&agent, drain)),
            Request::GateSet(name, change) => answer(self.set_gate(now, &name, &change)),
            Request::GateQuery(Some(name)) => self.query_gate(now, &name).into(),
            Request::GateQuery(None) => self.list_gates(now, ticket),
            Request::JobQuery(name, wait) => self.query_job(ticket, &name, wait.map(|wait| now.mono + wait)),
            Request::JobResults(ask) => self.job_results(now, ticket, *ask),
            Request::JobDetails(page) => self.list_jobs(now, ticket, page),
            Request::JobOrder(name, order) => self.order_job(now, ticket, name, order),
            Request::GraphSubmit(submit) => self.submit_graph(now, *submit, None).into(),
            Request::GraphQuery(graph, wait) => self.query_graph(ticket, graph, wait.map(|wait| now.mono + wait)),
            Request::GraphDetails(graph, page) => self.list_graphs(now, ticket, graph, page),
            Request::GraphKill(graph, said) => answer(self.kill_graph(now, graph, said.as_ref()).map(|_| Reply::Done)),
            Request::StepProviding(providing) => answer(self.provide(now, *providing)),
            Request::StepComplete(graph, step) => answer(self.complete_step(now, graph, &step)),
            Request::ToolPut(put) => self.put_tool(ticket, put),
            Request::FilePut(put) => self.put_file(ticket, put),
            Request::FileGet(get) => self.get_file(ticket, get),
            Request::ToolList(page) => self.list_tools(ticket, page),
            Request::ToolShow(tool) => self.show_tool(ticket, &tool),
            Request::ToolRemove(tool, by) => self.remove_tool(ticket, tool, by),
            Request::ToolLog(tool) => self.order_tool(ToolOrder::Log(ticket, tool)),
        }
    }

    /// Carries out a request that has waited.
    pub(super) fn submit_waited(&mut self, now: Now, ticket: Ticket, request: Request, plan: Option<Arc<Graph>>) {
        let answer = match request {
            Request::GraphSubmit(submit) => self.submit_graph(now, *submit, plan).into(),
            request => self.answer_request(now, ticket, request),
        };
        match answer {
            Answer::Now(reply) => self.turn.reply(ticket, reply),
            Answer::Later => {}
            Answer::NowAndLater(reply) => unreachable!("a submit has one answer: {reply:?}"),
        }
    }

    /// Handles a message of an agent. Any message is a sign of life, and registers an unknown agent.
    pub fn handle_agent(&mut self, now: Now, ticket: Ticket, sender: &Sender, mut message: FromAgent) -> Answer {
        let heartbeat = if let FromAgent::Heartbeat(heartbeat) = &message { Some(heartbeat) } else { None };
        let replaces = heartbeat.and_then(|heartbeat| heartbeat.replaces);
        let version = heartbeat.and_then(|heartbeat| heartbeat.version.as_ref());
        if let Some(answer) = self.answer_newer(sender, heartbeat.and_then(|heartbeat| heartbeat.epoch)) {
            self.settle(now);
            return answer.into();
        }
        let is_understood = self.check_version(sender, version);
        let answer = match is_understood.and_then(|()| self.welcome(now, sender, replaces)) {
            Ok(()) => {
                self.name_the_run(sender, &mut message);
                self.hear_tools(now, sender, &message);
                self.hear(now, ticket, sender, message)
            }
            Err(refusal) => Answer::Now(Reply::Refused(refusal)),
        };
        self.settle(now);
        answer
    }

    fn hear(&mut self, now: Now, ticket: Ticket, sender: &Sender, message: FromAgent) -> Answer {
        match &message {
            // Without a session, nothing tells one process from the next one, which begins to count anew.
            FromAgent::Heartbeat(Heartbeat { beat: Some(beat), .. }) if sender.session != Session::default() => {
                self.fleet.note_beat(&sender.agent, beat.number, ticket.connection);
            }
            FromAgent::Apply(_) if self.is_outrun(&sender.agent, ticket.connection) => {
                return reply::no_task().into();
            }
            _ => {}
        }
        self.rejoin(now, sender, &message);
        self.reunite(now, sender, &message);
        self.readopt(now, sender, &message);
        match message {
            FromAgent::Heartbeat(heartbeat) => self.heartbeat(now, &sender.agent, heartbeat).into(),
            FromAgent::Exit => self.exit(now, sender).into(),
            FromAgent::Apply(wait) => self.apply(now, ticket, &sender.agent, wait),
            FromAgent::Report(report) => self.report(now, ticket, sender, *report),
            FromAgent::ToolGet(get) => self.get_tool(ticket, &sender.agent, get),
            FromAgent::Serve(served) => self.serve(now, ticket, &sender.agent, served),
        }
    }

    fn known(&self, task: TaskId) -> Result<&TaskRecord, Refusal> {
        self.tasks.get(task).ok_or_else(|| Refusal::no_such_task(task))
    }

    pub(super) fn page_limit(&self, limit: Option<usize>) -> usize {
        limit.unwrap_or(usize::MAX).min(self.settings.page_max)
    }
}

fn answer(outcome: Result<Reply, Refusal>) -> Answer {
    outcome.unwrap_or_else(Reply::Refused).into()
}
