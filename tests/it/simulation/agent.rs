//! One turn of an agent's process: what has come in through the engine, then what the engine wants, in order.
//!
//! The order is that of `shell/agent.rs`. The effects of the engine on the system are carried out by [`crate::tool`].

use ::agent::slot::Effect;
use api::wire::agent::ToAgent;
use api::wire::requests::heartbeat::{Directive, Heard};
use api::wire::requests::serve::{Part, Served, Wanted};
use api::wire::requests::{FromAgent, Sender};
use api::wire::{agent, publish};
use base::{Now, Session};

use crate::simulation::event::Defect;
use crate::simulation::host::{End, Input};
use crate::simulation::world::{World, note};

impl World {
    /// The order of the shell: a connection, answers, broadcasts, the end of run.sh, signals, preparations, deadlines; then the effects.
    pub(crate) fn agent_turn(&mut self, agent: usize) -> Result<(), End> {
        let now = self.agent_now(agent);
        let mut inputs = std::mem::take(&mut self.hosts[agent].inbox);
        inputs.sort_by_key(|input| match input {
            Input::Connected => 0,
            Input::Answer(_) => 1,
            Input::Broadcast(_) => 2,
            Input::ChildEnded => 3,
            Input::Stop => 4,
            Input::Prepared => 5,
            Input::Tools => 6,
        });
        for input in inputs {
            self.take(agent, now, input);
        }
        self.slot(agent).handle_timeout(now);
        while let Some(effect) = self.slot(agent).poll_effect(now) {
            self.agent_operation(agent)?;
            self.carry_out(agent, now, effect)?;
        }
        Ok(())
    }

    fn take(&mut self, agent: usize, now: Now, input: Input) {
        match input {
            Input::Connected => self.slot(agent).handle_connected(now),
            Input::Answer(body) => {
                let Some(mut answer) = agent::decode(&body) else { panic!("{}", String::from_utf8_lossy(&body)) };
                note!(self, "agent {agent}: {answer:?}");
                let deaf = self.defect == Some(Defect::EndlessRuns);
                if deaf && matches!(answer, ToAgent::Heard(Heard { wanted: Some((.., Directive::Kill)), .. })) {
                    return;
                }
                let knows_leases = !self.hosts[agent].simple && self.defect != Some(Defect::ForgottenLeases);
                if let (false, ToAgent::Dispatch(dispatch)) = (knows_leases, &mut answer) {
                    dispatch.lease = None;
                }
                self.model.agent_told(self.now, agent, &answer, &self.server.disk);
                self.slot(agent).handle_answer(now, answer);
            }
            Input::Broadcast(frame) => {
                let Some(message) = publish::decode(&frame) else { panic!("{}", String::from_utf8_lossy(&frame)) };
                note!(self, "agent {agent}: {message:?}");
                if self.defect == Some(Defect::EndlessRuns) {
                    return;
                }
                self.slot(agent).handle_published(now, message);
            }
            Input::ChildEnded => self.collect_and_reap(agent, now),
            Input::Stop => self.slot(agent).handle_stop(now),
            Input::Prepared => self.prepared(agent, now),
            Input::Tools => self.look_at_tools(agent),
        }
    }

    fn agent_operation(&mut self, agent: usize) -> Result<(), End> {
        match &mut self.hosts[agent].crash_in {
            Some(0) => return Err(End::Killed),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    fn carry_out(&mut self, agent: usize, now: Now, effect: Effect) -> Result<(), End> {
        note!(self, "agent {agent} does {effect:?}");
        match effect {
            // Every tool is installed by hand here.
            Effect::ToolsFolder(_) => {}
            // A run.sh here starts at once, and none stays.
            Effect::AbortStart | Effect::Cancel { .. } => {}
            Effect::Remember(known) => self.hosts[agent].epochs = vec![known],
            Effect::Send(mut message) => {
                self.model.agent_says(&message);
                let host = &self.hosts[agent];
                if let FromAgent::Heartbeat(heartbeat) = &mut message {
                    heartbeat.run = heartbeat.run.filter(|_| !host.plain);
                    if host.simple {
                        (heartbeat.beat, heartbeat.version) = (None, None);
                    }
                }
                if self.defect == Some(Defect::HastyAgents)
                    && let FromAgent::Report(report) = &mut message
                {
                    report.ran = report.ran.map(|ran| ran * 2);
                }
                if self.defect == Some(Defect::ModestLists)
                    && let FromAgent::Report(report) = &mut message
                    && let Some(let_go) = &mut report.let_go
                {
                    let_go.started -= 1;
                }
                let sender = Sender::new(host.name.clone(), Session(host.session));
                self.send_up(agent, agent::encode(&sender, &message));
            }
            Effect::Reconnect => self.connect(agent),
            Effect::Ready => {}
            Effect::Read(wanted) => self.read_output(agent, &wanted),
            // The outputs here are short.
            Effect::LookAtProgress | Effect::TrimOutputs => {}
            Effect::Exit(ending) => return Err(End::Exit(ending)),
            Effect::Prepare(dispatch) => self.prepare(agent, now, *dispatch),
            Effect::AbortPrepare => self.abort_prepare(agent),
            Effect::Spawn => self.spawn(agent, now),
            Effect::Signal(signal) => self.signal(agent, signal),
            Effect::CheckTree => self.check_tree(agent, now),
            // The signal that follows ends the tools here, or their own time does.
            Effect::TellToFinish => {}
            Effect::Unended => unreachable!("every process of agent {agent} can be ended"),
            // They write nothing.
            Effect::ReadAgain(_) => {}
            Effect::Keep | Effect::AbortKeep => unreachable!("the tasks here name no files"),
            Effect::Remove => self.remove(agent, now),
            Effect::Lease(hold) => self.set_hold(agent, hold),
        }
        Ok(())
    }
}

impl World {
    /// The agents of the simulation write and keep no outputs, and say so.
    fn read_output(&mut self, agent: usize, wanted: &Wanted) {
        let part = Part::Missing("nothing is kept".to_owned());
        self.slot(agent).handle_served(Served::Part(wanted.ask, part));
    }
}
