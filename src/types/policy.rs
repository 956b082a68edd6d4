//! What a submitter demands of the life of a task (design, section 5).
//!
//! [`Policy::FIELDS`] is the one list of what may be demanded. The wire, the command line, `[task_defaults]` and the client go by it,
//! so that a new field is one of [`Policy`], one row of the table, a line in `defaults.toml` if it has a default, and the code that
//! obeys it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Labels, Requirements, Wall};

/// The policy of one task. Tasks that demand nothing share the defaults of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// It does not start before: `__START_AFTER__`.
    pub start_after: Option<Wall>,
    /// Its whole life ends: `__END_BEFORE__`.
    pub end_before: Option<Wall>,
    /// How long one run may take: `__TIMEOUT__`.
    pub timeout: Option<Duration>,
    /// How many runs may fail before the task has: `__MAX_FAILS__`.
    pub fails_max: u32,
    /// How many runs may take too long before the task has: `__MAX_TIMEOUTS__`.
    pub timeouts_max: u32,
    /// How many agents may be lost before the task is: `__MAX_LOSSES__`.
    pub losses_max: u32,
    /// How many runs may defer; one more is a failure: `__MAX_DEFERS__`.
    pub defers_max: u32,
    /// From the end of a round to the start of the next; doubles each time: `__RETRY_DELAY__`.
    pub retry_delay: Duration,
    /// Whether a run fails also when stderr is not empty: `__FAIL_ON_STDERR__`.
    pub fail_on_stderr: bool,
    /// Higher goes first: `__PRIORITY__`, from -100 to 100.
    pub priority: i8,
    /// What a start must meet beside the time: `__GATE__`, `__TAGS__` and `__EXCLUSIVE__`.
    pub needs: Requirements,
    /// Whether FINISHED is pushed until the receiver confirms it: `__PUSH_ACK__`.
    pub push_ack: bool,
}

/// One field of a policy.
#[derive(Debug)]
pub struct PolicyField {
    /// As it is named in `[task_defaults]`: `MAX_FAILS` is `__MAX_FAILS__` on the wire and `--max-fails` on the command line.
    pub name: &'static str,
    /// What it does, for --help.
    pub help: &'static str,
    /// Whether `[task_defaults]` says what holds for a task that demands nothing.
    pub has_default: bool,
    /// What kind of value it has, and where in a policy that is.
    pub slot: PolicySlot,
}

/// Where in a policy a value stands. All that reads or writes a value by its kind matches this.
#[derive(Clone, Copy, Debug)]
pub enum PolicySlot {
    /// A number of [`Policy::PRIORITIES`].
    Priority(fn(&mut Policy) -> &mut i8),
    /// How often something may happen, at most [`Policy::COUNT_MAX`] times.
    Count(fn(&mut Policy) -> &mut u32),
    /// A time in seconds.
    Time(fn(&mut Policy) -> &mut Duration),
    /// The same, as [`Policy::limit`] reads it.
    Limit(fn(&mut Policy) -> &mut Option<Duration>),
    /// A moment of the wall clock.
    Moment(fn(&mut Policy) -> &mut Option<Wall>),
    /// True or false.
    Truth(fn(&mut Policy) -> &mut bool),
    /// Names, of which none is as good as no demand.
    Labels(fn(&mut Policy) -> &mut Labels),
}

macro_rules! fields {
    ($($name:literal $kind:ident($($place:ident).+) $default:literal $help:literal)+) => {
        &[$(PolicyField {
            name: $name,
            help: $help,
            has_default: $default,
            slot: PolicySlot::$kind(|policy| &mut policy.$($place).+),
        }),+]
    };
}

impl Policy {
    /// Budgets beyond this are no budgets.
    pub const COUNT_MAX: u32 = 1_000_000;

    /// The range of priorities.
    pub const PRIORITIES: RangeInclusive<i8> = -100..=100;

    /// Every field, in the order of --help: its name, its place, whether it has a default, what it does.
    pub const FIELDS: &[PolicyField] = fields! {
        "PRIORITY" Priority(priority) true "From -100 to 100: higher goes first, and among equals the older one"
        "TIMEOUT" Limit(timeout) true "How long one run may take before it is ended; 0 sets no limit"
        "START_AFTER" Moment(start_after) false "Do not start before"
        "END_BEFORE" Moment(end_before) false "End the task then, whatever it does"
        "MAX_FAILS" Count(fails_max) true "How often a run may fail and be followed by another"
        "MAX_TIMEOUTS" Count(timeouts_max) true "How often a run may take too long and be followed by another"
        "MAX_LOSSES" Count(losses_max) true "How often an agent may be lost with it and another run follow"
        "MAX_DEFERS" Count(defers_max) true "How often run.sh may defer (exit 75); one more is a failure"
        "RETRY_DELAY" Time(retry_delay) true "How long to wait after a failed run; it doubles each time"
        "FAIL_ON_STDERR" Truth(fail_on_stderr) true "A run that writes to stderr has failed"
        "EXCLUSIVE" Truth(needs.exclusive) true
            "Never run twice at once: a run whose agent cannot be heard is ended before another one starts"
        "GATE" Labels(needs.gates) false
            "Pass these gates at each start; may be repeated. `llts gate` shows and sets gates"
        "TAGS" Labels(needs.tags) false "Run only where an agent has all these tags (AGENT_TAGS)"
        "PUSH_ACK" Truth(push_ack) false "Push the end to --address until its receiver confirms it"
    };

    /// A time limit: zero sets none, so that a submitter can lift a default.
    #[must_use]
    pub fn limit(time: Duration) -> Option<Duration> {
        Some(time).filter(|time| !time.is_zero())
    }
}

/// How often each of the budgets of a [`Policy`] was drawn on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that failed: `__FAILS__`.
    pub fails: u32,
    /// Runs that took too long: `__TIMEOUTS__`.
    pub timeouts: u32,
    /// Agents that were lost: `__LOSSES__`.
    pub losses: u32,
    /// Runs that deferred: `__DEFERS__`.
    pub defers: u32,
}
