//! `llts graph run` and `llts graph submit`: submit a document. `run` shows the steps until the end, and exits as the
//! graph did.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::Session;
use super::super::caller::caller;
use super::super::hand_over::unanswered;
use super::super::host::{HostArgs, at_controller};
use super::super::waiting::{Looks, Wait, left};
use super::view::View;
use super::{document, show};
use api::wire::client::Ask;
use api::wire::graph::status;
use api::wire::requests::graph::{GraphAnswer, GraphSubmitted};
use api::wire::requests::job::JobAnswer;
use api::wire::requests::{graph, job};
use base::{GraphStatus, Mono, StepState};
use llts_client::{Arrival, Client, ClientError, PARK_MAX, Pipeline, RequestId, own_key};
use proc::clock;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::note;
use term::{exit, hints, status_line};

/// The time between two questions for the number of finished tasks, while the view is shown.
const COUNT_PAUSE: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(super) struct DocumentArgs {
    /// The document: JSON or TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An id of your own
    #[arg(long, value_name = "ID")]
    given_id: Option<String>,
    /// Address that changes of its steps are pushed to: a DEALER socket that you have bound
    #[arg(long, value_name = "tcp://IP:PORT")]
    address: Option<String>,
    /// Submitting the same graph again with the same key returns the first one
    #[arg(long, value_name = "KEY")]
    submit_key: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal it shows the steps that are at work. At the end it prints all steps, and exits with 0 if the graph has SUCCEEDED, 1 \
if it has FAILED or another user has killed it.
Ctrl-C ends the graph and waits for its end (exit code 130); a second Ctrl-C leaves at once.
If no controller answers where the configuration says, one is started for the time of the run.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    document: DocumentArgs,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Args, Debug)]
pub(super) struct SubmitArgs {
    #[command(flatten)]
    document: DocumentArgs,
}

impl DocumentArgs {
    fn hand_over(&self, client: &Client, text: &str) -> Result<GraphSubmitted, Failure> {
        let [given_id, named, address] = [&self.given_id, &self.submit_key, &self.address].map(Option::as_deref);
        let key = named.map_or_else(own_key, str::to_owned);
        let ask = graph::submit_as(text, given_id, Some(&key), address);
        let submitted = client.ask_repeatably(&ask).map_err(|error| self.of_file(client, &key, error))?;
        let is_duplicate = named.is_some() && submitted.is_duplicate();
        let duplicate = is_duplicate.then_some("a graph was submitted before with this key; this is its id");
        submitted.warning().into_iter().chain(duplicate).for_each(note);
        Ok(submitted)
    }

    /// Turns a refusal into a failure about the document.
    fn of_file(&self, client: &Client, key: &str, error: ClientError) -> Failure {
        let is_refused = matches!(error, ClientError::Reply(_));
        let mut failure = unanswered(client, key, error);
        if is_refused {
            failure.sentence = format!("{}: {}", self.file.display(), failure.sentence);
        }
        failure
    }
}

pub(super) fn submit(session: &mut Session, args: &SubmitArgs) -> Result<u8, Failure> {
    let text = document::text(session, &args.document.file)?;
    let submitted = args.document.hand_over(&session.client()?, &text)?;
    if session.out.is_json() {
        session.out.value(&json!({
            "graph": submitted.id(),
            "duplicate": submitted.is_duplicate(),
            "warning": submitted.warning().map_or(Value::Null, Value::from),
        }));
    } else {
        session.out.line(submitted.id());
    }
    Ok(0)
}

pub(super) fn run(session: &mut Session, args: &RunArgs) -> Result<u8, Failure> {
    // Before any thread is started.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let text = document::text(session, &args.document.file)?;
    at_controller(session, &mut signals, args.host, None, |session, signals, place| {
        let client = Client::secured(&session.config, &place.endpoint)?;
        let submitted = args.document.hand_over(&client, &text)?;
        let mut following = Following::start(session, &client, submitted.id(), &args.document.file)?;
        let graph = following.go_on(session, signals)?;
        let killed_by = following.killed_by;
        let limit = if session.out.is_json() { u64::MAX } else { show::SHOWN };
        let (total, rows) = show::page(&client, submitted.id(), 0, limit)?;
        session.out.redraw("");
        show::show(session, &graph, &rows);
        if (rows.len() as u64) < total {
            let id = submitted.id();
            let shown = format!("{} of {total} steps; `llts graph show {id}` shows others", rows.len());
            session.out.line(hints::typed(&shown));
        }
        Ok(code(&graph, killed_by))
    })
}

/// Waits for the end of a graph; exits as `run` does.
pub(in crate::cli) fn wait(
    session: &mut Session,
    wait: &mut Wait,
    id: &str,
    until: Option<Mono>,
) -> Result<u8, Failure> {
    let client = session.client()?;
    let ended = wait.wait(
        until,
        |until, interrupt| client.wait_for_graph(id, until, interrupt),
        GraphAnswer::has_ended,
        ("Ctrl-C leaves; the graph goes on", |graph: &GraphAnswer| Ok(format!("graph {id}: {}", progress(graph)))),
    )?;
    let Some(graph) = ended else { return Err(left(&format!("graph {id} goes on"))) };
    show::show(session, &graph, &[]);
    if graph.has_ended() {
        return Ok(code(&graph, None));
    }
    note(&format!("graph {id} has not ended"));
    Ok(exit::TIMED_OUT)
}

fn progress(graph: &GraphAnswer) -> String {
    let done = graph.in_state(StepState::Completed) + graph.in_state(StepState::Deactivated);
    format!("{done} of {} steps are done", graph.total())
}

fn code(graph: &GraphAnswer, killed_by: Option<Signal>) -> u8 {
    if graph.status() == status(GraphStatus::Succeeded) {
        return 0;
    }
    let by_signal = killed_by.filter(|_| graph.status() == status(GraphStatus::Killed));
    by_signal.and_then(|signal| u8::try_from(signal as i32).ok()).map_or(exit::FAILED, |signal| 128 + signal)
}

/// A submitted graph until its end.
struct Following<'a> {
    pipeline: Pipeline,
    client: &'a Client,
    id: &'a str,
    /// The request for the state of the graph, which waits for its end.
    asked: (RequestId, Ask<GraphAnswer>),
    /// The request for the state of its job.
    counted: Option<(RequestId, Ask<JobAnswer>)>,
    counts_at: Mono,
    /// Only for a terminal.
    view: Option<View>,
    /// The first signal, which asked for the end.
    killed_by: Option<Signal>,
    /// Where no view is shown.
    looks: Looks,
}

impl<'a> Following<'a> {
    fn start(session: &Session, client: &'a Client, id: &'a str, file: &Path) -> Result<Self, Failure> {
        let now = clock::now().mono;
        let is_shown = session.out.columns().is_some() && !session.out.is_json();
        let prefix = is_shown.then(|| graph::status_prefix(id));
        let mut pipeline = Pipeline::secured(&session.config, client.endpoint(), prefix.as_deref())?;
        // The first answer comes at once and shows the number of steps.
        let ask = graph::query(id, None);
        let asked = (pipeline.send(&ask), ask);
        let view = is_shown.then(|| View::new(now, file.display().to_string()));
        let looks = Looks::begin();
        Ok(Self { pipeline, client, id, asked, counted: None, counts_at: now, view, killed_by: None, looks })
    }

    /// Returns the graph when it has ended.
    fn go_on(&mut self, session: &mut Session, signals: &mut Signals) -> Result<GraphAnswer, Failure> {
        loop {
            let now = clock::now().mono;
            if let Some(block) = self.view.as_mut().and_then(|view| view.draw(now)) {
                session.out.redraw(&block);
                self.count(now);
            }
            if self.view.is_none() && self.looks.is_due() {
                let graph = self.client.ask(&graph::query(self.id, None))?;
                status_line::show_with_hint(&format!("graph {}: {}", self.id, progress(&graph)), "Ctrl-C ends it");
            }
            let until = match &self.view {
                Some(view) => Some(view.poll_timeout()),
                None => self.looks.or(None),
            };
            let (ready, arrivals) = self.pipeline.wait(until, &[signals.as_fd()])?;
            for arrival in arrivals {
                if let Some(graph) = self.handle(arrival)? {
                    return Ok(graph);
                }
            }
            if ready.first() == Some(&true) {
                self.handle_signals(signals)?;
            }
        }
    }

    fn handle(&mut self, arrival: Arrival) -> Result<Option<GraphAnswer>, Failure> {
        let now = clock::now().mono;
        match arrival {
            Arrival::Answer(id, frame) if id == self.asked.0 => {
                let graph = self.asked.1.decode(&frame).map_err(ClientError::from)?;
                if graph.has_ended() {
                    return Ok(Some(graph));
                }
                self.handle_running(now, &graph)?;
                let ask = graph::query(self.id, Some(PARK_MAX));
                self.asked = (self.pipeline.send(&ask), ask);
            }
            Arrival::Answer(id, frame) => {
                if let Some((_, ask)) = self.counted.take_if(|(counted, _)| *counted == id)
                    && let Some(view) = &mut self.view
                {
                    // A graph has no job until its first task starts.
                    ask.decode(&frame).into_iter().for_each(|job| view.handle_job(job));
                }
            }
            Arrival::Broadcast(frame) => {
                let change = graph::read_status(&frame);
                if let (Some(view), Some(change)) = (&mut self.view, change)
                    && let (Some(step), Some(state)) = (change.step(), change.state())
                {
                    view.handle_step(now, step, state);
                }
            }
        }
        Ok(None)
    }

    /// Requests all steps once, because they may have changed before the first broadcast.
    fn handle_running(&mut self, now: Mono, graph: &GraphAnswer) -> Result<(), Failure> {
        let Some(view) = &mut self.view else { return Ok(()) };
        if view.handle_graph(graph) {
            for row in show::all_steps(self.client, self.id)? {
                view.handle_step(now, &row.name, row.state());
            }
        }
        Ok(())
    }

    fn count(&mut self, now: Mono) {
        if self.counted.is_none() && self.counts_at <= now {
            let ask = job::query(self.id, None);
            self.counted = Some((self.pipeline.send(&ask), ask));
            self.counts_at = now + COUNT_PAUSE;
        }
    }

    /// The first signal asks for the end of the graph, the second leaves at once.
    fn handle_signals(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        for signal in signals.read() {
            if self.killed_by.is_some() {
                return Err(Failure::new(
                    exit::INTERRUPTED,
                    format!("left; graph {} is being ended: llts wait {}", self.id, self.id),
                ));
            }
            note(&format!("ending {}; press Ctrl-C again to leave at once", self.id));
            let reason = match signal {
                Signal::SIGINT => "Ctrl-C in llts graph run".to_owned(),
                signal => format!("{signal} to llts graph run"),
            };
            self.client.ask(&graph::kill(self.id, &caller(&reason)))?;
            self.killed_by = Some(signal);
        }
        Ok(())
    }
}
