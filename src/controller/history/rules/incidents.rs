//! The incidents that are kept: a limited number of each kind in a minute, and the number of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Incident, IncidentKind, Mono, Now};

/// The time in which incidents of one kind are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of incidents of one kind that are kept in that time: enough to see what happens, too few to fill a disk.
const KEPT_MAX: u64 = 20;

/// The incidents of a kind in its present minute.
#[derive(Debug)]
struct Window {
    until: Mono,
    kept: u64,
    others: u64,
}

#[derive(Debug, Default)]
pub(super) struct Incidents {
    windows: BTreeMap<IncidentKind, Window>,
}

impl Incidents {
    /// Whether another incident of this kind is kept.
    pub(super) fn admit(&mut self, now: Mono, kind: IncidentKind) -> bool {
        let new = Window { until: now + WINDOW, kept: 0, others: 0 };
        let window = self.windows.entry(kind).or_insert(new);
        let is_kept = window.kept < KEPT_MAX;
        *(if is_kept { &mut window.kept } else { &mut window.others }) += 1;
        is_kept
    }

    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        self.windows.values().map(|window| window.until).min()
    }

    /// Ends the minutes that have passed: an incident for the others of each kind.
    pub(super) fn handle_timeout(&mut self, now: Now) -> impl Iterator<Item = Incident> {
        let ended = self.windows.extract_if(.., move |_, window| window.until <= now.mono);
        ended.filter(|(_, window)| window.others > 0).map(move |(kind, window)| {
            let text = format!("and {} more within a minute", window.others);
            Incident { at: now.wall, kind, text }
        })
    }
}
