//! The prompt files that the master knows: the waiting ones and their order, the ones that are being moved, and the
//! failures that a restart must know.
//!
//! Files that name the same gates share a lane, so that the next file that may start is found without looking at all that
//! may not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::effect::Destination;
use super::file::FileName;
use crate::wire::{Front, RequestId};
use base::Usd;

/// A file in `pending/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) priority: i32,
    pub(super) gates: Vec<String>,
    /// Number of failures.
    pub(super) fails: u32,
    /// Number of runs that have met a limit. Such a file waits behind the others: its output may only look like a limit.
    pub(super) limits: u32,
}

impl Waiting {
    /// The known part of the front matter, before the whole file has been read.
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
    pub(super) limits: u32,
    /// The request with which the file was handed out.
    pub(super) run: Option<RequestId>,
    /// Cost of the run, as the worker has reported it.
    pub(super) cost: Option<Usd>,
}

/// A file that is leaving `working/`.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) waiting: Waiting,
    pub(super) destination: Destination,
    /// False after a failed move, which is tried again.
    under_way: bool,
}

/// Higher priority first, then fewer limits, then by name.
type Rank = (Reverse<i32>, u32, FileName);

#[derive(Debug, Default)]
pub(super) struct Files {
    pending: BTreeMap<FileName, Waiting>,
    lanes: BTreeMap<Vec<String>, BTreeSet<Rank>>,
    /// Files in `pending/` that cannot be moved from there.
    set_aside: BTreeSet<FileName>,
    /// Failures of files that wait or are in `working/`, as reported by [`Files::next_note`]; never 0.
    noted: BTreeMap<FileName, u32>,
    /// Failures that an earlier master has noted, until the first scan of `pending/` has ended.
    restored: BTreeMap<FileName, u32>,
    notes: VecDeque<(FileName, u32)>,
    /// Number of lost runs of files that wait or are in `working/`; never 0.
    losses: BTreeMap<FileName, u32>,
    /// By name in `working/`.
    leaving: BTreeMap<FileName, Leaving>,
    /// The next scan of `pending/` counts the files.
    is_counting: bool,
}

impl Files {
    /// The failures that an earlier master has noted.
    pub(super) fn restore(&mut self, fails: BTreeMap<FileName, u32>) {
        self.noted.clone_from(&fails);
        self.restored = fails;
    }

    /// The failures of a file that the worker of an earlier master still has.
    pub(super) fn take_restored(&mut self, file: &FileName) -> u32 {
        self.restored.remove(file).unwrap_or(0)
    }

    /// A file is in `pending/`: a new one, or a known one that has changed. A known file keeps its failures.
    pub(super) fn found(&mut self, file: FileName, front: &Front) {
        let before = self.restored.remove(&file);
        let (fails, limits) =
            self.remove(&file).map_or((before.unwrap_or(0), 0), |waiting| (waiting.fails, waiting.limits));
        self.insert(file, Waiting { priority: front.priority, gates: front.gates.clone(), fails, limits });
    }

    pub(super) fn insert(&mut self, file: FileName, waiting: Waiting) {
        self.remove(&file);
        self.note_fails(&file, waiting.fails);
        let place = (Reverse(waiting.priority), waiting.limits, file.clone());
        self.lanes.entry(waiting.gates.clone()).or_default().insert(place);
        self.pending.insert(file, waiting);
    }

    /// Removes a file of `pending/`.
    pub(super) fn remove(&mut self, file: &FileName) -> Option<Waiting> {
        self.set_aside.remove(file);
        let waiting = self.pending.remove(file)?;
        if let Some(lane) = self.lanes.get_mut(&waiting.gates) {
            lane.remove(&(Reverse(waiting.priority), waiting.limits, file.clone()));
            if lane.is_empty() {
                self.lanes.remove(&waiting.gates);
            }
        }
        Some(waiting)
    }

    /// Takes the next file whose gates are open.
    pub(super) fn take_next(&mut self, may_start: impl Fn(&[String]) -> bool) -> Option<(FileName, Waiting)> {
        let open = self.lanes.iter().filter(|(gates, _)| may_start(gates));
        let (.., file) = open.filter_map(|(_, lane)| lane.first()).min()?.clone();
        let waiting = self.remove(&file)?;
        Some((file, waiting))
    }

    /// Whether a file waits whose gates are open.
    pub(super) fn has_next(&self, may_start: impl Fn(&[String]) -> bool) -> bool {
        self.lanes.keys().any(|gates| may_start(gates))
    }

    /// A file cannot be moved from `pending/`, and must not block others. A file that was found again meanwhile is tried again.
    pub(super) fn set_aside(&mut self, file: FileName) {
        if !self.pending.contains_key(&file) {
            self.set_aside.insert(file);
        }
    }

    /// The next scan counts the files.
    pub(super) const fn start_count(&mut self) {
        self.is_counting = true;
    }

    /// Forgets files that are not in `pending/` any more. True if the files were to be counted, and none is left: a file that is still being
    /// written counts although it was not found yet, and one that can never be moved does not.
    pub(super) fn scanned(&mut self, present: &BTreeSet<FileName>) -> bool {
        let gone: Vec<FileName> = self.pending.keys().filter(|file| !present.contains(*file)).cloned().collect();
        for file in gone {
            self.remove(&file);
            self.forget(&file);
        }
        self.set_aside.retain(|file| present.contains(file));
        for file in std::mem::take(&mut self.restored).into_keys() {
            // The file is being rewritten, or has gone.
            self.forget(&file);
        }
        std::mem::take(&mut self.is_counting) && present.len() <= self.set_aside.len()
    }

    /// A file with this number of failures is in `working/` under another name.
    pub(super) fn renamed(&mut self, from: &FileName, to: &FileName, fails: u32) {
        if from != to {
            self.note_fails(to, fails);
            self.forget(from);
        }
    }

    /// No file of this name is in `working/`; its failures are dropped, unless another file of the name waits.
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

    /// A change that a restart must know.
    pub(super) fn next_note(&mut self) -> Option<(FileName, u32)> {
        self.notes.pop_front()
    }

    pub(super) fn restore_losses(&mut self, losses: BTreeMap<FileName, u32>) {
        self.losses = losses;
    }

    pub(super) fn losses(&self, file: &FileName) -> u32 {
        self.losses.get(file).copied().unwrap_or(0)
    }

    /// False if the number was the same before.
    pub(super) fn set_losses(&mut self, file: &FileName, losses: u32) -> bool {
        let before = if losses == 0 { self.losses.remove(file) } else { self.losses.insert(file.clone(), losses) };
        before.unwrap_or(0) != losses
    }

    /// A file is being moved out of `working/`.
    pub(super) fn leave(&mut self, file: FileName, waiting: Waiting, destination: Destination) {
        self.leaving.insert(file, Leaving { waiting, destination, under_way: true });
    }

    /// A file could not be moved out of `working/`.
    pub(super) fn stay(&mut self, file: &FileName) {
        match self.leaving.get_mut(file) {
            Some(leaving) => leaving.under_way = false,
            None => debug_assert!(false, "{file} was not moved"),
        }
    }

    /// A file has been moved out of `working/`.
    pub(super) fn left(&mut self, file: &FileName) -> Option<Leaving> {
        self.leaving.remove(file)
    }

    /// The files whose move has failed, which is tried again.
    pub(super) fn retry_moves(&mut self) -> impl Iterator<Item = (FileName, Destination)> {
        self.leaving.iter_mut().filter_map(|(file, leaving)| {
            let was_under_way = std::mem::replace(&mut leaving.under_way, true);
            (!was_under_way).then(|| (file.clone(), leaving.destination.clone()))
        })
    }

    pub(super) fn is_leaving(&self, file: &FileName) -> bool {
        self.leaving.contains_key(file)
    }

    pub(super) fn leaving(&self) -> impl ExactSizeIterator<Item = &FileName> {
        self.leaving.keys()
    }

    /// Whether a move out of `working/` is in progress.
    pub(super) fn is_moving(&self) -> bool {
        self.leaving.values().any(|leaving| leaving.under_way)
    }

    /// Whether a file is being moved back to `pending/`.
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

    /// The files with a noted failure.
    pub(super) fn noted(&self) -> impl Iterator<Item = &FileName> {
        self.noted.keys().filter(|file| !self.pending.contains_key(*file) && !self.restored.contains_key(*file))
    }

    pub(super) fn sanity_check(&self) {
        let places: usize = self.lanes.values().map(BTreeSet::len).sum();
        assert_eq!(places, self.pending.len(), "lanes and files differ");
        for (file, waiting) in &self.pending {
            let lane = self.lanes.get(&waiting.gates).unwrap_or_else(|| panic!("{file} has no lane"));
            assert!(
                lane.contains(&(Reverse(waiting.priority), waiting.limits, file.clone())),
                "{file} is not in its lane"
            );
            assert!(!self.set_aside.contains(file), "{file} waits and is set aside");
            let noted = self.noted.get(file).copied().unwrap_or(0);
            assert_eq!(noted, waiting.fails, "{file} has failed more or less often than is noted");
        }
        assert!(self.lanes.values().all(|lane| !lane.is_empty()), "an empty lane is left");
    }
}
