//! A page of the manual on a terminal.

use unicode_width::UnicodeWidthStr as _;

use super::blocks::Block;
use term::style::wrapped;

/// Blanks between two columns of a table.
const GAP: usize = 2;

/// Minimum width of a table's column, unless its cells are narrower.
const NARROWEST: usize = 8;

/// The page in lines of at most this width, except for lines of code. Headings are bold.
pub(super) fn render(blocks: &[Block], columns: usize) -> String {
    let mut page = String::new();
    let bold = anstyle::Style::new().bold();
    let mut was_item = false;
    for block in blocks {
        let is_item = matches!(block, Block::Item(..));
        if !(page.is_empty() || is_item && was_item) {
            page.push('\n');
        }
        was_item = is_item;
        match block {
            Block::Heading(level, title) => {
                let title = if *level == 1 { title.to_uppercase() } else { title.clone() };
                page.push_str(&format!("{bold}{title}{bold:#}\n"));
            }
            Block::Code(lines) => lines.iter().for_each(|line| page.push_line(format!("    {line}").trim_end())),
            Block::Table(rows) => table(rows, columns).iter().for_each(|line| page.push_line(line)),
            Block::Text(text) => folded(text, columns).iter().for_each(|line| page.push_line(line)),
            Block::Item(mark, text) => {
                let indent = mark.width() + 1;
                for (at, line) in folded(text, columns.saturating_sub(indent)).iter().enumerate() {
                    let mark = if at == 0 { mark.as_str() } else { "" };
                    page.push_line(&format!("{mark:indent$}{line}"));
                }
            }
        }
    }
    page
}

trait Lines {
    fn push_line(&mut self, line: &str);
}

impl Lines for String {
    fn push_line(&mut self, line: &str) {
        self.push_str(line);
        self.push('\n');
    }
}

/// The lines of a table. Cells that are wider than their column are folded.
pub(super) fn table(rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widest =
        |at| rows.iter().filter_map(|row| row.get(at)).map(|cell: &String| cell.width()).max().unwrap_or_default();
    let widths = shares((0..count).map(widest).collect(), columns.saturating_sub(GAP * count.saturating_sub(1)));
    let mut lines = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| folded(cell, *width)).collect();
        for at in 0..cells.iter().map(Vec::len).max().unwrap_or_default() {
            let part = |(cell, width): (&Vec<String>, &usize)| {
                let text = cell.get(at).map_or("", String::as_str);
                format!("{text}{}", " ".repeat(width.saturating_sub(text.width()) + GAP))
            };
            lines.push(cells.iter().zip(&widths).map(part).collect::<String>().trim_end().to_owned());
        }
        if number == 0 {
            lines.push(widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join(&" ".repeat(GAP)));
        }
    }
    lines
}

/// Column widths whose sum is at most this: the widest columns shrink.
fn shares(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max().filter(|widest| **widest > NARROWEST) {
            Some(widest) => *widest -= 1,
            None => break,
        }
    }
    widths
}

/// A text in lines of at most this width, without repeated blanks. A longer word is cut.
fn folded(text: &str, width: usize) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    wrapped(&text, Some(width.max(1))).into_iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::manual::blocks::parse;

    const PAGE: &str = "# Files\n\nA task may get files along, and give others back when it has ended.\n\n\
        | option | meaning |\n|---|---|\n| `--in FILE` | a file that is sent along, with its mode and its name |\n| `-o` | one back |\n\n\
        - one\n- two\n\n```sh\nllts run --in a.txt -- wc a.txt\n```\n";

    #[test]
    fn a_page_is_folded_at_the_edge() {
        let plain = |columns| anstream::adapter::strip_str(&render(&parse(PAGE), columns)).to_string();
        insta::assert_snapshot!(plain(40), @r"
        FILES

        A task may get files along, and give
        others back when it has ended.

        option       meaning
        -----------  ---------------------------
        `--in FILE`  a file that is sent along,
                     with its mode and its name
        `-o`         one back

        - one
        - two

            llts run --in a.txt -- wc a.txt
        ");
        assert!(plain(80).contains("a file that is sent along, with its mode and its name\n"));
        assert!(render(&parse(PAGE), 40).starts_with("\u{1b}[1mFILES\u{1b}[0m\n"));
    }

    #[test]
    fn a_word_that_is_too_wide_is_cut() {
        assert_eq!(folded("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(folded("東京東京", 3), ["東", "京", "東", "京"]);
    }
}
