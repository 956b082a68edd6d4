//! The line that a waiting command shows on a terminal after a second: it says why the command waits. Ctrl-C leaves.
//!
//! Without a terminal, nothing is printed, and SIGINT ends the process as usual.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use crate::map::template::quoted;
use api::wire::requests::explain::explain;
use base::{Mono, os_text};
use llts_client::{Client, ClientError};
use proc::clock;
use proc::signals::{Signal, Signals};
use term::exit::Failure;
use term::{exit, status_line};

/// A user does not notice a shorter wait.
const FIRST: Duration = Duration::from_secs(1);

/// The time between two checks of the reason.
const PAUSE: Duration = Duration::from_secs(2);

/// When to show the user why the command waits.
pub(super) struct Looks(Option<Mono>);

impl Looks {
    /// Never shows anything without a terminal.
    pub(super) fn begin() -> Self {
        Self(io::stderr().is_terminal().then(|| clock::now().mono + FIRST))
    }

    /// The next check, or this moment if it comes first.
    pub(super) fn or(&self, until: Option<Mono>) -> Option<Mono> {
        self.0.into_iter().chain(until).min()
    }

    /// Whether a check is due. The next one follows after a pause.
    pub(super) fn is_due(&mut self) -> bool {
        let now = clock::now().mono;
        let is_due = self.0.is_some_and(|at| at <= now);
        if is_due {
            self.0 = Some(now + PAUSE);
        }
        is_due
    }
}

/// Waits for a command that changes nothing, so that its user can leave at any time.
pub(super) struct Wait {
    signals: Option<Signals>,
    looks: Looks,
}

impl Wait {
    /// Call this before any thread is started.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn begin() -> Result<Self, Failure> {
        let signals = io::stderr().is_terminal().then(|| Signals::install(&[Signal::SIGINT]));
        Ok(Self { signals: signals.transpose().map_err(Failure::failed)?, looks: Looks::begin() })
    }

    /// Asks until an answer shows the end, or `until` has passed; `None` if the user leaves. `ask` waits for an end until the given
    /// moment, and returns `None` if the descriptor becomes readable. `line` describes the wait that an answer shows; the hint says what
    /// Ctrl-C does.
    ///
    /// # Errors
    /// Those of `ask` and `line`.
    pub(super) fn wait<A>(
        &mut self,
        until: Option<Mono>,
        mut ask: impl FnMut(Option<Mono>, Option<BorrowedFd<'_>>) -> Result<Option<A>, ClientError>,
        has_ended: impl Fn(&A) -> bool,
        (hint, mut line): (&str, impl FnMut(&A) -> Result<String, ClientError>),
    ) -> Result<Option<A>, Failure> {
        loop {
            let answer = ask(self.looks.or(until), self.signals.as_ref().map(|signals| signals.as_fd()))?;
            let Some(answer) = answer else {
                match self.signals.as_mut().map(Signals::read) {
                    Some(signals) if signals.is_empty() => continue,
                    _ => {
                        status_line::clear();
                        return Ok(None);
                    }
                }
            };
            if has_ended(&answer) || until.is_some_and(|until| until <= clock::now().mono) {
                status_line::clear();
                return Ok(Some(answer));
            }
            if self.looks.is_due() {
                status_line::show_with_hint(&line(&answer)?, hint);
            }
        }
    }
}

/// The controller's sentence about why a task has not finished.
pub(super) fn why(client: &Client, task: &str) -> Result<String, ClientError> {
    Ok(term::times::readable(client.ask(&explain(task))?.why()))
}

/// The failure of a command whose user leaves: it says what goes on, and how to come back.
pub(super) fn left(what_goes_on: &str) -> Failure {
    Failure::new(exit::INTERRUPTED, format!("left; {what_goes_on}: {}", typed()))
}

/// This command as it was typed, without one option and its value.
pub(super) fn typed_without(option: &str) -> String {
    let words: Vec<String> = words().collect();
    let is_value = |at: usize| at > 0 && words[at - 1] == option;
    let is_option = |word: &str| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    let kept = words.iter().enumerate().filter(|(at, word)| !is_option(word) && !is_value(*at));
    line_of(kept.map(|(_, word)| word.clone()))
}

/// This command, as it was typed.
fn typed() -> String {
    line_of(words())
}

fn words() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| os_text(&word))
}

fn line_of(words: impl Iterator<Item = String>) -> String {
    let words = words.map(|word| quoted(&word).into_owned());
    std::iter::once("llts".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
