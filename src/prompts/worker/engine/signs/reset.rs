//! The time at which a limit ends, as services word it: seconds since 1970, a moment, a duration, or a time of day.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};
use regex_lite::{Captures, Regex};

use base::Wall;

/// The maximum accepted limit. A longer one is taken for an error: no known service has a limit above a week.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 86_400);

/// The time zone of a name, or the local one. A zone that does not exist is the local one.
pub type Zones<'a> = &'a dyn Fn(Option<&str>) -> TimeZone;

fn compiled(pattern: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "the patterns are constants, and tests use each of them")]
    Regex::new(pattern).expect("a valid pattern")
}

static EPOCH: LazyLock<Regex> =
    LazyLock::new(|| compiled(r#"(?:\||resets?_?at"?\s*[:=]\s*"?)([1-9]\d{9}|[1-9]\d{12})\b"#));
static SECONDS: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r#"(?i)(?:in_seconds|retry[-_ ]?after|retrydelay)"?\s*[:=]?\s*"?(\d{1,9}(?:\.\d+)?)\s*s?(?:ec\w*)?\b"#)
});
static MOMENT: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r"\b(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s?(Z|UTC|[+-]\d{2}:?\d{2})?")
});
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)\b(?:in|after)\s+(~?\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|hr|h|minutes?|mins?|min|m|seconds?|secs?|sec|s|ms)(?:[\s,]*(?:and\s+)?\d+(?:\.\d+)?\s*(?:days?|d|hours?|hrs?|hr|h|minutes?|mins?|min|m|seconds?|secs?|sec|s|ms))*)(?:[^a-z0-9]|$)",
    )
});
static PART: LazyLock<Regex> = LazyLock::new(|| compiled(r"(?i)(\d+(?:\.\d+)?)\s*(ms|d|h|m|s)"));
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"(?i)\b(?:resets?|again|until)(?:\s+(?:at|on))?\s+(?:(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?,?\s+(?:at\s+)?)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?\b(?:\s*\(([A-Za-z_]+(?:/[A-Za-z_+-]+)*)\))?",
    )
});

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// The time from `now` to the end of the limit of which a text speaks, at most [`RETRY_AFTER_MAX`]. `None` if it names none, or one in
/// the past.
pub(super) fn after(text: &str, now: Wall, zones: Zones<'_>) -> Option<Duration> {
    let micros = i64::try_from(now.micros()).ok()?;
    let now = Timestamp::from_microsecond(micros).ok()?;
    let until = epoch(text).or_else(|| moment(text, zones)).or_else(|| clock(text, now, zones));
    let time = match until {
        Some(until) => Duration::try_from(until.duration_since(now)).ok(),
        None => seconds(text).or_else(|| duration(text)),
    };
    time.map(|time| time.min(RETRY_AFTER_MAX))
}

fn group<'a>(captures: &'a Captures<'_>, number: usize) -> Option<&'a str> {
    captures.get(number).map(|found| found.as_str())
}

fn epoch(text: &str) -> Option<Timestamp> {
    let captures = EPOCH.captures(text)?;
    let digits = group(&captures, 1)?;
    let number = digits.parse().ok()?;
    if digits.len() > 10 { Timestamp::from_millisecond(number).ok() } else { Timestamp::from_second(number).ok() }
}

fn seconds(text: &str) -> Option<Duration> {
    let captures = SECONDS.captures(text)?;
    Duration::try_from_secs_f64(group(&captures, 1)?.parse().ok()?).ok()
}

fn moment(text: &str, zones: Zones<'_>) -> Option<Timestamp> {
    let captures = MOMENT.captures(text)?;
    let (date, time) = (group(&captures, 1)?, group(&captures, 2)?);
    match group(&captures, 3) {
        Some("Z" | "UTC") => format!("{date}T{time}Z").parse().ok(),
        Some(offset) => format!("{date}T{time}{offset}").parse().ok(),
        None => {
            let local: DateTime = format!("{date}T{time}").parse().ok()?;
            Some(local.to_zoned(zones(None)).ok()?.timestamp())
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let captures = DURATION.captures(text)?;
    let mut sum = 0.0;
    for part in PART.captures_iter(group(&captures, 1)?) {
        let unit = match group(&part, 2)?.to_ascii_lowercase().as_str() {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "ms" => 0.001,
            _ => 1.0,
        };
        sum += group(&part, 1)?.parse::<f64>().ok()? * unit;
    }
    Duration::try_from_secs_f64(sum).ok()
}

/// The next moment with this time of day, or the one of this date.
fn clock(text: &str, now: Timestamp, zones: Zones<'_>) -> Option<Timestamp> {
    let captures = CLOCK.captures(text)?;
    let half = group(&captures, 6).map(str::to_ascii_lowercase);
    let minute = group(&captures, 5);
    // A number alone is no time of day.
    if half.is_none() && minute.is_none() {
        return None;
    }
    let hour: i8 = group(&captures, 4)?.parse().ok()?;
    let hour = match half.as_deref() {
        Some("pm") if hour < 12 => hour + 12,
        Some("am") if hour == 12 => 0,
        _ => hour,
    };
    let time = Time::new(hour, minute.unwrap_or("0").parse().ok()?, 0, 0).ok()?;
    let today: Zoned = now.to_zoned(zones(group(&captures, 7)));
    let at = |date: Date| Some(date.to_datetime(time).to_zoned(today.time_zone().clone()).ok()?.timestamp());
    if let (Some(month), Some(day)) = (group(&captures, 1), group(&captures, 2)) {
        let month = MONTHS.iter().position(|name| month.eq_ignore_ascii_case(name))? + 1;
        let year = group(&captures, 3).map_or(Some(today.year()), |year| year.parse().ok())?;
        return at(Date::new(year, i8::try_from(month).ok()?, day.parse().ok()?).ok()?);
    }
    at(today.date()).filter(|moment| *moment > now).or_else(|| at(today.date().checked_add(1.day()).ok()?))
}
