//! Managers: callbacks, leases, archives; and opening.

use std::time::Duration;

use api::config::ManagerConfig;
use redis::Commands as _;
use tdf::shell::{CallbackError, Callbacks, Manager, Order as Wanted};
use tdf::wire::Task;

use super::Place;
use super::original::Order;

impl Place {
    fn manager(&self, defaults: &str) -> Manager {
        let text = format!("[manager]\nround_duration=0.02\n[task_defaults]\n{defaults}");
        let path = self.redis.write_config("manager.cfg", super::NAMESPACE, &text);
        Manager::connect(ManagerConfig::load(&path).unwrap()).unwrap()
    }

    /// An original's task that has gone this far.
    fn ended(&mut self, set: &str) -> u64 {
        let id = self.original.open(&Order::default());
        assert!(self.original.r#move(id, "open", set, 0, &[("0:output", "out"), ("0:error", "")]));
        id
    }
}

/// Notes what it is called for, and fails for some tasks.
#[derive(Default)]
struct Notes {
    called: Vec<(&'static str, u64)>,
    failing: Vec<u64>,
    rounds: u64,
}

impl Notes {
    fn note(&mut self, kind: &'static str, task: &Task) -> Result<(), CallbackError> {
        self.called.push((kind, task.id().0));
        if self.failing.contains(&task.id().0) { Err("not now".into()) } else { Ok(()) }
    }
}

impl Callbacks for Notes {
    fn succeeded(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        assert_eq!(task.current("output"), Some(&b"out"[..]));
        self.note("succeeded", task)
    }
    fn failed(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.note("failed", task)
    }
    fn timed_out(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.note("timed_out", task)
    }
    fn expired(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.note("expired", task)
    }
    fn stop_processing(&mut self, _: &mut Manager, rounds: u64) -> bool {
        rounds >= self.rounds
    }
}

#[test]
fn each_ended_task_is_called_back_for_and_archived() {
    let mut place = Place::new();
    let kinds = ["expired", "timed_out", "failed", "succeeded"];
    let ids = kinds.map(|set| place.ended(set));
    let mut notes = Notes::default();
    place.manager("").round(&mut notes).unwrap();
    assert_eq!(notes.called, [("succeeded", ids[3]), ("failed", ids[2]), ("timed_out", ids[1]), ("expired", ids[0])]);
    for (id, kind) in ids.into_iter().zip(kinds) {
        assert_eq!((place.sets(id), place.get(id, "state").unwrap().as_str()), (vec!["archived"], kind));
        assert!(place.get(id, "0:archived").is_some());
        assert_eq!(place.log(id).last().unwrap(), &format!("moving task {id}: {kind} -> archived"));
        place.original.assert_readable(id);
    }
    let own: Vec<String> = place.original.redis.keys("MyProgram:llts:*").unwrap();
    assert!(own.is_empty(), "nothing of ours is left: {own:?}");
}

/// A whole task may stand behind it: another program has written both.
#[test]
fn an_entry_whose_id_is_no_number_is_passed_over() {
    let mut place = Place::new();
    let id = place.ended("succeeded");
    let odd = ["017", "abc"];
    odd.iter().for_each(|odd| place.copy(id, odd, "succeeded"));
    let mut notes = Notes::default();
    let mut manager = place.manager("");
    manager.round(&mut notes).unwrap();
    assert_eq!((notes.called, place.sets(id)), (vec![("succeeded", id)], vec!["archived"]));
    let noted: Vec<String> = place.original.redis.hkeys("MyProgram:llts:poisoned").unwrap();
    assert_eq!(noted.len(), odd.len(), "{noted:?}");
}

#[test]
fn a_failed_callback_leaves_its_task_and_holds_up_no_other() {
    let mut place = Place::new();
    let ids: Vec<u64> = (0..40).map(|_| place.ended("succeeded")).collect();
    let mut notes = Notes { failing: vec![ids[0], ids[20]], ..Notes::default() };
    let mut manager = place.manager("");
    manager.round(&mut notes).unwrap();
    assert_eq!(notes.called.len(), 40);
    assert_eq!((place.sets(ids[0]), place.sets(ids[1])), (vec!["succeeded"], vec!["archived"]));
    notes.failing.clear();
    // It is called for again by itself, not before its pause.
    notes.rounds = 1_000;
    let attempts: u32 = place.original.redis.hget("MyProgram:llts:callback_attempts", ids[0]).unwrap();
    assert_eq!(attempts, 1);
    let mut rounds = 0;
    while place.sets(ids[20]) != ["archived"] {
        rounds += 1;
        assert!(rounds < 1_000, "the callback is not called again");
        std::thread::park_timeout(Duration::from_millis(10));
        manager.round(&mut notes).unwrap();
    }
    assert_eq!(notes.called.iter().filter(|(_, id)| *id == ids[0]).count(), 2);
}

#[test]
fn two_managers_call_back_once() {
    let mut place = Place::new();
    let ids: Vec<u64> = (0..20).map(|_| place.ended("succeeded")).collect();
    struct Inner<'a>(&'a mut Manager, Notes, Notes);
    impl Callbacks for Inner<'_> {
        fn succeeded(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
            // While the first one has a task, the second one has a whole round.
            self.0.round(&mut self.2).map_err(|error| error.to_string())?;
            self.1.note("succeeded", task)
        }
    }
    let (mut one, mut other) = (place.manager(""), place.manager(""));
    let mut inner = Inner(&mut other, Notes::default(), Notes::default());
    one.round(&mut inner).unwrap();
    let mut called: Vec<u64> = inner.1.called.iter().chain(&inner.2.called).map(|(_, id)| *id).collect();
    called.sort_unstable();
    assert_eq!(called, ids);
    assert_eq!(inner.2.called.len(), 4, "the first one has taken sixteen");
}

#[test]
fn a_manager_hears_of_tasks_that_end() {
    let mut place = Place::new();
    place.original.open(&Order::default());
    let fence = place.claim_one("w");
    place.execute(&fence, "out", "");
    place.rounds(1);
    struct Once(Notes);
    impl Callbacks for Once {
        fn succeeded(&mut self, manager: &mut Manager, task: &Task) -> Result<(), CallbackError> {
            // A callback opens what comes next.
            let id = manager.open(Wanted::new("p", "s", "next")).map_err(|error| error.to_string())?;
            assert_eq!(id.0, 2);
            self.0.note("succeeded", task)
        }
        fn stop_processing(&mut self, manager: &mut Manager, _: u64) -> bool {
            manager
                .namespace()
                .stats()
                .unwrap()
                .counts
                .iter()
                .any(|(state, count)| *state == base::tdf::State::Archived && *count == 1)
        }
    }
    let mut once = Once(Notes::default());
    place.manager("").run(&mut once, None);
    assert_eq!(once.0.called, [("succeeded", 1)]);
    assert_eq!(place.sets(2), ["open"]);
}

#[test]
fn opening_leaves_what_the_originals_does() {
    let mut place = Place::new();
    let theirs = place.original.open(&Order { timeout: "60", ..Order::default() });
    let mut manager = place.manager("timeout=60\nmax_fails=2");
    let input = b"a 'b c' $HOME \xff";
    let wanted = Wanted { end_before: Some("1e10".into()), ..Wanted::new("p", "rsync:/nowhere/run.sh", input) };
    let ours = manager.open(wanted).unwrap().0;
    assert_eq!(ours, theirs + 1);
    let fields = |place: &mut Place, id: u64| -> std::collections::BTreeMap<String, Vec<u8>> {
        place.original.redis.hgetall(format!("MyProgram:task:{id}")).unwrap()
    };
    let (theirs, ours_fields) = (fields(&mut place, theirs), fields(&mut place, ours));
    assert_eq!(ours_fields.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (field, value) in [
        ("timeout", &b"60"[..]),
        ("max_fails", b"2"),
        ("end_before", b"1e10"),
        ("input", input),
        ("namespace", b"MyProgram"),
        ("log", b""),
    ] {
        assert_eq!(ours_fields[field], value, "{field}");
    }
    assert_eq!(place.sets(ours), ["open"]);
    let score: f64 = place.original.redis.zscore("MyProgram:open", ours).unwrap();
    assert_eq!(score, 0.0);
}

#[test]
fn a_random_offset_is_in_the_field_and_in_the_score() {
    let mut place = Place::new();
    let id = place.manager("start_after=100\nadd_random_start_offset=True").open(Wanted::new("p", "s", "")).unwrap().0;
    let start: f64 = place.get(id, "start_after").unwrap().parse().unwrap();
    let score: f64 = place.original.redis.zscore("MyProgram:open", id).unwrap();
    assert!((100.0..=101.0).contains(&start) && start == score, "{start} {score}");
}

#[test]
fn a_value_that_an_original_dies_of_is_refused_before_anything_is_written() {
    let mut place = Place::new();
    let mut manager = place.manager("");
    for value in ["nan", "1e400", "soon", ""] {
        let good = Wanted::new("p", "s", "");
        let bad = Wanted { start_after: Some(value.into()), ..good.clone() };
        let refusal = manager.open_all(&[good, bad]).unwrap_err().to_string();
        assert!(refusal.contains("start_after is"), "{refusal}");
    }
    let keys: Vec<String> = place.original.redis.keys("*").unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn a_counter_that_was_reset_writes_over_no_task() {
    let mut place = Place::new();
    let first = place.original.open(&Order::default());
    let () = place.original.redis.set("MyProgram:task_id", 0).unwrap();
    assert_eq!(place.manager("").open(Wanted::new("other", "s", "")).unwrap().0, first + 1);
    assert_eq!(place.get(first, "program").unwrap(), "p");
}
