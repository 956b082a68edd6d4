//! Which programs may have been mended since they were fetched: those whose last run has failed. Their sources are asked before the
//! next run, but not before each run of a program that always fails.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

/// Between two looks at the source of one program.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Programs that are remembered. One more lets go of the first by name, which is then looked at no more than others.
const PROGRAMS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Doubts(BTreeMap<String, Doubt>);

#[derive(Debug, Default)]
struct Doubt {
    has_failed: bool,
    looked: Option<Mono>,
}

impl Doubts {
    /// How the last run of a program has ended.
    pub(super) fn note(&mut self, program: &str, has_failed: bool) {
        if let Some(doubt) = self.0.get_mut(program) {
            doubt.has_failed = has_failed;
        } else if has_failed {
            if self.0.len() >= PROGRAMS_MAX {
                self.0.pop_first();
            }
            self.0.insert(program.to_owned(), Doubt { has_failed, looked: None });
        }
    }

    /// Whether its source is to be asked now.
    pub(super) fn is_due(&mut self, now: Mono, program: &str) -> bool {
        let Some(doubt) = self.0.get_mut(program) else { return false };
        let is_due = doubt.has_failed && doubt.looked.is_none_or(|at| now.since(at) >= LOOK_INTERVAL);
        if is_due {
            *doubt = Doubt { has_failed: false, looked: Some(now) };
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_again_and_again_is_looked_at_from_time_to_time() {
        let (mut doubts, start) = (Doubts::default(), Mono::default());
        assert!(!doubts.is_due(start, "p"));
        doubts.note("p", true);
        assert!(doubts.is_due(start, "p"));
        assert!(!doubts.is_due(start, "p"), "it has just been looked at");
        doubts.note("p", true);
        assert!(!doubts.is_due(start + LOOK_INTERVAL / 2, "p"));
        assert!(doubts.is_due(start + LOOK_INTERVAL, "p"));
        doubts.note("p", true);
        doubts.note("p", false);
        assert!(!doubts.is_due(start + 3 * LOOK_INTERVAL, "p"), "it has run well");
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut doubts = Doubts::default();
        (0..2 * PROGRAMS_MAX).for_each(|number| doubts.note(&number.to_string(), true));
        assert_eq!(doubts.0.len(), PROGRAMS_MAX);
    }
}
