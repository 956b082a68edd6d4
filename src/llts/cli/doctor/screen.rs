//! The screen of `llts doctor`.

use super::{Finding, Verdict};
use term::hints;
use term::style::{Look, PLAIN, Screen};

/// Columns before the text of a finding: the verdict and the name of the check.
const INDENT: usize = 6 + 15;

/// A line for each finding, what to do below it, and the number of each verdict.
pub(super) fn screen(found: &[(&str, Finding)], width: Option<usize>) -> String {
    const ARROW: &str = "-> ";
    let mut screen = Screen::new(Look::plain(width));
    for (name, Finding { verdict, what, remedy }) in found {
        screen.behind((PLAIN, &format!("{:<6}{name}", verdict.word()), INDENT), PLAIN, what);
        if let Some(remedy) = remedy {
            let arrow = format!("{:INDENT$}{ARROW}", "");
            screen.behind((PLAIN, &arrow, INDENT + ARROW.len()), PLAIN, &hints::typed(remedy));
        }
    }
    let count = |of: Verdict| found.iter().filter(|(_, finding)| finding.verdict == of).count();
    let (good, note, bad) = (count(Verdict::Good), count(Verdict::Note), count(Verdict::Bad));
    screen.plain(&format!("{good} ok, {}, {bad} bad", base::counted(note, "note")));
    screen.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Vec<(&'static str, Finding)> {
        vec![
            (
                "configuration",
                Finding::good("/home/u/.local/state/llts/config.toml: 2 settings differ from their defaults"),
            ),
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
        ok    configuration  /home/u/.local/state/llts/config.toml: 2 settings differ
                             from their defaults
        note  ports          15555 is in use: process 812 (nginx) has it
                             -> nothing needs to be done: the service takes a free port
                                and says which
        bad   disk           STATE_DIR /mnt/small/state has 0 bytes free
                             -> make room there, or name another folder with STATE_DIR
        1 ok, 1 note, 1 bad
        ");
    }

    #[test]
    fn a_wide_terminal_needs_no_second_line() {
        insta::assert_snapshot!(screen(&found(), Some(120)), @r"
        ok    configuration  /home/u/.local/state/llts/config.toml: 2 settings differ from their defaults
        note  ports          15555 is in use: process 812 (nginx) has it
                             -> nothing needs to be done: the service takes a free port and says which
        bad   disk           STATE_DIR /mnt/small/state has 0 bytes free
                             -> make room there, or name another folder with STATE_DIR
        1 ok, 1 note, 1 bad
        ");
    }
}
