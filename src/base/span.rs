//! Durations in sentences for people, such as log lines and incidents.

use std::time::Duration;

/// A duration with the digits that matter to a person: `12 ms`, `6 s`, `1.5 s`, `10 min`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn span(time: Duration) -> String {
    // Truncated, not rounded, so that "60 s" never appears.
    let seconds = time.as_secs();
    let two = |whole: u64, unit: &str, rest: u64, unit_of_rest: &str| match rest {
        0 => format!("{whole} {unit}"),
        rest => format!("{whole} {unit} {rest} {unit_of_rest}"),
    };
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..10 => match time.subsec_millis() / 100 {
            0 => format!("{seconds} s"),
            tenths => format!("{seconds}.{tenths} s"),
        },
        10..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_that_matter_are_shown() {
        for (millis, shown) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_550, "1.5 s"),
            (6_001, "6 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (61_000, "1 min 1 s"),
            (600_000, "10 min"),
            (7_500_000, "2 h 5 min"),
            (86_400_000, "1 d"),
            (273_600_000, "3 d 4 h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), shown);
        }
    }
}
