//! What is to be stored, and what must not be said before it is.
//!
//! The store takes one commit at a time. Turns go on meanwhile, so that no dispatch waits for a disk, and share the next one.
//!
//! | the store is | records and promises of a turn |
//! |---|---|
//! | idle | are the next commit, which begins when the first of its promises is due |
//! | busy | wait for it, and are the commit after that |
//! | in trouble, such as a full disk | wait until a commit has taken all of it; one is tried every second |
//!
//! A promise leaves after the commit of its turn and of all turns before it, in the order in which it was made. A promise of a
//! turn that has nothing to store waits for those before it as well: what it tells may rest on them. Records that no promise
//! depends on are due a little later: their loss cannot be observed. That a run is prepared or has begun, its agent says again
//! after a restart: such a record is due a second later, and mostly joins the commit of something else.

use std::collections::BTreeMap;
use std::time::Duration;

use super::effect::Record;
use crate::types::{AgentId, Label, Mono, Phase, TaskId};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// For how long what nobody waits for may wait for something that shares its commit.
pub const UNHURRIED: Duration = Duration::from_millis(10);

/// The same for what an agent says again: a run that is shorter costs no commit for it.
const LEISURELY: Duration = Duration::from_secs(1);

/// What a turn promises, in order, and when the first of it is due.
#[derive(Debug)]
pub struct Promises<P> {
    list: Vec<P>,
    due: Option<Mono>,
}

impl<P> Promises<P> {
    /// One more, which is to be kept as soon as possible after this moment.
    pub fn add(&mut self, due: Mono, promise: P) {
        self.list.push(promise);
        self.due = earlier(self.due, Some(due));
    }

    /// Whether nothing is promised.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl<P> Default for Promises<P> {
    fn default() -> Self {
        Self { list: Vec::new(), due: None }
    }
}

fn earlier(a: Option<Mono>, b: Option<Mono>) -> Option<Mono> {
    a.into_iter().chain(b).min()
}

/// Records and promises of the turns of a controller; see the [module](self). What a promise is, is its owner's concern.
///
/// After each turn: [`Self::handle_turn`], then [`Self::poll_commit`]. What the store has made of a commit comes back through
/// [`Self::handle_stored`] or [`Self::handle_trouble`], after which there may be another one to poll.
#[derive(Debug)]
pub struct Ledger<P> {
    store: Store<P>,
    /// Of the turns since the last commit began. Only the latest record of a task, a gate or an agent matters.
    records: BTreeMap<Subject, Record>,
    /// None without records, but while the store is in trouble.
    promises: Vec<P>,
    /// When the next commit shall begin.
    due: Option<Mono>,
    is_closing: bool,
}

#[derive(Debug)]
enum Store<P> {
    Idle,
    Busy { promises: Vec<P>, newest: Option<TaskId>, in_trouble: bool },
    Troubled { retry_at: Mono },
}

/// What a commit has brought.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept<P> {
    /// These may leave.
    pub promises: Vec<P>,
    /// The newest task of which something was stored.
    pub newest: Option<TaskId>,
    /// Whether the store was in trouble until now.
    pub recovered: bool,
}

impl<P> Default for Ledger<P> {
    fn default() -> Self {
        Self { store: Store::Idle, records: BTreeMap::new(), promises: Vec::new(), due: None, is_closing: false }
    }
}

impl<P> Ledger<P> {
    /// Takes what a turn has decided. Gives back the promises that may leave at once.
    #[must_use]
    pub fn handle_turn(&mut self, now: Mono, records: Vec<Record>, promises: Promises<P>) -> Vec<P> {
        let Promises { list: promises, due } = promises;
        let records_due = records.iter().map(patience).min().map(|patience| now + patience);
        self.records.extend(records.into_iter().map(|record| (Subject::of(&record), record)));
        let waiting = match &mut self.store {
            Store::Idle if self.records.is_empty() => return promises,
            Store::Busy { promises, .. } if self.records.is_empty() => promises,
            Store::Idle | Store::Busy { .. } | Store::Troubled { .. } => &mut self.promises,
        };
        waiting.extend(promises);
        if !self.records.is_empty() {
            self.due = earlier(self.due, earlier(due, records_due));
        }
        Vec::new()
    }

    /// What the store is to commit next, if it has nothing to do and there is something.
    #[must_use]
    pub fn poll_commit(&mut self, now: Mono) -> Option<Vec<Record>> {
        let in_trouble = match self.store {
            Store::Busy { .. } => return None,
            Store::Idle if !self.is_closing && self.due.is_some_and(|due| now < due) => return None,
            Store::Idle => false,
            Store::Troubled { retry_at } if retry_at <= now => true,
            Store::Troubled { .. } => return None,
        };
        if self.records.is_empty() {
            return None;
        }
        self.due = None;
        let newest = self.records.keys().rev().find_map(Subject::task);
        self.store = Store::Busy { promises: std::mem::take(&mut self.promises), newest, in_trouble };
        Some(std::mem::take(&mut self.records).into_values().collect())
    }

    /// When to poll for a commit although no turn has ended.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Mono> {
        match self.store {
            Store::Troubled { retry_at } => Some(retry_at),
            Store::Idle => self.due,
            Store::Busy { .. } => None,
        }
    }

    /// From here on, nothing waits for company.
    pub const fn close(&mut self) {
        self.is_closing = true;
    }

    /// The commit rests on the disk.
    #[must_use]
    pub fn handle_stored(&mut self) -> Kept<P> {
        let (promises, newest, recovered) = self.end_commit();
        Kept { promises, newest, recovered }
    }

    /// The commit is not stored; these records of it come back, and are part of the next one. When that is news, the promises
    /// that wait come back as well: some can be taken back. The others are to be given to [`Self::hold`], in their order.
    #[must_use]
    pub fn handle_trouble(&mut self, now: Mono, records: Vec<Record>) -> Option<Vec<P>> {
        let (mut promises, _, in_trouble) = self.end_commit();
        self.store = Store::Troubled { retry_at: now + RETRY_INTERVAL };
        for record in records {
            // What has been decided since is newer.
            self.records.entry(Subject::of(&record)).or_insert(record);
        }
        promises.append(&mut self.promises);
        if in_trouble {
            self.promises = promises;
            return None;
        }
        Some(promises)
    }

    fn end_commit(&mut self) -> (Vec<P>, Option<TaskId>, bool) {
        match std::mem::replace(&mut self.store, Store::Idle) {
            Store::Busy { promises, newest, in_trouble } => (promises, newest, in_trouble),
            Store::Idle | Store::Troubled { .. } => unreachable!("a commit has ended that was never begun"),
        }
    }

    /// Keeps a promise until the store recovers.
    pub fn hold(&mut self, promise: P) {
        self.promises.push(promise);
    }

    /// Whether the last commit was not stored.
    #[must_use]
    pub const fn is_in_trouble(&self) -> bool {
        matches!(self.store, Store::Troubled { .. } | Store::Busy { in_trouble: true, .. })
    }

    /// Whether no commit is under way, and none is due before the store recovers.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        match self.store {
            Store::Busy { .. } => false,
            Store::Idle => self.records.is_empty(),
            Store::Troubled { .. } => true,
        }
    }

    /// Records that no store has taken. They die with the process.
    pub fn uncommitted(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }
}

/// How long a record that no promise depends on may wait for company.
fn patience(record: &Record) -> Duration {
    match record {
        Record::Put(record) => match record.phase() {
            Phase::Preparing | Phase::Running if record.kill.is_none() => LEISURELY,
            Phase::Waiting | Phase::Dispatched | Phase::Preparing | Phase::Running | Phase::Ended | Phase::Finished => {
                UNHURRIED
            }
        },
        Record::Remove(_) | Record::Gate(..) | Record::Drained(..) => UNHURRIED,
    }
}

/// What a record is of.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Task(TaskId),
    Gate(Label),
    Agent(AgentId),
}

impl Subject {
    fn of(record: &Record) -> Self {
        match record {
            Record::Put(record) => Self::Task(record.id),
            Record::Remove(task) => Self::Task(*task),
            Record::Gate(name, _) => Self::Gate(name.clone()),
            Record::Drained(agent, _) => Self::Agent(agent.clone()),
        }
    }

    const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(*task),
            Self::Gate(_) | Self::Agent(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::from_nanos(millis * 1_000_000)
    }

    fn drained(agent: &str, drained: bool) -> Record {
        Record::Drained(AgentId::new(agent).unwrap(), drained)
    }

    /// All that is promised is due at once.
    fn due(promises: &[&'static str]) -> Promises<&'static str> {
        due_at(0, promises)
    }

    fn due_at(millis: u64, list: &[&'static str]) -> Promises<&'static str> {
        let mut promises = Promises::default();
        list.iter().copied().for_each(|promise| promises.add(at(millis), promise));
        promises
    }

    fn turn(ledger: &mut Ledger<&'static str>, agent: &str, promise: &'static str) {
        assert_eq!(ledger.handle_turn(at(0), vec![drained(agent, true)], due(&[promise])), [""; 0]);
    }

    #[test]
    fn a_promise_leaves_after_the_commit_of_its_turn() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.poll_commit(at(0)), None);
        turn(&mut ledger, "a", "first");
        assert_eq!(ledger.poll_commit(at(0)), Some(vec![drained("a", true)]));
        assert!(!ledger.is_at_rest());
        assert_eq!(ledger.handle_stored(), Kept { promises: vec!["first"], newest: None, recovered: false });
        assert!(ledger.is_at_rest());
    }

    #[test]
    fn turns_go_on_while_the_store_is_busy_and_share_the_next_commit() {
        let mut ledger = Ledger::default();
        turn(&mut ledger, "a", "first");
        let _ = ledger.poll_commit(at(0));
        turn(&mut ledger, "b", "second");
        turn(&mut ledger, "c", "third");
        assert_eq!(ledger.handle_turn(at(0), vec![drained("b", false)], due(&[])), [""; 0]);
        assert_eq!(ledger.poll_commit(at(0)), None, "one at a time");
        assert_eq!(ledger.handle_stored().promises, ["first"]);
        // The latest word on each.
        assert_eq!(ledger.poll_commit(at(0)), Some(vec![drained("b", false), drained("c", true)]));
        assert_eq!(ledger.handle_stored().promises, ["second", "third"]);
    }

    #[test]
    fn a_promise_without_records_waits_only_for_those_before_it() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.handle_turn(at(0), vec![], due(&["at once"])), ["at once"]);
        turn(&mut ledger, "a", "first");
        let _ = ledger.poll_commit(at(0));
        assert_eq!(ledger.handle_turn(at(0), vec![], due(&["second"])), [""; 0]);
        assert_eq!(ledger.handle_stored().promises, ["first", "second"]);
        turn(&mut ledger, "a", "third");
        assert_eq!(ledger.handle_turn(at(0), vec![], due(&["fourth"])), [""; 0]);
        let _ = ledger.poll_commit(at(0));
        assert_eq!(ledger.handle_stored().promises, ["third", "fourth"]);
    }

    #[test]
    fn trouble_keeps_everything_until_a_later_commit_takes_it() {
        let mut ledger = Ledger::default();
        turn(&mut ledger, "a", "first");
        let records = ledger.poll_commit(at(0)).unwrap();
        turn(&mut ledger, "b", "second");
        assert_eq!(ledger.handle_turn(at(0), vec![drained("a", false)], due(&[])), [""; 0]);
        // The first is taken back.
        assert_eq!(ledger.handle_trouble(at(0), records), Some(vec!["first", "second"]));
        ledger.hold("second");
        assert!(ledger.is_at_rest() && ledger.is_in_trouble());

        turn(&mut ledger, "c", "third");
        assert_eq!((ledger.poll_commit(at(999)), ledger.poll_timeout()), (None, Some(at(1000))));
        let records = ledger.poll_commit(at(1000)).unwrap();
        assert_eq!(records, [drained("a", false), drained("b", true), drained("c", true)]);
        turn(&mut ledger, "d", "fourth");
        assert_eq!(ledger.handle_trouble(at(1000), records), None, "no news");

        let _ = ledger.poll_commit(at(2000)).unwrap();
        assert_eq!(ledger.handle_turn(at(0), vec![], due(&["fifth"])), [""; 0]);
        let kept = Kept { promises: vec!["second", "third", "fourth", "fifth"], newest: None, recovered: true };
        assert_eq!(ledger.handle_stored(), kept);
        assert_eq!(ledger.poll_timeout(), None);
    }

    #[test]
    fn a_commit_begins_when_the_first_of_its_promises_is_due() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.handle_turn(at(0), vec![drained("a", true)], due_at(4, &["patient"])), [""; 0]);
        assert_eq!((ledger.poll_commit(at(3)), ledger.poll_timeout()), (None, Some(at(4))));
        assert_eq!(ledger.handle_turn(at(3), vec![drained("b", true)], due_at(3, &["hurried"])), [""; 0]);
        assert_eq!(ledger.poll_commit(at(3)), Some(vec![drained("a", true), drained("b", true)]));
        assert_eq!(ledger.handle_turn(at(3), vec![drained("c", true)], due_at(5, &["next"])), [""; 0]);
        assert_eq!(ledger.handle_stored().promises, ["patient", "hurried"]);
        assert_eq!((ledger.poll_commit(at(4)), ledger.poll_timeout()), (None, Some(at(5))));
        assert!(ledger.poll_commit(at(5)).is_some());
    }

    #[test]
    fn what_nobody_was_promised_waits_for_company_but_not_for_long() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.handle_turn(at(0), vec![drained("a", true)], due(&[])), [""; 0]);
        assert_eq!((ledger.poll_commit(at(9)), ledger.poll_timeout()), (None, Some(at(10))));
        assert!(ledger.poll_commit(at(10)).is_some());
        let _ = ledger.handle_stored();
        assert_eq!((ledger.poll_commit(at(99)), ledger.poll_timeout()), (None, None));

        assert_eq!(ledger.handle_turn(at(99), vec![drained("b", true)], due(&[])), [""; 0]);
        assert_eq!(ledger.handle_turn(at(100), vec![], due_at(100, &["a view"])), [""; 0]);
        assert!(ledger.poll_commit(at(100)).is_some(), "it shows what is not stored");
        let _ = ledger.handle_stored();

        assert_eq!(ledger.handle_turn(at(100), vec![drained("c", true)], due(&[])), [""; 0]);
        ledger.close();
        assert!(ledger.poll_commit(at(100)).is_some(), "there will be no company");
    }
}
