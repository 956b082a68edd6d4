//! Programs that read one of their arguments as a script.

use std::ffi::OsStr;
use std::path::Path;

/// Shells that read single and double quotes as sh does.
const SHELLS: [&str; 10] = ["sh", "bash", "dash", "ksh", "zsh", "ash", "mksh", "yash", "rbash", "$SHELL"];

/// Shells with other quotes.
const OTHERS: [&str; 5] = ["fish", "csh", "tcsh", "nu", "pwsh"];

/// Programs that pass the text of their option -c to a shell. Other words may come before that option.
const RUNNERS: [&str; 4] = ["su", "runuser", "flock", "script"];

/// The long names of that option.
const LONG_SCRIPT: [&str; 2] = ["--command", "--session-command"];

/// Commands of a shell that read their arguments as code.
const BUILT_IN: [&str; 3] = ["eval", "trap", "let"];

/// Options of bash that take the next word as a value.
const LONG_WITH_VALUE: [&str; 2] = ["--rcfile", "--init-file"];

/// The reader of a word as a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader<'a> {
    /// A shell with the quotes of sh.
    Shell(&'a str),
    /// A shell with other quotes.
    Other(&'a str),
}

impl<'a> Reader<'a> {
    /// Its name, as written among the words.
    #[must_use]
    pub const fn name(self) -> &'a str {
        match self {
            Self::Shell(name) | Self::Other(name) => name,
        }
    }
}

/// Whether the path of a program names a shell with the quotes of sh.
#[must_use]
pub fn is_shell(program: &OsStr) -> bool {
    Path::new(program).file_name().and_then(OsStr::to_str).is_some_and(|name| SHELLS.contains(&name))
}

/// The shell that gets the word after these as the script of its option -c. It may follow a wrapper such as env or timeout.
#[must_use]
pub fn reader_behind<'a>(words: &[&'a str]) -> Option<Reader<'a>> {
    words.iter().enumerate().find_map(|(at, word)| {
        let name = word.rsplit('/').next()?;
        let behind = words.get(at + 1..)?;
        let (reader, is_next) = match name {
            // A variable used as a program counts as a shell if it gets a script.
            name if SHELLS.contains(&name) || name.starts_with('$') => (Reader::Shell(word), script_is_next(behind)),
            name if RUNNERS.contains(&name) => (Reader::Shell(word), behind.last().is_some_and(|last| is_script(last))),
            name if OTHERS.contains(&name) => (Reader::Other(word), script_is_next(behind)),
            // env splits the text by its own rules.
            "env" => (Reader::Other(word), behind.last().is_some_and(|last| is_split(last))),
            _ => return None,
        };
        is_next.then_some(reader)
    })
}

/// Whether an option takes the next word as a script.
fn is_script(option: &str) -> bool {
    let is_short = option.starts_with('-') && !option.starts_with("--") && option.ends_with('c');
    is_short || LONG_SCRIPT.contains(&option)
}

/// Whether an option of env makes it split the next word into several.
fn is_split(option: &str) -> bool {
    let is_short = option.starts_with('-') && !option.starts_with("--") && option.ends_with('S');
    is_short || option == "--split-string"
}

/// As [`reader_behind`], for a command in a script, where built-in commands also read code.
pub(super) fn reader_in_command<'a>(words: &[&'a str]) -> Option<Reader<'a>> {
    let built_in = words.iter().find(|word| BUILT_IN.contains(word)).map(|word| Reader::Shell(word));
    built_in.or_else(|| reader_behind(words))
}

/// Whether only options separate a shell from its next word, and -c is one of them.
fn script_is_next(options: &[&str]) -> bool {
    let mut has_script = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if ["-", "--"].contains(option) {
            return has_script && options.next().is_none();
        }
        if option.starts_with("--") {
            if LONG_WITH_VALUE.contains(option) {
                options.next();
            }
            continue;
        }
        let Some(letters) = option.strip_prefix(['-', '+']) else { return false };
        has_script |= option.starts_with('-') && letters.contains('c');
        // Each of these takes the name of a shell option.
        letters.matches(['o', 'O']).for_each(|_| _ = options.next());
    }
    has_script
}
