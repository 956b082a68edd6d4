//! Parses durations and moments as people write them.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, SpanRelativeTo, Timestamp, ToSpan as _};

use super::times::timestamp;
use base::Wall;

/// The syntax of durations and moments, for --help.
pub const HELP: &str = "\
A DURATION is a number of seconds, such as 90 or 0.5, or has units, such as 10m or 1h30m. \
A MOMENT is +DURATION from now, a time of day such as 18:30 (the next one), a local date and time such as 2026-01-31T18:30, \
one with a zone such as 2026-01-31T18:30:00Z, or unix seconds.";

/// The syntax of a moment in the past, for --help.
pub const PAST_HELP: &str = "\
A TIME is today, yesterday or yesterday 18:30; a DURATION before now, such as 2h or 7d; a time of day such as 11:00 (the last one); \
a local date or date and time such as 2026-01-31 or 2026-01-31T18:30; one with a zone such as 2026-01-31T18:30:00Z; or unix seconds.";

/// Parses a duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let with_units =
        || text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok();
    let time = seconds.or_else(with_units);
    time.ok_or_else(|| {
        "it is not a duration; write seconds, such as 90 or 0.5, or units, such as 10m or 1h30m".to_owned()
    })
}

/// A moment, which may depend on the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// A duration from now.
    In(Duration),
    /// The next moment at which clocks show this time.
    Next(Time),
    /// A moment.
    At(Wall),
}

/// Parses a moment.
pub fn moment(text: &str) -> Result<Moment, String> {
    if let Some(ahead) = text.strip_prefix('+') {
        return duration(ahead).map(Moment::In);
    }
    let date = |format| DateTime::strptime(format, text).ok();
    let formats = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"];
    let written: Option<DateTime> = formats.into_iter().find_map(date);
    let known = unix_seconds(text)
        .or_else(|| text.parse().ok().and_then(wall))
        .or_else(|| written.and_then(|date| local(date, &TimeZone::system())))
        .map(Moment::At);
    if known.is_none() && written.is_some() {
        return Err("a moment is between 1970 and the end of 9999".to_owned());
    }
    if known.is_none() && is_beyond(text) {
        return Err(BEYOND.to_owned());
    }
    known.or_else(|| time_of_day(text).map(Moment::Next)).ok_or_else(|| {
        if text.parse().is_ok_and(|seconds: f64| (0.0..UNIX_SECONDS_MIN).contains(&seconds)) {
            return format!(
                "a number below {UNIX_SECONDS_MIN} is no date in unix seconds; write +{text} for seconds from now"
            );
        }
        "it is not a moment; write +10m, 18:30, 2026-01-31T18:30, 2026-01-31T18:30:00Z or unix seconds".to_owned()
    })
}

impl Moment {
    /// The moment, relative to `now`.
    pub fn wall(self, now: Wall) -> Wall {
        match self {
            Self::In(ahead) => now + ahead,
            Self::At(wall) => wall,
            Self::Next(time) => next(time, now, &TimeZone::system()),
        }
    }
}

/// A moment in the past, which may depend on the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Past {
    /// A duration before now.
    Ago(Duration),
    /// The last moment at which clocks showed this time.
    Last(Time),
    /// This time on the day this many days before today.
    OfDay(i64, Time),
    /// A moment.
    At(Wall),
}

/// Parses a moment in the past.
pub fn past(text: &str) -> Result<Past, String> {
    for (word, days) in [("today", 0), ("yesterday", 1)] {
        if let Some(rest) = text.strip_prefix(word) {
            let at =
                if rest.is_empty() { Some(Time::midnight()) } else { time_of_day(rest.trim_start_matches([' ', 'T'])) };
            return at
                .map(|at| Past::OfDay(days, at))
                .ok_or_else(|| format!("{rest:?} is not a time of day; write {word} 18:30"));
        }
    }
    if let Some(at) = time_of_day(text) {
        return Ok(Past::Last(at));
    }
    let midnight = |day: Date| local(day.to_datetime(Time::midnight()), &TimeZone::system());
    if let Some(day) = Date::strptime("%Y-%m-%d", text).ok().and_then(midnight) {
        return Ok(Past::At(day));
    }
    if let Ok(Moment::At(at)) = moment(text) {
        return Ok(Past::At(at));
    }
    if is_beyond(text) {
        return Err(BEYOND.to_owned());
    }
    // A plus sign would mean a moment in the future.
    duration(text).ok().filter(|_| !text.starts_with('+')).map(Past::Ago).ok_or_else(|| {
        "it is not a time; write yesterday, 2h (ago), 11:00, 2026-01-31, 2026-01-31T18:30 or unix seconds".to_owned()
    })
}

impl Past {
    /// The moment, relative to `now`.
    pub fn wall(self, now: Wall) -> Wall {
        match self {
            Self::Ago(ago) => now.before(ago),
            Self::At(wall) => wall,
            Self::OfDay(days, time) => of_day(time, days, now, &TimeZone::system()).next().unwrap_or(now),
            Self::Last(time) => last(time, now, &TimeZone::system()),
        }
    }
}

/// How far local clocks are ahead of UTC at this moment, in seconds.
pub fn clock_ahead(now: Wall) -> i32 {
    TimeZone::system().to_offset(timestamp(now)).seconds()
}

/// The moments of a day at which clocks show this time. There are two when clocks are set back over it.
fn of_day(time: Time, days_before: i64, now: Wall, zone: &TimeZone) -> impl DoubleEndedIterator<Item = Wall> {
    let day = today(now, zone).checked_sub(days_before.days()).ok();
    day.map(|day| moments(day.to_datetime(time), zone)).unwrap_or_default().into_iter()
}

fn today(now: Wall, zone: &TimeZone) -> Date {
    timestamp(now).to_zoned(zone.clone()).date()
}

/// Smallest number that is read as unix seconds, in September 2001. A smaller one is more likely a duration without its
/// sign.
const UNIX_SECONDS_MIN: f64 = 1e9;

/// A number that is too large for unix seconds is no duration either.
const BEYOND: &str = "a moment in unix seconds is before the year 2255";

fn is_beyond(text: &str) -> bool {
    text.parse().is_ok_and(|seconds: f64| seconds >= UNIX_SECONDS_MIN && Wall::from_unix_seconds(seconds).is_none())
}

fn time_of_day(text: &str) -> Option<Time> {
    ["%H:%M:%S", "%H:%M"].into_iter().find_map(|format| Time::strptime(format, text).ok())
}

fn unix_seconds(text: &str) -> Option<Wall> {
    let seconds = text.parse().ok().filter(|seconds| *seconds >= UNIX_SECONDS_MIN)?;
    Wall::from_unix_seconds(seconds)
}

fn wall(at: Timestamp) -> Option<Wall> {
    u64::try_from(at.as_microsecond()).ok().map(Wall::from_micros)
}

/// The moments at which clocks show this time, earliest first. A time that is skipped when clocks are set forward is
/// shifted by the length of the jump: 02:30 becomes 03:30.
fn moments(date: DateTime, zone: &TimeZone) -> Vec<Wall> {
    let at = zone.to_ambiguous_timestamp(date);
    let found = match at.offset() {
        AmbiguousOffset::Fold { .. } => [at.earlier().ok(), at.later().ok()],
        AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => [at.compatible().ok(), None],
    };
    found.into_iter().flatten().filter_map(wall).collect()
}

fn local(date: DateTime, zone: &TimeZone) -> Option<Wall> {
    moments(date, zone).first().copied()
}

fn next(time: Time, now: Wall, zone: &TimeZone) -> Wall {
    (0..=2).flat_map(|days| of_day(time, -days, now, zone)).find(|at| *at > now).unwrap_or(now)
}

fn last(time: Time, now: Wall, zone: &TimeZone) -> Wall {
    (0..=2).flat_map(|days| of_day(time, days, now, zone).rev()).find(|at| *at <= now).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall::from_micros(1_480_000_000_000_000);
    const DAY: Duration = Duration::from_secs(86_400);

    fn at(text: &str) -> Wall {
        moment(text).unwrap().wall(NOW)
    }

    #[test]
    fn a_duration_is_seconds_or_has_units() {
        for (text, millis) in
            [("90", 90_000), ("0.5", 500), ("250ms", 250), ("10m", 600_000), ("1h30m", 5_400_000), ("2d", 172_800_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "x", "-1", "-1m", "1m ago", "inf", "nan", "1e30", "1 x", "m"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_is_relative_absolute_or_a_time_of_day() {
        assert_eq!(at("+90"), NOW + Duration::from_secs(90));
        assert_eq!(at("+1h30m"), NOW + Duration::from_secs(5_400));
        assert_eq!(at("1480000001.5"), NOW + Duration::from_millis(1_500));
        assert_eq!(at("2016-11-24T15:06:41Z"), NOW + Duration::from_secs(1));
        assert_eq!(at("2016-11-24T16:06:41.5+01:00"), NOW + Duration::from_millis(1_500));
        for text in ["2016-11-25T12:00", "2016-11-25 12:00:00"] {
            assert_eq!(super::super::times::local(at(text)), "2016-11-25 12:00:00", "{text}");
        }
    }

    #[test]
    fn a_time_of_day_is_the_next_one() {
        for text in ["00:00", "15:06", "23:59:59"] {
            let found = at(text);
            assert!(found > NOW && found <= NOW + DAY + Duration::from_secs(3600), "{text}: {found}");
            assert!(super::super::times::local(found).contains(text), "{text}: {found}");
        }
    }

    #[test]
    fn a_time_in_the_past_is_of_a_day_before_or_the_last_one() {
        let at = |text: &str| past(text).unwrap().wall(NOW);
        let day = |wall| super::super::times::local(wall)[..10].to_owned();
        assert_eq!(at("2h"), NOW.before(Duration::from_secs(7_200)));
        assert_eq!(at("7d"), NOW.before(DAY * 7));
        assert_eq!(at("2016-11-24T15:06:39Z"), NOW.before(Duration::from_secs(1)));
        assert_eq!(day(at("2016-11-20")), "2016-11-20");
        assert_eq!(day(at("today")), day(NOW));
        assert_eq!(
            at("today").before(Duration::from_micros(1)).micros() / 1_000_000 + 1,
            at("today").micros() / 1_000_000
        );
        assert_eq!(day(at("yesterday 18:30")), day(NOW.before(DAY)));
        for text in ["00:00", "15:06", "23:59:59"] {
            let found = at(text);
            assert!(found <= NOW && found + DAY + Duration::from_secs(3600) > NOW, "{text}: {found}");
        }
        for text in ["", "tomorrow", "yesterday at noon", "25:00", "+1h", "-1h", "2016-13-01", "99999999999", "1e15"] {
            assert!(past(text).is_err(), "{text}");
        }
    }

    /// Clocks go from 02:00 to 03:00 on 25 March 2026, and from 02:00 back to 01:00 on 4 April.
    #[test]
    fn a_time_that_clocks_skip_or_show_twice_is_the_next_moment() {
        let zone = TimeZone::posix("AAA0BBB,J84/2,J94/2").unwrap();
        let utc = |text: &str| wall(text.parse().unwrap()).unwrap();
        let time = |hour, minute| Time::constant(hour, minute, 0, 0);
        let evening = utc("2026-03-24T22:00:00Z");
        assert_eq!(next(time(2, 30), evening, &zone), utc("2026-03-25T02:30:00Z"), "clocks show 03:30");
        assert_eq!(next(time(3, 30), evening, &zone), utc("2026-03-25T02:30:00Z"));
        let written = DateTime::constant(2026, 3, 25, 2, 30, 0, 0);
        assert_eq!(local(written, &zone), Some(utc("2026-03-25T02:30:00Z")), "the long form");
        let twice = [utc("2026-04-04T00:30:00Z"), utc("2026-04-04T01:30:00Z")];
        assert_eq!(moments(DateTime::constant(2026, 4, 4, 1, 30, 0, 0), &zone), twice);
        assert_eq!(next(time(1, 30), twice[0].before(Duration::from_secs(60)), &zone), twice[0]);
        assert_eq!(next(time(1, 30), twice[0] + Duration::from_secs(60), &zone), twice[1], "it comes once more");
        assert_eq!(last(time(1, 30), twice[1] + Duration::from_secs(60), &zone), twice[1]);
        assert_eq!(last(time(1, 30), twice[1].before(Duration::from_secs(60)), &zone), twice[0]);
    }

    #[test]
    fn a_date_beyond_the_calendar_is_refused_as_such() {
        assert!(moment("9999-12-31T23:59").unwrap_err().contains("between 1970 and the end of 9999"));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in ["", "x", "10m", "600", "+", "-10m", "25:00", "2026-13-01T00:00", "1e30", "tomorrow"] {
            assert!(moment(text).is_err(), "{text}");
        }
        for text in ["1", "600", "0.5", "999999999"] {
            let why = moment(text).unwrap_err();
            assert!(why.contains("below 1000000000 is no date") && why.contains(&format!("write +{text} ")), "{why}");
        }
    }
}
