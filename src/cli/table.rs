//! Columns for people: aligned with spaces, cut to the width of a terminal.

use std::borrow::Cow;

use crate::types::printable;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The text of an empty cell.
const NOTHING: &str = "-";

/// The gap between two columns.
const GAP: &str = "  ";

/// Rows of aligned columns below a head.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these names of columns.
    pub(super) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|&name| name.to_owned()).collect()] }
    }

    /// A table of names and values, without a head.
    pub(super) const fn pairs() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds a row. Its cells are untrusted texts: characters that could move the cursor are replaced.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rows.push(cells.into_iter().map(|cell| harmless(cell.as_ref())).collect());
    }

    /// The whole table. On a terminal each line is cut at the right edge.
    pub(super) fn show(&self, width: Option<usize>) -> String {
        aligned(&self.rows).iter().map(|line| format!("{}\n", cut(line, width))).collect()
    }
}

/// Rows of cells as lines with aligned columns.
pub(super) fn aligned(rows: &[impl AsRef<[String]>]) -> Vec<String> {
    let rows = || rows.iter().map(AsRef::as_ref);
    let columns = rows().map(<[String]>::len).max().unwrap_or_default();
    let width = |at| rows().filter_map(|row| row.get(at)).map(|cell: &String| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &[String]| {
        // `{cell:width$}` counts characters, some of which take two columns and some none.
        let cells = row.iter().zip(&widths).map(|(cell, width)| cell.clone() + &" ".repeat(width - cell.width()));
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    rows().map(line).collect()
}

fn harmless(text: &str) -> String {
    if text.is_empty() {
        return NOTHING.to_owned();
    }
    printable(text)
}

/// A line that is not wider than a terminal.
pub(super) fn cut(line: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| (1..line.width()).contains(width)) else { return line.to_owned() };
    let mut left = width - 1;
    let fits = |letter: &char| {
        let rest = left.checked_sub(letter.width().unwrap_or(0));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    line.chars().take_while(fits).chain(['…']).collect()
}

/// A text that is not wider than these columns: its middle is left out, because its beginning and its end tell it from others.
pub(super) fn middle_cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(1);
    let taken = |letters: &mut dyn Iterator<Item = char>, mut left: usize| -> Vec<char> {
        let fits = |letter: &char| {
            let rest = left.checked_sub(letter.width().unwrap_or(0));
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        letters.take_while(fits).collect()
    };
    let start = taken(&mut text.chars(), room / 2);
    let end = taken(&mut text.chars().rev(), room - room / 2);
    Cow::Owned(start.into_iter().chain(['…']).chain(end.into_iter().rev()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["TASK", "N"]);
        table.row(["a", "1"]);
        table.row(["größer", ""]);
        table
    }

    #[test]
    fn columns_are_aligned_without_blanks_at_the_end() {
        assert_eq!(table().show(None), "TASK    N\na       1\ngrößer  -\n");
    }

    #[test]
    fn a_terminal_cuts_lines() {
        assert_eq!(table().show(Some(8)), "TASK   …\na      …\ngrößer …\n");
        assert_eq!(table().show(Some(9)), table().show(None));
    }

    #[test]
    fn a_letter_of_two_columns_is_counted_as_two() {
        let mut table = Table::pairs();
        table.row(["東京", "1"]);
        table.row(["e\u{301}", "2"]);
        assert_eq!(table.show(None), "東京  1\ne\u{301}     2\n");
        assert_eq!(table.show(Some(4)), "東…\ne\u{301}  …\n");
    }

    #[test]
    fn the_ends_of_a_long_text_are_kept() {
        assert_eq!(middle_cut("/data/film37.mov", 16), "/data/film37.mov");
        assert_eq!(middle_cut("/data/film37.mov", 11), "/data…7.mov");
        assert_eq!(middle_cut("東京東京", 5), "東…京");
        assert_eq!(middle_cut("ab", 1), "…");
    }

    #[test]
    fn a_cell_cannot_move_the_cursor() {
        let mut table = Table::pairs();
        table.row(["a\n\x1b[2J"]);
        assert_eq!(table.show(None), "a\u{fffd}\u{fffd}[2J\n");
    }
}
