//! The screen of `llts doctor`.

use std::fmt::Write as _;

use super::{Finding, Verdict};

/// Columns before the text of a finding: the verdict and the name of the check.
const INDENT: usize = 6 + 15;

/// A line for each finding, what to do below it, and the number of each verdict.
pub(super) fn screen(found: &[(&str, Finding)], width: Option<usize>) -> String {
    let mut text = String::new();
    for (name, Finding { verdict, what, remedy }) in found {
        paragraph(&mut text, &format!("{:<6}{name:<15}", verdict.word()), what, width);
        if let Some(remedy) = remedy {
            paragraph(&mut text, &format!("{:INDENT$}-> ", ""), remedy, width);
        }
    }
    let count = |of: Verdict| found.iter().filter(|(_, finding)| finding.verdict == of).count();
    let (good, note, bad) = (count(Verdict::Good), count(Verdict::Note), count(Verdict::Bad));
    // Writing to a text cannot fail.
    let _ = writeln!(text, "{good} ok, {note} notes, {bad} bad");
    text
}

/// Adds a text behind a head, in lines that fit the width.
fn paragraph(text: &mut String, head: &str, words: &str, width: Option<usize>) {
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(head.len()).max(20));
    let mut line = String::new();
    let mut lines = Vec::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    for (number, line) in lines.iter().enumerate() {
        let head = if number == 0 { head.to_owned() } else { " ".repeat(head.len()) };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{}", format!("{head}{line}").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<(&'static str, Finding)> {
        vec![
            ("configuration", Finding::good("/home/u/.local/state/llts/config.toml: 2 keys differ from the defaults")),
            (
                "ports",
                Finding::note(
                    "15555 is in use: process 812 (nginx) has it",
                    "nothing needs to be done: the service takes a free port and says which",
                ),
            ),
            (
                "disk",
                Finding::bad(
                    "STATE_DIR /mnt/small/state has 0 bytes free",
                    "make room there, or name another folder with STATE_DIR",
                ),
            ),
        ]
    }

    #[test]
    fn findings_fit_the_terminal() {
        insta::assert_snapshot!(screen(&found(), Some(80)), @r"
        ok    configuration  /home/u/.local/state/llts/config.toml: 2 keys differ from
                             the defaults
        note  ports          15555 is in use: process 812 (nginx) has it
                             -> nothing needs to be done: the service takes a free port
                                and says which
        bad   disk           STATE_DIR /mnt/small/state has 0 bytes free
                             -> make room there, or name another folder with STATE_DIR
        1 ok, 1 notes, 1 bad
        ");
    }

    #[test]
    fn a_wide_terminal_needs_no_second_line() {
        insta::assert_snapshot!(screen(&found(), Some(120)), @r"
        ok    configuration  /home/u/.local/state/llts/config.toml: 2 keys differ from the defaults
        note  ports          15555 is in use: process 812 (nginx) has it
                             -> nothing needs to be done: the service takes a free port and says which
        bad   disk           STATE_DIR /mnt/small/state has 0 bytes free
                             -> make room there, or name another folder with STATE_DIR
        1 ok, 1 notes, 1 bad
        ");
    }
}
