//! TASK/KILL: a client ends a task.

use std::sync::Arc;

use crate::engine::controller::Controller;
use crate::protocol::reply::Reply;
use crate::protocol::request;
use crate::types::{KillCause, Now, TaskId};

impl Controller {
    pub(super) fn kill_request(&mut self, now: Now, task: TaskId, said: Option<Arc<str>>) -> Reply {
        if self.tasks.get(task).is_none() {
            return Reply::Refused(request::no_such_task(&task.to_string()));
        }
        self.kill(now, task, &KillCause::Client(said));
        Reply::Done
    }
}
