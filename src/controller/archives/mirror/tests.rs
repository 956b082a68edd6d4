//! Two folders with one mirror, as those of a machine that is lost and of the one that goes on.

use std::sync::{Arc, Mutex};

use super::*;
use crate::archives::tests::{digest, greet, install, limits, put};
use crate::archives::uploads::Check;
use crate::archives::{ArchiveStore, Archives};
use api::wire::requests::file::FilePut;
use base::{HeldTool, Mono};
use engine::{FileRoom, ToolOrder, ToolOutcome, Uploader, Written};

const ROOM: FileRoom = FileRoom { uploader: Uploader::Client, bytes: 1 << 40 };

#[derive(Default)]
struct Place {
    files: BTreeMap<ToolDigest, u64>,
    parts: BTreeMap<(ToolDigest, u64), Vec<u8>>,
    log: Vec<String>,
    is_away: bool,
}

/// What two homes share.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Place>>);

/// A home's view of it.
struct View(Shared, &'static str);

impl View {
    fn place(&self) -> io::Result<std::sync::MutexGuard<'_, Place>> {
        let place = self.0.0.lock().unwrap();
        if place.is_away { Err(io::Error::other("the server is away")) } else { Ok(place) }
    }
}

impl Mirror for View {
    fn home(&self) -> String {
        self.1.to_owned()
    }

    fn part_bytes(&self) -> u64 {
        100
    }

    fn files(&mut self) -> io::Result<Vec<(ToolDigest, u64)>> {
        Ok(self.place()?.files.iter().map(|(digest, bytes)| (*digest, *bytes)).collect())
    }

    fn put_part(&mut self, digest: &ToolDigest, number: u64, part: &[u8]) -> io::Result<()> {
        self.place()?.parts.insert((*digest, number), part.to_owned());
        Ok(())
    }

    fn put_file(&mut self, digest: &ToolDigest, bytes: u64) -> io::Result<bool> {
        self.place()?.files.insert(*digest, bytes);
        Ok(true)
    }

    fn part(&mut self, digest: &ToolDigest, number: u64) -> io::Result<Option<Vec<u8>>> {
        Ok(self.place()?.parts.get(&(*digest, number)).cloned())
    }

    fn remove(&mut self, digest: &ToolDigest) -> io::Result<()> {
        self.place()?.files.remove(digest);
        Ok(())
    }

    fn log(&mut self) -> io::Result<Vec<String>> {
        Ok(self.place()?.log.clone())
    }

    fn add_to_log(&mut self, line: &str) -> io::Result<()> {
        self.place()?.log.push(line.to_owned());
        Ok(())
    }
}

fn open(shared: &Shared, ground: &Path, home: &'static str) -> ArchiveStore {
    let mirror = Box::new(View(shared.clone(), home));
    ArchiveStore::open(&ground.join("state"), ground.join("tools"), limits(), 0, Some(mirror)).unwrap()
}

fn two() -> (Shared, [tempfile::TempDir; 2]) {
    (Shared::default(), [(); 2].map(|()| tempfile::tempdir().unwrap()))
}

fn pushed(store: &mut ArchiveStore) -> Vec<(String, ToolDigest, String)> {
    let pushed = store.stored().unwrap().pushed;
    pushed.into_iter().map(|HeldTool { name, digest, by, .. }| (name.to_string(), digest, by.to_string())).collect()
}

fn put_file(store: &mut ArchiveStore, bytes: &[u8]) {
    let mut put = FilePut { data: bytes.to_owned(), ..FilePut::begin(digest(bytes), bytes.len() as u64) };
    while !store.write_file(&put, ROOM).unwrap().is_whole {
        (put.offset, put.data) = (bytes.len() as u64, Vec::new());
    }
}

#[test]
fn a_file_of_the_lost_machine_is_fetched_and_checked() {
    let (shared, [a, b]) = two();
    let bytes: Vec<u8> = (0..1234_u32).map(|number| number.to_le_bytes()[0]).collect();
    put_file(&mut open(&shared, a.path(), "a"), &bytes);
    let mut second = open(&shared, b.path(), "b");
    assert_eq!(second.stored().unwrap().held, [(digest(&bytes), 1234)]);
    assert!(second.lost_of(vec![digest(&bytes)]).is_empty(), "it can be fetched");
    let part = second.read((digest(&bytes), 1000), 5, false).unwrap().unwrap();
    let mut of_first = open(&shared, a.path(), "a");
    let same = of_first.read((digest(&bytes), 1000), 5, false).unwrap().unwrap();
    assert_eq!((part.text, part.total), (same.text, 1234));
    // One whose bytes change on the disk is fetched again.
    fs::write(second.path(&digest(&bytes)), "other bytes").unwrap();
    assert!(matches!(second.check(&digest(&bytes)), Ok(Check::Right)));
    assert_eq!(fs::read(second.path(&digest(&bytes))).unwrap(), bytes);
    // One that has changed in the mirror has no other bytes than its own.
    let mut third = open(&shared, a.path(), "a");
    fs::remove_file(third.path(&digest(&bytes))).unwrap();
    shared.0.lock().unwrap().parts.get_mut(&(digest(&bytes), 3)).unwrap()[7] ^= 1;
    assert!(third.read((digest(&bytes), 0), 5, false).unwrap_err().is_lost);
    second.discard(&digest(&bytes));
    assert_eq!(open(&shared, b.path(), "b").stored().unwrap().held, []);
}

#[test]
fn names_that_were_pushed_or_in_the_folder_of_the_lost_machine_go_on() {
    let (shared, [a, b]) = two();
    let bytes = install(a.path(), "one");
    let mut first = open(&shared, a.path(), "a");
    let held = first.take(&greet()).unwrap().held.unwrap();
    first.note_folder(&greet(), Some((held.digest, held.size)));
    assert_eq!(pushed(&mut first), [], "it is in its own folder");

    let mut second = open(&shared, b.path(), "b");
    let of_a = ("greet".to_owned(), digest(&bytes), "AGENT_TOOLS_DIR of a".to_owned());
    assert_eq!(pushed(&mut second), [of_a]);
    fs::create_dir_all(a.path().join("other")).unwrap();
    let newer = install(&a.path().join("other"), "two");
    assert!(matches!(second.write(&put(&newer, 0, &newer)), Ok(Written::Whole(_))));
    let newest = ("greet".to_owned(), digest(&newer), "ada".to_owned());
    for (ground, home) in [(b.path(), "b"), (a.path(), "a")] {
        assert_eq!(pushed(&mut open(&shared, ground, home)), std::slice::from_ref(&newest), "{home}");
    }
    assert_eq!(second.remove(&greet(), &"bob".into()), Ok(()));
    assert_eq!(pushed(&mut open(&shared, b.path(), "b")), []);
}

#[test]
fn a_home_whose_queue_moves_to_a_server_takes_its_files_and_names_along() {
    let (shared, [a, b]) = two();
    let bytes = install(a.path(), "hi");
    let alone = ArchiveStore::open(&a.path().join("state"), a.path().join("tools"), limits(), 0, None);
    assert!(matches!(alone.unwrap().write(&put(&bytes, 0, &bytes)), Ok(Written::Whole(_))));
    let mut first = open(&shared, a.path(), "a");
    assert_eq!(first.stored().unwrap().held, [(digest(&bytes), bytes.len() as u64)]);
    while first.send_on() {}
    fs::remove_dir_all(a.path()).unwrap();
    let names: Vec<_> = pushed(&mut open(&shared, b.path(), "b")).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["greet"]);
}

#[test]
fn while_the_server_is_away_nothing_is_told_to_be_complete() {
    let (shared, [a, b]) = two();
    let bytes = install(a.path(), "hi");
    let mirror = Box::new(View(shared.clone(), "a"));
    let (state, tools) = (a.path().join("state"), a.path().join("tools"));
    let (mut archives, _) = Archives::start(&state, &tools, limits(), 0, Some(mirror)).unwrap();
    shared.0.lock().unwrap().is_away = true;
    archives.order(ToolOrder::Take(greet()));
    let ticket = engine::Ticket { connection: engine::ConnectionId { door: 0, number: 0 }, number: 1 };
    let put = FilePut { data: b"abc".to_vec(), ..FilePut::begin(digest(b"abc"), 3) };
    archives.order(ToolOrder::WriteFile(ticket, Box::new(put.clone()), ROOM));
    let next = |archives: &mut Archives, turn| loop {
        assert!(proc::readable::is_readable(&*archives, Some(std::time::Duration::from_secs(60))));
        if let Some(outcome) = archives.poll(Mono::from_nanos(turn)) {
            return outcome;
        }
    };
    let ToolOutcome::FileWritten(_, Err(refusal)) = next(&mut archives, 1) else { panic!("it is not complete") };
    assert!(refusal.message.contains("the server is away"), "{refusal}");
    shared.0.lock().unwrap().is_away = false;
    archives.order(ToolOrder::WriteFile(ticket, Box::new(put), ROOM));
    let ToolOutcome::FileWritten(_, Ok(written)) = next(&mut archives, 2) else { panic!("it is complete") };
    assert!(written.is_whole);
    // The next look tries the archive of the folder again.
    archives.look_at_room(Mono::from_nanos(10_000_000_000));
    let ToolOutcome::Taken(_, Some(held)) = next(&mut archives, 3) else { panic!("it is there") };
    assert_eq!(held.digest, digest(&bytes));
    let held = open(&shared, b.path(), "b").stored().unwrap().held;
    assert_eq!(held.len(), 2, "the other machine has both");
}
