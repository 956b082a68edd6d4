//! What waits for one address: frames in order, within two limits.

use std::collections::VecDeque;

use prometheus_client::metrics::histogram::Histogram;

use crate::types::Mono;

/// What a frame costs beside its own bytes: its place in the queue and its allocation. It keeps empty frames bounded too.
const FRAME_COST_BYTES: usize = 64;

/// Places that an empty queue keeps, so that a burst does not hold its memory for ever.
const KEPT_PLACES_MAX: usize = 64;

/// The limits of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// Frames at the most.
    pub(super) frames_max: usize,
    /// Bytes at the most, with [`FRAME_COST_BYTES`] for each frame.
    pub(super) bytes_max: usize,
}

/// Frames for one address, oldest first.
#[derive(Debug)]
pub(super) struct FrameQueue {
    /// Each with the time when it was pushed.
    frames: VecDeque<(Mono, Vec<u8>)>,
    bytes: usize,
    /// How long those that were sent have waited.
    waited: Histogram,
}

impl FrameQueue {
    pub(super) fn new(waited: &Histogram) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, waited: waited.clone() }
    }

    /// Appends a frame and drops the oldest ones beyond the limits; gives back how many were dropped. A frame that could
    /// not even stand alone is dropped itself.
    #[must_use]
    pub(super) fn push(&mut self, now: Mono, frame: Vec<u8>, limits: QueueLimits) -> usize {
        let cost = cost(&frame);
        if cost > limits.bytes_max || limits.frames_max == 0 {
            return 1;
        }
        let mut dropped = 0;
        while self.frames.len() >= limits.frames_max || self.bytes + cost > limits.bytes_max {
            self.pop();
            dropped += 1;
        }
        self.bytes += cost;
        self.frames.push_back((now, frame));
        dropped
    }

    /// The oldest frame.
    pub(super) fn front(&self) -> Option<&[u8]> {
        self.frames.front().map(|(_, frame)| frame.as_slice())
    }

    /// Removes the oldest frame, which was sent.
    pub(super) fn sent(&mut self, now: Mono) {
        if let Some((pushed_at, _)) = self.frames.front() {
            self.waited.observe(now.since(*pushed_at).as_secs_f64());
        }
        self.pop();
    }

    /// Removes the oldest frame.
    pub(super) fn pop(&mut self) {
        let Some((_, frame)) = self.frames.pop_front() else { return };
        self.bytes -= cost(&frame);
        if self.frames.is_empty() {
            self.frames.shrink_to(KEPT_PLACES_MAX);
        }
    }

    /// Drops the older half, at least one frame; gives back how many.
    #[must_use]
    pub(super) fn drop_half(&mut self) -> usize {
        let dropped = self.frames.len().div_ceil(2);
        for _ in 0..dropped {
            self.pop();
        }
        dropped
    }

    /// Frames that wait.
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Bytes that wait, with the cost of each frame; 0 exactly when the queue is empty.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Says whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// What a frame counts for in bytes.
pub(super) const fn cost(frame: &[u8]) -> usize {
    frame.len() + FRAME_COST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::metrics::times;

    const LIMITS: QueueLimits = QueueLimits { frames_max: 3, bytes_max: 3 * FRAME_COST_BYTES + 10 };

    fn drain(queue: &mut FrameQueue) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = queue.front() {
            frames.push(frame.to_vec());
            queue.pop();
        }
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
        frames
    }

    #[test]
    fn beyond_the_number_the_oldest_goes() {
        let mut queue = FrameQueue::new(&times());
        let dropped: usize = (1..=5).map(|byte| queue.push(Mono::from_nanos(0), vec![byte], LIMITS)).sum();
        assert_eq!(dropped, 2);
        assert_eq!(drain(&mut queue), [vec![3], vec![4], vec![5]]);
    }

    #[test]
    fn beyond_the_bytes_the_oldest_go() {
        let mut queue = FrameQueue::new(&times());
        assert_eq!(queue.push(Mono::from_nanos(0), vec![1; 4], LIMITS), 0);
        assert_eq!(queue.push(Mono::from_nanos(0), vec![2; 4], LIMITS), 0);
        assert_eq!(queue.push(Mono::from_nanos(0), vec![3; 6 + FRAME_COST_BYTES], LIMITS), 1);
        assert_eq!(drain(&mut queue), [vec![2; 4], vec![3; 6 + FRAME_COST_BYTES]]);
    }

    #[test]
    fn a_frame_beyond_the_limit_drops_nothing_but_itself() {
        let mut queue = FrameQueue::new(&times());
        assert_eq!(queue.push(Mono::from_nanos(0), vec![1], LIMITS), 0);
        assert_eq!(queue.push(Mono::from_nanos(0), vec![0; 10_000], LIMITS), 1);
        assert_eq!(drain(&mut queue), [vec![1]]);
    }

    #[test]
    fn half_of_an_odd_number_is_the_larger_half() {
        let mut queue = FrameQueue::new(&times());
        for byte in 1..=3 {
            assert_eq!(queue.push(Mono::from_nanos(0), vec![byte], LIMITS), 0);
        }
        assert_eq!(queue.drop_half(), 2);
        assert_eq!(drain(&mut queue), [vec![3]]);
        assert_eq!(queue.drop_half(), 0);
    }
}
