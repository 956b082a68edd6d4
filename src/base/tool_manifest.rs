//! The contents of a tool's `tool.toml`, and a version of a tool as the controller keeps it.

use std::sync::Arc;
use std::time::Duration;

use super::{EndSignal, FileName, FilePattern, Scalar, ToolDigest, ToolName, Wall};

/// The content of a `tool.toml`. A tool that declares no parameters takes any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolManifest {
    /// A text for people; empty if there is none.
    pub description: String,
    /// The parameters, in the order of the file.
    pub parameters: Vec<ToolParameter>,
    /// The first signal to its run.sh when that must end, for a task that names none.
    pub end_signal: Option<EndSignal>,
    /// The places of inputs that the tool expects. Other inputs go into a separate folder if their sender may not send
    /// commands.
    pub inputs: Vec<FilePattern>,
    /// How it stays for one task after the other; `None` for a tool that is started for each task.
    pub stay: Option<Stay>,
    /// The file itself.
    pub text: String,
}

/// The terms of a tool that stays: `[stay]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Tasks after which it ends; `None`: no such limit.
    pub max_tasks: Option<u64>,
    /// How long it stays without a task.
    pub idle: Duration,
    /// Bytes of memory of its processes above which it ends after a task; `None`: no such limit.
    pub memory: Option<u64>,
    /// How long it may take until it says that it is ready.
    pub start_timeout: Duration,
    /// Whether each task has a folder of its own.
    pub folder: bool,
}

impl Default for Stay {
    fn default() -> Self {
        let (idle, start_timeout) = (Duration::from_mins(5), Duration::from_mins(1));
        Self { max_tasks: None, idle, memory: None, start_timeout, folder: false }
    }
}

/// A parameter of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolParameter {
    /// Its name.
    pub name: String,
    /// The type of its value.
    pub kind: ParameterKind,
    /// The value for a submit without one.
    pub default: Option<Scalar>,
    /// Whether a submit without it is refused.
    pub required: bool,
    /// A text for people; empty if there is none.
    pub description: String,
}

/// The type of the value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Any text.
    Text,
    /// A whole number, or a text that is one.
    Integer,
    /// A number, or a text that is one.
    Number,
    /// True or false, or a text that is one of them.
    Boolean,
}

impl ParameterKind {
    const ALL: [Self; 4] = [Self::Text, Self::Integer, Self::Number, Self::Boolean];

    /// Its word in a `tool.toml`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether a value is of this type. The command line sends every value as a text, so a text counts as the value it
    /// contains.
    #[must_use]
    pub fn admits(self, value: &Scalar) -> bool {
        let text = value.as_text();
        match self {
            Self::Text => text.is_some(),
            Self::Integer => {
                value.as_i64().is_some()
                    || value.as_u64().is_some()
                    || text.is_some_and(|text| text.parse::<i64>().is_ok())
            }
            Self::Number => {
                let is_finite = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
                value.as_f64().is_some() || text.is_some_and(is_finite)
            }
            Self::Boolean => value.as_bool().is_some() || matches!(text, Some("true" | "false")),
        }
    }
}

/// A version of a tool in the store of the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldTool {
    /// Name of the tool.
    pub name: ToolName,
    /// The version.
    pub digest: ToolDigest,
    /// Bytes of the archive.
    pub size: u64,
    /// Since when the name refers to this version.
    pub at: Wall,
    /// The origin: a person for a pushed version, otherwise the controller's folder.
    pub by: Arc<str>,
    /// Its `tool.toml`; `None` without one.
    pub manifest: Option<Arc<ToolManifest>>,
    /// The content of its folder.
    pub paths: ToolPaths,
}

/// The sorted paths of the files, folders and links of a version of a tool, in its folder. If they have more than
/// [`Self::BYTES_MAX`] bytes, none are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolPaths(Arc<[Box<str>]>);

impl ToolPaths {
    /// Maximum bytes of the paths. A controller keeps them in memory, and may hold thousands of tools.
    pub const BYTES_MAX: usize = 64 << 10;

    /// The paths of a version. The path of a folder ends with a slash.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = String>) -> Self {
        let mut known: Vec<Box<str>> = paths.into_iter().map(String::into_boxed_str).collect();
        if known.iter().map(|path| path.len()).sum::<usize>() > Self::BYTES_MAX {
            return Self::default();
        }
        known.sort_unstable();
        Self(known.into())
    }

    /// Whether something is known to exist at this path, or something other than a folder at the path of one of its
    /// parents.
    #[must_use]
    pub fn has(&self, name: &FileName) -> bool {
        let (name, in_it) = (name.as_str(), format!("{name}/"));
        let from = |start: &str| self.0.get(self.0.partition_point(|path| **path < *start));
        let is_no_folder = |path: &str| from(path).is_some_and(|known| **known == *path);
        let mut on_the_way = name.match_indices('/').map(|(at, _)| &name[..at]);
        // An archive may have files in a folder that it does not list separately.
        is_no_folder(name) || from(&in_it).is_some_and(|path| path.starts_with(&in_it)) || on_the_way.any(is_no_folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_known_by_their_files_and_by_folders_that_no_entry_names() {
        let paths = ToolPaths::new(["run.sh", "lib-2/x", "lib/a/b", "data/"].map(str::to_owned));
        let has = |name| paths.has(&FileName::new(name).unwrap());
        assert!(["run.sh", "lib", "lib/a", "lib/a/b", "lib-2", "data"].into_iter().all(has));
        assert!(!["run", "lib/b", "data/x", "x", "z"].into_iter().any(has));
        assert!(["run.sh/x", "run.sh/x/y", "lib/a/b/c"].into_iter().all(has), "a file is no folder");
        let long = ToolPaths::new(["a".to_owned(), "b".repeat(ToolPaths::BYTES_MAX)]);
        assert_eq!(long, ToolPaths::default());
    }
}
