//! The agents of a controller as a worker of the server in the same thread ([`Agents`]), which asks its controller through a seam.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use super::ListsServer;
use super::questions::Questions;
use crate::engine::lists::agents::{Agents, Effect};
use crate::engine::lists::server::Connection;
use crate::protocol::lists::agents::Sight;
use crate::protocol::lists::{FromServer, FromWorker, Name};
use crate::shell::background::Bell;
use crate::shell::logging;
use crate::types::tdf::WorkerName;
use crate::types::{Mono, Now};

/// The connection of the agents; those of other workers have larger numbers.
pub(super) const OWN: Connection = Connection(0);

/// The name under which the agents have their lists.
const NAME: &str = "controller";

/// A message of the loop of the controller to the thread of the lists.
#[derive(Debug)]
pub(in crate::shell::lists) enum News {
    /// The answer to the request with this number.
    Answer(u64, Vec<u8>),
    /// A task of the job of the lists has changed.
    Change(Vec<u8>),
    /// A task has finished, so an agent may be free.
    Freed,
}

/// The thread's end of the door.
#[derive(Debug)]
pub(in crate::shell::lists) struct Seam {
    pub(in crate::shell::lists) requests: Sender<(u64, Vec<u8>)>,
    /// Wakes the controller.
    pub(in crate::shell::lists) controller: Arc<Bell>,
    pub(in crate::shell::lists) news: Receiver<News>,
    /// Wakes the thread.
    pub(in crate::shell::lists) bell: Arc<Bell>,
    /// Whether the thread wants to hear when an agent may be free.
    pub(in crate::shell::lists) wants_agents: Arc<AtomicBool>,
}

impl Seam {
    pub(super) fn ask(&self, number: u64, request: Vec<u8>) {
        // A controller that has ended answers nothing.
        let _ = self.requests.send((number, request));
        self.controller.ring();
    }
}

/// The agents, and their way to the controller.
pub(in crate::shell::lists) struct Own {
    agents: Agents,
    questions: Questions,
    pub(super) seam: Seam,
    /// Whether a claim is to be answered.
    is_claiming: bool,
    is_stopping: bool,
}

impl Own {
    /// Agents without a list, whose commands run in this folder.
    pub(in crate::shell::lists) fn new(output_bytes_max: usize, folder: &str, seam: Seam) -> Self {
        Self {
            agents: Agents::new(output_bytes_max),
            questions: Questions::new(folder),
            seam,
            is_claiming: false,
            is_stopping: false,
        }
    }
}

impl ListsServer {
    /// The agents join, and go on with the lists that they had.
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

    /// Takes the news of the controller.
    pub(super) fn take_news(&mut self, now: Now) {
        let Some(own) = &mut self.own else { return };
        own.seam.bell.take();
        loop {
            match own.seam.news.try_recv() {
                Ok(News::Answer(number, body)) => {
                    if let Some(answer) = own.questions.answer(number, &body) {
                        own.agents.handle_answer(now, number, answer);
                    }
                }
                Ok(News::Change(message)) => {
                    Sight::of_change(&message).into_iter().for_each(|sight| own.agents.handle_change(now, sight));
                }
                Ok(News::Freed) => own.agents.handle_freed(),
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
            own.seam.wants_agents.store(own.agents.wants_agents(), Ordering::Relaxed);
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
                let request = own.questions.request(number, &question);
                own.seam.ask(number, request);
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
