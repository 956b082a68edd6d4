//! Names of gates and of agent tags: `__GATE__`, `__TAGS__`, `AGENT_TAGS`.

use std::fmt;
use std::sync::Arc;

use super::checked::checked_text;

/// The name of a gate or a tag.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

/// A text that is not a label, or a list with too many labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabel {
    /// Not a valid name.
    #[error("{0:?} is not a name: use 1 to {max} characters of A-Z a-z 0-9 . _ : @ + -, and not __ first", max = Label::BYTES_MAX)]
    Name(String),
    /// Too many names.
    #[error("{0} names are too many; at most {max} are taken", max = Labels::COUNT_MAX)]
    Count(usize),
}

impl Label {
    /// Longest label.
    pub const BYTES_MAX: usize = 64;

    /// The name of the gate that every task passes.
    pub const SERVICE: &str = "*";

    /// Checks a text and makes it a label.
    ///
    /// # Errors
    /// When the text is empty, too long, begins with two underscores, or holds a character outside the allowed set.
    pub fn new(text: &str) -> Result<Self, InvalidLabel> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:@+-".contains(&b);
        // Names with this prefix are keys of the service, and a list of gates uses gate names as keys.
        let ours = text.starts_with("__");
        if (1..=Self::BYTES_MAX).contains(&text.len()) && !ours && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        Err(InvalidLabel::Name(text.chars().take(Self::BYTES_MAX).collect()))
    }

    /// The gate that every task passes without naming it. The service is paused while it is closed. No other label has
    /// this text.
    #[must_use]
    pub fn of_service() -> Self {
        Self(Self::SERVICE.into())
    }

    /// Whether this is the gate that every task passes.
    #[must_use]
    pub fn is_of_service(&self) -> bool {
        &*self.0 == Self::SERVICE
    }

    /// Checks the name of a gate, which may be the gate of the service.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_gate(text: &str) -> Result<Self, InvalidLabel> {
        if text == Self::SERVICE { Ok(Self::of_service()) } else { Self::new(text) }
    }
}

checked_text!(Label);

/// A sorted set of labels. On the wire and in files they are separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<Label>);

impl Labels {
    /// Largest number of labels: more than any sensible task or agent needs.
    pub const COUNT_MAX: usize = 16;

    /// Reads names separated by commas; spaces around them are ignored. The empty text is the empty list.
    ///
    /// # Errors
    /// When one of them is not a label, or there are more than [`Self::COUNT_MAX`].
    pub fn parse(text: &str) -> Result<Self, InvalidLabel> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        Self::new(text.split(',').map(|name| Label::new(name.trim())).collect::<Result<_, _>>()?)
    }

    /// Sorts the names and removes duplicates.
    ///
    /// # Errors
    /// When there are more than [`Self::COUNT_MAX`].
    pub fn new(mut labels: Vec<Label>) -> Result<Self, InvalidLabel> {
        labels.sort();
        labels.dedup();
        if labels.len() > Self::COUNT_MAX { Err(InvalidLabel::Count(labels.len())) } else { Ok(Self(labels)) }
    }

    /// The labels, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &Label> {
        self.0.iter()
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all of these labels are among `others`.
    #[must_use]
    pub fn are_within(&self, others: &Self) -> bool {
        self.0.iter().all(|label| others.0.binary_search(label).is_ok())
    }

    /// Whether `label` is one of these.
    #[must_use]
    pub fn contains(&self, label: &Label) -> bool {
        self.0.binary_search(label).is_ok()
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, label) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            f.write_str(label.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_a_set_whatever_the_order() {
        let labels = Labels::parse(" gpu, big,gpu ").unwrap();
        assert_eq!(labels.to_string(), "big,gpu");
        assert!(Labels::parse("gpu").unwrap().are_within(&labels));
        assert!(!Labels::parse("gpu,arm").unwrap().are_within(&labels));
        assert!(Labels::parse("").unwrap().are_within(&labels));
    }

    #[test]
    fn what_is_no_label_is_refused() {
        for text in ["a b", "a,,b", ",", "é", "a\nb", "__a", &"x".repeat(65)] {
            assert!(Labels::parse(text).is_err(), "{text:?}");
        }
        let many: Vec<_> = (0..17).map(|n| n.to_string()).collect();
        assert_eq!(Labels::parse(&many.join(",")), Err(InvalidLabel::Count(17)));
    }
}
