//! Long texts in little room: what is cut out is in the middle, because the end is what differs between tasks of one kind.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The text in at most this number of columns of a terminal, with `…` in place of its middle if it is longer.
#[must_use]
pub fn middle(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    // The end tells more than the beginning, which is often a long folder or the same for all.
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

/// The first letters that fit.
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
    fn letters_of_two_columns_are_counted_as_two() {
        for columns in 0..12 {
            for text in [middle("東京東京東京", columns), beginning("東京東京東京", columns)] {
                assert!(text.width() <= columns, "{text:?} in {columns}");
            }
        }
    }
}
