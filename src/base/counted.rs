//! Numbers of things in sentences.

use std::fmt::Display;

/// A number of things, for a sentence: `1 task`, `2 tasks`, `1,000 tasks`. The `noun` takes an s.
#[must_use]
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{end}")
}
