//! STEP/PROVIDING: a location of a running task.

use super::{Code, Controller, Refusal, Reply};
use crate::protocol::requests::step::Providing;

impl Controller {
    /// No task is of a step, because the controller accepts no graphs.
    pub(super) fn providing(&self, providing: &Providing) -> Reply {
        let task = providing.task;
        let refusal = self.known(task).err();
        Reply::Refused(refusal.unwrap_or_else(|| {
            Refusal::new(Code::InvalidTaskId, format!("task {task} is not of a step, so nothing is downstream of it"))
        }))
    }
}
