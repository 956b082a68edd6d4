//! Tables for people: aligned with spaces, and fitted to the width of a terminal.
//!
//! | a column | on a terminal |
//! |---|---|
//! | that is empty, or the same in all rows | is left out, if it allows that |
//! | that gives way | loses the middle or the end of its cells |
//! | with a rank | is left out if the columns do not fit, the highest rank first |
//!
//! Elsewhere every column stays and nothing is cut, so that a program finds each column in its place.

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

use super::style::{Look, PLAIN, STRONG, Screen, aligned};
use base::{beginning, middle, printable};

/// The text of an empty cell.
const NOTHING: &str = "-";

/// Columns up to which a cell is padded where nothing is cut.
const PADDED_MAX: usize = 40;

/// The gap between two columns.
const GAP: usize = 2;

/// How a column gives way when the terminal is too narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Give {
    /// It keeps its width.
    Nothing,
    /// It cuts the middle of its cells, down to this width.
    Middle(usize),
    /// It cuts the end of its cells, down to this width.
    End(usize),
}

/// When a column is left out on a terminal, whatever its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// It is always shown.
    Never,
    /// If it is empty in all rows.
    Empty,
    /// If it is empty or zero in all rows.
    Zero,
    /// If it is the same in all rows.
    Alike,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    is_number: bool,
    give: Give,
    omit: Omit,
    /// Columns with a higher rank are left out earlier. A column with rank 0 stays.
    rank: u8,
}

impl Column {
    /// A column that is never cut or left out.
    pub const fn new(name: &'static str) -> Self {
        Self { name, is_number: false, give: Give::Nothing, omit: Omit::Never, rank: 0 }
    }

    /// The column with right-aligned cells.
    pub const fn number(self) -> Self {
        Self { is_number: true, ..self }
    }

    /// Sets how the column gives way when the table is too wide.
    pub const fn gives(self, give: Give) -> Self {
        Self { give, ..self }
    }

    /// Sets when the column is left out.
    pub const fn omitted_if(self, omit: Omit) -> Self {
        Self { omit, ..self }
    }

    /// Sets its rank in the order in which columns are left out.
    pub const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The column for a reader who asks for it: it is never left out.
    pub const fn wanted(self) -> Self {
        Self { omit: Omit::Never, rank: 0, ..self }
    }
}

/// A cell: a text with its style.
#[derive(Clone, Debug)]
struct Cell {
    style: Style,
    text: String,
}

/// Rows of aligned columns, with a head unless they are pairs.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    has_head: bool,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with columns of these names.
    pub fn new(head: &[&'static str]) -> Self {
        Self::of(head.iter().map(|name| Column::new(name)))
    }

    /// A table with these columns.
    pub fn of(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), has_head: true, rows: Vec::new() }
    }

    /// A table of names and values, without a head.
    pub const fn pairs() -> Self {
        Self { columns: Vec::new(), has_head: false, rows: Vec::new() }
    }

    /// Adds a row of untrusted texts. Characters that could act on a terminal are replaced.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.styled_row(cells.into_iter().map(|cell| (PLAIN, cell.as_ref().to_owned())));
    }

    /// Adds a row of untrusted texts with styles.
    pub fn styled_row(&mut self, cells: impl IntoIterator<Item = (Style, String)>) {
        let cell = |(style, text): (Style, String)| Cell {
            style,
            text: if text.is_empty() { NOTHING.to_owned() } else { printable(&text) },
        };
        let row: Vec<Cell> = cells.into_iter().map(cell).collect();
        while self.columns.len() < row.len() {
            self.columns.push(Column::new(""));
        }
        self.rows.push(row);
    }

    /// Whether it has no rows.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The whole table.
    pub fn show(&self, look: Look) -> String {
        let mut screen = Screen::new(look);
        self.draw(&mut screen);
        screen.text()
    }

    /// The whole table with tabs between the cells, none of which is cut.
    pub fn show_tabbed(&self) -> String {
        let mut text = String::new();
        let head = self.has_head.then(|| self.columns.iter().map(|column| column.name).collect::<Vec<_>>());
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>());
        for line in head.into_iter().chain(rows) {
            text.push_str(&line.join("\t"));
            text.push('\n');
        }
        text
    }

    /// Adds the table to a screen.
    pub fn draw(&self, screen: &mut Screen) {
        if !self.has_head && self.columns.len() == 2 {
            return self.draw_pairs(screen);
        }
        let look = screen.look();
        let shown = self.fitted(look);
        if self.has_head {
            let head = |(at, width): &(usize, usize)| {
                let column = self.columns[*at];
                (STRONG, aligned(column.name, *width, column.is_number))
            };
            screen.lines(vec![gapped(shown.iter().map(head))]);
        }
        for row in &self.rows {
            let cell = |(at, width): &(usize, usize)| {
                let column = self.columns[*at];
                let Cell { style, text } = row.get(*at)?;
                let text = match column.give {
                    Give::Middle(_) => middle(text, *width),
                    Give::End(_) => beginning(text, *width),
                    Give::Nothing => text.clone(),
                };
                Some((*style, aligned(&text, *width, column.is_number)))
            };
            screen.lines(vec![gapped(shown.iter().filter_map(cell))]);
        }
    }

    /// Draws pairs. A value of which people need every character, such as an address, is wrapped instead of cut.
    fn draw_pairs(&self, screen: &mut Screen) {
        let columns = self.natural(0) + GAP;
        for row in &self.rows {
            if let [name, value] = &row[..] {
                screen.behind((name.style, &name.text, columns), value.style, &value.text);
            }
        }
    }

    /// The shown columns as index and width.
    fn fitted(&self, look: Look) -> Vec<(usize, usize)> {
        let mut shown: Vec<(usize, usize)> =
            (0..self.columns.len()).filter(|at| !self.is_omitted(*at, look)).map(|at| (at, self.natural(at))).collect();
        let Some(room) = look.width.filter(|width| *width > 0) else {
            // Nothing is cut; one long cell is not to move the cells of all rows out of sight.
            let of_uncut = shown.iter_mut().filter(|(at, _)| matches!(self.columns[*at].give, Give::Nothing));
            of_uncut.for_each(|(_, width)| *width = (*width).min(PADDED_MAX));
            return shown;
        };
        let least = |(at, natural): &(usize, usize)| match self.columns[*at].give {
            Give::Nothing => *natural,
            Give::Middle(min) | Give::End(min) => min.min(*natural),
        };
        let gaps = |shown: &[(usize, usize)]| GAP * shown.len().saturating_sub(1);
        while shown.iter().map(least).sum::<usize>() + gaps(&shown) > room {
            let ranked = shown.iter().enumerate().filter(|(_, (at, _))| self.columns[*at].rank > 0);
            let Some((place, _)) = ranked.max_by_key(|(_, (at, _))| self.columns[*at].rank) else { break };
            shown.remove(place);
        }
        let mut spare = room.saturating_sub(shown.iter().map(least).sum::<usize>() + gaps(&shown));
        let wanted: Vec<usize> = shown.iter().map(|(_, natural)| *natural).collect();
        for column in &mut shown {
            column.1 = least(column);
        }
        // One terminal column at a time, so that the columns that give way become equally wide.
        while spare > 0 {
            let mut has_grown = false;
            for (column, wanted) in shown.iter_mut().zip(&wanted) {
                if column.1 < *wanted && spare > 0 {
                    column.1 += 1;
                    spare -= 1;
                    has_grown = true;
                }
            }
            if !has_grown {
                break;
            }
        }
        shown
    }

    fn is_omitted(&self, at: usize, look: Look) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.as_str());
        let is_empty = |text: &str| text == NOTHING;
        let omit = self.columns[at].omit;
        look.is_terminal
            && match omit {
                Omit::Never => false,
                Omit::Empty => cells.all(is_empty),
                Omit::Zero => cells.all(|cell| is_empty(cell) || cell == "0"),
                Omit::Alike => match cells.next() {
                    Some(first) if is_empty(first) => cells.all(is_empty),
                    Some(first) => self.rows.len() > 1 && cells.all(|cell| cell == first),
                    None => true,
                },
            }
    }

    fn natural(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.width());
        let head = if self.has_head { self.columns[at].name.width() } else { 0 };
        cells.max().unwrap_or_default().max(head)
    }
}

fn gapped(cells: impl Iterator<Item = (Style, String)>) -> Vec<(Style, String)> {
    let mut parts = Vec::new();
    for cell in cells {
        if !parts.is_empty() {
            parts.push((PLAIN, " ".repeat(GAP)));
        }
        parts.push(cell);
    }
    parts
}

/// A line cut to this width, if there is one.
pub(crate) fn cut(line: &str, width: Option<usize>) -> String {
    match width.filter(|width| *width > 0) {
        Some(width) => beginning(line, width),
        None => line.to_owned(),
    }
}

/// A number with a comma for each thousand.
pub fn grouped(number: impl ToString + Copy) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: Look = Look { width: None, is_terminal: false, is_coloured: false };

    const fn terminal(width: usize) -> Look {
        Look { width: Some(width), is_terminal: true, is_coloured: false }
    }

    fn table() -> Table {
        let mut table = Table::new(&["TASK", "N"]);
        table.row(["a", "1"]);
        table.row(["größer", ""]);
        table
    }

    #[test]
    fn one_long_cell_moves_no_other_row_where_nothing_is_cut() {
        let mut table = Table::new(&["A", "B"]);
        table.row(["short", "1"]);
        table.row([&"x".repeat(50), "2"]);
        let shown = table.show(Look::plain(None));
        let columns: Vec<_> = shown.lines().map(str::len).collect();
        assert_eq!(columns, [43, 43, 53], "{shown}");
    }

    #[test]
    fn columns_are_aligned_without_blanks_at_the_end() {
        assert_eq!(table().show(PIPE), "TASK    N\na       1\ngrößer  -\n");
    }

    #[test]
    fn a_terminal_cuts_lines() {
        assert_eq!(table().show(terminal(8)), "TASK   …\na      …\ngrößer …\n");
        assert_eq!(table().show(terminal(9)), table().show(PIPE));
    }

    #[test]
    fn a_letter_of_two_columns_is_counted_as_two() {
        let mut table = Table::pairs();
        table.row(["東京", "1"]);
        table.row(["e\u{301}", "2"]);
        assert_eq!(table.show(PIPE), "東京  1\ne\u{301}     2\n");
        assert_eq!(table.show(terminal(4)), "東…\ne\u{301}  …\n");
    }

    #[test]
    fn the_value_of_a_pair_is_wrapped() {
        let mut table = Table::pairs();
        table.row(["controller", "ipc:///var/lib/llts/state/controller.sock, tcp://127.0.0.1:15555"]);
        assert_eq!(
            table.show(terminal(60)),
            "controller  ipc:///var/lib/llts/state/controller.sock,\n            tcp://127.0.0.1:15555\n"
        );
    }

    #[test]
    fn a_cell_cannot_move_the_cursor() {
        let mut table = Table::pairs();
        table.row(["a\n\x1b[2J"]);
        assert_eq!(table.show(PIPE), "a\u{fffd}\u{fffd}[2J\n");
    }

    fn of_all_kinds() -> Table {
        let mut table = Table::of([
            Column::new("ID"),
            Column::new("EXIT").number().omitted_if(Omit::Empty),
            Column::new("JOB").omitted_if(Omit::Alike).rank(2),
            Column::new("AGENT").rank(3),
            Column::new("WHAT").gives(Give::Middle(8)),
            Column::new("WHY").gives(Give::End(6)),
        ]);
        table.row(["aaaaa", "", "j", "agent-1", "convert in=/data/film7.mov", "corrupt header in /data/film7.mov"]);
        table.row(["bbbbb", "", "j", "agent-2", "true", ""]);
        table
    }

    #[test]
    fn a_terminal_gets_the_columns_that_say_something_and_fit() {
        for width in [100, 60, 28] {
            insta::assert_snapshot!(format!("table_{width}"), of_all_kinds().show(terminal(width)));
        }
        let pipe = of_all_kinds().show(PIPE);
        assert!(pipe.starts_with("ID     EXIT  JOB  AGENT    WHAT") && pipe.contains("film7.mov\n"), "{pipe}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 1..120 {
            for line in of_all_kinds().show(terminal(width)).lines() {
                assert!(line.width() <= width, "{line:?} at {width}");
            }
        }
    }

    #[test]
    fn a_program_gets_tabs_and_whole_cells() {
        assert_eq!(table().show_tabbed(), "TASK\tN\na\t1\ngrößer\t-\n");
    }
}
