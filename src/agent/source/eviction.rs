//! Removes the programs that have been used least recently, until the others fit.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::{ProgramName, Programs};
use proc::files::removal;

impl Programs {
    /// Removes kept archives until the rest has at most so many bytes; never one that is held.
    pub fn evict(&self, bytes_max: u64) {
        let Ok(entries) = fs::read_dir(&self.root) else { return };
        let mut found: Vec<(SystemTime, ProgramName, u64)> = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_str().and_then(|name| ProgramName::new(name).ok());
            // Written at each question to the source.
            let used = name.as_ref().and_then(|name| fs::metadata(self.record(name)).ok()?.modified().ok());
            if let Some(name) = name {
                found.push((used.unwrap_or(SystemTime::UNIX_EPOCH), name, bytes_in(&entry.path())));
            }
        }
        found.sort();
        let mut total: u64 = found.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, name, bytes) in found {
            if total <= bytes_max {
                break;
            }
            let Ok(Some(_lock)) = self.take_alone(&name) else { continue };
            if let Err(error) = removal::remove(&self.folder(&name)) {
                log::warn!("{error}");
                continue;
            }
            let _ = fs::remove_file(self.record(&name));
            total = total.saturating_sub(bytes);
        }
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
