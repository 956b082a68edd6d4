//! One gate: the running tasks that have passed it, the recent starts, and whether one more may pass.
//!
//! Shared by the engines, like [`base::timers`]. Each engine keeps its own list of waiting tasks.

use std::collections::VecDeque;

use base::{GateSettings, GateVerdict, Mono, Now};

/// A gate with the tasks that have passed it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    settings: GateSettings,
    running: u32,
    /// The latest starts, oldest first; at most as many as the pace needs.
    starts: VecDeque<Mono>,
}

impl Gate {
    pub(crate) const fn settings(&self) -> &GateSettings {
        &self.settings
    }

    pub(crate) fn set(&mut self, settings: GateSettings) {
        self.settings = settings;
        self.trim();
    }

    pub(crate) const fn running(&self) -> u32 {
        self.running
    }

    /// Whether one more may start, and if that depends on time, when to ask again.
    pub(crate) fn verdict(&self, now: Now) -> (GateVerdict, Option<Mono>) {
        if let Some(until) = self.settings.closed_until.filter(|until| now.wall < *until) {
            return (GateVerdict::Closed(until), Some(now.mono + until.since(now.wall)));
        }
        if self.settings.running_max.is_some_and(|max| self.running >= max) {
            return (GateVerdict::Full, None);
        }
        if let Some(pace) = self.settings.pace
            && self.starts.len() >= pace.starts as usize
            && let Some(oldest) = self.starts.get(self.starts.len() - pace.starts as usize)
            && now.mono < *oldest + pace.interval
        {
            return (GateVerdict::Paced, Some(*oldest + pace.interval));
        }
        (GateVerdict::Open, None)
    }

    /// One task passes.
    pub(crate) fn start(&mut self, at: Mono) {
        self.running += 1;
        self.note_start(at);
    }

    /// Counts a restored run; its start time is recorded separately.
    pub(crate) fn resume(&mut self) {
        self.running += 1;
    }

    /// Records the start of a restored run. The order of the calls does not matter.
    pub(crate) fn note_start(&mut self, at: Mono) {
        let place = self.starts.partition_point(|start| *start <= at);
        self.starts.insert(place, at);
        self.trim();
    }

    /// A task that has passed has ended.
    pub(crate) fn end(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// Whether the gate has no state worth keeping.
    pub(crate) fn is_blank(&self) -> bool {
        self.running == 0 && self.settings == GateSettings::default()
    }

    fn trim(&mut self) {
        let needed = self.settings.pace.map_or(0, |pace| pace.starts as usize);
        let surplus = self.starts.len().saturating_sub(needed);
        self.starts.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use base::{Pace, Wall};

    fn at(seconds: u64) -> Now {
        Now { mono: Mono::from_nanos(seconds * 1_000_000_000), wall: Wall::from_micros(seconds * 1_000_000) }
    }

    #[test]
    fn a_gate_counts_those_that_run_and_those_that_started_lately() {
        let mut gate = Gate::default();
        gate.set(GateSettings {
            running_max: Some(2),
            pace: Some(Pace { starts: 3, interval: Duration::from_secs(10) }),
            closed_until: None,
        });
        gate.start(at(1).mono);
        gate.start(at(2).mono);
        assert_eq!(gate.verdict(at(2)).0, GateVerdict::Full);
        gate.end();
        gate.start(at(3).mono);
        gate.end();
        assert_eq!(gate.verdict(at(4)), (GateVerdict::Paced, Some(at(11).mono)));
        assert_eq!(gate.verdict(at(11)).0, GateVerdict::Open);
        gate.start(at(11).mono);
        gate.end();
        assert_eq!(gate.verdict(at(11)), (GateVerdict::Paced, Some(at(12).mono)));
    }

    #[test]
    fn a_closed_gate_opens_by_the_wall_clock() {
        let mut gate = Gate::default();
        gate.set(GateSettings { closed_until: Some(at(5).wall), ..GateSettings::default() });
        assert_eq!(gate.verdict(at(4)), (GateVerdict::Closed(at(5).wall), Some(at(5).mono)));
        assert_eq!(gate.verdict(at(5)).0, GateVerdict::Open);
    }
}
