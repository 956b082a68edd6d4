//! The terms of a new task, as texts: what is written goes into the hash as it is, because originals read it there.

use super::words::field;
use base::tdf::number::{float, int, repr};

/// A value that no task can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value:?}; allowed is {allowed}")]
pub struct BadTerm {
    /// The name of the field.
    pub field: &'static str,
    /// The value, shortened.
    pub value: String,
    /// A description of a valid value.
    pub allowed: &'static str,
}

/// When a task may start and must have ended, how long a run may take, and how often it may fail or take too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Unix seconds.
    pub start_after: String,
    /// Unix seconds, or `inf`.
    pub end_before: String,
    /// Seconds, or `inf`.
    pub timeout: String,
    /// A whole number.
    pub max_fails: String,
    /// A whole number.
    pub max_timeouts: String,
}

impl Terms {
    /// The terms with blanks at both ends of a value removed.
    ///
    /// # Errors
    /// The first value that Python's `float` or `int` does not read, that is not a number, or too large for Redis.
    pub fn checked(self) -> Result<Self, BadTerm> {
        Ok(Self {
            start_after: seconds(field::START_AFTER, &self.start_after)?,
            end_before: seconds(field::END_BEFORE, &self.end_before)?,
            timeout: seconds(field::TIMEOUT, &self.timeout)?,
            max_fails: count(field::MAX_FAILS, &self.max_fails)?,
            max_timeouts: count(field::MAX_TIMEOUTS, &self.max_timeouts)?,
        })
    }

    /// The terms with a later start, written as the original writes a sum.
    #[must_use]
    pub fn started_later(self, seconds: f64) -> Self {
        let start_after = float(&self.start_after).map_or(self.start_after, |start| repr(start + seconds));
        Self { start_after, ..self }
    }
}

fn seconds(field: &'static str, text: &str) -> Result<String, BadTerm> {
    // Redis refuses a score that is too large for a double, and takes an infinite one by its name.
    let is_named = !text.contains(|letter: char| letter.is_ascii_digit());
    let allowed = float(text).is_some_and(|number| number.is_finite() || (is_named && number > 0.0));
    if allowed { Ok(text.trim().to_owned()) } else { Err(bad(field, text, "a number of seconds, or inf")) }
}

fn count(field: &'static str, text: &str) -> Result<String, BadTerm> {
    if int(text).is_some() { Ok(text.trim().to_owned()) } else { Err(bad(field, text, "a whole number")) }
}

fn bad(field: &'static str, text: &str, allowed: &'static str) -> BadTerm {
    BadTerm { field, value: text.chars().take(40).collect(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(value: &str, max: &str) -> Terms {
        let (value, max) = (value.to_owned(), max.to_owned());
        Terms {
            start_after: value.clone(),
            end_before: value.clone(),
            timeout: value,
            max_fails: max.clone(),
            max_timeouts: max,
        }
    }

    #[test]
    fn a_value_stays_as_it_is_written() {
        for value in ["0", "60", "60.0", "12.5", "inf", "Infinity", "-1", "1e3"] {
            assert_eq!(terms(value, "0").checked().unwrap().timeout, value);
        }
        assert_eq!(terms(" 5 ", "-1").checked().unwrap(), terms("5", "-1"));
        assert!(terms("0", &"9".repeat(30)).checked().is_ok());
    }

    #[test]
    fn a_value_that_an_original_does_not_read_is_refused() {
        for value in ["", "nan", "x", "1e400", "-inf", "1,5", "0x10"] {
            let refusal = terms(value, "0").checked().unwrap_err();
            assert_eq!((refusal.field, refusal.value.as_str()), ("start_after", value));
        }
        for max in ["", "1.5", "inf", "1e400", "nan"] {
            assert_eq!(terms("0", max).checked().unwrap_err().field, "max_fails");
        }
    }

    #[test]
    fn a_later_start_is_written_as_python_does() {
        assert_eq!(terms("0", "0").started_later(0.25).start_after, "0.25");
        assert_eq!(terms("1795312915", "0").started_later(0.0).start_after, "1795312915.0");
        assert_eq!(terms("inf", "0").started_later(0.5).start_after, "inf");
    }
}
