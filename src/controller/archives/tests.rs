//! Tests of the store.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::*;
use api::tools::pack;
use api::wire::requests::file::FilePut;
use api::wire::requests::tool::ToolPut;
use engine::{ConnectionId, FileRoom, Ticket, ToolOrder, ToolOutcome, Uploader, Written};

pub(super) fn limits() -> Limits {
    api::config::Config::default().archive
}

fn open(ground: &Path) -> ArchiveStore {
    ArchiveStore::open(&ground.join("state"), ground.join("tools"), limits(), 0, None).unwrap()
}

pub(super) fn greet() -> ToolName {
    ToolName::new("greet").unwrap()
}

/// Packs the tool `greet` into the tools folder; returns the bytes of its archive.
pub(super) fn install(ground: &Path, says: &str) -> Vec<u8> {
    let (folder, tools) = (ground.join("greet"), ground.join("tools"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&tools).unwrap();
    fs::write(folder.join("run.sh"), format!("#!/bin/sh\necho {says}\n")).unwrap();
    let archive = tools.join("greet.tar.gz");
    pack(&folder, &archive, &limits()).unwrap();
    fs::read(archive).unwrap()
}

pub(super) fn digest(bytes: &[u8]) -> ToolDigest {
    ToolDigest::new(Sha256::digest(bytes).into())
}

pub(super) fn put(bytes: &[u8], offset: usize, data: &[u8]) -> ToolPut {
    let (offset, total) = (offset as u64, bytes.len() as u64);
    ToolPut { tool: greet(), digest: digest(bytes), total, offset, data: data.to_vec(), by: "ada".into() }
}

#[test]
fn a_push_goes_on_where_it_was_interrupted_and_is_known_after_a_restart() {
    let ground = tempfile::tempdir().unwrap();
    let bytes = install(ground.path(), "hi");
    let mut store = open(ground.path());
    assert_eq!(store.write(&put(&bytes, 0, &[])), Ok(Written::Part(0)));
    assert_eq!(store.write(&put(&bytes, 0, &bytes[..50])), Ok(Written::Part(50)));
    let mut store = open(ground.path());
    assert_eq!(store.write(&put(&bytes, 10, &bytes[10..60])), Ok(Written::Part(50)), "it does not begin at the end");
    let Ok(Written::Whole(held)) = store.write(&put(&bytes, 50, &bytes[50..])) else { panic!("it is complete") };
    assert_eq!((held.digest, held.size, &*held.by), (digest(&bytes), bytes.len() as u64, "ada"));
    let stored = open(ground.path()).stored().unwrap();
    assert_eq!(stored.held, [(held.digest, held.size)]);
    assert_eq!(stored.pushed.iter().map(|held| &held.name).collect::<Vec<_>>(), [&greet()]);
    assert_eq!(store.remove(&greet(), &"bob".into()), Ok(()));
    let mut store = open(ground.path());
    assert_eq!(store.stored().unwrap().pushed, []);
    let log: Vec<String> = store.log.rows(&greet(), 10).iter().map(|row| row.by.to_string()).collect();
    assert_eq!(log, ["ada", "bob"]);
}

#[test]
fn other_bytes_than_announced_are_refused_and_dropped() {
    let ground = tempfile::tempdir().unwrap();
    let bytes = install(ground.path(), "hi");
    let mut store = open(ground.path());
    let mut wrong = bytes.clone();
    wrong[40] ^= 1;
    let refusal = store.write(&put(&bytes, 0, &wrong)).unwrap_err();
    assert!(refusal.message.contains("are not those of the archive"), "{refusal}");
    assert_eq!(store.write(&put(&bytes, 0, &[])), Ok(Written::Part(0)), "nothing of it is left");
    let refusal = store.write(&put(b"no archive", 0, b"no archive")).unwrap_err();
    assert!(refusal.message.contains("cannot become tool greet"), "{refusal}");
    assert_eq!(store.stored().unwrap().held, []);
}

#[test]
fn a_version_whose_bytes_have_changed_is_put_aside() {
    let ground = tempfile::tempdir().unwrap();
    let bytes = install(ground.path(), "hi");
    let mut store = open(ground.path());
    let held = store.take(&greet()).unwrap().held.unwrap();
    let part = store.read((held.digest, 10), 20, false).unwrap().unwrap();
    assert_eq!((part.offset, part.total), (10, bytes.len() as u64));
    let path = store.path(&held.digest);
    let mut wrong = bytes.clone();
    wrong[40] ^= 1;
    fs::write(&path, wrong).unwrap();
    let failure = store.read((held.digest, 0), 20, false).unwrap_err();
    assert!(failure.is_lost && failure.refusal.message.contains("damaged"), "{failure:?}");
    assert!(!path.exists() && path.with_extension("damaged").exists());
    assert!(store.take(&greet()).unwrap().held.is_some(), "the folder still has it");
    assert!(store.read((held.digest, 0), 20, true).is_ok());
}

#[test]
fn an_archive_that_no_agent_could_run_is_not_taken() {
    let ground = tempfile::tempdir().unwrap();
    fs::create_dir_all(ground.path().join("tools")).unwrap();
    let mut store = open(ground.path());
    let taken = store.take(&greet()).unwrap();
    assert!(taken.held.is_none() && taken.seen.is_none(), "there is none");
    fs::write(ground.path().join("tools/greet.tar.gz"), "no archive").unwrap();
    let taken = store.take(&greet()).unwrap();
    assert!(taken.held.is_none() && taken.seen.is_some());
    let first = install(ground.path(), "one");
    let second = install(ground.path(), "two");
    assert_eq!(store.take(&greet()).unwrap().held.unwrap().digest, digest(&second));
    assert_ne!(digest(&first), digest(&second));
}

/// A crash can leave a part of the last line.
#[test]
fn a_torn_line_of_the_log_is_no_change() {
    let ground = tempfile::tempdir().unwrap();
    let bytes = install(ground.path(), "hi");
    let mut store = open(ground.path());
    store.write(&put(&bytes, 0, &bytes)).unwrap();
    let path = dir_in(&ground.path().join("state")).join("log");
    let mut text = fs::read(&path).unwrap();
    text.extend_from_slice(&text.clone()[..20]);
    fs::write(&path, text).unwrap();
    let mut store = open(ground.path());
    assert_eq!(store.log.present().count(), 1);
    store.remove(&greet(), &"bob".into()).unwrap();
    assert_eq!(open(ground.path()).log.present().count(), 0);
}

/// A list of the tools tells it: a flipped byte is found without a task that needs the version.
#[test]
fn a_version_that_is_damaged_or_gone_is_found_by_a_check() {
    let ground = tempfile::tempdir().unwrap();
    let bytes = install(ground.path(), "hi");
    let mut store = open(ground.path());
    let held = store.take(&greet()).unwrap().held.unwrap();
    assert_eq!(store.lost_of(vec![held.digest]), []);
    let mut wrong = bytes;
    *wrong.last_mut().unwrap() ^= 1;
    fs::write(store.path(&held.digest), wrong).unwrap();
    let nowhere = ToolDigest::new([7; 32]);
    assert_eq!(store.lost_of(vec![held.digest, nowhere]), [held.digest, nowhere]);
    assert!(store.path(&held.digest).with_extension("damaged").exists());
}

#[test]
fn the_whole_folder_is_looked_at_once_in_a_turn() {
    let ground = tempfile::tempdir().unwrap();
    install(ground.path(), "hi");
    let mut watch = super::watch::Watch::new(ground.path().join("tools"));
    fs::write(ground.path().join("tools/notes.txt"), "").unwrap();
    let turn = base::Mono::from_nanos(1);
    assert_eq!(watch.changed(turn), [greet()]);
    assert_eq!(watch.changed(turn), []);
    let mut store = open(ground.path());
    let mut seen = store.take(&greet()).unwrap().seen.unwrap();
    seen.is_settled = true;
    assert!(watch.was_read(turn, &greet(), Some(seen)));
    let next = base::Mono::from_nanos(2);
    assert_eq!(watch.changed(next), [], "it is as it was read");
    fs::remove_file(ground.path().join("tools/greet.tar.gz")).unwrap();
    assert_eq!(watch.changed(base::Mono::from_nanos(3)), [greet()], "it is gone");
}

/// A link that leaves the folder cannot be opened. The thread answers, and has time for the next order.
#[test]
fn an_archive_that_cannot_be_opened_is_looked_at_once() {
    let ground = tempfile::tempdir().unwrap();
    let (state, tools) = (ground.path().join("state"), ground.path().join("tools"));
    install(ground.path(), "hi");
    fs::rename(tools.join("greet.tar.gz"), ground.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(ground.path().join("elsewhere"), tools.join("greet.tar.gz")).unwrap();
    let (mut archives, _) = Archives::start(&state, &tools, limits(), 0, None).unwrap();
    let turn = base::Mono::from_nanos(1);
    assert!(archives.has_changed(turn, &greet()));
    archives.order(ToolOrder::Take(greet()));
    assert!(proc::readable::is_readable(&archives, Some(std::time::Duration::from_secs(60))));
    let outcome = archives.poll(turn);
    assert!(matches!(outcome, Some(ToolOutcome::Taken(_, None))), "{outcome:?}");
}

#[test]
fn an_archive_that_could_not_be_copied_is_taken_by_the_next_look() {
    let ground = tempfile::tempdir().unwrap();
    let bytes = install(ground.path(), "hi");
    let mut store = open(ground.path());
    let tools = ground.path().join("tools");
    let mut watch = super::watch::Watch::new(tools.clone());
    // It becomes old enough to be known by its stamp.
    while !api::tools::open_archive(&tools, &greet()).unwrap().2 {
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
    let in_the_way = store.dir.join(".new");
    fs::create_dir(&in_the_way).unwrap();
    let taken = store.take(&greet()).unwrap();
    assert!(taken.held.is_none());
    assert!(watch.was_read(base::Mono::from_nanos(1), &greet(), taken.seen));
    fs::remove_dir(in_the_way).unwrap();
    assert!(watch.has_changed(base::Mono::from_nanos(2), &greet()));
    assert_eq!(store.take(&greet()).unwrap().held.unwrap().digest, digest(&bytes));
}

/// After a restart, a large file is checked before its first byte is handed out. Others do not wait for that.
#[test]
fn an_order_overtakes_the_check_of_a_large_file() {
    let ground = tempfile::tempdir().unwrap();
    let (large, small) = (vec![7; 100 << 20], b"small".to_vec());
    for bytes in [&large, &small] {
        fs::write(open(ground.path()).path(&digest(bytes)), bytes).unwrap();
    }
    let (state, tools) = (ground.path().join("state"), ground.path().join("tools"));
    let (mut archives, _) = Archives::start(&state, &tools, limits(), 0, None).unwrap();
    let ticket = |number| Ticket { connection: ConnectionId { door: 0, number: 0 }, number };
    let put = |bytes: &[u8]| FilePut::begin(digest(bytes), bytes.len() as u64);
    let room = FileRoom { uploader: Uploader::Client, bytes: 0 };
    let read = |number, bytes: &[u8], is_doubted| ToolOrder::Read {
        ticket: ticket(number),
        digest: digest(bytes),
        offset: 0,
        limit: 5,
        is_doubted,
    };
    archives.order(read(1, &large, true));
    archives.order(ToolOrder::WriteFile(ticket(2), Box::new(put(&small)), room));
    archives.order(read(3, &small, false));
    let mut answers = Vec::new();
    while answers.len() < 3 {
        assert!(proc::readable::is_readable(&archives, Some(std::time::Duration::from_secs(60))));
        while let Some(outcome) = archives.poll(base::Mono::default()) {
            answers.push(match outcome {
                ToolOutcome::Read(ticket, part) => (ticket.number, part.is_ok()),
                ToolOutcome::FileWritten(ticket, written) => (ticket.number, written.unwrap().is_whole),
                other => panic!("{other:?}"),
            });
        }
    }
    assert_eq!(answers, [(2, true), (3, true), (1, true)]);
    // The sender of a file that is there asks until it has been checked.
    let mut store = open(ground.path());
    let steps = [(); 4].map(|()| store.write_file(&put(&large), room).map(|written| (written.end, written.is_whole)));
    let end = large.len() as u64;
    assert_eq!(steps, [Ok((end, false)), Ok((end, false)), Ok((end, false)), Ok((end, true))]);
}
