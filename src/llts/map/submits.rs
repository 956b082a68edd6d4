//! The tasks that the service has not accepted yet, from their lines to the answers to their submits.

use std::collections::{BTreeMap, VecDeque};

use super::effect::{Effect, Item};
use super::{FRAME_TASKS_MAX, FRAMES_MAX};

/// Bytes of the commands of one submit. Escaped twice, as JSON in JSON, a byte takes at most seven.
const FRAME_BYTES_MAX: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Submits {
    items: VecDeque<Item>,
    /// The tasks of unanswered submits.
    frames: BTreeMap<u64, Vec<Item>>,
    last_frame: u64,
    frame_tasks_max: usize,
}

impl Submits {
    pub(super) fn new() -> Self {
        let (items, frames) = (VecDeque::new(), BTreeMap::new());
        Self { items, frames, last_frame: 0, frame_tasks_max: FRAME_TASKS_MAX }
    }

    /// The number of tasks.
    pub(super) fn len(&self) -> usize {
        self.items.len() + self.frames.values().map(Vec::len).sum::<usize>()
    }

    /// The first line among these tasks.
    pub(super) fn first(&self) -> Option<u64> {
        let frames = self.frames.values().flatten().map(|item| item.number).min();
        self.items.front().map(|item| item.number).into_iter().chain(frames).min()
    }

    /// The number of the last submit.
    pub(super) const fn last_frame(&self) -> u64 {
        self.last_frame
    }

    /// The number of tasks without a submit.
    pub(super) fn waiting(&self) -> usize {
        self.items.len()
    }

    /// The number of submits without an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn add(&mut self, item: Item) {
        self.items.push_back(item);
    }

    /// Drops the tasks without a submit, and returns their number.
    pub(super) fn drop_waiting(&mut self) -> usize {
        self.items.drain(..).len()
    }

    /// The next submit, if there may be another one.
    pub(super) fn poll(&mut self) -> Option<Effect> {
        if self.frames.len() >= FRAMES_MAX || self.items.is_empty() {
            return None;
        }
        let (mut count, mut bytes) = (0, 0);
        for item in self.items.iter().take(self.frame_tasks_max) {
            bytes += item.bytes();
            count += 1;
            if bytes >= FRAME_BYTES_MAX {
                break;
            }
        }
        let items: Vec<Item> = self.items.drain(..count).collect();
        let tasks = items.iter().map(|item| item.submission.clone()).collect();
        self.last_frame += 1;
        self.frames.insert(self.last_frame, items);
        Some(Effect::Submit { frame: self.last_frame, tasks })
    }

    /// A submit was accepted; returns its tasks.
    pub(super) fn accepted(&mut self, frame: u64) -> Option<Vec<Item>> {
        let items = self.frames.remove(&frame)?;
        self.frame_tasks_max = (self.frame_tasks_max * 2).min(FRAME_TASKS_MAX);
        Some(items)
    }

    /// A submit was refused for lack of room: its tasks wait for another one. Returns `false` if it was answered
    /// before.
    pub(super) fn put_back(&mut self, frame: u64) -> bool {
        let Some(items) = self.frames.remove(&frame) else { return false };
        // A request is accepted as a whole or not at all, so a smaller one may find room.
        self.frame_tasks_max = (self.frame_tasks_max / 2).max(1);
        for item in items.into_iter().rev() {
            let at = self.items.partition_point(|other| other.number < item.number);
            self.items.insert(at, item);
        }
        true
    }

    /// A submit was refused for good; returns the number of its tasks.
    pub(super) fn refused(&mut self, frame: u64) -> Option<usize> {
        self.frames.remove(&frame).map(|items| items.len())
    }
}
