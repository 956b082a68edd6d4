//! Applies the same change to many tasks, each regardless of the others, and prints a summary.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::time::Duration;

use serde_json::{Value, json};

use super::selection::{Chosen, Selection, State};
use api::wire::client::{Ask, ReplyError};
use api::wire::requests::job::{Concerned, JobAnswer, query};
use base::{Mono, Phase, counted};
use llts_client::{Arrival, Client, ClientError, Pipeline};
use proc::clock;
use term::exit::Failure;
use term::output::{ask, note};
use term::session::Session;
use term::{exit, status_line};

/// The step of a command for one of its tasks.
pub(super) enum Step {
    /// Ask for the change.
    Ask(Ask<Option<String>>),
    /// There is nothing to do.
    Needless(Needless),
}

/// A change of tasks.
pub(super) struct Change<'a> {
    /// The word for it, as in `killed`.
    pub(super) done: &'static str,
    pub(super) step: &'a dyn Fn(&str, State) -> Step,
    /// Whether this refusal means that the task is already in the wanted state.
    pub(super) is_done: fn(&ReplyError) -> bool,
}

/// The sentences for tasks that needed nothing: for one task, and for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Needless {
    pub(super) one: &'static str,
    pub(super) many: &'static str,
}

/// The outcome for one task.
enum Fate {
    Done,
    Needless(Needless),
    Failed(Failure),
}

/// Maximum number of unanswered requests: the controller stores the changes of many in one commit.
const WINDOW: usize = 256;

/// A longer change shows its progress after this time, and then at this interval.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Applies the change to each task.
///
/// # Errors
/// When the controller does not answer, since the next task would fail as well.
pub(super) fn each(
    session: &mut Session,
    client: &Client,
    tasks: &[Chosen],
    change: &Change<'_>,
) -> Result<u8, Failure> {
    let mut fates: Vec<(&str, Option<Fate>)> = Vec::with_capacity(tasks.len());
    let mut asks = Vec::new();
    for (index, Chosen { id, state }) in tasks.iter().enumerate() {
        let step = state.as_ref().map(|state| (change.step)(id, *state));
        fates.push((
            id,
            match step {
                Err(unknown) => Some(Fate::failed(id, unknown.clone())),
                Ok(Step::Needless(why)) => Some(Fate::Needless(why)),
                Ok(Step::Ask(ask)) => {
                    asks.push((index, ask));
                    None
                }
            },
        ));
    }
    let mut warning = None;
    let answered = carry_out(session, client, asks, change.done, |index, answer| {
        let (id, fate) = &mut fates[index];
        *fate = Some(match answer {
            Err(error) if !(change.is_done)(&error) => Fate::failed(id, ClientError::from(error).into()),
            Err(_) => Fate::Done,
            Ok(said) => {
                // The warnings of the others are the same.
                if warning.is_none()
                    && let Some(said) = said
                {
                    note(&said);
                    warning = Some(said);
                }
                Fate::Done
            }
        });
    });
    let fates: Vec<(&str, Fate)> = fates.into_iter().filter_map(|(id, fate)| Some((id, fate?))).collect();
    if let Err(error) = answered {
        let failure = Failure::from(error);
        let before = summary(&fates, tasks.len(), change.done);
        return Err(Failure { sentence: format!("{before}; then: {}", failure.sentence), ..failure });
    }
    show(session, &fates, change.done);
    let exits = fates.iter().map(|(_, fate)| if let Fate::Failed(failure) = fate { failure.exit } else { 0 });
    Ok(exits.max().unwrap_or_default())
}

impl Fate {
    /// Prints the failure at once.
    fn failed(id: &str, failure: Failure) -> Self {
        note(&about(id, &failure.sentence));
        Self::Failed(failure)
    }
}

/// Sends the requests, many at a time, and hands over each answer with the index of its request.
fn carry_out(
    session: &Session,
    client: &Client,
    asks: Vec<(usize, Ask<Option<String>>)>,
    done: &str,
    mut answered: impl FnMut(usize, Result<Option<String>, ReplyError>),
) -> Result<(), ClientError> {
    if let [(index, ask)] = &asks[..] {
        return match client.ask(ask) {
            Err(ClientError::Reply(error)) => {
                answered(*index, Err(error));
                Ok(())
            }
            answer => answer.map(|warning| answered(*index, Ok(warning))),
        };
    }
    let mut pipeline = Pipeline::secured(&session.config, client.endpoint(), None)?;
    let (total, mut progress) = (asks.len(), Progress::begin());
    let mut asks = asks.into_iter();
    let mut unanswered = BTreeMap::new();
    let mut count = 0;
    loop {
        while unanswered.len() < WINDOW
            && let Some((index, ask)) = asks.next()
        {
            unanswered.insert(pipeline.send(&ask), (index, ask));
        }
        if unanswered.is_empty() {
            return Ok(());
        }
        for arrival in pipeline.wait(None, &[])?.1 {
            let Arrival::Answer(number, frame) = arrival else { continue };
            let Some((index, ask)) = unanswered.remove(&number) else { continue };
            answered(index, ask.decode(&frame));
            count += 1;
        }
        progress.show(format_args!("{done} {count} of {}", counted(total, "task")));
    }
}

/// Sends an order for all tasks of a job. The controller carries it out in parts, and reports the progress of the job meanwhile.
pub(super) fn order_job(
    session: &Session,
    client: &Client,
    job: &JobAnswer,
    order: &Ask<Concerned>,
) -> Result<Concerned, ClientError> {
    let mut pipeline = Pipeline::secured(&session.config, client.endpoint(), None)?;
    let (ordered, state) = (pipeline.send(order), query(job.name(), None));
    let (mut asked, mut progress) = (None, Progress::begin());
    loop {
        for arrival in pipeline.wait(Some(clock::now().mono + PROGRESS_INTERVAL), &[])?.1 {
            match arrival {
                Arrival::Answer(number, frame) if number == ordered => return Ok(order.decode(&frame)?),
                Arrival::Answer(_, frame) => {
                    asked = None;
                    let job = state.decode(&frame)?;
                    let [waiting, finished] = [Phase::Waiting, Phase::Finished].map(|phase| job.in_phase(phase));
                    let (name, total) = (job.name(), job.total());
                    progress.show(format_args!(
                        "job {name}: {waiting} of {} wait, {finished} have finished",
                        counted(total, "task")
                    ));
                }
                Arrival::Broadcast(_) => {}
            }
        }
        // Any answer shows that the controller is there, so this is asked even where no line is shown.
        asked = asked.or_else(|| Some(pipeline.send(&state)));
    }
}

/// A line on the terminal that is redrawn; none if stderr is not a terminal.
struct Progress {
    /// When the line is drawn next.
    at: Option<Mono>,
    is_shown: bool,
}

impl Progress {
    fn begin() -> Self {
        let at = io::stderr().is_terminal().then(|| clock::now().mono + PROGRESS_INTERVAL);
        Self { at, is_shown: false }
    }

    fn show(&mut self, line: std::fmt::Arguments<'_>) {
        let now = clock::now().mono;
        if self.at.is_some_and(|at| at <= now) {
            (self.at, self.is_shown) = (Some(now + PROGRESS_INTERVAL), true);
            status_line::show(&line.to_string());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            status_line::clear();
        }
    }
}

fn show(session: &mut Session, fates: &[(&str, Fate)], done: &str) {
    if session.out.is_json() {
        let values = fates.iter().map(|(id, fate)| match fate {
            Fate::Done => json!({ "task": id, "result": done, "error": null }),
            Fate::Needless(why) => json!({ "task": id, "result": why.one, "error": null }),
            Fate::Failed(failure) => json!({ "task": id, "result": "failed", "error": failure.sentence }),
        });
        return session.out.value(&Value::Array(values.collect()));
    }
    match fates {
        [(id, Fate::Done)] => session.out.line(format_args!("{done} {id}")),
        [(id, Fate::Needless(why))] => session.out.line(format_args!("{id} {}", why.one)),
        // The error says everything.
        [(_, Fate::Failed(_))] => {}
        _ => session.out.line(summary(fates, fates.len(), done)),
    }
}

/// `killed 3 of 4 tasks; 1 had finished`.
fn summary(fates: &[(&str, Fate)], total: usize, done: &str) -> String {
    let count = fates.iter().filter(|(_, fate)| matches!(fate, Fate::Done)).count();
    let mut text = match (count, total) {
        (1, 1) => format!("{done} 1 task"),
        (_, 0) => "there are no such tasks".to_owned(),
        _ if count == total => format!("{done} {}", counted(total, "task")),
        _ => format!("{done} {count} of {}", counted(total, "task")),
    };
    let mut others: BTreeMap<Needless, usize> = BTreeMap::new();
    for (_, fate) in fates {
        let why = match fate {
            Fate::Done => continue,
            Fate::Needless(why) => *why,
            Fate::Failed(failure) if failure.exit == exit::NO_SUCH_TASK => UNKNOWN,
            Fate::Failed(_) => REFUSED,
        };
        *others.entry(why).or_default() += 1;
    }
    for (why, count) in others {
        let words = if count == 1 { why.one } else { why.many };
        text.push_str(&format!("; {count} {words}"));
    }
    text
}

const UNKNOWN: Needless = Needless { one: "is not known", many: "are not known" };
const REFUSED: Needless = Needless { one: "was refused", many: "were refused" };

/// A sentence that names its task exactly once.
pub(super) fn about(id: &str, sentence: &str) -> String {
    if sentence.contains(id) { sentence.to_owned() } else { format!("{id}: {sentence}") }
}

/// Asks for confirmation of an irreversible change. Without a terminal, `yes` must be given.
///
/// # Errors
/// When the answer is no, or there is no terminal to ask on.
pub(super) fn confirm(what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "this would {what}; use --yes, because there is no terminal for the question"
        )));
    }
    answered(&format!("Really {what}?"))
}

/// As [`confirm`], before a change of all finished tasks; and on a terminal, before one of all failed tasks of all jobs.
///
/// # Errors
/// As [`confirm`].
pub(super) fn confirm_all(
    selection: &Selection,
    count: usize,
    what: impl Fn(&str) -> String,
    yes: bool,
) -> Result<(), Failure> {
    if count == 0 {
        Ok(())
    } else if selection.is_everything() {
        confirm(&what(&counted(count, "finished task")), yes)
    } else if selection.is_every_failed() {
        confirm(&what(&counted(count, "failed task")), yes || !io::stdin().is_terminal())
    } else {
        Ok(())
    }
}

/// Asks a question on the terminal.
///
/// # Errors
/// When the answer is no, or cannot be read.
pub(super) fn answered(question: &str) -> Result<(), Failure> {
    ask(&format!("{question} [y/N] "));
    if is_yes()? { Ok(()) } else { Err(Failure::failed("nothing was done")) }
}

/// Reads the answer to a question.
///
/// # Errors
/// When it cannot be read.
pub(super) fn is_yes() -> Result<bool, Failure> {
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_each_fate() {
        let failed = |exit| Fate::Failed(Failure::new(exit, "no"));
        let needless = || Fate::Needless(Needless { one: "was held", many: "were held" });
        let fates = [("a", Fate::Done), ("b", needless()), ("c", Fate::Done), ("d", failed(5)), ("e", needless())];
        assert_eq!(summary(&fates, 5, "killed"), "killed 2 of 5 tasks; 1 is not known; 2 were held");
        assert_eq!(summary(&[("a", failed(4))], 2, "killed"), "killed 0 of 2 tasks; 1 was refused");
        assert_eq!(summary(&fates[..1], 3, "held"), "held 1 of 3 tasks");
        assert_eq!(summary(&fates[..1], 1, "held"), "held 1 task");
        assert_eq!(summary(&[], 0, "held"), "there are no such tasks");
    }

    #[test]
    fn a_task_is_named_once() {
        assert_eq!(about("T", "no task T"), "no task T");
        assert_eq!(about("T", "it is gone"), "T: it is gone");
    }
}
