//! The four folders `.tasks/{pending,working,done,failed}` and the moves between them.
//!
//! A move is one atomic rename that overwrites nothing, so that a file is in exactly one folder whenever the master is
//! killed. (On a file system without such a rename it may be left in two, of which the next start removes one.) A power
//! failure can undo a move, but never loses a file. Folders are opened by path: if they are cleared and recreated while a
//! master runs, it continues in the new ones.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::PromptError;
use crate::files::create::{FOLDERS, TASKS};
use crate::files::results::is_ours;
use crate::master::engine::{ClaimError, Claimed, Destination, FileName, Moved, REASON_ENDING, count_prompts};
use crate::wire::{FRONT_BYTES_MAX, Front, prompt_fits};
use proc::files::rename::{is_same_file, rename_new};

/// Names that are tried before the folder counts as broken.
const NAMES_MAX: u32 = 10_000;

/// The folders of one root.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    pub(super) root: PathBuf,
    pub(super) tasks: PathBuf,
    pub(super) pending: PathBuf,
    working: PathBuf,
    done: PathBuf,
    failed: PathBuf,
    prompt_bytes_max: usize,
}

impl Folders {
    /// Creates missing folders.
    pub(super) fn open(root: &Path, prompt_bytes_max: usize) -> Result<Self, PromptError> {
        if !root.is_dir() {
            return Err(PromptError::NoRoot(root.to_owned()));
        }
        // An absolute path, because a relative one would mislead readers of logs.
        let root = root.canonicalize().map_err(|source| PromptError::Folder { path: root.to_owned(), source })?;
        let tasks = root.join(TASKS);
        let [pending, working, done, failed] = FOLDERS.map(|name| tasks.join(name));
        let folders = Self { root, tasks, pending, working, done, failed, prompt_bytes_max };
        folders.make().map_err(|source| PromptError::Folder { path: folders.tasks.clone(), source })?;
        folders.check_device()?;
        Ok(folders)
    }

    pub(super) fn all(&self) -> [&Path; 4] {
        [&self.pending, &self.working, &self.done, &self.failed]
    }

    /// The folders of finished prompts.
    pub(super) fn finished(&self) -> [&Path; 2] {
        [&self.done, &self.failed]
    }

    fn make(&self) -> io::Result<()> {
        self.all().into_iter().try_for_each(fs::create_dir_all)
    }

    /// Checks that all folders are on one file system, because a rename does not cross file systems.
    fn check_device(&self) -> Result<(), PromptError> {
        let device = |path: &Path| match path.metadata() {
            Ok(metadata) => Ok(metadata.dev()),
            Err(source) => Err(PromptError::Folder { path: path.to_owned(), source }),
        };
        let pending = device(&self.pending)?;
        for path in self.all() {
            if device(path)? != pending {
                return Err(PromptError::OtherDevice(path.to_owned(), self.pending.clone()));
            }
        }
        Ok(())
    }

    /// Whether a file of this name is in `working/`. One that cannot be looked for at this moment is: otherwise its run would be
    /// forgotten, and done again.
    pub(super) fn is_in_work(&self, file: &FileName) -> bool {
        let found = self.working.join(file.as_os_str()).symlink_metadata();
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The front matter of a file in `working/`.
    pub(super) fn front_of_working(&self, file: &FileName) -> Front {
        let text = read(&self.working.join(file.as_os_str()), self.prompt_bytes_max);
        text.ok().and_then(|text| Some(Front::split(&text).ok()?.0)).unwrap_or_default()
    }

    /// Puts back the files that a dead master has left in `working/`, except those that a worker may still have; returns
    /// their number.
    pub(super) fn recover(&self, is_kept: impl Fn(&FileName) -> bool) -> Result<usize, PromptError> {
        let failed = |source| PromptError::Folder { path: self.working.clone(), source };
        let mut left = names(&self.working).map_err(failed)?;
        let elsewhere =
            |file: &FileName| [&self.pending, &self.done, &self.failed].map(|folder| folder.join(file.as_os_str()));
        let is_double = |file: &FileName| {
            elsewhere(file).iter().any(|other| is_same_file(&self.working.join(file.as_os_str()), other))
        };
        left.retain(|file| is_double(file) || !is_kept(file));
        for file in &left {
            let path = self.working.join(file.as_os_str());
            if is_double(file) {
                // A move by links was not finished.
                fs::remove_file(&path).map_err(failed)?;
                continue;
            }
            let name = rename_free(&path, &self.pending, file).map_err(failed)?;
            log::info!("{name} waits again: it was left in working/");
        }
        Ok(left.len())
    }

    /// The prompts in `done/` and `failed/`.
    pub(super) fn counts(&self) -> Result<(u64, u64), PromptError> {
        let list = |path: &Path| names(path).map_err(|source| PromptError::Folder { path: path.to_owned(), source });
        let [pending, working, done, failed] = self.all().map(list);
        let [_, _, done, failed] = count_prompts(&[pending?, working?, done?, failed?]);
        Ok((done, failed))
    }

    /// The prompts in `failed/`.
    pub(super) fn failed_names(&self) -> BTreeSet<FileName> {
        names(&self.failed).unwrap_or_default()
    }

    /// Whether a file of `pending/` is a result that came there together with its prompt: NAME.out, .err, .json or .reason of a run
    /// whose JSON file is there, or is still in the old folder while a person moves the files one by one.
    pub(super) fn is_result(&self, file: &FileName) -> bool {
        let Some((prompt, ending)) = file.split_result() else { return false };
        let is_elsewhere = |folder: &Path| folder.join(file.as_os_str()).symlink_metadata().is_ok();
        let json = prompt.with_ending("json");
        let has_json = |folder: &Path| is_ours(&folder.join(json.as_os_str()));
        let came_with_run = has_json(&self.pending)
            || [&self.done, &self.failed].iter().any(|folder| !is_elsewhere(folder) && has_json(folder));
        // A reason stands alone beside a prompt that was never handed out.
        let is_reason = || ending == REASON_ENDING && !is_elsewhere(&self.failed) && is_prompt_of_reason(self, &prompt);
        // A prompt may have the name of a result, and has results of its own then.
        let has_run = is_ours(&self.pending.join(file.with_ending("json").as_os_str()));
        (came_with_run || is_reason()) && !has_run
    }

    /// Whether a file of this name is in `failed/`.
    pub(super) fn has_failed(&self, file: &FileName) -> bool {
        self.failed.join(file.as_os_str()).symlink_metadata().is_ok()
    }

    /// Makes the folders again where that of the waiting prompts is missing.
    pub(super) fn make_missing(&self) -> io::Result<()> {
        if self.pending.try_exists()? { Ok(()) } else { self.make() }
    }

    /// The names of the waiting prompts.
    pub(super) fn waiting(&self) -> io::Result<BTreeSet<FileName>> {
        names(&self.pending)
    }

    /// The metadata of the waiting file with this name; `None` if there is none.
    pub(super) fn metadata(&self, file: &FileName) -> Option<fs::Metadata> {
        self.pending.join(file.as_os_str()).symlink_metadata().ok()
    }

    /// The front matter of a waiting file. An unreadable file has none; the defect shows when it is claimed.
    pub(super) fn peek(&self, file: &FileName, metadata: &fs::Metadata) -> Front {
        if !metadata.is_file() {
            return Front::default();
        }
        let mut head = Vec::new();
        let read = open(&self.pending.join(file.as_os_str()))
            .and_then(|file| file.take(FRONT_BYTES_MAX as u64).read_to_end(&mut head));
        if read.is_ok() { Front::peek(&head) } else { Front::default() }
    }

    /// Moves a file to `working/` and reads it. Its new name is free in all folders to which it may be moved later, so that results
    /// that a worker puts there have the name of their prompt.
    pub(super) fn claim(&self, file: &FileName) -> Result<Claimed, ClaimError> {
        let from = self.pending.join(file.as_os_str());
        let moved = self.rename_everywhere_free(&from, file);
        let name = match moved {
            Ok(name) => name,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ClaimError::Vanished),
            Err(error) => return Err(ClaimError::Stuck(error.to_string())),
        };
        let text = read(&self.working.join(name.as_os_str()), self.prompt_bytes_max);
        let split = text.and_then(|text| {
            let (front, prompt) = Front::split(&text)?;
            // Most prompts have no front matter and need no copy.
            let (front, length) = (front, prompt.len());
            let prompt = if length == text.len() { text } else { prompt.to_owned() };
            if prompt_fits(&prompt) {
                Ok((front, prompt))
            } else {
                Err("it does not fit into a message of 16 MiB; line ends and quotes take two bytes there".to_owned())
            }
        });
        match split {
            Ok((front, prompt)) => Ok(Claimed { file: name, front, prompt }),
            Err(reason) => Err(ClaimError::Unfit(name, reason)),
        }
    }

    fn rename_everywhere_free(&self, from: &Path, file: &FileName) -> io::Result<FileName> {
        for name in candidates(file) {
            if [&self.done, &self.failed].iter().any(|folder| folder.join(name.as_os_str()).symlink_metadata().is_ok())
            {
                continue;
            }
            match rename_new(from, &self.working.join(name.as_os_str())) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && from.symlink_metadata().is_ok() => {
                    // The folder itself is missing.
                    self.make()?;
                    return rename_free(from, &self.working, &name);
                }
                result => return result.map(|()| name),
            }
        }
        Err(no_name(file))
    }

    /// Moves a file out of `working/`.
    pub(super) fn move_out(&self, file: &FileName, destination: &Destination) -> Moved {
        let from = self.working.join(file.as_os_str());
        let folder = match destination {
            Destination::Pending => &self.pending,
            Destination::Done => &self.done,
            Destination::Failed { .. } => &self.failed,
        };
        let moved = rename_free(&from, folder, file).or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound || from.symlink_metadata().is_err() {
                return Err(error);
            }
            self.make()?;
            rename_free(&from, folder, file)
        });
        match moved {
            Ok(name) => {
                if let Destination::Failed { reason: Some(reason) } = destination {
                    self.write_reason(&name, reason);
                }
                Moved::To(name)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Moved::Vanished,
            Err(error) => Moved::Stuck(error.to_string()),
        }
    }

    /// Writes the reason for which a file is in `failed/` into a new file, because an existing one may be a prompt. The log has the
    /// reason, too.
    fn write_reason(&self, file: &FileName, reason: &str) {
        let create = |name: FileName| File::create_new(self.failed.join(name.as_os_str()));
        let is_taken =
            |made: &io::Result<File>| made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists);
        let made = candidates(&file.reason()).map(create).find(|made| !is_taken(made));
        let written = made.map(|made| io::Write::write_all(&mut made?, format!("{reason}\n").as_bytes()));
        if let Some(Err(error)) = written {
            log::warn!("cannot write {} in {}: {error}", file.reason(), self.failed.display());
        }
    }
}

/// Whether any folder has the prompt that a reason may belong to.
fn is_prompt_of_reason(folders: &Folders, prompt: &FileName) -> bool {
    folders.all().iter().any(|folder| folder.join(prompt.as_os_str()).symlink_metadata().is_ok())
}

/// The prompts of a folder, and other entries with the name of a prompt.
fn names(folder: &Path) -> io::Result<BTreeSet<FileName>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let name = FileName::new(entry?.file_name());
        if name.is_prompt() {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Opens a path that may be any kind of file, without blocking and without following a link.
fn open(path: &Path) -> io::Result<File> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    File::options().read(true).custom_flags(flags).open(path)
}

/// The text of a prompt file, or the reason why it is invalid.
fn read(path: &Path, bytes_max: usize) -> Result<String, String> {
    let cannot = |error: io::Error| format!("it cannot be read: {error}");
    let kind = path.symlink_metadata().map_err(cannot)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_symlink() { "a symbolic link, which is not followed" } else { "not a regular file" };
        return Err(format!("it is {what}"));
    }
    let file = open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let too_long = |bytes: u64| format!("it has {bytes} bytes; at most {bytes_max} are allowed (PROMPT_BYTES_MAX)");
    if metadata.len() > bytes_max as u64 {
        return Err(too_long(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default() + 1);
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > bytes_max {
        return Err(too_long(bytes.len() as u64));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {}", error.utf8_error()))
}

fn candidates(file: &FileName) -> impl Iterator<Item = FileName> {
    std::iter::once(file.clone()).chain((2..NAMES_MAX).map(|number| file.numbered(number)))
}

/// Moves a file to a folder, under its name or one with a number.
fn rename_free(from: &Path, folder: &Path, file: &FileName) -> io::Result<FileName> {
    for name in candidates(file) {
        match rename_new(from, &folder.join(name.as_os_str())) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|()| name),
        }
    }
    Err(no_name(file))
}

fn no_name(file: &FileName) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAMES_MAX} names like {file} are taken"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_looked_for_counts_as_in_work() {
        let root = tempfile::tempdir().unwrap();
        let folders = Folders::open(root.path(), 1000).unwrap();
        let file = FileName::from("a");
        assert!(!folders.is_in_work(&file));
        // In place of a broken disk: a link to itself.
        fs::remove_dir(&folders.working).unwrap();
        std::os::unix::fs::symlink(&folders.working, &folders.working).unwrap();
        assert!(folders.is_in_work(&file));
    }
}
