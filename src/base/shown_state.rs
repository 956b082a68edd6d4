//! The state of a task as one word for people, instead of a phase, an outcome and a hold.

use super::{Outcome, Phase, TaskRecord, TaskState, words};

/// The state of a task in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShownState {
    /// In the queue.
    Waiting,
    /// In the queue, and kept from starting by a client.
    Held,
    /// With an agent that has not started it yet.
    Starting,
    /// Its program runs.
    Running,
    /// Its program has ended, and its agent cleans up.
    Ending,
    /// It has finished with this outcome.
    Finished(Outcome),
}

impl ShownState {
    /// All states, in the order in which counts are shown.
    pub const ALL: [Self; 12] = [
        Self::Running,
        Self::Starting,
        Self::Ending,
        Self::Waiting,
        Self::Held,
        Self::Finished(Outcome::Succeeded),
        Self::Finished(Outcome::Failed),
        Self::Finished(Outcome::TimedOut),
        Self::Finished(Outcome::Expired),
        Self::Finished(Outcome::Killed),
        Self::Finished(Outcome::Lost),
        Self::Finished(Outcome::Skipped),
    ];

    /// The word, also on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Finished(Outcome::Succeeded) => "ok",
            Self::Finished(Outcome::Failed) => "failed",
            Self::Finished(Outcome::TimedOut) => "timed out",
            Self::Finished(Outcome::Expired) => "expired",
            Self::Finished(Outcome::Killed) => "killed",
            Self::Finished(Outcome::Lost) => "lost",
            Self::Finished(Outcome::Skipped) => "skipped",
        }
    }

    /// The state with this word, or that of the outcome with this word. A hyphen or an underscore counts as a blank.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let word = word.trim().to_ascii_lowercase().replace(['-', '_'], " ");
        if word.eq_ignore_ascii_case(words::outcome(Outcome::Succeeded)) {
            return Some(Self::Finished(Outcome::Succeeded));
        }
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    /// The state of a task in this phase, with this outcome if it has finished.
    #[must_use]
    pub const fn new(phase: Phase, outcome: Option<Outcome>, is_held: bool) -> Self {
        match (phase, outcome) {
            (Phase::Waiting, _) if is_held => Self::Held,
            (Phase::Waiting, _) => Self::Waiting,
            (Phase::Dispatched | Phase::Preparing, _) => Self::Starting,
            (Phase::Running, _) => Self::Running,
            (Phase::Finished, Some(outcome)) => Self::Finished(outcome),
            (Phase::Ended | Phase::Finished, _) => Self::Ending,
        }
    }

    /// The state of a task.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Self {
        let outcome = match record.state {
            TaskState::Finished { outcome, .. } => Some(outcome),
            _ => None,
        };
        Self::new(record.shown_phase(), outcome, record.held.is_some())
    }

    /// Whether its end counts as failed.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Finished(outcome) if outcome.counts_as_failed())
    }

    /// Whether the task has not finished.
    #[must_use]
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Finished(_))
    }
}

/// Numbers of tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts([usize; ShownState::ALL.len()]);

impl StateCounts {
    /// No task.
    pub const NONE: Self = Self([0; ShownState::ALL.len()]);

    fn at(state: ShownState) -> usize {
        ShownState::ALL.iter().position(|other| *other == state).unwrap_or_default()
    }

    /// One more task has this state.
    pub fn add(&mut self, state: ShownState) {
        self.set(state, self.of(state) + 1);
    }

    /// One task fewer has this state.
    pub fn remove(&mut self, state: ShownState) {
        self.set(state, self.of(state) - 1);
    }

    /// Sets the number of tasks in a state.
    pub fn set(&mut self, state: ShownState, count: usize) {
        self.0[Self::at(state)] = count;
    }

    /// The number of tasks in a state.
    #[must_use]
    pub fn of(&self, state: ShownState) -> usize {
        self.0[Self::at(state)]
    }

    /// The number of all tasks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// The number of tasks whose end counts as failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.by_state().filter(|(state, _)| state.is_failure()).map(|(_, count)| count).sum()
    }

    /// Each state with its number, in the order of [`ShownState::ALL`].
    pub fn by_state(&self) -> impl Iterator<Item = (ShownState, usize)> {
        ShownState::ALL.into_iter().zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_word_of_its_own_that_reads_back() {
        for state in ShownState::ALL {
            assert_eq!(ShownState::of_word(state.word()), Some(state));
        }
        assert_eq!(ShownState::of_word("TIMED_OUT"), Some(ShownState::Finished(Outcome::TimedOut)));
        assert_eq!(ShownState::of_word("timed-out"), ShownState::of_word("timed out"));
        assert_eq!(ShownState::of_word("succeeded"), ShownState::of_word("ok"));
        assert_eq!(ShownState::of_word("success"), None);
    }

    #[test]
    fn every_phase_and_outcome_has_one_of_the_states() {
        for outcome in Outcome::ALL {
            assert!(ShownState::ALL.contains(&ShownState::new(Phase::Finished, Some(outcome), false)));
        }
        let open = |phase| ShownState::new(phase, None, false).word();
        let words = ["waiting", "starting", "starting", "running", "ending", "ending"];
        assert_eq!(Phase::ALL.map(open), words);
        assert_eq!(ShownState::new(Phase::Waiting, None, true), ShownState::Held);
        assert_eq!(ShownState::new(Phase::Running, None, true), ShownState::Running, "a hold counts while it waits");
    }

    #[test]
    fn counts_follow_what_comes_and_goes() {
        let mut counts = StateCounts::default();
        counts.add(ShownState::Held);
        counts.add(ShownState::Finished(Outcome::Lost));
        counts.add(ShownState::Finished(Outcome::Killed));
        counts.add(ShownState::Finished(Outcome::Succeeded));
        assert_eq!((counts.total(), counts.failures(), counts.of(ShownState::Held)), (4, 1, 1));
        counts.remove(ShownState::Held);
        assert_eq!((counts.total(), counts.of(ShownState::Held)), (3, 0));
    }
}
