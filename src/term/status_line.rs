//! The status line at the bottom of the terminal: the progress of a command, or what it waits for. Every other output
//! clears it first.
//!
//! It is written to stderr, and only if that is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use unicode_width::UnicodeWidthStr as _;

use super::table::cut;
use base::printable;

/// Columns that stay free for the `^C` that the terminal prints. At the edge it would begin a new line, and the old one
/// would stay. The libraries that were considered fill the line up to the edge, so none of them draws it.
const ROOM: usize = 3;

/// Whether the line is shown. Any thread that writes output clears it.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Shows a text instead of the previous one, cut at the right edge of the terminal.
pub fn show(text: &str) {
    if !io::stderr().is_terminal() {
        return;
    }
    let mut is_shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    draw(&drawn(text, columns()));
    *is_shown = true;
}

/// As [`show`], with a hint in parentheses behind the text, if the line has room for both.
pub fn show_with_hint(text: &str, hint: &str) {
    show(&hinted(text, hint, columns()));
}

fn hinted(text: &str, hint: &str, columns: Option<usize>) -> String {
    let whole = format!("{text} ({hint})");
    if columns.is_some_and(|columns| whole.width() > columns) { text.to_owned() } else { whole }
}

/// Removes the line, if it is shown.
pub fn clear() {
    let mut is_shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *is_shown) {
        draw(&drawn("", None));
    }
}

/// Maximum columns of a text; `None` if stderr is not a terminal.
pub fn columns() -> Option<usize> {
    let (columns, _) = terminal_size::terminal_size_of(io::stderr())?;
    Some(usize::from(columns.0).saturating_sub(ROOM).max(1))
}

fn drawn(text: &str, columns: Option<usize>) -> String {
    format!("\r\x1b[K{}", cut(&printable(text), columns))
}

fn draw(text: &str) {
    // A failure cannot be reported anywhere else.
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_gives_way_to_the_text() {
        assert_eq!(
            hinted("waiting: agent-1 runs it", "Ctrl-C leaves", Some(40)),
            "waiting: agent-1 runs it (Ctrl-C leaves)"
        );
        assert_eq!(hinted("waiting: agent-1 runs it", "Ctrl-C leaves", Some(39)), "waiting: agent-1 runs it");
    }

    #[test]
    fn the_line_takes_one_line_of_the_terminal() {
        let long = "waiting for 2 of 3 tasks: agent agent-1 runs it (Ctrl-C leaves)".repeat(2);
        for columns in [20, 77, 117] {
            let text = drawn(&long, Some(columns));
            assert_eq!(text.strip_prefix("\r\x1b[K").unwrap().width(), columns, "{text:?}");
        }
        assert_eq!(drawn("a\n\u{1b}[2Jb", None), "\r\x1b[Ka\u{fffd}\u{fffd}[2Jb");
    }
}
