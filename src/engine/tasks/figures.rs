//! The figures of all tasks for people: how many are in each state, how long the runs of a tool take, how many have finished within
//! the last minute, and which failed last. Each change of a task costs O(log n) here.
//!
//! All but the last minute follows from the records, so that a restart counts them again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use api::wire::requests::status::{PACE_STEP, PaceStep};
use base::{Distribution, Mono, Now, Outcome, ShownState, StateCounts, TaskId, TaskRecord, TaskState, ToolName, Wall};

/// Minimum number of runs whose times tell how long the next ones take.
const RUNS_MIN: u64 = 8;

/// The usual run time is one that this percentage of the runs does not exceed.
const USUAL_PERCENT: u64 = 90;

/// Maximum number of tools whose run times are kept: about a kilobyte each.
const TOOLS_MAX: usize = 1_000;

/// Maximum number of known failures, the last ones.
const FAILED_MAX: usize = 100;

/// The time that most of the runs did not exceed, if there were enough of them.
pub(crate) fn usual(times: &Distribution) -> Option<Duration> {
    (times.runs() >= RUNS_MIN).then(|| times.quantile(USUAL_PERCENT))
}

/// The state of a task, as far as the figures count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    state: ShownState,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    at: Wall,
    outcome: Outcome,
    ran: Option<Duration>,
}

impl Figure {
    pub(crate) fn of(record: &TaskRecord) -> Self {
        let end = match &record.state {
            TaskState::Finished { at, outcome, run } => {
                let times = run.as_ref().map(|(run, _)| run.times);
                let ran = times.and_then(|times| Some(times.end?.since(times.run?)));
                Some(End { at: *at, outcome: *outcome, ran })
            }
            _ => None,
        };
        Self { state: ShownState::of(record), end }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    states: StateCounts,
    /// The run times of the finished tasks of each tool that is an archive.
    tools: BTreeMap<ToolName, Distribution>,
    /// The last failures and skipped tasks, by their ends: both are work that was not done.
    failed: BTreeSet<(Wall, TaskId)>,
    recent: Recent,
    /// The number of changes up to now.
    changes: u64,
}

impl Figures {
    /// A task is known from here on.
    pub(crate) fn add(&mut self, record: &TaskRecord) {
        let Figure { state, end } = Figure::of(record);
        self.changes += 1;
        self.states.add(state);
        let Some(End { at, outcome, ran }) = end else { return };
        if outcome.counts_as_failed() || outcome == Outcome::Skipped {
            self.failed.insert((at, record.id));
            if self.failed.len() > FAILED_MAX {
                self.failed.pop_first();
            }
        }
        if let Some(ran) = ran.filter(|_| record.tool.is_archive()) {
            if let Some(times) = self.tools.get_mut(&record.tool) {
                times.add(ran);
            } else if self.tools.len() < TOOLS_MAX {
                self.tools.entry(record.tool.clone()).or_default().add(ran);
            }
        }
    }

    /// A task with this figure is not known any more, or gets another figure.
    pub(crate) fn remove(&mut self, record: &TaskRecord, Figure { state, end }: Figure) {
        self.changes += 1;
        self.states.remove(state);
        let Some(End { at, ran, .. }) = end else { return };
        self.failed.remove(&(at, record.id));
        if let Some(ran) = ran
            && let Some(times) = self.tools.get_mut(&record.tool)
        {
            times.remove(ran);
            if times.runs() == 0 {
                self.tools.remove(&record.tool);
            }
        }
    }

    /// A task has changed; `before` is its figure before that.
    pub(crate) fn moved(&mut self, now: Now, record: &TaskRecord, before: Figure) {
        self.remove(record, before);
        self.add(record);
        if let (None, Some(end)) = (before.end, Figure::of(record).end) {
            self.recent.add(now.mono, end.ran);
        }
    }

    /// A number that grows with each change of a task.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// The ends of the last minutes in steps, the oldest first; empty if there are none.
    pub(crate) fn pace(&self, now: Mono) -> Vec<PaceStep> {
        self.recent.pace(now)
    }

    pub(crate) const fn states(&self) -> StateCounts {
        self.states
    }

    /// The time that most runs of this tool did not exceed, if there were enough of them.
    pub(crate) fn usual(&self, tool: &ToolName) -> Option<Duration> {
        self.tools.get(tool).and_then(usual)
    }

    /// The last failures and skipped tasks, newest first.
    pub(crate) fn last_failed(&self) -> impl Iterator<Item = TaskId> {
        self.failed.iter().rev().map(|(_, task)| *task)
    }

    /// Tasks that have finished per second within the last minute, and the median of their run times.
    pub(crate) fn recent(&self, now: Mono) -> (f64, Option<Duration>) {
        self.recent.figures(now)
    }

    pub(crate) fn sanity_check<'a>(&self, records: impl Iterator<Item = &'a TaskRecord>) {
        let mut counted = Self::default();
        for record in records {
            counted.add(record);
        }
        assert_eq!(self.states, counted.states, "the numbers of tasks by their states");
        if counted.tools.len() < TOOLS_MAX {
            assert_eq!(self.tools, counted.tools, "the run times of the tools");
        }
        assert!(self.failed.is_subset(&counted.failed) || counted.failed.len() == FAILED_MAX, "the last failures");
    }
}

/// Seconds in which ends are counted together.
const SLOT: u64 = PACE_STEP;

/// The slots that are kept: five minutes.
const SLOTS: u64 = 60;

/// Seconds that count as recent.
const RECENT: u64 = 60;

/// The ends of the last minutes.
#[derive(Debug, Default)]
struct Recent(VecDeque<Slot>);

#[derive(Debug)]
struct Slot {
    number: u64,
    ends: u32,
    ran: Distribution,
}

fn slot(at: Mono) -> u64 {
    at.since(Mono::default()).as_secs() / SLOT
}

impl Recent {
    fn add(&mut self, now: Mono, ran: Option<Duration>) {
        let number = slot(now);
        if self.0.back().is_none_or(|last| last.number != number) {
            self.0.retain(|old| old.number + SLOTS > number);
            self.0.push_back(Slot { number, ends: 0, ran: Distribution::default() });
        }
        if let Some(last) = self.0.back_mut() {
            last.ends += 1;
            ran.into_iter().for_each(|ran| last.ran.add(ran));
        }
    }

    fn pace(&self, now: Mono) -> Vec<PaceStep> {
        let present = slot(now);
        let mut steps = vec![PaceStep::default(); SLOTS as usize];
        let mut is_empty = true;
        for slot in self.0.iter().filter(|slot| slot.number + SLOTS > present) {
            let run_p50 = (slot.ran.runs() > 0).then(|| slot.ran.quantile(50));
            let place = usize::try_from(present - slot.number).unwrap_or(usize::MAX);
            if let Some(step) = steps.iter_mut().rev().nth(place) {
                *step = PaceStep { ends: slot.ends, run_p50 };
                is_empty = false;
            }
        }
        if is_empty { Vec::new() } else { steps }
    }

    fn figures(&self, now: Mono) -> (f64, Option<Duration>) {
        let is_recent = |slot_of: &&Slot| slot_of.number + RECENT / SLOT > slot(now);
        let (mut ends, mut ran, mut first) = (0, Distribution::default(), None);
        for slot in self.0.iter().filter(is_recent) {
            first.get_or_insert(slot.number);
            ends += slot.ends;
            ran.extend(&slot.ran);
        }
        let Some(first) = first else { return (0.0, None) };
        let took = now.since(Mono::default()).as_secs_f64() - Duration::from_secs(first * SLOT).as_secs_f64();
        (f64::from(ends) / took.max(1.0), (ran.runs() > 0).then(|| ran.quantile(50)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_minute() {
        let at = |seconds: u64| Mono::default() + Duration::from_secs(seconds);
        let mut recent = Recent::default();
        assert_eq!(recent.figures(at(100)), (0.0, None));
        for second in 100..110 {
            recent.add(at(second), Some(Duration::from_millis(100)));
            recent.add(at(second), None);
        }
        let (rate, p50) = recent.figures(at(110));
        assert!(
            (rate - 2.0).abs() < 0.01 && p50.unwrap().abs_diff(Duration::from_millis(100)) < Duration::from_millis(6)
        );
        assert!(recent.figures(at(140)).0 < 0.6, "the ends are long ago");
        assert_eq!(recent.figures(at(200)), (0.0, None));
        recent.add(at(500), None);
        assert_eq!(recent.0.len(), 1, "old ones are forgotten");
    }

    #[test]
    fn the_pace_has_a_step_for_each_time() {
        let at = |seconds: u64| Mono::default() + Duration::from_secs(seconds);
        let mut recent = Recent::default();
        assert!(recent.pace(at(1_000)).is_empty());
        recent.add(at(1_000), Some(Duration::from_secs(1)));
        recent.add(at(1_010), None);
        recent.add(at(1_011), None);
        let ends: Vec<_> = recent.pace(at(1_016)).iter().map(|step| step.ends).collect();
        assert_eq!((ends.len(), &ends[56..]), (60, &[1, 0, 2, 0][..]));
        assert!(recent.pace(at(1_016))[56].run_p50.is_some());
        assert!(recent.pace(at(1_400)).is_empty());
    }
}
