//! The installation of a program: its folder is complete before it gets its name, and files of an older folder of that name stay.
//!
//! The older folder may have no run.sh: it is left from a fetch of another worker, or has the results of tasks whose program could
//! not be fetched. Or it is an earlier state of the program, in which tasks have written. So the older folder moves aside, the new one
//! takes its name, and all entries that the new one lacks move over. After the death of a worker in between, the next one does the
//! rest.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::SourceError;
use proc::files::removal;
use proc::files::rename::rename_new;

/// The depth of folders whose entries move over; archives have fewer levels.
const DEPTH_MAX: u32 = 64;

/// Gives the folder `new` the name `target`; a folder of that name goes to `aside`.
pub(super) fn install(new: &Path, target: &Path, aside: &Path) -> Result<(), SourceError> {
    let failed = |action| move |error| SourceError::Io { action, path: target.to_owned(), error };
    match target.symlink_metadata() {
        Ok(present) if present.is_dir() => {
            finish(target, aside)?;
            fs::rename(target, aside).map_err(failed("move aside"))?;
        }
        Ok(_) => return Err(SourceError::InTheWay(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed("look at")(error)),
    }
    rename_new(new, target).map_err(failed("make"))?;
    finish(target, aside)
}

/// Moves over the entries that are still aside.
pub(super) fn finish(target: &Path, aside: &Path) -> Result<(), SourceError> {
    if !target.is_dir() || aside.symlink_metadata().is_err() {
        return Ok(());
    }
    move_missing(aside, target, DEPTH_MAX).map_err(|(path, error)| SourceError::Io { action: "move", path, error })?;
    if let Err(error) = removal::remove(aside) {
        log::warn!("{error}");
    }
    Ok(())
}

fn move_missing(from: &Path, to: &Path, depth: u32) -> Result<(), (PathBuf, io::Error)> {
    let entries = fs::read_dir(from).map_err(|error| (from.to_owned(), error))?;
    for entry in entries {
        let entry = entry.map_err(|error| (from.to_owned(), error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match target.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::rename(&source, &target).map_err(|error| (source, error))?;
            }
            Ok(present) if present.is_dir() && depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                move_missing(&source, &target, depth - 1)?;
            }
            // The new folder has the entry.
            Ok(_) => {}
            Err(error) => return Err((target, error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn what_tasks_have_written_outlives_the_program() {
        let root = tempfile::tempdir().unwrap();
        let [new, target, aside] = ["new", "p", "aside"].map(|name| root.path().join(name));
        tree(&target, &[("run.sh", "old"), ("results/w-1-0.out", "answer"), ("data/a", "old"), ("data/b", "kept")]);
        tree(&new, &[("run.sh", "new"), ("results/.keep", ""), ("data/a", "new")]);
        install(&new, &target, &aside).unwrap();
        let read = |name: &str| fs::read_to_string(target.join(name)).unwrap();
        assert_eq!([read("run.sh"), read("data/a"), read("data/b")], ["new", "new", "kept"]);
        assert_eq!(read("results/w-1-0.out"), "answer");
        assert!(!aside.exists() && !new.exists());
    }

    #[test]
    fn what_a_dead_worker_has_left_aside_is_moved_over_by_the_next() {
        let root = tempfile::tempdir().unwrap();
        let [new, target, aside] = ["new", "p", "aside"].map(|name| root.path().join(name));
        tree(&aside, &[("run.sh", "old"), ("results/1.out", "answer")]);
        finish(&target, &aside).unwrap();
        assert!(aside.exists(), "there is nowhere to move it");
        tree(&new, &[("run.sh", "new")]);
        install(&new, &target, &aside).unwrap();
        assert_eq!(fs::read_to_string(target.join("results/1.out")).unwrap(), "answer");
        assert_eq!(fs::read_to_string(target.join("run.sh")).unwrap(), "new");
    }

    #[test]
    fn nothing_but_a_folder_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let [new, target, aside] = ["new", "p", "aside"].map(|name| root.path().join(name));
        tree(&new, &[("run.sh", "new")]);
        fs::write(&target, "mine").unwrap();
        let sentence = install(&new, &target, &aside).unwrap_err().to_string();
        assert!(sentence.contains("is in the way"), "{sentence}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }
}
