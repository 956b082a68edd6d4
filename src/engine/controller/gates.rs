//! The gates by name, and the lines of the queue that each of them may hold up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LOOK_INTERVAL;
use crate::engine::gate::Gate;
use crate::types::{GateSettings, GateVerdict, GateView, Label, Mono, Requirements, Now};

#[derive(Debug, Default)]
struct Entry {
    gate: Gate,
    lines: BTreeSet<Arc<Requirements>>,
    /// When to look at it again.
    due: Option<Mono>,
}

/// All gates that somebody has set, names, or has passed.
#[derive(Debug, Default)]
pub(super) struct Gates {
    gates: BTreeMap<Label, Entry>,
    due: BTreeSet<(Mono, Label)>,
}

impl Gates {
    /// Sets a gate.
    pub(super) fn set(&mut self, name: &Label, settings: GateSettings) {
        self.gates.entry(name.clone()).or_default().gate.set(settings);
        self.drop_if_blank(name);
    }

    pub(super) fn settings(&self, name: &Label) -> GateSettings {
        self.gates.get(name).map(|entry| entry.gate.settings().clone()).unwrap_or_default()
    }

    /// How many are known.
    pub(super) fn len(&self) -> usize {
        self.gates.len()
    }

    pub(super) fn is_known(&self, name: &Label) -> bool {
        self.gates.contains_key(name)
    }

    /// A line is made whose tasks must pass these gates.
    pub(super) fn enter(&mut self, now: Now, needs: &Arc<Requirements>) {
        for name in needs.gates.iter() {
            let entry = self.gates.entry(name.clone()).or_default();
            entry.lines.insert(Arc::clone(needs));
            // Nobody looked at it while nobody waited. What is due anyway must not be forgotten: other lines wait for it.
            if entry.due.is_none() {
                self.review(now, name);
            }
        }
    }

    /// A line is gone.
    pub(super) fn leave(&mut self, needs: &Arc<Requirements>) {
        for name in needs.gates.iter() {
            if let Some(entry) = self.gates.get_mut(name) {
                entry.lines.remove(needs);
            }
            self.drop_if_blank(name);
        }
    }

    fn drop_if_blank(&mut self, name: &Label) {
        if self.gates.get(name).is_some_and(|entry| entry.lines.is_empty() && entry.gate.is_blank()) {
            self.set_due(name, None);
            self.gates.remove(name);
        }
    }

    /// The lines that must pass a gate.
    pub(super) fn lines(&self, name: &Label) -> impl Iterator<Item = Arc<Requirements>> {
        self.gates.get(name).into_iter().flat_map(|entry| entry.lines.iter().cloned())
    }

    pub(super) fn start(&mut self, at: Mono, needs: &Requirements) {
        for name in needs.gates.iter() {
            self.gates.entry(name.clone()).or_default().gate.start(at);
        }
    }

    /// One that is running started before the controller did.
    pub(super) fn resume(&mut self, needs: &Requirements) {
        for name in needs.gates.iter() {
            self.gates.entry(name.clone()).or_default().gate.resume();
        }
    }

    pub(super) fn end(&mut self, needs: &Requirements) {
        for name in needs.gates.iter() {
            if let Some(entry) = self.gates.get_mut(name) {
                entry.gate.end();
            }
            self.drop_if_blank(name);
        }
    }

    /// One that started before the controller did.
    pub(super) fn note_start(&mut self, at: Mono, needs: &Requirements) {
        for name in needs.gates.iter() {
            if let Some(entry) = self.gates.get_mut(name) {
                entry.gate.note_start(at);
            }
        }
    }

    /// Whether every gate of these needs lets one more pass.
    pub(super) fn admit(&self, now: Now, needs: &Requirements) -> bool {
        needs.gates.is_empty() || self.obstacle(now, needs).is_none()
    }

    /// The first gate that lets nobody pass.
    pub(super) fn obstacle(&self, now: Now, needs: &Requirements) -> Option<(Label, GateVerdict)> {
        needs.gates.iter().find_map(|name| {
            let (verdict, _) = self.gates.get(name)?.gate.verdict(now);
            (verdict != GateVerdict::Open).then(|| (name.clone(), verdict))
        })
    }

    /// Notes when a gate opens by itself.
    pub(super) fn review(&mut self, now: Now, name: &Label) {
        let due = self.gates.get(name).and_then(|entry| {
            let closed = entry.gate.settings().closed_until.is_some();
            let next = entry.gate.verdict(now).1.or(closed.then_some(now.mono));
            next.filter(|_| closed || !entry.lines.is_empty())
        });
        self.set_due(name, due.map(|at| at.min(now.mono + LOOK_INTERVAL)));
    }

    /// Forgets that a gate was closed, when the time for that is over: runs may close ever new ones. Returns how it is set then.
    pub(super) fn reopen(&mut self, now: Now, name: &Label) -> Option<GateSettings> {
        let entry = self.gates.get_mut(name)?;
        let settings = entry.gate.settings();
        settings.closed_until.filter(|until| *until <= now.wall)?;
        let settings = GateSettings { closed_until: None, ..settings.clone() };
        entry.gate.set(settings.clone());
        self.drop_if_blank(name);
        Some(settings)
    }

    fn set_due(&mut self, name: &Label, due: Option<Mono>) {
        let Some(entry) = self.gates.get_mut(name) else { return };
        let before = std::mem::replace(&mut entry.due, due);
        if let Some(at) = before {
            self.due.remove(&(at, name.clone()));
        }
        if let Some(at) = due {
            self.due.insert((at, name.clone()));
        }
    }

    pub(super) fn next_change(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The gates whose time to be looked at has come.
    pub(super) fn due(&self, now: Mono) -> Vec<Label> {
        self.due.iter().take_while(|(at, _)| *at <= now).map(|(_, name)| name.clone()).collect()
    }

    /// All names, in order.
    pub(super) fn names(&self) -> impl Iterator<Item = &Label> {
        self.gates.keys()
    }

    /// How a gate stands.
    pub(super) fn view(&self, now: Now, name: &Label, waiting: usize) -> GateView {
        let blank = Gate::default();
        let gate = self.gates.get(name).map_or(&blank, |entry| &entry.gate);
        let (settings, running) = (gate.settings().clone(), gate.running());
        GateView { name: name.clone(), settings, verdict: gate.verdict(now).0, running, waiting }
    }

    /// Whether a gate is full, or is to be looked at later.
    pub(super) fn may_be_shut(&self, needs: &Requirements) -> bool {
        needs.gates.iter().filter_map(|name| self.gates.get(name)).any(|entry| {
            let full = |max| entry.gate.running() >= max;
            entry.due.is_some() || entry.gate.settings().running_max.is_some_and(full)
        })
    }

    /// How many that have passed a gate are running.
    pub(super) fn running(&self) -> impl Iterator<Item = (&Label, u32)> {
        self.gates.iter().map(|(name, entry)| (name, entry.gate.running()))
    }
}
