//! Arguments of a subcommand that are described only when that subcommand is invoked: describing all of them takes longer than many
//! commands run.

use std::ops::{Deref, DerefMut};

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id};

/// The arguments `T`, described on demand.
#[derive(Debug)]
pub(super) struct Later<T>(pub(super) T);

impl<T: Args> Args for Later<T> {
    fn group_id() -> Option<Id> {
        T::group_id()
    }

    fn augment_args(command: Command) -> Command {
        command.defer(describe::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(T::augment_args_for_update)
    }
}

/// Describes the arguments as if they had been there from the start: before the global ones, and without changing the text of the
/// command.
fn describe<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let global: Vec<Id> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    let command = T::augment_args(command).about(about);
    // Changing an argument moves it to the end.
    let command = global.iter().fold(command, |command, id| command.mut_arg(id, |arg| arg));
    with_pointer(command)
}

/// Joins the lines of each sentence, because their breaks would stay at any width of the terminal. Indented lines are kept.
fn flowing(text: &str) -> String {
    let mut flowing = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        flowing.push_str(line);
        if let Some(next) = lines.peek() {
            flowing.push(if breaks_a_sentence(line, next) { ' ' } else { '\n' });
        }
    }
    flowing
}

/// Whether a sentence continues on the next line.
pub(super) fn breaks_a_sentence(line: &str, next: &str) -> bool {
    let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
    is_text(line) && is_text(next) && !line.ends_with(['.', ':'])
}

/// Global options are explained in one place, and not in the help of each command.
fn with_pointer(command: Command) -> Command {
    let own = command.get_after_help().map(|text| format!("{}\n\n", flowing(&text.to_string()))).unwrap_or_default();
    let command = command.after_help(format!("{own}Global options: llts help options"));
    command.mut_subcommands(with_pointer)
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Later<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
