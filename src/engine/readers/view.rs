//! The state of the service as the readers of SERVICE/STATUS know it.
//!
//! | event | consequence |
//! |---|---|
//! | a request without a cursor, or with one that is not known | a look; the answer has every part |
//! | a request with the newest cursor and a time | it waits |
//! | anything happens while a request waits | a look, [`LOOK_PAUSE`] after the last one |
//! | nothing happens while a request waits | a look each [`LOOK_PAUSE_MAX`]: some parts change by time alone |
//! | a look finds changes | they get the next number, and every waiting request is answered with the changes that it lacks |
//!
//! So the cost of a look is shared by all readers, and without readers there is none.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::wire::requests::job::results::Cursor;
use api::wire::requests::status::{Part, StatusView};
use base::{Incident, Mono, Now};

/// The time between two looks.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The time between two looks if nothing happens.
pub(crate) const LOOK_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Maximum number of names of gone parts that are kept. A reader that would need more gets every part.
const GONE_MAX: usize = 1_000;

/// Maximum number of incidents that are shown, the last ones.
const INCIDENTS_MAX: usize = 20;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The newest change, in a sequence that no other start has.
    newest: Cursor,
    /// The oldest number after which every change is known.
    known_from: u64,
    /// The present parts, each with the number of its last change, as of the last look.
    parts: Vec<(String, u64, Part)>,
    /// The parts that have gone, each with the number of that change.
    gone: BTreeMap<String, u64>,
    looked: Option<Now>,
    /// Whether nothing has happened since the last look.
    is_fresh: bool,
    /// Whether the present event is a look.
    is_looking: bool,
    /// Whether the next look has a time.
    pub(crate) is_awaited: bool,
    incidents: VecDeque<(u64, Incident)>,
    incident_count: u64,
}

impl View {
    pub(crate) fn of_start(id: u64) -> Self {
        Self { newest: Cursor { sequence: id, position: 0 }, ..Self::default() }
    }

    /// Whether every change after this cursor is known.
    pub(crate) fn knows(&self, cursor: Cursor) -> bool {
        cursor.sequence == self.newest.sequence
            && (self.known_from..=self.newest.position).contains(&cursor.position)
            && self.looked.is_some()
    }

    /// Whether there are changes after this cursor.
    pub(crate) const fn has_after(&self, cursor: Cursor) -> bool {
        self.newest.position > cursor.position
    }

    /// The moment of the last look.
    pub(crate) const fn looked(&self) -> Option<Now> {
        self.looked
    }

    /// When the next look is due.
    pub(crate) fn next_look(&self, now: Mono) -> Mono {
        let pause = if self.is_fresh { LOOK_PAUSE_MAX } else { LOOK_PAUSE };
        self.looked.map_or(now, |looked| looked.mono + pause)
    }

    /// An event ends. Unless it was a look itself, something has happened.
    pub(crate) const fn end_event(&mut self) {
        self.is_fresh &= std::mem::replace(&mut self.is_looking, false);
    }

    /// An incident of the process.
    pub(crate) fn add_incident(&mut self, incident: Incident) {
        self.incident_count += 1;
        self.incidents.push_back((self.incident_count, incident));
        if self.incidents.len() > INCIDENTS_MAX {
            // The oldest incident of the most frequent kind goes, so that many of one kind do not push out the others.
            let frequent = |(_, incident): &(u64, Incident)| {
                self.incidents.iter().filter(|(_, other)| other.kind == incident.kind).count()
            };
            let most = self.incidents.iter().map(frequent).max();
            let oldest = self.incidents.iter().position(|noted| Some(frequent(noted)) == most);
            oldest.and_then(|oldest| self.incidents.remove(oldest));
        }
    }

    /// The last incidents with their numbers, newest first.
    pub(crate) fn incidents(&self) -> impl Iterator<Item = &(u64, Incident)> {
        self.incidents.iter().rev()
    }

    /// Takes the parts that a look has found. True if some have changed.
    pub(crate) fn learn(&mut self, now: Now, found: Vec<Part>) -> bool {
        self.looked = Some(now);
        (self.is_fresh, self.is_looking) = (true, true);
        let next = self.newest.position + 1;
        let mut before: BTreeMap<String, (u64, Part)> =
            self.parts.drain(..).map(|(name, number, part)| (name, (number, part))).collect();
        let mut has_changed = false;
        for part in found {
            let name = part.name();
            let number = match before.remove(&name) {
                Some((number, known)) if known == part => number,
                _ => next,
            };
            has_changed |= number == next;
            self.gone.remove(&name);
            self.parts.push((name, number, part));
        }
        has_changed |= !before.is_empty();
        self.gone.extend(before.into_keys().map(|name| (name, next)));
        if has_changed {
            self.newest.position = next;
        }
        if self.gone.len() > GONE_MAX {
            self.gone.clear();
            self.known_from = self.newest.position;
        }
        has_changed
    }

    /// Adds to a head the parts that have changed after a cursor; without a cursor, every part.
    pub(crate) fn since(&self, cursor: Option<Cursor>, head: &StatusView) -> StatusView {
        let is_new = |number: u64| cursor.is_none_or(|cursor| number > cursor.position);
        let parts = self.parts.iter().filter(|(_, number, _)| is_new(*number)).map(|(.., part)| part.clone());
        let gone = self.gone.iter().filter(|(_, number)| cursor.is_some() && is_new(**number));
        StatusView {
            cursor: self.newest,
            is_whole: cursor.is_none(),
            parts: parts.collect(),
            gone: gone.map(|(name, _)| name.clone()).collect(),
            ..head.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Wall;

    fn head() -> StatusView {
        StatusView {
            now: Wall::default(),
            started_at: Wall::default(),
            oldest_at: None,
            rate: 0.0,
            run_p50: None,
            paused_until: None,
            cursor: Cursor::default(),
            is_whole: false,
            parts: Vec::new(),
            gone: Vec::new(),
        }
    }

    fn waits(reasons: &[(&str, usize)]) -> Vec<Part> {
        reasons.iter().enumerate().map(|(place, (why, count))| Part::Waiting(place, (*why).into(), *count)).collect()
    }

    #[test]
    fn a_reader_gets_what_it_lacks() {
        let now = Now::default();
        let mut view = View::of_start(7);
        assert!(!view.knows(Cursor { sequence: 7, position: 0 }), "nothing was looked at");
        assert!(view.learn(now, waits(&[("busy", 1), ("held", 1)])));
        let first = view.since(None, &head());
        assert_eq!((first.is_whole, first.parts.len()), (true, 2));
        assert!(!view.learn(now, waits(&[("busy", 1), ("held", 1)])) && !view.has_after(first.cursor));
        assert!(view.learn(now, waits(&[("busy", 2), ("held", 1)])));
        let second = view.since(Some(first.cursor), &head());
        assert_eq!((&second.parts[..], second.is_whole), (&waits(&[("busy", 2)])[..], false));
        assert!(view.learn(now, waits(&[("busy", 2)])));
        assert_eq!(view.since(Some(second.cursor), &head()).gone, ["waiting 1"]);
        let both = view.since(Some(first.cursor), &head());
        assert_eq!((both.parts.len(), &both.gone[..]), (1, &["waiting 1".to_owned()][..]));
        assert!(view.learn(now, waits(&[("busy", 2), ("held", 1)])));
        assert!(view.since(Some(first.cursor), &head()).gone.is_empty(), "it is back");
        assert!(view.knows(first.cursor) && !view.knows(Cursor { sequence: 8, ..first.cursor }));
        assert!(!view.knows(Cursor { sequence: 7, position: 99 }), "of a controller before");
    }

    #[test]
    fn one_who_is_far_behind_begins_anew() {
        let mut view = View::of_start(7);
        let many = |from: usize| (from..from + GONE_MAX + 1).map(|at| Part::Waiting(at, "x".into(), 1)).collect();
        view.learn(Now::default(), many(0));
        let cursor = view.since(None, &head()).cursor;
        view.learn(Now::default(), many(GONE_MAX + 1));
        assert!(!view.knows(cursor) && view.knows(view.since(None, &head()).cursor));
        assert!(view.gone.is_empty());
    }
}
