//! The policy of a task: what its submitter demands.
//!
//! [`Policy::FIELDS`] is the only list of the fields. The wire, the command line, `[task_defaults]` and the client follow
//! it. A new field needs a member of [`Policy`], a row of the table, a line in `defaults.toml` if it has a default, and the
//! code that obeys it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::{EndSignal, Labels, Requirements, Wall};

/// The policy of one task. Tasks that demand nothing share the configured defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Earliest start: `__START_AFTER__`.
    pub start_after: Option<Wall>,
    /// End of the task, waiting or running: `__END_BEFORE__`.
    pub end_before: Option<Wall>,
    /// The same two, relative to the acceptance of the task by the controller's clock. An accepted task has neither.
    pub ahead: Ahead,
    /// Time limit of one run: `__TIMEOUT__`.
    pub timeout: Option<Duration>,
    /// Silence after which its agent is lost, if it differs from the general one: `__LOST_AFTER__`.
    pub lost_after: Option<Duration>,
    /// Maximum number of failed runs that are followed by another run: `__MAX_FAILS__`.
    pub fails_max: u32,
    /// Maximum number of timed-out runs that are followed by another run: `__MAX_TIMEOUTS__`.
    pub timeouts_max: u32,
    /// Maximum number of lost agents that are followed by another run: `__MAX_LOSSES__`.
    pub losses_max: u32,
    /// Maximum number of runs that may defer; one more is a failure: `__MAX_DEFERS__`.
    pub defers_max: u32,
    /// Pause between a failed round and the next one; it doubles each time: `__RETRY_DELAY__`.
    pub retry_delay: Duration,
    /// Whether a run with a non-empty stderr has failed: `__FAIL_ON_STDERR__`.
    pub fail_on_stderr: bool,
    /// Higher goes first: `__PRIORITY__`, from -100 to 100.
    pub priority: i8,
    /// Requirements for a start besides time: `__GATE__`, `__TAGS__` and `__EXCLUSIVE__`.
    pub needs: Requirements,
    /// Whether FINISHED is pushed until the receiver confirms it: `__PUSH_ACK__`.
    pub push_ack: bool,
    /// The first signal to a run that must end: `__END_SIGNAL__`. Its agent reads it from the fields of the task.
    pub end_signal: EndSignal,
    /// Whether the standard error of a run goes where its standard output goes: `__MERGE__`. Its agent reads this from
    /// the fields, too.
    pub merge: bool,
    /// Whether a first run may start before the submit is stored, although it has a key: `__EAGER__`.
    pub eager: bool,
}

/// Moments relative to the acceptance of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahead {
    /// Of [`Policy::start_after`].
    pub start: Option<Duration>,
    /// Of [`Policy::end_before`].
    pub end: Option<Duration>,
}

/// One field of a policy.
#[derive(Debug)]
pub struct PolicyField {
    /// Name in `[task_defaults]`: `MAX_FAILS` is `__MAX_FAILS__` on the wire and `--max-fails` on the command line.
    pub name: &'static str,
    /// Name on the wire.
    pub word: &'static str,
    /// Effect, for --help.
    pub help: &'static str,
    /// Whether `[task_defaults]` has a default for it.
    pub has_default: bool,
    /// Kind of its value, and its member of a policy.
    pub slot: PolicySlot,
}

impl PolicyField {
    /// Name of the option for it, without the dashes.
    #[must_use]
    pub fn option(&self) -> String {
        self.name.to_ascii_lowercase().replace('_', "-")
    }
}

/// The member of a policy that holds a value. Code that handles a value by its kind matches on this.
#[derive(Clone, Copy, Debug)]
pub enum PolicySlot {
    /// A number of [`Policy::PRIORITIES`].
    Priority(fn(&mut Policy) -> &mut i8),
    /// A number of events, at most [`Policy::COUNT_MAX`].
    Count(fn(&mut Policy) -> &mut u32),
    /// A duration in seconds.
    Time(fn(&mut Policy) -> &mut Duration),
    /// A duration in seconds, as [`Policy::limit`] interprets it.
    Limit(fn(&mut Policy) -> &mut Option<Duration>),
    /// A moment of the wall clock, or a duration from the acceptance on.
    Moment(fn(&mut Policy) -> &mut Option<Wall>, fn(&mut Policy) -> &mut Option<Duration>),
    /// A boolean.
    Truth(fn(&mut Policy) -> &mut bool),
    /// Names. An empty list demands nothing.
    Labels(fn(&mut Policy) -> &mut Labels),
    /// The word of a signal.
    Signal(fn(&mut Policy) -> &mut EndSignal),
}

macro_rules! fields {
    ($($name:literal $kind:ident($($($place:ident).+),+) $default:literal $help:literal)+) => {
        &[$(PolicyField {
            name: $name,
            word: concat!("__", $name, "__"),
            help: $help,
            has_default: $default,
            slot: PolicySlot::$kind($(|policy| &mut policy.$($place).+),+),
        }),+]
    };
}

impl Policy {
    /// Largest budget. A larger one would be no limit in practice.
    pub const COUNT_MAX: u32 = 1_000_000;

    /// The range of priorities.
    pub const PRIORITIES: RangeInclusive<i8> = -100..=100;

    /// Every field, in the order of --help: name, place, whether it has a default, effect.
    pub const FIELDS: &[PolicyField] = fields! {
        "PRIORITY" Priority(priority) true "From -100 to 100: higher goes first, and among equals the older task"
        "TIMEOUT" Limit(timeout) true "Time limit of one run; 0 sets no limit"
        "START_AFTER" Moment(start_after, ahead.start) false "Do not start before"
        "END_BEFORE" Moment(end_before, ahead.end) false "End the task at this moment, waiting or running"
        "MAX_FAILS" Count(fails_max) true "Number of failed runs that are followed by another run"
        "MAX_TIMEOUTS" Count(timeouts_max) true "Number of timed-out runs that are followed by another run"
        "MAX_LOSSES" Count(losses_max) true "Number of lost agents that are followed by another run"
        "LOST_AFTER" Limit(lost_after) true
            "Take its agent for lost after this silence, but not before two heartbeats; 0 is AGENT_LOST_AFTER"
        "MAX_DEFERS" Count(defers_max) true "Number of times that run.sh may defer (exit 75); one more is a failure"
        "RETRY_DELAY" Time(retry_delay) true "Pause after a failed run; it doubles each time"
        "FAIL_ON_STDERR" Truth(fail_on_stderr) true "A run that writes to stderr has failed"
        "EXCLUSIVE" Truth(needs.exclusive) true
            "Never run twice at once: a run whose agent is silent is ended before another one starts"
        "GATE" Labels(needs.gates) false
            "Pass these gates at each start; may be repeated. `llts gate` shows and sets gates"
        "TAGS" Labels(needs.tags) false "Run only where an agent has all these tags (AGENT_TAGS)"
        "PUSH_ACK" Truth(push_ack) false "Push the end to --address until its receiver confirms it"
        "END_SIGNAL" Signal(end_signal) false
            "The first signal to a run that is to end, TERM, INT, HUP, QUIT, USR1 or USR2; SIGKILL follows"
        "MERGE" Truth(merge) false "Standard error goes where standard output goes, in the order in which they are written"
        "EAGER" Truth(eager) false
            "Start at once, although --submit-key is given: a controller killed before the submit is on disk may run it twice"
    };

    /// The policy of a task that is accepted at this moment.
    #[must_use]
    pub fn accepted(self: Arc<Self>, at: Wall) -> Arc<Self> {
        let Ahead { start, end } = self.ahead;
        if start.is_none() && end.is_none() {
            return self;
        }
        let from = |time: Option<Duration>| time.map(|time| at + time);
        Arc::new(Self {
            start_after: from(start).or(self.start_after),
            end_before: from(end).or(self.end_before),
            ahead: Ahead::default(),
            ..Self::clone(&self)
        })
    }

    /// A time limit. Zero means no limit, so that a submitter can lift a default.
    #[must_use]
    pub fn limit(time: Duration) -> Option<Duration> {
        Some(time).filter(|time| !time.is_zero())
    }
}

/// The used part of each budget of a [`Policy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that failed: `__FAILS__`.
    pub fails: u32,
    /// Runs that timed out: `__TIMEOUTS__`.
    pub timeouts: u32,
    /// Agents that were lost: `__LOSSES__`.
    pub losses: u32,
    /// Runs that deferred: `__DEFERS__`.
    pub defers: u32,
}
