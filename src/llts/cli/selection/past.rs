//! Finds the selected tasks in the history, which has fewer fields.

use super::{Selection, Which};
use api::wire::requests::history::RoundFilter;
use base::{Outcome, RoundOutcome, ShownState, Wall};
use term::exit::Failure;

impl Selection {
    /// A filter for the finished rounds of a period, for programs.
    pub(in crate::cli) fn rounds(
        &self,
        since: Wall,
        until: Wall,
        states: &[ShownState],
    ) -> Result<RoundFilter, Failure> {
        let mut filter = RoundFilter::between(since, until);
        match self.tasks.as_slice() {
            [] | [Which::All] => {}
            [Which::Id(id)] => {
                filter.task = Some(id.parse().map_err(|_| Failure::usage(format!("{id:?} is not the id of a task")))?);
            }
            _ => return Err(Failure::usage("the history is listed by time: name one task, or none".to_owned())),
        }
        if !self.filter.is_empty() || !self.status.is_empty() {
            let why = "with --output json, --where and --status are not for the history, whose rounds have ended and have no parameters";
            return Err(Failure::usage(why));
        }
        if !self.narrow(&mut filter, states) {
            let why = "no round can match: those that have ended are listed, and --state, --failed and --outcome leave none of them";
            return Err(Failure::usage(why));
        }
        Ok(filter)
    }

    /// A filter for a table of tasks; `None` if the history can have no matching task.
    pub(in crate::cli) fn past(&self, since: Wall, until: Wall, states: &[ShownState]) -> Option<RoundFilter> {
        let is_of_all = matches!(self.tasks.as_slice(), [] | [Which::All]);
        if !is_of_all || !self.filter.is_empty() || !self.status.is_empty() {
            return None;
        }
        let mut filter = RoundFilter::between(since, until);
        self.narrow(&mut filter, states).then_some(filter)
    }

    /// Returns false if no round can match.
    fn narrow(&self, filter: &mut RoundFilter, states: &[ShownState]) -> bool {
        let is_of_states = |outcome: &Outcome| states.is_empty() || states.contains(&ShownState::Finished(*outcome));
        let all = if self.outcomes().is_empty() { &Outcome::ALL } else { self.outcomes() };
        let wanted: Vec<Outcome> = all.iter().copied().filter(is_of_states).collect();
        let is_any = wanted.len() == Outcome::ALL.len();
        filter.outcomes = wanted.iter().filter(|_| !is_any).copied().map(RoundOutcome::Ended).collect();
        (filter.job, filter.given_id) = (self.job.clone(), self.given_id.clone());
        !wanted.is_empty()
    }
}
