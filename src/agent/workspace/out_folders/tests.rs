//! Which folders of graphs stay, by age, total and use.

use std::fs;

use super::*;
use base::Wall;

struct Place {
    folder: tempfile::TempDir,
    workspace: Arc<Workspace>,
}

fn graph(number: u64) -> GraphId {
    GraphId::new(Wall::from_micros(number), [0; 5])
}

fn task(number: u64) -> TaskId {
    TaskId::new(Wall::from_micros(number), [0; 5])
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::open(folder.path()).unwrap());
        Self { folder, workspace }
    }

    fn make(&self, number: u64) -> OutFolder {
        self.workspace.make_out(graph(number), task(number)).unwrap().0
    }

    /// A graph whose task has left this many bytes, and ended so long ago.
    fn left(&self, number: u64, bytes: usize, age: Duration) -> PathBuf {
        let out = self.make(number);
        fs::write(out.path().join("data"), vec![b'x'; bytes]).unwrap();
        let path = out.path().to_owned();
        drop(out);
        self.age(number, age);
        path
    }

    fn age(&self, number: u64, age: Duration) {
        let of_graph = fs::File::open(self.of_graph(number)).unwrap();
        let now = std::time::UNIX_EPOCH + Duration::from_micros(clock::now().wall.micros());
        of_graph.set_modified(now - age).unwrap();
    }

    fn of_graph(&self, number: u64) -> PathBuf {
        self.workspace.path().join(OUT).join(short(graph(number)))
    }

    fn keeping(&self, bytes_max: u64, age_max: Duration) -> Keeping {
        let limits = OutLimits { bytes_max, age_max };
        Keeping { workspace: Arc::clone(&self.workspace), limits, graph: None, added: 0 }
    }

    fn has(&self, number: u64) -> bool {
        self.of_graph(number).exists()
    }

    fn trash(&self) -> usize {
        fs::read_dir(self.folder.path().join(".trash")).unwrap().count()
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn a_later_round_begins_with_an_empty_folder_of_the_same_name() {
    let place = Place::new();
    let path = place.left(1, 1, Duration::ZERO);
    let (again, rest) = place.workspace.make_out(graph(1), task(1)).unwrap();
    assert_eq!(again.path(), path);
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
    assert!(rest.is_some(), "the earlier content is in the trash");
}

#[test]
fn a_graph_is_removed_by_its_age_unless_a_task_of_it_runs() {
    let place = Place::new();
    for (number, age) in [(1, DAY * 2), (2, DAY * 2), (3, HOUR)] {
        place.left(number, 1, age);
    }
    let running = place.workspace.make_out(graph(2), task(9)).unwrap();
    place.age(2, DAY * 2);
    place.keeping(u64::MAX, DAY).tidy();
    assert_eq!([1, 2, 3].map(|number| place.has(number)), [false, true, true]);
    drop(running);
    place.keeping(u64::MAX, DAY).tidy();
    assert_eq!([2, 3].map(|number| place.has(number)), [false, true]);
    assert_eq!(place.trash(), 0);
}

#[test]
fn the_oldest_ended_graphs_are_removed_until_the_rest_fits() {
    let place = Place::new();
    let mib = 1 << 20;
    for (number, age) in [(1, HOUR * 2), (2, HOUR * 4), (3, HOUR * 3), (4, Duration::ZERO)] {
        place.left(number, mib, age);
    }
    place.keeping(3 * mib as u64, DAY).tidy();
    assert_eq!([1, 2, 3, 4].map(|number| place.has(number)), [true, false, false, true]);
    place.keeping(0, DAY).tidy();
    assert_eq!([1, 4].map(|number| place.has(number)), [false, true], "one that has just had a task may go on");
}

#[test]
fn the_size_is_looked_at_when_tasks_have_added_enough() {
    let place = Place::new();
    let mib = 1 << 20;
    place.left(1, 4 * mib, HOUR);
    let mut keeping = place.keeping(4 * mib as u64, DAY);
    keeping.graph = Some(graph(2));
    place.left(2, 1000, Duration::ZERO);
    keeping.note(&[Job::Ended(graph(2), task(2))]);
    assert!(place.has(1));
    place.left(2, mib, Duration::ZERO);
    keeping.note(&[Job::Ended(graph(2), task(2))]);
    assert!(!place.has(1) && place.has(2));
}

#[test]
fn tasks_that_leave_nothing_leave_no_folders() {
    let place = Place::new();
    let mut keeper =
        OutKeeper::start(Arc::clone(&place.workspace), OutLimits { bytes_max: 1 << 30, age_max: DAY }).unwrap();
    let out = place.make(1);
    let path = out.path().to_owned();
    keeper.end(out, None);
    assert!(!path.exists());
    // It tidies as well, and holds a lock meanwhile.
    keeper.0.finish();
    place.keeping(0, DAY).tidy();
    assert!(!place.has(1));
}

/// Only folders of graphs are removed, and no link is followed to them.
#[test]
fn what_tools_put_beside_the_folders_is_left_alone() {
    let place = Place::new();
    let precious = tempfile::tempdir().unwrap();
    fs::write(precious.path().join("file"), "x").unwrap();
    let out = place.left(1, 1, DAY * 2);
    std::os::unix::fs::symlink(precious.path(), out.join("link")).unwrap();
    std::os::unix::fs::symlink(precious.path(), place.of_graph(2)).unwrap();
    fs::create_dir(place.workspace.path().join(OUT).join("mine")).unwrap();
    place.keeping(0, DAY).tidy();
    assert!(!place.has(1) && precious.path().join("file").exists());
    assert!(place.workspace.path().join(OUT).join("mine").exists());
}
