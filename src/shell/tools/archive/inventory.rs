//! The contents of a tool according to its archive, without unpacking it: an unpacked tool is compared with this before it
//! is run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _, RandomState};
use std::sync::LazyLock;

use super::members::{Kind, Member};
use super::path::{InnerPath, check_symlink};
use super::{ArchiveError, Limits};
use crate::shell::tools::RUN_SCRIPT;
use crate::types::ToolName;

/// A digest of the content of a file, for this process only. It is keyed with a number that no other process knows: a tool,
/// which may write any content, cannot search for another content with the same seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shell::tools) struct Seal(u64);

/// Computes a [`Seal`]; the division of the content into pieces does not matter.
pub(in crate::shell::tools) struct Sealer(DefaultHasher);

impl Sealer {
    pub(in crate::shell::tools) fn new() -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEY.build_hasher())
    }

    pub(in crate::shell::tools) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(in crate::shell::tools) fn seal(&self) -> Seal {
        Seal(self.0.finish())
    }
}

/// One file, folder or link of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::shell::tools) enum Part {
    Folder,
    File { bytes: u64, executable: bool, seal: Seal },
    Symlink { target: Vec<u8> },
}

/// All parts of a tool, by their paths in its folder.
#[derive(Debug)]
pub(in crate::shell::tools) struct Inventory(BTreeMap<Vec<u8>, Part>);

impl Inventory {
    pub(in crate::shell::tools) fn part(&self, path: &[u8]) -> Option<&Part> {
        self.0.get(path)
    }

    pub(in crate::shell::tools) fn len(&self) -> usize {
        self.0.len()
    }
}

/// An inventory under construction, member by member. Validating the archive is [`super::stage`]'s concern. An archive that
/// it cannot interpret matches no unpacked tool.
pub(super) struct Stocktaking<'a> {
    tool: &'a ToolName,
    limits: &'a Limits,
    parts: BTreeMap<Vec<u8>, Part>,
    /// Whether an entry is not in a folder with the name of the tool.
    beside: bool,
    links: Vec<(InnerPath, Vec<u8>)>,
}

impl<'a> Stocktaking<'a> {
    pub(super) const fn new(tool: &'a ToolName, limits: &'a Limits) -> Self {
        Self { tool, limits, parts: BTreeMap::new(), beside: false, links: Vec::new() }
    }

    /// Adds a member. `seal` is that of its content, if it has one.
    pub(super) fn add(&mut self, member: &Member, seal: Seal) -> Result<(), ArchiveError> {
        let path = &member.path;
        if path.is_root() {
            return Ok(());
        }
        let in_folder =
            path.top() == self.tool.as_str().as_bytes() && (path.depth() > 1 || member.kind == Kind::Folder);
        self.beside |= !in_folder;
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for folder in ends.filter_map(|at| bytes.get(..at)) {
            self.parts.entry(folder.to_vec()).or_insert(Part::Folder);
        }
        let part = match &member.kind {
            Kind::Folder => Part::Folder,
            Kind::File { bytes } => Part::File { bytes: *bytes, executable: member.mode & 0o100 != 0, seal },
            Kind::Symlink { target } => {
                self.links.push((path.clone(), target.clone()));
                Part::Symlink { target: target.clone() }
            }
            Kind::HardLink { target } => match self.parts.get(target.as_bytes()) {
                Some(part @ Part::File { .. }) => part.clone(),
                _ => {
                    return Err(ArchiveError::link(bytes, target.as_bytes(), "does not name an earlier file"));
                }
            },
        };
        match self.parts.entry(bytes.to_vec()) {
            Entry::Occupied(known) if *known.get() == Part::Folder && part == Part::Folder => Ok(()),
            Entry::Occupied(_) => Err(ArchiveError::duplicate(bytes)),
            Entry::Vacant(free) => {
                free.insert(part);
                Ok(())
            }
        }
    }

    /// Decides the layout, as [`super::stage`] does.
    pub(super) fn finish(self) -> Result<Inventory, ArchiveError> {
        let folder = self.tool.as_str().as_bytes();
        let wrapped = !self.beside && self.parts.contains_key(folder);
        for (path, target) in &self.links {
            check_symlink(path.as_bytes(), target, path.depth() - 1 - usize::from(wrapped), self.limits)?;
        }
        let mut parts = self.parts;
        if wrapped {
            let inside = |path: &[u8]| path.strip_prefix(folder)?.strip_prefix(b"/").map(<[u8]>::to_vec);
            parts = parts.into_iter().filter_map(|(path, part)| Some((inside(&path)?, part))).collect();
        }
        match parts.get_mut(RUN_SCRIPT.as_bytes()) {
            Some(Part::File { executable, .. }) => *executable = true,
            _ => return Err(ArchiveError::NoScript),
        }
        Ok(Inventory(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_stands_for_the_content_however_it_is_cut() {
        let seal = |pieces: &[&[u8]]| {
            let mut sealer = Sealer::new();
            pieces.iter().for_each(|piece| sealer.add(piece));
            sealer.seal()
        };
        let whole = seal(&[b"some bytes of a file"]);
        assert_eq!(seal(&[b"some bytes", b"", b" of a f", b"ile"]), whole);
        assert_ne!(seal(&[b"some bytes of a fill"]), whole);
        assert_ne!(seal(&[b"some bytes of a file\0"]), whole);
    }
}
