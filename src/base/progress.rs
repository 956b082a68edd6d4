//! The progress that a run reports.

use std::fmt;

use super::printable;

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The completed part, in ten-thousandths.
    parts: u16,
    /// A description on one line; may be empty.
    pub text: String,
}

impl Progress {
    /// Maximum characters of the text. The rest is cut.
    pub const TEXT_CHARS_MAX: usize = 200;

    /// `None` if the fraction is not between 0 and 1.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and 10,000")]
    pub fn new(fraction: f64, text: &str) -> Option<Self> {
        let parts = (fraction * 10_000.0).round();
        let text = printable(text.trim()).chars().take(Self::TEXT_CHARS_MAX).collect();
        (0.0..=1.0).contains(&fraction).then_some(Self { parts: parts as u16, text })
    }

    /// The completed part, from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        f64::from(self.parts) / 10_000.0
    }

    /// Parses a line: the fraction, then the text after a space.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (fraction, text) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Self::new(fraction.parse().ok()?, text)
    }
}

/// For people: `40 %: tile 12 of 30`. The percentage is truncated, not rounded, so that 100 % means complete.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parts, text } = self;
        let gap = if text.is_empty() { "" } else { ": " };
        write!(f, "{} %{gap}{text}", parts / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_percent() {
        let shown = |line| Progress::parse(line).unwrap().to_string();
        assert_eq!([shown("0.4 tile 12 of 30"), shown("0.9999"), shown("1")], ["40 %: tile 12 of 30", "99 %", "100 %"]);
    }

    #[test]
    fn a_line_is_a_fraction_and_a_text() {
        let read = |line| Progress::parse(line).map(|progress| (progress.fraction(), progress.text));
        assert_eq!(read("0.4 tile 12 of 30\n"), Some((0.4, "tile 12 of 30".to_owned())));
        assert_eq!(read("1"), Some((1.0, String::new())));
        assert_eq!(read("0 a\u{1b}[2Jb"), Some((0.0, "a\u{fffd}[2Jb".to_owned())));
        for line in ["", "x", "1.1", "-0.1", "NaN", "40%", "inf"] {
            assert_eq!(read(line), None, "{line:?}");
        }
        assert_eq!(read(&format!("0 {}", "x".repeat(999))).map(|(_, text)| text.len()), Some(200));
    }
}
