//! Queued frames: one queue for each receiver, within the limits of one queue and of all together.

use std::collections::VecDeque;

use base::Mono;

/// Cost of a frame besides its own bytes: its entry and its allocation. It also bounds the number of empty frames.
const FRAME_COST_BYTES: usize = 64;

/// Entries for which an empty queue keeps memory, so that a burst does not occupy its memory forever.
const KEPT_ENTRIES_MAX: usize = 64;

/// The limits of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    pub(super) frames_max: usize,
    /// Bytes, including [`FRAME_COST_BYTES`] for each frame.
    pub(super) bytes_max: usize,
}

/// Frames for one receiver, oldest first, each with the time of its push.
#[derive(Debug, Default)]
pub(super) struct FrameQueue {
    frames: VecDeque<(Mono, Vec<u8>)>,
    bytes: usize,
}

/// The bytes in all queues. Queues are changed only through it.
#[derive(Debug)]
pub(super) struct Backlog {
    queue: QueueLimits,
    bytes_max: usize,
    bytes: usize,
}

impl FrameQueue {
    /// The oldest frame.
    pub(super) fn front(&self) -> Option<&[u8]> {
        self.frames.front().map(|(_, frame)| frame.as_slice())
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Bytes, including the cost of each frame. It is 0 if and only if the queue is empty.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Backlog {
    pub(super) const fn new(queue: QueueLimits, bytes_max: usize) -> Self {
        Self { queue, bytes_max, bytes: 0 }
    }

    /// Appends a frame and drops the oldest ones beyond the limits of the queue. Returns the number of dropped frames.
    /// A frame that is too long even for an empty queue is itself dropped.
    #[must_use]
    pub(super) fn push(&mut self, queue: &mut FrameQueue, now: Mono, frame: Vec<u8>) -> usize {
        let cost = cost(&frame);
        if cost > self.queue.bytes_max || self.queue.frames_max == 0 {
            return 1;
        }
        let mut dropped = 0;
        while queue.frames.len() >= self.queue.frames_max || queue.bytes + cost > self.queue.bytes_max {
            self.pop(queue);
            dropped += 1;
        }
        queue.bytes += cost;
        self.bytes += cost;
        queue.frames.push_back((now, frame));
        dropped
    }

    /// Removes the oldest frame and returns the time of its push.
    pub(super) fn pop(&mut self, queue: &mut FrameQueue) -> Option<Mono> {
        let (pushed_at, frame) = queue.frames.pop_front()?;
        queue.bytes -= cost(&frame);
        self.bytes -= cost(&frame);
        if queue.frames.is_empty() {
            queue.frames.shrink_to(KEPT_ENTRIES_MAX);
        }
        Some(pushed_at)
    }

    /// Drops the older half, at least one frame, and returns the number of dropped frames.
    #[must_use]
    pub(super) fn drop_half(&mut self, queue: &mut FrameQueue) -> usize {
        let dropped = queue.len().div_ceil(2);
        for _ in 0..dropped {
            self.pop(queue);
        }
        dropped
    }

    /// Drops a whole queue and returns its number of frames.
    #[must_use]
    pub(super) fn drop_all(&mut self, queue: &FrameQueue) -> usize {
        self.bytes -= queue.bytes;
        queue.len()
    }

    pub(super) const fn is_over(&self) -> bool {
        self.bytes > self.bytes_max
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Checks the limits, and that `queues` are all queues.
    pub(super) fn sanity_check<'a>(&self, queues: impl Iterator<Item = &'a FrameQueue>) {
        let mut bytes = 0;
        for queue in queues {
            assert_eq!(queue.bytes, queue.frames.iter().map(|(_, frame)| cost(frame)).sum::<usize>());
            assert!(queue.len() <= self.queue.frames_max && queue.bytes <= self.queue.bytes_max);
            assert!(queue.frames.iter().is_sorted_by_key(|(pushed_at, _)| *pushed_at));
            bytes += queue.bytes;
        }
        assert_eq!(self.bytes, bytes);
        assert!(!self.is_over(), "{bytes} bytes are queued");
    }
}

const fn cost(frame: &[u8]) -> usize {
    frame.len() + FRAME_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono::from_nanos(0);

    fn backlog() -> (Backlog, FrameQueue) {
        let limits = QueueLimits { frames_max: 3, bytes_max: 3 * FRAME_COST_BYTES + 10 };
        (Backlog::new(limits, 10_000), FrameQueue::default())
    }

    fn drain((mut backlog, mut queue): (Backlog, FrameQueue)) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = queue.front() {
            frames.push(frame.to_vec());
            backlog.pop(&mut queue);
        }
        assert_eq!((queue.len(), queue.bytes(), backlog.is_empty()), (0, 0, true));
        frames
    }

    #[test]
    fn beyond_the_number_the_oldest_goes() {
        let (mut backlog, mut queue) = backlog();
        let dropped: usize = (1..=5).map(|byte| backlog.push(&mut queue, NOW, vec![byte])).sum();
        assert_eq!(dropped, 2);
        assert_eq!(drain((backlog, queue)), [vec![3], vec![4], vec![5]]);
    }

    #[test]
    fn beyond_the_bytes_the_oldest_go() {
        let (mut backlog, mut queue) = backlog();
        assert_eq!(backlog.push(&mut queue, NOW, vec![1; 4]), 0);
        assert_eq!(backlog.push(&mut queue, NOW, vec![2; 4]), 0);
        assert_eq!(backlog.push(&mut queue, NOW, vec![3; 6 + FRAME_COST_BYTES]), 1);
        assert_eq!(drain((backlog, queue)), [vec![2; 4], vec![3; 6 + FRAME_COST_BYTES]]);
    }

    #[test]
    fn a_frame_beyond_the_limit_drops_nothing_but_itself() {
        let (mut backlog, mut queue) = backlog();
        assert_eq!(backlog.push(&mut queue, NOW, vec![1]), 0);
        assert_eq!(backlog.push(&mut queue, NOW, vec![0; 10_000]), 1);
        assert_eq!(drain((backlog, queue)), [vec![1]]);
    }

    #[test]
    fn half_of_an_odd_number_is_the_larger_half() {
        let (mut backlog, mut queue) = backlog();
        for byte in 1..=3 {
            assert_eq!(backlog.push(&mut queue, NOW, vec![byte]), 0);
        }
        assert_eq!(backlog.drop_half(&mut queue), 2);
        assert_eq!(queue.front(), Some(&[3][..]));
        assert_eq!(backlog.drop_half(&mut queue), 1);
        assert_eq!(backlog.drop_half(&mut queue), 0);
        assert_eq!(drain((backlog, queue)), Vec::<Vec<u8>>::new());
    }
}
