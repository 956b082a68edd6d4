//! Follows the ends of the job, so that each accepted task gets its end, in whatever order ends and answers arrive.
//!
//! | a task was accepted | how its end arrives |
//! |---|---|
//! | by a request that was sent while the map followed the job | with the ends of the job |
//! | before the map followed the job, or its end was told before its id was known | by a query |
//! | in an earlier run of the map | by a look, or with the ends of the job if it ends in this run |

use std::collections::BTreeSet;

use super::{Map, WINDOW_MAX, Way};
use crate::map::Effect;
use crate::map::tally::End;
use api::wire::requests::job::results::TaskEnd;
use base::TaskId;

/// Reported ends of tasks without a known line, since other submitters may use the same job. Beyond this number, a task that finished in
/// this run of the map may be counted as finished before it.
const STRANGERS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Following {
    /// The last submit before the map began to follow its job; `None` if it does not. Tasks of later submits cannot
    /// have ended unseen.
    after: Option<u64>,
    /// Tasks of the job whose ends were reported and that belong to no known line.
    strangers: BTreeSet<TaskId>,
}

impl Following {
    fn add_stranger(&mut self, id: TaskId) {
        if self.strangers.len() < STRANGERS_MAX {
            self.strangers.insert(id);
        }
    }

    pub(super) fn forget_strangers(&mut self) {
        self.strangers.clear();
    }

    /// How the end of an accepted task is learnt.
    pub(super) fn way_of(&mut self, frame: u64, id: TaskId, is_duplicate: bool, newest_before: Option<TaskId>) -> Way {
        let was_told = self.strangers.remove(&id);
        let is_followed = self.after.is_some_and(|after| frame > after);
        if is_duplicate && !was_told && newest_before.is_some_and(|newest| id <= newest) {
            Way::Looked
        } else if is_duplicate || was_told || !is_followed {
            Way::Asked
        } else {
            Way::Followed
        }
    }
}

impl Map {
    /// The service reports the ends of the job from now on: those of all requests sent later, and maybe others.
    pub const fn handle_following(&mut self) {
        self.following.after = Some(self.submits.last_frame());
    }

    /// The service no longer knows which ends it has reported.
    pub fn handle_lost_track(&mut self) {
        self.following.after = None;
        self.ahead.iter_mut().filter(|task| task.way == Way::Followed).for_each(|task| task.way = Way::Asked);
        self.window.ask_for_followed();
        self.effects.push_back(Effect::Follow);
    }

    /// A task of the job has ended. Returns its line if its result is lost.
    pub fn handle_end(&mut self, id: TaskId, end: TaskEnd) -> Option<u64> {
        let Some(number) = self.lines.get(&id).copied() else {
            self.following.add_stranger(id);
            return None;
        };
        if self.window.awaited(number).is_none() {
            let at = self.ahead.binary_search_by_key(&number, |task| task.number).ok()?;
            if self.window.results() >= WINDOW_MAX {
                // Its result stays with the service until its turn comes.
                self.ahead[at].way = Way::Asked;
                return None;
            }
            let accepted = self.ahead.remove(at)?;
            self.enter_window(accepted);
        }
        match end {
            TaskEnd::Known(task) => {
                self.finish(number, id, *task);
                None
            }
            TaskEnd::Forgotten => {
                self.tally.fail(End::Forgotten);
                self.leave(number, id);
                Some(number)
            }
        }
    }
}
