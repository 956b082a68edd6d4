#![cfg(test)]
//! The folder of records: what a sweep sees of it.

use super::*;
use crate::types::Wall;

fn record(round: u32) -> RunRecord {
    let own = ProcessId::own().unwrap();
    let cookie = Cookie::new(["A=1".to_owned()]);
    RunRecord {
        task: TaskId::new(Wall::from_micros(7), [0; 5]),
        round: Round(round),
        run: Some(own),
        agent: own,
        session: Session(9),
        cookie,
    }
}

/// A run of an agent that has died before it could start anything.
fn dead(round: u32) -> RunRecord {
    let nobody = ProcessId { start_time: u64::from(round), ..ProcessId::own().unwrap() };
    RunRecord { agent: nobody, run: None, cookie: Cookie::new([format!("A={round}")]), ..record(round) }
}

/// Writes a record as its agent would, and leaves it as an agent that was killed.
fn leave(records: &RunRecords, record: &RunRecord) {
    let mut file = records.of(record.agent, record.session).unwrap();
    file.write(record).unwrap();
    std::mem::forget(file);
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_record_reads_back_as_itself_until_it_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::open(folder.path().join("deep/runs")).unwrap();
    let mut file = records.of(record(0).agent, record(0).session).unwrap();
    assert_eq!(records.list().unwrap(), []);
    let before_start = RunRecord { run: None, ..record(1) };
    for record in [record(0), before_start] {
        file.write(&record).unwrap();
        assert_eq!(records.list().unwrap(), [record]);
    }
    assert!(record(0).is_same_process());
    file.clear().unwrap();
    assert_eq!(records.list().unwrap(), []);
    assert_eq!(count(&folder.path().join("deep/runs")), 1);
    drop(file);
    assert_eq!(count(&folder.path().join("deep/runs")), 0);
}

/// Somebody clears the state of a service that runs.
#[test]
fn a_record_whose_file_was_removed_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::open(folder.path()).unwrap();
    let mut file = records.of(record(0).agent, record(0).session).unwrap();
    for path in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(path.unwrap().path()).unwrap();
    }
    file.write(&record(0)).unwrap();
    assert_eq!(records.list().unwrap(), [record(0)]);
}

#[test]
fn what_a_living_agent_has_is_not_swept() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::open(folder.path()).unwrap();
    let mut file = records.of(record(0).agent, record(0).session).unwrap();
    records.sweep(|swept| panic!("{swept:?}")).unwrap();
    assert_eq!(count(folder.path()), 1);
    file.write(&record(0)).unwrap();
    records.sweep(|swept| panic!("{swept:?}")).unwrap();
    assert_eq!(records.list().unwrap(), [record(0)]);
}

#[test]
fn an_agent_that_died_without_a_run_leaves_nothing_to_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::open(folder.path()).unwrap();
    std::mem::forget(records.of(dead(0).agent, Session(9)).unwrap());
    records.sweep(|swept| panic!("{swept:?}")).unwrap();
    assert_eq!(count(folder.path()), 0);
}

/// What is cleaned up of a dead run has the name of the next one, and that one may begin while the dead one is swept.
#[test]
fn a_sweep_sees_the_next_round_of_what_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::open(folder.path()).unwrap();
    leave(&records, &dead(0));
    leave(&records, &dead(1));
    let mut next = records.of(record(2).agent, record(2).session).unwrap();
    let mut seen = Vec::new();
    let clean_up = |swept: &Swept| {
        assert_eq!(records.list().unwrap()[0], dead(swept.round.0), "its record goes last");
        seen.push((swept.round.0, swept.superseded));
        next.write(&record(2)).unwrap();
    };
    records.sweep(clean_up).unwrap();
    assert_eq!(seen, [(0, false), (1, true)]);
    assert_eq!(records.list().unwrap(), [record(2)]);
}
