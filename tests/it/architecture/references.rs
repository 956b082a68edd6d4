//! The documents that comments cite: none is outside of the repository, and each page of docs/ has the cited number.

use std::fs;
use std::path::Path;

/// Beginnings of citations that a reader of the repository cannot look up.
const ELSEWHERE: [&str; 9] = [
    "HAZARDS",
    "DESIGN",
    "(document,",
    "(design,",
    "(facts,",
    "Document, section",
    "Design, section",
    "of the findings",
    "/work/",
];

/// Every wrong reference in `text`, the file at `path`, as `file:line: rule; fix`.
pub(crate) fn violations(root: &Path, path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let place = format!("{path}:{line}");
        // Python has its comments in texts.
        let comment =
            if path.ends_with(".rs") { text.split_once("//").map_or("", |(_, comment)| comment) } else { text };
        for name in ELSEWHERE.iter().filter(|name| comment.contains(**name)) {
            found.push(format!(
                "{place}: {name:?} is no page of this repository; say the fact, or cite docs/PAGE.md, NUMBER"
            ));
        }
        for (at, _) in text.match_indices("docs/") {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_./-".contains(letter);
            let end = text[at..].find(|letter| !is_part(letter)).map_or(text.len(), |length| at + length);
            let page = text[at..end].trim_end_matches('.');
            let Ok(content) = fs::read_to_string(root.join(page)) else {
                if !root.join(page).is_dir() {
                    found.push(format!("{place}: there is no {page}; cite a page that docs/SUMMARY.md lists"));
                }
                continue;
            };
            for number in numbers(&text[at + page.len()..]).filter(|number| !has(&content, number)) {
                found.push(format!("{place}: {page} has no {number}; cite the number of a heading or of a row"));
            }
        }
    }
    found
}

/// The numbers behind the name of a page, such as `2.7` and `A10` in `, 2.7, A10).`
fn numbers(rest: &str) -> impl Iterator<Item = &str> {
    let end = rest.find([')', ':', ';']).unwrap_or(rest.len());
    let parts = rest[..end].strip_prefix(", ").into_iter().flat_map(|rest| rest.split(", "));
    parts.map(|part| part.trim_end_matches('.')).take_while(|part| {
        let digits = part.strip_prefix(|letter: char| letter.is_ascii_uppercase()).unwrap_or(part);
        digits.split('.').all(|digits| digits.parse::<u32>().is_ok())
    })
}

/// Whether a heading or a row of the page begins with this number.
fn has(page: &str, number: &str) -> bool {
    page.lines().any(|line| {
        let head = line.trim_start_matches(['#', '|']);
        head.len() < line.len() && head.trim_start().split(' ').next() == Some(number)
    })
}
