//! A flat JSON object: ordered names with scalar values, and nothing nested (docs/sources/controller.md, 2).

use std::fmt;

use super::Wall;

/// One value of a flat object.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number with the digits that were sent.
    Number(serde_json::Number),
    /// A text.
    Text(String),
}

impl Scalar {
    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Bool(_) | Self::Number(_) => None,
        }
    }

    /// The number as a count, if it is a non-negative whole number.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            Self::Null | Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// The number as a signed count, if it is a whole number.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.as_i64(),
            Self::Null | Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.as_f64(),
            Self::Null | Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// The truth value, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Null | Self::Number(_) | Self::Text(_) => None,
        }
    }
}

/// The value as shown in a `key=value` line: texts bare, everything else as JSON.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => fmt::Display::fmt(value, f),
            Self::Number(number) => fmt::Display::fmt(number, f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for Scalar {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<u32> for Scalar {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Self::Number(value.into())
    }
}

/// A number, or null for NaN and the infinities, which JSON cannot express.
impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        serde_json::Number::from_f64(value).map_or(Self::Null, Self::Number)
    }
}

/// A flat object. Names are unique; the order is the sender's.
///
/// It is a list, not a map: an object has few fields, and their order must survive into `task.info`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Vec<(String, Scalar)>);

impl Fields {
    /// An object without fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An object without fields, with room for this many.
    #[must_use]
    pub fn with_capacity(fields: usize) -> Self {
        Self(Vec::with_capacity(fields))
    }

    /// The value of a field.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Scalar> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets a field: in place if the name exists, else at the end.
    pub fn set(&mut self, name: &str, value: impl Into<Scalar>) {
        let value = value.into();
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some(field) => field.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Adds a field at the end. The name must not exist yet.
    pub fn push(&mut self, name: String, value: impl Into<Scalar>) {
        debug_assert!(self.get(&name).is_none(), "field {name} exists already");
        self.0.push((name, value.into()));
    }

    /// As [`Self::set`], for building an object in one expression.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.set(name, value);
        self
    }

    /// Removes a field and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<Scalar> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Keeps the fields for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Scalar) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    /// A field that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    /// A field that is a non-negative whole number.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// A field that is a moment, as unix seconds.
    #[must_use]
    pub fn moment(&self, name: &str) -> Option<Wall> {
        self.get(name)?.as_f64().and_then(Wall::from_unix_seconds)
    }

    /// Whether a field is the boolean `true`.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(Scalar::as_bool).unwrap_or_default()
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Scalar)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
