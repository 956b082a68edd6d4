//! The state of a master that outlives it, besides the failures: the files of workers that resume, and since when these have had no
//! connection, the files whose move out of `working/` is due, the lost runs of each file, the closed gates, a pause, the cost of the
//! prompts, and the beginning and the successes of the whole run. It is in `master.notes`, beside the four folders.
//!
//! Each change is a line, `["run","task.txt","<request>"]` or `["run","task.txt","<request>",<unix seconds>]`,
//! `["end","task.txt","done"]`, `["end","task.txt","failed","<reason>"]`, `["losses","task.txt",<number>]`,
//! `["gate","claude",<unix seconds>]`, `["paused","<reason>"]`,
//! `["cost",<dollars>,<usual dollars>]`, `["cost_max",<dollars>]`, `["since",<unix seconds>]` or `["done",<number>]`, with null for
//! its end, appended by one write: a kill can only tear the last line, which is then ignored. No line waits for the disk: after a
//! power failure a prompt may run once more.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::line_log::{Facts, LineLog};
use crate::master::engine::{Destination, FileName};
use crate::wire::RequestId;
use base::{Usd, Wall};

const NAME: &str = "master.notes";

const RUN: &str = "run";
const END: &str = "end";
const LOSSES: &str = "losses";
const GATE: &str = "gate";
const PAUSED: &str = "paused";
const SINCE: &str = "since";
const DONE: &str = "done";
const COST: &str = "cost";
const COST_MAX: &str = "cost_max";

#[derive(Debug)]
pub(super) struct Notes {
    log: LineLog,
    noted: Noted,
    /// Number of prompts that were done under earlier masters of this run.
    done_before: u64,
}

/// The valid notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Noted {
    /// The request, and the moment since which the worker has had no connection, if it has none.
    pub(super) runs: BTreeMap<FileName, (RequestId, Option<Wall>)>,
    /// The results whose files could not be moved out of `working/`.
    pub(super) ends: BTreeMap<FileName, Destination>,
    pub(super) losses: BTreeMap<FileName, u32>,
    pub(super) gates: BTreeMap<String, Wall>,
    pub(super) paused: Option<String>,
    /// Start of the first master of this run. A run ends with a master that leaves no prompt.
    pub(super) since: Option<Wall>,
    /// Number of prompts of this run that are done.
    pub(super) done: u64,
    pub(super) cost: Option<Usd>,
    /// The usual cost of a run.
    pub(super) usual_cost: Option<Usd>,
    pub(super) cost_max: Option<Usd>,
}

impl Notes {
    /// Reads the notes of an earlier master. Runs and ends of files that are not in `working/` are dropped, and so are losses of files
    /// that are not in `pending/` either.
    pub(super) fn open(
        tasks: &Path,
        is_in_work: impl Fn(&FileName) -> bool,
        is_waiting: impl Fn(&FileName) -> bool,
    ) -> io::Result<Self> {
        let path = tasks.join(NAME);
        let mut noted = Noted::default();
        for line in LineLog::read(&path)?.split(|byte| *byte == b'\n') {
            if let Ok(value) = serde_json::from_slice::<Value>(line) {
                noted.read(&value);
            }
        }
        noted.runs.retain(|file, _| is_in_work(file));
        noted.ends.retain(|file, _| is_in_work(file));
        noted.losses.retain(|file, _| is_in_work(file) || is_waiting(file));
        Ok(Self { log: LineLog::create(path, &noted)?, done_before: noted.done, noted })
    }

    pub(super) const fn noted(&self) -> &Noted {
        &self.noted
    }

    pub(super) const fn done_before(&self) -> u64 {
        self.done_before
    }

    /// The run of a file in `working/`, if its worker resumes.
    pub(super) fn run_of(&self, file: &FileName) -> Option<&RequestId> {
        self.noted.runs.get(file).map(|(run, _)| run)
    }

    /// A file is handed out, or its worker has lost its connection or has one again.
    pub(super) fn note_run(&mut self, file: &FileName, run: &RequestId, away: Option<Wall>) {
        // A file without such a name waits again after a restart.
        if let Some(name) = file.as_text() {
            self.note(&run_line(name, run, away));
        }
    }

    /// A run of a file was lost, or its losses do not count any more.
    pub(super) fn note_losses(&mut self, file: &FileName, losses: u32) {
        // A file without such a name is counted in memory only.
        if let Some(name) = file.as_text() {
            self.note(&json!([LOSSES, name, losses]));
        }
    }

    /// Whether the run of a file in `working/` has ended, so that the file is only to be moved.
    pub(super) fn has_ended(&self, file: &FileName) -> bool {
        self.noted.ends.contains_key(file)
    }

    /// A file has left `working/`.
    pub(super) fn end_run(&mut self, file: &FileName) {
        if self.noted.runs.contains_key(file) {
            self.note(&json!([RUN, file.as_text(), null]));
        }
        if self.noted.ends.contains_key(file) {
            self.note(&json!([END, file.as_text(), null]));
        }
    }

    /// A file cannot be moved out of `working/`. Its report counts, and is not sent again.
    pub(super) fn note_end(&mut self, file: &FileName, destination: &Destination) {
        // A file without such a name waits again after a restart.
        let Some(name) = file.as_text() else { return };
        match end_line(name, destination) {
            Some(line) if self.noted.ends.get(file) != Some(destination) => self.note(&line),
            Some(_) => {}
            // It waits again after a restart as well.
            None => self.end_run(file),
        }
    }

    pub(super) fn note_gate(&mut self, gate: &str, until: Option<Wall>) {
        self.note(&json!([GATE, gate, until.map(Wall::unix_seconds)]));
    }

    pub(super) fn note_pause(&mut self, reason: Option<&str>) {
        self.note(&json!([PAUSED, reason]));
    }

    pub(super) fn note_cost(&mut self, sum: Option<Usd>, usual: Option<Usd>) {
        self.note(&cost_line(sum, usual));
    }

    pub(super) fn note_cost_max(&mut self, max: Option<Usd>) {
        self.note(&json!([COST_MAX, max.map(Usd::dollars)]));
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

    /// No prompt is left: the next ones have their own budget.
    pub(super) fn end_batch(&mut self) {
        self.note(&json!([SINCE, null]));
        self.note(&json!([DONE, 0]));
        if self.noted.cost.is_some() || self.noted.cost_max.is_some() {
            self.note_cost(None, None);
            self.note_cost_max(None);
        }
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
                Some(run) => {
                    let away = line[3].as_f64().and_then(Wall::from_unix_seconds);
                    self.runs.insert(file.into(), (run.into(), away));
                }
                None => drop(self.runs.remove(&FileName::from(file))),
            },
            (Some(END), Some(file)) => match line[2].as_str() {
                Some("done") => drop(self.ends.insert(file.into(), Destination::Done)),
                Some("failed") => {
                    let reason = line[3].as_str().map(str::to_owned);
                    self.ends.insert(file.into(), Destination::Failed { reason });
                }
                _ => drop(self.ends.remove(&FileName::from(file))),
            },
            (Some(LOSSES), Some(file)) => match line[2].as_u64().and_then(|losses| u32::try_from(losses).ok()) {
                None | Some(0) => drop(self.losses.remove(&FileName::from(file))),
                Some(losses) => drop(self.losses.insert(file.into(), losses)),
            },
            (Some(GATE), Some(gate)) => match line[2].as_f64().and_then(Wall::from_unix_seconds) {
                Some(until) => drop(self.gates.insert(gate.to_owned(), until)),
                None => drop(self.gates.remove(gate)),
            },
            (Some(SINCE), _) => self.since = line[1].as_f64().and_then(Wall::from_unix_seconds),
            (Some(DONE), _) => self.done = line[1].as_u64().unwrap_or_default(),
            (Some(PAUSED), reason) => self.paused = reason.map(str::to_owned),
            (Some(COST), _) => {
                [self.cost, self.usual_cost] = [1, 2].map(|at| line[at].as_f64().and_then(Usd::from_dollars));
            }
            (Some(COST_MAX), _) => self.cost_max = line[1].as_f64().and_then(Usd::from_dollars),
            _ => {}
        }
    }
}

impl Facts for Noted {
    fn len(&self) -> usize {
        self.runs.len() + self.ends.len() + self.losses.len() + self.gates.len() + 5
    }

    fn text(&self) -> String {
        let runs = self.runs.iter().filter_map(|(file, (run, away))| Some(run_line(file.as_text()?, run, *away)));
        let ends = self.ends.iter().filter_map(|(file, destination)| end_line(file.as_text()?, destination));
        let losses = self.losses.iter().map(|(file, losses)| json!([LOSSES, file.as_text(), losses]));
        let gates = self.gates.iter().map(|(gate, until)| json!([GATE, gate, until.unix_seconds()]));
        let paused = self.paused.iter().map(|reason| json!([PAUSED, reason]));
        let cost = self.cost.iter().map(|cost| cost_line(Some(*cost), self.usual_cost));
        let cost_max = self.cost_max.iter().map(|max| json!([COST_MAX, max.dollars()]));
        let since = self.since.iter().map(|since| json!([SINCE, since.unix_seconds()]));
        let done = (self.done > 0).then(|| json!([DONE, self.done]));
        let rests = paused.chain(cost).chain(cost_max).chain(since).chain(done);
        runs.chain(ends).chain(losses).chain(gates).chain(rests).map(|line| format!("{line}\n")).collect()
    }
}

fn cost_line(sum: Option<Usd>, usual: Option<Usd>) -> Value {
    json!([COST, sum.map(Usd::dollars), usual.map(Usd::dollars)])
}

/// `None` for a file that waits again.
fn end_line(file: &str, destination: &Destination) -> Option<Value> {
    match destination {
        Destination::Pending => None,
        Destination::Done => Some(json!([END, file, "done"])),
        Destination::Failed { reason } => Some(json!([END, file, "failed", reason])),
    }
}

fn run_line(file: &str, run: &RequestId, away: Option<Wall>) -> Value {
    match away {
        Some(away) => json!([RUN, file, run.as_str(), away.unix_seconds()]),
        None => json!([RUN, file, run.as_str()]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::master::process::line_log::SURPLUS_MAX;

    fn noted(folder: &Path) -> Noted {
        Notes::open(folder, |file| *file != FileName::from("gone"), |_| false).unwrap().noted().clone()
    }

    #[test]
    fn what_was_noted_last_holds_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::open(folder.path(), |_| true, |_| true).unwrap();
        let until = Wall::from_unix_seconds(2e9).unwrap();
        for (file, run) in [("a", "1"), ("b", "2"), ("gone", "3"), ("a", "4")] {
            notes.note_run(&file.into(), &run.into(), None);
        }
        notes.end_run(&"b".into());
        notes.note_run(&"c".into(), &"5".into(), Some(until));
        notes.note_run(&"d".into(), &"6".into(), Some(until));
        notes.note_run(&"d".into(), &"6".into(), None);
        let failed = |reason: Option<&str>| Destination::Failed { reason: reason.map(str::to_owned) };
        for (file, destination) in [
            ("e", Destination::Done),
            ("f", failed(Some("why"))),
            ("g", failed(None)),
            ("h", Destination::Done),
            ("i", Destination::Pending),
            ("gone", Destination::Done),
        ] {
            notes.note_run(&file.into(), &"7".into(), None);
            notes.note_end(&file.into(), &destination);
        }
        notes.end_run(&"h".into());
        for (file, losses) in [("a", 1), ("a", 2), ("b", 1), ("gone", 7), ("b", 0)] {
            notes.note_losses(&file.into(), losses);
        }
        notes.note_gate("claude", Some(until));
        notes.note_gate("codex", Some(until));
        notes.note_gate("codex", None);
        notes.note_pause(Some("by order"));
        notes.note_start(until);
        notes.note_start(Wall::from_unix_seconds(3e9).unwrap());
        notes.note_done();
        notes.note_done();
        notes.note_cost(Usd::from_dollars(1.0), Usd::from_dollars(1.0));
        notes.note_cost(Usd::from_dollars(2.5), Usd::from_dollars(1.5));
        notes.note_cost_max(Usd::from_dollars(9.0));
        notes.note_cost_max(None);
        drop(notes);
        let expected = Noted {
            runs: [
                ("a".into(), ("4".into(), None)),
                ("c".into(), ("5".into(), Some(until))),
                ("d".into(), ("6".into(), None)),
                ("e".into(), ("7".into(), None)),
                ("f".into(), ("7".into(), None)),
                ("g".into(), ("7".into(), None)),
            ]
            .into(),
            ends: [("e".into(), Destination::Done), ("f".into(), failed(Some("why"))), ("g".into(), failed(None))]
                .into(),
            losses: [("a".into(), 2)].into(),
            gates: [("claude".to_owned(), until)].into(),
            paused: Some("by order".to_owned()),
            since: Some(until),
            done: 2,
            cost: Usd::from_dollars(2.5),
            usual_cost: Usd::from_dollars(1.5),
            cost_max: None,
        };
        assert_eq!(noted(folder.path()), expected);
        let torn = format!("{}[\"paused\",nu", fs::read_to_string(folder.path().join(NAME)).unwrap());
        fs::write(folder.path().join(NAME), torn).unwrap();
        assert_eq!(noted(folder.path()), expected);
        Notes::open(folder.path(), |_| true, |_| true).unwrap().note_pause(None);
        assert_eq!(noted(folder.path()).paused, None);
    }

    #[test]
    fn the_file_does_not_grow_with_the_runs() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::open(folder.path(), |_| true, |_| true).unwrap();
        for _ in 0..3000 {
            notes.note_run(&"a".into(), &"1".into(), None);
            notes.end_run(&"a".into());
        }
        assert!(fs::read_to_string(folder.path().join(NAME)).unwrap().lines().count() <= SURPLUS_MAX + 2);
    }
}
