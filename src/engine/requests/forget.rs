//! TASK/FORGET: a finished task is forgotten before its time, with its family, as [`crate::tasks::retention`] does later.

use super::{Code, Controller, Refusal, Reply};
use base::{Now, TaskId, TaskState};

impl Controller {
    pub(super) fn forget_request(&mut self, now: Now, task: TaskId) -> Result<Reply, Refusal> {
        let record = self.known(task)?;
        let not_allowed = |why: String| Err(Refusal::new(Code::NotAllowed, why));
        let TaskState::Finished { .. } = record.state else {
            return not_allowed(format!("task {task} has not finished; kill it first, or wait for its end"));
        };
        if let Some(place) = record.place() {
            return not_allowed(format!(
                "task {task} is one of step {} of graph {}, and is forgotten together with the graph",
                place.step, place.graph
            ));
        }
        let root = self.tasks.families.root(task);
        if self.tasks.families.is_open(root) {
            return not_allowed(format!(
                "task {task} belongs to the family of {root}, which has not finished; a family is forgotten as a whole"
            ));
        }
        self.forget_family(now, root);
        Ok(Reply::Done)
    }
}
