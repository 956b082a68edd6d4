//! Files that travel with a task: its inputs, and the files kept when its run has ended.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::os_text::{is_byte, letters, os_len, shown};
use super::{ToolDigest, os_bytes};

/// The place of a file in the folder in which a run starts: a relative path of normal components, separated by `/`, in
/// the form of [`super::os_text()`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName(Arc<str>);

/// A glob pattern for such places: `*` and `?` match within a component, `**` matches any number of components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(FileName);

/// A text that is not a place in the folder of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFileName {
    /// It has no characters.
    #[error("is empty")]
    Empty,
    /// It has more than [`FileName::BYTES_MAX`] bytes, or a component has more than [`FileName::PART_BYTES_MAX`].
    #[error(
        "is longer than {} bytes, or a part of it is longer than {}",
        FileName::BYTES_MAX,
        FileName::PART_BYTES_MAX
    )]
    Long,
    /// It is absolute.
    #[error("is an absolute path; it must be relative to the folder in which the run starts")]
    Absolute,
    /// A component is `.`, `..` or empty.
    #[error("has a part that is empty, \".\" or \"..\"; it must stay below the folder in which the run starts")]
    NotNormal,
    /// It has a control character.
    #[error("has a control character")]
    Control,
}

impl FileName {
    /// Maximum bytes of a path.
    pub const BYTES_MAX: usize = 1024;
    /// Maximum bytes of a component, as in Linux.
    pub const PART_BYTES_MAX: usize = 255;

    /// Checks a path.
    ///
    /// # Errors
    /// When it is not relative, or has a component that is not a plain name.
    pub fn new(text: &str) -> Result<Self, InvalidFileName> {
        if text.is_empty() {
            return Err(InvalidFileName::Empty);
        }
        if text.starts_with('/') {
            return Err(InvalidFileName::Absolute);
        }
        // `os_bytes` returns `None` for a NUL that is not part of an escape.
        let is_plain = |letter: &str| is_byte(letter) || !letter.contains(char::is_control);
        if os_bytes(text).is_none() || !letters(text).all(is_plain) {
            return Err(InvalidFileName::Control);
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(InvalidFileName::NotNormal);
        }
        if os_len(text) > Self::BYTES_MAX || text.split('/').any(|part| os_len(part) > Self::PART_BYTES_MAX) {
            return Err(InvalidFileName::Long);
        }
        Ok(Self(text.into()))
    }

    /// The path as a message text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its components.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = OsString> {
        // A component of a valid text is valid itself.
        self.0.split('/').map(|part| os_bytes(part).unwrap_or_default())
    }

    /// The path for the file system.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.parts().collect()
    }

    /// Whether this path needs a folder where `other` is a file.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        self.0.strip_prefix(&*other.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FilePattern {
    /// Checks a pattern.
    ///
    /// # Errors
    /// As for the name of a file.
    pub fn new(text: &str) -> Result<Self, InvalidFileName> {
        FileName::new(text).map(Self)
    }

    /// The pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The largest number of components that a matching path can have; `None` if it is unlimited.
    #[must_use]
    pub fn depth_max(&self) -> Option<usize> {
        let mut parts = self.as_str().split('/');
        parts.clone().all(|part| part != "**").then(|| parts.by_ref().count())
    }

    /// Whether it matches the place of a file.
    #[must_use]
    pub fn matches(&self, name: &FileName) -> bool {
        self.matches_text(name.as_str())
    }

    /// Whether it matches a path that need not be a valid [`FileName`].
    #[must_use]
    pub fn matches_text(&self, path: &str) -> bool {
        let (patterns, parts): (Vec<_>, Vec<_>) = (self.as_str().split('/').collect(), path.split('/').collect());
        is_match(
            &patterns,
            &parts,
            |pattern| *pattern == "**",
            |pattern, part| {
                let (pattern, part): (Vec<_>, Vec<_>) = (letters(pattern).collect(), letters(part).collect());
                is_match(&pattern, &part, |one| *one == "*", |one, other| *one == "?" || one == other)
            },
        )
    }
}

/// Whether a sequence matches a pattern in which some items match any number of items. The time is bounded by the
/// product of the lengths, because only the last such item is ever retried.
fn is_match<T>(pattern: &[T], items: &[T], is_any: impl Fn(&T) -> bool, is_equal: impl Fn(&T, &T) -> bool) -> bool {
    let (mut at, mut item, mut retry) = (0, 0, None);
    while let Some(present) = items.get(item) {
        match pattern.get(at) {
            Some(one) if is_any(one) => {
                retry = Some((at, item));
                at += 1;
            }
            Some(one) if is_equal(one, present) => (at, item) = (at + 1, item + 1),
            _ => {
                let Some((any, from)) = retry else { return false };
                retry = Some((any, from + 1));
                (at, item) = (any + 1, from + 1);
            }
        }
    }
    pattern.iter().skip(at).all(is_any)
}

/// A file that a task gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInput {
    /// Its place in the folder in which the run starts.
    pub name: FileName,
    /// The SHA-256 of its content.
    pub digest: ToolDigest,
    /// Whether its owner may execute it.
    pub is_executable: bool,
}

/// The files that a submit names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFiles {
    /// The files that its run finds in the folder in which it starts.
    pub inputs: Vec<TaskInput>,
    /// The files that are kept when a run has ended.
    pub outputs: Vec<FilePattern>,
}

impl TaskFiles {
    /// Maximum number of inputs, and of patterns.
    pub const NAMED_MAX: usize = 100;
}

/// The files of a run that are kept with its task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptFiles {
    /// The files, in the order of their names.
    pub files: Vec<KeptFile>,
    /// Which other matching files are not kept and why, as sentences; or empty.
    pub note: String,
    /// A sentence about patterns that match no file that the run has made or changed; or empty.
    pub idle: String,
}

/// A kept file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    /// Its place in the folder in which the run started.
    pub name: FileName,
    /// The SHA-256 of its content.
    pub digest: ToolDigest,
    /// Bytes of its content.
    pub bytes: u64,
    /// Whether its owner may execute it.
    pub is_executable: bool,
}

impl KeptFiles {
    /// Maximum number of kept files. Their list is a field of the result.
    pub const FILES_MAX: usize = 100;
    /// Maximum bytes of the names of all these files.
    pub const NAMES_BYTES_MAX: usize = 8192;
    /// Maximum bytes of the patterns that are named as idle.
    pub const IDLE_BYTES_MAX: usize = 1000;
    /// Maximum bytes of the note.
    pub const NOTE_BYTES_MAX: usize = 2000;

    /// Bytes of memory that the list costs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let names = self.files.iter().map(|file| size_of::<KeptFile>() + file.name.as_str().len());
        size_of::<Self>() + self.note.len() + self.idle.len() + names.sum::<usize>()
    }

    /// The note, if there is one.
    #[must_use]
    pub fn said(&self) -> Option<&str> {
        Some(self.note.as_str()).filter(|note| !note.is_empty())
    }

    /// Notes that these patterns match no file that the run has made or changed. Those beyond a limit are only counted.
    pub fn add_idle<'a>(&mut self, patterns: impl Iterator<Item = &'a FilePattern>) {
        let (mut named, mut bytes, mut others) = (Vec::new(), 0, 0);
        for pattern in patterns {
            bytes += pattern.as_str().len();
            if bytes > Self::IDLE_BYTES_MAX {
                others += 1;
            } else {
                named.push(format!("'{}'", shown(pattern.as_str())));
            }
        }
        if others > 0 {
            named.push(format!("{others} other patterns"));
        }
        if !named.is_empty() {
            self.idle = format!("the run has made or changed no file that matches --out {}", named.join(", "));
        }
    }

    /// Adds a sentence to the note. Beyond its limit, the note ends with a hint that there is more.
    pub fn add_note(&mut self, sentence: &str) {
        const MORE: &str = "; and more";
        if self.note.ends_with(MORE) {
            return;
        }
        let separator = if self.note.is_empty() { "" } else { "; " };
        if self.note.len() + separator.len() + sentence.len() + MORE.len() > Self::NOTE_BYTES_MAX {
            self.note.push_str(MORE);
        } else {
            self.note.push_str(separator);
            self.note.push_str(sentence);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn only_paths_below_the_folder_are_names() {
        use InvalidFileName::{Absolute, Control, Empty, Long, NotNormal};
        assert_eq!(FileName::new("a\0ff").unwrap().to_string(), "a\\xff");
        let long = "\0ff".repeat(255);
        assert_eq!(FileName::new(&long).unwrap().path().as_os_str().as_bytes(), [0xff; 255]);
        for name in ["a", "a.mov", "sub/dir/a b", "..a", "a..", ".hidden", "\u{e4}"] {
            assert_eq!(FileName::new(name).map(|name| name.to_string()), Ok(name.to_owned()));
        }
        let many_parts = "a/".repeat(600) + "a";
        let cases = [
            ("", Empty),
            ("/etc/passwd", Absolute),
            ("..", NotNormal),
            (".", NotNormal),
            ("a/../b", NotNormal),
            ("a/", NotNormal),
            ("a//b", NotNormal),
            ("./a", NotNormal),
            ("a\nb", Control),
            ("a\0", Control),
            ("a\0FF", Control),
            ("a\x0041", Control),
            (&"\0ff".repeat(256), Long),
            (&"a".repeat(256), Long),
            (&many_parts, Long),
        ];
        for (name, why) in cases {
            assert_eq!(FileName::new(name), Err(why), "{name:?}");
            assert_eq!(FilePattern::new(name), Err(why), "{name:?}");
        }
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        let matches =
            |pattern: &str, name: &str| FilePattern::new(pattern).unwrap().matches(&FileName::new(name).unwrap());
        for (pattern, name) in [
            ("a.mp4", "a.mp4"),
            ("*.mp4", "a.mp4"),
            ("*.mp4", ".mp4"),
            ("*", "a"),
            ("a*b*c", "a-b-b-c"),
            ("?.txt", "\u{e4}.txt"),
            ("out/*", "out/a"),
            ("**/a", "a"),
            ("**/a", "x/y/a"),
            ("out/**", "out/x/y"),
            ("**", "x/y"),
            ("a/**/b", "a/b"),
            ("?.txt", "\0ff.txt"),
            ("*", "\0fe\0ff"),
            ("\0fe*", "\0fe\0ff"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*.mp4", "a.mp4x"),
            ("*.mp4", "out/a.mp4"),
            ("a", "A"),
            ("?", "ab"),
            ("*f", "\0ff"),
            ("out/*", "out/x/y"),
            ("out/*", "out"),
            ("a*b", "abc"),
            ("a/**/b", "a/c"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        let slow = "*a".repeat(100) + "b";
        assert!(!matches(&slow, &"a".repeat(250)), "it ends in bounded time");
    }

    #[test]
    fn a_long_note_says_that_it_is_not_all() {
        let mut kept = KeptFiles::default();
        for number in 0..1000 {
            kept.add_note(&format!("file {number} was not kept"));
        }
        assert!(kept.note.len() <= KeptFiles::NOTE_BYTES_MAX && kept.note.ends_with("; and more"));
        assert!(kept.note.starts_with("file 0 was not kept; file 1 was"));
    }
}
