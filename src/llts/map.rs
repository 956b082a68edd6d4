//! One map: turns the lines of an input into tasks, from their submits to the printing of their outputs.
//!
//! The caller hands over lines ([`Map::handle_item`]) while [`Map::wants_items`], and everything that it learns from the
//! service; it carries out the effects of [`Map::poll_effect`], in order, until [`Map::is_done`].
//!
//! ```text
//! items --Submit--> frames --accepted--> ahead --------> window --Print-->
//! ```
//!
//! | place | holds | bound |
//! |---|---|---|
//! | items | tasks that were not submitted yet | a few frames |
//! | frames | tasks in unanswered requests | [`FRAMES_MAX`] |
//! | ahead | accepted tasks, a few words for each | [`AHEAD_MAX`], [`AHEAD_BYTES_MAX`] |
//! | window | tasks whose ends are next, and unprinted results | [`WINDOW_MAX`] of both |
//!
//! The memory of a map depends on these bounds only. The results behind the window stay with the service until their turn comes.
//!
//! The map follows the ends of its job, many of which arrive in one answer ([`Map::handle_end`]). If the end of a task may have been
//! reported before the map knew its id, the map queries the task by its id. If the service has lost track of the ends that it reported,
//! the map queries all tasks in this way ([`Map::handle_lost_track`]).

mod effect;
mod ending;
mod following;
pub mod input;
pub mod key;
mod submits;
pub mod tally;
pub mod template;
mod window;
pub mod work;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use api::wire::client::TaskView;
use base::{Mono, Outcome, TaskId, words};

pub use effect::{Effect, Item, Plan, Printed, Refused};
use ending::Ending;
use following::Following;
use submits::Submits;
use tally::{End, Tally};
use window::{Way, Window};

/// Tasks of one submit: the controller reads them in a turn of a few milliseconds, during which no agent gets a task.
pub const FRAME_TASKS_MAX: usize = 500;

/// Unanswered submits: one is on its way while the other is committed.
pub const FRAMES_MAX: usize = 2;

/// Accepted tasks that have not finished: a tenth of the default of `WAITING_TASKS_MAX`, so that one map does not fill the queue of
/// the service.
pub const AHEAD_MAX: usize = 100_000;

/// Bytes of the values of accepted tasks.
pub const AHEAD_BYTES_MAX: usize = 64 << 20;

/// Half of `SEND_QUEUE_MAX`, the default number of messages that the controller queues for one connection: each task may have a
/// parked query.
pub const WINDOW_MAX: usize = 500;

/// The pause before a request that was refused for want of room is repeated, unless a task ends before.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// An accepted task that is not in the window yet.
#[derive(Clone, Debug)]
struct Accepted {
    number: u64,
    id: TaskId,
    values: String,
    way: Way,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Map {
    plan: Plan,
    submits: Submits,
    ahead: VecDeque<Accepted>,
    /// Bytes of all values in `ahead` and in `values`.
    value_bytes: usize,
    window: Window<TaskView>,
    /// The lines of the tasks in `ahead`, and of the tasks in the window that have not ended.
    lines: BTreeMap<TaskId, u64>,
    following: Following,
    /// The values of the tasks in the window.
    values: BTreeMap<u64, String>,
    /// Of lines whose task had rounds before this run of the map: the first one of this run.
    first_rounds: BTreeMap<u64, u64>,
    /// The end of the pause after a request that was refused for want of room.
    rests_until: Option<Mono>,
    input_has_ended: bool,
    ending: Ending,
    /// How often the user has interrupted it.
    interrupts: u32,
    tally: Tally,
    effects: VecDeque<Effect>,
}

impl Map {
    /// A map without lines.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            submits: Submits::new(),
            ahead: VecDeque::new(),
            value_bytes: 0,
            window: Window::new(plan.keeps_order),
            lines: BTreeMap::new(),
            following: Following::default(),
            values: BTreeMap::new(),
            first_rounds: BTreeMap::new(),
            rests_until: None,
            input_has_ended: false,
            ending: Ending::None,
            interrupts: 0,
            tally: Tally::default(),
            effects: VecDeque::new(),
        }
    }

    /// The ends known up to now.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The number of tasks that have been made and not finished.
    #[must_use]
    pub fn open(&self) -> usize {
        self.submits.len() + self.ahead.len() + self.window.len()
    }

    /// Whether the input may still bring lines.
    #[must_use]
    pub fn has_input(&self) -> bool {
        !self.input_has_ended && self.ending.takes_items()
    }

    /// Whether the input was read to its end.
    #[must_use]
    pub const fn input_has_ended(&self) -> bool {
        self.input_has_ended
    }

    /// Whether another line is welcome.
    #[must_use]
    pub fn wants_items(&self) -> bool {
        let has_room = self.ending == Ending::Detached || self.open() < AHEAD_MAX && self.value_bytes < AHEAD_BYTES_MAX;
        self.has_input() && self.submits.waiting() < FRAME_TASKS_MAX && has_room
    }

    /// A line of the input.
    pub fn handle_item(&mut self, item: Item) {
        if self.ending.takes_items() {
            self.submits.add(item);
        } else {
            self.tally.left += 1;
        }
    }

    /// A line of the input that cannot become a task.
    pub fn handle_bad_line(&mut self) {
        self.tally.fail(End::NoTask);
    }

    /// The input has no further line.
    pub const fn handle_input_end(&mut self) {
        self.input_has_ended = true;
    }

    /// A submit was accepted. `duplicates` are the indexes of tasks that had been accepted before: by an earlier run of the
    /// map, or by the same request, whose answer was lost.
    pub fn handle_accepted(&mut self, frame: u64, ids: &[TaskId], duplicates: &[usize]) {
        let Some(items) = self.submits.accepted(frame) else { return };
        if self.ending == Ending::Detached {
            return;
        }
        let mut duplicates = duplicates.iter().peekable();
        for (index, (item, id)) in items.into_iter().zip(ids).enumerate() {
            let is_duplicate = duplicates.next_if(|next| **next == index).is_some();
            let way = self.following.way_of(frame, *id, is_duplicate, self.plan.newest_before);
            self.lines.insert(*id, item.number);
            self.value_bytes += item.values.len();
            let accepted = Accepted { number: item.number, id: *id, values: item.values, way };
            // Lines are out of order only after an earlier request was refused for lack of room.
            let at = self.ahead.partition_point(|other| other.number < accepted.number);
            self.ahead.insert(at, accepted);
        }
    }

    /// A submit was refused.
    pub fn handle_refused(&mut self, now: Mono, frame: u64, why: Refused) {
        match why {
            Refused::NoRoom => {
                if self.submits.put_back(frame) {
                    self.rests_until = Some(now + ROOM_PAUSE);
                    // Nothing would hold or kill a task that is made after the end of the map has begun.
                    if !self.ending.takes_items() {
                        self.stop_submitting();
                    }
                }
            }
            Refused::ForGood => {
                if let Some(tasks) = self.submits.refused(frame) {
                    self.tally.left += tasks as u64;
                    self.stop_submitting();
                    self.ending = self.ending.stopped();
                }
            }
        }
    }

    /// The answer to a query, or that of a retry.
    pub fn handle_task(&mut self, number: u64, task: TaskView) {
        let Some((id, way)) = self.window.awaited(number) else { return };
        if !task.is_finished() {
            // Whatever happened before this run of the map, the task ends in this run.
            if way == Way::Looked {
                self.first_rounds.insert(number, task.round());
            }
            self.window.watch(number, id, Way::Asked);
            return self.effects.push_back(Effect::Watch { number, id });
        }
        if way != Way::Looked {
            return self.finish(number, id, task);
        }
        self.handle_an_end();
        let has_succeeded = task.outcome().and_then(words::outcome_of) == Some(Outcome::Succeeded);
        if has_succeeded || !self.ending.takes_items() {
            let count = if has_succeeded { &mut self.tally.before } else { &mut self.tally.left };
            *count += 1;
            return self.leave(number, id);
        }
        self.first_rounds.insert(number, task.round() + 1);
        self.window.watch(number, id, Way::Asked);
        self.effects.push_back(Effect::Retry { number, id });
        if task.held_at().is_some() {
            self.effects.push_back(Effect::Release { id });
        }
    }

    /// A retry was answered.
    pub fn handle_retried(&mut self, number: u64) {
        if let Some((id, _)) = self.window.awaited(number) {
            self.effects.push_back(Effect::Watch { number, id });
        }
    }

    /// The service does not know the task.
    pub fn handle_forgotten(&mut self, number: u64) {
        if let Some((id, _)) = self.window.awaited(number) {
            self.tally.fail(End::Forgotten);
            self.leave(number, id);
        }
    }

    /// A query was refused for want of room.
    pub fn handle_unwatched(&mut self, now: Mono, number: u64) {
        if self.window.refuse(number) {
            self.rests_until = Some(now + ROOM_PAUSE);
        }
    }

    /// A task has ended in this run of the map.
    fn finish(&mut self, number: u64, id: TaskId, task: TaskView) {
        self.handle_an_end();
        self.lines.remove(&id);
        let before = self.first_rounds.remove(&number).unwrap_or_default();
        let values = self.values.get(&number).map_or("", String::as_str);
        self.tally.count((number, values), &task, before, self.ending.is_killing());
        self.window.done(number, task);
    }

    fn handle_an_end(&mut self) {
        self.rests_until = None;
        self.ending.look_again();
    }

    /// Nothing of the task is printed.
    fn leave(&mut self, number: u64, id: TaskId) {
        self.lines.remove(&id);
        self.window.skip(number);
        self.first_rounds.remove(&number);
        self.forget_values(number);
    }

    fn forget_values(&mut self, number: u64) -> String {
        let values = self.values.remove(&number).unwrap_or_default();
        self.value_bytes -= values.len();
        values
    }

    /// The next deadline: [`Self::poll_effect`] may have an effect then.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.rests_until.into_iter().chain(self.ending.poll_timeout()).min()
    }

    /// The next effect.
    pub fn poll_effect(&mut self, now: Mono) -> Option<Effect> {
        if self.rests_until.is_some_and(|until| until <= now) {
            self.rests_until = None;
        }
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        if let Some((number, task)) = self.window.pop(self.lowest_outside()) {
            let values = self.forget_values(number);
            return Some(Effect::Print(Box::new(Printed { number, task, values })));
        }
        self.submit().or_else(|| self.watch()).or_else(|| self.end(now))
    }

    /// The first line that has no place in the window yet.
    fn lowest_outside(&self) -> Option<u64> {
        let ahead = self.ahead.front().map(|ahead| ahead.number);
        ahead.into_iter().chain(self.submits.first()).min()
    }

    fn submit(&mut self) -> Option<Effect> {
        if self.rests_until.is_some() { None } else { self.submits.poll() }
    }

    fn watch(&mut self) -> Option<Effect> {
        if self.rests_until.is_none()
            && let Some(number) = self.window.pop_unasked()
            && let Some((id, way)) = self.window.awaited(number)
        {
            return watch_of(number, id, way);
        }
        loop {
            let next = self.ahead.front()?.number;
            // A line before those in the window must not wait for their prints, which wait for it.
            let is_late = self.window.first().is_some_and(|first| next < first);
            if self.window.is_full() && !is_late {
                return None;
            }
            let accepted = self.ahead.pop_front()?;
            let (number, id, way) = (accepted.number, accepted.id, accepted.way);
            self.enter_window(accepted);
            if let Some(effect) = watch_of(number, id, way) {
                return Some(effect);
            }
        }
    }

    fn enter_window(&mut self, Accepted { number, id, values, way }: Accepted) {
        self.window.watch(number, id, way);
        self.values.insert(number, values);
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let is_over = self.input_has_ended || !self.ending.takes_items();
        is_over && self.open() == 0 && self.effects.is_empty() && self.ending.is_done()
    }
}

/// A parked query would not tell whether the task of an earlier run finished before this one, so such a task gets a
/// look.
const fn watch_of(number: u64, id: TaskId, way: Way) -> Option<Effect> {
    match way {
        Way::Followed => None,
        Way::Asked => Some(Effect::Watch { number, id }),
        Way::Looked => Some(Effect::Look { number, id }),
    }
}

#[cfg(test)]
mod tests;
