//! Patterns of lines. Lines that differ only in a value have the same pattern: a number, a path, a hexadecimal or a
//! quoted text is replaced by a placeholder.
//!
//! | part of a line | in the pattern |
//! |---|---|
//! | digits, also with a decimal point | `N` |
//! | at least eight hexadecimal digits, or `0x` and some | `HEX` |
//! | a word with a slash | `PATH`, with the file extension |
//! | a text in quotes | `"…"` |

/// The pattern of a line. The pattern of a pattern is the same.
#[must_use]
pub fn pattern(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let is_word_begin = !out.chars().next_back().is_some_and(char::is_alphanumeric);
        if let Some(behind) = quoted(rest, letter).filter(|_| is_word_begin) {
            out.extend([letter, '…', letter]);
            rest = behind;
        } else if is_of_a_word(letter) {
            let end = rest.find(|letter| !is_of_a_word(letter)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            fold(word, &mut out);
            rest = behind;
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    out
}

/// The text after the quoted one at the beginning of `rest`, if there is one.
fn quoted(rest: &str, letter: char) -> Option<&str> {
    if !matches!(letter, '"' | '\'' | '`') {
        return None;
    }
    rest[1..].split_once(letter).map(|(_, behind)| behind)
}

fn is_of_a_word(letter: char) -> bool {
    !letter.is_whitespace()
        && !letter.is_control()
        && !matches!(
            letter,
            '"' | '\'' | '`' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ';' | '=' | ':' | '|' | '…'
        )
}

/// Appends the pattern of one word; punctuation at its end stays.
fn fold(word: &str, out: &mut String) {
    let core = word.trim_end_matches(['.', '!', '?']);
    let end = &word[core.len()..];
    if core.len() > 1 && core.contains('/') {
        let name = core.rsplit('/').next().unwrap_or_default();
        out.push_str("PATH");
        // The extension says what kind of file it is, unless it is a number.
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        if let Some(ending) = ending.filter(|ending| !ending.is_empty() && ending.chars().all(char::is_alphabetic)) {
            out.push('.');
            out.push_str(ending);
        }
    } else if is_hex(core) {
        out.push_str("HEX");
    } else {
        fold_digits(core, out);
    }
    out.push_str(end);
}

fn is_hex(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_both =
        |text: &str| text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_alphabetic());
    word.strip_prefix("0x").is_some_and(digits) || (word.len() >= 8 && digits(word) && has_both(word))
}

fn fold_digits(word: &str, out: &mut String) {
    let mut is_in_number = false;
    for letter in word.chars() {
        if letter.is_ascii_digit() {
            if !std::mem::replace(&mut is_in_number, true) {
                out.push('N');
            }
        } else if letter != '.' || !is_in_number {
            // A decimal point belongs to the number.
            is_in_number = false;
            out.push(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_differs_in_a_value_only_has_one_pattern() {
        for (line, wanted) in [
            ("corrupt header in /data/film7.mov", "corrupt header in PATH.mov"),
            ("corrupt header in /data/x/film17.mov", "corrupt header in PATH.mov"),
            ("cannot open 37", "cannot open N"),
            ("took 2.5s, limit 2s.", "took Ns, limit Ns."),
            ("no such key \"a b\"; nearest 'c'", "no such key \"…\"; nearest '…'"),
            ("segfault at 0x7fff12 in deadbeef01", "segfault at HEX in HEX"),
            ("don't panic, it isn't over", "don't panic, it isn't over"),
            ("line 12: error[E0308]: mismatched", "line N: error[EN]: mismatched"),
            ("PATH is N", "PATH is N"),
            ("", ""),
        ] {
            assert_eq!(pattern(line), wanted, "{line:?}");
        }
        assert_ne!(pattern("no space left"), pattern("no memory left"));
    }

    proptest! {
        /// The pattern of a pattern is the same, so that grouping again changes nothing.
        #[test]
        fn a_pattern_is_its_own_pattern(line in ".{0,80}") {
            let once = pattern(&line);
            prop_assert_eq!(pattern(&once), once);
        }

        /// Numbers, paths, hexadecimal and quoted values in a sentence do not change its pattern.
        #[test]
        fn values_do_not_change_the_pattern(
            one in (any::<u32>(), "[a-z]{1,8}(/[a-z0-9]{1,8}){0,3}", any::<u64>(), "[a-z 0-9]{0,12}"),
            other in (any::<u32>(), "[a-z]{1,8}(/[a-z0-9]{1,8}){0,3}", any::<u64>(), "[a-z 0-9]{0,12}"),
        ) {
            let sentence = |(number, path, hex, name): &(u32, String, u64, String)| {
                pattern(&format!("error {number}: cannot read /srv/{path}.txt at 0x{hex:x} for \"{name}\" after {number} ms"))
            };
            prop_assert_eq!(sentence(&one), sentence(&other));
        }

        /// Words of letters are kept, so that different failures stay apart.
        #[test]
        fn words_stay(words in prop::collection::vec("[g-z]{1,7}", 1..6)) {
            let line = words.join(" ");
            prop_assert_eq!(pattern(&line), line);
        }
    }
}
