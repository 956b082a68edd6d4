//! The loop of `llts map`: one wait for the service, the input and signals, and the effects of the map.

mod answers;
mod lines;
mod requests;

use std::io;
use std::os::fd::AsFd as _;

use super::super::Session;
use super::super::host::Place;
use super::super::job::with_agents;
use super::super::output_reader::ABSENCE_MAX;
use super::bar::Bar;
use super::input::Next;
use super::outputs::Outputs;
use super::results::Results;
use super::summary::Kept;
use super::take_up::{TakenUp, limit, take_up};
use super::template::Prepared;
use super::{FAILED, MapArgs, summary};
use crate::map::{Effect, Map, Plan};
use api::wire::requests::hold::hold;
use api::wire::requests::job;
use api::wire::requests::job::{JobOrder, results};
use api::wire::requests::retry::retry;
use api::wire::requests::submit::many::submit_many;
use lines::Lines;
use llts_client::{Arrival, Client, ClientError, Pipeline};
use proc::clock;
use proc::signals::{Signal, Signals};
use requests::{Requests, Subject};
use term::exit;
use term::exit::Failure;
use term::output::{Output, note};

/// The exit code after SIGHUP, as shells report it.
const HUNG_UP: u8 = 129;

/// A running map.
struct Running<'a> {
    args: &'a MapArgs,
    place: &'a Place,
    signals: &'a mut Signals,
    prepared: Prepared,
    lines: Lines,
    map: Map,
    /// For orders about the job, and for outputs that are incomplete in a result.
    client: Client,
    requests: Requests,
    outputs: Outputs,
    bar: Bar,
    /// Whether the gate of the job is closed.
    is_closed: bool,
    /// Whether the service has accepted a line.
    has_accepted: bool,
    /// Why the service accepts no more tasks, if that is a failure.
    refusal: Option<String>,
    has_noted_room: bool,
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
    // This comes before tasks of an earlier run go on, so that their ends count for this run.
    let cursor = client.ask(&results::begin(prepared.job.as_str()));
    let TakenUp { newest_before, is_closed } = take_up(&client, &prepared, args.jobs)?;
    let input = prepared.input(args)?;
    if input.is_typed() {
        note("each line that is typed here is a task; Ctrl-D ends the input");
    }
    let bar = Bar::new(clock::now().mono, args.progress, input.is_typed());
    let prefix = bar.is_shown().then(|| job::status_prefix(&prepared.job));
    let pipeline = Pipeline::secured(&session.config, &place.endpoint, prefix.as_deref())?;
    let mut running = Running {
        args,
        place,
        signals,
        lines: Lines::new(input),
        prepared,
        map: Map::new(Plan { keeps_order: args.keep_order, newest_before }),
        client,
        requests: Requests::new(pipeline),
        outputs: Outputs {
            results,
            is_tagged: args.tag,
            json: session.out.is_json().then(|| session.out.same()),
            failure: None,
            cut: 0,
            patience: ABSENCE_MAX,
        },
        bar,
        is_closed,
        has_accepted: false,
        refusal: None,
        has_noted_room: false,
    };
    match cursor {
        Ok(begun) => running.follow(&begun),
        // The service has no room for another reader, so each task is queried by its id.
        Err(ClientError::Reply(_)) => {}
        Err(error) => return Err(error.into()),
    }
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
            // A line must not wake the loop while the map wants none.
            let input = self.map.wants_items().then(|| self.lines.as_fd());
            let fds: Vec<_> = std::iter::once(self.signals.as_fd()).chain(input).collect();
            let (ready, arrivals) = self.requests.wait(until, &fds)?;
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
            let before = self.lines.number();
            self.take_lines();
            if self.lines.number() == before {
                return Ok(());
            }
        }
    }

    fn take_lines(&mut self) {
        while self.map.wants_items() {
            let line = match self.lines.next() {
                Next::Line(line) => line,
                Next::Later => return,
                Next::End => return self.map.handle_input_end(),
            };
            let number = self.lines.number();
            match line.and_then(|values| self.prepared.item(number, values)) {
                Ok(item) => self.map.handle_item(item),
                Err(why) => {
                    note(&format!("line {number}: {why}"));
                    self.map.handle_bad_line();
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Result<(), Failure> {
        let job = self.prepared.job.as_str();
        match effect {
            Effect::Submit { frame, tasks } => {
                self.requests.send(Subject::Submit { frame }, &submit_many(&tasks, &self.prepared.shared));
            }
            Effect::Follow => self.requests.send(Subject::Following, &results::begin(job)),
            Effect::Watch { number, id } => self.requests.watch(number, id),
            Effect::Look { number, id } => self.requests.look(number, id),
            Effect::Retry { number, id } => self.requests.send(Subject::Retry { number }, &retry(&id.to_string())),
            Effect::Release { id } => self.requests.send_order(&hold(&id.to_string(), false)),
            Effect::Print(printed) => {
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

    /// Turns a failure in the middle of the map into one that says how to resume it.
    fn left(&self, failure: Failure) -> Failure {
        let Failure { exit, sentence } = failure;
        if exit == exit::INTERRUPTED {
            return Failure { exit, sentence };
        }
        if self.place.is_hosted {
            return Failure { exit, sentence };
        }
        let again = summary::again("Run", &self.prepared.job, self.kept());
        Failure::new(exit, format!("{sentence}; accepted tasks stay with the service.{again}"))
    }

    /// The part of the job that stays.
    fn kept(&self) -> Kept {
        match (self.place.is_hosted, &self.args.job) {
            (true, _) => Kept::Nothing,
            (false, Some(_)) => Kept::Named,
            (false, None) => Kept::Unnamed,
        }
    }

    /// The first signal ends waiting tasks, the second ends running ones, the third leaves.
    fn handle_signal(&mut self, signal: Signal) -> Result<(), Failure> {
        let job = self.prepared.job.clone();
        if signal == Signal::SIGHUP && !self.place.is_hosted {
            self.bar.end();
            self.map.handle_hang_up();
            return Ok(());
        }
        let was_interrupted = self.map.is_interrupted();
        if !self.map.handle_interrupt() {
            let sentence = format!("left; the tasks of job {job} are being ended: llts wait --job {job}");
            return Err(Failure::new(exit::INTERRUPTED, sentence));
        }
        if signal == Signal::SIGHUP {
            // The service ends with this process.
            self.map.handle_interrupt();
        } else if was_interrupted {
            note("Ending the running tasks. Ctrl-C again leaves at once.");
        } else {
            let running = match self.bar.running() {
                Some(0) | None => "those that run".to_owned(),
                Some(count) => count.to_string(),
            };
            note(&format!("Starting no more tasks; waiting for {running}. Ctrl-C again kills them."));
        }
        Ok(())
    }

    /// The command that prints the outputs later, unless the service ends with this map.
    fn hint(&self, what: &str) -> String {
        if self.place.is_hosted { String::new() } else { format!("; `llts logs --job {}` {what}", self.prepared.job) }
    }

    fn finish(mut self) -> Result<u8, Failure> {
        // The gate is still closed if there was no line.
        self.open_gate()?;
        match self.outputs.failure {
            Some(io::ErrorKind::BrokenPipe) => return Ok(exit::BROKEN_PIPE),
            Some(_) => {
                if let Some(Err(why)) = self.outputs.json.as_mut().map(Output::flushed) {
                    note(&why.sentence);
                }
                return Err(Failure::failed(format!("unfinished tasks were ended{}", self.hint("prints the outputs"))));
            }
            None => {}
        }
        if self.map.is_detached() {
            return Ok(HUNG_UP);
        }
        if self.args.jobs.is_some() && !self.map.is_interrupted() {
            // The gate of an ended job has nothing to limit.
            limit(&self.client, &self.prepared.gate, None)?;
        }
        // The reason comes before its consequences.
        if let Some(refusal) = &self.refusal {
            note(refusal);
        }
        summary::show(&self.map, &self.prepared.job, self.kept(), self.refusal.is_some());
        if let Some(json) = &mut self.outputs.json {
            json.value(&summary::value(&self.map, &self.prepared.job));
            if json.failure_of_write() == Some(io::ErrorKind::BrokenPipe) {
                return Ok(exit::BROKEN_PIPE);
            }
            json.flushed()?;
        }
        if self.refusal.is_some() {
            return Ok(FAILED);
        }
        let mut code = self.map.tally().exit_code(self.map.is_interrupted());
        if self.outputs.cut > 0 {
            note(&format!("{} outputs are not complete{}", self.outputs.cut, self.hint("prints what there is")));
            code = code.max(exit::FAILED);
        }
        if let Some(results) = self.outputs.results.as_ref().filter(|results| results.missing() > 0) {
            let (missing, folder) = (results.missing(), results.folder().display());
            let hint = self.hint("prints them");
            note(&format!("the results of {missing} tasks are not complete in {folder}{hint}"));
            code = code.max(exit::FAILED);
        }
        Ok(if self.lines.are_cut() && !self.map.is_interrupted() { FAILED } else { code })
    }
}
