//! The live view of `llts graph run`: one line for the graph, and one for each active step.

use std::collections::BTreeMap;
use std::time::Duration;

use api::wire::graph::state;
use api::wire::requests::graph::GraphAnswer;
use api::wire::requests::job::JobAnswer;
use base::{Mono, Phase, StepState};
use term::times;

/// The time between two drawings.
const PAUSE: Duration = Duration::from_millis(100);

/// Characters of the bar.
const WIDTH: usize = 15;

/// Maximum number of lines for steps; a small terminal has fewer.
const STEPS_MAX: usize = 20;

/// See the [module](self).
pub(super) struct View {
    title: String,
    began: Mono,
    rests_until: Mono,
    /// The last known state of each step, and since when.
    steps: BTreeMap<String, (StepState, Mono)>,
    total: u64,
    job: Option<JobAnswer>,
}

impl View {
    pub(super) fn new(now: Mono, title: String) -> Self {
        Self { title, began: now, rests_until: now + PAUSE, steps: BTreeMap::new(), total: 0, job: None }
    }

    /// Notes the state of a step, unless a later one is known already.
    pub(super) fn handle_step(&mut self, now: Mono, name: &str, word: &str) {
        let Some(reached) = StepState::ALL.into_iter().find(|one| state(*one) == word) else { return };
        if self.steps.get(name).is_none_or(|(known, _)| *known < reached) {
            self.steps.insert(name.to_owned(), (reached, now));
        }
    }

    /// Notes the number of steps. Returns whether it was unknown.
    pub(super) fn handle_graph(&mut self, graph: &GraphAnswer) -> bool {
        let was_unknown = self.total == 0;
        self.total = graph.total();
        was_unknown
    }

    pub(super) fn handle_job(&mut self, job: JobAnswer) {
        self.job = Some(job);
    }

    /// When the view is drawn next.
    pub(super) const fn poll_timeout(&self) -> Mono {
        self.rests_until
    }

    /// The block to be drawn, unless another one was drawn a moment ago.
    pub(super) fn draw(&mut self, now: Mono) -> Option<String> {
        if now < self.rests_until {
            return None;
        }
        self.rests_until = now + PAUSE;
        Some(self.block(now))
    }

    fn block(&self, now: Mono) -> String {
        let ended = self.steps.values().filter(|(state, _)| *state >= StepState::Completed).count();
        let total = usize::try_from(self.total).unwrap_or(usize::MAX);
        let filled = (ended * WIDTH).checked_div(total).unwrap_or_default().min(WIDTH);
        let bar = "#".repeat(filled) + &"-".repeat(WIDTH - filled);
        let tasks = self.job.as_ref().map(|job| {
            let (done, all) = (job.in_phase(Phase::Finished), job.total());
            format!("  tasks {done}/{all}  running {}", super::super::job::with_agents(job))
        });
        let (title, took) = (&self.title, times::duration(now.since(self.began)));
        let mut block = format!("{title}  [{bar}]  steps {ended}/{total}{}  {took}\n", tasks.unwrap_or_default());
        let is_at_work =
            |state: StepState| matches!(state, StepState::Preparing | StepState::Running | StepState::Completing);
        let mut at_work: Vec<_> = self.steps.iter().filter(|(_, (state, _))| is_at_work(*state)).collect();
        at_work.sort_by_key(|(_, (_, since))| *since);
        let more = at_work.len().saturating_sub(STEPS_MAX);
        for (name, (reached, since)) in at_work.into_iter().take(STEPS_MAX) {
            block.push_str(&format!("  {name}  {}  {}\n", state(*reached), times::duration(now.since(*since))));
        }
        if more > 0 {
            block.push_str(&format!("  and {more} more\n"));
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Fields, words};

    #[test]
    fn steps_at_work_are_shown_and_states_never_go_back() {
        let at = |millis: u64| Mono::from_nanos(millis * 1_000_000);
        let mut view = View::new(at(0), "g".to_owned());
        assert!(view.handle_graph(&Fields::new().with(words::TOTAL, 3u32).into()));
        for (millis, step, word) in [
            (10, "a", "RUNNING"),
            (20, "b", "PREPARING"),
            (30, "a", "COMPLETED"),
            // The listing of all steps may be older than a broadcast.
            (40, "a", "ACTIVATED"),
            (50, "c", "ACTIVATED"),
        ] {
            view.handle_step(at(millis), step, word);
        }
        view.handle_job(Fields::new().with(words::TOTAL, 4u32).with("FINISHED", 1u32).with("RUNNING", 2u32).into());
        assert_eq!(view.draw(at(99)), None);
        let block = "g  [#####----------]  steps 1/3  tasks 1/4  running 2  220 ms\n  b  PREPARING  200 ms\n";
        assert_eq!(view.draw(at(220)).as_deref(), Some(block));
        assert_eq!((view.draw(at(250)), view.poll_timeout()), (None, at(320)));
    }
}
