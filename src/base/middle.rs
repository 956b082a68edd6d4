//! Fitting long texts into little room. The middle is cut out, because similar tasks differ at the end.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The text in at most this number of columns of a terminal, with `…` in place of its middle if it is longer.
#[must_use]
pub fn middle(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    // The end says more than the beginning, which is often a long folder or the same for all.
    let head_room = room / 3;
    let head = taken(text.chars(), head_room);
    let head_columns: usize = head.iter().map(|letter| letter.width().unwrap_or(0)).sum();
    let mut tail = taken(text.chars().rev(), room - head_columns);
    tail.reverse();
    head.into_iter().chain(['…']).chain(tail).collect()
}

/// The text in at most this number of columns, with `…` in place of its end if it is longer.
#[must_use]
pub fn beginning(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    taken(text.chars(), room).into_iter().chain(['…']).collect()
}

/// Maximum characters of a word and of a sentence that are shown in full: enough for a path, too few to flood a terminal.
const WORD_MAX: usize = 400;
const SENTENCE_MAX: usize = 2_000;

/// A sentence with the middle of each long word replaced by the length of the word: a sentence may quote a value of any
/// length.
#[must_use]
pub fn shortened(sentence: &str) -> Cow<'_, str> {
    if sentence.len() <= WORD_MAX {
        return Cow::Borrowed(sentence);
    }
    let is_of_sentence = |letter: char| letter.is_whitespace() || "\"'`,;:()".contains(letter);
    let mut short = String::new();
    for part in sentence.split_inclusive(is_of_sentence) {
        let word = part.trim_end_matches(is_of_sentence);
        short.push_str(&without_middle(word, WORD_MAX));
        short.push_str(&part[word.len()..]);
    }
    Cow::Owned(without_middle(&short, SENTENCE_MAX).into_owned())
}

fn without_middle(text: &str, chars_max: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= chars_max {
        return Cow::Borrowed(text);
    }
    let end = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let (head, tail) = (&text[..end(chars_max / 4)], &text[end(count - chars_max / 4)..]);
    Cow::Owned(format!("{head}…[{count} characters]…{tail}"))
}

/// The first characters that fit.
fn taken(letters: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut left = columns;
    let fits = |letter: &char| {
        let rest = left.checked_sub(letter.width().unwrap_or(0));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    letters.take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_text_stays() {
        assert_eq!(middle("convert in=/data/film7.mov", 26), "convert in=/data/film7.mov");
        assert_eq!(middle("convert in=/data/film7.mov", 18), "conve…ta/film7.mov");
        assert_eq!(beginning("corrupt header", 8), "corrupt…");
        assert_eq!([middle("abc", 0), middle("abc", 1), middle("abc", 2), beginning("abc", 0)], ["", "…", "…c", ""]);
    }

    #[test]
    fn a_long_value_does_not_flood_a_sentence() {
        let path = format!("cannot read /{}/film.mov", "folder/".repeat(40));
        assert_eq!(shortened(&path), path);
        let quoted = shortened(&format!("{:?} is no task", "a".repeat(70_000))).into_owned();
        assert!(quoted.contains("a…[70000 characters]…a") && quoted.ends_with("a\" is no task"), "{quoted}");
        for value in ["ä".repeat(70_000), "ä ".repeat(35_000)] {
            let sentence = format!("no task {}; llts list shows the ids", value.trim());
            let short = shortened(&sentence);
            assert!(short.starts_with("no task ä") && short.ends_with("ä; llts list shows the ids"), "{short}");
            assert!(short.len() < 2_500 && short.contains("…[70"), "{short}");
        }
    }

    #[test]
    fn letters_of_two_columns_are_counted_as_two() {
        for columns in 0..12 {
            for text in [middle("東京東京東京", columns), beginning("東京東京東京", columns)] {
                assert!(text.width() <= columns, "{text:?} in {columns}");
            }
        }
    }
}
