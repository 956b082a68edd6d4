//! Fields with a type and a range. A missing field is `None`; an invalid value is -1007 with its name.

use std::fmt::Display;
use std::time::Duration;

use base::code::{Code, Refusal, shown};
use base::{Fields, Labels, SECONDS_MAX, Scalar, Wall};

/// The refusal of an invalid value.
pub(super) fn bad(name: &str, value: &Scalar, wanted: impl Display) -> Refusal {
    // "5" is not 5, which its reader may overlook.
    let looks_right = value.as_text().is_some_and(|text| serde_json::from_str::<serde_json::Value>(text).is_ok());
    let kind = if looks_right { "the text " } else { "" };
    Refusal::new(Code::BadField, format!("{name} is {kind}{}; it must be {wanted}", shown(&value.to_string())))
}

/// The value of a field, converted by `read`. `wanted` describes the valid values.
pub(super) fn field<T>(
    fields: &Fields,
    name: &str,
    wanted: impl Display,
    read: impl FnOnce(&Scalar) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    read(value).map(Some).ok_or_else(|| bad(name, value, wanted))
}

/// A whole number from 0 to `max`.
pub(super) fn whole(fields: &Fields, name: &str, max: u32) -> Result<Option<u32>, Refusal> {
    let read = |value: &Scalar| u32::try_from(value.as_u64()?).ok().filter(|count| *count <= max);
    field(fields, name, format_args!("a whole number from 0 to {max}"), read)
}

/// A moment in unix seconds.
pub(super) fn moment(fields: &Fields, name: &str) -> Result<Option<Wall>, Refusal> {
    field(fields, name, "unix seconds with decimals", |value| Wall::from_unix_seconds(value.as_f64()?))
}

/// A time in seconds with decimals.
pub(super) fn seconds(fields: &Fields, name: &str) -> Result<Option<Duration>, Refusal> {
    let read = |value: &Scalar| value.as_f64().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    let seconds = field(fields, name, format_args!("seconds from 0 to {SECONDS_MAX}, decimals allowed"), read)?;
    Ok(seconds.map(Duration::from_secs_f64))
}

/// A time after the arrival, in place of a moment, because the clock of the sender may be wrong: a text such as `+90`.
pub(super) fn ahead(fields: &Fields, name: &str) -> Result<Option<Duration>, Refusal> {
    let Some(text) = fields.text(name).filter(|text| text.starts_with('+')) else { return Ok(None) };
    let time = text[1..].parse().ok().filter(|seconds: &f64| (0.0..=SECONDS_MAX).contains(seconds));
    let wanted = format_args!("unix seconds, or + and seconds from 0 to {SECONDS_MAX}");
    let time = time.ok_or_else(|| bad(name, &Scalar::from(text), wanted))?;
    Ok(Some(Duration::from_secs_f64(time)))
}

/// The text of a time that [`ahead`] reads.
pub(super) fn ahead_text(time: Duration) -> String {
    format!("+{}", time.as_secs_f64())
}

/// A truth value.
pub(super) fn truth(fields: &Fields, name: &str) -> Result<Option<bool>, Refusal> {
    field(fields, name, "true or false", Scalar::as_bool)
}

/// A whole number.
pub(super) fn number(fields: &Fields, name: &str) -> Result<Option<u64>, Refusal> {
    field(fields, name, "a whole number that is not negative", Scalar::as_u64)
}

/// Names separated by commas.
pub(super) fn labels(fields: &Fields, name: &str) -> Result<Labels, Refusal> {
    let Some(value) = fields.get(name) else { return Ok(Labels::default()) };
    let text = value.as_text().ok_or_else(|| bad(name, value, "a text: one or more names, separated by commas"))?;
    Labels::parse(text).map_err(|error| Refusal::new(Code::BadField, format!("{name}: {error}")))
}
