//! Conditions for a list of tasks that are more than equal fields.

use super::rounds::of_record;
use super::{task, what};
use base::{ShownState, TaskId, TaskRecord, TaskState, Wall};

/// Conditions for tasks. A task must meet all that are set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrowing {
    /// The allowed states; empty for any state.
    pub states: Vec<ShownState>,
    /// A text, in lower case, that the given id, the work, or the line about the last end of the task must contain.
    pub text: Option<String>,
    /// It ended at this moment or later, or has not ended.
    pub since: Option<Wall>,
    /// It ended before this moment, or has been running or waiting since before it.
    pub until: Option<Wall>,
    /// The random letters of its id.
    pub letters: Option<[u8; TaskId::SUFFIX_LEN]>,
    /// Whether its run must take, or have taken, longer than usual.
    pub runs_longer: bool,
    /// Whether the work and the end of commands are searched, too: a sender without the right to see them must not be able to
    /// guess them.
    pub sees_commands: bool,
}

impl Narrowing {
    /// Whether every task meets it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let Self { states, text, since, until, letters, runs_longer, sees_commands: _ } = self;
        let has_none = states.is_empty() && text.is_none() && since.is_none() && until.is_none();
        has_none && letters.is_none() && !*runs_longer
    }

    /// The bytes of a task that a check reads.
    #[must_use]
    pub fn searched_bytes(&self, record: &TaskRecord) -> usize {
        if self.text.is_some() { 2 * record.submitted.len() } else { 0 }
    }

    /// Whether a task meets all conditions but [`Self::runs_longer`], because a record does not contain the usual run time.
    #[must_use]
    pub fn admits(&self, record: &TaskRecord) -> bool {
        let state = ShownState::of(record);
        self.letters.is_none_or(|letters| record.id.letters() == letters)
            && (self.states.is_empty() || self.states.contains(&state))
            && self.is_of_its_time(record)
            && self.text.as_deref().is_none_or(|text| says(record, text, self.sees_commands))
    }

    fn is_of_its_time(&self, record: &TaskRecord) -> bool {
        let (ended, at) = match record.state {
            TaskState::Finished { at, .. } => (Some(at), at),
            _ => (None, record.last_run().and_then(|run| run.times.run).unwrap_or(record.submitted_at)),
        };
        self.since.zip(ended).is_none_or(|(since, at)| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

fn says(record: &TaskRecord, text: &str, sees_commands: bool) -> bool {
    let line = std::iter::once_with(|| of_record::newest(record)).flatten().map(|round| round.line.into_owned());
    let work = std::iter::once_with(|| what::of(record)).chain(line);
    finds(text, sees_commands || !task::has_command(record), task::given_id(record).unwrap_or_default(), work)
}

/// Whether a text is found in a task: in the id that it was given, and, if its command may be seen, in its work and its last line.
pub(super) fn finds(
    text: &str,
    sees_command: bool,
    given_id: &str,
    work: impl IntoIterator<Item = impl AsRef<str>>,
) -> bool {
    let has = |part: &str| part.to_lowercase().contains(text);
    has(given_id) || (sees_command && work.into_iter().any(|part| has(part.as_ref())))
}
