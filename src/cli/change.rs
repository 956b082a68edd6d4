//! Applies the same change to many tasks: one after the other, whatever the outcome of the others, with a summary.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};

use serde_json::{Value, json};

use super::Session;
use super::exit::{self, Failure};
use super::output::{ask, note};
use super::selection::{Chosen, State};
use crate::client::ClientError;

/// The outcome of the change of a task.
pub(super) enum Act {
    Done,
    Needless(Needless),
}

/// The sentence if there was nothing to do: for one task, and for several.
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

/// Applies the change to each task.
///
/// # Errors
/// When the controller does not answer, since the next task would fail as well.
pub(super) fn each(
    session: &mut Session,
    tasks: &[Chosen],
    done: &'static str,
    mut act: impl FnMut(&str, State) -> Result<Act, ClientError>,
) -> Result<u8, Failure> {
    let mut fates: Vec<(&str, Fate)> = Vec::new();
    for Chosen { id, state } in tasks {
        let fate = match state {
            Err(unknown) => Fate::Failed(unknown.clone()),
            Ok(state) => match act(id, *state) {
                Ok(Act::Done) => Fate::Done,
                Ok(Act::Needless(why)) => Fate::Needless(why),
                Err(error @ ClientError::Reply(_)) => Fate::Failed(error.into()),
                Err(error) => {
                    let failure = Failure::from(error);
                    let before = summary(&fates, tasks.len(), done);
                    return Err(Failure { sentence: format!("{before}; then: {}", failure.sentence), ..failure });
                }
            },
        };
        if let Fate::Failed(Failure { sentence, .. }) = &fate {
            note(&about(id, sentence));
        }
        fates.push((id, fate));
    }
    show(session, &fates, done);
    let exits = fates.iter().map(|(_, fate)| if let Fate::Failed(failure) = fate { failure.exit } else { 0 });
    Ok(exits.max().unwrap_or_default())
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
        // The error is the whole message.
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
        _ if count == total => format!("{done} {total} tasks"),
        _ => format!("{done} {count} of {total} tasks"),
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

/// A sentence about a task that names the task once.
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
    ask(&format!("Really {what}? [y/N] "));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::failed)?;
    if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        return Ok(());
    }
    Err(Failure::failed("nothing was done"))
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
