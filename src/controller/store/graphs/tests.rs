//! The rows of step graphs: what is kept, refused and repaired.

use std::fs;

use super::super::{FILE, FileStore, inspect, repair::Salvage};
use super::*;
use api::config::Durability;
use api::wire::graph::{AcceptedGraph, EntryCodec};
use base::{Fields, GraphEntry, GraphEvent, StepIndex, ToolDigest, ToolName, Wall};
use engine::Record;

const DOCUMENT: &str = r#"{"steps": {"first-step": {"operation": "t"}, "b": {"operation": "t"}}}"#;

fn accepted() -> AcceptedGraph {
    let fields = Fields::new().with("__GIVEN_ID__", "mine");
    let pins = [(ToolName::new("t").unwrap(), ToolDigest::new([7; 32]))].into();
    AcceptedGraph { pins, ..AcceptedGraph::read(DOCUMENT, fields, &Rules::of_history()).unwrap() }
}

fn id(number: u64) -> GraphId {
    GraphId::new(Wall::from_micros(1_795_239_916_000_000 + number), [7; 5])
}

fn entries() -> Vec<GraphEntry> {
    let entry = |number: u32| GraphEntry {
        at: Wall::from_micros(u64::from(number)),
        event: GraphEvent::Complete(StepIndex(number)),
        dropped: Vec::new(),
    };
    vec![entry(0), entry(1)]
}

/// A store with two graphs, of which the second has entries.
fn store(folder: &Path) -> FileStore {
    let mut store = FileStore::open(folder, Durability::Disk).unwrap();
    let graph = accepted();
    let row = |number| Record::Graph(id(number), Some(Box::new(graph.encode(id(number), Wall::from_micros(number)))));
    let text = |entry| EntryCodec::encode(&graph.document, entry).unwrap().into();
    let list = entries();
    let entry = |number: u32| Record::GraphEntry(id(2), number, text(&list[number as usize - 1]));
    store.commit(&[row(1), row(2), entry(1)]).unwrap();
    store.commit(&[entry(2)]).unwrap();
    store
}

fn load(store: &mut FileStore) -> Result<Vec<(GraphId, usize)>, StoreError> {
    let stored = store.load(&Rules::of_history())?;
    Ok(stored.graphs.iter().map(|graph| (graph.id, graph.entries.len())).collect())
}

/// Changes a text in the file.
fn spoil(folder: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    drop(FileStore::open(folder, Durability::Disk).unwrap());
    let path = folder.join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    let at: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from.as_bytes())).collect();
    for at in at {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_graph_is_kept_with_its_terms_and_its_entries_until_it_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    drop(store(folder.path()));
    let mut store = FileStore::open(folder.path(), Durability::Disk).unwrap();
    let stored = store.load(&Rules::of_history()).unwrap().graphs;
    assert_eq!((stored[0].id, stored[0].submitted_at, stored[0].entries.len()), (id(1), Wall::from_micros(1), 0));
    assert_eq!((stored[1].graph.clone(), stored[1].entries.clone()), (accepted(), entries()));
    assert_eq!(inspect(folder.path(), |_| {}).unwrap(), 0, "a check reads them, and counts tasks");
    store.commit(&[Record::Graph(id(2), None)]).unwrap();
    assert_eq!(load(&mut store).unwrap(), [(id(1), 0)]);
    let left: i64 = store.connection.query_row("SELECT count(*) FROM graph_entries", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0, "no entry is left of a forgotten graph");
}

/// An entry that is missing, or is another one, would make another run of the graph.
#[test]
fn a_damaged_graph_is_refused_and_repaired_as_far_as_it_is_whole() {
    for (from, to, kept) in [
        ("first-step\"}", "first-stop\"}", vec![(id(1), 0), (id(2), 0)]),
        ("\"step\":\"b\"", "\"step\":\"c\"", vec![(id(1), 0), (id(2), 1)]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut whole = store(folder.path());
        whole.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert_eq!(load(&mut whole).unwrap(), [(id(1), 0), (id(2), 2)]);
        drop(whole);
        spoil(folder.path(), from, to);
        let refused = inspect(folder.path(), |_| {}).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        let salvage = Salvage::read(folder.path()).unwrap();
        assert!(!salvage.unreadable.is_empty());
        salvage.put_in_place(folder.path()).unwrap();
        assert_eq!(load(&mut FileStore::open(folder.path(), Durability::Disk).unwrap()).unwrap(), kept);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut gap = store(folder.path());
    gap.connection.execute("DELETE FROM graph_entries WHERE number = 1", []).unwrap();
    assert!(load(&mut gap).unwrap_err().to_string().contains("entry 1 of graph"));
}

#[test]
fn a_store_of_the_version_before_graphs_is_migrated_and_can_be_inspected() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), Durability::Disk).unwrap();
    store.connection.execute_batch("DROP TABLE graphs; DROP TABLE graph_entries; PRAGMA user_version = 3").unwrap();
    drop(store);
    assert_eq!(inspect(folder.path(), |_| {}).unwrap(), 0);
    assert!(Salvage::read(folder.path()).unwrap().unreadable.is_empty());
    assert_eq!(load(&mut FileStore::open(folder.path(), Durability::Disk).unwrap()).unwrap(), []);
}
