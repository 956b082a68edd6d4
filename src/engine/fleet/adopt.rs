//! Runs that agents already have: runs of an earlier controller, and runs that an agent does not name.

use std::time::Duration;

use super::agent::{Agent, Liveness, Slot};
use crate::Controller;
use crate::tasks::transition::TaskEvent;
use api::wire::requests::{FromAgent, Sender};
use api::wire::rights::Repeated;
use base::{Assignment, Now, Phase, PhaseTimes, Round, RoundEnd, TaskId, TaskRecord, TaskState};

/// The meaning of a message from an agent that had a task when the controller restarted.
enum Return {
    /// The agent is known: this session of it has been heard since the restart.
    Known,
    /// Its task has ended or gone elsewhere meanwhile.
    WithoutTask,
    /// It has the run, which goes on.
    WithRun(TaskId),
    /// It does not have the run, which gets this end.
    WithoutRun(TaskId, RoundEnd),
    /// It is back, but only a later heartbeat decides about the run.
    Returned,
    Undecided,
}

impl Controller {
    /// Fills in the run that a simple agent was given, if the agent is busy without naming its task, or reports without a round.
    pub(crate) fn name_the_run(&self, sender: &Sender, message: &mut FromAgent) {
        let given = self.fleet.get(&sender.agent).and_then(Agent::given);
        match message {
            FromAgent::Heartbeat(heartbeat) if heartbeat.busy && heartbeat.run.is_none() => heartbeat.run = given,
            FromAgent::Report(report) if report.round.is_none() => {
                let given = given.filter(|(task, _)| *task == report.task).map(|(_, round)| round);
                report.round = given.or_else(|| self.tasks.get(report.task).map(|record| record.round));
            }
            FromAgent::Heartbeat(_)
            | FromAgent::Report(_)
            | FromAgent::Apply(_)
            | FromAgent::Serve(_)
            | FromAgent::ToolGet(_)
            | FromAgent::Exit => {}
        }
    }

    /// Handles the first message of an agent that had a task when the controller restarted. If it names that very run, the
    /// run continues. Otherwise the run is void, but does not count as a loss, because its answer may have been lost with
    /// the controller. It counts as a loss only if the agent is another process, which knows that the one before it has
    /// died.
    ///
    /// A heartbeat that does not name the run is not enough: the result may be on its way, because an agent repeats
    /// unconfirmed reports as soon as it knows that the controller is new.
    pub(crate) fn reunite(&mut self, now: Now, sender: &Sender, message: &FromAgent) {
        let id = &sender.agent;
        let found = self.return_of(now, sender, message);
        let liveness = match found {
            Return::Known | Return::Undecided => return,
            Return::Returned => Liveness::Returned(now.mono),
            Return::WithoutTask | Return::WithRun(_) | Return::WithoutRun(..) => Liveness::Session(sender.session),
        };
        if let Some(agent) = self.fleet.get_mut(id) {
            agent.contact.liveness = liveness;
        }
        if let Return::WithRun(task) = found {
            self.time_run(now, task, None);
        }
        if let Return::WithoutRun(task, end) = found {
            self.turn.info(format!("agent {id} is back without task {task}"));
            self.fleet.set_slot(id, Slot::Free);
            self.void_list(now, id);
            let remains = self.remains_after(now, task, sender, message);
            self.void_round(now, task, end, remains);
        }
    }

    fn return_of(&self, now: Now, sender: &Sender, message: &FromAgent) -> Return {
        let id = &sender.agent;
        let liveness = match self.fleet.get(id).map(|agent| agent.contact.liveness) {
            None | Some(Liveness::Session(_)) => return Return::Known,
            Some(liveness) => liveness,
        };
        let present = self.fleet.slot_or_free(id).task().and_then(|task| self.tasks.get(task));
        let Some(run @ (task, _)) = present.map(|record| (record.id, record.round)) else { return Return::WithoutTask };
        if spoken_of(message) == Some(run) && self.is_held_by(task, id, sender.session) {
            return Return::WithRun(task);
        }
        match message {
            FromAgent::Heartbeat(heartbeat) if heartbeat.replaces.is_some() => Return::WithoutRun(task, RoundEnd::Lost),
            FromAgent::Apply(_) | FromAgent::Exit => Return::WithoutRun(task, RoundEnd::Returned),
            FromAgent::Heartbeat(_) => match liveness {
                Liveness::Returned(at) if now.mono.since(at) >= self.settings.heartbeat_interval / 2 => {
                    Return::WithoutRun(task, RoundEnd::Returned)
                }
                Liveness::Returned(_) | Liveness::Session(_) => Return::Undecided,
                Liveness::Restored => Return::Returned,
            },
            FromAgent::Report(_) | FromAgent::Serve(_) | FromAgent::ToolGet(_) => Return::Undecided,
        }
    }

    /// An agent has a round of a waiting task: an earlier controller handed it out and died before it could store that, or the
    /// store is older than the dispatch. The run continues, unless another agent has got the task meanwhile.
    ///
    /// An agent repeats its unconfirmed results after the heartbeat that names its present run. So a result is accepted although
    /// the agent has another run. Otherwise the result would be refused, and its task would run twice.
    pub(crate) fn readopt(&mut self, now: Now, sender: &Sender, message: &FromAgent) {
        let id = &sender.agent;
        let Some(run) = spoken_of(message) else { return };
        let (task, round) = run;
        // No controller has handed a command out to such an agent.
        if !sender.may_have_commands && self.has_command(Repeated::Task(task)) == Some(true) {
            return;
        }
        self.believe(now, id, run);
        let is_busy = matches!(self.fleet.slot_or_free(id), Slot::Busy(_));
        let is_present = self.tasks.get(task).is_some_and(|record| record.round == round);
        if (is_busy && !is_result(message)) || !is_present || !self.may_be_out(task) {
            return;
        }
        self.turn.info(format!("agent {id} already has task {task}"));
        let run = Assignment {
            agent: id.clone(),
            dispatched_at: now.wall,
            dispatched: None,
            after_commit: false,
            batch_delay: Duration::ZERO,
            times: PhaseTimes::default(),
            lease: self.lease(task, id),
            ahead: None,
            host: self.fleet.host(id),
            progress: None,
        };
        if is_busy {
            return self.change(now, task, TaskEvent::Dispatch(run));
        }
        self.unpark(id);
        self.give_run(now, task, run);
    }

    /// Keeps a restored task that must not run twice from starting until an agent that has it has had the time to say so. Such a
    /// task is a fetched program with a key, for example the run of a TDF task, or a command of a task list. Its dispatch was not
    /// stored first, because a commit for each such run would cost more than a short program. The same holds for every task of a
    /// store that is older than its agents know.
    pub(crate) fn await_claimants(&self, record: &mut TaskRecord) {
        let until = self.claims_until(record);
        if let TaskState::Waiting { not_before } = &mut record.state {
            *not_before = until.max(*not_before);
        }
    }

    /// Whether a waiting task may have been handed out by a controller that died before it could store that. Only the
    /// dispatch of a first round does not wait for the disk, so later rounds are never in doubt, unless the store is from elsewhere.
    pub(crate) fn may_be_out(&self, task: TaskId) -> bool {
        let is_in_doubt = |round| round == Round(0) || self.mode.start.is_from_elsewhere;
        let waits =
            |record: &TaskRecord| matches!(record.state, TaskState::Waiting { .. }) && is_in_doubt(record.round);
        task <= self.tasks.restored_max() && self.tasks.get(task).is_some_and(waits)
    }
}

/// Whether a message has the result of a run.
pub(crate) fn is_result(message: &FromAgent) -> bool {
    matches!(message, FromAgent::Report(report) if report.phase == Phase::Finished && report.result.is_some())
}

/// The run that a message names, be it current or ended.
pub(crate) fn spoken_of(message: &FromAgent) -> Option<(TaskId, Round)> {
    match message {
        FromAgent::Heartbeat(heartbeat) => heartbeat.run,
        FromAgent::Report(report) => report.round.map(|round| (report.task, round)),
        FromAgent::Apply(_) | FromAgent::Serve(_) | FromAgent::ToolGet(_) | FromAgent::Exit => None,
    }
}
