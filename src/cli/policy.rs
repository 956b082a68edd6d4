//! The flags for what a task demands of its life: `submit` and `run` take them.

use std::time::Duration;

use clap::Args;

use super::when::{self, Moment};
use crate::protocol::client::Demands;
use crate::types::{Label, Labels, Wall};

/// What --help says below all options.
pub(super) const HELP: &str = "\
A task ends as soon as one of its budgets is exceeded: --max-fails 2 allows three runs. A run.sh that exits with 75 defers: it \
is run again later and spends no budget but that of --max-defers. What is not given here is taken from [task_defaults] of the \
controller's configuration.";

#[derive(Args, Debug)]
#[command(next_help_heading = "Policy")]
pub(super) struct PolicyArgs {
    /// From -100 to 100: higher goes first, and among equals the older one
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i8).range(-100..=100))]
    priority: Option<i8>,
    /// How long one run may take before it is ended; 0 sets no limit
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    timeout: Option<Duration>,
    /// Do not start before
    #[arg(long, value_name = "MOMENT", value_parser = when::moment)]
    start_after: Option<Moment>,
    /// End the task then, whatever it does
    #[arg(long, value_name = "MOMENT", value_parser = when::moment)]
    end_before: Option<Moment>,
    /// How often a run may fail and be followed by another
    #[arg(long, value_name = "N")]
    max_fails: Option<u32>,
    /// How often a run may take too long and be followed by another
    #[arg(long, value_name = "N")]
    max_timeouts: Option<u32>,
    /// How often an agent may be lost with it and another run follow
    #[arg(long, value_name = "N")]
    max_losses: Option<u32>,
    /// How often run.sh may defer (exit 75); one more is a failure
    #[arg(long, value_name = "N")]
    max_defers: Option<u32>,
    /// How long to wait after a failed run; it doubles each time
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    retry_delay: Option<Duration>,
    /// A run that writes to stderr has failed
    #[arg(long, value_name = "true|false", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    fail_on_stderr: Option<bool>,
    /// Never run twice at once: a run whose agent cannot be heard is ended before another one starts
    #[arg(long, value_name = "true|false", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    exclusive: Option<bool>,
    /// Pass this gate at each start; may be repeated. `llts gate` shows and sets gates
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = label)]
    gate: Vec<Label>,
    /// Run only where an agent has all these tags (AGENT_TAGS)
    #[arg(long, value_name = "TAG,TAG", value_delimiter = ',', value_parser = label)]
    tags: Vec<Label>,
    /// Submitting the same again with the same key returns the same task
    #[arg(long, value_name = "KEY")]
    submit_key: Option<String>,
    /// Push the end to --address until its receiver confirms it
    #[arg(long, requires = "address", value_name = "true|false", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    push_ack: Option<bool>,
}

impl PolicyArgs {
    /// What is sent. Moments are seen from `now`.
    pub(super) fn demands(&self, now: Wall) -> Result<Demands, String> {
        let labels = |labels: &[Label]| Labels::new(labels.to_vec()).map_err(|error| error.to_string());
        Ok(Demands {
            priority: self.priority,
            start_after: self.start_after.map(|at| at.wall(now)),
            end_before: self.end_before.map(|at| at.wall(now)),
            timeout: self.timeout,
            fails_max: self.max_fails,
            timeouts_max: self.max_timeouts,
            losses_max: self.max_losses,
            defers_max: self.max_defers,
            retry_delay: self.retry_delay,
            fail_on_stderr: self.fail_on_stderr,
            exclusive: self.exclusive,
            gates: labels(&self.gate)?,
            tags: labels(&self.tags)?,
            submit_key: self.submit_key.clone(),
            push_ack: self.push_ack,
        })
    }
}

fn label(text: &str) -> Result<Label, String> {
    Label::new(text.trim()).map_err(|error| error.to_string())
}
