//! The ids of tasks on a command line: whole ids, or the letters at their end. Only here does a text become an id.

use api::wire::Narrowing;
use api::wire::client::Selector;
use api::wire::requests::history;
use api::wire::requests::history::{RoundFilter, SortKey};
use api::wire::requests::rows::{RowView, Rows, RowsAsk, rows};
use api::wire::requests::submit::Submission;
use base::code::shown;
use base::{Prior, TaskId, Wall};
use llts_client::{Client, ClientError};
use term::connect::READING_MAX;
use term::exit::Failure;
use term::{exit, times};

/// Candidates that an error names.
const NAMED_MAX: u64 = 10;

/// The letters of a short id, if the text has the form of one.
pub(in crate::cli) fn letters(text: &str) -> Option<[u8; TaskId::SUFFIX_LEN]> {
    let letters: [u8; TaskId::SUFFIX_LEN] = text.as_bytes().try_into().ok()?;
    letters.iter().all(u8::is_ascii_alphabetic).then_some(letters)
}

/// The short form of an id, for people.
pub(in crate::cli) fn short(id: &str) -> &str {
    id.parse::<TaskId>().ok().and_then(|_| id.rsplit_once('_')).map_or(id, |(_, letters)| letters)
}

/// The whole id for this text.
///
/// # Errors
/// When the text is no id, or its letters fit no task or several tasks.
pub(in crate::cli) fn whole(client: &Client, text: &str) -> Result<String, Failure> {
    if text.parse::<TaskId>().is_ok() {
        return Ok(text.to_owned());
    }
    let Some(letters) = letters(text) else {
        let sentence = format!(
            "{} names no task: give an id such as TASK_1480000000.120000_AZazA, the {} letters at its end, or last, last:5 or all",
            shown(text),
            TaskId::SUFFIX_LEN
        );
        return Err(Failure::new(exit::NO_SUCH_TASK, sentence));
    };
    let narrowing = Narrowing { letters: Some(letters), ..Narrowing::default() };
    let wanted = RowsAsk { narrowing, ..RowsAsk::default() };
    let found = client.ask(&rows(&Selector::all(), &wanted, 0, NAMED_MAX))?;
    if found.rows.is_empty()
        && let Some(id) = forgotten(client, letters)?
    {
        return Ok(id);
    }
    chosen(text, &found)
}

/// The newest task with these letters that only the history has.
fn forgotten(client: &Client, letters: [u8; TaskId::SUFFIX_LEN]) -> Result<Option<String>, ClientError> {
    let filter =
        RoundFilter { letters: Some(letters), ..RoundFilter::between(Wall::default(), Wall::from_micros(u64::MAX)) };
    match client.ask_patiently(&history::rounds(&filter, SortKey::Submitted, false, 0, 1), READING_MAX) {
        Ok(found) => Ok(found.listing.rows.first().map(|round| round.task().to_owned())),
        Err(ClientError::Reply(reply)) if reply.is_not_allowed() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces short ids in a submission, in its parent and in the tasks that it waits for.
///
/// # Errors
/// The same as for [`whole`].
pub(in crate::cli) fn with_whole(client: &Client, submission: Submission) -> Result<Submission, Failure> {
    let whole_term = |term: String| match term.rsplit_once(':') {
        None if letters(&term).is_some() => whole(client, &term),
        Some((prefix, id)) if letters(id).is_some() && !prefix.ends_with(Prior::JOB.trim_end_matches(':')) => {
            Ok(format!("{prefix}:{}", whole(client, id)?))
        }
        _ => Ok(term),
    };
    let parent = match submission.parent {
        Some(id) if letters(&id).is_some() => Some(whole(client, &id)?),
        other => other,
    };
    let after = submission.after.into_iter().map(whole_term).collect::<Result<_, _>>()?;
    Ok(Submission { parent, after, ..submission })
}

fn chosen(text: &str, found: &Rows) -> Result<String, Failure> {
    match found.rows.as_slice() {
        [] => Err(Failure::new(exit::NO_SUCH_TASK, format!("no task has the short id {text}"))),
        [task] => Ok(task.id().to_owned()),
        several => {
            let named: Vec<_> = several.iter().map(|task| candidate(task, found)).collect();
            let named = named.join("; ");
            let sentence = format!("{} tasks have the short id {text}, so give the whole id: {named}", found.total);
            Err(Failure::new(exit::NO_SUCH_TASK, sentence))
        }
    }
}

fn candidate(task: &RowView, found: &Rows) -> String {
    let submitted = task.submitted_at().map(|at| times::ago(found.now, at)).unwrap_or_default();
    format!("{} ({}, submitted {submitted}: {})", task.id(), task.state().word(), task.what())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Fields, StateCounts, words};

    fn found(ids: &[&str]) -> Rows {
        let row = |id: &&str| {
            let fields =
                Fields::new().with(words::TASK_ID, *id).with(words::STATUS, "RUNNING").with(words::WHAT, "true");
            fields.with(words::SUBMIT_TIME, 1_480_000_000.0).into()
        };
        let rows: Vec<_> = ids.iter().map(row).collect();
        Rows {
            total: ids.len() as u64,
            states: StateCounts::default(),
            now: Wall::from_micros(1_480_000_060_000_000),
            rows,
        }
    }

    const ONE: &str = "TASK_1480000000.120000_AZazA";
    const OTHER: &str = "TASK_1480000001.120000_AZazA";

    #[test]
    fn the_letters_at_the_end_of_an_id_stand_for_it() {
        assert_eq!((short(ONE), short("x_y")), ("AZazA", "x_y"));
        assert_eq!(letters("AZazA"), Some(*b"AZazA"));
        for text in ["", "AZaz", "AZazAA", "AZaz1", "last:", "é12"] {
            assert_eq!(letters(text), None, "{text}");
        }
        assert_eq!(chosen("AZazA", &found(&[ONE])), Ok(ONE.to_owned()));
        assert_eq!(chosen("AZazA", &found(&[])).unwrap_err().exit, 5);
    }

    #[test]
    fn several_tasks_with_the_same_letters_are_named() {
        let failure = chosen("AZazA", &found(&[ONE, OTHER])).unwrap_err();
        let told = format!(
            "2 tasks have the short id AZazA, so give the whole id: {ONE} (running, submitted 60 s ago: true); \
             {OTHER} (running, submitted 60 s ago: true)"
        );
        assert_eq!((failure.sentence, failure.exit), (told, 5));
    }
}
