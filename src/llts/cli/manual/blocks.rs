//! Splits a page of the manual into blocks. Only the parts of Markdown that the pages use are supported.

/// A block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A heading, and its level from 1.
    Heading(usize, String),
    /// Lines of code, as they are.
    Code(Vec<String>),
    /// Rows of cells; the first one is the head.
    Table(Vec<Vec<String>>),
    /// An item of a list: its mark and its text.
    Item(String, String),
    /// A paragraph, joined from its lines.
    Text(String),
}

/// Reads a page.
pub(super) fn parse(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    let mut is_open = false;
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            blocks.push(Block::Code(
                lines.by_ref().take_while(|line| !line.starts_with("```")).map(str::to_owned).collect(),
            ));
            is_open = false;
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            rows.retain(|row| {
                !row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|letter| "-: ".contains(letter)))
            });
            blocks.push(Block::Table(rows));
            is_open = false;
        } else if let Some(title) = line.strip_prefix('#') {
            let level = 1 + title.bytes().take_while(|byte| *byte == b'#').count();
            blocks.push(Block::Heading(level, plain(title.trim_start_matches('#').trim())));
            is_open = false;
        } else if line.trim().is_empty() {
            is_open = false;
        } else if let Some((mark, text)) = item(line) {
            blocks.push(Block::Item(mark.to_owned(), plain(text)));
            is_open = true;
        } else if let (true, Some(Block::Item(_, text) | Block::Text(text))) = (is_open, blocks.last_mut()) {
            text.push(' ');
            text.push_str(&plain(line.trim()));
        } else {
            blocks.push(Block::Text(plain(line.trim())));
            is_open = true;
        }
    }
    // A link may span the end of a line.
    for block in &mut blocks {
        if let Block::Item(_, text) | Block::Text(text) = block {
            *text = plain(text);
        }
    }
    blocks
}

/// The mark and the text of a list item.
fn item(line: &str) -> Option<(&str, &str)> {
    if let Some(text) = line.strip_prefix("- ") {
        return Some(("-", text));
    }
    let (number, text) = line.split_once(". ")?;
    let is_number = !number.is_empty() && number.len() < 3 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((line.get(..=number.len())?, text))
}

fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row).replace("\\|", "\u{0}");
    row.split('|').map(|cell| plain(&cell.trim().replace('\u{0}', "|"))).collect()
}

/// A text without the marks of bold letters, and with links replaced by their texts. Code keeps its marks.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at > 0 {
            plain.push('`');
        }
        if at % 2 == 0 { plain.push_str(&part.replace("**", "")) } else { plain.push_str(part) }
    }
    let mut rest = plain.as_str();
    let mut shown = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        shown.push_str(before);
        let link = after.split_once("](").and_then(|(says, to)| Some((says, to.split_once(')')?.1)));
        match link.filter(|(says, _)| !says.contains('[') && before.matches('`').count() % 2 == 0) {
            Some((says, behind)) => {
                shown.push_str(says);
                rest = behind;
            }
            None => {
                shown.push('[');
                rest = after;
            }
        }
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_block_by_block() {
        let page = "# A **b**\n\nOne [link](x.md#y)\nand `a[0](b)` two.\n\n- point\n  goes on\n2. other\n\n```sh\nls | wc\n```\n\n\
                    | a | b |\n|---|---|\n| `x \\| y` | |\n";
        let text = |text: &str| text.to_owned();
        assert_eq!(
            parse(page),
            [
                Block::Heading(1, text("A b")),
                Block::Text(text("One link and `a[0](b)` two.")),
                Block::Item(text("-"), text("point goes on")),
                Block::Item(text("2."), text("other")),
                Block::Code(vec![text("ls | wc")]),
                Block::Table(vec![vec![text("a"), text("b")], vec![text("`x | y`"), text("")]]),
            ]
        );
    }
}
