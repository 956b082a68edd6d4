//! The words of the LLTS wire (document, sections 2 and 4; design, section 6).

/// Kinds of message that are not requests, as values of `__TYPE__`. Those of requests are in [`super::requests`].
pub mod kind {
    /// From a receiver of pushes: confirms the end of a task.
    pub const TASK_STATUS_ACK: &str = "TASK/STATUS/ACK";
    /// Published: a task waits and no agent was parked.
    pub const TASK_INFORM: &str = "TASK/INFORM";
    /// Published: agents must read their tools folders again.
    /// Published: the agent with a task of a step must end it cooperatively.
    pub const TASK_FINISH: &str = "TASK/FINISH";
    /// Pushed to `__ADDRESS__` and published: the state of a task has changed.
    pub const TASK_STATUS: &str = "TASK/STATUS";
    /// Pushed to the receivers of a job and published: its counts have changed.
    pub const JOB_STATUS: &str = "JOB/STATUS";
    /// Pushed to the address of a step graph and published: a step of it has changed its state, or the graph has ended.
    pub const GRAPH_STATUS: &str = "GRAPH/STATUS";
    /// The reply to a frame whose type could not be read.
    pub const ERROR: &str = "ERROR";
}

/// The kind of a message.
pub const TYPE: &str = "__TYPE__";
pub(crate) const CODE: &str = "__CODE__";
pub(crate) const ERROR_MSG: &str = "__ERROR_MSG__";
pub(crate) const WARNING: &str = "__WARNING__";
pub(crate) const TASK_ID: &str = "__TASK_ID__";
pub(crate) const GIVEN_ID: &str = "__GIVEN_ID__";
pub(crate) const FATHER_ID: &str = "__FATHER_ID__";
pub(crate) const OPERATION: &str = "__OPERATION__";
pub(crate) const SOURCE: &str = "__SOURCE__";
pub(crate) const SOURCE_SHA256: &str = "__SOURCE_SHA256__";
pub(crate) const SOURCE_UNCHECKED: &str = "__SOURCE_UNCHECKED__";
pub(crate) const ALLOWED_SOURCES: &str = "__ALLOWED_SOURCES__";
pub(crate) const INPUT: &str = "__INPUT__";
pub(crate) const INPUT_HEX: &str = "__INPUT_HEX__";
pub(crate) const COMMAND: &str = "__COMMAND__";
pub(crate) const SHELL: &str = "__SHELL__";
pub(crate) const CWD: &str = "__CWD__";
pub(crate) const STDIN: &str = "__STDIN__";
pub(crate) const STREAMS: &str = "__STREAMS__";
pub(crate) const UMASK: &str = "__UMASK__";
pub(crate) const ENV: &str = "__ENV__";
pub(crate) const PROGRESS: &str = "__PROGRESS__";
pub(crate) const PROGRESS_TEXT: &str = "__PROGRESS_TEXT__";
pub(crate) const PROGRESS_TIME: &str = "__PROGRESS_TIME__";
pub(crate) const EXPECTED_DURATION: &str = "__EXPECTED_DURATION__";
pub(crate) const ADDRESS: &str = "__ADDRESS__";
pub(crate) const ADDRESS_KEY: &str = "__ADDRESS_KEY__";
pub(crate) const START_AFTER: &str = "__START_AFTER__";
pub(crate) const END_BEFORE: &str = "__END_BEFORE__";
pub(crate) const EXCLUSIVE: &str = "__EXCLUSIVE__";
pub(crate) const LEASE: &str = "__LEASE__";
pub(crate) const BEAT: &str = "__BEAT__";
pub(crate) const KILL_BUDGET: &str = "__KILL_BUDGET__";
pub(crate) const UNCONFIRMED: &str = "__UNCONFIRMED__";
pub(crate) const SUBMIT_KEY: &str = "__SUBMIT_KEY__";
pub(crate) const REQUIRE_TOOL: &str = "__REQUIRE_TOOL__";
pub(crate) const DUPLICATE: &str = "__DUPLICATE__";
pub(crate) const DUPLICATES: &str = "__DUPLICATES__";
pub(crate) const TASKS: &str = "__TASKS__";
pub(crate) const TASK_IDS: &str = "__TASK_IDS__";
pub(crate) const GRAPH: &str = "__GRAPH__";
pub(crate) const NAME: &str = "__NAME__";
pub(crate) const STATE: &str = "__STATE__";
pub(crate) const SUB_INPUTS: &str = "__SUB_INPUTS__";
pub(crate) const SOURCES: &str = "__SOURCES__";
pub(crate) const TIMES: &str = "__TIMES__";
pub(crate) const INDEX: &str = "__INDEX__";
pub(crate) const COUNT: &str = "__COUNT__";
pub(crate) const JOB: &str = "__JOB__";
pub(crate) const JOB_MAX_FAILS: &str = "__JOB_MAX_FAILS__";
pub(crate) const JOB_PUSH: &str = "__JOB_PUSH__";
pub(crate) const AFTER: &str = "__AFTER__";
pub(crate) const UNMET: &str = "__UNMET__";
pub(crate) const COUNTED_FROM: &str = "__COUNTED_FROM__";
pub(crate) const STOPPED_AT: &str = "__STOPPED_AT__";
pub(crate) const RUN_P50: &str = "__RUN_P50__";
pub(crate) const RUN_P90: &str = "__RUN_P90__";
pub(crate) const RUN_P99: &str = "__RUN_P99__";
pub(crate) const WAIT_P50: &str = "__WAIT_P50__";
pub(crate) const WAIT_P90: &str = "__WAIT_P90__";
pub(crate) const WAIT_P99: &str = "__WAIT_P99__";
pub(crate) const WAITED_SECONDS: &str = "__WAITED_SECONDS__";
pub(crate) const SINCE: &str = "__SINCE__";
pub(crate) const UNTIL: &str = "__UNTIL__";
pub(crate) const PAUSED_UNTIL: &str = "__PAUSED_UNTIL__";
pub(crate) const SORT: &str = "__SORT__";
pub(crate) const REVERSE: &str = "__REVERSE__";
pub(crate) const GROUP: &str = "__GROUP__";
pub(crate) const CLOCK_AHEAD: &str = "__CLOCK_AHEAD__";
pub(crate) const INCIDENT: &str = "__INCIDENT__";
pub(crate) const TIME: &str = "__TIME__";
pub(crate) const IS_LAST: &str = "__IS_LAST__";
pub(crate) const DAMAGED: &str = "__DAMAGED__";
pub(crate) const RUN_MAX: &str = "__RUN_MAX__";
pub(crate) const GATE: &str = "__GATE__";
pub(crate) const TAGS: &str = "__TAGS__";
pub(crate) const PUSH_ACK: &str = "__PUSH_ACK__";
pub(crate) const END_SIGNAL: &str = "__END_SIGNAL__";
pub(crate) const MERGE: &str = "__MERGE__";
pub(crate) const FAIL_ON_STDERR: &str = "__FAIL_ON_STDERR__";
pub(crate) const ACK_TIME: &str = "__ACK_TIME__";
pub(crate) const ACK_GIVEN_UP_TIME: &str = "__ACK_GIVEN_UP_TIME__";
pub(crate) const FAILS: &str = "__FAILS__";
pub(crate) const TIMEOUTS: &str = "__TIMEOUTS__";
pub(crate) const DEFERS: &str = "__DEFERS__";
pub(crate) const NOT_BEFORE: &str = "__NOT_BEFORE__";
pub(crate) const HELD_TIME: &str = "__HELD_TIME__";
pub(crate) const KILL_REASON: &str = "__KILL_REASON__";
pub(crate) const KILL_CAUSE: &str = "__KILL_CAUSE__";
pub(crate) const RETRY_AFTER: &str = "__RETRY_AFTER__";
pub(crate) const UNTIL_RELEASED: &str = "__UNTIL_RELEASED__";
pub(crate) const CLOSE_GATE: &str = "__CLOSE_GATE__";
pub(crate) const ROUND_END: &str = "__ROUND_END__";
pub(crate) const ROUND_END_TIME: &str = "__ROUND_END_TIME__";
pub(crate) const LOG: &str = "__LOG__";
pub(crate) const WHY: &str = "__WHY__";
pub(crate) const WHAT: &str = "__WHAT__";
pub(crate) const USUAL: &str = "__USUAL__";
pub(crate) const STATES: &str = "__STATES__";
pub(crate) const LONGER: &str = "__LONGER__";
pub(crate) const LETTERS: &str = "__LETTERS__";
pub(crate) const START: &str = "__START__";
pub(crate) const RATE: &str = "__RATE__";
pub(crate) const OLDEST_TIME: &str = "__OLDEST_TIME__";
pub(crate) const DRAIN: &str = "__DRAIN__";
pub(crate) const DRAINED: &str = "__DRAINED__";
pub(crate) const MAX_RUNNING: &str = "__MAX_RUNNING__";
pub(crate) const MAX_STARTS: &str = "__MAX_STARTS__";
pub(crate) const INTERVAL: &str = "__INTERVAL__";
pub(crate) const RUNNING: &str = "__RUNNING__";
pub(crate) const WAITING: &str = "__WAITING__";
pub(crate) const CLOSED_UNTIL: &str = "__CLOSED_UNTIL__";
pub(crate) const STATUS: &str = "__STATUS__";
pub(crate) const ROUND: &str = "__ROUND__";
pub(crate) const SEQ: &str = "__SEQ__";
pub(crate) const AGENT_ID: &str = "__AGENT_ID__";
pub(crate) const AGENT_STATUS: &str = "__AGENT_STATUS__";
pub(crate) const AGENT_IP: &str = "__AGENT_IP__";
pub(crate) const TOOLS: &str = "__TOOLS__";
pub(crate) const OWN_VERSIONS: &str = "__OWN_VERSIONS__";
pub(crate) const FETCHES: &str = "__FETCHES__";
pub(crate) const COMMANDS: &str = "__COMMANDS__";
pub(crate) const TOOL_DIGEST: &str = "__TOOL_DIGEST__";
pub(crate) const TOOLS_FOLDER: &str = "__TOOLS_FOLDER__";
pub(crate) const FETCHES_TOOLS: &str = "__FETCHES_TOOLS__";
pub(crate) const DOUBTED: &str = "__DOUBTED__";
pub(crate) const COMPLETE: &str = "__COMPLETE__";
pub(crate) const MANIFEST: &str = "__MANIFEST__";
pub(crate) const FILES: &str = "__FILES__";
pub(crate) const TASK_FILES: &str = "__TASK_FILES__";
pub(crate) const IN: &str = "__IN__";
pub(crate) const OUT: &str = "__OUT__";
pub(crate) const OUT_FILES: &str = "__OUT_FILES__";
pub(crate) const OUT_NOTE: &str = "__OUT_NOTE__";
pub(crate) const OUT_IDLE: &str = "__OUT_IDLE__";
pub(crate) const STORE: &str = "__STORE__";
pub(crate) const OWN_AGENTS: &str = "__OWN_AGENTS__";
pub(crate) const FETCHING_AGENTS: &str = "__FETCHING_AGENTS__";
pub(crate) const PINNED: &str = "__PINNED__";
pub(crate) const BY: &str = "__BY__";
pub(crate) const TOOLS_GENERATION: &str = "__TOOLS_GENERATION__";
pub(crate) const RECORD_VERSION: &str = "__VERSION__";
pub(crate) const SESSION: &str = "__SESSION__";
pub(crate) const REPLACES: &str = "__REPLACES__";
pub(crate) const CONTROLLER_ID: &str = "__CONTROLLER_ID__";
/// Number of the service that a controller runs, made with its store.
pub(crate) const SERVICE: &str = "__SERVICE__";
/// How new the store of that service is.
pub(crate) const EPOCH: &str = "__EPOCH__";
/// The wall clock of the controller when it answers a heartbeat.
pub(crate) const CLOCK: &str = "__CLOCK__";
/// How many seconds the clock of an agent is ahead of that of its controller.
pub(crate) const SKEW: &str = "__SKEW__";
pub(crate) const PARKED: &str = "__PARKED__";
pub(crate) const WANTED: &str = "__WANTED__";
pub(crate) const WAIT: &str = "__WAIT__";
pub(crate) const SLACK: &str = "__SLACK__";
pub(crate) const LISTS: &str = "__LISTS__";
pub(crate) const LIST: &str = "__LIST__";
pub(crate) const LIST_TIME: &str = "__LIST_TIME__";
pub(crate) const LIST_STARTED: &str = "__LIST_STARTED__";
pub(crate) const AHEAD: &str = "__AHEAD__";
/// The fields of the answer with a list.
pub(crate) const OF_LISTS: [&str; 3] = [LIST, LIST_TIME, AHEAD];
pub(crate) const MATCHES: &str = "__MATCHES__";
pub(crate) const OFFSET: &str = "__OFFSET__";
pub(crate) const BEFORE: &str = "__BEFORE__";
pub(crate) const LIMIT: &str = "__LIMIT__";
pub(crate) const CURSOR: &str = "__CURSOR__";
pub(crate) const STREAM: &str = "__STREAM__";
pub(crate) const BYTES: &str = "__BYTES__";
pub(crate) const TEXT: &str = "__TEXT__";
pub(crate) const BASE64: &str = "__BASE64__";
pub(crate) const END: &str = "__END__";
pub(crate) const KEPT: &str = "__KEPT__";
pub(crate) const MISSING: &str = "__MISSING__";
pub(crate) const ASK: &str = "__ASK__";
pub(crate) const WATCH: &str = "__WATCH__";
pub(crate) const WIRE_VERSION: &str = "__WIRE_VERSION__";
pub(crate) const PROGRAM_VERSION: &str = "__PROGRAM_VERSION__";
pub(crate) const SERVING: &str = "__SERVING__";
pub(crate) const TOTAL: &str = "__TOTAL__";
pub(crate) const FREE: &str = "__FREE__";
pub(crate) const BUSY: &str = "__BUSY__";
pub(crate) const LOST: &str = "__LOST__";
pub(crate) const EXIT_CODE: &str = "__EXIT_CODE__";
pub(crate) const OUTCOME: &str = "__OUTCOME__";
pub(crate) const REASON: &str = "__REASON__";
pub(crate) const REPORT_LOG: &str = "__REPORT_LOG__";
pub(crate) const STDOUT: &str = "__STDOUT__";
pub(crate) const STDERR: &str = "__STDERR__";
pub(crate) const REPORT_BYTES: &str = "__REPORT_BYTES__";
pub(crate) const STDOUT_BYTES: &str = "__STDOUT_BYTES__";
pub(crate) const STDERR_BYTES: &str = "__STDERR_BYTES__";
pub(crate) const CPU_SECONDS: &str = "__CPU_SECONDS__";
pub(crate) const MAX_RSS_KB: &str = "__MAX_RSS_KB__";
pub(crate) const REAPED: &str = "__REAPED__";
pub(crate) const BY_ITSELF: &str = "__BY_ITSELF__";
pub(crate) const RAN_SECONDS: &str = "__RAN_SECONDS__";
pub(crate) const LOSSES: &str = "__LOSSES__";
pub(crate) const SUBMIT_TIME: &str = "__SUBMIT_TIME__";
pub(crate) const DISPATCH_TIME: &str = "__DISPATCH_TIME__";
pub(crate) const PREPARE_TIME: &str = "__PREPARE_TIME__";
pub(crate) const RUN_TIME: &str = "__RUN_TIME__";
pub(crate) const END_TIME: &str = "__END_TIME__";
pub(crate) const FINISH_TIME: &str = "__FINISH_TIME__";
pub(crate) const KILLED: &str = "__KILLED__";
pub(crate) const KILL_TIME: &str = "__KILL_TIME__";
pub(crate) const KILLED_BY: &str = "__KILLED_BY__";
pub(crate) const END_OF_LIFE_TIME: &str = "__END_OF_LIFE_TIME__";
pub(crate) const HEARD_TIME: &str = "__HEARD_TIME__";
pub(crate) const GRAPH_ID: &str = "__GRAPH_ID__";
pub(crate) const STEP: &str = "__STEP__";
pub(crate) const ROLE: &str = "__ROLE__";
pub(crate) const PORT: &str = "__PORT__";
pub(crate) const PARTITION: &str = "__PARTITION__";
pub(crate) const INPUTS: &str = "__INPUTS__";
pub(crate) const OUTPUTS: &str = "__OUTPUTS__";
pub(crate) const GRACE: &str = "__GRACE__";
pub(crate) const PROVIDED: &str = "__PROVIDED__";
pub(crate) const LOCATION: &str = "__LOCATION__";
pub(crate) const TOLD_TO_FINISH: &str = "__TOLD_TO_FINISH__";

/// The fields of tasks of steps, which a submitter cannot use.
pub(crate) const OF_STEPS: [&str; 11] =
    [GRAPH_ID, STEP, ROLE, PORT, PARTITION, INPUTS, OUTPUTS, GRACE, PROVIDED, LOCATION, TOLD_TO_FINISH];

use crate::types::{IncidentKind, Outcome, Phase, RoundEnd, RoundOutcome, Stream};

/// The word for a phase: the value of `__STATUS__`.
#[must_use]
pub const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "WAITING",
        Phase::Dispatched => "DISPATCHED",
        Phase::Preparing => "PREPARING",
        Phase::Running => "RUNNING",
        Phase::Ended => "ENDED",
        Phase::Finished => "FINISHED",
    }
}

/// The phase with this word.
#[must_use]
pub fn phase_of(word: &str) -> Option<Phase> {
    Phase::ALL.into_iter().find(|&candidate| phase(candidate) == word)
}

/// The word for an outcome: the value of `__OUTCOME__`.
#[must_use]
pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Succeeded => "SUCCEEDED",
        Outcome::Failed => "FAILED",
        Outcome::TimedOut => "TIMED_OUT",
        Outcome::Expired => "EXPIRED",
        Outcome::Killed => "KILLED",
        Outcome::Lost => "LOST",
        Outcome::Skipped => "SKIPPED",
    }
}

/// The outcome with this word.
#[must_use]
pub fn outcome_of(word: &str) -> Option<Outcome> {
    Outcome::ALL.into_iter().find(|&candidate| outcome(candidate) == word)
}

/// The word for an output: the value of `__STREAM__`.
#[must_use]
pub const fn stream(stream: Stream) -> &'static str {
    match stream {
        Stream::Stdout => "STDOUT",
        Stream::Stderr => "STDERR",
        Stream::Report => "REPORT",
    }
}

/// The output with this word.
#[must_use]
pub fn stream_of(word: &str) -> Option<Stream> {
    Stream::ALL.into_iter().find(|&candidate| stream(candidate) == word)
}

/// The word for the end of a round in the history.
#[must_use]
pub const fn round_outcome(end: RoundOutcome) -> &'static str {
    match end {
        RoundOutcome::Ended(end) => outcome(end),
        RoundOutcome::Deferred => "DEFERRED",
        RoundOutcome::Returned => "RETURNED",
        RoundOutcome::NoTool => "NO_TOOL",
        RoundOutcome::DiskFull => "DISK_FULL",
        RoundOutcome::NotHere => "NOT_HERE",
    }
}

/// The end of a round with this word.
#[must_use]
pub fn round_outcome_of(word: &str) -> Option<RoundOutcome> {
    RoundOutcome::ALL.into_iter().find(|&candidate| round_outcome(candidate) == word)
}

/// The word for a kind of incidents.
#[must_use]
pub const fn incident(kind: IncidentKind) -> &'static str {
    match kind {
        IncidentKind::Started => "STARTED",
        IncidentKind::Stopped => "STOPPED",
        IncidentKind::Crashed => "CRASHED",
        IncidentKind::AgentLost => "AGENT_LOST",
        IncidentKind::AgentBack => "AGENT_BACK",
        IncidentKind::Refused => "REFUSED",
        IncidentKind::PushDropped => "PUSH_DROPPED",
        IncidentKind::GateClosed => "GATE_CLOSED",
        IncidentKind::HistoryLag => "HISTORY_LAG",
        IncidentKind::StoreTrouble => "STORE_TROUBLE",
        IncidentKind::Paused => "PAUSED",
        IncidentKind::StoreWell => "STORE_OK",
        IncidentKind::RestartFailed => "RESTART_FAILED",
        IncidentKind::Reloaded => "RELOADED",
        IncidentKind::SlotsHeld => "SLOTS_HELD",
        IncidentKind::CutOff => "CUT_OFF",
        IncidentKind::StoreFromElsewhere => "STORE_FROM_ELSEWHERE",
        IncidentKind::Outdated => "OUTDATED",
        IncidentKind::ClockSkew => "CLOCK_SKEW",
    }
}

/// The kind of incidents with this word.
#[must_use]
pub fn incident_of(word: &str) -> Option<IncidentKind> {
    IncidentKind::ALL.into_iter().find(|&candidate| incident(candidate) == word)
}

const ROUND_ENDS: [(RoundEnd, &str); 9] = [
    (RoundEnd::Failed, "FAILED"),
    (RoundEnd::TimedOut, "TIMED_OUT"),
    (RoundEnd::Lost, "LOST"),
    (RoundEnd::Deferred, "DEFERRED"),
    (RoundEnd::Returned, "RETURNED"),
    (RoundEnd::Retried, "RETRIED"),
    (RoundEnd::NoTool, "NO_TOOL"),
    (RoundEnd::DiskFull, "DISK_FULL"),
    (RoundEnd::NotHere, "NOT_HERE"),
];

/// The word for the end of a round that was not the last one.
#[must_use]
pub fn round_end(end: RoundEnd) -> &'static str {
    ROUND_ENDS.iter().find(|(known, _)| *known == end).map_or("", |(_, word)| word)
}

/// The end of a round with this word.
#[must_use]
pub fn round_end_of(word: &str) -> Option<RoundEnd> {
    ROUND_ENDS.iter().find(|(_, known)| *known == word).map(|(end, _)| *end)
}

/// What people call the operation with this name: that of commands and that of fetched programs have names that are no tool's.
#[must_use]
pub fn people(tool: &str) -> &str {
    tool.strip_prefix(':').unwrap_or(tool)
}

/// Splits the name of a field of a past round.
#[must_use]
pub fn split_round(name: &str) -> Option<(u32, &str)> {
    let (round, name) = name.split_once(':')?;
    let digits = !round.is_empty() && round.bytes().all(|byte| byte.is_ascii_digit());
    if digits { Some((round.parse().ok()?, name)) } else { None }
}

/// Whether a submitted field of this name would forge a past round.
#[must_use]
pub fn is_of_a_round(name: &str) -> bool {
    split_round(name).is_some_and(|(_, name)| name.starts_with("__"))
}

#[cfg(test)]
pub(crate) use of_policies::*;

/// Fields of a policy that only tests name. [`crate::types::Policy::FIELDS`] has them all.
#[cfg(test)]
mod of_policies {
    pub(crate) const MAX_LOSSES: &str = "__MAX_LOSSES__";
    pub(crate) const LOST_AFTER: &str = "__LOST_AFTER__";
    pub(crate) const TIMEOUT: &str = "__TIMEOUT__";
    pub(crate) const MAX_FAILS: &str = "__MAX_FAILS__";
    pub(crate) const MAX_TIMEOUTS: &str = "__MAX_TIMEOUTS__";
    pub(crate) const MAX_DEFERS: &str = "__MAX_DEFERS__";
    pub(crate) const RETRY_DELAY: &str = "__RETRY_DELAY__";
    pub(crate) const PRIORITY: &str = "__PRIORITY__";
}
