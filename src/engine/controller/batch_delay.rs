//! How late the changes of a run may be told, so that many of them share a way.
//!
//! A message, a write and a commit cost about the same for one change as for many. A service with free agents spends that for
//! each change at once. One in which tasks queue is short of processor time, and a few milliseconds more are nothing beside the
//! time that they queue. So a run for which its task had to queue has a batch delay: a sixteenth of that time, 8 ms at the most.
//!
//! | who | has a batch delay for |
//! |---|---|
//! | the agent ([`slot`](crate::engine::slot)) | its reports of PREPARING, RUNNING and ENDED |
//! | the [`commit_queue`](super::commit_queue) | the commit before the push of FINISHED |
//! | the pusher | the pushes of all four |
//!
//! The agent's last report has none: with it, the agent asks for its next task. Nor has the answer to a submit. So no slot is
//! ever idle for the batch delay: a client that keeps many tasks under way learns of an end later, but only as long as others of its
//! tasks queue, and by less than they do.

use std::time::Duration;

use crate::types::{TaskRecord, TaskState, Wall};

/// The part of the time in the queue that one more wait may be.
const QUEUED_SHARE: u32 = 16;

const BATCH_DELAY_MAX: Duration = Duration::from_millis(8);

/// The batch delay of the run that begins now, of a task that waits and that no agent was free for until now.
pub(super) fn after_queuing(now: Wall, record: &TaskRecord) -> Duration {
    let not_before = match record.state {
        TaskState::Waiting { not_before } => not_before,
        _ => None,
    };
    let entered = record.past.last().map_or(record.submitted_at, |past| past.at);
    let queued = now.since(entered.max(not_before.unwrap_or(entered)));
    (queued / QUEUED_SHARE).min(BATCH_DELAY_MAX)
}
