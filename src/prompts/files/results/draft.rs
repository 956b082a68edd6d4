//! The JSON file of a run while its results are put in place: `.NAME.llts` beside them, locked by its worker.
//!
//! The draft gets its final name last. So output without a JSON file, beside a draft that no worker holds, comes from a worker that was
//! killed in between, and from a run that was never reported.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::master::engine::FileName;
use proc::files::rename::rename_new;
use proc::runs::locked;

/// The ending of drafts only.
const ENDING: &str = ".llts";

#[derive(Debug)]
pub(super) struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    /// Takes the draft of this name. Waits for another worker that is putting results of this name in place.
    pub(super) fn take(folder: &Path, name: &FileName) -> io::Result<Self> {
        let path = Self::path_of(folder, name);
        // Without file locks, two workers with results of one name at one moment are not supported.
        let (file, _) = locked::open(&path, 0o666, File::lock)?;
        Ok(Self { path, file })
    }

    pub(super) fn path_of(folder: &Path, name: &FileName) -> PathBuf {
        let mut draft = OsString::from(".");
        draft.push(name.as_os_str());
        draft.push(ENDING);
        folder.join(draft)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&mut self, json: &str, durable: bool) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(json.as_bytes())?;
        if durable { self.file.sync_all() } else { Ok(()) }
    }

    /// Gives it its final name: from here on the results are complete.
    pub(super) fn publish(&self, to: &Path) -> io::Result<()> {
        rename_new(&self.path, to)
    }

    pub(super) fn discard(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            log::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::results;
    use super::super::{OUTPUTS, Results, result, take_draft};
    use super::*;

    /// A run in a folder of its own, with this output.
    fn run(root: &Path, text: &str) -> Results {
        let from = root.join(text);
        fs::create_dir(&from).unwrap();
        fs::write(from.join("out"), text).unwrap();
        fs::write(from.join("err"), "").unwrap();
        results("a.txt", text, &from)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_run_that_is_reported_has_the_name_although_a_killed_worker_had_begun_to_put_another_one_there() {
        for placed in 0..=OUTPUTS.len() {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join(".tasks/done");
            fs::create_dir_all(&folder).unwrap();
            let name = FileName::from("a.txt");
            let dead = run(root.path(), "dead");
            let mut draft = take_draft(&folder, &name).unwrap();
            draft.write(&dead.json(), false).unwrap();
            for ending in &OUTPUTS[..placed] {
                fs::rename(dead.placement.from.join(ending), result(&folder, &name, ending)).unwrap();
            }
            drop(draft);
            run(root.path(), "alive").put_in_place(root.path()).unwrap();
            fs::write(folder.join("a.txt"), "prompt").unwrap();
            let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
            assert_eq!(text("a.txt.out"), "alive");
            assert!(text("a.txt.json").contains("alive"));
            let numbered: &[&str] = match placed {
                0 => &[],
                1 => &["a.2.txt.json", "a.2.txt.out"],
                _ => &["a.2.txt.err", "a.2.txt.json", "a.2.txt.out"],
            };
            assert_eq!(names(&folder), [numbered, &["a.txt", "a.txt.err", "a.txt.json", "a.txt.out"]].concat());
            if placed > 0 {
                assert_eq!(text("a.2.txt.out"), "dead");
                assert!(text("a.2.txt.json").contains("dead"));
            }
        }
    }

    #[test]
    fn what_a_killed_worker_has_left_in_the_other_folder_is_numbered_as_well() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".tasks/done");
        fs::create_dir_all(&folder).unwrap();
        let name = FileName::from("a.txt");
        let mut draft = take_draft(&folder, &name).unwrap();
        draft.write(&run(root.path(), "dead").json(), false).unwrap();
        fs::write(folder.join("a.txt.out"), "dead").unwrap();
        drop(draft);
        let mut failed = run(root.path(), "alive");
        failed.placement.outcome = "failed";
        failed.put_in_place(root.path()).unwrap();
        assert_eq!(names(&folder), ["a.2.txt.json", "a.2.txt.out"]);
        assert_eq!(names(&root.path().join(".tasks/failed")), ["a.txt.err", "a.txt.json", "a.txt.out"]);
    }

    #[test]
    fn a_worker_waits_for_another_one_that_is_putting_results_of_the_name_in_place() {
        use std::os::unix::fs::MetadataExt as _;
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(".tasks/done");
        fs::create_dir_all(&folder).unwrap();
        let name = FileName::from("a.txt");
        let (first, second) = (run(root.path(), "first"), run(root.path(), "second"));
        let mut draft = take_draft(&folder, &name).unwrap();
        draft.write(&first.json(), false).unwrap();
        let inode = format!(":{} ", draft.file.metadata().unwrap().ino());
        fs::rename(first.placement.from.join("out"), result(&folder, &name, "out")).unwrap();
        let base = root.path().to_owned();
        let keeping = std::thread::spawn(move || second.put_in_place(&base));
        // Blocked on the lock, as the kernel shows; or past it, which must not happen.
        let waits = || {
            fs::read_to_string("/proc/locks").unwrap().lines().any(|line| line.contains("->") && line.contains(&inode))
        };
        let _ = (0..100_000).any(|_| {
            std::thread::yield_now();
            waits() || keeping.is_finished()
        });
        fs::rename(first.placement.from.join("err"), result(&folder, &name, "err")).unwrap();
        draft.publish(&result(&folder, &name, "json")).unwrap();
        drop(draft);
        keeping.join().unwrap().unwrap();
        let texts = ["a.txt.out", "a.2.txt.out"].map(|name| fs::read_to_string(folder.join(name)).unwrap());
        assert_eq!(texts, ["second", "first"]);
        assert_eq!(names(&folder).len(), 6, "{:?}", names(&folder));
    }
}
