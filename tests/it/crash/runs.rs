//! The log that the runs of the tool write about themselves: a file outside of every task folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::crash::load::TOOL;

/// The rounds of each task, by what the tool has appended.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) started: BTreeMap<String, BTreeSet<u64>>,
    pub(crate) ended: BTreeMap<String, BTreeSet<u64>>,
}

impl Runs {
    /// Reads the file; no run may stand in it twice.
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}: {TOOL}"));
        let mut runs = Self::default();
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [what, task, round] = words[..] else { panic!("no line of the tool: {line:?}") };
            let of = if what == "start" { &mut runs.started } else { &mut runs.ended };
            let is_new = of.entry(task.to_owned()).or_default().insert(round.parse().expect("a round"));
            assert!(is_new, "twice: {line}");
        }
        runs
    }
}
