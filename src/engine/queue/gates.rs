//! The gates by name, and the lines of the queue that each gate may hold up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gate::Gate;
use crate::LOOK_INTERVAL;
use base::timers::Timers;
use base::{GateSettings, GateVerdict, GateView, Label, Mono, Now, Requirements, Wall};

#[derive(Debug, Default)]
struct Entry {
    gate: Gate,
    lines: BTreeSet<Arc<Requirements>>,
}

/// All gates that are set, named by a task, or have been passed.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: BTreeMap<Label, Entry>,
    /// When to check each gate again.
    due: Timers<Label>,
    /// Until when the gate that every task passes is closed.
    service_closed_until: Option<Wall>,
}

impl Gates {
    /// Sets a gate.
    pub(crate) fn set(&mut self, name: &Label, settings: GateSettings) {
        if name.is_of_service() {
            self.service_closed_until = settings.closed_until;
        }
        self.gates.entry(name.clone()).or_default().gate.set(settings);
        self.drop_if_blank(name);
    }

    pub(crate) fn settings(&self, name: &Label) -> GateSettings {
        self.gates.get(name).map(|entry| entry.gate.settings().clone()).unwrap_or_default()
    }

    /// Whether no gate of these requirements has any limit.
    pub(crate) fn are_unlimited(&self, needs: &Requirements) -> bool {
        let limited =
            |name| self.gates.get(name).is_some_and(|entry| *entry.gate.settings() != GateSettings::default());
        !needs.gates.iter().any(limited)
    }

    /// Number of known gates.
    pub(crate) fn len(&self) -> usize {
        self.gates.len()
    }

    pub(crate) fn is_known(&self, name: &Label) -> bool {
        self.gates.contains_key(name)
    }

    /// Adds a line whose tasks must pass these gates.
    pub(crate) fn enter(&mut self, now: Now, needs: &Arc<Requirements>) {
        for name in needs.gates.iter() {
            let entry = self.gates.entry(name.clone()).or_default();
            entry.lines.insert(Arc::clone(needs));
            // The gate was not checked while no line waited for it. A deadline that is already set must not be lost,
            // because other lines wait for it.
            if !self.due.is_set(name) {
                self.review(now, name);
            }
        }
    }

    /// Removes a line.
    pub(crate) fn leave(&mut self, needs: &Arc<Requirements>) {
        for name in needs.gates.iter() {
            if let Some(entry) = self.gates.get_mut(name) {
                entry.lines.remove(needs);
            }
            self.drop_if_blank(name);
        }
    }

    fn drop_if_blank(&mut self, name: &Label) {
        if self.gates.get(name).is_some_and(|entry| entry.lines.is_empty() && entry.gate.is_blank()) {
            self.due.clear(name);
            self.gates.remove(name);
        }
    }

    /// The lines that must pass a gate.
    pub(crate) fn lines(&self, name: &Label) -> impl Iterator<Item = Arc<Requirements>> {
        self.gates.get(name).into_iter().flat_map(|entry| entry.lines.iter().cloned())
    }

    pub(crate) fn start(&mut self, at: Mono, needs: &Requirements) {
        for name in needs.gates.iter() {
            self.gates.entry(name.clone()).or_default().gate.start(at);
        }
    }

    /// Counts a restored run.
    pub(crate) fn resume(&mut self, needs: &Requirements) {
        for name in needs.gates.iter() {
            self.gates.entry(name.clone()).or_default().gate.resume();
        }
    }

    pub(crate) fn end(&mut self, needs: &Requirements) {
        for name in needs.gates.iter() {
            if let Some(entry) = self.gates.get_mut(name) {
                entry.gate.end();
            }
            self.drop_if_blank(name);
        }
    }

    /// Counts the start of a restored run.
    pub(crate) fn note_start(&mut self, at: Mono, needs: &Requirements) {
        for name in needs.gates.iter() {
            if let Some(entry) = self.gates.get_mut(name) {
                entry.gate.note_start(at);
            }
        }
    }

    /// Whether every gate of these requirements lets one more task pass.
    pub(crate) fn admit(&self, now: Now, needs: &Requirements) -> bool {
        (needs.gates.is_empty() && self.service_closed_until.is_none()) || self.obstacle(now, needs).is_none()
    }

    /// The first gate that lets no task pass.
    pub(crate) fn obstacle(&self, now: Now, needs: &Requirements) -> Option<(Label, GateVerdict)> {
        if let Some(until) = self.service_closed_until {
            return Some((Label::of_service(), GateVerdict::Closed(until)));
        }
        needs.gates.iter().find_map(|name| {
            let gate = &self.gates.get(name)?.gate;
            // A closed gate stays closed until [`Self::reopen`]. If the clock alone opened it and were then set back, its lines
            // would stay open.
            let closed = gate.settings().closed_until.map(GateVerdict::Closed);
            let verdict = closed.unwrap_or_else(|| gate.verdict(now).0);
            (verdict != GateVerdict::Open).then(|| (name.clone(), verdict))
        })
    }

    /// Records when a gate opens by itself.
    pub(crate) fn review(&mut self, now: Now, name: &Label) {
        let due = self.gates.get(name).and_then(|entry| {
            let closed = entry.gate.settings().closed_until.is_some();
            let next = entry.gate.verdict(now).1.or(closed.then_some(now.mono));
            next.filter(|_| closed || !entry.lines.is_empty())
        });
        self.due.put(name.clone(), due.map(|at| at.min(now.mono + LOOK_INTERVAL)));
    }

    /// Removes the closing of a gate when its time has passed, because runs may close ever more gates. Returns the settings
    /// after that.
    pub(crate) fn reopen(&mut self, now: Now, name: &Label) -> Option<GateSettings> {
        let entry = self.gates.get_mut(name)?;
        let settings = entry.gate.settings();
        settings.closed_until.filter(|until| *until <= now.wall)?;
        let settings = GateSettings { closed_until: None, ..settings.clone() };
        self.set(name, settings.clone());
        Some(settings)
    }

    pub(crate) fn next_change(&self) -> Option<Mono> {
        self.due.next().map(|(at, _)| at)
    }

    /// The gates that are due for a check, each once: [`Self::review`] sets the next deadline.
    pub(crate) fn take_due(&mut self, now: Mono) -> Vec<Label> {
        std::iter::from_fn(|| self.due.pop_due(now)).collect()
    }

    /// Until when the service is paused by its gate.
    pub(crate) const fn service_closed_until(&self) -> Option<Wall> {
        self.service_closed_until
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Label> {
        self.gates.keys()
    }

    /// The state of a gate for a query.
    pub(crate) fn view(&self, now: Now, name: &Label, waiting: usize) -> GateView {
        let blank = Gate::default();
        let gate = self.gates.get(name).map_or(&blank, |entry| &entry.gate);
        let (settings, running) = (gate.settings().clone(), gate.running());
        GateView { name: name.clone(), settings, verdict: gate.verdict(now).0, running, waiting }
    }

    /// Whether a gate is full, or is due for a check later.
    pub(crate) fn may_be_shut(&self, needs: &Requirements) -> bool {
        let is_paused = self.service_closed_until.is_some();
        is_paused
            || needs.gates.iter().filter_map(|name| Some((name, &self.gates.get(name)?.gate))).any(|(name, gate)| {
                let full = |max| gate.running() >= max;
                self.due.is_set(name) || gate.settings().running_max.is_some_and(full)
            })
    }

    /// The number of running tasks of each gate.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&Label, u32)> {
        self.gates.iter().map(|(name, entry)| (name, entry.gate.running()))
    }
}
