//! Log lines as data: an engine notes them and its shell writes them.

use std::collections::VecDeque;
use std::panic::Location;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is lost or cannot continue.
    Error,
    /// An operator may have to act.
    Warn,
    /// The normal course of events.
    Info,
    /// For debugging only.
    Debug,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its severity.
    pub severity: Severity,
    /// One sentence, without a time.
    pub text: String,
    /// The source location that noted it.
    pub place: &'static Location<'static>,
}

/// The lines that an engine has noted and its shell has not written yet.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    lines: VecDeque<LogLine>,
}

impl Journal {
    /// Notes a line of [`Severity::Error`].
    #[track_caller]
    pub fn error(&mut self, text: impl Into<String>) {
        self.note(Severity::Error, text.into());
    }

    /// Notes a line of [`Severity::Warn`].
    #[track_caller]
    pub fn warn(&mut self, text: impl Into<String>) {
        self.note(Severity::Warn, text.into());
    }

    /// Notes a line of [`Severity::Info`].
    #[track_caller]
    pub fn info(&mut self, text: impl Into<String>) {
        self.note(Severity::Info, text.into());
    }

    /// Notes a line of [`Severity::Debug`].
    #[track_caller]
    pub fn debug(&mut self, text: impl Into<String>) {
        self.note(Severity::Debug, text.into());
    }

    /// Notes a line of this severity.
    #[track_caller]
    pub fn note(&mut self, severity: Severity, text: String) {
        self.lines.push_back(LogLine { severity, text, place: Location::caller() });
    }

    /// Takes all lines, in the order in which they were noted.
    pub fn take(&mut self) -> VecDeque<LogLine> {
        std::mem::take(&mut self.lines)
    }
}
