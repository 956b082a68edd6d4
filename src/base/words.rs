//! The words of the LLTS wire (docs/reference/wire.md, docs/reference/fields.md).
#![expect(missing_docs, reason = "docs/reference/fields.md explains each word")]

/// Kinds of message that are not requests, as values of `__TYPE__`. Those of requests are in `api::wire::requests`.
pub mod kind {
    /// From a receiver of pushes: confirms the end of a task.
    pub const TASK_STATUS_ACK: &str = "TASK/STATUS/ACK";
    /// Published: a task waits and no agent was parked.
    pub const TASK_INFORM: &str = "TASK/INFORM";
    /// Published: the agent that runs this task of a step must tell it to finish.
    pub const TASK_FINISH: &str = "TASK/FINISH";
    /// Pushed to `__ADDRESS__` and published: the state of a task has changed.
    pub const TASK_STATUS: &str = "TASK/STATUS";
    /// Pushed to the receivers of a job and published: its counts have changed.
    pub const JOB_STATUS: &str = "JOB/STATUS";
    /// Pushed to the address of a step graph and published: one of its steps has changed state, or the graph has ended.
    pub const GRAPH_STATUS: &str = "GRAPH/STATUS";
    /// The reply to a frame whose type could not be read.
    pub const ERROR: &str = "ERROR";
}

/// The kind of a message.
pub const TYPE: &str = "__TYPE__";
pub const CODE: &str = "__CODE__";
pub const ERROR_MSG: &str = "__ERROR_MSG__";
pub const WARNING: &str = "__WARNING__";
pub const TASK_ID: &str = "__TASK_ID__";
pub const GIVEN_ID: &str = "__GIVEN_ID__";
pub const FATHER_ID: &str = "__FATHER_ID__";
pub const OPERATION: &str = "__OPERATION__";
pub const SOURCE: &str = "__SOURCE__";
pub const SOURCE_SHA256: &str = "__SOURCE_SHA256__";
pub const SOURCE_UNCHECKED: &str = "__SOURCE_UNCHECKED__";
pub const ALLOWED_SOURCES: &str = "__ALLOWED_SOURCES__";
pub const INPUT: &str = "__INPUT__";
pub const INPUT_HEX: &str = "__INPUT_HEX__";
pub const COMMAND: &str = "__COMMAND__";
pub const SHELL: &str = "__SHELL__";
pub const CWD: &str = "__CWD__";
pub const STDIN: &str = "__STDIN__";
pub const STREAMS: &str = "__STREAMS__";
pub const UMASK: &str = "__UMASK__";
pub const ENV: &str = "__ENV__";
pub const PROGRESS: &str = "__PROGRESS__";
pub const PROGRESS_TEXT: &str = "__PROGRESS_TEXT__";
pub const PROGRESS_TIME: &str = "__PROGRESS_TIME__";
pub const EXPECTED_DURATION: &str = "__EXPECTED_DURATION__";
pub const ADDRESS: &str = "__ADDRESS__";
pub const ADDRESS_KEY: &str = "__ADDRESS_KEY__";
pub const START_AFTER: &str = "__START_AFTER__";
pub const END_BEFORE: &str = "__END_BEFORE__";
pub const EXCLUSIVE: &str = "__EXCLUSIVE__";
pub const LEASE: &str = "__LEASE__";
pub const BEAT: &str = "__BEAT__";
pub const KILL_BUDGET: &str = "__KILL_BUDGET__";
pub const UNCONFIRMED: &str = "__UNCONFIRMED__";
pub const SUBMIT_KEY: &str = "__SUBMIT_KEY__";
pub const REQUIRE_TOOL: &str = "__REQUIRE_TOOL__";
pub const DUPLICATE: &str = "__DUPLICATE__";
pub const DUPLICATES: &str = "__DUPLICATES__";
pub const TASKS: &str = "__TASKS__";
pub const TASK_IDS: &str = "__TASK_IDS__";
pub const GRAPH: &str = "__GRAPH__";
pub const NAME: &str = "__NAME__";
pub const STATE: &str = "__STATE__";
pub const SUB_INPUTS: &str = "__SUB_INPUTS__";
pub const SOURCES: &str = "__SOURCES__";
pub const TIMES: &str = "__TIMES__";
pub const INDEX: &str = "__INDEX__";
pub const COUNT: &str = "__COUNT__";
pub const JOB: &str = "__JOB__";
pub const JOB_MAX_FAILS: &str = "__JOB_MAX_FAILS__";
pub const JOB_PUSH: &str = "__JOB_PUSH__";
pub const AFTER: &str = "__AFTER__";
pub const UNMET: &str = "__UNMET__";
pub const COUNTED_FROM: &str = "__COUNTED_FROM__";
pub const STOPPED_AT: &str = "__STOPPED_AT__";
pub const RUN_P50: &str = "__RUN_P50__";
pub const RUN_P90: &str = "__RUN_P90__";
pub const RUN_P99: &str = "__RUN_P99__";
pub const WAIT_P50: &str = "__WAIT_P50__";
pub const WAIT_P90: &str = "__WAIT_P90__";
pub const WAIT_P99: &str = "__WAIT_P99__";
pub const WAITED_SECONDS: &str = "__WAITED_SECONDS__";
pub const SINCE: &str = "__SINCE__";
pub const STANDBYS: &str = "__STANDBYS__";
pub const SURVIVES: &str = "__SURVIVES__";
pub const UNTIL: &str = "__UNTIL__";
pub const PAUSED_UNTIL: &str = "__PAUSED_UNTIL__";
pub const SORT: &str = "__SORT__";
pub const REVERSE: &str = "__REVERSE__";
pub const GROUP: &str = "__GROUP__";
pub const CLOCK_AHEAD: &str = "__CLOCK_AHEAD__";
pub const INCIDENT: &str = "__INCIDENT__";
pub const TIME: &str = "__TIME__";
pub const IS_LAST: &str = "__IS_LAST__";
pub const DAMAGED: &str = "__DAMAGED__";
pub const RUN_MAX: &str = "__RUN_MAX__";
pub const GATE: &str = "__GATE__";
pub const TAGS: &str = "__TAGS__";
pub const PUSH_ACK: &str = "__PUSH_ACK__";
pub const END_SIGNAL: &str = "__END_SIGNAL__";
pub const MERGE: &str = "__MERGE__";
pub const FAIL_ON_STDERR: &str = "__FAIL_ON_STDERR__";
pub const ACK_TIME: &str = "__ACK_TIME__";
pub const ACK_GIVEN_UP_TIME: &str = "__ACK_GIVEN_UP_TIME__";
pub const FAILS: &str = "__FAILS__";
pub const TIMEOUTS: &str = "__TIMEOUTS__";
pub const DEFERS: &str = "__DEFERS__";
pub const NOT_BEFORE: &str = "__NOT_BEFORE__";
pub const HELD_TIME: &str = "__HELD_TIME__";
pub const KILL_REASON: &str = "__KILL_REASON__";
pub const KILL_CAUSE: &str = "__KILL_CAUSE__";
pub const RETRY_AFTER: &str = "__RETRY_AFTER__";
pub const UNTIL_RELEASED: &str = "__UNTIL_RELEASED__";
pub const CLOSE_GATE: &str = "__CLOSE_GATE__";
pub const ROUND_END: &str = "__ROUND_END__";
pub const ROUND_END_TIME: &str = "__ROUND_END_TIME__";
pub const LOG: &str = "__LOG__";
pub const WHY: &str = "__WHY__";
pub const WHAT: &str = "__WHAT__";
pub const USUAL: &str = "__USUAL__";
pub const STATES: &str = "__STATES__";
pub const LONGER: &str = "__LONGER__";
pub const LETTERS: &str = "__LETTERS__";
pub const START: &str = "__START__";
pub const RATE: &str = "__RATE__";
pub const OLDEST_TIME: &str = "__OLDEST_TIME__";
pub const DRAIN: &str = "__DRAIN__";
pub const DRAINED: &str = "__DRAINED__";
pub const MAX_RUNNING: &str = "__MAX_RUNNING__";
pub const MAX_STARTS: &str = "__MAX_STARTS__";
pub const INTERVAL: &str = "__INTERVAL__";
pub const RUNNING: &str = "__RUNNING__";
pub const WAITING: &str = "__WAITING__";
pub const CLOSED_UNTIL: &str = "__CLOSED_UNTIL__";
pub const STATUS: &str = "__STATUS__";
pub const ROUND: &str = "__ROUND__";
pub const SEQ: &str = "__SEQ__";
pub const AGENT_ID: &str = "__AGENT_ID__";
pub const AGENT_STATUS: &str = "__AGENT_STATUS__";
pub const AGENT_IP: &str = "__AGENT_IP__";
pub const TOOLS: &str = "__TOOLS__";
pub const OWN_VERSIONS: &str = "__OWN_VERSIONS__";
pub const TOOL_DIGEST: &str = "__TOOL_DIGEST__";
pub const TOOLS_FOLDER: &str = "__TOOLS_FOLDER__";
pub const DOUBTED: &str = "__DOUBTED__";
pub const COMPLETE: &str = "__COMPLETE__";
pub const MANIFEST: &str = "__MANIFEST__";
pub const FILES: &str = "__FILES__";
pub const IN: &str = "__IN__";
pub const OUT: &str = "__OUT__";
pub const OUT_FILES: &str = "__OUT_FILES__";
pub const OUT_NOTE: &str = "__OUT_NOTE__";
pub const OUT_IDLE: &str = "__OUT_IDLE__";
pub const STORE: &str = "__STORE__";
pub const OWN_AGENTS: &str = "__OWN_AGENTS__";
pub const FETCHING_AGENTS: &str = "__FETCHING_AGENTS__";
pub const PINNED: &str = "__PINNED__";
pub const BY: &str = "__BY__";
pub const TOOLS_GENERATION: &str = "__TOOLS_GENERATION__";
pub const RECORD_VERSION: &str = "__VERSION__";
pub const SESSION: &str = "__SESSION__";
pub const REPLACES: &str = "__REPLACES__";
pub const CONTROLLER_ID: &str = "__CONTROLLER_ID__";
/// The number of the service that a controller runs. It is made with the store.
pub const SERVICE: &str = "__SERVICE__";
/// How recent the store of that service is.
pub const EPOCH: &str = "__EPOCH__";
/// The wall clock of the controller when it answers a heartbeat.
pub const CLOCK: &str = "__CLOCK__";
/// How many seconds the clock of an agent is ahead of its controller's.
pub const SKEW: &str = "__SKEW__";
pub const PARKED: &str = "__PARKED__";
pub const WANTED: &str = "__WANTED__";
pub const WAIT: &str = "__WAIT__";
pub const SLACK: &str = "__SLACK__";
pub const LIST: &str = "__LIST__";
pub const LIST_TIME: &str = "__LIST_TIME__";
pub const LIST_STARTED: &str = "__LIST_STARTED__";
pub const AHEAD: &str = "__AHEAD__";
/// The fields of the answer with a list.
pub const OF_LISTS: [&str; 3] = [LIST, LIST_TIME, AHEAD];
pub const MATCHES: &str = "__MATCHES__";
pub const OFFSET: &str = "__OFFSET__";
pub const BEFORE: &str = "__BEFORE__";
pub const LIMIT: &str = "__LIMIT__";
pub const CURSOR: &str = "__CURSOR__";
pub const WHOLE: &str = "__WHOLE__";
pub const ENDS: &str = "__ENDS__";
pub const HINT: &str = "__HINT__";
pub const STREAM: &str = "__STREAM__";
pub const BYTES: &str = "__BYTES__";
pub const TEXT: &str = "__TEXT__";
pub const BASE64: &str = "__BASE64__";
pub const END: &str = "__END__";
pub const KEPT: &str = "__KEPT__";
pub const MISSING: &str = "__MISSING__";
pub const ASK: &str = "__ASK__";
pub const WATCH: &str = "__WATCH__";
pub const WIRE_VERSION: &str = "__WIRE_VERSION__";
pub const PROGRAM_VERSION: &str = "__PROGRAM_VERSION__";
pub const SERVING: &str = "__SERVING__";
pub const TOTAL: &str = "__TOTAL__";
pub const FREE: &str = "__FREE__";
pub const BUSY: &str = "__BUSY__";
pub const LOST: &str = "__LOST__";
pub const EXIT_CODE: &str = "__EXIT_CODE__";
pub const OUTCOME: &str = "__OUTCOME__";
pub const REASON: &str = "__REASON__";
pub const REPORT_LOG: &str = "__REPORT_LOG__";
/// The value of a task of a tool that stays, as JSON.
pub const VALUE: &str = "__VALUE__";
/// Whether a task of a tool that stays found it running; in a heartbeat, the tools that stay at the agent.
pub const WARM: &str = "__WARM__";
pub const STDOUT: &str = "__STDOUT__";
pub const STDERR: &str = "__STDERR__";
pub const REPORT_BYTES: &str = "__REPORT_BYTES__";
pub const STDOUT_BYTES: &str = "__STDOUT_BYTES__";
pub const STDERR_BYTES: &str = "__STDERR_BYTES__";
pub const CPU_SECONDS: &str = "__CPU_SECONDS__";
pub const MAX_RSS_KB: &str = "__MAX_RSS_KB__";
pub const REAPED: &str = "__REAPED__";
pub const BY_ITSELF: &str = "__BY_ITSELF__";
pub const RAN_SECONDS: &str = "__RAN_SECONDS__";
pub const LOSSES: &str = "__LOSSES__";
pub const SUBMIT_TIME: &str = "__SUBMIT_TIME__";
pub const DISPATCH_TIME: &str = "__DISPATCH_TIME__";
pub const PREPARE_TIME: &str = "__PREPARE_TIME__";
pub const RUN_TIME: &str = "__RUN_TIME__";
pub const END_TIME: &str = "__END_TIME__";
pub const FINISH_TIME: &str = "__FINISH_TIME__";
pub const KILLED: &str = "__KILLED__";
pub const KILL_TIME: &str = "__KILL_TIME__";
pub const KILLED_BY: &str = "__KILLED_BY__";
pub const END_OF_LIFE_TIME: &str = "__END_OF_LIFE_TIME__";
pub const HEARD_TIME: &str = "__HEARD_TIME__";
pub const GRAPH_ID: &str = "__GRAPH_ID__";
pub const STEP: &str = "__STEP__";
pub const ROLE: &str = "__ROLE__";
pub const PORT: &str = "__PORT__";
pub const PARTITION: &str = "__PARTITION__";
pub const INPUTS: &str = "__INPUTS__";
pub const OUTPUTS: &str = "__OUTPUTS__";
pub const GRACE: &str = "__GRACE__";
pub const PROVIDED: &str = "__PROVIDED__";
pub const LOCATION: &str = "__LOCATION__";
pub const TOLD_TO_FINISH: &str = "__TOLD_TO_FINISH__";

/// The fields of tasks of steps, which a submitter cannot use.
pub const OF_STEPS: [&str; 11] =
    [GRAPH_ID, STEP, ROLE, PORT, PARTITION, INPUTS, OUTPUTS, GRACE, PROVIDED, LOCATION, TOLD_TO_FINISH];

use crate::{IncidentKind, Outcome, Phase, RoundEnd, RoundOutcome, Stream};

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

/// The word for a kind of incident.
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
        IncidentKind::AgentDisk => "AGENT_DISK_FULL",
        IncidentKind::Leads => "LEADS",
        IncidentKind::Deposed => "DEPOSED",
    }
}

/// The kind of incident with this word.
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

/// What people call an operation. The names of the built-in ones, for commands and fetched programs, are not tool names.
#[must_use]
pub fn people(tool: &str) -> &str {
    tool.strip_prefix(':').unwrap_or(tool)
}

/// Splits the name of a field of a past round into the number of the round and the field.
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

// Some fields of policies; [`crate::Policy::FIELDS`] has all of them.
pub const MAX_LOSSES: &str = "__MAX_LOSSES__";
pub const LOST_AFTER: &str = "__LOST_AFTER__";
pub const TIMEOUT: &str = "__TIMEOUT__";
pub const MAX_FAILS: &str = "__MAX_FAILS__";
pub const MAX_TIMEOUTS: &str = "__MAX_TIMEOUTS__";
pub const MAX_DEFERS: &str = "__MAX_DEFERS__";
pub const RETRY_DELAY: &str = "__RETRY_DELAY__";
pub const PRIORITY: &str = "__PRIORITY__";
