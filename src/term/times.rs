//! Formats moments and durations, mostly for people.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use base::{Policy, UNTIL_OPENED, Wall, words};

/// A moment in the time zone of the reader: `2026-01-31 12:00:00`.
pub fn local(wall: Wall) -> String {
    formatted(wall, "%Y-%m-%d %H:%M:%S")
}

/// A sentence that says that no task starts until this moment.
pub fn paused(until: Wall) -> String {
    let until = if until >= UNTIL_OPENED { String::new() } else { format!(" until {}", local(until)) };
    format!("no task starts{until}: the service is paused; `llts resume --service` ends that")
}

/// The time of day of a moment, in the time zone of the reader: `12:00:00`.
pub fn time_of_day(wall: Wall) -> String {
    formatted(wall, "%H:%M:%S")
}

fn formatted(wall: Wall, format: &str) -> String {
    timestamp(wall).to_zoned(TimeZone::system()).strftime(format).to_string()
}

/// A moment for calculations with time zones.
pub(crate) fn timestamp(wall: Wall) -> Timestamp {
    let micros = i64::try_from(wall.micros()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or_default()
}

/// A moment for programs, in the form of RFC 3339: `2026-01-31T11:00:00.25Z`.
pub fn rfc3339(wall: Wall) -> String {
    timestamp(wall).to_string()
}

/// A text from the controller with local times instead of unix seconds, `2026-01-31 12:00:00.250`, and with options of the
/// command line instead of the fields that they set, `--max-fails`.
pub fn readable(text: &str) -> String {
    let text = text.replace("unix time ", "");
    with_moments(&with_options(&text), |wall| formatted(wall, "%Y-%m-%d %H:%M:%S%.3f"))
}

fn with_options(text: &str) -> String {
    let option = |field: &str| match Policy::FIELDS.iter().find(|known| known.word == field) {
        Some(known) => Some(known.option()),
        None => (field == words::AFTER).then(|| "after".to_owned()),
    };
    let word = |word: &str| {
        let field = word.trim_matches(|letter: char| !letter.is_ascii_alphabetic() && letter != '_');
        option(field).map_or_else(|| word.to_owned(), |option| word.replacen(field, &format!("--{option}"), 1))
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

/// A text from the controller with moments for programs instead of unix seconds.
pub(crate) fn utc(text: &str) -> String {
    with_moments(text, rfc3339)
}

fn with_moments(text: &str, shown: impl Fn(Wall) -> String) -> String {
    let word = |word: &str| {
        let number = word.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        match unix_seconds(number) {
            Some(wall) => shown(wall) + &word[number.len()..],
            None => word.to_owned(),
        }
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

/// Parses unix seconds in the form that the controller writes, with six decimals.
fn unix_seconds(text: &str) -> Option<Wall> {
    let (seconds, micros) = text.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let of_a_clock = seconds.len() >= 9 && micros.len() == 6 && digits(seconds) && digits(micros);
    if of_a_clock { text.parse().ok().and_then(Wall::from_unix_seconds) } else { None }
}

/// An untrusted number of seconds, formatted as a duration.
pub fn seconds(seconds: f64) -> String {
    duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A duration with the digits that matter to a person: `12 ms`, `3.4 s`, `5 min 0 s`.
pub fn duration(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
        _ => format!("{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// A duration in one unit, for a column: `12 ms`, `3.4 s`, `45 s`, `6 min`, `3 h`, `2 d`.
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How long ago a moment is.
pub fn ago(now: Wall, at: Wall) -> String {
    match now.since(at).as_secs() {
        0 => "now".to_owned(),
        seconds @ 1..10 => format!("{seconds} s ago"),
        seconds => format!("{} ago", short(Duration::from_secs(seconds))),
    }
}

/// As [`readable`], in fewer letters: with the time of day, and with the date if that is not today.
pub fn near(text: &str, now: Wall) -> String {
    let text = with_options(text);
    let today = formatted(now, "%Y-%m-%d");
    let word = |word: &str| match unix_seconds(word.trim_end()) {
        Some(at) if formatted(at, "%Y-%m-%d") == today => formatted(at, "%H:%M:%S"),
        Some(at) => formatted(at, "%Y-%m-%d %H:%M"),
        None => return word.to_owned(),
    } + &word[word.trim_end().len()..];
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let shown = |millis| duration(Duration::from_millis(millis));
        assert_eq!([0, 999, 1_000, 59_999].map(shown), ["0 ms", "999 ms", "1.0 s", "59.9 s"]);
        assert_eq!([60_000, 3_599_999, 3_600_000].map(shown), ["1 min 0 s", "59 min 59 s", "1 h 0 min"]);
    }

    #[test]
    fn a_column_shows_one_unit() {
        let shown = |millis| short(Duration::from_millis(millis));
        assert_eq!([5, 2_000, 45_900, 119_000, 360_000].map(shown), ["5 ms", "2.0 s", "45 s", "119 s", "6 min"]);
        assert_eq!([7_200_000, 259_200_000].map(shown), ["2 h", "3 d"]);
        let at = |seconds: u64| Wall::from_micros(seconds * 1_000_000);
        assert_eq!([ago(at(500), at(500)), ago(at(500), at(320)), ago(at(3), at(1))], ["now", "3 min ago", "2 s ago"]);
    }

    #[test]
    fn fields_of_a_policy_are_shown_as_options() {
        assert_eq!(
            readable("2 runs failed (__TIMEOUT__); __MAX_FAILS__ allows 1"),
            "2 runs failed (--timeout); --max-fails allows 1"
        );
        assert_eq!(readable("the term x of __AFTER__ fails"), "the term x of --after fails");
        assert_eq!(readable("MAX_FAILS of __ODD__ and __x__\n"), "MAX_FAILS of __ODD__ and __x__\n");
    }

    #[test]
    fn a_near_moment_is_a_time_of_day() {
        let now = Wall::from_micros(1_480_000_000_000_000);
        assert_eq!(near("starts 1480000060.000000 now", now).len(), "starts 15:07:40 now".len());
        assert_eq!(near("starts 1490000000.000000", now).len(), "starts 2017-03-20 08:53".len());
        assert_eq!(near("no agent has tag gpu", now), "no agent has tag gpu");
        assert_eq!(near("it took longer (__TIMEOUT__)", now), "it took longer (--timeout)");
    }

    #[test]
    fn a_text_is_readable_where_it_holds_moments() {
        let wall = Wall::from_micros(1_480_000_000_120_000);
        let shown = format!("{}.120", local(wall));
        let text =
            "1480000000.120000 WAITING\nbefore 1480000000.120000: x, TASK_1480000000.120000_AZazA took 1.500000 s";
        let read = readable(text);
        assert_eq!(read, format!("{shown} WAITING\nbefore {shown}: x, TASK_1480000000.120000_AZazA took 1.500000 s"));
    }

    #[test]
    fn a_moment_has_a_date_and_a_time() {
        let shown = local(Wall::from_micros(1_480_000_000_000_000));
        assert_eq!(shown.len(), "2016-11-24 15:06:40".len());
        assert!(shown.starts_with("2016-11-2"), "{shown}");
    }
}
