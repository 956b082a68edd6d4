//! TASK/INTERNAL/REPORT: the phase of a run, and the end of a task.

use std::sync::Arc;

use super::{Answer, Code, Controller, Refusal, Reply, Slot, Subject, TaskEvent, Ticket, Timer, words};
use crate::fleet::agent::LastRun;
use crate::tasks::transition::Again;
use crate::tasks::verdict;
use crate::tasks::verdict::Verdict;
use api::wire::requests::Sender;
use api::wire::requests::report::Report;
use base::{ExitCode, Now, Phase, PhaseTimes, RunResult, TaskId, TaskRecord, TaskState};

impl Controller {
    pub(super) fn report(&mut self, now: Now, ticket: Ticket, sender: &Sender, mut report: Report) -> Answer {
        let (task, phase, wait) = (report.task, report.phase, report.wait);
        let round = report.round.or_else(|| self.tasks.get(task).map(|record| record.round)).unwrap_or_default();
        if let Some(let_go) = report.let_go {
            self.take_back_list(now, &sender.agent, let_go);
        }
        let refusal = self.check_report(sender, &report).err();
        let left = left(&report);
        match &refusal {
            Some(refusal) => self.turn.warn(format!("agent {}: {refusal}", sender.agent)),
            None if self.gives_back(now, &report) || self.avoids_agent(now, &sender.agent, &mut report) => {}
            None if gave_up(&report) => self.given_up(now, task),
            None => {
                self.graphs.note_provided(report.provided.take().map(|provided| (task, provided)));
                self.advance(now, report);
                // Locations of a round that another one follows do not count.
                self.graphs.note_provided(None);
            }
        }
        let free = phase == Phase::Finished && self.slot_is_free(sender, task, refusal.is_none());
        if let (true, Some(left), Some(agent)) = (free, left, self.fleet.get_mut(&sender.agent)) {
            agent.last_run = LastRun::Remains(task, left);
        }
        if phase == Phase::Finished && refusal.is_none() {
            self.leave_list(&sender.agent, task);
        }
        if free && wait.is_none() {
            self.continue_list(&sender.agent);
        }
        let reply = Reply::Reported { task, round, phase, refusal };
        match wait.filter(|_| free) {
            Some(wait) => {
                self.park(now, ticket, &sender.agent, wait);
                Answer::NowAndLater(reply)
            }
            None => Answer::Now(reply),
        }
    }

    /// Fencing: only reports of the present round's agent are accepted (README.md, promise 3), and no phase goes back.
    fn check_report(&self, sender: &Sender, report: &Report) -> Result<(), Refusal> {
        let Some(record) = self.tasks.get(report.task) else {
            return Err(Refusal::no_such_task(report.task));
        };
        let not_allowed = |message: String| Err(Refusal::new(Code::NotAllowed, message));
        let task = record.id;
        if let Some(round) = report.round.filter(|round| *round != record.round) {
            return not_allowed(format!("round {round} of task {task} has ended; the present one is {}", record.round));
        }
        match record.assignment() {
            Some(run) if run.is_with(&sender.agent, sender.session) => {}
            _ => return not_allowed(format!("task {task} is not with agent {}", sender.agent)),
        }
        let (present, told) = (record.phase(), report.phase);
        if told < present {
            let (present, told) = (words::phase(present), words::phase(told));
            return not_allowed(format!("task {task} is {present} and does not go back to {told}"));
        }
        if told == Phase::Finished && report.result.is_none() && record.result().is_none() {
            let message = format!("task {task} is reported FINISHED without {}", words::EXIT_CODE);
            return Err(Refusal::new(Code::BadField, message));
        }
        Ok(())
    }

    /// Goes through every phase up to the reported one, so that each of them is pushed. It skips a PREPARING or RUNNING
    /// that an earlier controller may have pushed before a later phase.
    fn advance(&mut self, now: Now, report: Report) {
        let Report { task, phase, times, ran, mut result, mut progress, .. } = report;
        let before = self.tasks.get(task).map(TaskRecord::phase);
        loop {
            let Some(record) = self.tasks.get(task) else { unreachable!("task {task} is gone within its report") };
            if record.phase() >= phase {
                if before < Some(record.phase()) {
                    self.store_progress(task);
                }
                self.amend(task, result);
                if let Some(progress) = progress.take().filter(|_| phase == Phase::Running) {
                    self.tell_progress(now, task, *progress);
                }
                return self.time_run(now, task, ran);
            }
            let has_run = times.run.is_some() || phase == Phase::Running;
            match &record.state {
                TaskState::Dispatched(run) if run.dispatched.is_some() || phase == Phase::Preparing => {
                    self.change(now, task, TaskEvent::Prepare(times.up_to(Phase::Preparing, now.wall)));
                }
                TaskState::Dispatched(run) | TaskState::Preparing(run)
                    if has_run && (run.dispatched.is_some() || phase == Phase::Running) =>
                {
                    self.change(now, task, TaskEvent::Run(times.up_to(Phase::Running, now.wall)));
                    self.tool_was_found(now, task);
                }
                TaskState::Dispatched(_) | TaskState::Preparing(_) | TaskState::Running(_) => {
                    if has_run && record.phase() < Phase::Running {
                        self.tool_was_found(now, task);
                    }
                    self.turn.clear_timer(&Timer::RunTime(task));
                    self.change(now, task, TaskEvent::End(times.up_to(Phase::Ended, now.wall), result.take()));
                    self.end_children(now, task);
                }
                TaskState::Ended { result: known, .. } => {
                    let result = result.take().map(Arc::new).or_else(|| known.clone());
                    let Some(result) = result else { unreachable!("task {task} finishes without a result") };
                    let times = times.up_to(Phase::Finished, now.wall);
                    self.learn_warm(task, times, &result);
                    // The task may already wait for its next round.
                    return self.finish(now, task, times, result);
                }
                TaskState::Waiting { .. } | TaskState::OutOfContact { .. } | TaskState::Finished { .. } => {
                    unreachable!("task {task} is reported, but has no run: {:?}", record.state)
                }
            }
        }
    }

    /// The agent has learned more about the end of a run since its first report, such as a process that it may not end.
    fn amend(&mut self, task: TaskId, result: Option<RunResult>) {
        let known = self.tasks.get(task).and_then(TaskRecord::result);
        let Some(result) = result.filter(|result| known.is_none_or(|known| **known != *result)) else { return };
        self.update(task, |record| {
            if let TaskState::Ended { result: known, .. } = &mut record.state {
                *known = Some(Arc::new(result));
            }
        });
    }

    /// The run of a task has ended, and its result is known.
    pub(crate) fn finish(&mut self, now: Now, task: TaskId, times: PhaseTimes, result: Arc<RunResult>) {
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} finishes and is gone") };
        match verdict::of_result(record, &result) {
            Verdict::End(outcome) => {
                self.change(now, task, TaskEvent::Finish { at: now.wall, times, result, outcome });
                self.finished(now, task);
            }
            Verdict::Again(end) => {
                let again = Again { at: now.wall, end, times, result: Some(result), not_before: None };
                self.again(now, task, again);
            }
        }
    }

    /// Consequences of the end of a task, for all ways of ending.
    pub(crate) fn finished(&mut self, now: Now, task: TaskId) {
        self.turn.clear_timer(&Timer::RunTime(task));
        self.forget_lease(task);
        self.answer_waiters(&Subject::Task(task));
        self.log_end(now, task);
        self.relatives_of(now, task);
        self.step_task_ended(now, task);
        self.expect_acknowledgement(now, task);
        self.keep_family(now, task, now.wall);
    }

    /// An agent that reports FINISHED has a free slot, even if the report is refused, unless it has another run already.
    fn slot_is_free(&mut self, sender: &Sender, task: TaskId, accepted: bool) -> bool {
        match self.fleet.slot_or_free(&sender.agent) {
            Slot::Busy(present) if present != task || !accepted => return false,
            Slot::Busy(_) | Slot::Stray => self.fleet.set_slot(&sender.agent, Slot::Free),
            Slot::Free | Slot::Parked(..) | Slot::Lost => {}
        }
        self.fleet.end_given(&sender.agent);
        true
    }
}

/// The remains of a finished run, if its agent reports them and does not ask for another task.
fn left(report: &Report) -> Option<String> {
    let is_over = report.phase == Phase::Finished && report.wait.is_none() && report.times.run.is_some();
    let error = &report.result.as_ref().filter(|_| is_over)?.error;
    (!error.is_empty()).then(|| error.clone())
}

/// Whether an agent has ended a run because of its lease. The exit of such a run is not a result of the tool.
fn gave_up(report: &Report) -> bool {
    report.phase == Phase::Finished
        && report.result.as_ref().is_some_and(|result| result.exit_code == ExitCode::LEASE_OVER)
}
