//! The prompt files as far as the master knows them: which wait, and in which order; which are on their way; how many are done;
//! what a restart must know of those that have failed.
//!
//! Files that name the same gates stand in one lane, so that the next file that may start is found without a look at all that
//! may not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::effect::Destination;
use super::file::FileName;
use crate::protocol::prompt::Front;

/// A file in `pending/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) priority: i32,
    pub(super) gates: Vec<String>,
    /// How often it has failed.
    pub(super) fails: u32,
}

impl Waiting {
    /// What is known of the front matter while the file has not been read as a whole.
    pub(super) fn front(self) -> Front {
        Front { priority: self.priority, gates: self.gates, ..Front::default() }
    }
}

/// A file in `working/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) file: FileName,
    pub(super) front: Front,
    pub(super) fails: u32,
}

/// A file that is to leave `working/`.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) waiting: Waiting,
    pub(super) destination: Destination,
    /// Whether the move is under way; otherwise it has failed and is tried again.
    pub(super) under_way: bool,
}

/// Higher priority first, then by name.
type Place = (Reverse<i32>, FileName);

#[derive(Debug, Default)]
pub(super) struct Files {
    pending: BTreeMap<FileName, Waiting>,
    lanes: BTreeMap<Vec<String>, BTreeSet<Place>>,
    /// In `pending/`, but impossible to move from there.
    set_aside: BTreeSet<FileName>,
    /// How often files have failed that wait or are in `working/`, as it was told by [`Files::next_note`]; never 0.
    noted: BTreeMap<FileName, u32>,
    /// The same of a master before, until the first look into `pending/` is over.
    restored: BTreeMap<FileName, u32>,
    notes: VecDeque<(FileName, u32)>,
    /// By their names in `working/`.
    pub(super) leaving: BTreeMap<FileName, Leaving>,
    /// What is in `done/` and `failed/`.
    pub(super) done: u64,
    pub(super) failed: u64,
    /// What this master has put there.
    pub(super) succeeded_here: u64,
    pub(super) failed_here: u64,
}

impl Files {
    /// No file waits, and so many have been worked off before.
    pub(super) fn new(done: u64, failed: u64) -> Self {
        Self { done, failed, ..Self::default() }
    }

    /// What a master before has noted.
    pub(super) fn restore(&mut self, fails: BTreeMap<FileName, u32>) {
        self.noted.clone_from(&fails);
        self.restored = fails;
    }

    /// A file is in `pending/`; it may be known already and have changed. Its failures are remembered.
    pub(super) fn found(&mut self, file: FileName, front: &Front) {
        let before = self.restored.remove(&file);
        let fails = self.remove(&file).map_or(before.unwrap_or(0), |waiting| waiting.fails);
        self.insert(file, Waiting { priority: front.priority, gates: front.gates.clone(), fails });
    }

    pub(super) fn insert(&mut self, file: FileName, waiting: Waiting) {
        self.remove(&file);
        self.note_fails(&file, waiting.fails);
        let place = (Reverse(waiting.priority), file.clone());
        self.lanes.entry(waiting.gates.clone()).or_default().insert(place);
        self.pending.insert(file, waiting);
    }

    /// Takes a file out, wherever in `pending/` it is.
    pub(super) fn remove(&mut self, file: &FileName) -> Option<Waiting> {
        self.set_aside.remove(file);
        let waiting = self.pending.remove(file)?;
        if let Some(lane) = self.lanes.get_mut(&waiting.gates) {
            lane.remove(&(Reverse(waiting.priority), file.clone()));
            if lane.is_empty() {
                self.lanes.remove(&waiting.gates);
            }
        }
        Some(waiting)
    }

    /// Takes the next file out whose gates let it through.
    pub(super) fn take_next(&mut self, may_start: impl Fn(&[String]) -> bool) -> Option<(FileName, Waiting)> {
        let open = self.lanes.iter().filter(|(gates, _)| may_start(gates));
        let (_, file) = open.filter_map(|(_, lane)| lane.first()).min()?.clone();
        let waiting = self.remove(&file)?;
        Some((file, waiting))
    }

    /// Whether there is such a file.
    pub(super) fn has_next(&self, may_start: impl Fn(&[String]) -> bool) -> bool {
        self.lanes.keys().any(|gates| may_start(gates))
    }

    /// A file cannot be moved from `pending/`, and shall hold nobody up. If it was found anew meanwhile, it gets another try.
    pub(super) fn set_aside(&mut self, file: FileName) {
        if !self.pending.contains_key(&file) {
            self.set_aside.insert(file);
        }
    }

    /// Forgets what is not in `pending/` any more.
    pub(super) fn keep_only(&mut self, present: &BTreeSet<FileName>) {
        let gone: Vec<FileName> = self.pending.keys().filter(|file| !present.contains(*file)).cloned().collect();
        for file in gone {
            self.remove(&file);
            self.forget(&file);
        }
        self.set_aside.retain(|file| present.contains(file));
        for file in std::mem::take(&mut self.restored).into_keys() {
            // Somebody is writing it anew, or it is gone.
            self.forget(&file);
        }
    }

    /// A file that has failed so often is in `working/` under another name.
    pub(super) fn renamed(&mut self, from: &FileName, to: &FileName, fails: u32) {
        if from != to {
            self.note_fails(to, fails);
            self.forget(from);
        }
    }

    /// No file of this name is in `working/`; what failed under it is done with, unless another one waits.
    pub(super) fn forget(&mut self, file: &FileName) {
        let fails = self.pending.get(file).map_or(0, |waiting| waiting.fails);
        self.note_fails(file, fails);
    }

    fn note_fails(&mut self, file: &FileName, fails: u32) {
        let noted = if fails == 0 { self.noted.remove(file) } else { self.noted.insert(file.clone(), fails) };
        if noted.unwrap_or(0) != fails {
            self.notes.push_back((file.clone(), fails));
        }
    }

    /// A change of what a restart must know.
    pub(super) fn next_note(&mut self) -> Option<(FileName, u32)> {
        self.notes.pop_front()
    }

    /// Whether a file is on its way back to `pending/`.
    pub(super) fn is_returning(&self) -> bool {
        let returns = |leaving: &Leaving| leaving.under_way && leaving.destination == Destination::Pending;
        self.leaving.values().any(returns)
    }

    pub(super) fn is_known(&self, file: &FileName) -> bool {
        self.pending.contains_key(file) || self.set_aside.contains(file)
    }

    pub(super) fn pending(&self) -> u64 {
        self.pending.len() as u64
    }

    pub(super) fn set_aside_count(&self) -> u64 {
        self.set_aside.len() as u64
    }

    /// The files of which something is noted.
    pub(super) fn noted(&self) -> impl Iterator<Item = &FileName> {
        self.noted.keys().filter(|file| !self.pending.contains_key(*file) && !self.restored.contains_key(*file))
    }

    pub(super) fn sanity_check(&self) {
        let places: usize = self.lanes.values().map(BTreeSet::len).sum();
        assert_eq!(places, self.pending.len(), "lanes and files differ");
        for (file, waiting) in &self.pending {
            let lane = self.lanes.get(&waiting.gates).unwrap_or_else(|| panic!("{file} has no lane"));
            assert!(lane.contains(&(Reverse(waiting.priority), file.clone())), "{file} is not in its lane");
            assert!(!self.set_aside.contains(file), "{file} waits and is set aside");
            let noted = self.noted.get(file).copied().unwrap_or(0);
            assert_eq!(noted, waiting.fails, "{file} has failed more or less often than is noted");
        }
        assert!(self.lanes.values().all(|lane| !lane.is_empty()), "an empty lane is left");
        assert!(self.succeeded_here <= self.done && self.failed_here <= self.failed);
    }
}
