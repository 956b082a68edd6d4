//! The name of a tool: `__OPERATION__` (docs/sources/controller.md, 3.1), or the operation that runs a command instead.

use std::sync::{Arc, LazyLock};

use super::checked::checked_text;

/// A checked tool name. It becomes a file name, so a name that could leave the tools folder is refused.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

/// The built-in operation for commands. No tool can have this name, because `:` is not allowed in one.
static COMMAND: LazyLock<ToolName> = LazyLock::new(|| ToolName(":command".into()));

/// The built-in operation for programs that an agent fetches.
static SOURCE: LazyLock<ToolName> = LazyLock::new(|| ToolName(":source".into()));

/// The mark of an agent that fetches tools.
static FETCHED: LazyLock<ToolName> = LazyLock::new(|| ToolName(":fetched".into()));

/// A text that is not a tool name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a tool name: use 1 to {max} characters of A-Z a-z 0-9 . _ + - and do not begin with . or -",
    max = ToolName::BYTES_MAX
)]
pub struct InvalidToolName(String);

impl ToolName {
    /// Longest name: longer than any sensible one, yet short enough for every file system with `.tar.gz` appended.
    pub const BYTES_MAX: usize = 128;

    /// Whether a name may contain this byte. The same holds for names of programs.
    pub(super) fn is_letter(byte: u8) -> bool {
        byte.is_ascii_alphanumeric() || b"._+-".contains(&byte)
    }

    /// Checks a text and makes it a tool name.
    ///
    /// # Errors
    /// When the text is empty, too long, begins with `.` or `-`, or holds a character outside the allowed set.
    pub fn new(text: &str) -> Result<Self, InvalidToolName> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len()) && !text.starts_with(['.', '-']);
        if fits && text.bytes().all(Self::is_letter) {
            return Ok(Self(text.into()));
        }
        Err(InvalidToolName(text.chars().take(Self::BYTES_MAX).collect()))
    }

    /// The built-in operation that runs the command in the fields of the task ([`super::TaskCommand`]) and needs no archive.
    #[must_use]
    pub fn command() -> Self {
        COMMAND.clone()
    }

    /// The built-in operation that fetches the program of the task from its source ([`super::TaskSource`]).
    #[must_use]
    pub fn source() -> Self {
        SOURCE.clone()
    }

    /// Whether it is the operation for programs that an agent fetches.
    #[must_use]
    pub fn is_source(&self) -> bool {
        *self == *SOURCE
    }

    /// Whether it is the operation for commands.
    #[must_use]
    pub fn is_command(&self) -> bool {
        *self == *COMMAND
    }

    /// The element of a [`super::ToolSet`] that represents every tool that the controller holds.
    #[must_use]
    pub fn fetched() -> Self {
        FETCHED.clone()
    }

    /// Whether it names an archive, not a built-in operation or the mark of an agent that fetches tools.
    #[must_use]
    pub fn is_archive(&self) -> bool {
        !self.0.starts_with(':')
    }

    /// Checks a stored text: a tool name, or a built-in operation.
    ///
    /// # Errors
    /// When the text is neither.
    pub fn stored(text: &str) -> Result<Self, InvalidToolName> {
        let built_in = [&COMMAND, &SOURCE].into_iter().find(|operation| operation.as_str() == text);
        built_in.map_or_else(|| Self::new(text), |operation| Ok((*operation).clone()))
    }

    /// The name of the folder in which it runs, below the folder of a task.
    #[must_use]
    pub fn folder_name(&self) -> &str {
        self.0.strip_prefix(':').unwrap_or(&self.0)
    }

    /// The name of the tool's archive.
    #[must_use]
    pub fn archive_name(&self) -> String {
        format!("{}.tar.gz", self.0)
    }
}

checked_text!(ToolName);

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a plain file name becomes a tool name (docs/design/hazards.md, F1).
    #[test]
    fn a_name_that_could_leave_the_folder_is_refused() {
        let long = "x".repeat(5_000);
        for text in [
            "",
            ".",
            "..",
            "../../etc/x",
            "/abs",
            "a/b",
            "a\0b",
            &long,
            "-rf",
            ".hidden",
            "x%2e",
            "x\n",
            "ｘ",
            "a b",
            "a\\b",
            "tool\u{202e}",
        ] {
            assert!(ToolName::new(text).is_err(), "{text:?}");
        }
        assert_eq!(ToolName::new("hello-world_2.0+x").unwrap().archive_name(), "hello-world_2.0+x.tar.gz");
    }

    #[test]
    fn the_built_in_operation_is_no_tool() {
        let command = ToolName::command();
        assert!(ToolName::new(command.as_str()).is_err());
        assert!(ToolName::stored(command.as_str()).unwrap().is_command());
        assert!(!ToolName::stored("command").unwrap().is_command());
        assert_eq!(command.folder_name(), "command");
        let source = ToolName::source();
        assert!(ToolName::new(source.as_str()).is_err() && !source.is_command() && !command.is_source());
        assert!(ToolName::stored(source.as_str()).unwrap().is_source());
        assert!(!source.is_archive() && !command.is_archive() && ToolName::new("source").unwrap().is_archive());
    }
}
