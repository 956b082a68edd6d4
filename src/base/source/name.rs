//! The name of a program, which is also the name of its folder.

use crate::ToolName;
use crate::checked::checked_text;

/// A checked name: one component of a path, which needs no quotes in a shell command.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramName(String);

/// A text that cannot name a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the name of a program: use 1 to {max} characters of A-Z a-z 0-9 . _ + -, do not begin with - and do not use . or ..",
    max = ProgramName::BYTES_MAX
)]
pub struct InvalidProgramName(String);

impl ProgramName {
    /// Longest name: longer than any sensible one, yet short enough for a file name with a suffix.
    pub const BYTES_MAX: usize = 128;

    /// Checks a text and makes it a name.
    ///
    /// # Errors
    /// When the text is empty, too long, `.` or `..`, begins with `-`, or holds a character outside the allowed set.
    pub fn new(text: &str) -> Result<Self, InvalidProgramName> {
        let fits =
            (1..=Self::BYTES_MAX).contains(&text.len()) && !text.starts_with('-') && ![".", ".."].contains(&text);
        if fits && text.bytes().all(ToolName::is_letter) {
            return Ok(Self(text.to_owned()));
        }
        Err(InvalidProgramName(text.chars().take(Self::BYTES_MAX).collect()))
    }
}

checked_text!(ProgramName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component_that_a_shell_takes_as_it_is() {
        for name in ["program", "crawler-1.1.23", "a+b_c", ".hidden", "..a", &"x".repeat(128)] {
            assert_eq!(ProgramName::new(name).map(|name| name.to_string()), Ok(name.to_owned()));
        }
        let long = "x".repeat(129);
        for name in ["", ".", "..", "-x", "a/b", "../a", "a b", "x;touch y", "$(x)", "a\0", "a\n", "ä", "a@b", &long] {
            assert!(ProgramName::new(name).is_err(), "{name:?}");
        }
        let sentence = ProgramName::new("x;y").unwrap_err().to_string();
        assert!(sentence.starts_with("\"x;y\" is not the name of a program: use 1 to 128"), "{sentence}");
    }
}
