//! Rust text as the rules see it: code without test code, strings and comments apart, paths written out.

use std::ops::Range;

/// A file of src/.
pub(crate) struct Source {
    /// Such as `src/engine/slot/kill.rs`.
    pub(crate) path: String,
    /// The first line of the text.
    pub(crate) first_line: String,
    /// How many lines are not test code.
    pub(crate) lines: usize,
    /// Each path of the code outside tests: `use a::{b, c::d}` is `a::b` and `a::c::d`, and `x` alone is `x`.
    pub(crate) paths: Vec<(usize, Vec<String>)>,
    /// Each string literal outside tests.
    pub(crate) strings: Vec<(usize, String)>,
    /// Each comment outside tests, as its lines without the slashes. Adjacent lines with the same slashes are one comment.
    pub(crate) comments: Vec<Vec<(usize, String)>>,
    /// The code without comments, test code and the insides of literals, line by line as in the file.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let Stripped { code, strings, comments } = strip(text);
        let tests = test_ranges(&code);
        let outside = |at: &usize| !tests.iter().any(|range| range.contains(at));
        let ends: Vec<usize> = (0..code.len()).filter(|at| code[*at] == '\n').collect();
        let line_of = |at: usize| 1 + ends.partition_point(|end| *end < at);
        let tokens = tokens(&code).into_iter().filter(|(at, _)| outside(at));
        let tokens: Vec<_> = tokens.map(|(at, word)| (line_of(at), word)).collect();
        let strings = strings.into_iter().filter(|(at, _)| outside(at));
        let comments = comments.into_iter().filter(|(at, _)| outside(at));
        let test_lines: usize = tests.iter().map(|range| line_of(range.end) - line_of(range.start) + 1).sum();
        Self {
            path: path.to_owned(),
            first_line: text.lines().next().unwrap_or_default().to_owned(),
            lines: text.lines().count().saturating_sub(test_lines),
            paths: paths(&tokens),
            strings: strings.map(|(at, text)| (line_of(at), text)).collect(),
            comments: joined(comments.map(|(at, text)| (line_of(at), text))),
            code: code.iter().enumerate().map(|(at, letter)| if outside(&at) { *letter } else { ' ' }).collect(),
        }
    }
}

/// Joins the line comments that follow each other.
fn joined(lines: impl Iterator<Item = (usize, String)>) -> Vec<Vec<(usize, String)>> {
    let mut comments: Vec<Vec<(usize, String)>> = Vec::new();
    let mut last_marker = String::new();
    for (line, text) in lines {
        let words = text.trim_start_matches(['/', '!', '*']);
        let marker = text[..text.len() - words.len()].to_owned();
        let last = comments
            .last_mut()
            .filter(|last| last_marker == marker && last.last().is_some_and(|(last, _)| last + 1 == line));
        match last {
            Some(comment) => comment.push((line, words.to_owned())),
            None => comments.push(vec![(line, words.to_owned())]),
        }
        last_marker = marker;
    }
    comments
}

/// Code in which comments and the insides of literals are blank, so that every position keeps its line.
struct Stripped {
    code: Vec<char>,
    strings: Vec<(usize, String)>,
    comments: Vec<(usize, String)>,
}

fn strip(text: &str) -> Stripped {
    let letters: Vec<char> = text.chars().collect();
    let mut out = Stripped { code: letters.clone(), strings: Vec::new(), comments: Vec::new() };
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        let after_word = at > 0 && is_word(letters[at - 1]);
        let length = if rest.starts_with(&['/', '/']) {
            let length = rest.iter().position(|letter| *letter == '\n').unwrap_or(rest.len());
            out.comments.push((at, rest[..length].iter().collect()));
            length
        } else if rest.starts_with(&['/', '*']) {
            let length = block_comment(rest);
            out.comments.push((at, rest[..length].iter().collect()));
            length
        } else if let Some(hashes) = raw_string(rest).filter(|_| !after_word) {
            let length = raw_string_length(rest, hashes);
            out.strings.push((at, rest[..length].iter().collect()));
            length
        } else if rest[0] == '"' {
            let length = quoted(rest, '"');
            out.strings.push((at, rest[..length].iter().collect()));
            length
        } else if rest[0] == '\'' && is_char_literal(rest) {
            quoted(rest, '\'')
        } else {
            at += 1;
            continue;
        };
        for letter in &mut out.code[at..at + length] {
            *letter = if *letter == '\n' { '\n' } else { ' ' };
        }
        at += length;
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] if depth == 1 => return at + 2,
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// The number of `#` if a raw string (`r"`, `br#"`, `cr"` …) begins here.
fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = if matches!(rest.first(), Some('b' | 'c')) { 1 } else { 0 };
    let tail = rest[prefix..].strip_prefix(&['r'])?;
    let hashes = tail.iter().take_while(|letter| **letter == '#').count();
    (tail.get(hashes) == Some(&'"')).then_some(hashes)
}

fn raw_string_length(rest: &[char], hashes: usize) -> usize {
    let start = rest.iter().position(|letter| *letter == '"').map_or(rest.len(), |quote| quote + 1);
    let ends =
        |at: &usize| rest[*at] == '"' && rest[at + 1..].iter().take(hashes).filter(|x| **x == '#').count() == hashes;
    (start..rest.len()).find(ends).map_or(rest.len(), |end| end + 1 + hashes)
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// `'x'` and `'\n'`, not the lifetime `'x`.
fn is_char_literal(rest: &[char]) -> bool {
    rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')
}

/// What `#[cfg(test)]` stands before, with the attribute; everything after `#![cfg(test)]`.
fn test_ranges(code: &[char]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let attribute: Vec<char> = "[cfg(test)]".chars().collect();
    for at in 0..code.len() {
        if !code[at..].starts_with(&attribute) || ranges.last().is_some_and(|last| last.contains(&at)) {
            continue;
        }
        match code[..at] {
            [.., '#'] => ranges.push(at - 1..item_end(code, at + attribute.len())),
            [.., '#', '!'] => ranges.push(at - 2..code.len()),
            _ => {}
        }
    }
    ranges
}

/// Where the item ends that begins after `from`: at its `;`, or at the brace that closes its first one.
fn item_end(code: &[char], from: usize) -> usize {
    let (mut braces, mut others) = (0, 0);
    for (at, letter) in code.iter().enumerate().skip(from) {
        match letter {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            '{' => braces += 1,
            '}' if braces == 1 && others == 0 => return at + 1,
            '}' => braces -= 1,
            ';' if braces == 0 && others == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Words, `::` and single signs, with their positions.
fn tokens(code: &[char]) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let length = match &code[at..] {
            rest if is_word(rest[0]) => rest.iter().take_while(|letter| is_word(**letter)).count(),
            [':', ':', ..] => 2,
            _ => 1,
        };
        if !code[at].is_whitespace() {
            tokens.push((at, code[at..at + length].iter().collect()));
        }
        at += length;
    }
    tokens
}

fn paths(tokens: &[(usize, String)]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at = if tokens[at].1.starts_with(is_word) { tree(tokens, at, &[], &mut found) } else { at + 1 };
    }
    found
}

/// Reads the path at `at`, with groups, below `prefix`; returns where it ends.
fn tree(tokens: &[(usize, String)], mut at: usize, prefix: &[String], found: &mut Vec<(usize, Vec<String>)>) -> usize {
    let mut path = prefix.to_vec();
    let word = |at: usize| tokens.get(at).map_or("", |(_, word)| word.as_str());
    let line = tokens[at].0;
    loop {
        path.push(word(at).to_owned());
        at += 1;
        if word(at) != "::" || !(word(at + 1).starts_with(is_word) || ["{", "*"].contains(&word(at + 1))) {
            found.push((line, path));
            return at;
        }
        at += 1;
        if word(at) == "{" {
            at += 1;
            while !["}", ""].contains(&word(at)) {
                at = if word(at).starts_with(is_word) { tree(tokens, at, &path, found) } else { at + 1 };
            }
            return at + 1;
        }
    }
}
