//! The submit keys of a map. The same line of the same map always has the same key, so a repeated submit, after a lost answer or in a
//! later run, finds the existing task.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// Makes the keys of one map.
#[derive(Debug)]
pub struct Keys {
    /// A digest of the job and the template.
    map: Sha256,
    /// How often each line has occurred, by half of its digest. Two lines with the same half still get different keys.
    seen: BTreeMap<u64, u32>,
}

impl Keys {
    /// The keys of a map with this job. `template` is all that makes its tasks different from those of another map.
    #[must_use]
    pub fn new<'a>(job: &'a str, template: impl IntoIterator<Item = &'a str>) -> Self {
        let mut map = Sha256::new();
        std::iter::once(job).chain(template).for_each(|part| add(&mut map, part));
        Self { map, seen: BTreeMap::new() }
    }

    /// The key of the next line with these values. Equal lines are told apart by their order.
    pub fn next(&mut self, values: &[String]) -> String {
        let mut line = self.map.clone();
        values.iter().for_each(|value| add(&mut line, value));
        let digest: [u8; 32] = line.finalize().into();
        let [first, second] = [0, 8].map(|at| u64::from_be_bytes(std::array::from_fn(|index| digest[at + index])));
        let count = self.seen.entry(first).or_default();
        *count += 1;
        format!("map:{first:016x}{second:016x}:{count}")
    }
}

/// Adds a text with its length, so that different lists of texts never give the same bytes.
fn add(digest: &mut Sha256, text: &str) {
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_depends_on_the_job_the_template_the_line_and_its_number_among_equals() {
        let key = |job: &str, template: &[&str], values: &[&str], nth: usize| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            let mut keys = Keys::new(job, template.iter().copied());
            let made: Vec<_> = (0..nth).map(|_| keys.next(&values)).collect();
            made[nth - 1].clone()
        };
        let first = key("j", &["echo", "{}"], &["a"], 1);
        assert_eq!(first, key("j", &["echo", "{}"], &["a"], 1));
        for other in [
            key("k", &["echo", "{}"], &["a"], 1),
            key("j", &["echo{}"], &["a"], 1),
            key("j", &["echo", "{}"], &["b"], 1),
            key("j", &["echo", "{}"], &["a"], 2),
            key("j", &["echo", "{}"], &["a", ""], 1),
        ] {
            assert_ne!(first, other);
        }
    }
}
