//! Notes on stderr about output that a result lacks, so that no tail passes for the whole.

use api::wire::client::TaskView;
use term::output::note;
use term::table::grouped;

/// The character that replaces bytes that are not text.
const REPLACEMENT: char = '\u{fffd}';

/// Notes outputs that are shown only in part, or not byte for byte.
pub(super) fn note_tails(task: &TaskView) {
    sentences(task).iter().for_each(|sentence| note(sentence));
}

fn sentences(task: &TaskView) -> Vec<String> {
    let Some(bytes) = task.output_bytes() else { return Vec::new() };
    let outputs = [
        ("report.log", task.report(), bytes.report, "REPORT_LOG_KEEP_BYTES"),
        ("stdout", task.stdout(), bytes.stdout, "STDOUT_KEEP_BYTES"),
        ("stderr", task.stderr(), bytes.stderr, "STDERR_KEEP_BYTES"),
    ];
    let mut sentences = Vec::new();
    for (name, tail, bytes, key) in outputs {
        let (shown, replaced) = (tail.len() as u64, tail.matches(REPLACEMENT).count() as u64);
        // Equal lengths mean that the tool has printed these characters itself.
        let replaced = if shown == bytes { 0 } else { replaced };
        // Each replacement has three bytes and stands for one to three.
        let certain = shown - 2 * replaced;
        let part = match (grouped(shown), grouped(bytes)) {
            (shown, all) if replaced == 0 && certain < bytes => Some(format!("the last {shown} of {all} bytes")),
            (_, all) if shown < bytes => Some(format!("only the end of {all} bytes")),
            (_, all) if certain < bytes => Some(format!("perhaps only the end of {all} bytes")),
            _ => None,
        };
        sentences.extend(part.map(|part| format!("{name}: {part} ({key} of the agent)")));
        if replaced > 0 {
            sentences.push(format!("{name}: bytes that are not UTF-8 are shown as {REPLACEMENT}"));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Fields, words};

    fn told(stdout: &str, bytes: i32) -> Vec<String> {
        let fields = Fields::new().with(words::STDOUT, stdout).with(words::STDOUT_BYTES, bytes);
        sentences(&fields.with(words::REPORT_BYTES, 0).with(words::STDERR_BYTES, 0).into())
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(told("all", 3), [""; 0]);
        assert_eq!(told("end", 23_893), ["stdout: the last 3 of 23,893 bytes (STDOUT_KEEP_BYTES of the agent)"]);
        assert_eq!(told("\u{fffd}", 1), ["stdout: bytes that are not UTF-8 are shown as \u{fffd}"]);
        assert_eq!(told("\u{fffd}", 3), [""; 0], "the tool has printed it");
        let (key, odd) =
            ("(STDOUT_KEEP_BYTES of the agent)", "stdout: bytes that are not UTF-8 are shown as \u{fffd}".to_owned());
        let cut = [format!("stdout: perhaps only the end of 4,000 bytes {key}"), odd.clone()];
        assert_eq!(told(&"\u{fffd}".repeat(3333), 4000), cut, "more bytes than what is shown surely stands for");
        let cut = [format!("stdout: only the end of 30,000 bytes {key}"), odd];
        assert_eq!(told(&"\u{fffd}".repeat(3333), 30_000), cut);
        assert_eq!(sentences(&Fields::new().with(words::STDOUT, "x").into()), [""; 0], "an agent that does not count");
    }

    #[test]
    fn thousands_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
