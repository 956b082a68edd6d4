//! The target list: one target per line, and the name of the prompt file for each.

use super::CreateError;

/// Characters of a target in the name of its file. At four bytes each they take 200, and a name may have 255: this leaves
/// room for the prefix and for the endings of the results.
const NAME_CHARS_MAX: usize = 50;

/// Digits of a number, as in the names of the original.
const DIGITS_MIN: usize = 3;

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Number of the line, from 1, including blank lines.
    pub(super) line: usize,
    pub(super) text: String,
    /// Name of the prompt file: `task_NNN_<target>.txt`, numbered without blank lines.
    pub(super) name: String,
}

/// Reads the list. Blank lines are ignored, and blanks around a target are removed.
pub(super) fn parse(list: &[u8]) -> Result<Vec<Target>, CreateError> {
    let list = list.strip_prefix("\u{feff}".as_bytes()).unwrap_or(list);
    let mut targets: Vec<Target> = Vec::new();
    for (at, bytes) in list.split(|&byte| byte == b'\n').enumerate() {
        let line = at + 1;
        let bad = |problem: String| CreateError::Line { line, problem };
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))?.trim();
        if text.is_empty() {
            continue;
        }
        if let Some(letter) = text.chars().find(|&letter| letter.is_control() && letter != '\t') {
            return Err(bad(format!("it holds the control character U+{:04X}", u32::from(letter))));
        }
        targets.push(Target { line, text: text.to_owned(), name: String::new() });
    }
    if targets.is_empty() {
        return Err(CreateError::NoTarget);
    }
    // The names sort in the order of the list, however long it is: a master hands them out by name.
    let digits = targets.len().to_string().len().max(DIGITS_MIN);
    for (at, target) in targets.iter_mut().enumerate() {
        target.name = format!("task_{:0digits$}_{}.txt", at + 1, part(&target.text));
    }
    Ok(targets)
}

/// The characters of a target that are valid in file names everywhere.
fn part(target: &str) -> String {
    let allowed = |letter: &char| letter.is_alphanumeric() || "._-".contains(*letter);
    target.chars().filter(allowed).take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[u8]) -> Vec<String> {
        parse(list).unwrap().into_iter().map(|target| target.name).collect()
    }

    #[test]
    fn each_line_has_a_file_with_a_safe_name() {
        assert_eq!(
            names(b"https://example.org/a?b=c\r\n\n  ../../etc/passwd \n///\n"),
            ["task_001_httpsexample.orgabc.txt", "task_002_....etcpasswd.txt", "task_003_.txt"]
        );
        assert_eq!(names("東京 都\n".as_bytes()), ["task_001_東京都.txt"]);
        let long = names("字".repeat(80).as_bytes());
        assert_eq!(long[0].chars().count(), "task_001_.txt".len() + NAME_CHARS_MAX);
        assert!(long[0].len() < 220);
    }

    #[test]
    fn the_names_of_a_long_list_sort_in_its_order() {
        let names = names("x\n".repeat(1001).as_bytes());
        assert_eq!((names[0].as_str(), names[1000].as_str()), ("task_0001_x.txt", "task_1001_x.txt"));
        assert!(names.is_sorted());
    }

    #[test]
    fn lines_count_from_one_and_numbers_pass_over_blank_ones() {
        let targets = parse("\u{feff}a\n\n b\tc \n".as_bytes()).unwrap();
        let seen: Vec<_> = targets.iter().map(|target| (target.line, target.text.as_str())).collect();
        assert_eq!(seen, [(1, "a"), (3, "b\tc")]);
        assert_eq!(targets[1].name, "task_002_bc.txt");
    }

    #[test]
    fn a_bad_line_is_named() {
        let refused = |list: &[u8]| parse(list).unwrap_err().to_string();
        assert_eq!(refused(b"a\nb\xff\n"), "line 2 of the target list: it is not UTF-8");
        assert_eq!(refused(b"a\n\nb\x1b[2J"), "line 3 of the target list: it holds the control character U+001B");
        assert_eq!(refused(b"\n \n"), "the target list has no line with a target");
    }
}
