//! Renders a page of the manual for man(1).

use super::Topic;
use super::blocks::Block;
use super::screen::table;

/// Columns of a table, which is preformatted.
const COLUMNS: usize = 72;

/// The source of a manual page of section 7.
pub(super) fn render(topic: &Topic, blocks: &[Block]) -> String {
    let name = topic.name.to_uppercase();
    let mut page =
        format!(".TH LLTS-{} 7\n.SH NAME\nllts-{} \\- {}\n", text(&name), text(topic.name), text(topic.title));
    for block in blocks {
        match block {
            Block::Heading(1, _) => page.push_str(".SH DESCRIPTION\n"),
            Block::Heading(2, title) => page.push_str(&format!(".SH {}\n", text(&title.to_uppercase()))),
            Block::Heading(_, title) => page.push_str(&format!(".SS {}\n", text(title))),
            Block::Text(words) => page.push_str(&format!(".PP\n{}\n", text(words))),
            Block::Item(mark, words) => page.push_str(&format!(".IP {} 4\n{}\n", text(mark), text(words))),
            Block::Code(lines) => page.push_str(&verbatim(lines)),
            Block::Table(rows) => page.push_str(&verbatim(&table(rows, COLUMNS))),
        }
    }
    page
}

fn verbatim(lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("{}\n", text(line))).collect();
    format!(".PP\n.nf\n.RS 4\n{lines}.RE\n.fi\n")
}

/// Escapes a text, so that roff takes nothing in it for a command.
fn text(plain: &str) -> String {
    let escaped = plain.replace('\\', "\\e").replace('-', "\\-");
    if escaped.starts_with(['.', '\'']) { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::manual::blocks::parse;

    #[test]
    fn nothing_of_a_page_is_an_order() {
        let topic = Topic { name: "x", title: "An x-page", path: "x.md" };
        let page = render(&topic, &parse("# X\n\n.so /etc/passwd and a\\b\n\n## Two\n\n- one\n\n```sh\n.ls\n```\n"));
        insta::assert_snapshot!(page, @r"
        .TH LLTS-X 7
        .SH NAME
        llts-x \- An x\-page
        .SH DESCRIPTION
        .PP
        \&.so /etc/passwd and a\eb
        .SH TWO
        .IP \- 4
        one
        .PP
        .nf
        .RS 4
        \&.ls
        .RE
        .fi
        ");
    }
}
