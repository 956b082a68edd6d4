//! The answers of the service to a running map.

use super::super::take_up::limit;
use super::Running;
use super::requests::Subject;
use crate::map::Refused;
use api::wire::client::ReplyError;
use api::wire::requests::job::results;
use api::wire::requests::job::results::{Results, results};
use api::wire::requests::submit::many::{SubmittedMany, submit_many};
use base::TaskId;
use llts_client::{ClientError, PARK_MAX, RequestId};
use proc::clock;
use term::exit::Failure;
use term::output::note;

impl Running<'_> {
    pub(super) fn handle_answer(&mut self, id: RequestId, frame: &[u8]) -> Result<(), Failure> {
        let now = clock::now().mono;
        match self.requests.take(id) {
            Some(Subject::Submit { frame: submit }) => self.handle_submitted(submit, frame)?,
            Some(Subject::Task { number }) => match self.requests.read_task(frame) {
                Ok(task) => self.map.handle_task(number, task),
                Err(reply) if reply.is_limit() => self.map.handle_unwatched(now, number),
                Err(reply) if reply.is_no_such_task() => {
                    note(&format!("line {number}: {reply}; its result is lost"));
                    self.map.handle_forgotten(number);
                }
                Err(reply) => return Err(ClientError::from(reply).into()),
            },
            Some(Subject::Following) => {
                if let Ok(begun) = results::begin("").decode(frame) {
                    self.follow(&begun);
                }
            }
            Some(Subject::Ends) => self.handle_ends(frame)?,
            // A refused retry leaves the task as it was, so its old end counts.
            Some(Subject::Retry { number }) => self.map.handle_retried(number),
            None => {}
        }
        Ok(())
    }

    fn handle_submitted(&mut self, frame: u64, answer: &[u8]) -> Result<(), Failure> {
        match submit_many(&[], &self.prepared.shared).decode(answer) {
            Ok(SubmittedMany { ids, duplicates, warning }) => {
                let ids: Vec<TaskId> = ids.iter().map(|id| id.parse()).collect::<Result<_, _>>().map_err(|error| {
                    ClientError::from(ReplyError::Malformed(format!("the reply has the id of no task: {error}")))
                })?;
                warning.into_iter().for_each(|warning| note(&warning));
                self.has_accepted = true;
                self.map.handle_accepted(frame, &ids, &duplicates);
            }
            Err(reply) if reply.is_limit() || reply.is_stopping() => {
                if !std::mem::replace(&mut self.has_noted_room, true) {
                    note(&format!(
                        "the service accepts no task for now, so these are submitted again until it does: {reply}"
                    ));
                }
                self.map.handle_refused(clock::now().mono, frame, Refused::NoRoom);
            }
            Err(reply) => {
                let is_stopped = reply.is_not_allowed() && self.args.max_fails.is_some() && self.has_accepted;
                if !is_stopped {
                    let remedy = if reply.is_bad_field() { self.remedy() } else { String::new() };
                    self.refusal.get_or_insert(format!("{reply}{remedy}"));
                }
                self.map.handle_refused(clock::now().mono, frame, Refused::ForGood);
            }
        }
        self.open_gate()
    }

    pub(super) fn open_gate(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_closed) {
            limit(&self.client, &self.prepared.gate, self.args.jobs)?;
        }
        Ok(())
    }

    /// Follows the ends of the job from here on.
    pub(super) fn follow(&mut self, begun: &Results) {
        self.map.handle_following();
        self.ask_for_ends(&begun.cursor);
    }

    fn ask_for_ends(&mut self, cursor: &str) {
        self.requests.send(Subject::Ends, &results(self.prepared.job.as_str(), cursor, PARK_MAX));
    }

    fn handle_ends(&mut self, frame: &[u8]) -> Result<(), Failure> {
        match results::begin("").decode(frame) {
            Ok(Results { cursor, ends }) => {
                for (task, end) in ends {
                    if let Some(line) = self.map.handle_end(task, end) {
                        note(&format!("line {line}: task {task} is not known any more; its result is lost"));
                    }
                }
                self.ask_for_ends(&cursor);
            }
            Err(ReplyError::Refused { .. }) => self.map.handle_lost_track(),
            Err(reply) => return Err(ClientError::from(reply).into()),
        }
        Ok(())
    }

    fn remedy(&self) -> String {
        let job = &self.prepared.job;
        format!("; if job {job} was mapped with other options, use those again, or another --job")
    }
}
