//! The folders that workers have kept below a root, because their content is nowhere else: the work of a run that git could not keep,
//! or the files of a run whose results could not be stored. A person removes them with this module; no worker does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use crate::files::create::TASKS;
use crate::files::results::{JSON, read_json};
use crate::worker::process::RUNS;
use proc::clock;
use proc::files::file_stamp::FileStamp;
use proc::files::removal::RemovalError;
use proc::files::{file_stamp, removal};
use proc::runs::{UNKEPT, UNKEPT_WORK};

/// A kept folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Path of the folder.
    pub path: PathBuf,
    /// Time since the last change.
    pub age: Duration,
    /// True for the working folder of a run, false for the files of a run whose results could not be stored.
    pub is_work: bool,
    /// The prompt, and whether the run has failed, if there are results.
    pub prompt: Option<(String, bool)>,
}

impl Kept {
    /// Removes the folder, with everything in it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn remove(&self) -> Result<(), RemovalError> {
        removal::remove(&self.path)
    }
}

/// The kept folders of all workers below a root, by path.
///
/// # Errors
/// The error of the system; none if no worker was ever there.
pub fn kept(root: &Path) -> io::Result<Vec<Kept>> {
    let mut found = Vec::new();
    let prompts = prompts(root);
    for realm in entries(&root.join(TASKS).join(RUNS))? {
        if !realm.is_dir() {
            continue;
        }
        for path in entries(&realm)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if !name.starts_with(UNKEPT) || !metadata.is_dir() {
                continue;
            }
            let age = clock::now().wall.since(file_stamp::wall(FileStamp::from(&metadata).changed));
            let (is_work, prompt) = (name.starts_with(UNKEPT_WORK), prompts.get(&path).cloned());
            found.push(Kept { path, age, is_work, prompt });
        }
    }
    Ok(found)
}

/// The prompts of which a run has left a folder, by its path. A worker with a root of its own has the results alone.
fn prompts(root: &Path) -> BTreeMap<PathBuf, (String, bool)> {
    let mut prompts = BTreeMap::new();
    for (folder, is_failed) in [("done", false), ("failed", true)] {
        let files = entries(&root.join(TASKS).join(folder)).unwrap_or_default();
        for json in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == JSON)) {
            let Some(run) = read_json(json) else { continue };
            if let (Some(kept), Some(name)) = (run["workdir"].as_str(), run["file"].as_str()) {
                prompts.insert(PathBuf::from(kept), (name.to_owned(), is_failed));
            }
        }
    }
    prompts
}

/// The entries of a folder, in order; none if it does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
