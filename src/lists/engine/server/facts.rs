//! Facts that no file shows, for `status`.

use std::collections::BTreeMap;

/// Files of `new/` that count as invalid, at most; further ones are left alone like them, but neither logged nor counted.
const INVALID_MAX: usize = 10_000;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Files of `new/` that are not tasks, and why.
    pub invalid: BTreeMap<String, String>,
    /// Results that came too late and were refused.
    pub late: u64,
}

/// The facts, and whether `status` has them.
#[derive(Debug, Default)]
pub(super) struct PublishedFacts {
    facts: Facts,
    is_published: bool,
}

impl PublishedFacts {
    /// A file of `new/` is not a task; true if that was not known.
    pub(super) fn add_invalid(&mut self, name: &str, reason: &str) -> bool {
        let invalid = &mut self.facts.invalid;
        let is_new = invalid.len() < INVALID_MAX && invalid.insert(name.to_owned(), reason.to_owned()).is_none();
        self.is_published &= !is_new;
        is_new
    }

    /// A file of `new/` is gone, or is a task.
    pub(super) fn remove_invalid(&mut self, name: &str) {
        self.is_published &= self.facts.invalid.remove(name).is_none();
    }

    pub(super) const fn add_late(&mut self, results: u64) {
        self.facts.late += results;
        self.is_published = false;
    }

    /// The facts, if they have changed since the last call.
    pub(super) fn take(&mut self) -> Option<Facts> {
        (!std::mem::replace(&mut self.is_published, true)).then(|| self.facts.clone())
    }
}
