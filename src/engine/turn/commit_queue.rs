//! The records to commit, and the messages that must not leave before the commit.
//!
//! The store takes one commit at a time. Turns continue meanwhile, so that no dispatch waits for a disk, and share the next
//! commit.
//!
//! | the store is | records and deferred messages of a turn |
//! |---|---|
//! | idle | form the next commit, which begins when the first of its messages is due |
//! | busy | wait for it, and form the commit after that |
//! | in trouble, such as a full disk | wait until a commit has taken all of them; one is tried every second, also without records |
//!
//! A deferred message leaves after the commit of its turn and of all earlier turns, in the order in which it was made. A message
//! from a turn without records waits for earlier turns as well, because its content may depend on them. Records that no message
//! depends on are committed up to 10 ms later, or up to 32 ms while tasks queue; no client has observed them yet. After a restart,
//! an agent repeats that a run is being prepared or has begun. So such a record is due only a second later, and usually joins
//! another commit.

use std::collections::BTreeMap;
use std::time::Duration;

use super::batch_delay;
use super::effect::{BATCH_DELAY_MAX, Record};
use base::{AgentId, GraphId, JobName, Label, Mono, Phase, Round, TaskId};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How long the facts may be delayed that an agent repeats after a restart: a run shorter than this costs no commit for them.
const PROGRESS_DELAY_MAX: Duration = Duration::from_secs(1);

/// The deferred messages of a turn in order, and the deadline of the first one.
#[derive(Debug)]
pub(crate) struct Batch<M> {
    list: Vec<M>,
    due: Option<Mono>,
}

impl<M> Batch<M> {
    /// Adds a message, which leaves as soon as possible after `due`.
    pub(crate) fn add(&mut self, due: Mono, message: M) {
        self.list.push(message);
        self.due = earlier(self.due, Some(due));
    }

    /// The messages in order.
    pub(crate) fn into_messages(self) -> Vec<M> {
        self.list
    }
}

impl<M> Default for Batch<M> {
    fn default() -> Self {
        Self { list: Vec::new(), due: None }
    }
}

fn earlier(a: Option<Mono>, b: Option<Mono>) -> Option<Mono> {
    a.into_iter().chain(b).min()
}

/// The records and deferred messages of the turns of a controller; see the [module](self).
///
/// After each turn: [`Self::handle_turn`], then [`Self::poll_commit`]. The result of a commit comes back through
/// [`Self::handle_stored`] or [`Self::handle_trouble`], after which another commit may be polled.
#[derive(Debug)]
pub(crate) struct CommitQueue<M> {
    store: Store<M>,
    /// Records of the turns since the last commit began. Only the latest record of a task, a gate or an agent matters.
    records: BTreeMap<Subject, Record>,
    /// Empty when there are no records, unless the store is in trouble.
    deferred: Vec<M>,
    /// When the next commit is to begin.
    due: Option<Mono>,
    is_closing: bool,
    /// Whether a commit is made also without records.
    is_probing: bool,
}

#[derive(Debug)]
enum Store<M> {
    Idle,
    Busy { deferred: Vec<M>, newest: Option<TaskId>, in_trouble: bool },
    Troubled { retry_at: Mono },
}

/// The result of a commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Committed<M> {
    /// The messages that may leave.
    pub(crate) released: Vec<M>,
    /// The newest task with a record in this commit.
    pub(crate) newest: Option<TaskId>,
    /// Whether this commit ended a period of trouble.
    pub(crate) recovered: bool,
}

impl<M> Default for CommitQueue<M> {
    fn default() -> Self {
        Self {
            store: Store::Idle,
            records: BTreeMap::new(),
            deferred: Vec::new(),
            due: None,
            is_closing: false,
            is_probing: false,
        }
    }
}

impl<M> CommitQueue<M> {
    /// Takes the records and messages of a turn. Returns the messages that may leave at once.
    #[must_use]
    pub(crate) fn handle_turn(&mut self, now: Mono, records: Vec<Record>, batch: Batch<M>) -> Vec<M> {
        let Batch { list, due } = batch;
        let records_due = records.iter().map(delay_max).min().map(|delay| now + delay);
        self.records.extend(records.into_iter().map(|record| (Subject::of(&record), record)));
        let waiting = match &mut self.store {
            Store::Idle if self.records.is_empty() => return list,
            Store::Busy { deferred, .. } if self.records.is_empty() => deferred,
            Store::Idle | Store::Busy { .. } | Store::Troubled { .. } => &mut self.deferred,
        };
        waiting.extend(list);
        if !self.records.is_empty() {
            self.due = earlier(self.due, earlier(due, records_due));
        }
        Vec::new()
    }

    /// The next commit, if the store is free and something is due.
    #[must_use]
    pub(crate) fn poll_commit(&mut self, now: Mono) -> Option<Vec<Record>> {
        let in_trouble = match self.store {
            Store::Busy { .. } => return None,
            Store::Idle if !self.is_closing && !self.is_probing && self.due.is_some_and(|due| now < due) => {
                return None;
            }
            Store::Idle => false,
            Store::Troubled { retry_at } if retry_at <= now => true,
            Store::Troubled { .. } => return None,
        };
        if self.records.is_empty() && !in_trouble && !self.is_probing {
            return None;
        }
        (self.due, self.is_probing) = (None, false);
        let newest = self.records.keys().rev().find_map(Subject::task);
        self.store = Store::Busy { deferred: std::mem::take(&mut self.deferred), newest, in_trouble };
        Some(std::mem::take(&mut self.records).into_values().collect())
    }

    /// Lets a commit begin at once, also without records, unless one is under way or is tried again by itself.
    pub(crate) const fn probe(&mut self) {
        self.is_probing = self.is_idle();
    }

    /// Whether a commit can begin.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.store, Store::Idle)
    }

    /// When to poll for a commit if no turn ends before.
    #[must_use]
    pub(crate) const fn poll_timeout(&self) -> Option<Mono> {
        match self.store {
            Store::Troubled { retry_at } => Some(retry_at),
            Store::Idle => self.due,
            Store::Busy { .. } => None,
        }
    }

    /// From here on, no record is delayed to share a commit.
    pub(crate) const fn close(&mut self) {
        self.is_closing = true;
    }

    /// The commit is on the disk. A store in trouble does not recover on a disk that has no room for more: small commits would succeed
    /// and larger ones fail, in turn.
    #[must_use]
    pub(crate) fn handle_stored(&mut self, now: Mono, has_room: bool) -> Committed<M> {
        let (released, newest, in_trouble) = self.end_commit();
        if in_trouble && !has_room {
            self.store = Store::Troubled { retry_at: now + RETRY_INTERVAL };
        }
        Committed { released, newest, recovered: in_trouble && has_room }
    }

    /// The commit has failed. Its records come back and join the next commit. If the trouble begins with this commit, the deferred
    /// messages are returned as well, because some can be withdrawn. The caller gives the others to [`Self::hold`] in order.
    #[must_use]
    pub(crate) fn handle_trouble(&mut self, now: Mono, records: Vec<Record>) -> Option<Vec<M>> {
        let (mut deferred, _, in_trouble) = self.end_commit();
        self.store = Store::Troubled { retry_at: now + RETRY_INTERVAL };
        for record in records {
            // A record made since is newer.
            self.records.entry(Subject::of(&record)).or_insert(record);
        }
        deferred.append(&mut self.deferred);
        if in_trouble {
            self.deferred = deferred;
            return None;
        }
        Some(deferred)
    }

    fn end_commit(&mut self) -> (Vec<M>, Option<TaskId>, bool) {
        match std::mem::replace(&mut self.store, Store::Idle) {
            Store::Busy { deferred, newest, in_trouble } => (deferred, newest, in_trouble),
            Store::Idle | Store::Troubled { .. } => unreachable!("a commit has ended that was never begun"),
        }
    }

    /// Keeps a message until the store recovers.
    pub(crate) fn hold(&mut self, message: M) {
        self.deferred.push(message);
    }

    /// Whether the last commit failed.
    #[must_use]
    pub(crate) const fn is_in_trouble(&self) -> bool {
        matches!(self.store, Store::Troubled { .. } | Store::Busy { in_trouble: true, .. })
    }

    /// Whether no commit is under way, and none is due before the store recovers.
    #[must_use]
    pub(crate) fn is_at_rest(&self) -> bool {
        match self.store {
            Store::Busy { .. } => false,
            Store::Idle => self.records.is_empty(),
            Store::Troubled { .. } => true,
        }
    }

    /// Checks that no message is deferred without a commit that releases it.
    ///
    /// # Panics
    /// When a message is.
    pub(crate) fn sanity_check(&self) {
        if let Store::Idle | Store::Busy { .. } = self.store {
            assert!(self.deferred.is_empty() || !self.records.is_empty(), "messages wait for no commit");
        }
        if let Store::Idle = self.store {
            assert!(self.records.is_empty() || self.due.is_some(), "records are never due");
        }
    }
}

/// How long a record that no message depends on may be delayed to share a commit.
fn delay_max(record: &Record) -> Duration {
    match record {
        Record::Put(record) => match record.phase() {
            Phase::Preparing | Phase::Running if record.kill.is_none() => PROGRESS_DELAY_MAX,
            Phase::Waiting | Phase::Dispatched | Phase::Preparing | Phase::Running | Phase::Ended | Phase::Finished => {
                BATCH_DELAY_MAX.max(batch_delay::of_many(record))
            }
        },
        // It is no more urgent than the end of the round, which is a record of the same turn.
        Record::Round(_, record) => BATCH_DELAY_MAX.max(batch_delay::of_many(record)),
        Record::Remove(_)
        | Record::Gate(..)
        | Record::Drained(..)
        | Record::Job(..)
        | Record::Graph(..)
        | Record::GraphEntry(..) => BATCH_DELAY_MAX,
    }
}

/// The subject of a record.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// Each is kept: the next round of a task does not replace it. They come first, so that the newest task is found at the end.
    Round(TaskId, Round),
    Task(TaskId),
    Gate(Label),
    Agent(AgentId),
    Job(JobName),
    /// Before the graph, so that none is left of a graph that is forgotten.
    GraphEntry(GraphId, u32),
    Graph(GraphId),
}

impl Subject {
    fn of(record: &Record) -> Self {
        match record {
            Record::Round(round, record) => Self::Round(record.id, *round),
            Record::Put(record) => Self::Task(record.id),
            Record::Remove(task) => Self::Task(*task),
            Record::Gate(name, _) => Self::Gate(name.clone()),
            Record::Drained(agent, _) => Self::Agent(agent.clone()),
            Record::Job(name, _) => Self::Job(name.clone()),
            Record::Graph(graph, _) => Self::Graph(*graph),
            Record::GraphEntry(graph, number, _) => Self::GraphEntry(*graph, *number),
        }
    }

    const fn task(&self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(*task),
            Self::Round(..) | Self::Gate(_) | Self::Agent(_) | Self::Job(_) | Self::GraphEntry(..) | Self::Graph(_) => {
                None
            }
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

    /// All of them are due at once.
    fn due(messages: &[&'static str]) -> Batch<&'static str> {
        due_at(0, messages)
    }

    fn due_at(millis: u64, list: &[&'static str]) -> Batch<&'static str> {
        let mut batch = Batch::default();
        list.iter().copied().for_each(|message| batch.add(at(millis), message));
        batch
    }

    fn turn(queue: &mut CommitQueue<&'static str>, agent: &str, message: &'static str) {
        assert_eq!(queue.handle_turn(at(0), vec![drained(agent, true)], due(&[message])), [""; 0]);
    }

    #[test]
    fn a_message_leaves_after_the_commit_of_its_turn() {
        let mut queue = CommitQueue::default();
        assert_eq!(queue.poll_commit(at(0)), None);
        turn(&mut queue, "a", "first");
        assert_eq!(queue.poll_commit(at(0)), Some(vec![drained("a", true)]));
        assert!(!queue.is_at_rest());
        assert_eq!(
            queue.handle_stored(at(0), true),
            Committed { released: vec!["first"], newest: None, recovered: false }
        );
        assert!(queue.is_at_rest());
    }

    #[test]
    fn turns_go_on_while_the_store_is_busy_and_share_the_next_commit() {
        let mut queue = CommitQueue::default();
        turn(&mut queue, "a", "first");
        let _ = queue.poll_commit(at(0));
        turn(&mut queue, "b", "second");
        turn(&mut queue, "c", "third");
        assert_eq!(queue.handle_turn(at(0), vec![drained("b", false)], due(&[])), [""; 0]);
        assert_eq!(queue.poll_commit(at(0)), None, "one at a time");
        assert_eq!(queue.handle_stored(at(0), true).released, ["first"]);
        // The latest record of each.
        assert_eq!(queue.poll_commit(at(0)), Some(vec![drained("b", false), drained("c", true)]));
        assert_eq!(queue.handle_stored(at(0), true).released, ["second", "third"]);
    }

    #[test]
    fn a_message_without_records_waits_only_for_those_before_it() {
        let mut queue = CommitQueue::default();
        assert_eq!(queue.handle_turn(at(0), vec![], due(&["at once"])), ["at once"]);
        turn(&mut queue, "a", "first");
        let _ = queue.poll_commit(at(0));
        assert_eq!(queue.handle_turn(at(0), vec![], due(&["second"])), [""; 0]);
        assert_eq!(queue.handle_stored(at(0), true).released, ["first", "second"]);
        turn(&mut queue, "a", "third");
        assert_eq!(queue.handle_turn(at(0), vec![], due(&["fourth"])), [""; 0]);
        let _ = queue.poll_commit(at(0));
        assert_eq!(queue.handle_stored(at(0), true).released, ["third", "fourth"]);
    }

    #[test]
    fn trouble_keeps_everything_until_a_later_commit_takes_it() {
        let mut queue = CommitQueue::default();
        turn(&mut queue, "a", "first");
        let records = queue.poll_commit(at(0)).unwrap();
        turn(&mut queue, "b", "second");
        assert_eq!(queue.handle_turn(at(0), vec![drained("a", false)], due(&[])), [""; 0]);
        // The first message is withdrawn.
        assert_eq!(queue.handle_trouble(at(0), records), Some(vec!["first", "second"]));
        queue.hold("second");
        assert!(queue.is_at_rest() && queue.is_in_trouble());

        turn(&mut queue, "c", "third");
        assert_eq!((queue.poll_commit(at(999)), queue.poll_timeout()), (None, Some(at(1000))));
        let records = queue.poll_commit(at(1000)).unwrap();
        assert_eq!(records, [drained("a", false), drained("b", true), drained("c", true)]);
        turn(&mut queue, "d", "fourth");
        assert_eq!(queue.handle_trouble(at(1000), records), None, "no news");

        let _ = queue.poll_commit(at(2000)).unwrap();
        assert_eq!(queue.handle_turn(at(0), vec![], due(&["fifth"])), [""; 0]);
        let kept = Committed { released: vec!["second", "third", "fourth", "fifth"], newest: None, recovered: true };
        assert_eq!(queue.handle_stored(at(0), true), kept);
        assert_eq!(queue.poll_timeout(), None);
    }

    #[test]
    fn a_disk_without_room_is_trouble_until_it_has_some() {
        let mut queue = CommitQueue::default();
        turn(&mut queue, "a", "first");
        let records = queue.poll_commit(at(0)).unwrap();
        let _ = queue.handle_trouble(at(0), records);
        let _ = queue.poll_commit(at(1000)).unwrap();
        // A small commit fits where a larger one does not.
        assert!(!queue.handle_stored(at(1000), false).recovered && queue.is_in_trouble());
        assert_eq!(queue.handle_turn(at(1500), vec![], due(&["second"])), [""; 0]);
        assert_eq!(queue.poll_commit(at(1999)), None);
        assert_eq!(queue.poll_commit(at(2000)), Some(vec![]), "a look, without records");
        let recovered = Committed { released: vec!["second"], newest: None, recovered: true };
        assert_eq!(queue.handle_stored(at(2000), true), recovered);
        assert_eq!(queue.poll_commit(at(3000)), None);
    }

    #[test]
    fn a_commit_begins_when_the_first_of_its_messages_is_due() {
        let mut queue = CommitQueue::default();
        assert_eq!(queue.handle_turn(at(0), vec![drained("a", true)], due_at(4, &["patient"])), [""; 0]);
        assert_eq!((queue.poll_commit(at(3)), queue.poll_timeout()), (None, Some(at(4))));
        assert_eq!(queue.handle_turn(at(3), vec![drained("b", true)], due_at(3, &["hurried"])), [""; 0]);
        assert_eq!(queue.poll_commit(at(3)), Some(vec![drained("a", true), drained("b", true)]));
        assert_eq!(queue.handle_turn(at(3), vec![drained("c", true)], due_at(5, &["next"])), [""; 0]);
        assert_eq!(queue.handle_stored(at(0), true).released, ["patient", "hurried"]);
        assert_eq!((queue.poll_commit(at(4)), queue.poll_timeout()), (None, Some(at(5))));
        assert!(queue.poll_commit(at(5)).is_some());
    }

    #[test]
    fn a_record_without_a_message_is_delayed_for_a_short_time_only() {
        let mut queue = CommitQueue::default();
        assert_eq!(queue.handle_turn(at(0), vec![drained("a", true)], due(&[])), [""; 0]);
        assert_eq!((queue.poll_commit(at(9)), queue.poll_timeout()), (None, Some(at(10))));
        assert!(queue.poll_commit(at(10)).is_some());
        let _ = queue.handle_stored(at(0), true);
        assert_eq!((queue.poll_commit(at(99)), queue.poll_timeout()), (None, None));

        assert_eq!(queue.handle_turn(at(99), vec![drained("b", true)], due(&[])), [""; 0]);
        assert_eq!(queue.handle_turn(at(100), vec![], due_at(100, &["a view"])), [""; 0]);
        assert!(queue.poll_commit(at(100)).is_some(), "it shows what is not stored");
        let _ = queue.handle_stored(at(0), true);

        assert_eq!(queue.handle_turn(at(100), vec![drained("c", true)], due(&[])), [""; 0]);
        queue.close();
        assert!(queue.poll_commit(at(100)).is_some(), "nothing else will come");
    }
}
