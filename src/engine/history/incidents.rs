//! The incidents that are kept: a number of each kind in a minute, and the number of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::{Incident, IncidentKind, Mono, Now};

/// The time in which incidents of one kind are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Incidents of one kind that are kept in that time: enough to see what happens, too few to fill a disk.
const KEPT_MAX: u32 = 20;

/// The incidents of a kind in its present minute.
#[derive(Debug)]
struct Window {
    until: Mono,
    kept: u32,
    others: u64,
}

#[derive(Debug, Default)]
pub(super) struct Incidents {
    windows: BTreeMap<IncidentKind, Window>,
    kept: Vec<Incident>,
}

impl Incidents {
    pub(super) fn add(&mut self, now: Mono, incident: Incident) {
        let new = Window { until: now + WINDOW, kept: 0, others: 0 };
        let window = self.windows.entry(incident.kind).or_insert(new);
        if window.kept >= KEPT_MAX {
            window.others += 1;
            return;
        }
        window.kept += 1;
        self.kept.push(incident);
    }

    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        self.windows.values().map(|window| window.until).min()
    }

    /// Ends the minutes that have passed.
    pub(super) fn handle_timeout(&mut self, now: Now) {
        let kept = &mut self.kept;
        self.windows.retain(|kind, window| {
            if window.until > now.mono {
                return true;
            }
            if window.others > 0 {
                let text = format!("and {} more within a minute", window.others);
                kept.push(Incident { at: now.wall, kind: *kind, text });
            }
            false
        });
    }

    /// The incidents to write.
    pub(super) fn kept(&self) -> &[Incident] {
        &self.kept
    }

    /// They are written.
    pub(super) fn forget(&mut self, count: usize) {
        self.kept.drain(..count);
    }
}
