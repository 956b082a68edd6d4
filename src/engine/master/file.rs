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

    /// The name of the file that says why this one is in `failed/`.
    #[must_use]
    pub fn reason(&self) -> Self {
        let mut name = self.0.clone();
        name.push(".");
        name.push(REASON_ENDING);
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

/// How many of the files of `done/` or `failed/` are prompts, not results beside one.
#[must_use]
pub fn count_prompts(names: &BTreeSet<FileName>) -> u64 {
    let is_result = |name: &FileName| {
        let path = Path::new(name.as_os_str());
        let ending = path.extension().and_then(OsStr::to_str);
        ending.is_some_and(|ending| RESULT_ENDINGS.contains(&ending))
            && path.file_stem().is_some_and(|stem| names.contains(&FileName(stem.to_owned())))
    };
    names.iter().filter(|name| name.is_prompt() && !is_result(name)).count() as u64
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
    fn results_beside_a_prompt_are_not_counted() {
        let names = ["a.txt", "a.txt.out", "a.txt.err", "a.txt.json", "b", "b.reason", "c.out", "c.txt.json", ".d"];
        assert_eq!(count_prompts(&names.iter().map(|name| FileName::from(*name)).collect()), 4);
    }
}
