#![cfg(test)]
//! The folder of records, as a sweep sees it.

use super::*;
use base::Wall;

fn record(round: u32) -> RunRecord {
    let own = ProcessId::own().unwrap();
    let cookie = Cookie::new(["A=1".to_owned()]);
    RunRecord {
        subject: TaskRun { task: TaskId::new(Wall::from_micros(7), [0; 5]), round: Round(round) },
        root: Some(own),
        agent: own,
        cookie,
    }
}

/// A run of an agent that died before it could start a process.
fn dead(round: u32) -> RunRecord {
    let stranger = ProcessId { start_time: u64::from(round), ..ProcessId::own().unwrap() };
    RunRecord { agent: stranger, root: None, cookie: Cookie::new([format!("A={round}")]), ..record(round) }
}

/// Writes a record as its agent would, and leaves it as an agent that was killed.
fn leave(records: &RunRecords, record: &RunRecord) {
    let mut file = records.of(record.agent, Some(Session(9))).unwrap();
    file.write(record).unwrap();
    abandon(&records.folder, file);
}

/// The lock ends with the agent, but the file stays.
fn abandon(folder: &Path, file: RecordFile) {
    let (path, kept) = (file.path().to_owned(), folder.with_extension("kept"));
    fs::copy(&path, &kept).unwrap();
    drop(file);
    fs::rename(kept, path).unwrap();
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_record_reads_back_as_itself_until_it_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path().join("deep/runs")).unwrap();
    let mut file = records.of(record(0).agent, Some(Session(9))).unwrap();
    assert_eq!(records.list().unwrap(), []);
    let before_start = RunRecord { root: None, ..record(1) };
    for record in [record(0), before_start] {
        file.write(&record).unwrap();
        assert_eq!(records.list().unwrap(), [record]);
    }
    assert!(record(0).root.is_some_and(ProcessId::is_alive));
    file.clear().unwrap();
    assert_eq!(records.list().unwrap(), []);
    assert_eq!(count(&folder.path().join("deep/runs")), 1);
    drop(file);
    assert_eq!(count(&folder.path().join("deep/runs")), 0);
}

/// Another process clears the state of a running service.
#[test]
fn a_record_whose_file_was_removed_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path()).unwrap();
    let mut file = records.of(record(0).agent, Some(Session(9))).unwrap();
    for path in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(path.unwrap().path()).unwrap();
    }
    file.write(&record(0)).unwrap();
    assert_eq!(records.list().unwrap(), [record(0)]);
}

#[test]
fn what_a_living_agent_has_is_not_swept() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path()).unwrap();
    let mut file = records.of(record(0).agent, Some(Session(9))).unwrap();
    records.sweep(|swept| panic!("{swept:?}")).unwrap();
    assert_eq!(count(folder.path()), 1);
    file.write(&record(0)).unwrap();
    records.sweep(|swept| panic!("{swept:?}")).unwrap();
    assert_eq!(records.list().unwrap(), [record(0)]);
}

#[test]
fn an_agent_that_died_without_a_run_leaves_nothing_to_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path()).unwrap();
    abandon(folder.path(), records.of(dead(0).agent, Some(Session(9))).unwrap());
    records.sweep(|swept| panic!("{swept:?}")).unwrap();
    assert_eq!(count(folder.path()), 0);
}

/// The folder of a dead run has the name of the next one, which may begin while the dead one is swept.
#[test]
fn a_sweep_sees_the_next_round_of_what_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path()).unwrap();
    leave(&records, &dead(0));
    leave(&records, &dead(1));
    let mut next = records.of(record(2).agent, Some(Session(9))).unwrap();
    let mut seen = Vec::new();
    let clean_up = |swept: &SweepReport| {
        assert_eq!(records.list().unwrap()[0], dead(swept.subject.round.0), "its record goes last");
        seen.push((swept.subject.round.0, swept.superseded));
        next.write(&record(2)).unwrap();
    };
    records.sweep(clean_up).unwrap();
    assert_eq!(seen, [(0, false), (1, true)]);
    assert_eq!(records.list().unwrap(), [record(2)]);
}

/// Two agents are killed in quick succession: the second one dies while the run of the first one is being ended, in a
/// later run than the one that it had when the sweep began.
#[test]
fn what_is_swept_is_what_a_dead_agent_has_said_last() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path().join("runs")).unwrap();
    for earlier in [None, Some(1)] {
        #[expect(clippy::zombie_processes, reason = "it is waited for during the sweep")]
        let mut agent = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let id = ProcessId::of(rustix::process::Pid::from_child(&agent)).unwrap();
        // By name, the record of the first one comes first.
        let first = RunRecord { agent: ProcessId { pid: rustix::process::Pid::INIT, start_time: u64::MAX }, ..dead(0) };
        leave(&records, &first);
        let of_agent = |round| RunRecord { agent: id, ..dead(round) };
        let mut file = records.of(id, Some(Session(9))).unwrap();
        earlier.into_iter().for_each(|round| file.write(&of_agent(round)).unwrap());
        let (mut file, mut seen) = (Some(file), Vec::new());
        let clean_up = |swept: &SweepReport| {
            seen.push(swept.subject.round.0);
            if let Some(mut file) = file.take() {
                file.write(&of_agent(2)).unwrap();
                abandon(&records.folder, file);
                agent.kill().unwrap();
                agent.wait().unwrap();
            }
        };
        records.sweep(clean_up).unwrap();
        assert_eq!(seen, [0, 2], "{earlier:?}");
        assert_eq!(count(&records.folder), 0);
    }
}

/// Until its exec, a program that an agent was starting when it was killed cannot be told from the agent.
#[test]
fn a_program_that_a_dead_agent_was_starting_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let records = RunRecords::<TaskRun>::open(folder.path().join("runs")).unwrap();
    leave(&records, &dead(0));
    let path = records.files().unwrap().remove(0);
    let until_its_exec = File::open(path).unwrap();
    until_its_exec.lock().unwrap();
    let (sender, swept) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| records.sweep(|run| sender.send(run.subject.round.0).unwrap()).unwrap());
        assert!(swept.recv_timeout(std::time::Duration::from_millis(50)).is_err(), "it cannot be found yet");
        drop(until_its_exec);
        assert_eq!(swept.recv_timeout(std::time::Duration::from_secs(60)), Ok(0));
    });
    assert_eq!(count(&records.folder), 0);
}
