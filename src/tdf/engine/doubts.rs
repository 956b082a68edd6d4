//! Programs whose last run has failed, and which may have been mended at their sources. The source is asked before the next run, but
//! not before each run of a program that always fails.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Mono;

/// Time between two questions to the source of one program.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Programs that are remembered. One more displaces the first by name, whose source is then not asked.
const PROGRAMS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Doubts(BTreeMap<String, Doubt>);

#[derive(Debug, Default)]
struct Doubt {
    has_failed: bool,
    asked: Option<Mono>,
}

impl Doubts {
    /// A run of a program has ended.
    pub(super) fn handle_end(&mut self, program: &str, has_failed: bool) {
        if let Some(doubt) = self.0.get_mut(program) {
            doubt.has_failed = has_failed;
        } else if has_failed {
            if self.0.len() >= PROGRAMS_MAX {
                self.0.pop_first();
            }
            self.0.insert(program.to_owned(), Doubt { has_failed, asked: None });
        }
    }

    /// Whether the source of a program is to be asked at this moment.
    pub(super) fn is_due(&mut self, now: Mono, program: &str) -> bool {
        let Some(doubt) = self.0.get_mut(program) else { return false };
        let is_due = doubt.has_failed && doubt.asked.is_none_or(|at| now.since(at) >= LOOK_INTERVAL);
        if is_due {
            *doubt = Doubt { has_failed: false, asked: Some(now) };
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
        doubts.handle_end("p", true);
        assert!(doubts.is_due(start, "p"));
        assert!(!doubts.is_due(start, "p"), "it has just been looked at");
        doubts.handle_end("p", true);
        assert!(!doubts.is_due(start + LOOK_INTERVAL / 2, "p"));
        assert!(doubts.is_due(start + LOOK_INTERVAL, "p"));
        doubts.handle_end("p", true);
        doubts.handle_end("p", false);
        assert!(!doubts.is_due(start + 3 * LOOK_INTERVAL, "p"), "it has run well");
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut doubts = Doubts::default();
        (0..2 * PROGRAMS_MAX).for_each(|number| doubts.handle_end(&number.to_string(), true));
        assert_eq!(doubts.0.len(), PROGRAMS_MAX);
    }
}
