//! A text in place of the rows: a task, a graph, a log, or the keys.

use anstyle::Style;

use base::Stream;
use term::style::PLAIN;

/// Lines of a log that are kept.
const LOG_LINES_MAX: usize = 5_000;

/// A printable line.
pub(super) type Line = Vec<(Style, String)>;

/// The thing that a pane shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    Task(String),
    Reason(String),
    Graph(String),
    /// An output, with the number of the thread that follows it.
    Log(u64, String, Stream),
    /// A sentence that is longer than its line.
    Sentence,
    Keys,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pane {
    pub(super) about: About,
    pub(super) lines: Vec<Line>,
    /// Lines above the visible part.
    pub(super) top: usize,
    /// Whether it stays at its end when lines come.
    follows: bool,
}

impl Pane {
    pub(super) fn new(about: About, lines: Vec<Line>) -> Self {
        Self { follows: matches!(about, About::Log(..)), about, lines, top: 0 }
    }

    pub(super) fn scroll(&mut self, count: usize, is_down: bool, height: usize) {
        let last = self.lines.len().saturating_sub(height);
        self.top = if is_down { self.top.saturating_add(count).min(last) } else { self.top.saturating_sub(count) };
        self.follows = self.top == last;
    }

    /// Takes its lines, or why there are none.
    pub(super) fn show(&mut self, lines: Result<Vec<Line>, String>, height: usize) {
        self.lines = lines.unwrap_or_else(|why| vec![vec![(PLAIN, why)]]);
        self.top = self.top.min(self.lines.len().saturating_sub(height));
    }

    /// Adds lines of a log; the oldest are dropped.
    pub(super) fn add(&mut self, lines: Vec<String>, height: usize) {
        self.lines.extend(lines.into_iter().map(|line| vec![(PLAIN, line)]));
        let surplus = self.lines.len().saturating_sub(LOG_LINES_MAX);
        self.lines.drain(..surplus);
        let end = self.lines.len().saturating_sub(height);
        self.top = if self.follows { end } else { self.top.saturating_sub(surplus) };
    }
}
