//! The template of a command: words with placeholders, which each line of the input fills.
//!
//! | placeholder | replaced by |
//! |---|---|
//! | `{}` | the line; of several values, all of them |
//! | `{.}` | the line without its extension |
//! | `{/}` | its last part, after the last slash |
//! | `{//}` | the folder: the part before the last slash |
//! | `{/.}` | the part after the last slash, without the extension |
//! | `{#}` | the number of the task, from 1 |
//! | `{2}`, `{2.}`, `{2/}`, … | the same of the second value: of the second column, or of the second source |
//!
//! What each of them makes of a value is as in GNU parallel. Any other text in braces stays as it is. Values and texts are in the form of
//! [`base::os_text()`].

use base::os_text::{letters, rejoined};
pub use base::{ARGUMENT_BYTES_MAX, quoted};
use base::{LinePart, NotANumber, Place};

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Number,
    /// A value, with its place in a shell line; `None` in any other text, where the value stands as it is.
    Value(Placeholder, Option<Place>),
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

/// The values of one line and its number, which fill a template.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    /// The line, or its columns, or one value of each source.
    pub values: &'a [String],
    /// The number of the task, from 1.
    pub number: u64,
}

impl Template {
    /// Parses a text. `whole` stands for the line: `{}`, unless the user chose another text.
    #[must_use]
    pub fn parse(text: &str, whole: &str) -> Self {
        Self(pieces(text, whole).into_iter().map(|(piece, _)| piece).collect())
    }

    /// Parses a line for a shell, in which each value is quoted as its place requires.
    ///
    /// # Errors
    /// A sentence about a placeholder that cannot be quoted.
    pub fn parse_shell(text: &str, whole: &str) -> Result<Self, String> {
        let mut pieces = pieces(text, whole);
        let places = Place::all(pieces.iter().map(|(piece, text)| match piece {
            Piece::Text(_) => LinePart::Text(text),
            Piece::Number => LinePart::Word,
            Piece::Value(..) => LinePart::Value,
        }));
        let mut values = pieces.iter_mut().filter_map(|(piece, text)| match piece {
            Piece::Value(_, place) => Some((place, text)),
            Piece::Text(_) | Piece::Number => None,
        });
        match places {
            Ok(places) => values.zip(places).for_each(|((value, _), place)| *value = Some(place)),
            Err((index, why)) => return Err(why.sentence(values.nth(index).map_or(whole, |(_, text)| text))),
        }
        Ok(Self(pieces.into_iter().map(|(piece, _)| piece).collect()))
    }

    /// Whether it consists of a placeholder alone.
    #[must_use]
    pub fn is_value(&self) -> bool {
        matches!(self.0[..], [Piece::Value(..)])
    }

    /// Whether it has a placeholder for a value.
    #[must_use]
    pub fn has_value(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Value(..)))
    }

    /// Whether it has the placeholder for the number of the task.
    #[must_use]
    pub fn has_number(&self) -> bool {
        self.0.contains(&Piece::Number)
    }

    /// The largest number in a placeholder.
    #[must_use]
    pub fn values(&self) -> usize {
        let number = |piece: &Piece| match piece {
            Piece::Value(Placeholder { index: Some(index), .. }, _) => index + 1,
            _ => 0,
        };
        self.0.iter().map(number).max().unwrap_or_default()
    }

    /// The text with these values filled in; several values in one place are separated by blanks.
    ///
    /// # Errors
    /// When a place requires a number and the value is none.
    pub fn fill(&self, filling: Filling<'_>) -> Result<String, NotANumber> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Number => text.push_str(&filling.number.to_string()),
                Piece::Value(value, place) => {
                    place.unwrap_or(Place::Raw).put(value.values(filling.values), &mut text)?;
                }
            }
        }
        Ok(rejoined(text))
    }

    /// The words with these values filled in. A word that consists of the placeholder for all values becomes one word for each value. An
    /// absent value becomes an empty word, so that later ones keep their places.
    pub(super) fn fill_words(&self, filling: Filling<'_>, words: &mut Vec<String>) -> Result<(), NotANumber> {
        match &self.0[..] {
            [Piece::Value(value @ Placeholder { index: None, .. }, _)] => {
                words.extend(value.values(filling.values).map(str::to_owned));
            }
            _ => words.push(self.fill(filling)?),
        }
        Ok(())
    }
}

impl Placeholder {
    /// The chosen values. A line that lacks the value has an empty one.
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

/// A dot before a slash is not part of the name, and one at the end is an empty extension.
fn without_extension(value: &str) -> &str {
    match value.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') => stem,
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

/// Splits a text into pieces, each with its own text.
fn pieces<'a>(text: &'a str, whole: &str) -> Vec<(Piece, &'a str)> {
    let mut pieces = Vec::new();
    let (mut plain_at, mut at) = (0, 0);
    let plain = |from, to| text.get(from..to).filter(|plain: &&str| !plain.is_empty());
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some((piece, len)) = placeholder_at(rest, whole) else {
            at += letters(rest).next().map_or(1, str::len);
            continue;
        };
        pieces.extend(plain(plain_at, at).map(|plain| (Piece::Text(plain.to_owned()), plain)));
        pieces.push((piece, rest.get(..len).unwrap_or_default()));
        at += len;
        plain_at = at;
    }
    pieces.extend(plain(plain_at, at).map(|plain| (Piece::Text(plain.to_owned()), plain)));
    pieces
}

/// The placeholder at the beginning of a text, and its length.
fn placeholder_at(text: &str, whole: &str) -> Option<(Piece, usize)> {
    let value = |index, part| Piece::Value(Placeholder { index, part }, None);
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
        Template::parse(template, "{}").fill(Filling { values: &values, number: 7 }).unwrap()
    }

    #[test]
    fn a_placeholder_takes_its_part_of_the_line() {
        for (line, expected) in [
            ("dir/photo.tar.gz", "dir/photo.tar.gz|dir/photo.tar|photo.tar.gz|dir|photo.tar|7"),
            ("a.b/c", "a.b/c|a.b/c|c|a.b|c|7"),
            (".hidden", ".hidden||.hidden|.||7"),
            ("foo.", "foo.|foo|foo.|.|foo|7"),
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
    fn bytes_that_are_no_characters_are_no_places_and_may_become_characters() {
        assert_eq!(filled("{/} {.}", &["d\0ff/x\0fe.y"]), "x\0fe.y d\0ff/x\0fe");
        assert_eq!(filled("\0c3{}", &["\0a9"]), "\u{e9}");
        let template = Template::parse("\0ff f", "f");
        assert_eq!(template.fill(Filling { values: &["x".to_owned()], number: 1 }).unwrap(), "\0ff x");
    }

    #[test]
    fn another_text_can_stand_for_the_line() {
        let template = Template::parse("{} % {.}", "%");
        let values = ["a.b".to_owned()];
        assert_eq!(template.fill(Filling { values: &values, number: 1 }).unwrap(), "{} a.b a");
    }

    #[test]
    fn a_value_is_one_word_for_sh_whatever_it_contains() {
        assert_eq!(quoted("a/b-c.d"), "a/b-c.d");
        assert_eq!(
            [quoted(""), quoted("a b"), quoted("it's"), quoted("$(x)")],
            ["''", "'a b'", r"'it'\''s'", "'$(x)'"]
        );
        let filled = |template: &str, values: &[&str]| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            Template::parse_shell(template, "{}").unwrap().fill(Filling { values: &values, number: 1 }).unwrap()
        };
        assert_eq!(filled("wc {}", &["a; rm *"]), "wc 'a; rm *'");
        assert_eq!(filled("wc \"{}\" '{/}' {.}x", &["d/$(x)", "y"]), "wc \"\"'d/$(x) y'\"\" '$(x) y' 'd/$(x)' 'y'x");
    }

    #[test]
    fn a_placeholder_that_cannot_be_quoted_is_named() {
        let refused = Template::parse_shell("echo {} `ls {2.}`", "{}").unwrap_err();
        assert!(refused.starts_with("{2.} is in backticks"), "{refused}");
        let refused = Template::parse_shell("cat <<E\n%\nE", "%").unwrap_err();
        assert!(refused.contains("printf '%s\\n' % | COMMAND"), "{refused}");
    }
}
