//! Names of prompt files: which files are prompts, and how a taken name is made unique.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

/// Endings of the files that a worker leaves beside a prompt file in `done/` or `failed/`.
const RUN_ENDINGS: [&str; 3] = ["json", "out", "err"];

/// Ending of the file with the reason for which the master has put a prompt file into `failed/`.
pub const REASON_ENDING: &str = "reason";

/// Longest name on the file systems of Linux.
const NAME_BYTES_MAX: usize = 255;

/// The name of a file in one of the four folders; without a slash, and not always UTF-8.
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

    /// False for hidden and temporary files, which belong to their writer.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        let name = self.0.as_encoded_bytes();
        !(name.is_empty() || name.starts_with(b".") || name.ends_with(b"~") || name.ends_with(b".tmp"))
    }

    /// This name with a number before its ending: `task.2.txt`. A name that would be too long loses the end of its stem.
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

    /// True if a file of this name, beside these, is a result and not a prompt.
    fn is_result(&self, beside: &BTreeSet<Self>, is_known: impl Fn(&OsStr) -> bool) -> bool {
        let path = Path::new(&self.0);
        let (Some(stem), Some(ending)) = (path.file_stem(), path.extension().and_then(OsStr::to_str)) else {
            return false;
        };
        let prompt = Self(stem.to_owned());
        match ending {
            "out" | "err" | "json" if prompt.has_run(beside) => true,
            "out" | "err" | "json" | REASON_ENDING if self.has_results(beside) => false,
            "out" | "err" | "json" => is_known(stem),
            // Only a master writes a reason, and its prompt may have been removed.
            REASON_ENDING => true,
            _ => false,
        }
    }

    /// True if this file has results beside it. Then the file is a prompt, even if its name is that of a result.
    fn has_results(&self, beside: &BTreeSet<Self>) -> bool {
        let reason = self.reason();
        let is_refused = || beside.contains(&reason) && !reason.has_run(beside);
        self.has_run(beside) || is_refused() || self.has_numbered_run(beside)
    }

    /// True if the files of a run of this prompt exist: NAME.json, and NAME.out or NAME.err, because an empty one may have been
    /// removed. A file among them that has results of its own is a prompt, so the run used another name. But if all three exist
    /// and no other run does, only a run can have made them. Each recursion goes to longer existing names.
    fn has_run(&self, beside: &BTreeSet<Self>) -> bool {
        let mut files = RUN_ENDINGS.map(|ending| self.with_ending(ending)).to_vec();
        let has_json = beside.contains(&files[0]);
        files.retain(|file| beside.contains(file));
        if !has_json || files.len() < 2 {
            return false;
        }
        let prompts = files.iter().filter(|file| file.has_results(beside)).count();
        let is_elsewhere = || beside.contains(self) && self.has_numbered_run(beside);
        prompts == 0 || (files.len() == RUN_ENDINGS.len() && prompts < files.len() && !is_elsewhere())
    }

    /// True if a run of this prompt got a number, because a name of its results was taken. The run of a prompt with that number does
    /// not count: a prompt gets the number itself if its own name was taken.
    fn has_numbered_run(&self, beside: &BTreeSet<Self>) -> bool {
        let is_in_the_way = |name: &Self| RUN_ENDINGS.iter().any(|ending| beside.contains(&name.with_ending(ending)));
        if !is_in_the_way(self) {
            return false;
        }
        let mut taken =
            (2..).map(|number| self.numbered(number)).take_while(|name| beside.contains(name) || is_in_the_way(name));
        taken.any(|name| !beside.contains(&name) && name.has_run(beside))
    }

    /// The name of the file with the reason why this one is in `failed/`.
    #[must_use]
    pub fn reason(&self) -> Self {
        self.with_ending(REASON_ENDING)
    }

    /// The name of the prompt and the ending, if this name may be that of a result.
    #[must_use]
    pub fn split_result(&self) -> Option<(Self, &str)> {
        let path = Path::new(&self.0);
        let (stem, ending) = (path.file_stem()?, path.extension()?.to_str()?);
        let is_ending = RUN_ENDINGS.contains(&ending) || ending == REASON_ENDING;
        is_ending.then(|| (Self(stem.to_owned()), ending))
    }

    /// This name with another ending appended.
    #[must_use]
    pub fn with_ending(&self, ending: &str) -> Self {
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

/// The number of prompts in `pending`, `working`, `done` and `failed`, given the names of all files in these folders.
///
/// In the first two, every file is a prompt. In the others, a file with the name of a result is not a prompt if its prompt
/// is in any of the folders, where it may wait again after a failure; nor if all files of a run exist, because the
/// prompts of a worker with a root of its own are elsewhere. A file with results of its own is a prompt in any case: `a.out`
/// with an `a.out.json`.
#[must_use]
pub fn count_prompts(folders: &[BTreeSet<FileName>; 4]) -> [u64; 4] {
    prompts_among(folders).map(|prompts| prompts.len() as u64)
}

/// The prompts themselves, by name, as [`count_prompts`] counts them.
#[must_use]
pub fn prompts_among(folders: &[BTreeSet<FileName>; 4]) -> [Vec<FileName>; 4] {
    let [pending, working, done, failed] = folders;
    let is_known = |name: &OsStr| folders.iter().any(|names| names.contains(&FileName(name.to_owned())));
    let all = |names: &BTreeSet<FileName>| names.iter().filter(|name| name.is_prompt()).cloned().collect();
    let but_results = |names: &BTreeSet<FileName>| {
        names.iter().filter(|name| name.is_prompt() && !name.is_result(names, is_known)).cloned().collect()
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
        // A file in pending/ is handed out, even if its name is that of a result.
        assert_eq!(counts(&["a", "a.out", ".a", "a~"], &[]), [2, 0, 0, 0]);
        // The prompt was removed, or has another name by now.
        assert_eq!(counts(&[], &["a.txt.reason", "b.reason", "b.2.reason"]), [0; 4]);
    }
    fn count_in_done(names: &str) -> u64 {
        let done = names.split_whitespace().map(FileName::from).collect();
        let [_, _, done, _] = count_prompts(&[BTreeSet::new(), BTreeSet::new(), done, BTreeSet::new()]);
        done
    }

    #[test]
    fn prompts_that_are_called_like_results_are_counted() {
        // As a master and a worker leave them: results take another name beside such a prompt, and such a prompt beside
        // results.
        for (count, names) in [
            (2, "a a.out a.out.out a.out.err a.out.json a.2.out a.2.err a.2.json"),
            (2, "a a.out a.err a.json a.2.out a.2.out.out a.2.out.err a.2.out.json"),
            (2, "a a.out a.err a.json a.reason a.reason.out a.reason.err a.reason.json"),
            (2, "a a.json a.json.out a.json.err a.json.json a.2.out a.2.err a.2.json"),
            (
                2,
                "a.json a.json.out a.json.err a.json.2.json a.json.json a.json.json.out a.json.json.err a.json.json.json",
            ),
            (
                3,
                "a a.out a.err a.json a.2.err a.2.err.out a.2.err.err a.2.err.json a.2.json a.2.json.out a.2.json.err a.2.json.json",
            ),
            (3, "a.out a.out.out a.out.json a.err a.err.out a.err.json a.json a.json.err a.json.json"),
        ] {
            assert_eq!(count_in_done(names), count, "{names}");
        }
        let twenty = "a a.2 a.2.2.err a.2.2.json a.2.2.out a.2.json a.2.json.err a.2.json.json a.2.json.out a.2.out
            a.2.out.err a.2.out.json a.2.out.out a.3.err a.3.json a.3.out a.4.json.err a.4.json.json a.4.json.out a.err
            a.err.err a.err.json a.err.out a.json a.json.json a.json.json.err a.json.json.json a.json.json.out a.out
            a.out.2.out a.out.2.out.err a.out.2.out.json a.out.2.out.out a.out.err a.out.json a.out.out a.reason
            a.reason.err a.reason.json a.reason.out b b.2.txt.err b.2.txt.json b.2.txt.out b.err b.json b.out b.txt
            b.txt.json b.txt.json.err b.txt.json.json b.txt.json.out b.txt.out b.txt.out.err b.txt.out.json b.txt.out.out
            c c.2.err c.2.json c.2.out c.err c.err.err c.err.json c.err.out c.json c.json.err c.json.json c.json.out c.out
            c.out.err c.out.json c.out.out d.json d.json.err d.json.json d.json.out d.out.json d.out.json.err
            d.out.json.json d.out.json.out";
        assert_eq!(count_in_done(twenty), 20);
        // Results of a.out were in place before a.out itself, which came after those of a.
        assert_eq!(count_in_done("a a.out a.err a.json a.out.out a.out.err a.out.json a.2.out"), 2);
        // Two prompts that the master has refused.
        assert_eq!(count_in_done("a a.reason a.out a.out.reason"), 2);
    }

    #[test]
    fn results_that_are_called_like_prompts_with_results_are_not_counted() {
        // The prompts a.out and then a, in the root of their master.
        assert_eq!(count_in_done("a.out.out a.out.err a.out.json a.out a.err a.json"), 0);
        // The prompts a.json, a, a.err and a.out.
        let four =
            "a.json.out a.json.err a.json.json a.out a.err a.json a.2.err.out a.2.err.err a.2.err.json a.2.out.out
            a.2.out.err a.2.out.json";
        assert_eq!(count_in_done(four), 0);
        // A name with as many endings as possible.
        let deep: Vec<String> = (0..50).map(|times| format!("a{}", ".json".repeat(times))).collect();
        assert_eq!(count_in_done(&deep.join(" ")), 1);
    }
}
