//! The arguments of `submit` and `run` for the job of a task and for the tasks that it waits for.

use clap::Args;

use api::wire::requests::submit::{JobOf, Submission};
use base::{Prior, Wanted};

#[derive(Args, Debug)]
#[command(next_help_heading = "Jobs and dependencies")]
pub(super) struct RelationArgs {
    /// A name that many tasks share; `llts job NAME` shows them as one
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Stop the job when this number of its tasks have failed; the last number given holds for the whole job
    #[arg(long, value_name = "N", requires = "job", value_parser = clap::value_parser!(u32).range(1..))]
    job_max_fails: Option<u32>,
    /// Push the state of the job to --address, too
    #[arg(long, requires_all = ["job", "address"])]
    job_push: bool,
    /// Start only after this task has succeeded, or after every task of job:NAME; may be repeated, and all must be met
    #[arg(long, value_name = "TASK")]
    after: Vec<String>,
    /// Start only after every task that this job has by now has succeeded
    #[arg(long, value_name = "NAME")]
    after_job: Vec<String>,
    /// Start only after this task, or every task of job:NAME, has finished, however it ended
    #[arg(long, value_name = "TASK")]
    after_any: Vec<String>,
    /// Start only after this task, or one of job:NAME, has failed
    #[arg(long, value_name = "TASK")]
    after_failed: Vec<String>,
}

impl RelationArgs {
    /// The submission with its job and its terms.
    pub(super) fn relate(&self, submission: Submission) -> Submission {
        let job = self.job.as_ref().map(|name| JobOf {
            name: name.clone(),
            fails_max: self.job_max_fails,
            is_pushed: self.job_push,
        });
        let prefixed = |wanted: Wanted, of: &str| format!("{}{of}", wanted.prefix());
        let jobs = self.after_job.iter().map(|name| format!("{}{name}", Prior::JOB));
        let after = self.after.iter().cloned().chain(jobs);
        let after = after.chain(self.after_any.iter().map(|of| prefixed(Wanted::End, of)));
        let after = after.chain(self.after_failed.iter().map(|of| prefixed(Wanted::Failure, of)));
        Submission { job, after: after.collect(), ..submission }
    }
}
