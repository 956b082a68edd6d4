//! TASK/HOLD and TASK/RELEASE: keep a task from starting, or let it start.

use super::{Code, Controller, Refusal, Reply};
use base::{Now, Phase, TaskId};

impl Controller {
    /// Holds a task back, or releases it. A running task continues; its next round is held.
    pub(super) fn hold(&mut self, now: Now, task: TaskId, hold: bool) -> Result<Reply, Refusal> {
        let record = self.known(task)?;
        if record.phase() == Phase::Finished {
            let what = if hold { "pause" } else { "resume" };
            return Err(Refusal::new(
                Code::NotAllowed,
                format!("task {task} has finished; there is nothing to {what}"),
            ));
        }
        if record.held.is_some() != hold {
            self.hold_task(now, task, hold.then_some(now.wall));
            self.dispatch(now);
        }
        self.inform_if_waiting(task);
        Ok(Reply::Done)
    }
}
