//! Fields with a type and a range. A field that is not there is `None`; a bad value is -1007 with its name.

use std::time::Duration;

use super::code::{Code, Refusal, shown};
use crate::types::{Fields, Labels, SECONDS_MAX, Scalar, Wall};

/// The refusal of a bad value.
pub(super) fn bad(name: &str, value: &Scalar, wanted: &str) -> Refusal {
    Refusal::new(Code::BadField, format!("{name} is {}; it must be {wanted}", shown(&value.to_string())))
}

/// A whole number from 0 to `max`.
pub(super) fn whole(fields: &Fields, name: &str, max: u32) -> Result<Option<u32>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count <= max);
    count.map(Some).ok_or_else(|| bad(name, value, &format!("a whole number from 0 to {max}")))
}

/// A moment in unix seconds.
pub(super) fn moment(fields: &Fields, name: &str) -> Result<Option<Wall>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let wall = value.as_f64().and_then(Wall::from_unix_seconds);
    wall.map(Some).ok_or_else(|| bad(name, value, "unix seconds with decimals"))
}

/// A time in seconds with decimals.
pub(super) fn seconds(fields: &Fields, name: &str) -> Result<Option<Duration>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let time = seconds.map(Duration::from_secs_f64);
    time.map(Some).ok_or_else(|| bad(name, value, &format!("seconds from 0 to {SECONDS_MAX}, decimals allowed")))
}

/// A truth value.
pub(super) fn truth(fields: &Fields, name: &str) -> Result<Option<bool>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    value.as_bool().map(Some).ok_or_else(|| bad(name, value, "true or false"))
}

/// Names that are separated by commas.
pub(super) fn labels(fields: &Fields, name: &str) -> Result<Labels, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(Labels::default()) };
    let text = value.as_text().ok_or_else(|| bad(name, value, "a text: one or more names, separated by commas"))?;
    Labels::parse(text).map_err(|error| Refusal::new(Code::BadField, format!("{name}: {error}")))
}

/// A whole number.
pub(super) fn number(fields: &Fields, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    value.as_u64().map(Some).ok_or_else(|| bad(name, value, "a whole number that is not negative"))
}
