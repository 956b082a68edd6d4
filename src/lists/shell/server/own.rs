//! The agents of a controller as a worker of the server in the same thread ([`Agents`]), which asks its controller through a link.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;

use super::ListsServer;
use crate::engine::agents::{Agents, Effect};
use crate::engine::server::Connection;
use crate::wire::{FromServer, FromWorker, Name, agents};
use api::guest::questions::Questions;
use api::guest::task::Snapshot;
use base::tdf::WorkerName;
use base::{Mono, Now};
use controller::hosted::{ControllerLink, FromController};
use proc::logging;

/// The connection of the agents; connections of other workers have larger numbers.
pub(super) const OWN: Connection = Connection(0);

/// The name under which the agents have their lists.
const NAME: &str = "controller";

/// The agents, and their way to the controller.
pub(in crate::shell) struct Own {
    agents: Agents,
    /// The folder of all commands.
    folder: String,
    questions: Questions,
    pub(super) link: ControllerLink,
    /// Whether a claim is to be answered.
    is_claiming: bool,
    is_stopping: bool,
}

impl Own {
    /// Agents without a list, whose commands run in this folder.
    pub(in crate::shell) fn new(output_bytes_max: usize, folder: &str, link: ControllerLink) -> Self {
        Self {
            agents: Agents::new(output_bytes_max),
            folder: folder.to_owned(),
            questions: Questions::default(),
            link,
            is_claiming: false,
            is_stopping: false,
        }
    }
}

impl ListsServer {
    /// The agents join, and continue their lists.
    pub(super) fn join_own(&mut self, now: Now) {
        let Ok(name) = WorkerName::new(NAME) else { unreachable!("{NAME} is a name") };
        if self.own.is_none() {
            return;
        }
        let found = self.engine.handle_hosted(OWN, &name);
        if let Some(own) = &mut self.own {
            found.into_iter().for_each(|(list, orders)| own.agents.handle_found(now, &list, orders));
        }
        self.drive(now);
    }

    /// Whether the controller has asked the thread to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_stopping)
    }

    /// Takes the messages of the controller.
    pub(super) fn take_messages(&mut self, now: Now) {
        let Some(own) = &mut self.own else { return };
        own.link.bell.take();
        loop {
            match own.link.messages.try_recv() {
                Ok(FromController::Answer(number, body)) => {
                    if let Some(answer) = own.questions.answer(number, &body) {
                        own.agents.handle_answer(now, number, answer);
                    }
                }
                Ok(FromController::Change(message)) => {
                    Snapshot::of_change(&message).into_iter().for_each(|sight| own.agents.handle_change(now, sight));
                }
                Ok(FromController::Freed) => own.agents.handle_freed(),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    own.is_stopping = true;
                    return;
                }
            }
        }
    }

    /// A message of the server to the agents.
    pub(super) fn tell_own(&mut self, now: Now, message: FromServer) {
        let Some(own) = &mut self.own else { return };
        match message {
            FromServer::List { list: Name(list), tasks } => {
                own.is_claiming = false;
                own.agents.handle_list(now, &list, tasks);
            }
            FromServer::Ack { number } => own.agents.handle_stored(now, number),
            FromServer::Void { list: Name(list) } => own.agents.handle_void(&list),
            FromServer::Welcome { .. } | FromServer::Refused { .. } => {}
        }
    }

    /// Carries out the decisions of the server and of its own agents, until neither has any.
    pub(super) fn drive(&mut self, now: Now) {
        if let Some(own) = &mut self.own {
            own.agents.handle_timeout(now);
        }
        loop {
            self.settle(now);
            let (has_open, is_wanted) = (self.engine.has_open(), self.engine.is_wanted());
            let Some(own) = &mut self.own else { return };
            own.agents.handle_demand(now, has_open, is_wanted);
            let Some(effect) = own.agents.poll_effect() else { break };
            self.obey_own(now, effect);
        }
        if let Some(own) = &mut self.own {
            own.link.wants_agents.store(own.agents.wants_agents(), Ordering::Relaxed);
            own.link.flush();
            logging::write(own.agents.take_log());
        }
    }

    fn obey_own(&mut self, now: Now, effect: Effect) {
        let Some(own) = &mut self.own else { return };
        match effect {
            Effect::Claim => {
                own.is_claiming = true;
                self.engine.handle_claim(now, OWN);
                self.settle(now);
                self.engine.handle_unclaimed(OWN);
                if let Some(own) = &mut self.own
                    && std::mem::take(&mut own.is_claiming)
                {
                    own.agents.handle_no_list(now);
                }
            }
            Effect::Ask(number, question) => {
                let request = own.questions.request(
                    number,
                    &question,
                    |(list, order)| agents::submit(list, order, &own.folder),
                    |(list, id)| agents::submitted(list, *id),
                );
                own.link.ask(number, request);
            }
            Effect::Report(list, number, result) => {
                let results = vec![Arc::new(result)];
                let message = FromWorker::Results { list: Name(list), number, results };
                self.engine.handle_message(now, OWN, message);
            }
            Effect::GiveBack(list) => self.engine.handle_given_back(now, OWN, &list),
        }
    }

    /// The nearest deadline of the agents.
    pub(super) fn own_timeout(&self) -> Option<Mono> {
        self.own.as_ref().and_then(|own| own.agents.poll_timeout())
    }
}
