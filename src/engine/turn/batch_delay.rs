//! How long updates about a run may be delayed, so that several share a message, a write and a commit.
//!
//! A message, a write and a commit cost about the same for one change as for many. A service with free agents pays that for each
//! change at once. A service in which tasks queue is short of processor time, and a few milliseconds are nothing compared with the
//! queueing time. So a run whose task had to queue has a batch delay: a sixteenth of that time, at most 8 ms. For a fetched program
//! in a job, without a push address, it is a quarter. These are the runs of TDF, which queue in Redis for longer than here.
//!
//! | component | delays |
//! |---|---|
//! | the agent (`agent::slot`) | its reports of PREPARING, RUNNING and ENDED |
//! | the [`commit_queue`](super::commit_queue) | the commit before the push of FINISHED, and before the answer to a query that waits for the end |
//! | the pusher | the pushes of all four |
//!
//! Updates that no client awaits for this one task are delayed four times as long, by at most 32 ms ([`of_many`]): the agent's
//! confirmation, the commit of a record that no message depends on, the news for subscribers, and the answer to a reader of the
//! ends of a whole job. All but the last of them may be delayed by 10 ms at any time, so calls that do not wait for the disk
//! (`__EAGER__`) share commits, too.
//!
//! The agent's last report is not delayed, because with it the agent asks for its next task. Nor is the answer to a submit.
//! So the delay never leaves a slot idle: a client with many tasks under way learns of an end later, but only while others
//! of its tasks queue, and by less than they do.

use std::time::Duration;

use base::{TaskRecord, TaskState, Wall};

/// A batch delay is the queueing time divided by this.
const QUEUED_SHARE: u32 = 16;

/// The divisor for a run of TDF.
const QUEUED_SHARE_OF_TDF: u32 = 4;

const BATCH_DELAY_MAX: Duration = Duration::from_millis(8);

/// How long an update about a run may be delayed if no client awaits it for this task alone.
pub(crate) fn of_many(record: &TaskRecord) -> Duration {
    record.batch_delay() * 4
}

/// The batch delay of a run that begins now, for a task that has waited because no agent was free.
pub(crate) fn after_queuing(now: Wall, record: &TaskRecord) -> Duration {
    if !record.after().is_empty() {
        // The time spent on waiting for other tasks says nothing about how busy the agents are.
        return Duration::ZERO;
    }
    let not_before = match record.state {
        TaskState::Waiting { not_before } => not_before,
        _ => None,
    };
    let entered = record.past.last().map_or(record.submitted_at, |past| past.at);
    let queued = now.since(entered.max(not_before.unwrap_or(entered)));
    let is_of_tdf = record.tool.is_source() && record.address.is_none() && record.membership().is_some();
    let share = if is_of_tdf { QUEUED_SHARE_OF_TDF } else { QUEUED_SHARE };
    (queued / share).min(BATCH_DELAY_MAX)
}
