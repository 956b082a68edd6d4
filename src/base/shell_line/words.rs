//! The words of a command, as far as they decide which program reads its values.

use super::Misplaced;
use super::readers::{Reader, reader_in_command};

/// Represents a value among the words of a command.
pub(super) const VALUE: char = '\u{fffd}';

/// The operators of `[[…]]` with arithmetic on both sides.
const COMPARISONS: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// The words of the current command.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) before: Vec<String>,
    pub(super) word: Option<String>,
    /// Whether the next word is the target of a redirection.
    pub(super) is_target: bool,
}

impl Words {
    pub(super) fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    /// A quotation begins, so a word exists even if it stays empty.
    pub(super) fn open(&mut self) {
        self.word.get_or_insert_default();
    }

    pub(super) fn end_word(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.is_target)
        {
            self.before.push(word);
        }
    }

    /// Ends the command, except in `[[…]]`, where the same characters join conditions.
    pub(super) fn end_command(&mut self) {
        if !self.is_in_test() {
            *self = Self::default();
        }
    }

    pub(super) fn is_in_test(&self) -> bool {
        self.before.iter().rfind(|word| ["[[", "]]"].contains(&word.as_str())).is_some_and(|word| word == "[[")
    }

    /// Whether the word begins an array element, whose index bash evaluates as arithmetic.
    pub(super) fn is_subscript(&self) -> bool {
        let Some((name, rest)) = self.word.as_deref().and_then(|word| word.split_once('[')) else { return false };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        !name.is_empty() && name.chars().all(is_name) && !rest.contains(']')
    }

    /// Whether bash evaluates the value as arithmetic, because `[[…]]` compares it with a number; `next` is the word
    /// after it.
    pub(super) fn is_compared(&self, next: &str) -> bool {
        let is_behind = || self.before.last().is_some_and(|last| COMPARISONS.contains(&last.as_str()));
        self.is_in_test() && (is_behind() || COMPARISONS.contains(&next))
    }

    /// Checks that no shell reads the value as part of a script. A value that is a whole script is intended.
    pub(super) fn check_reader(&self, is_word: bool) -> Result<(), Misplaced> {
        // In `--command=…` the option is part of the word.
        let own = self.word.as_deref().and_then(|word| word.split_once('=')).map(|(option, _)| option);
        let before: Vec<&str> = self.before.iter().map(String::as_str).chain(own).collect();
        let is_first = |name: &str| before.last().is_some_and(|last| *last == name || last.starts_with('-'));
        match reader_in_command(&before) {
            None => Ok(()),
            Some(reader) if is_word && is_first(reader.name()) => Ok(()),
            Some(Reader::Shell(name)) => Err(Misplaced::ReadAgain(name.to_owned())),
            Some(Reader::Other(name)) => Err(Misplaced::OtherShell(name.to_owned())),
        }
    }
}
