//! The cut of a long output: its beginning and its end are reported, with a line about the cut between them.

use std::ops::Range;

/// The bytes of a long output that are left out.
struct Cut {
    head: u64,
    tail: u64,
    line: String,
}

fn cut(length: u64, max: u64) -> Option<Cut> {
    // The line has its final length when it has these numbers.
    let line = |left_out: u64| format!("\n[llts: {left_out} of {length} bytes are left out here]\n");
    (length > max).then(|| {
        let room = max.saturating_sub(line(length).len() as u64);
        Cut { head: room / 2, tail: room - room / 2, line: line(length - room) }
    })
}

/// The ranges that are reported of an output of this length, if at most `max` bytes are.
#[must_use]
pub fn ranges(length: u64, max: u64) -> Vec<Range<u64>> {
    match cut(length, max) {
        None => std::iter::once(0..length).collect(),
        Some(Cut { head, tail, .. }) => vec![0..head, length - tail..length],
    }
}

/// The bytes of these ranges, with the line between them.
#[must_use]
pub fn joined(pieces: &[Vec<u8>], length: u64, max: u64) -> Vec<u8> {
    let line = cut(length, max).map_or_else(String::new, |cut| cut.line);
    pieces.join(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_has_its_limit_and_says_what_is_left_out() {
        let bytes: Vec<u8> = (0..5000u32).map(|at| b'a' + (at % 26) as u8).collect();
        let reported = |max: u64| {
            let pieces = ranges(5000, max).into_iter();
            let pieces: Vec<_> = pieces.map(|range| bytes[range.start as usize..range.end as usize].to_vec()).collect();
            joined(&pieces, 5000, max)
        };
        assert_eq!(reported(5000), bytes);
        for max in [1024, 1025, 4999] {
            let text = String::from_utf8(reported(max)).unwrap();
            assert!((max - 4..=max).contains(&(text.len() as u64)));
            let (head, rest) = text.split_once("\n[llts: ").unwrap();
            let (line, tail) = rest.split_once("]\n").unwrap();
            assert_eq!(line, format!("{} of 5000 bytes are left out here", 5000 - head.len() - tail.len()));
            assert!(bytes.starts_with(head.as_bytes()) && bytes.ends_with(tail.as_bytes()));
        }
    }
}
