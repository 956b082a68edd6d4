//! The report on a run, which the master gets at its end.
//!
//! A master of llts acknowledges a report when it has moved the prompt, or noted where it goes. Until then the worker keeps the
//! report, and sends it again after a lost connection. Any other master gets the report once.

use std::time::Duration;

use super::phases::{ActiveRun, Ending, Report, Run, State};
use super::{Effect, Timer, Worker};
use crate::wire::{FromWorker, RequestId};
use base::Now;

/// Why a command could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The command itself cannot be run: the same would happen to every prompt.
    Command(String),
    /// The command cannot get this prompt: the same would happen everywhere.
    Prompt(String),
    /// The files of the run cannot be made: the disk is full or broken, and may be repaired.
    Disk(String),
}

/// Why the results of a run are not in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The outputs of the run cannot be read.
    Unread(String),
    /// The results cannot be put in place: the disk is full or broken, and may be repaired.
    Disk(String),
}

impl Worker {
    /// The run has no result, and its prompt waits again: the service or this worker is limited.
    pub(super) fn give_back(&mut self, now: Now, run: Box<ActiveRun>, pause: Duration, reason: String, is_local: bool) {
        self.effects.push_back(Effect::Discard);
        self.run = Run::Active(run);
        let seconds = pause.as_secs_f64();
        self.journal.warn(format!("pausing for {seconds:.0} s: {reason}"));
        let message = FromWorker::UsageLimited { retry_after: Some(pause), is_local, reason };
        self.conclude(now, Report { message, pause: Some(pause), is_bare: true });
    }

    /// This machine cannot run a command or keep its results: the prompt waits again, for another worker.
    pub(super) fn pause_for(&mut self, now: Now, reason: String) {
        let pause = self.brake.pause(&self.settings.brake, self.settings.limited_pause);
        self.journal.error(format!("pausing for {:.0} s: {reason}", pause.as_secs_f64()));
        let message = FromWorker::UsageLimited { retry_after: Some(pause), is_local: true, reason };
        self.conclude(now, Report { message, pause: Some(pause), is_bare: true });
    }

    /// The run has ended, with its results in place.
    pub(super) fn conclude(&mut self, now: Now, report: Report) {
        let Run::Active(run) = &mut self.run else { return };
        if run.ending == Some(Ending::Void) {
            return self.drop_run();
        }
        let is_overdue = run.ending == Some(Ending::Overdue);
        let is_joined = self.link.is_joined();
        if self.welcome.is_some() && (is_joined || self.timers.is_set(&Timer::Lease)) {
            run.state = State::Reporting(report);
            if is_joined {
                self.go_on_with_run();
            }
            return;
        }
        // A master that does not wait for this worker has put the prompt back, but applies a time limit itself.
        if is_joined || is_overdue {
            self.count(&report);
        }
        self.run = Run::Free;
        if is_joined {
            self.send(report.message);
            self.rest_after(now, report.pause);
        }
        self.after_run();
    }

    /// The worker is connected, and the run is wanted: a waiting report follows its results.
    pub(super) fn go_on_with_run(&mut self) {
        let Run::Active(run) = &self.run else { return };
        let State::Reporting(report) = &run.state else { return };
        match &self.welcome {
            Some(welcome) if report.has_results() => {
                self.effects.push_back(Effect::SendResults(run.request.clone(), welcome.clone()));
            }
            _ => self.send_report(),
        }
    }

    /// Sends the cost of the run, and the report on it.
    fn send_report(&mut self) {
        let Run::Active(run) = &self.run else { return };
        let State::Reporting(report) = &run.state else { return };
        let cost = run.cost.map(|cost| FromWorker::Cost { run: run.request.clone(), cost });
        let messages = cost.into_iter().chain([report.message.clone()]).map(Effect::Send);
        self.effects.extend(messages);
    }

    /// The connection has taken all results, or there are none to send; or they cannot be read.
    pub fn handle_results_sent(&mut self, now: Now, request: &RequestId, outcome: Result<(), String>) {
        if let Run::Active(run) = &self.run
            && run.request == *request
            && self.link.is_joined()
            && let State::Reporting(report) = &run.state
        {
            match outcome {
                Ok(()) => {
                    self.brake.outputs_read();
                    self.send_report();
                }
                Err(reason) => {
                    let report = report.message.clone();
                    self.conclude_unread(now, report, reason);
                }
            }
        }
    }

    /// The answer of a run cannot be read. Without an answer the prompt is not done: the run is lost, and a second one in a row makes
    /// this worker pause. A run that took too long has no answer to wait for.
    pub(super) fn conclude_unread(&mut self, now: Now, report: FromWorker, reason: String) {
        let Run::Active(run) = &self.run else { return };
        if run.ending == Some(Ending::Overdue) {
            self.journal.error(reason);
            let mut report = Report::of(report);
            report.is_bare = true;
            return self.conclude(now, report);
        }
        if self.brake.outputs_unread() {
            return self.pause_for(now, reason);
        }
        self.journal.error(reason.clone());
        self.conclude(now, Report::of(FromWorker::Failed { reason, is_loss: true }));
    }

    /// The master has carried out the report.
    pub(super) fn reported(&mut self, now: Now, request: &RequestId) {
        let Run::Active(run) = &self.run else { return };
        let State::Reporting(report) = &run.state else { return };
        if run.request == *request {
            let report = report.clone();
            self.count(&report);
            self.run = Run::Free;
            self.rest_after(now, report.pause);
            self.after_run();
        }
    }

    /// The report is not wanted any more.
    pub(super) fn drop_report(&mut self) {
        self.journal.warn("the report on this run is dropped; its results, if any, stay in the folders of this worker");
        self.drop_run();
    }

    pub(super) fn drop_run(&mut self) {
        self.timers.clear(&Timer::Lease);
        self.run = Run::Free;
        self.after_run();
    }

    const fn count(&mut self, report: &Report) {
        if report.has_results() {
            self.tally.all += 1;
            self.tally.failed += matches!(report.message, FromWorker::Failed { .. }) as u64;
        }
    }

    fn rest_after(&mut self, now: Now, pause: Option<Duration>) {
        if let Some(pause) = pause {
            self.limited(now, pause);
        }
    }
}
