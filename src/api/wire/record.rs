//! The record of a task as a row of the store, which can also be read with `sqlite3`.
//!
//! Data that interests people has its own columns. The rest is one flat JSON object with the names of the wire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::rules::Rules;
use super::{address, history, policy, relations, result, task_files};
use base::json::{FieldLimits, ObjectWriter};
use base::{
    Acknowledgement, AgentId, Assignment, Counts, Fields, Kill, KillCause, Lease, ListPlace, Outcome, PastRound, Phase,
    PhaseTimes, Policy, Relations, Round, RunResult, Session, TaskId, TaskRecord, TaskState, ToolName, Wall, json,
    words,
};

/// The version of [`Row::state`]. Before 1 there was no version and no policy of the task in it. Since 2, submitted fields may
/// name a job and dependencies, and since 3 the place in a step graph. In older rows such fields are ordinary parameters.
const VERSION: u32 = 3;

/// The first version whose submitted fields may name a job and dependencies.
const VERSION_WITH_RELATIONS: u64 = 2;

/// The first version whose submitted fields may name a step of a graph.
const VERSION_WITH_GRAPHS: u64 = 3;

/// The cause of a kill by the end of a step graph.
const OF_A_GRAPH: &str = "GRAPH";

/// The cause of the end of a task whose submit was refused, because it could not be stored.
const OF_THE_STORE: &str = "STORE";

/// The prefix of the names of policy fields, which distinguishes them from those of the state.
const POLICY: &str = "policy:";

/// Bytes of the state of a usual task.
const STATE_BYTES_EXPECTED: usize = 512;

/// One row. Every number fits the signed 64 bits of SQLite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The time part of the id, in microseconds: unique, and in the order of submission.
    pub micros: i64,
    /// Id of the task.
    pub id: String,
    /// The phase, as on the wire.
    pub status: String,
    /// Name of the tool.
    pub operation: String,
    /// The number of the present round.
    pub round: i64,
    /// The time of acceptance, in unix microseconds.
    pub submitted_at: i64,
    /// The submitted fields, as a JSON object.
    pub submitted: String,
    /// The rest of the record, as a flat JSON object.
    pub state: String,
}

/// A row that this program cannot have written.
#[derive(Debug, thiserror::Error)]
#[error("the row of task {id:?} has no valid {what}")]
pub struct InvalidRow {
    id: String,
    what: &'static str,
}

/// Makes rows.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The last policy, and its members. Most tasks share that of their tool.
    policy: Option<(Arc<Policy>, String)>,
}

impl Encoder {
    /// The row of a record.
    #[must_use]
    pub fn row(&mut self, record: &TaskRecord) -> Row {
        let number = |micros: u64| i64::try_from(micros).unwrap_or(i64::MAX);
        let mut state = Vec::with_capacity(STATE_BYTES_EXPECTED);
        let mut writer = ObjectWriter::new(&mut state);
        writer.literal(words::RECORD_VERSION, VERSION);
        writer.members(self.policy(&record.policy));
        write_state(record, &mut writer);
        writer.end();
        Row {
            micros: number(record.id.wall().micros()),
            id: record.id.to_string(),
            status: words::phase(record.stored_state().phase()).to_owned(),
            operation: record.tool.as_str().to_owned(),
            round: record.round.0.into(),
            submitted_at: number(record.submitted_at.micros()),
            submitted: format!("{{{}}}", record.submitted),
            state: text(state),
        }
    }

    fn policy(&mut self, policy: &Arc<Policy>) -> &str {
        let last = self.policy.take().filter(|(last, _)| Arc::ptr_eq(last, policy));
        let (_, members) = self.policy.insert(last.unwrap_or_else(|| {
            let mut members = Vec::new();
            let mut writer = ObjectWriter::of_members(&mut members);
            writer.prefixed(POLICY.to_owned(), |writer| policy::write(policy, writer));
            (Arc::clone(policy), text(members))
        }));
        members
    }
}

/// The output of an [`ObjectWriter`] as text. It is UTF-8, as only texts and numbers were written.
fn text(written: Vec<u8>) -> String {
    String::from_utf8(written).unwrap_or_default()
}

/// Whether a row contains the policy that was accepted. An older row gets the policy of the present configuration.
#[must_use]
pub fn has_terms(row: &Row) -> bool {
    members(&row.state).is_some_and(|members| json::member(members, words::RECORD_VERSION).is_some())
}

/// The text between the braces of an object.
fn members(object: &str) -> Option<&str> {
    object.strip_prefix('{')?.strip_suffix('}')
}

fn write_state(record: &TaskRecord, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::SEQ, record.pushes);
    writer.maybe_text(words::TOOL_DIGEST, record.pin.map(|pin| pin.to_string()));
    let Counts { fails, timeouts, losses, defers } = record.counts;
    for (name, count) in
        [(words::FAILS, fails), (words::TIMEOUTS, timeouts), (words::LOSSES, losses), (words::DEFERS, defers)]
    {
        if count > 0 {
            writer.literal(name, count);
        }
    }
    writer.maybe_moment(words::HELD_TIME, record.held);
    match record.acknowledgement {
        Acknowledgement::None => {}
        Acknowledgement::Received(at) => writer.moment(words::ACK_TIME, at),
        Acknowledgement::GivenUp(at) => writer.moment(words::ACK_GIVEN_UP_TIME, at),
    }
    if let Some(kill) = &record.kill {
        write_kill(kill, writer);
    }
    if record.unconfirmed && !record.is_out_of_contact() {
        writer.literal(words::UNCONFIRMED, true);
    }
    if !record.unmet.is_empty() {
        writer.text(words::UNMET, &relations::write_unmet(&record.unmet));
    }
    if let Some(run) = record.last_run() {
        history::write_run(run, writer);
        if let Some(ListPlace { list, place }) = run.ahead.as_deref() {
            writer.literal(words::LIST, list);
            writer.literal(words::AHEAD, place);
        }
    }
    if let Some(lease) = record.lease() {
        writer.literal(words::LEASE, lease.term.as_millis());
        writer.literal(words::KILL_BUDGET, lease.kill_budget.as_millis());
        writer.literal(words::SESSION, lease.session.0);
    }
    if let Some(result) = record.result() {
        result::write(result, writer);
    }
    match *record.stored_state() {
        TaskState::Waiting { not_before: Some(at) } => writer.moment(words::NOT_BEFORE, at),
        TaskState::Finished { at, outcome, .. } => {
            writer.moment(words::END_OF_LIFE_TIME, at);
            writer.text(words::OUTCOME, words::outcome(outcome));
        }
        _ => {}
    }
    history::write(record, writer);
}

fn write_kill(kill: &Kill, writer: &mut ObjectWriter<'_>) {
    writer.moment(words::KILL_TIME, kill.at);
    match &kill.cause {
        KillCause::Client(None) => {}
        KillCause::Client(Some(said)) => writer.text(words::KILL_REASON, said),
        KillCause::ParentEnded(ancestor) => writer.text(words::KILLED_BY, &ancestor.to_string()),
        KillCause::Expired => writer.text(words::KILL_CAUSE, words::outcome(Outcome::Expired)),
        KillCause::TimedOut => writer.text(words::KILL_CAUSE, words::outcome(Outcome::TimedOut)),
        KillCause::Skipped(why) => {
            writer.text(words::KILL_CAUSE, words::outcome(Outcome::Skipped));
            writer.text(words::KILL_REASON, why);
        }
        KillCause::GraphEnds(why) => {
            writer.text(words::KILL_CAUSE, OF_A_GRAPH);
            writer.text(words::KILL_REASON, why);
        }
        KillCause::Unstored => writer.text(words::KILL_CAUSE, OF_THE_STORE),
    }
}

/// Reads a row. The address is checked again, because the present configuration decides which addresses are permitted. The policy
/// is the accepted one, unless the row is too old to contain it ([`has_terms`]).
///
/// # Errors
/// Names the first part that no record can have.
pub fn decode(row: &Row, rules: &Rules) -> Result<TaskRecord, InvalidRow> {
    decode_parts(row, rules).map_err(|what| InvalidRow { id: row.id.clone(), what })
}

fn decode_parts(row: &Row, rules: &Rules) -> Result<TaskRecord, &'static str> {
    let id: TaskId = row.id.parse().map_err(|_| "id")?;
    let submitted_members = members(&row.submitted).ok_or("submitted object")?;
    let object = |text: &str, what| json::parse(text.as_bytes(), &FieldLimits::TRUSTED).map_err(|_| what);
    let submitted = object(&row.submitted, "submitted object")?;
    let state = State(object(&row.state, "state")?);
    let tool = ToolName::stored(&row.operation).map_err(|_| "operation")?;
    let relations = state.relations(&submitted)?;
    let terms = relations.as_ref().map_or(0, |relations| relations.after.len());
    let address = address::read(&submitted, rules).unwrap_or_else(|refusal| {
        log::warn!("task {id} is not pushed: {refusal}");
        None
    });
    let files = task_files::stored(&submitted);
    Ok(TaskRecord {
        id,
        policy: task_files::require(state.policy(&submitted, rules.defaults.of(&tool))?, files.as_ref()),
        tool,
        pin: state.0.text(words::TOOL_DIGEST).map(str::parse).transpose().map_err(|_| "version of the tool")?,
        files,
        submitted: submitted_members.into(),
        address: address.map(Arc::new),
        parent: submitted.text(words::FATHER_ID).and_then(|text| text.parse().ok()),
        submitted_at: Wall::from_micros(row.submitted_at.try_into().map_err(|_| "time of submission")?),
        round: Round(row.round.try_into().map_err(|_| "round")?),
        unmet: relations::read_unmet(state.0.text(words::UNMET), terms).ok_or("list of unmet terms")?,
        relations,
        counts: Counts {
            fails: state.count(words::FAILS)?,
            timeouts: state.count(words::TIMEOUTS)?,
            losses: state.count(words::LOSSES)?,
            defers: state.count(words::DEFERS)?,
        },
        pushes: state.count(words::SEQ)?,
        kill: state.kill(),
        unconfirmed: state.0.flag(words::UNCONFIRMED),
        held: state.0.moment(words::HELD_TIME),
        acknowledgement: state.acknowledgement(),
        past: state.past()?,
        agents_trusted: Wall::default(),
        state: state.state(words::phase_of(&row.status).ok_or("status")?)?,
    })
}

struct State(Fields);

impl State {
    /// A count; a missing one is 0.
    fn count(&self, name: &str) -> Result<u32, &'static str> {
        let Some(value) = self.0.get(name) else { return Ok(0) };
        value.as_u64().and_then(|count| u32::try_from(count).ok()).ok_or("count of pushes or runs")
    }

    /// The accepted policy. Tasks whose policy equals the present defaults share these.
    fn policy(&self, submitted: &Fields, defaults: &Arc<Policy>) -> Result<Arc<Policy>, &'static str> {
        if self.0.get(words::RECORD_VERSION).is_none() {
            // The accepted values may be beyond the present bounds.
            return Ok(policy::read(submitted, defaults).unwrap_or_else(|_| Arc::clone(defaults)));
        }
        let agreed = policy::restore(&self.0, POLICY).ok_or("policy")?;
        Ok(if agreed == **defaults { Arc::clone(defaults) } else { Arc::new(agreed) })
    }

    /// The job and the dependencies, unless the row is older than these fields.
    fn relations(&self, submitted: &Fields) -> Result<Option<Arc<Relations>>, &'static str> {
        let version = self.0.count(words::RECORD_VERSION).unwrap_or_default();
        if version < VERSION_WITH_RELATIONS {
            return Ok(None);
        }
        relations::restore(submitted, version >= VERSION_WITH_GRAPHS).ok_or("job or dependencies")
    }

    fn kill(&self) -> Option<Box<Kill>> {
        let at = self.0.moment(words::KILL_TIME)?;
        let said = self.0.text(words::KILL_CAUSE);
        let cause = said.and_then(words::outcome_of);
        let why = || self.0.text(words::KILL_REASON).unwrap_or_default().into();
        let ancestor = self.0.text(words::KILLED_BY).and_then(|text| text.parse().ok());
        let cause = match (cause, ancestor) {
            _ if said == Some(OF_A_GRAPH) => KillCause::GraphEnds(why()),
            _ if said == Some(OF_THE_STORE) => KillCause::Unstored,
            (Some(Outcome::Expired), _) => KillCause::Expired,
            (Some(Outcome::TimedOut), _) => KillCause::TimedOut,
            (Some(Outcome::Skipped), _) => KillCause::Skipped(why()),
            (_, Some(ancestor)) => KillCause::ParentEnded(ancestor),
            _ => KillCause::Client(self.0.text(words::KILL_REASON).map(Into::into)),
        };
        Some(Box::new(Kill { at, cause }))
    }

    fn acknowledgement(&self) -> Acknowledgement {
        let received = self.0.moment(words::ACK_TIME).map(Acknowledgement::Received);
        let given_up = || self.0.moment(words::ACK_GIVEN_UP_TIME).map(Acknowledgement::GivenUp);
        received.or_else(given_up).unwrap_or_default()
    }

    /// The rounds before the present one: fields whose names begin with the number of the round.
    fn past(&self) -> Result<Vec<PastRound>, &'static str> {
        let mut rounds: BTreeMap<u32, Fields> = BTreeMap::new();
        for (name, value) in self.0.iter() {
            if let Some((round, name)) = words::split_round(name) {
                rounds.entry(round).or_default().set(name, value.clone());
            }
        }
        rounds.into_iter().map(|(round, fields)| Self(fields).past_round(Round(round)).ok_or("past round")).collect()
    }

    fn past_round(&self, round: Round) -> Option<PastRound> {
        Some(PastRound {
            round,
            at: self.0.moment(words::ROUND_END_TIME)?,
            end: words::round_end_of(self.0.text(words::ROUND_END)?)?,
            assignment: self.assignment(),
            result: self.result().ok()?,
        })
    }

    fn state(&self, phase: Phase) -> Result<TaskState, &'static str> {
        let run = || self.assignment().ok_or("agent");
        let result = self.result()?;
        Ok(match phase {
            Phase::Waiting => TaskState::Waiting { not_before: self.0.moment(words::NOT_BEFORE) },
            Phase::Dispatched => TaskState::Dispatched(run()?),
            Phase::Preparing => TaskState::Preparing(run()?),
            Phase::Running => TaskState::Running(run()?),
            Phase::Ended => TaskState::Ended { assignment: run()?, result },
            Phase::Finished => TaskState::Finished {
                at: self.0.moment(words::END_OF_LIFE_TIME).ok_or("time of the end")?,
                outcome: self.0.text(words::OUTCOME).and_then(words::outcome_of).ok_or("outcome")?,
                run: match result {
                    Some(_) => Some((run()?, result)),
                    None => self.assignment().map(|run| (run, None)),
                },
            },
        })
    }

    fn assignment(&self) -> Option<Box<Assignment>> {
        let times = PhaseTimes {
            prepare: self.0.moment(words::PREPARE_TIME),
            run: self.0.moment(words::RUN_TIME),
            end: self.0.moment(words::END_TIME),
            finish: self.0.moment(words::FINISH_TIME),
        };
        let agent = AgentId::new(self.0.text(words::AGENT_ID)?).ok()?;
        Some(Box::new(Assignment {
            agent,
            dispatched_at: self.0.moment(words::DISPATCH_TIME)?,
            dispatched: None,
            after_commit: false,
            batch_delay: Duration::ZERO,
            times,
            lease: self.lease().map(Box::new),
            ahead: self.place_ahead().map(Box::new),
            host: self.0.text(words::AGENT_IP).and_then(|host| host.parse().ok()),
            progress: None,
        }))
    }

    fn place_ahead(&self) -> Option<ListPlace> {
        let place = u32::try_from(self.0.count(words::AHEAD)?).ok()?;
        Some(ListPlace { list: self.0.count(words::LIST)?, place })
    }

    fn lease(&self) -> Option<Lease> {
        let millis = |name| self.0.count(name).map(Duration::from_millis);
        let (term, kill_budget) = (millis(words::LEASE)?, millis(words::KILL_BUDGET)?);
        Some(Lease { term, kill_budget, session: Session(self.0.count(words::SESSION)?) })
    }

    fn result(&self) -> Result<Option<Arc<RunResult>>, &'static str> {
        result::read(&self.0).map(|result| result.map(Arc::new)).map_err(|_| "result")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rules::DefaultPolicies;
    use base::{Defer, ExitCode, FileName, KeptFile, KeptFiles, Labels, OutputBytes, RoundEnd};

    fn rules() -> Rules {
        Rules {
            limits: FieldLimits::TRUSTED,
            addresses: base::AddressPolicy::everything(),
            wait_max: std::time::Duration::ZERO,
            apply_wait_max: std::time::Duration::ZERO,
            defaults: DefaultPolicies::default(),
            submits: crate::wire::rules::SubmitLimits::DEFAULT,
            graphs: base::GraphLimits::DEFAULT,
            sources: base::AllowedSources::default(),
        }
    }

    fn record(state: TaskState) -> TaskRecord {
        let ancestor = TaskId::new(Wall::from_micros(1_700_000_000_000_001), [1; 5]);
        let submitted = Fields::new()
            .with(words::OPERATION, "t")
            .with(words::FATHER_ID, ancestor.to_string())
            .with("a", "ü\n")
            .with(words::PRIORITY, 7u32)
            .with(words::GATE, "g")
            .with(words::JOB, "j")
            .with(words::AFTER, "job:k,any:job:j,failed:job:j");
        let past = |round, end, result| PastRound {
            round: Round(round),
            at: Wall::from_micros(1_795_239_916_500_000),
            end,
            assignment: Some(assignment()),
            result,
        };
        TaskRecord {
            agents_trusted: Wall::default(),
            pin: Some(base::ToolDigest::new([7; 32])),
            files: task_files::stored(&submitted),
            id: TaskId::new(Wall::from_micros(1_795_239_916_024_113), [7; 5]),
            tool: ToolName::new("t").unwrap(),
            policy: task_files::require(
                policy::read(&submitted, &rules().defaults.tool).unwrap(),
                task_files::stored(&submitted).as_ref(),
            ),
            submitted: json::members(&submitted).into(),
            relations: relations::restore(&submitted, false).unwrap(),
            unmet: vec![0, 2],
            address: None,
            parent: Some(ancestor),
            submitted_at: Wall::from_micros(1_795_239_916_024_113),
            round: Round(2),
            counts: Counts { fails: 1, timeouts: 0, losses: 2, defers: 3 },
            pushes: 4,
            kill: Some(Box::new(Kill {
                at: Wall::from_micros(1_795_239_917_000_001),
                cause: KillCause::ParentEnded(ancestor),
            })),
            unconfirmed: true,
            held: Some(Wall::from_micros(1_795_239_917_000_002)),
            acknowledgement: Acknowledgement::GivenUp(Wall::from_micros(1_795_239_917_000_003)),
            past: vec![past(0, RoundEnd::Failed, Some(result())), past(1, RoundEnd::Lost, None)],
            state,
        }
    }

    fn assignment() -> Box<Assignment> {
        let at = |micros: u64| Some(Wall::from_micros(1_795_239_916_000_000 + micros));
        let times = PhaseTimes { prepare: at(1), run: None, end: at(3), finish: at(999_999) };
        let agent = AgentId::new("agent-1").unwrap();
        Box::new(Assignment {
            agent,
            dispatched_at: Wall::from_micros(1_795_239_916_024_114),
            dispatched: None,
            after_commit: false,
            batch_delay: Duration::ZERO,
            times,
            lease: None,
            ahead: None,
            host: Some(std::net::Ipv4Addr::new(192, 0, 2, 1).into()),
            progress: None,
        })
    }

    fn leased() -> Box<Assignment> {
        let (term, kill_budget) = (Duration::from_millis(6000), Duration::from_millis(4500));
        Box::new(Assignment {
            lease: Some(Box::new(Lease { term, kill_budget, session: Session(7) })),
            ..*assignment()
        })
    }

    fn result() -> Arc<RunResult> {
        Arc::new(RunResult {
            value: Some("{\"a\":1}".into()),
            warm: Some(true),
            exit_code: ExitCode(-129),
            error: "no such tool".to_owned(),
            report_tail: "r\n".to_owned(),
            stdout_tail: String::new(),
            stderr_tail: "\u{fffd}".to_owned(),
            output_bytes: Some(OutputBytes { report: 2, stdout: 0, stderr: u64::from(u32::MAX) + 1 }),
            cpu_seconds: 0.125,
            max_rss_kib: 8348,
            reaped: 2,
            by_itself: true,
            told_to_finish: true,
            defer: Some(Box::new(Defer {
                retry_after: Some(std::time::Duration::from_millis(1500)),
                until_released: true,
                gates: Labels::parse("g").unwrap(),
            })),
            files: Some(Box::new(KeptFiles {
                files: vec![KeptFile {
                    name: FileName::new("out/a.mp4").unwrap(),
                    digest: base::ToolDigest::new([8; 32]),
                    bytes: 3,
                    is_executable: true,
                }],
                note: "b.mp4 was not kept".to_owned(),
                idle: "no file matches".to_owned(),
            })),
        })
    }

    fn encode(record: &TaskRecord) -> Row {
        Encoder::default().row(record)
    }

    #[test]
    fn every_cause_of_a_kill_reads_back_as_itself() {
        let old = record(TaskState::Waiting { not_before: None });
        let why = || Arc::from("why");
        for cause in [
            KillCause::Client(None),
            KillCause::Client(Some(why())),
            KillCause::ParentEnded(old.id),
            KillCause::Expired,
            KillCause::TimedOut,
            KillCause::Skipped(why()),
            KillCause::GraphEnds(why()),
            KillCause::Unstored,
        ] {
            let kill = Some(Box::new(Kill { at: Wall::from_micros(1_795_239_917_000_001), cause }));
            let old = TaskRecord { kill, ..old.clone() };
            assert_eq!(decode(&encode(&old), &rules()).unwrap().kill, old.kill);
        }
    }

    /// The submitted fields hold the files, so nothing else may change them on the way.
    #[test]
    fn the_files_of_a_task_read_back_as_themselves() {
        let digest = "ab".repeat(32);
        let inputs = format!(r#"{{"sub/a b": "{digest}+x", "\u00e4\"": "{digest}"}}"#);
        let fields = Fields::new().with(words::IN, inputs.as_str()).with(words::OUT, r#"["*.mp4", "out/**"]"#);
        let old = record(TaskState::Waiting { not_before: None });
        let files = task_files::read(&fields).unwrap();
        let mut submitted = old.submitted.to_string();
        for word in [words::IN, words::OUT] {
            let text = serde_json::to_string(fields.text(word).unwrap()).unwrap();
            submitted = format!("{submitted},\"{word}\":{text}");
        }
        let policy = task_files::require(Arc::clone(&old.policy), files.as_ref());
        let old = TaskRecord { submitted: submitted.into(), files: files.clone(), policy, ..old };
        let read = decode(&encode(&old), &rules()).unwrap();
        assert_eq!(read.files, files);
        let inputs: Vec<_> = files.iter().flat_map(|files| &files.inputs).collect();
        assert_eq!(inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>(), ["sub/a b", "\u{e4}\""]);
        assert_eq!(inputs.iter().map(|input| input.is_executable).collect::<Vec<_>>(), [true, false]);
        assert_eq!(read, old);
    }

    #[test]
    fn every_state_reads_back_as_itself() {
        let at = Wall::from_micros(1_795_239_918_000_007);
        let states = [
            TaskState::Waiting { not_before: None },
            TaskState::Waiting { not_before: Some(at) },
            TaskState::Dispatched(assignment()),
            TaskState::Dispatched(leased()),
            TaskState::Dispatched(Box::new(Assignment {
                ahead: Some(Box::new(ListPlace { list: 7, place: 2 })),
                ..*assignment()
            })),
            TaskState::Preparing(assignment()),
            TaskState::Running(assignment()),
            TaskState::Ended { assignment: assignment(), result: Some(result()) },
            TaskState::Ended { assignment: assignment(), result: None },
            TaskState::Finished { at, outcome: Outcome::Failed, run: Some((assignment(), Some(result()))) },
            TaskState::Finished { at, outcome: Outcome::Lost, run: Some((assignment(), None)) },
            TaskState::Finished { at, outcome: Outcome::Lost, run: None },
        ];
        for state in states {
            let record = record(state);
            assert_eq!(decode(&encode(&record), &rules()).unwrap(), record);
        }
    }

    #[test]
    fn each_row_has_the_policy_of_its_own_record() {
        let one = record(TaskState::Waiting { not_before: None });
        let other = TaskRecord { policy: Arc::new(Policy { fails_max: 7, ..Policy::default() }), ..one.clone() };
        let mut encoder = Encoder::default();
        for record in [&one, &other, &other, &one] {
            assert_eq!(encoder.row(record), encode(record));
            assert_eq!(decode(&encoder.row(record), &rules()).unwrap(), *record);
        }
    }

    /// Independent of later defaults and bounds.
    #[test]
    fn an_accepted_task_keeps_its_terms() {
        let mut agreed = record(TaskState::Waiting { not_before: None });
        agreed.policy = Arc::new(Policy {
            start_after: Some(Wall::from_micros(1_795_239_916_000_000)),
            end_before: Some(Wall::from_micros(1_795_239_999_000_001)),
            timeout: Some(Duration::from_millis(1_500)),
            lost_after: Some(Duration::from_secs(60)),
            ahead: base::Ahead::default(),
            fails_max: u32::MAX,
            timeouts_max: 2,
            losses_max: 3,
            defers_max: 4,
            retry_delay: Duration::from_nanos(1_234_567_891),
            fail_on_stderr: true,
            priority: -100,
            needs: base::Requirements {
                gates: Labels::parse("a,b").unwrap(),
                tags: Labels::parse("c").unwrap(),
                exclusive: true,
                ..base::Requirements::default()
            },
            push_ack: true,
            end_signal: base::EndSignal::Quit,
            merge: true,
            eager: true,
        });
        let others = Arc::new(Policy { fails_max: 7, losses_max: 9, priority: 5, ..Policy::default() });
        let defaults = DefaultPolicies { tool: Arc::clone(&others), ..DefaultPolicies::default() };
        let later = Rules { defaults, ..rules() };
        assert_eq!(decode(&encode(&agreed), &later).unwrap().policy, agreed.policy);
        agreed.policy = Arc::default();
        let row = encode(&agreed);
        assert_eq!(decode(&row, &later).unwrap().policy, Arc::default(), "0 was agreed, too");
        assert!(has_terms(&row));
        agreed.policy = Arc::clone(&others);
        assert!(Arc::ptr_eq(&decode(&encode(&agreed), &later).unwrap().policy, &others));
    }

    /// The row contains no policy; and a tightened bound does not make a store unreadable.
    #[test]
    fn a_row_without_terms_takes_what_holds_now() {
        let old = record(TaskState::Waiting { not_before: None });
        let row = encode(&old);
        let start = row.state.find("\"policy:").unwrap();
        let end = row.state.find("\"__SEQ__\"").unwrap();
        let state = format!("{{{}{}", &row.state[end..start.max(end)], &row.state[end..]);
        let without = Row { state: state.replace("\"__UNMET__\":\"0,2\",", ""), ..row };
        assert!(!has_terms(&without));
        // Before there were jobs, their fields were parameters.
        assert_eq!(decode(&without, &rules()).unwrap(), TaskRecord { relations: None, unmet: vec![], ..old });
        let beyond = without.submitted.replace(":7", ":777");
        assert_ne!(beyond, without.submitted);
        assert_eq!(decode(&Row { submitted: beyond, ..without }, &rules()).unwrap().policy, Arc::default());
    }

    #[test]
    fn a_key_stays_with_its_address() {
        let submitted = Fields::new()
            .with(words::OPERATION, "t")
            .with(words::ADDRESS, "tcp://127.0.0.1:5000")
            .with(words::ADDRESS_KEY, "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID");
        let mut keyed = record(TaskState::Waiting { not_before: None });
        (keyed.policy, keyed.parent) = (rules().defaults.tool, None);
        keyed.submitted = json::members(&submitted).into();
        (keyed.relations, keyed.unmet, keyed.files) = (None, vec![], None);
        keyed.address = address::read(&submitted, &rules()).unwrap().map(Arc::new);
        assert!(keyed.address.as_ref().unwrap().key().is_some());
        let row = encode(&keyed);
        assert_eq!(decode(&row, &rules()).unwrap(), keyed);
    }

    #[test]
    fn a_row_of_another_kind_is_refused_with_what_is_wrong() {
        let good = encode(&record(TaskState::Dispatched(assignment())));
        for (change, what) in [
            (Row { id: "x".to_owned(), ..good.clone() }, "id"),
            (Row { status: "ASLEEP".to_owned(), ..good.clone() }, "status"),
            (Row { state: "{}".to_owned(), ..good.clone() }, "agent"),
            (Row { state: good.state.replace("FAILED", "SOLD"), ..good.clone() }, "past round"),
            (Row { submitted: "[]".to_owned(), ..good.clone() }, "submitted object"),
            (Row { round: -1, ..good.clone() }, "round"),
            (Row { state: good.state.replace("0,2", "0,3"), ..good.clone() }, "list of unmet terms"),
            (Row { submitted: good.submitted.replace("job:k", "job:/"), ..good.clone() }, "job or dependencies"),
        ] {
            assert_eq!(decode(&change, &rules()).unwrap_err().what, what);
        }
    }
}
