//! The tools that the controller holds: which version each name stands for, which versions tasks have pinned, and how long an
//! unneeded version is kept.
//!
//! | a name | stands for |
//! |---|---|
//! | with an archive in the controller's own tools folder | that archive, whatever was pushed |
//! | that was only pushed | the version pushed last |
//! | with neither | no version: a task that names it pins nothing, and waits for an agent that has the tool |
//!
//! Files that travel with tasks are in the same store, by the same kind of digest; each is counted by the tasks that name it.
//!
//! A task pins the version that its tool's name stands for when the task is accepted. The store keeps a version as long as
//! a name stands for it or an unfinished task has pinned it, and for a time after that. An agent that fetches tools can run
//! each tool that has a name here, and each one that an unfinished task has pinned.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{HeldTool, ToolDigest, ToolName};

/// The versions behind one name.
#[derive(Debug, Default)]
struct Named {
    folder: Option<Arc<HeldTool>>,
    pushed: Option<Arc<HeldTool>>,
    /// Whether the archive in the folder has changed since it was read.
    is_stale: bool,
}

impl Named {
    fn present(&self) -> Option<&Arc<HeldTool>> {
        self.folder.as_ref().or(self.pushed.as_ref())
    }

    fn versions(&self) -> impl Iterator<Item = ToolDigest> {
        self.folder.iter().chain(&self.pushed).map(|held| held.digest)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    names: BTreeMap<ToolName, Named>,
    /// The versions in the store, each with its size in bytes.
    held: BTreeMap<ToolDigest, u64>,
    /// Number of unfinished tasks that have pinned each version.
    pins: BTreeMap<(ToolName, ToolDigest), usize>,
    /// Versions that have lost a name or a pin since the last look, so that they may be unneeded.
    released: Vec<ToolDigest>,
    stale: usize,
    /// Bytes of everything in the store.
    bytes: u64,
    /// Number of tasks that name each file.
    files: BTreeMap<ToolDigest, usize>,
    /// Files that the last task has stopped naming since the last look.
    dropped: Vec<ToolDigest>,
}

impl Catalog {
    /// The version that a name stands for.
    pub(crate) fn present(&self, tool: &ToolName) -> Option<&Arc<HeldTool>> {
        self.names.get(tool)?.present()
    }

    /// All names, each with its version.
    pub(crate) fn all(&self) -> impl ExactSizeIterator<Item = &Arc<HeldTool>> {
        self.names.values().filter_map(Named::present).collect::<Vec<_>>().into_iter()
    }

    /// Whether the controller's folder has an archive of this name.
    pub(crate) fn is_in_folder(&self, tool: &ToolName) -> bool {
        self.names.get(tool).is_some_and(|named| named.folder.is_some())
    }

    /// Whether this name was pushed.
    pub(crate) fn is_pushed(&self, tool: &ToolName) -> bool {
        self.names.get(tool).is_some_and(|named| named.pushed.is_some())
    }

    /// The size of a version in the store, in bytes; `None` for one that is not there.
    pub(crate) fn size(&self, digest: &ToolDigest) -> Option<u64> {
        self.held.get(digest).copied()
    }

    /// Whether agents that fetch tools can run this one.
    pub(crate) fn offers(&self, tool: &ToolName) -> bool {
        let is_held = |held: &Arc<HeldTool>| self.held.contains_key(&held.digest);
        self.present(tool).is_some_and(is_held) || self.pinned(tool).any(|digest| self.held.contains_key(&digest))
    }

    /// The versions of a tool that unfinished tasks have pinned.
    fn pinned(&self, tool: &ToolName) -> impl Iterator<Item = ToolDigest> {
        const MIN: ToolDigest = ToolDigest::new([0; 32]);
        const MAX: ToolDigest = ToolDigest::new([u8::MAX; 32]);
        self.pins.range((tool.clone(), MIN)..=(tool.clone(), MAX)).map(|((_, digest), _)| *digest)
    }

    /// Number of unfinished tasks that have pinned any version of a tool.
    pub(crate) fn pins_of(&self, tool: &ToolName) -> usize {
        self.pins.iter().filter(|((pinned, _), _)| pinned == tool).map(|(_, count)| count).sum()
    }

    /// A version is in the store.
    pub(crate) fn hold(&mut self, digest: ToolDigest, size: u64) {
        self.keep(digest, size);
        self.released.push(digest);
    }

    fn keep(&mut self, digest: ToolDigest, size: u64) {
        let before = self.held.insert(digest, size).unwrap_or_default();
        self.bytes = (self.bytes - before).saturating_add(size);
    }

    /// Bytes of everything in the store.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A task names this file.
    pub(crate) fn name_file(&mut self, digest: ToolDigest) {
        *self.files.entry(digest).or_default() += 1;
    }

    /// A task does not name this file any more.
    pub(crate) fn unname_file(&mut self, digest: ToolDigest) {
        let Some(count) = self.files.get_mut(&digest) else { unreachable!("no task names {digest:?}") };
        *count -= 1;
        if *count == 0 {
            self.files.remove(&digest);
            self.dropped.push(digest);
        }
    }

    /// The stored files that tasks have stopped naming since the last call, and that nothing needs any more.
    pub(crate) fn take_dropped(&mut self) -> Vec<ToolDigest> {
        if self.dropped.is_empty() {
            return Vec::new();
        }
        let dropped = std::mem::take(&mut self.dropped);
        dropped.into_iter().filter(|digest| self.held.contains_key(digest) && !self.needs(digest)).collect()
    }

    /// A version is missing in the store, or damaged there. Returns the tools whose name stands for it, or for which a task has
    /// pinned it.
    pub(crate) fn lose(&mut self, digest: &ToolDigest) -> Vec<ToolName> {
        self.bytes -= self.held.remove(digest).unwrap_or_default();
        let of_names = self.names.iter().filter(|(_, named)| named.versions().any(|version| version == *digest));
        let of_pins = self.pins.keys().filter(|(_, pinned)| pinned == digest).map(|(tool, _)| tool);
        of_names.map(|(tool, _)| tool).chain(of_pins).cloned().collect()
    }

    /// Sets the archive of a name in the controller's folder; `None` if there is none that an agent could run.
    pub(crate) fn set_folder(&mut self, tool: &ToolName, held: Option<HeldTool>) {
        if let Some(held) = &held {
            self.keep(held.digest, held.size);
        }
        let named = self.names.entry(tool.clone()).or_default();
        if std::mem::take(&mut named.is_stale) {
            self.stale -= 1;
        }
        let before = std::mem::replace(&mut named.folder, held.map(Arc::new));
        self.released.extend(before.map(|before| before.digest));
        self.forget_if_empty(tool);
    }

    /// Sets the pushed version of a name; `None` if there is none any more.
    pub(crate) fn set_pushed(&mut self, tool: &ToolName, held: Option<HeldTool>) {
        if let Some(held) = &held {
            self.keep(held.digest, held.size);
        }
        let named = self.names.entry(tool.clone()).or_default();
        let before = std::mem::replace(&mut named.pushed, held.map(Arc::new));
        self.released.extend(before.map(|before| before.digest));
        self.forget_if_empty(tool);
    }

    fn forget_if_empty(&mut self, tool: &ToolName) {
        if self.names.get(tool).is_some_and(|named| named.present().is_none() && !named.is_stale) {
            self.names.remove(tool);
        }
    }

    /// The archive in the controller's folder has changed. True if it is not being read already.
    pub(crate) fn set_stale(&mut self, tool: &ToolName) -> bool {
        let named = self.names.entry(tool.clone()).or_default();
        let is_new = !std::mem::replace(&mut named.is_stale, true);
        self.stale += usize::from(is_new);
        is_new
    }

    /// Whether the archive of a name must be read before its version is known.
    pub(crate) fn is_stale(&self, tool: &ToolName) -> bool {
        self.stale > 0 && self.names.get(tool).is_some_and(|named| named.is_stale)
    }

    /// Whether any archive must be read before the version of its name is known.
    pub(crate) const fn has_stale(&self) -> bool {
        self.stale > 0
    }

    /// An unfinished task has pinned this version. True for the first one.
    pub(crate) fn pin(&mut self, tool: &ToolName, digest: ToolDigest) -> bool {
        let count = self.pins.entry((tool.clone(), digest)).or_default();
        *count += 1;
        *count == 1
    }

    /// A task that has pinned this version has finished. True for the last one.
    pub(crate) fn unpin(&mut self, tool: &ToolName, digest: ToolDigest) -> bool {
        let key = (tool.clone(), digest);
        let Some(count) = self.pins.get_mut(&key) else { unreachable!("tool {tool} {digest:?} is not pinned") };
        *count -= 1;
        let was_last = *count == 0;
        if was_last {
            self.pins.remove(&key);
            self.released.push(digest);
        }
        was_last
    }

    /// Whether a name stands for this version, an unfinished task has pinned it, or a task names it as a file.
    pub(crate) fn needs(&self, digest: &ToolDigest) -> bool {
        let is_named = || self.names.values().flat_map(Named::versions).any(|version| version == *digest);
        self.files.contains_key(digest) || self.pins.keys().any(|(_, pinned)| pinned == digest) || is_named()
    }

    /// The stored versions that have lost a name or a pin since the last call, and that nothing needs any more.
    pub(crate) fn take_unneeded(&mut self) -> Vec<ToolDigest> {
        if self.released.is_empty() {
            return Vec::new();
        }
        let released = std::mem::take(&mut self.released);
        released.into_iter().filter(|digest| self.held.contains_key(digest) && !self.needs(digest)).collect()
    }

    /// Checks the pins against those of the unfinished tasks, and the files against those of all tasks.
    pub(crate) fn sanity_check(
        &self,
        pins: impl Iterator<Item = (ToolName, ToolDigest)>,
        files: impl Iterator<Item = ToolDigest>,
    ) {
        let mut named = BTreeMap::new();
        files.for_each(|file| *named.entry(file).or_insert(0) += 1);
        assert_eq!(named, self.files, "the named files");
        assert_eq!(self.bytes, self.held.values().sum::<u64>(), "the bytes of the store");
        let mut counts = BTreeMap::new();
        pins.for_each(|pin| *counts.entry(pin).or_insert(0) += 1);
        assert_eq!(counts, self.pins, "the pinned versions of tools");
        assert_eq!(self.stale, self.names.values().filter(|named| named.is_stale).count(), "archives to be read");
    }
}
