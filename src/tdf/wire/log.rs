//! Lines of a task's log: `YYYY-MM-DD HH:MM:SS - message`, in UTC.

use jiff::Timestamp;

/// One line at a moment in unix seconds. Characters that would end the line are escaped.
#[must_use]
pub fn line(at: f64, message: &str) -> String {
    // A moment beyond the calendar comes from a clock that cannot be right.
    #[expect(clippy::cast_possible_truncation, reason = "a conversion from a float saturates")]
    let at = Timestamp::from_second(at as i64).unwrap_or(Timestamp::UNIX_EPOCH);
    let message = message.replace('\r', "\\r").replace('\n', "\\n");
    format!("{} - {message}", at.strftime("%Y-%m-%d %H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_in_utc() {
        assert_eq!(line(1_480_000_000.9, "a\nb"), "2016-11-24 15:06:40 - a\\nb");
        assert_eq!(line(f64::NAN, "x"), "1970-01-01 00:00:00 - x");
    }
}
