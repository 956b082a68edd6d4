//! Prepares the job of a map before its first line. The job may exist from an earlier run, and then continues.

use super::template::Prepared;
use api::wire::client::Selector;
use api::wire::requests::gate::GateChange;
use api::wire::requests::job::JobOrder;
use api::wire::requests::list::tasks;
use api::wire::requests::{gate, job};
use base::TaskId;
use llts_client::{Client, ClientError};
use term::exit::Failure;

/// The job as it was before this run of the map.
#[derive(Default)]
pub(super) struct TakenUp {
    /// The newest task that it had.
    pub(super) newest_before: Option<TaskId>,
    /// Whether the gate is closed until the first lines are accepted.
    pub(super) is_closed: bool,
}

/// Lets an existing job continue.
pub(super) fn take_up(client: &Client, prepared: &Prepared, jobs: Option<u32>) -> Result<TakenUp, Failure> {
    let (name, gate) = (prepared.job.as_str(), &prepared.gate);
    let job = match client.ask(&job::query(name, None)) {
        Ok(job) => job,
        Err(ClientError::Reply(reply)) if reply.is_no_such_task() => {
            if jobs.is_some() {
                limit(client, gate, jobs)?;
            }
            return Ok(TakenUp::default());
        }
        Err(error) => return Err(error.into()),
    };
    let newest = client.ask(&tasks(&Selector::all().and_job(name), 0, 1))?;
    // Failures stopped this job, and could stop it again before the first line arrives.
    let is_closed = job.reason().is_some();
    limit(client, gate, if is_closed { Some(0) } else { jobs })?;
    if is_closed {
        client.ask(&job::order(name, &JobOrder::Retry))?;
    }
    // An interrupted map may have left the job held.
    client.ask(&job::order(name, &JobOrder::Hold(false)))?;
    Ok(TakenUp { newest_before: newest.rows.first().and_then(|task| task.id().parse().ok()), is_closed })
}

/// Limits how many tasks of the map run at once. The service enforces the limit, even without this process.
pub(super) fn limit(client: &Client, gate: &str, max: Option<u32>) -> Result<(), ClientError> {
    client.ask(&gate::set(gate, &GateChange { running_max: Some(max), ..GateChange::default() }))
}
