//! SERVICE/STATUS: everything that the screens of a service show, in one answer, or with a cursor only the changes.
//!
//! The answer has parts. The key of a part is its kind, a blank and a name. The controller numbers the changes of its parts. A
//! reader that sends the cursor of its last answer gets the parts that have changed since then, and null for each removed part.
//! With a time, the answer waits for a change. If the cursor is too old, or from another start of the controller, the answer has
//! everything.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use super::gate::{self, GateRow};
use super::graph::{self, GraphAnswer};
use super::history::{self, IncidentRow};
use super::job::results::Cursor;
use super::job::{self, JobAnswer};
use super::rows::{self, RowView, TaskRow};
use super::stats::AgentCounts;
use super::{Ask, Kind, Request, words};
use crate::wire::client::{ReplyError, decode_parts};
use crate::wire::typed::field;
use base::json::ObjectWriter;
use base::{AgentId, Fields, GateView, GraphView, Incident, JobView, Scalar, StateCounts, Wall, is_longer};

/// The state of a service, for people.
pub const SERVICE_STATUS: Kind = Kind::question("SERVICE/STATUS", |reader| {
    let cursor = field(&reader.fields, words::CURSOR, "one that SERVICE/STATUS has answered", |value| {
        value.as_text()?.parse().ok()
    })?;
    Ok(Request::Status(StatusAsk { cursor, wait: reader.wait()? }))
});

/// A request for the state of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusAsk {
    /// The cursor of its last answer.
    pub cursor: Option<Cursor>,
    /// How long the answer may wait for a change.
    pub wait: Option<Duration>,
}

/// The state of a service, or its changes.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusView {
    /// The moment of the answer.
    pub now: Wall,
    /// When the controller was started.
    pub started_at: Wall,
    /// When the oldest task that could start was submitted.
    pub oldest_at: Option<Wall>,
    /// Tasks that have finished per second, within the last minute.
    pub rate: f64,
    /// The median of their run times.
    pub run_p50: Option<Duration>,
    /// Until when a client has paused the service.
    pub paused_until: Option<Wall>,
    /// The cursor of the next request.
    pub cursor: Cursor,
    /// Whether these are all parts.
    pub is_whole: bool,
    /// The parts, in the order of their importance.
    pub parts: Vec<Part>,
    /// The names of those that are gone.
    pub gone: Vec<String>,
}

/// A part of the state of a service.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The numbers of tasks by their states.
    States(StateCounts),
    /// The numbers of agents.
    Agents(AgentCounts),
    /// The queue, if other machines share it.
    Queue(QueueView),
    /// The number of changes of tasks up to now.
    Changes(u64),
    /// The ends of the last minutes, the oldest first.
    Pace(Vec<PaceStep>),
    /// A problem for the operator, with its rank: the gravest is the first.
    Problem(usize, Problem),
    /// A lost agent, and when it was heard last.
    Lost(AgentId, Wall),
    /// One of the newest jobs that have not ended.
    Job(JobView),
    /// One of the tasks that exceed their usual run time most.
    Running(Box<TaskRow>),
    /// A reason why tasks wait, with its rank and the number of these tasks: the most frequent is the first.
    Waiting(usize, String, usize),
    /// One of the last failures.
    Failed(Box<TaskRow>),
    /// A gate at which tasks wait or run, or that is not open.
    Gate(GateView),
    /// One of the newest graphs that have not ended.
    Graph(GraphView),
    /// One of the last incidents, with its number.
    Incident(u64, Incident),
}

/// A queue that this controller leads, and that another controller may lead later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The server.
    pub place: String,
    /// When this controller began to lead, by the clock of the server.
    pub since: Wall,
    /// The homes that wait to lead.
    pub standbys: Vec<String>,
    /// The failures that an accepted task survives, as text.
    pub survives: String,
}

/// The tasks that finished in one step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaceStep {
    /// The number of tasks that have finished.
    pub ends: u32,
    /// The median of their run times.
    pub run_p50: Option<Duration>,
}

/// Seconds of a step of the pace.
pub const PACE_STEP: u64 = 5;

/// A problem that needs the attention of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A sentence.
    pub text: String,
    /// A command that shows more about it, or solves it.
    pub hint: String,
    /// Since when, if that is known.
    pub since: Option<Wall>,
    /// The id of a task as an example of the problem.
    pub task: Option<String>,
}

/// The names of the kinds of parts.
mod part {
    pub(super) const STATES: &str = "states";
    pub(super) const AGENTS: &str = "agents";
    pub(super) const QUEUE: &str = "queue";
    pub(super) const CHANGES: &str = "changes";
    pub(super) const PACE: &str = "pace";
    pub(super) const PROBLEM: &str = "problem";
    pub(super) const LOST: &str = "lost";
    pub(super) const JOB: &str = "job";
    pub(super) const RUNNING: &str = "running";
    pub(super) const WAITING: &str = "waiting";
    pub(super) const FAILED: &str = "failed";
    pub(super) const GATE: &str = "gate";
    pub(super) const GRAPH: &str = "graph";
    pub(super) const INCIDENT: &str = "incident";
}

impl Part {
    /// Its name in the answer.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::States(_) => part::STATES.to_owned(),
            Self::Agents(_) => part::AGENTS.to_owned(),
            Self::Queue(_) => part::QUEUE.to_owned(),
            Self::Changes(_) => part::CHANGES.to_owned(),
            Self::Pace(_) => part::PACE.to_owned(),
            Self::Problem(place, _) => format!("{} {place}", part::PROBLEM),
            Self::Lost(agent, _) => format!("{} {agent}", part::LOST),
            Self::Job(view) => format!("{} {}", part::JOB, view.name),
            Self::Running(row) => format!("{} {}", part::RUNNING, row.record.id),
            Self::Waiting(place, ..) => format!("{} {place}", part::WAITING),
            Self::Failed(row) => format!("{} {}", part::FAILED, row.record.id),
            Self::Gate(view) => format!("{} {}", part::GATE, view.name),
            Self::Graph(view) => format!("{} {}", part::GRAPH, view.id),
            Self::Incident(number, _) => format!("{} {number}", part::INCIDENT),
        }
    }

    /// The row of its task, if it shows one.
    pub(in crate::wire) fn row(&mut self) -> Option<&mut TaskRow> {
        match self {
            Self::Running(row) | Self::Failed(row) => Some(row),
            Self::States(_)
            | Self::Agents(_)
            | Self::Queue(_)
            | Self::Changes(_)
            | Self::Pace(_)
            | Self::Problem(..)
            | Self::Lost(..)
            | Self::Job(_)
            | Self::Waiting(..)
            | Self::Gate(_)
            | Self::Graph(_)
            | Self::Incident(..) => None,
        }
    }

    fn write(&self, writer: &mut ObjectWriter<'_>) {
        match self {
            Self::States(states) => rows::write_states(states, writer),
            Self::Agents(counts) => counts.write(writer),
            Self::Queue(QueueView { place, since, standbys, survives }) => {
                writer.text(words::WHAT, place);
                writer.moment(words::SINCE, *since);
                writer.text(words::STANDBYS, &standbys.join(", "));
                writer.text(words::SURVIVES, survives);
            }
            Self::Changes(number) => writer.literal(words::SEQ, number),
            Self::Pace(steps) => {
                let list = |text: &dyn Fn(&PaceStep) -> String| steps.iter().map(text).collect::<Vec<_>>().join(" ");
                let seconds = |time: Duration| format!("{:.4}", time.as_secs_f64());
                writer.literal(words::INTERVAL, PACE_STEP);
                writer.text(words::ENDS, &list(&|step| step.ends.to_string()));
                writer.text(words::RUN_P50, &list(&|step| step.run_p50.map_or_else(|| "-".to_owned(), seconds)));
            }
            Self::Problem(_, problem) => {
                writer.text(words::WHAT, &problem.text);
                writer.text(words::HINT, &problem.hint);
                writer.maybe_moment(words::SINCE, problem.since);
                writer.maybe_text(words::TASK_ID, problem.task.as_ref());
            }
            Self::Lost(agent, heard) => {
                writer.text(words::AGENT_ID, agent.as_str());
                writer.moment(words::HEARD_TIME, *heard);
            }
            Self::Job(view) => job::write(view, writer),
            Self::Running(row) | Self::Failed(row) => rows::write_row(row, writer),
            Self::Waiting(_, why, count) => {
                writer.text(words::WHY, why);
                writer.literal(words::COUNT, count);
            }
            Self::Gate(view) => gate::write(view, writer),
            Self::Graph(view) => graph::write(view, writer),
            Self::Incident(_, incident) => history::write_incident(incident, writer),
        }
    }
}

/// Writes the answer.
pub(in crate::wire) fn write(view: &StatusView, writer: &mut ObjectWriter<'_>) {
    writer.moment(words::TIME, view.now);
    writer.moment(words::START, view.started_at);
    writer.maybe_moment(words::OLDEST_TIME, view.oldest_at);
    writer.literal(words::RATE, view.rate);
    writer.maybe(words::RUN_P50, view.run_p50.map(|time| time.as_secs_f64()));
    writer.maybe_moment(words::PAUSED_UNTIL, view.paused_until);
    writer.text(words::CURSOR, &view.cursor.to_string());
    writer.literal(words::WHOLE, view.is_whole);
    for part in &view.parts {
        writer.object(&part.name(), |writer| part.write(writer));
    }
    for name in &view.gone {
        writer.literal(name, "null");
    }
}

/// Requests the state of the service.
#[must_use]
pub fn status() -> Ask<Status> {
    Ask::new(SERVICE_STATUS.word, |frame| {
        let mut followed = Followed::default();
        followed.apply(decode(frame)?);
        Ok(followed.status())
    })
}

/// Requests the changes since an answer. The next answer waits for a change, at most for `wait`.
#[must_use]
pub fn changes(followed: &Followed, wait: Duration) -> Ask<Changes> {
    let ask = Ask::new(SERVICE_STATUS.word, decode);
    match &followed.cursor {
        Some(cursor) => ask.with(words::CURSOR, cursor.as_str()).with(words::WAIT, super::query::millis(wait)),
        None => ask,
    }
}

/// An answer, as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    head: Fields,
    parts: Vec<(String, Fields)>,
}

fn decode(frame: &[u8]) -> Result<Changes, ReplyError> {
    decode_parts(frame).map(|(head, parts)| Changes { head, parts })
}

/// The state of a service as a reader knows it, from the answers up to now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Followed {
    cursor: Option<String>,
    head: Fields,
    parts: BTreeMap<String, Fields>,
}

impl Followed {
    /// Applies the changes in an answer.
    pub fn apply(&mut self, Changes { head, parts }: Changes) {
        if head.get(words::WHOLE) != Some(&Scalar::Bool(false)) {
            self.parts.clear();
        }
        for (name, value) in head.iter() {
            if *value == Scalar::Null {
                self.parts.remove(name);
            }
        }
        self.parts.extend(parts);
        self.cursor = head.text(words::CURSOR).map(str::to_owned);
        self.head = head;
    }

    /// The state.
    #[must_use]
    pub fn status(&self) -> Status {
        let head = &self.head;
        let mut status = Status {
            now: head.moment(words::TIME).unwrap_or_default(),
            started_at: head.moment(words::START).unwrap_or_default(),
            oldest_at: head.moment(words::OLDEST_TIME),
            rate: head.get(words::RATE).and_then(Scalar::as_f64).unwrap_or_default(),
            run_p50: head.get(words::RUN_P50).and_then(|p50| Duration::try_from_secs_f64(p50.as_f64()?).ok()),
            paused_until: head.moment(words::PAUSED_UNTIL),
            warning: head.text(words::WARNING).map(str::to_owned),
            ..Status::default()
        };
        let mut parts: Vec<_> = self.parts.iter().collect();
        parts.sort_by_key(|(name, _)| numbered(name));
        for (name, fields) in parts {
            status.read(name, fields);
        }
        status.sort();
        status
    }
}

/// The state of a service, for its readers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The moment of the answer, by the clock of the controller.
    pub now: Wall,
    /// When the controller was started.
    pub started_at: Wall,
    /// The numbers of tasks by their states.
    pub states: StateCounts,
    /// The numbers of agents.
    pub agents: AgentCounts,
    /// When the oldest task that could start was submitted.
    pub oldest_at: Option<Wall>,
    /// Tasks that have finished per second, within the last minute.
    pub rate: f64,
    /// The median of their run times.
    pub run_p50: Option<Duration>,
    /// Until when a client has paused the service.
    pub paused_until: Option<Wall>,
    /// A sentence about its health, if that is not good.
    pub warning: Option<String>,
    /// The queue, if other machines share it.
    pub queue: Option<QueueView>,
    /// The number of changes of tasks up to now.
    pub changes: u64,
    /// The ends of the last minutes, the oldest first.
    pub pace: Vec<PaceStep>,
    /// The problems for the operator, the gravest first.
    pub problems: Vec<Problem>,
    /// The newest jobs that have not ended.
    pub jobs: Vec<JobAnswer>,
    /// The tasks that exceed their usual run time most.
    pub running: Vec<RowView>,
    /// The reasons why tasks wait, each with the number of tasks, the most frequent first.
    pub waiting: Vec<(String, u64)>,
    /// The last failures, newest first.
    pub failed: Vec<RowView>,
    /// The gates at which tasks wait or run, or that are not open.
    pub gates: Vec<GateRow>,
    /// The newest graphs that have not ended.
    pub graphs: Vec<GraphAnswer>,
    /// The last incidents, newest first.
    pub incidents: Vec<IncidentRow>,
}

impl Status {
    fn read(&mut self, name: &str, fields: &Fields) {
        let text = |word| fields.text(word).unwrap_or_default().to_owned();
        let fields = || fields.clone();
        match name.split_once(' ').map_or(name, |(part, _)| part) {
            part::STATES => self.states = rows::read_states(&fields()),
            part::AGENTS => self.agents = fields().into(),
            part::QUEUE => {
                let standbys = text(words::STANDBYS);
                self.queue = Some(QueueView {
                    place: text(words::WHAT),
                    since: fields().moment(words::SINCE).unwrap_or_default(),
                    standbys: standbys.split(", ").filter(|home| !home.is_empty()).map(str::to_owned).collect(),
                    survives: text(words::SURVIVES),
                });
            }
            part::CHANGES => self.changes = fields().count(words::SEQ).unwrap_or_default(),
            part::PACE => self.pace = read_pace(&text(words::ENDS), &text(words::RUN_P50)),
            part::PROBLEM => {
                let (since, task) = (fields().moment(words::SINCE), fields().text(words::TASK_ID).map(str::to_owned));
                self.problems.push(Problem { text: text(words::WHAT), hint: text(words::HINT), since, task });
            }
            part::JOB => self.jobs.push(fields().into()),
            part::RUNNING => self.running.push(fields().into()),
            part::WAITING => self.waiting.push((text(words::WHY), fields().count(words::COUNT).unwrap_or_default())),
            part::FAILED => self.failed.push(fields().into()),
            part::GATE => self.gates.push(fields().into()),
            part::GRAPH => self.graphs.push(fields().into()),
            part::INCIDENT => self.incidents.push(fields().into()),
            // A later version may have more parts.
            _ => {}
        }
    }
}

impl Status {
    /// Sorts everything in the order of the screens, because answers arrive in pieces.
    fn sort(&mut self) {
        let now = self.now;
        let ran = |row: &RowView| row.run_at().map(|at| now.since(at)).unwrap_or_default();
        let is_longer = |row: &RowView| row.usual().is_some_and(|usual| is_longer(ran(row), usual));
        self.jobs.sort_by_key(|job| Reverse(job.submitted_at()));
        self.running.sort_by_key(|row| (Reverse(is_longer(row)), Reverse(ran(row)), row.id().to_owned()));
        self.failed.sort_by_key(|row| Reverse(row.finished_at()));
        self.graphs.sort_by_key(|graph| Reverse(graph.submitted_at()));
        self.incidents.reverse();
    }
}

/// Splits off the number of a name, so that `waiting 10` comes after `waiting 9`.
fn numbered(name: &str) -> (&str, Option<u64>, &str) {
    let (kind, rest) = name.split_once(' ').unwrap_or((name, ""));
    (kind, rest.parse().ok(), rest)
}

fn read_pace(ends: &str, p50: &str) -> Vec<PaceStep> {
    let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    let steps = ends.split_ascii_whitespace().zip(p50.split_ascii_whitespace());
    steps.map(|(ends, p50)| PaceStep { ends: ends.parse().unwrap_or_default(), run_p50: seconds(p50) }).collect()
}
