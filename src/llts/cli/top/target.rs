//! The target of a row, and the changes that keys make to it.

use std::sync::Arc;
use std::time::Duration;

use super::super::selection::ids::short;
use api::wire::client::Ask;
use api::wire::requests::down::pause;
use api::wire::requests::drain::{Drain, drain};
use api::wire::requests::gate::{self, GateChange};
use api::wire::requests::job::{JobAnswer, JobOrder, order};
use api::wire::requests::{graph, hold, kill, retry};
use base::{Label, Phase, UNTIL_OPENED, counted};
use term::table::grouped;

/// The target of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Nothing that a key acts on.
    #[default]
    Nothing,
    Task {
        id: String,
        is_held: bool,
    },
    /// Similar failures, the newest first.
    Alike(Vec<String>),
    Job {
        name: String,
        /// The counts of unfinished tasks, of waiting ones among them, and of failed tasks.
        open: u64,
        waiting: u64,
        failed: u64,
    },
    Agent {
        name: String,
        is_drained: bool,
    },
    Graph(String),
    Gate {
        name: String,
        is_closed: bool,
    },
    /// The tasks that this filter finds.
    Tasks(String),
    /// A sentence, perhaps too long for its line, and a command for it.
    Text {
        text: String,
        hint: String,
    },
    /// The service as a whole.
    Service {
        is_paused: bool,
    },
}

/// The action of a key on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Kill,
    Retry,
    Hold,
    Release,
    Pause,
}

/// A requested change.
#[derive(Debug)]
pub(super) struct Act {
    /// The name of the target, for a sentence.
    pub(super) name: String,
    /// The request; its answer may have a warning.
    pub(super) ask: Ask<Option<String>>,
}

impl Act {
    fn new<A>(name: &str, ask: Ask<A>) -> Self {
        Self { name: name.to_owned(), ask: ask.for_its_warning() }
    }
}

impl Target {
    pub(super) fn of_job(job: &JobAnswer) -> Self {
        let open = job.total().saturating_sub(job.in_phase(Phase::Finished));
        Self::Job { name: job.name().to_owned(), open, waiting: job.in_phase(Phase::Waiting), failed: job.failed() }
    }

    /// The effect of a verb on these targets, if it has one: the words of the question, and the changes. `reason` is recorded with ended
    /// tasks.
    pub(super) fn acts(targets: &[Self], verb: Verb, reason: &Arc<str>) -> Option<(String, Vec<Act>)> {
        let acts: Vec<Act> = targets.iter().flat_map(|target| target.act(verb, reason)).collect();
        let word = targets.first().and_then(|target| target.word(verb))?;
        let thing = Self::things(targets, verb, acts.len())?;
        // A hold keeps the next round from starting, not the run.
        let but = if word == "hold" { ", of which those that run go on" } else { "" };
        (!acts.is_empty()).then(|| (format!("{word} {thing}{but}"), acts))
    }

    /// The targets in a question: one by its name, several by their number, and jobs by their number of tasks.
    fn things(targets: &[Self], verb: Verb, count: usize) -> Option<String> {
        let first = targets.first()?;
        let tasks: u64 = targets.iter().map(|target| target.tasks(verb)).sum();
        let sum = counted(grouped(tasks), "task");
        let word = match first {
            Self::Task { id, .. } if count == 1 => return Some(format!("task {}", short(id))),
            Self::Task { .. } | Self::Alike(_) | Self::Tasks(_) | Self::Text { .. } | Self::Nothing => "task",
            Self::Job { name, .. } if targets.len() == 1 => {
                return Some(format!("{sum} of job {name}"));
            }
            Self::Job { .. } => return Some(format!("{sum} of {} jobs", targets.len())),
            Self::Agent { name, .. } if count == 1 => return Some(format!("agent {name}")),
            Self::Agent { .. } => "agent",
            Self::Graph(id) if count == 1 => return Some(format!("graph {id}")),
            Self::Graph(_) => "graph",
            Self::Gate { name, .. } if count == 1 => return Some(format!("gate {name}")),
            Self::Gate { .. } => "gate",
            Self::Service { .. } => return Some("the service".to_owned()),
        };
        Some(counted(grouped(count as u64), word))
    }

    /// The number of a job's tasks that a verb affects.
    const fn tasks(&self, verb: Verb) -> u64 {
        match (self, verb) {
            (Self::Job { failed, .. }, Verb::Retry) => *failed,
            (Self::Job { waiting, .. }, Verb::Release) => *waiting,
            (Self::Job { open, .. }, _) => *open,
            _ => 0,
        }
    }

    fn act(&self, verb: Verb, reason: &Arc<str>) -> Vec<Act> {
        let task = |id: &str, is_held: bool| match verb {
            Verb::Kill => Act::new(id, kill::kill(id, reason)),
            Verb::Retry => Act::new(id, retry::retry(id)),
            Verb::Hold | Verb::Pause => Act::new(id, hold::hold(id, !is_held)),
            Verb::Release => Act::new(id, hold::hold(id, false)),
        };
        let closed = |is_closed: bool| {
            let until = if is_closed { None } else { Some(UNTIL_OPENED) };
            GateChange { closed_until: Some(until), ..GateChange::default() }
        };
        match self {
            Self::Task { id, is_held } => vec![task(id, *is_held)],
            Self::Alike(ids) if verb == Verb::Retry => ids.iter().map(|id| task(id, false)).collect(),
            // The job has no task that the verb could change.
            Self::Job { .. } if self.tasks(verb) == 0 => Vec::new(),
            Self::Job { name, .. } => {
                let what = match verb {
                    Verb::Kill => JobOrder::Kill(Some(Arc::clone(reason))),
                    Verb::Retry => JobOrder::Retry,
                    Verb::Hold | Verb::Pause => JobOrder::Hold(true),
                    Verb::Release => JobOrder::Hold(false),
                };
                vec![Act::new(name, order(name, &what))]
            }
            Self::Agent { name, is_drained } if verb == Verb::Pause => {
                vec![Act::new(name, drain(name, if *is_drained { Drain::Undo } else { Drain::Begin }))]
            }
            Self::Graph(id) if verb == Verb::Kill => vec![Act::new(id, graph::kill(id, reason))],
            Self::Gate { name, is_closed } if verb == Verb::Pause => {
                vec![Act::new(name, gate::set(name, &closed(*is_closed)))]
            }
            Self::Service { is_paused } if verb == Verb::Pause => {
                let mut acts = vec![Act::new("the service", gate::set(Label::SERVICE, &closed(*is_paused)))];
                // `llts down --wait` may also have paused it.
                acts.extend(is_paused.then(|| Act::new("the service", pause(Duration::ZERO))));
                acts
            }
            Self::Service { .. }
            | Self::Alike(_)
            | Self::Agent { .. }
            | Self::Graph(_)
            | Self::Gate { .. }
            | Self::Tasks(_)
            | Self::Text { .. }
            | Self::Nothing => Vec::new(),
        }
    }

    /// The word for a verb, as in `kill 3 tasks`.
    fn word(&self, verb: Verb) -> Option<&'static str> {
        Some(match (self, verb) {
            (_, Verb::Kill) => "kill",
            (_, Verb::Retry) => "retry",
            (_, Verb::Release) => "release",
            (Self::Task { is_held: true, .. }, _) => "release",
            (Self::Agent { is_drained: true, .. } | Self::Service { is_paused: true }, _) => "resume",
            (Self::Gate { is_closed: true, .. }, _) => "open",
            (Self::Gate { .. }, _) => "close",
            (Self::Agent { .. } | Self::Service { .. }, _) => "pause",
            (_, Verb::Hold | Verb::Pause) => "hold",
        })
    }

    /// The name of the target where its row is not shown.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Task { id: name, .. }
            | Self::Job { name, .. }
            | Self::Agent { name, .. }
            | Self::Graph(name)
            | Self::Gate { name, .. }
            | Self::Tasks(name)
            | Self::Text { text: name, .. } => name,
            Self::Alike(ids) => ids.first().map_or("", String::as_str),
            Self::Nothing | Self::Service { .. } => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_what_it_will_touch() {
        let task = |id: &str, is_held| Target::Task { id: id.to_owned(), is_held };
        let asked = |targets: &[Target], verb| {
            let acts = Target::acts(targets, verb, &"me".into());
            acts.map(|(question, acts)| {
                (question, acts.iter().map(|act| act.name.clone()).collect::<Vec<_>>().join(" "))
            })
        };
        let found = |question: &str, names: &str| Some((question.to_owned(), names.to_owned()));
        assert_eq!(
            asked(&[task("TASK_1480000000.000000_abcde", false)], Verb::Kill),
            found("kill task abcde", "TASK_1480000000.000000_abcde")
        );
        assert_eq!(
            asked(&[task("a", false), task("b", false)], Verb::Hold),
            found("hold 2 tasks, of which those that run go on", "a b")
        );
        let alike = Target::Alike(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(asked(std::slice::from_ref(&alike), Verb::Retry), found("retry 2 tasks", "a b"));
        assert_eq!(asked(&[alike], Verb::Kill), None);
        let job = |name: &str| Target::Job { name: name.to_owned(), open: 1_000, waiting: 0, failed: 1 };
        assert_eq!(asked(&[job("j")], Verb::Kill), found("kill 1,000 tasks of job j", "j"));
        assert_eq!(asked(&[job("j")], Verb::Retry), found("retry 1 task of job j", "j"));
        assert_eq!(asked(&[job("j")], Verb::Release), None);
        assert_eq!(asked(&[job("j"), job("k")], Verb::Kill), found("kill 2,000 tasks of 2 jobs", "j k"));
        let gate = Target::Gate { name: "g".to_owned(), is_closed: true };
        assert_eq!(asked(std::slice::from_ref(&gate), Verb::Pause), found("open gate g", "g"));
        assert_eq!(asked(&[gate], Verb::Kill), None);
        let service = |is_paused| asked(&[Target::Service { is_paused }], Verb::Pause).unwrap().0;
        assert_eq!([service(false), service(true)], ["pause the service", "resume the service"]);
        assert_eq!(asked(&[], Verb::Kill), None);
    }
}
