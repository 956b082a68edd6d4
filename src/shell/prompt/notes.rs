//! What a restarted master knows besides the failures: which files are with workers that resume, which gates are closed, and
//! whether it was paused, and the beginning and the successes of the whole run: `master.notes` beside the four folders.
//!
//! Each change is a line, `["run","task.txt","<request>"]`, `["gate","claude",<unix seconds>]` or `["paused","<reason>"]`, `["since",<unix seconds>]` or `["done",<number>]`, with null for
//! its end, appended by one write: a kill can only tear the last line, which is then ignored. No line waits for the disk: after a
//! power failure a prompt may run once more.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::line_log::{Facts, LineLog};
use crate::engine::master::FileName;
use crate::protocol::prompt::RequestId;
use crate::types::Wall;

const NAME: &str = "master.notes";

const RUN: &str = "run";
const GATE: &str = "gate";
const PAUSED: &str = "paused";
const SINCE: &str = "since";
const DONE: &str = "done";

#[derive(Debug)]
pub(super) struct Notes {
    log: LineLog,
    noted: Noted,
}

/// The notes that hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Noted {
    pub(super) runs: BTreeMap<FileName, RequestId>,
    pub(super) gates: BTreeMap<String, Wall>,
    pub(super) paused: Option<String>,
    /// When the first master of this run was started. A run ends with a master that leaves no prompt.
    pub(super) since: Option<Wall>,
    /// Prompts of this run that are done.
    pub(super) done: u64,
}

impl Notes {
    /// Reads the notes of an earlier master; those of files that are not in `working/` are dropped.
    pub(super) fn open(tasks: &Path, is_in_work: impl Fn(&FileName) -> bool) -> io::Result<Self> {
        let path = tasks.join(NAME);
        let mut noted = Noted::default();
        for line in LineLog::read(&path)?.split(|byte| *byte == b'\n') {
            if let Ok(value) = serde_json::from_slice::<Value>(line) {
                noted.read(&value);
            }
        }
        noted.runs.retain(|file, _| is_in_work(file));
        Ok(Self { log: LineLog::create(path, &noted)?, noted })
    }

    pub(super) const fn noted(&self) -> &Noted {
        &self.noted
    }

    /// The run of a file in `working/`, if its worker resumes.
    pub(super) fn run_of(&self, file: &FileName) -> Option<&RequestId> {
        self.noted.runs.get(file)
    }

    /// A file is handed out.
    pub(super) fn note_run(&mut self, file: &FileName, run: &RequestId) {
        // A file without such a name waits again after a restart.
        if let Some(name) = file.as_text() {
            self.note(&json!([RUN, name, run.as_str()]));
        }
    }

    /// A file has left `working/`.
    pub(super) fn end_run(&mut self, file: &FileName) {
        if self.noted.runs.contains_key(file) {
            self.note(&json!([RUN, file.as_text(), null]));
        }
    }

    pub(super) fn note_gate(&mut self, gate: &str, until: Option<Wall>) {
        self.note(&json!([GATE, gate, until.map(Wall::unix_seconds)]));
    }

    pub(super) fn note_pause(&mut self, reason: Option<&str>) {
        self.note(&json!([PAUSED, reason]));
    }

    /// A master is started; the run begins with it, unless an earlier one has left prompts.
    pub(super) fn note_start(&mut self, now: Wall) {
        if self.noted.since.is_none() {
            self.note(&json!([SINCE, now.unix_seconds()]));
        }
    }

    /// A prompt is done.
    pub(super) fn note_done(&mut self) {
        self.note(&json!([DONE, self.noted.done + 1]));
    }

    /// No prompt is left.
    pub(super) fn end_batch(&mut self) {
        self.note(&json!([SINCE, null]));
        self.note(&json!([DONE, 0]));
    }

    fn note(&mut self, line: &Value) {
        self.noted.read(line);
        if let Err(error) = self.log.append(&format!("{line}\n"), &self.noted) {
            log::warn!("cannot note {line} in {} for a restart: {error}", self.log.path().display());
        }
    }
}

impl Noted {
    fn read(&mut self, line: &Value) {
        match (line[0].as_str(), line[1].as_str()) {
            (Some(RUN), Some(file)) => match line[2].as_str() {
                Some(run) => drop(self.runs.insert(file.into(), run.into())),
                None => drop(self.runs.remove(&FileName::from(file))),
            },
            (Some(GATE), Some(gate)) => match line[2].as_f64().and_then(Wall::from_unix_seconds) {
                Some(until) => drop(self.gates.insert(gate.to_owned(), until)),
                None => drop(self.gates.remove(gate)),
            },
            (Some(SINCE), _) => self.since = line[1].as_f64().and_then(Wall::from_unix_seconds),
            (Some(DONE), _) => self.done = line[1].as_u64().unwrap_or_default(),
            (Some(PAUSED), reason) => self.paused = reason.map(str::to_owned),
            _ => {}
        }
    }
}

impl Facts for Noted {
    fn len(&self) -> usize {
        self.runs.len() + self.gates.len() + usize::from(self.paused.is_some()) + 2
    }

    fn text(&self) -> String {
        let runs = self.runs.iter().map(|(file, run)| json!([RUN, file.as_text(), run.as_str()]));
        let gates = self.gates.iter().map(|(gate, until)| json!([GATE, gate, until.unix_seconds()]));
        let paused = self.paused.iter().map(|reason| json!([PAUSED, reason]));
        let since = self.since.iter().map(|since| json!([SINCE, since.unix_seconds()]));
        let done = (self.done > 0).then(|| json!([DONE, self.done]));
        runs.chain(gates).chain(paused).chain(since).chain(done).map(|line| format!("{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::shell::prompt::line_log::SURPLUS_MAX;

    fn noted(folder: &Path) -> Noted {
        Notes::open(folder, |file| *file != FileName::from("gone")).unwrap().noted().clone()
    }

    #[test]
    fn what_was_noted_last_holds_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::open(folder.path(), |_| true).unwrap();
        for (file, run) in [("a", "1"), ("b", "2"), ("gone", "3"), ("a", "4")] {
            notes.note_run(&file.into(), &run.into());
        }
        notes.end_run(&"b".into());
        let until = Wall::from_unix_seconds(2e9).unwrap();
        notes.note_gate("claude", Some(until));
        notes.note_gate("codex", Some(until));
        notes.note_gate("codex", None);
        notes.note_pause(Some("by order"));
        notes.note_start(until);
        notes.note_start(Wall::from_unix_seconds(3e9).unwrap());
        notes.note_done();
        notes.note_done();
        drop(notes);
        let expected = Noted {
            runs: [("a".into(), "4".into())].into(),
            gates: [("claude".to_owned(), until)].into(),
            paused: Some("by order".to_owned()),
            since: Some(until),
            done: 2,
        };
        assert_eq!(noted(folder.path()), expected);
        let torn = format!("{}[\"paused\",nu", fs::read_to_string(folder.path().join(NAME)).unwrap());
        fs::write(folder.path().join(NAME), torn).unwrap();
        assert_eq!(noted(folder.path()), expected);
        Notes::open(folder.path(), |_| true).unwrap().note_pause(None);
        assert_eq!(noted(folder.path()).paused, None);
    }

    #[test]
    fn the_file_does_not_grow_with_the_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::open(folder.path(), |_| true).unwrap();
        for _ in 0..3000 {
            notes.note_run(&"a".into(), &"1".into());
            notes.end_run(&"a".into());
        }
        assert!(fs::read_to_string(folder.path().join(NAME)).unwrap().lines().count() <= SURPLUS_MAX + 2);
    }
}
