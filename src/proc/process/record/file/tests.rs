#![cfg(test)]
//! Files that are written in place and may be torn at any byte.

use super::*;
use crate::process::TaskRun;
use base::{TaskId, Wall};

fn own() -> ProcessId {
    ProcessId::own().unwrap()
}

fn record(round: u32) -> RunRecord {
    RunRecord {
        subject: TaskRun { task: TaskId::new(Wall::from_micros(7), [0; 5]), round: Round(round) },
        root: None,
        agent: own(),
        cookie: Cookie::new([format!("ROUND={round}")]),
    }
}

fn run(path: &Path) -> Option<u32> {
    let recorded = read::<TaskRun>(path).unwrap().expect("a record");
    assert_eq!(recorded.agent, own());
    recorded.run.map(|run| run.subject.round.0)
}

/// Its writer was killed after any number of bytes: the previous contents are still valid.
#[test]
fn a_torn_line_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RecordFile::create(folder.path(), own(), Some(Session(9))).unwrap();
    let path = file.path.clone();
    let torn = folder.path().join("torn");
    for round in 0..3 {
        let before = fs::read(&path).unwrap();
        let said = run(&path);
        file.write(&record(round)).unwrap();
        let after = fs::read(&path).unwrap();
        let from = usize::try_from(file.sequence % 2).unwrap() * SLOT_BYTES;
        let text_ends = from + after[from..from + SLOT_BYTES].iter().rposition(|&byte| byte == b'}').unwrap();
        for cut in from..text_ends {
            let mut bytes = before.clone();
            bytes.resize(bytes.len().max(cut), 0);
            bytes[from..cut].copy_from_slice(&after[from..cut]);
            // The rest of the line may be a remainder of the previous one.
            let whole = bytes.get(from..text_ends) == after.get(from..text_ends);
            fs::write(&torn, bytes).unwrap();
            assert_eq!(run(&torn), if whole { Some(round) } else { said }, "{round} {cut}");
        }
        assert_eq!(run(&path), Some(round));
    }
    file.clear().unwrap();
    assert_eq!(run(&path), None);
}

/// A reader never combines halves of two lines into a record, nor treats a file that is being created as a broken one.
#[test]
fn a_reader_beside_the_writer_sees_whole_records() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = RecordFile::create(folder.path(), own(), Some(Session(9))).unwrap();
    let path = file.path.clone();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for round in 0..5_000 {
                file.write(&record(round)).unwrap();
            }
            file
        });
        let mut last = 0;
        while !writer.is_finished() {
            match read::<TaskRun>(&path) {
                Ok(Some(Recorded { run: Some(read), .. })) => {
                    assert_eq!(read, record(read.subject.round.0));
                    assert!(read.subject.round.0 >= last);
                    last = read.subject.round.0;
                }
                Ok(Some(Recorded { run: None, .. })) => assert_eq!(last, 0),
                Ok(None) => panic!("it would be removed"),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        drop(writer.join().unwrap());
    });
    fs::write(&path, b"").unwrap();
    assert!(read::<TaskRun>(&path).is_err(), "an agent that lives will write it");
}

#[test]
fn records_of_another_boot_and_broken_ones_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |run| Stored {
        sequence: 1,
        agent_pid: own().pid.as_raw_nonzero().get(),
        agent_start_time: own().start_time,
        session: 9,
        owner: None,
        boot_id: procfs::boot_id().into(),
        cgroup_base: None,
        run,
    };
    let check = |stored: &Stored| {
        let path = folder.path().join("a.run");
        fs::write(&path, slot(stored).unwrap()).unwrap();
        read::<TaskRun>(&path).unwrap()
    };
    let record = record(0);
    assert!(check(&stored(Some(StoredRun::from(&record)))).is_some());
    for boot_id in ["other", ""] {
        assert!(check(&Stored { boot_id: boot_id.into(), ..stored(None) }).is_none());
    }
    for pid in [i32::MIN, -1, 0, 1] {
        let vanished = StoredRun { pid: Some(pid), start_time: Some(1), ..StoredRun::from(&record) };
        assert!(check(&stored(Some(vanished))).is_none(), "{pid}");
    }
    for bytes in [&b""[..], b"{\"task\":", b"00000000 {}\n"] {
        let path = folder.path().join(format!("{}-1-9.run", own().pid));
        fs::write(&path, bytes).unwrap();
        assert!(read::<TaskRun>(&path).unwrap().is_none());
    }
}
