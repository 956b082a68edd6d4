//! The contents of a tool according to its archive, without unpacking it. An unpacked tool is compared with this inventory before
//! it runs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::members::{Kind, Member};
use super::path::{InnerPath, check_symlink};
use super::seal::Seal;
use super::{ArchiveError, Limits};
use crate::tools::RUN_SCRIPT;
use base::ToolName;

/// The file that describes a tool.
pub(super) const MANIFEST: &str = "tool.toml";

/// One file, folder or link of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tools) enum Part {
    Folder,
    File { bytes: u64, executable: bool, seal: Seal },
    Symlink { target: Vec<u8> },
}

/// All parts of a tool, by their paths in its folder.
#[derive(Debug)]
pub(in crate::tools) struct Inventory(BTreeMap<Vec<u8>, Part>);

impl Inventory {
    pub(in crate::tools) fn part(&self, path: &[u8]) -> Option<&Part> {
        self.0.get(path)
    }

    pub(in crate::tools) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = (&[u8], &Part)> {
        self.0.iter().map(|(path, part)| (path.as_slice(), part))
    }
}

/// An inventory under construction, member by member. It refuses what [`super::stage`] refuses, without writing anything.
pub(super) struct Stocktaking<'a> {
    tool: &'a ToolName,
    limits: &'a Limits,
    parts: BTreeMap<Vec<u8>, Part>,
    /// Bytes of all files, with hard links counted again.
    bytes: u64,
    /// Whether an entry is not in a folder with the name of the tool.
    beside: bool,
    links: Vec<(InnerPath, Vec<u8>)>,
}

impl<'a> Stocktaking<'a> {
    pub(super) const fn new(tool: &'a ToolName, limits: &'a Limits) -> Self {
        Self { tool, limits, parts: BTreeMap::new(), bytes: 0, beside: false, links: Vec::new() }
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
            if *self.parts.entry(folder.to_vec()).or_insert(Part::Folder) != Part::Folder {
                return Err(ArchiveError::duplicate(folder));
            }
            self.check_manifest(folder, false)?;
        }
        self.check_manifest(bytes, matches!(member.kind, Kind::File { .. }))?;
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
        if let Part::File { bytes, .. } = part {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        match self.parts.entry(bytes.to_vec()) {
            Entry::Occupied(known) if *known.get() == Part::Folder && part == Part::Folder => {}
            Entry::Occupied(_) => return Err(ArchiveError::duplicate(bytes)),
            Entry::Vacant(free) => drop(free.insert(part)),
        }
        if self.parts.len() as u64 > self.limits.entries {
            return Err(ArchiveError::Entries { limit: self.limits.entries });
        }
        if self.bytes > self.limits.unpacked_bytes {
            return Err(ArchiveError::UnpackedBytes { limit: self.limits.unpacked_bytes });
        }
        Ok(())
    }

    /// Refuses a manifest that readers could take for different ones: those that follow links, and those that read each file once.
    fn check_manifest(&self, path: &[u8], is_file: bool) -> Result<(), ArchiveError> {
        let inner = path.strip_prefix(self.tool.as_str().as_bytes()).and_then(|path| path.strip_prefix(b"/"));
        let is_manifest = path == MANIFEST.as_bytes() || inner == Some(MANIFEST.as_bytes());
        if is_manifest && !is_file { Err(ArchiveError::ManifestNotFile) } else { Ok(()) }
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
            Some(_) => return Err(ArchiveError::ScriptNotFile),
            None => return Err(ArchiveError::NoScript),
        }
        Ok(Inventory(parts))
    }
}
