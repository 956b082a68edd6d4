//! Doing the same with many tasks: one after the other, whatever became of the others, and a summary.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, IsTerminal as _};

use serde_json::{Value, json};

use super::Session;
use super::exit::Failure;
use super::output::{ask, note};
use super::selection::{Chosen, State};
use crate::client::ClientError;

/// What became of one task.
enum Fate {
    Done,
    /// There was nothing to do, because.
    Needless(&'static str),
    Failed(Failure),
}

/// Does something with each task. `act` may say why there is nothing to do: "had finished".
///
/// # Errors
/// When the next one would fail just as this one did: the controller is silent.
pub(super) fn each(
    session: &mut Session,
    tasks: &[Chosen],
    done: &'static str,
    mut act: impl FnMut(&str, State) -> Result<Option<&'static str>, ClientError>,
) -> Result<u8, Failure> {
    let mut fates: Vec<(&str, Fate)> = Vec::new();
    for Chosen { id, state } in tasks {
        let fate = match state {
            Err(unknown) => Fate::Failed(unknown.clone()),
            Ok(state) => match act(id, *state) {
                Ok(None) => Fate::Done,
                Ok(Some(needless)) => Fate::Needless(needless),
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
            Fate::Needless(why) => json!({ "task": id, "result": why, "error": null }),
            Fate::Failed(failure) => json!({ "task": id, "result": "failed", "error": failure.sentence }),
        });
        return session.out.value(&Value::Array(values.collect()));
    }
    match fates {
        [(id, Fate::Done)] => session.out.line(format_args!("{done} {id}")),
        [(id, Fate::Needless(why))] => session.out.line(format_args!("{id} {why}")),
        // Its sentence is all there is to say.
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
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, fate) in fates {
        match fate {
            Fate::Done => {}
            Fate::Needless(why) => *others.entry(why).or_default() += 1,
            Fate::Failed(_) => *others.entry("failed").or_default() += 1,
        }
    }
    for (why, count) in others {
        text.push_str(&format!("; {count} {why}"));
    }
    text
}

/// A sentence about a task; it names the task once.
pub(super) fn about(id: &str, sentence: &str) -> String {
    if sentence.contains(id) { sentence.to_owned() } else { format!("{id}: {sentence}") }
}

/// Asks before something is done to every task there is. Where nobody can be asked, `yes` must have been said.
///
/// # Errors
/// When the answer is no, or there is nobody to ask.
pub(super) fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{question} Nobody can be asked here: say --yes, or select fewer")));
    }
    ask(&format!("{question} [y/N] "));
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
        let failed = || Fate::Failed(Failure::failed("no"));
        let fates = [("a", Fate::Done), ("b", Fate::Needless("had finished")), ("c", Fate::Done), ("d", failed())];
        assert_eq!(summary(&fates, 4, "killed"), "killed 2 of 4 tasks; 1 failed; 1 had finished");
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
