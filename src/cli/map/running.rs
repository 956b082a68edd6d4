//! The loop of `llts map`: one wait for the service, the input and signals, and the effects of the map.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;

use super::super::Session;
use super::super::exit::{self, Failure};
use super::super::host::Place;
use super::super::job::with_agents;
use super::super::output::note;
use super::super::output_reader::ABSENCE_MAX;
use super::bar::Bar;
use super::input::{Input, Next};
use super::outputs::Outputs;
use super::results::Results;
use super::take_up::{TakenUp, limit, take_up};
use super::template::Prepared;
use super::{FAILED, MapArgs, cannot_read, summary};
use crate::client::{Arrival, Client, ClientError, PARK_MAX, Pipeline, RequestId};
use crate::engine::map::{Effect, Map, Plan, Refused};
use crate::protocol::client::{Ask, ReplyError, Selector, TaskView};
use crate::protocol::requests::hold::hold;
use crate::protocol::requests::job::{self, JobOrder};
use crate::protocol::requests::query::query;
use crate::protocol::requests::retry::retry;
use crate::protocol::requests::submit::many::{SubmittedMany, submit_many};
use crate::shell::clock;
use crate::shell::signals::{Signal, Signals};
use crate::types::TaskId;

/// As shells report a program that SIGHUP has ended.
const HUNG_UP: u8 = 129;

/// A running map.
struct Running<'a> {
    args: &'a MapArgs,
    place: &'a Place,
    signals: &'a mut Signals,
    prepared: Prepared,
    input: Input,
    map: Map,
    /// For orders about the job, and for outputs that a result has not whole.
    client: Client,
    pipeline: Pipeline,
    asked: BTreeMap<RequestId, Asked>,
    /// Reads the answers to queries.
    query: Ask<TaskView>,
    outputs: Outputs,
    bar: Bar,
    /// The number of the last line.
    number: u64,
    /// Whether the gate of the job lets nothing pass.
    is_closed: bool,
    /// Whether the service has accepted a line.
    has_accepted: bool,
    /// Why the service accepts no more, if that is a failure.
    refusal: Option<String>,
    /// Whether the input could not be read to its end.
    is_cut: bool,
    has_noted_room: bool,
}

/// The subject of a request without an answer.
#[derive(Clone, Copy)]
enum Asked {
    Submit { frame: u64 },
    Task { number: u64 },
    Retry { number: u64 },
}

pub(super) fn run(
    session: &mut Session,
    signals: &mut Signals,
    place: &Place,
    args: &MapArgs,
    prepared: Prepared,
) -> Result<u8, Failure> {
    let results = args.results.as_deref().map(Results::open).transpose()?;
    let client = Client::secured(&session.config, &place.endpoint)?;
    let TakenUp { newest_before, is_closed } = take_up(&client, &prepared, args.jobs)?;
    let bar = Bar::new(clock::now().mono, args.progress);
    let prefix = bar.is_shown().then(|| job::status_prefix(&prepared.job));
    let pipeline = Pipeline::secured(&session.config, &place.endpoint, prefix.as_deref())?;
    let mut running = Running {
        args,
        place,
        signals,
        input: prepared.input(args)?,
        prepared,
        map: Map::new(Plan { keeps_order: args.keep_order, newest_before }),
        client,
        pipeline,
        asked: BTreeMap::new(),
        query: query_of(""),
        outputs: Outputs { results, failure: None, cut: 0, patience: ABSENCE_MAX },
        bar,
        number: 0,
        is_closed,
        has_accepted: false,
        refusal: None,
        is_cut: false,
        has_noted_room: false,
    };
    let ended = running.go_on();
    running.bar.end();
    ended.map_err(|failure| running.left(failure))?;
    running.finish()
}

impl Running<'_> {
    fn go_on(&mut self) -> Result<(), Failure> {
        loop {
            self.do_what_is_due()?;
            if self.map.is_done() {
                return Ok(());
            }
            let now = clock::now().mono;
            self.bar.draw(now, &self.map);
            let until = self.map.poll_timeout().into_iter().chain(self.bar.poll_timeout()).min();
            // Lines that cannot be taken yet must not wake it.
            let input = self.map.wants_items().then(|| self.input.as_fd());
            let fds: Vec<_> = std::iter::once(self.signals.as_fd()).chain(input).collect();
            let (ready, arrivals) = self.pipeline.wait(until, &fds)?;
            for arrival in arrivals {
                match arrival {
                    Arrival::Answer(id, frame) => self.handle_answer(id, &frame)?,
                    Arrival::Broadcast(frame) => {
                        job::read_status(&frame).into_iter().for_each(|job| self.bar.handle_status(job));
                    }
                }
            }
            if ready.first() == Some(&true) {
                for signal in self.signals.read() {
                    self.handle_signal(signal)?;
                }
            }
        }
    }

    /// Carries out effects and takes lines, until neither is left.
    fn do_what_is_due(&mut self) -> Result<(), Failure> {
        loop {
            while let Some(effect) = self.map.poll_effect(clock::now().mono) {
                self.carry_out(effect)?;
            }
            let before = self.number;
            self.take_lines();
            if self.number == before {
                return Ok(());
            }
        }
    }

    fn take_lines(&mut self) {
        while self.map.wants_items() {
            let line = match self.input.next() {
                Ok(Next::Line(line)) => line,
                Ok(Next::Later) => return,
                Ok(Next::End) => return self.map.handle_input_end(),
                Err(error) => {
                    self.note(&cannot_read(error).sentence);
                    self.is_cut = true;
                    continue;
                }
            };
            self.number += 1;
            let number = self.number;
            match line.and_then(|values| self.prepared.item(number, values)) {
                Ok(item) => self.map.handle_item(item),
                Err(why) => {
                    self.note(&format!("line {number}: {why}"));
                    self.map.handle_bad_line(number);
                }
            }
        }
    }

    fn note(&mut self, sentence: &str) {
        self.bar.clear();
        note(sentence);
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), Failure> {
        let job = self.prepared.job.as_str();
        match effect {
            Effect::Submit { frame, tasks } => {
                let id = self.pipeline.send(&submit_many(&tasks, &self.prepared.shared));
                self.asked.insert(id, Asked::Submit { frame });
            }
            Effect::Watch { number, id } => {
                let id = self.pipeline.send(&query_of(&id.to_string()));
                self.asked.insert(id, Asked::Task { number });
            }
            Effect::Look { number, id } => {
                let id = self.pipeline.send(&query(&Selector::task(&id.to_string()), None));
                self.asked.insert(id, Asked::Task { number });
            }
            Effect::Retry { number, id } => {
                let id = self.pipeline.send(&retry(&id.to_string()));
                self.asked.insert(id, Asked::Retry { number });
            }
            Effect::Release { id } => {
                self.pipeline.send(&hold(&id.to_string(), false));
            }
            Effect::Print(printed) => {
                if self.bar.shares_terminal() || !printed.task.stderr().is_empty() {
                    self.bar.clear();
                }
                self.outputs.print(&self.client, &printed, self.bar.shares_terminal());
                if self.outputs.failure.is_some() {
                    self.map.handle_no_reader();
                }
            }
            Effect::Hold => self.order(&JobOrder::Hold(true))?,
            Effect::Kill => self.order(&JobOrder::Kill(Some(self.reason().into())))?,
            Effect::CountRunning => {
                let running = match self.client.ask_patiently(&job::query(job, None), std::time::Duration::ZERO) {
                    Ok(job) => with_agents(&job),
                    Err(ClientError::Reply(reply)) if reply.is_no_such_task() => 0,
                    Err(error) => return Err(error.into()),
                };
                self.map.handle_running(clock::now().mono, running);
            }
        }
        Ok(())
    }

    fn reason(&self) -> &'static str {
        if self.outputs.failure.is_some() { "the reader of llts map has closed its end" } else { "map was interrupted" }
    }

    /// Gives an order about the whole job, which may have no task yet.
    fn order(&self, order: &JobOrder) -> Result<(), Failure> {
        let ask = job::order(self.prepared.job.as_str(), order);
        match self.client.ask_patiently(&ask, std::time::Duration::ZERO) {
            Err(ClientError::Reply(reply)) if reply.is_no_such_task() => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }

    fn handle_answer(&mut self, id: RequestId, frame: &[u8]) -> Result<(), Failure> {
        let now = clock::now().mono;
        match self.asked.remove(&id) {
            Some(Asked::Submit { frame: submit }) => self.handle_submitted(submit, frame)?,
            Some(Asked::Task { number }) => match self.query.decode(frame) {
                Ok(task) => self.map.handle_task(number, task),
                Err(reply) if reply.is_limit() => self.map.handle_unwatched(now, number),
                Err(reply) if reply.is_no_such_task() => {
                    self.note(&format!("line {number}: {reply}; its result is lost"));
                    self.map.handle_forgotten(number);
                }
                Err(reply) => return Err(ClientError::from(reply).into()),
            },
            // A refused retry leaves the task as it is; it counts as it has ended.
            Some(Asked::Retry { number }) => self.map.handle_retried(number),
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
                warning.into_iter().for_each(|warning| self.note(&warning));
                self.has_accepted = true;
                self.map.handle_accepted(frame, &ids, &duplicates);
            }
            Err(reply) if reply.is_limit() || reply.is_stopping() => {
                if !std::mem::replace(&mut self.has_noted_room, true) {
                    self.note(&format!("the service accepts no task for now; waiting: {reply}"));
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

    fn open_gate(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_closed) {
            limit(&self.client, &self.prepared.gate, self.args.jobs)?;
        }
        Ok(())
    }

    /// A failure in the middle of the map, with what is left to do.
    fn left(&self, failure: Failure) -> Failure {
        let Failure { exit, sentence } = failure;
        if exit == exit::INTERRUPTED {
            return Failure { exit, sentence };
        }
        let job = &self.prepared.job;
        Failure::new(
            exit,
            format!("{sentence}; accepted tasks stay with the service; resume: the same command with --job {job}"),
        )
    }

    fn remedy(&self) -> String {
        let job = &self.prepared.job;
        format!("; if job {job} was mapped with other options, use those again, or another --job")
    }

    /// The first signal ends what waits, the second what runs, the third leaves.
    fn handle_signal(&mut self, signal: Signal) -> Result<(), Failure> {
        let job = self.prepared.job.clone();
        if signal == Signal::SIGHUP && !self.place.is_hosted {
            self.bar.end();
            self.map.handle_hang_up();
            return Ok(());
        }
        let was_interrupted = self.map.is_interrupted();
        if !self.map.handle_interrupt() {
            let sentence = format!("left job {job} before its end; its tasks are being ended");
            return Err(Failure::new(exit::INTERRUPTED, sentence));
        }
        if signal == Signal::SIGHUP {
            // The service ends with this process.
            self.map.handle_interrupt();
        } else if was_interrupted {
            self.note("ending the running tasks; press Ctrl-C again to leave at once");
        } else {
            self.note("nothing more starts; waiting for the running tasks; press Ctrl-C again to end them");
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u8, Failure> {
        // Without a line, nothing has opened it.
        self.open_gate()?;
        let job = self.prepared.job.as_str();
        match self.outputs.failure {
            Some(io::ErrorKind::BrokenPipe) => return Ok(exit::BROKEN_PIPE),
            Some(_) => {
                let sentence = format!("unfinished tasks were ended; llts logs --job {job} prints the outputs");
                return Err(Failure::failed(sentence));
            }
            None => {}
        }
        if self.map.is_detached() {
            return Ok(HUNG_UP);
        }
        if self.args.jobs.is_some() && !self.map.is_interrupted() {
            // The gate of a job that has ended limits nothing any more.
            limit(&self.client, &self.prepared.gate, None)?;
        }
        summary::show(&self.map, job);
        if let Some(refusal) = self.refusal {
            return Err(Failure::new(FAILED, refusal));
        }
        let mut code = self.map.tally().exit_code(self.map.is_interrupted());
        if self.outputs.cut > 0 {
            note(&format!("{} outputs are not complete; llts logs --job {job} prints what there is", self.outputs.cut));
            code = code.max(exit::FAILED);
        }
        if let Some(results) = self.outputs.results.filter(|results| results.missing() > 0) {
            let (missing, folder) = (results.missing(), results.folder().display());
            note(&format!(
                "the results of {missing} tasks are not complete in {folder}; llts logs --job {job} prints them"
            ));
            code = code.max(exit::FAILED);
        }
        Ok(if self.is_cut { code.max(exit::FAILED) } else { code })
    }
}

/// The query of a task, parked until it has finished.
fn query_of(id: &str) -> Ask<TaskView> {
    query(&Selector::task(id), Some(PARK_MAX))
}
