//! Names of prompt files: which are prompts at all, and how a name is made different from one that is taken.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

/// What a worker or the master leaves beside a prompt file in `done/` or `failed/`.
const RESULT_ENDINGS: [&str; 4] = ["out", "err", "json", "reason"];

/// The ending of the file that says why the master has put a prompt file into `failed/`.
pub const REASON_ENDING: &str = "reason";

/// No file system of Linux takes a longer one.
const NAME_BYTES_MAX: usize = 255;

/// The name of a file in one of the four folders; without a slash, and not always a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(OsString);

impl FileName {
    /// A name as a folder lists it.
    #[must_use]
    pub const fn new(name: OsString) -> Self {
        Self(name)
    }

    /// The name for the file system.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// The name for a message; `None` if it is not UTF-8.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        self.0.to_str()
    }

    /// Whether it may name a prompt: hidden and temporary files belong to whoever is writing them.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        let name = self.0.as_encoded_bytes();
        !(name.is_empty() || name.starts_with(b".") || name.ends_with(b"~") || name.ends_with(b".tmp"))
    }

    /// The same name with a number before its ending: `task.2.txt`. A name that would be too long loses the end of its stem.
    #[must_use]
    pub fn numbered(&self, number: u32) -> Self {
        let path = Path::new(&self.0);
        let (stem, ending) = (path.file_stem().unwrap_or(&self.0), path.extension());
        let mut end = OsString::from(format!(".{number}"));
        if let Some(ending) = ending {
            end.push(".");
            end.push(ending);
        }
        let room = NAME_BYTES_MAX.saturating_sub(end.len());
        let mut name = match stem.to_str() {
            Some(stem) => OsString::from(&stem[..stem.floor_char_boundary(room)]),
            None => stem.to_owned(),
        };
        name.push(end);
        Self(name)
    }

    /// Whether a file of this name, beside these, is a result and no prompt.
    fn is_result(&self, beside: &BTreeSet<Self>, is_known: impl Fn(&OsStr) -> bool) -> bool {
        let path = Path::new(&self.0);
        let (Some(prompt), Some(ending)) = (path.file_stem(), path.extension().and_then(OsStr::to_str)) else {
            return false;
        };
        let has = |ending: &str| beside.contains(&Self(prompt.to_owned()).with_ending(ending));
        let is_of_run = has("json") && (has("out") || has("err"));
        let is_number = |text: &OsStr| text.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        // A reason gets a number when its name is taken.
        let numbered = Path::new(prompt).extension().is_some_and(is_number).then(|| Path::new(prompt).file_stem());
        let is_second = || ending == REASON_ENDING && numbered.flatten().is_some_and(&is_known);
        RESULT_ENDINGS.contains(&ending) && (is_of_run || is_known(prompt) || is_second())
    }

    /// The name of the file that says why this one is in `failed/`.
    #[must_use]
    pub fn reason(&self) -> Self {
        self.with_ending(REASON_ENDING)
    }

    fn with_ending(&self, ending: &str) -> Self {
        let mut name = self.0.clone();
        name.push(".");
        name.push(ending);
        Self(name)
    }
}

impl From<&str> for FileName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.display(), f)
    }
}

/// How many prompts there are in `pending`, `working`, `done` and `failed`, which have files of these names.
///
/// In the first two every file is one. In the others a file that is called as a result is none if its prompt is in any of the
/// folders, for it may wait again after a failure; nor if all of a run is there, for the prompts of a worker with a root of its
/// own are elsewhere.
#[must_use]
pub fn count_prompts(folders: &[BTreeSet<FileName>; 4]) -> [u64; 4] {
    let [pending, working, done, failed] = folders;
    let is_known = |name: &OsStr| folders.iter().any(|names| names.contains(&FileName(name.to_owned())));
    let all = |names: &BTreeSet<FileName>| names.iter().filter(|name| name.is_prompt()).count() as u64;
    let but_results = |names: &BTreeSet<FileName>| {
        names.iter().filter(|name| name.is_prompt() && !name.is_result(names, is_known)).count() as u64
    };
    [all(pending), all(working), but_results(done), but_results(failed)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_and_temporary_files_are_no_prompts() {
        for name in ["a", "a.txt", "task_001_x.txt", "~a", "tmp", "a.out", "あ"] {
            assert!(FileName::from(name).is_prompt(), "{name}");
        }
        for name in ["", ".a", ".a.swp", "a~", "a.tmp", ".tmp", "~"] {
            assert!(!FileName::from(name).is_prompt(), "{name}");
        }
    }

    #[test]
    fn a_number_stands_before_the_ending() {
        for (name, numbered) in [("a.txt", "a.2.txt"), ("a", "a.2"), ("a.b.c", "a.b.2.c"), ("a.", "a.2.")] {
            assert_eq!(FileName::from(name).numbered(2), numbered.into());
        }
        let long = FileName::from(format!("{}.txt", "あ".repeat(83)).as_str());
        assert_eq!(long.numbered(12), format!("{}.12.txt", "あ".repeat(82)).as_str().into());
    }

    #[test]
    fn results_are_not_counted() {
        fn names(names: &[&str]) -> BTreeSet<FileName> {
            names.iter().map(|name| FileName::from(*name)).collect()
        }
        let counts = |waiting: &[&str], done: &[&str]| {
            count_prompts(&[names(waiting), BTreeSet::new(), names(done), BTreeSet::new()])
        };
        let beside = ["a.txt", "a.txt.out", "a.txt.err", "a.txt.json", "b", "b.reason", "c.out", "c.txt.json", ".d"];
        assert_eq!(counts(&[], &beside), [0, 0, 4, 0]);
        // Its prompt waits again.
        assert_eq!(counts(&["a.txt"], &["a.txt.out", "a.txt.reason", "a.txt.2.reason", "b.out"]), [1, 0, 1, 0]);
        // The prompt is in the root of the master, and the second run lacks its empty output.
        assert_eq!(counts(&[], &["a.out", "a.err", "a.json", "a.reason", "b.out", "b.json"]), [0; 4]);
        // A file in pending/ is handed out, even if it is called like a result.
        assert_eq!(counts(&["a", "a.out", ".a", "a~"], &[]), [2, 0, 0, 0]);
    }
}
