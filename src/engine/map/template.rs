//! The template of a command: words with placeholders, which each line of the input fills.
//!
//! | placeholder | replaced by |
//! |---|---|
//! | `{}` | the line; of several values, all of them |
//! | `{.}` | it without its extension |
//! | `{/}` | its last part, after the last slash |
//! | `{//}` | the folder before it |
//! | `{/.}` | its last part without the extension |
//! | `{#}` | the number of the task, from 1 |
//! | `{2}`, `{2.}`, `{2/}`, … | the same of the second value: of the second column, or of the second source |
//!
//! What each of them makes of a value is as in GNU parallel. Any other text in braces stays as it is.

pub use crate::types::{ARGUMENT_BYTES_MAX, quoted};

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Number,
    Value(Placeholder),
}

/// A place for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placeholder {
    /// The value, from 0; `None` stands for all.
    index: Option<usize>,
    part: Part,
}

/// The wanted part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    WithoutExtension,
    Name,
    Folder,
    Stem,
}

/// What fills a template: the values of one line, and its number.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// The line, or its columns, or one value of each source.
    pub values: &'a [String],
    /// The number of the task, from 1.
    pub number: u64,
}

/// How a value stands in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// As it is.
    None,
    /// As one word for sh.
    Shell,
}

impl Template {
    /// Reads a text, in which `whole` stands for the line: `{}`, unless the user has chosen another text.
    #[must_use]
    pub fn parse(text: &str, whole: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let Some((piece, len)) = placeholder_at(rest, whole) else {
                plain.push(letter);
                rest = &rest[letter.len_utf8()..];
                continue;
            };
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            rest = &rest[len..];
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self(pieces)
    }

    /// Whether a value has a place in it.
    #[must_use]
    pub fn has_value(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Value(_)))
    }

    /// Whether the number of the task has a place in it.
    #[must_use]
    pub fn has_number(&self) -> bool {
        self.0.contains(&Piece::Number)
    }

    /// The text for these values; several values at one place are separated by blanks.
    #[must_use]
    pub fn fill(&self, filling: Filling<'_>, quoting: Quoting) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Number => text.push_str(&filling.number.to_string()),
                Piece::Value(place) => {
                    for (index, value) in place.values(filling.values).enumerate() {
                        if index > 0 {
                            text.push(' ');
                        }
                        match quoting {
                            Quoting::None => text.push_str(value),
                            Quoting::Shell => text.push_str(&quoted(value)),
                        }
                    }
                }
            }
        }
        text
    }

    /// The words for these values: a word that is nothing but a placeholder becomes one word for each value.
    pub(super) fn fill_words(&self, filling: Filling<'_>, words: &mut Vec<String>) {
        match &self.0[..] {
            [Piece::Value(place)] => words.extend(place.values(filling.values).map(str::to_owned)),
            _ => words.push(self.fill(filling, Quoting::None)),
        }
    }
}

impl Placeholder {
    /// A line without this value has an empty one.
    fn values(self, values: &[String]) -> impl Iterator<Item = &str> {
        let chosen = match self.index {
            None => values,
            Some(index) => values.get(index).map_or(&[][..], std::slice::from_ref),
        };
        chosen.iter().map(move |value| self.part.of(value))
    }
}

impl Part {
    fn of(self, value: &str) -> &str {
        match self {
            Self::Whole => value,
            Self::WithoutExtension => without_extension(value),
            Self::Name => name(value),
            Self::Folder => folder(value),
            Self::Stem => without_extension(name(value)),
        }
    }
}

fn name(value: &str) -> &str {
    value.rsplit_once('/').map_or(value, |(_, name)| name)
}

/// A dot at the end begins no extension, and one before a slash is not part of the name.
fn without_extension(value: &str) -> &str {
    match value.rsplit_once('.') {
        Some((stem, extension)) if !extension.is_empty() && !extension.contains('/') => stem,
        _ => value,
    }
}

/// As dirname(1).
fn folder(value: &str) -> &str {
    let Some((folder, _)) = value.trim_end_matches('/').rsplit_once('/') else {
        return if value.starts_with('/') { "/" } else { "." };
    };
    match folder.trim_end_matches('/') {
        "" => "/",
        folder => folder,
    }
}

/// The placeholder at the beginning of a text, and its length.
fn placeholder_at(text: &str, whole: &str) -> Option<(Piece, usize)> {
    let value = |index, part| Piece::Value(Placeholder { index, part });
    if let Some(rest) = text.strip_prefix(whole) {
        return Some((value(None, Part::Whole), text.len() - rest.len()));
    }
    let inner = text.strip_prefix('{')?.split_once('}')?.0;
    let len = inner.len() + 2;
    if inner == "#" {
        return Some((Piece::Number, len));
    }
    let part_at = inner.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(inner.len());
    let (index, part) = inner.split_at(part_at);
    let part = match part {
        // `{}` alone is `whole`, or has no meaning.
        "" if !index.is_empty() => Part::Whole,
        "." => Part::WithoutExtension,
        "/" => Part::Name,
        "//" => Part::Folder,
        "/." => Part::Stem,
        _ => return None,
    };
    let index = match index {
        "" => None,
        digits => Some(digits.parse::<usize>().ok()?.checked_sub(1)?),
    };
    Some((value(index, part), len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, values: &[&str]) -> String {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        Template::parse(template, "{}").fill(Filling { values: &values, number: 7 }, Quoting::None)
    }

    #[test]
    fn a_placeholder_takes_its_part_of_the_line() {
        for (line, expected) in [
            ("dir/photo.tar.gz", "dir/photo.tar.gz|dir/photo.tar|photo.tar.gz|dir|photo.tar|7"),
            ("a.b/c", "a.b/c|a.b/c|c|a.b|c|7"),
            (".hidden", ".hidden||.hidden|.||7"),
            ("foo.", "foo.|foo.|foo.|.|foo.|7"),
            ("/root", "/root|/root|root|/|root|7"),
            ("a//b/", "a//b/|a//b/||a||7"),
            ("/", "/|/||/||7"),
            ("", "|||.||7"),
        ] {
            assert_eq!(filled("{}|{.}|{/}|{//}|{/.}|{#}", &[line]), expected, "{line:?}");
        }
    }

    #[test]
    fn several_values_have_numbers() {
        assert_eq!(filled("{2}-{1.}-{2//}-{3}", &["x.c", "d/y"]), "d/y-x-d-");
        assert_eq!(filled("<{}> {/}", &["d/x", "y"]), "<d/x y> x y");
    }

    #[test]
    fn other_braces_stay_as_they_are() {
        for text in ["{", "}", "{a}", "{0}", "{..}", "{ }", "${x}", "{1x}", "{99999999999999999999}", "{/", "ä{é}"] {
            assert_eq!(filled(text, &["line"]), text);
        }
        assert_eq!(filled("{{}}", &["line"]), "{line}");
    }

    #[test]
    fn another_text_can_stand_for_the_line() {
        let template = Template::parse("{} % {.}", "%");
        let values = ["a.b".to_owned()];
        assert_eq!(template.fill(Filling { values: &values, number: 1 }, Quoting::None), "{} a.b a");
    }

    #[test]
    fn a_value_is_one_word_for_sh_whatever_it_contains() {
        assert_eq!(quoted("a/b-c.d"), "a/b-c.d");
        assert_eq!(
            [quoted(""), quoted("a b"), quoted("it's"), quoted("$(x)")],
            ["''", "'a b'", r"'it'\''s'", "'$(x)'"]
        );
        let values = ["a; rm *".to_owned()];
        let template = Template::parse("wc {}", "{}");
        assert_eq!(template.fill(Filling { values: &values, number: 1 }, Quoting::Shell), "wc 'a; rm *'");
    }
}
