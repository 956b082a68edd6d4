//! The finished prompts below a root, with the results of their runs, and another try for the failed ones. This works on the folders
//! alone, with or without a running master, which notices a file that waits again at once.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::create::{FOLDERS, TASKS};
use crate::files::results::{JSON, read_json};
use crate::files::status::list;
use crate::master::engine::{FileName, REASON_ENDING, TIME_UP, prompts_among};
use proc::files::rename::rename_new;

/// Characters of a line that are shown.
const LINE_CHARS_MAX: usize = 200;

/// A finished prompt.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the prompt file.
    pub name: FileName,
    /// True for a failed prompt.
    pub is_failed: bool,
    /// The JSON file of the run; `None` if there is none, for example because the worker has the results.
    pub run: Option<Value>,
    /// Folder of the prompt file.
    folder: PathBuf,
    /// Name of the results. The worker changes a name that cannot be part of a file name.
    results: FileName,
}

impl Outcome {
    /// A number of the run, such as `seconds`.
    #[must_use]
    pub fn number(&self, member: &str) -> Option<f64> {
        self.run.as_ref()?[member].as_f64()
    }

    /// A text of the run, such as `worker`.
    #[must_use]
    pub fn text(&self, member: &str) -> Option<&str> {
        self.run.as_ref()?[member].as_str()
    }

    /// True if the run was ended because its time was up.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        match &self.run {
            Some(run) => run["timed_out"] == true,
            None => self.last_line().is_some_and(|reason| reason.starts_with(TIME_UP)),
        }
    }

    /// The whole output or error output; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// When the file cannot be read. A file that does not exist is `None`.
    pub fn output(&self, ending: &str) -> io::Result<Option<String>> {
        match fs::read(self.beside(ending)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => Ok(Some(String::from_utf8_lossy(&bytes?).into_owned())),
        }
    }

    /// The last line of the error output or else of the output, or the reason why the prompt was never run.
    #[must_use]
    pub fn last_line(&self) -> Option<String> {
        let endings = if self.run.is_some() { &["err", "out"][..] } else { &[REASON_ENDING] };
        endings.iter().find_map(|ending| last_line(&self.beside(ending)))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.folder.join(self.results.with_ending(ending).as_os_str())
    }
}

fn last_line(path: &Path) -> Option<String> {
    let lines = BufReader::new(File::open(path).ok()?).split(b'\n').map_while(Result::ok);
    let line = lines.filter(|line| !line.trim_ascii().is_empty()).last()?;
    Some(String::from_utf8_lossy(&line).trim().chars().take(LINE_CHARS_MAX).collect())
}

/// The prompts in `done/` and `failed/`, by name.
///
/// # Errors
/// When there is no `.tasks/`, or it cannot be read.
pub fn outcomes(root: &Path) -> io::Result<Vec<Outcome>> {
    let tasks = root.join(TASKS);
    fs::read_dir(&tasks)?;
    let [pending, working, done, failed] = FOLDERS.map(|folder| list(&tasks.join(folder)));
    let folders = [pending?, working?, done?, failed?];
    let odd: Vec<FileName> = odd_prompts(&folders[3], &tasks.join(FOLDERS[3])).collect();
    let [_, _, done, mut failed] = prompts_among(&folders);
    failed.extend(odd);
    let mut found = Vec::new();
    for (is_failed, names, at) in [(false, done, 2), (true, failed, 3)] {
        let folder = tasks.join(FOLDERS[at]);
        let renamed = LazyCell::new(|| renamed_results(&folders[at], &folder));
        found.extend(names.into_iter().map(|name| {
            let run = read_json(&folder.join(name.with_ending(JSON).as_os_str()));
            let (results, run) = match run {
                None => name.as_text().and_then(|text| renamed.get(text)).cloned().unzip(),
                run => (None, run),
            };
            Outcome { results: results.unwrap_or_else(|| name.clone()), name, is_failed, run, folder: folder.clone() }
        }));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The results beside which there is no prompt of their name, by the name of the prompt that they are of; of several, the last ones.
fn renamed_results(names: &BTreeSet<FileName>, folder: &Path) -> BTreeMap<String, (FileName, Value)> {
    let mut found: BTreeMap<String, (FileName, Value)> = BTreeMap::new();
    for name in names {
        let stem = name.as_text().and_then(|name| name.strip_suffix(JSON)?.strip_suffix('.')).map(FileName::from);
        let Some(stem) = stem.filter(|stem| !names.contains(stem)) else { continue };
        let Some(run) = read_json(&folder.join(name.as_os_str())) else { continue };
        let Some(file) = run["file"].as_str().filter(|file| stem.as_text() != Some(file)) else { continue };
        let start = |run: &Value| run["start"].as_f64().unwrap_or_default();
        if found.get(file).is_none_or(|(_, other)| start(other) < start(&run)) {
            found.insert(file.to_owned(), (stem, run.clone()));
        }
    }
    found
}

/// The entries that are no files, such as links and folders, which have failed for that reason.
fn odd_prompts<'a>(names: &'a BTreeSet<FileName>, folder: &'a Path) -> impl Iterator<Item = FileName> + 'a {
    let ending = format!(".{REASON_ENDING}");
    let named = names.iter().filter_map(move |name| name.as_os_str().as_bytes().strip_suffix(ending.as_bytes()));
    let is_odd = |name: &&OsStr| folder.join(name).symlink_metadata().is_ok_and(|metadata| !metadata.is_file());
    named.map(OsStr::from_bytes).filter(is_odd).map(|name| FileName::new(name.to_owned()))
}

/// Moves a prompt from `failed/` to `pending/`. The results stay where they are.
///
/// # Errors
/// When the prompt is not there, or another one of its name waits already.
pub fn retry(root: &Path, name: &FileName) -> io::Result<()> {
    let [pending, _, _, failed] = FOLDERS.map(|folder| root.join(TASKS).join(folder).join(name.as_os_str()));
    rename_new(&failed, &pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_prompt_is_told_from_its_results_and_tried_again_without_them() {
        let root = tempfile::tempdir().unwrap();
        let failed = root.path().join(".tasks/failed");
        fs::create_dir_all(&failed).unwrap();
        fs::create_dir_all(root.path().join(".tasks/pending")).unwrap();
        let json = r#"{"outcome":"failed","worker":"box-1","exit_code":3,"seconds":1.5}"#;
        for (name, text) in [
            ("a.txt", "do a"),
            ("a.txt.out", "begun\n"),
            ("a.txt.err", "first\nlast line \n\n"),
            ("a.txt.json", json),
            ("b.txt", "\u{0}"),
            ("b.txt.reason", "it is not UTF-8\n"),
            ("c.txt", "do c"),
            ("c.txt.reason", "the run took longer than the 5 s that it is allowed, at worker 7\n"),
            ("gone.txt.reason", "it is empty\n"),
        ] {
            fs::write(failed.join(name), text).unwrap();
        }
        let found = outcomes(root.path()).unwrap();
        let names: Vec<_> = found.iter().map(|outcome| outcome.name.to_string()).collect();
        assert_eq!(names, ["a.txt", "b.txt", "c.txt"]);
        let late: Vec<_> = found.iter().map(Outcome::is_timed_out).collect();
        assert_eq!(late, [false, false, true]);
        assert!(found.iter().all(|outcome| outcome.is_failed));
        assert_eq!((found[0].number("exit_code"), found[0].text("worker")), (Some(3.0), Some("box-1")));
        assert_eq!(found[0].output("out").unwrap().as_deref(), Some("begun\n"));
        let lines = found.iter().take(2).map(|outcome| outcome.last_line().unwrap()).collect::<Vec<_>>();
        assert_eq!(lines, ["last line", "it is not UTF-8"]);
        retry(root.path(), &"a.txt".into()).unwrap();
        assert_eq!(list(&root.path().join(".tasks/pending")).unwrap(), ["a.txt".into()].into());
        assert!(failed.join("a.txt.out").exists());
        assert_eq!(outcomes(root.path()).unwrap().len(), 2);
        assert!(retry(root.path(), &"a.txt".into()).is_err());
    }

    #[test]
    fn results_that_a_worker_has_stored_under_another_name_are_those_of_their_prompt() {
        let root = tempfile::tempdir().unwrap();
        let done = root.path().join(".tasks/done");
        fs::create_dir_all(&done).unwrap();
        let json =
            |start: u8| format!("{{\"outcome\":\"done\",\"worker\":\"w\",\"file\":\"a\\nb\",\"start\":{start}}}");
        for (name, text) in [
            ("a\nb", "prompt"),
            ("task_1.json", &*json(1)),
            ("task_1.out", "old"),
            ("task_2.json", &*json(2)),
            ("task_2.out", "new"),
            ("none", "prompt"),
        ] {
            fs::write(done.join(name), text).unwrap();
        }
        let found = outcomes(root.path()).unwrap();
        let outputs: Vec<_> = found.iter().map(|outcome| outcome.output("out").unwrap()).collect();
        assert_eq!(outputs, [Some("new".to_owned()), None]);
        assert_eq!(found.iter().map(|outcome| outcome.name.to_string()).collect::<Vec<_>>(), ["a\nb", "none"]);
    }

    #[test]
    fn a_link_and_a_folder_have_failed_too() {
        let root = tempfile::tempdir().unwrap();
        let failed = root.path().join(".tasks/failed");
        fs::create_dir_all(failed.join("folder.txt")).unwrap();
        std::os::unix::fs::symlink("/nowhere", failed.join("link.txt")).unwrap();
        for name in ["folder.txt", "link.txt", "gone.txt"] {
            fs::write(failed.join(format!("{name}.reason")), "it is no regular file\n").unwrap();
        }
        let found = outcomes(root.path()).unwrap();
        let names: Vec<_> = found.iter().map(|outcome| outcome.name.to_string()).collect();
        assert_eq!(names, ["folder.txt", "link.txt"]);
        assert!(found.iter().all(|outcome| outcome.last_line().as_deref() == Some("it is no regular file")));
    }
}
