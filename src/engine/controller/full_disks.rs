//! The fate of a task whose agent has no room on its disk for it: for its tool, or for the folder of the run.
//!
//! | the agent reports -134, and | then |
//! |---|---|
//! | another agent here may run the task, drained or not, and has not reported that for it | the task waits for such an agent, in its next round |
//! | the task still waits after a pause ([`TaskRecord::disk_trial`]) | it may go to this agent again, which may have room by then |
//! | no other agent here may run it, or it is killed | it ends with -131, and the sentence names the full disks |
//!
//! Such a round draws on no budget of the task, and its agent does not get the task during that pause ([`TaskRecord::needs`]), unless
//! a client asks for another round. A client never sees -134.

use super::Controller;
use crate::protocol::requests::report::Report;
use crate::types::{AgentId, ExitCode, Now, Phase, RoundEnd, RunResult, TaskRecord};

impl Controller {
    /// Whether an accepted report says that the disk of its agent is full although another agent may run the task. The task then
    /// waits for that agent, as soon as this one has finished with it. Otherwise the report becomes that of a run that could not
    /// be prepared.
    pub(super) fn avoids_full_disk(&mut self, now: Now, agent: &AgentId, report: &mut Report) -> bool {
        let full = |result: &&mut RunResult| result.exit_code == ExitCode::DISK_FULL;
        let Some(result) = report.result.as_mut().filter(full) else { return false };
        let Some(record) = self.tasks.get(report.task) else { return false };
        result.exit_code = ExitCode::PREPARE_FAILED;
        result.error = format!(
            "the disk of agent {agent} is full: {}; free space there, or set AGENT_WORK_DIR and STATE_DIR of that agent to folders \
             of a larger disk",
            result.error
        );
        let tries = record.past.iter().filter(|past| matches!(past.end, RoundEnd::NoTool | RoundEnd::DiskFull)).count();
        let is_over = record.phase() >= Phase::Ended || record.kill.is_some() || result.told_to_finish;
        let mut needs = record.needs().into_owned();
        let others: Vec<_> = needs.avoided.iter().map(AgentId::as_str).collect();
        let others = others.join(", ");
        needs.avoided.insert(agent.clone());
        let sets = self.tasks.queue().sets();
        // A drained agent takes tasks again some day, as for a task that finds all agents drained.
        let is_elsewhere = self.agents.all_drained_or_with(&needs, |set| sets.has(set, &record.tool)).next().is_some();
        self.archives.reads.end(agent);
        if is_over || !is_elsewhere || tries >= TaskRecord::PAST_ROUNDS_MAX {
            if !others.is_empty() {
                result.error += &format!("; earlier, there was no room for the task at {others}");
            }
            return false;
        }
        self.go_elsewhere(now, report, RoundEnd::DiskFull);
        true
    }
}
