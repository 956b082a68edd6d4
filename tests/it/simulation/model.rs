//! The messages to the outside and the runs that really took place, and the promises that follow from them. Panics when one
//! is broken.

use std::collections::{BTreeMap, BTreeSet};

use base::json::FieldLimits;
use base::{
    AgentId, ExitCode, Fields, KillCause, Outcome, Phase, Round, RoundEnd, Scalar, TaskId, TaskRecord, TaskState, json,
};
use engine::Record;

use crate::simulation::controller::Told;
use crate::simulation::dice::Nanos;
use crate::simulation::graphs::GraphModel;
use crate::simulation::plan::Plan;
use crate::simulation::rules::Rules;
use crate::simulation::runs::Run;

pub(crate) type Disk = BTreeMap<TaskId, TaskRecord>;

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) runs: BTreeMap<u64, Run>,
    pub(crate) active: BTreeSet<u64>,
    pub(crate) rounds: BTreeMap<(TaskId, Round), Vec<u64>>,
    pub(crate) prepared: u64,
    /// Submits whose answer has reached the client.
    pub(crate) accepted: BTreeSet<TaskId>,
    /// Kills whose answer has reached the client, with the round of that moment.
    pub(crate) killed: BTreeMap<TaskId, Round>,
    /// Results whose confirmation has reached the agent.
    pub(crate) confirmed: BTreeSet<(TaskId, Round)>,
    /// Runs that their agents have ended because of their leases.
    pub(crate) given_up: BTreeSet<(TaskId, Round)>,
    pub(crate) finished_pushes: BTreeMap<TaskId, (i64, String)>,
    /// The tasks that submits with a key were answered with, by the submit.
    keyed: BTreeMap<usize, TaskId>,
    /// Those of them that were new.
    new: BTreeSet<TaskId>,
    /// Submits that were refused because the store was in trouble, and never repeated.
    refused: BTreeSet<u64>,
    pub(crate) rules: Rules,
    pub(crate) graphs: GraphModel,
    /// Whether a run that is to end is told so in time.
    pub(crate) prompt: bool,
    /// `__SEQ__`, round and phase of the last push.
    pushes: BTreeMap<TaskId, (i64, i64, Phase)>,
    /// Round and phase that the last answer to a query showed.
    shown: BTreeMap<TaskId, (Round, Phase)>,
    /// The rounds that could not be handed out.
    never_sent: BTreeSet<(TaskId, Round)>,
    /// Dispatches that left, and whose record died with the controller.
    pub(crate) unrecorded: BTreeSet<(TaskId, Round, AgentId)>,
    /// The same of kills: the next controller may not know why such a run has ended.
    unrecorded_kills: BTreeSet<(TaskId, Round)>,
    /// Runs of which their agent knows that they are not wanted.
    pub(crate) fenced: BTreeSet<(usize, TaskId, Round)>,
    /// Agents that died while they had the present round of a task.
    pub(crate) deaths: BTreeMap<TaskId, u32>,
    /// The agents that the controller has heard of.
    pub(crate) heard: BTreeSet<AgentId>,
    /// The controller was cut off while it knew a single one of several agents.
    pub(crate) knows_too_few: bool,
    /// Whether no agent has any trouble, so that no run is ever repeated.
    pub(crate) gentle: bool,
    /// From here on two rounds of a task never overlap.
    pub(crate) calm_since: Option<Nanos>,
    /// Runs of one round of one task beyond the first, each by a lost dispatch.
    pub(crate) repeated_rounds: u32,
}

impl Model {
    pub(crate) fn new(plan: &Plan) -> Self {
        let rules = Rules::new(plan.special.clone(), plan.is_steady());
        Self { gentle: plan.is_gentle(), prompt: plan.is_prompt(), rules, ..Self::default() }
    }

    /// README.md, promise 1.
    pub(crate) fn controller_started(&mut self, disk: &Disk) {
        self.rules.controller_started(disk);
        for task in &self.accepted {
            assert!(disk.contains_key(task), "the accepted task {task} is lost");
        }
        for (task, round) in &self.killed {
            check_kill(&disk[task], *round);
        }
    }

    pub(crate) fn accepted(&mut self, task: TaskId, disk: &Disk) {
        assert!(disk.contains_key(&task), "task {task} is accepted before it is stored");
        assert!(self.accepted.insert(task), "task {task} is accepted twice");
    }

    /// A submit with a key was answered; true for its first answer.
    pub(crate) fn keyed(&mut self, request: usize, task: TaskId, duplicate: bool) -> bool {
        let first = *self.keyed.entry(request).or_insert(task);
        assert_eq!(first, task, "submit {request} has made two tasks");
        assert!(duplicate || self.new.insert(task), "task {task} is new twice");
        !self.accepted.contains(&task)
    }

    /// A submit was refused for good.
    pub(crate) fn refused(&mut self, submit: &[u8]) {
        self.refused.extend(request_of(submit));
    }

    /// A submit with a key makes one task, however often it is sent, and none when it was refused.
    pub(crate) fn check_keys(&self, disk: &Disk) {
        let mut tasks: BTreeMap<u64, TaskId> = BTreeMap::new();
        for record in disk.values() {
            let submitted = format!("{{{}}}", record.submitted);
            let Some(request) = request_of(submitted.as_bytes()) else { continue };
            // The run of a submit that the store could not take may have begun before the refusal. It is ended then, and one that is
            // eager may even have ended by itself. A task that has ended without a run does no harm.
            let is_ended = record.phase() == Phase::Finished
                && (record.policy.eager
                    || record.last_run().is_none() && record.past.is_empty()
                    || record.kill.as_ref().is_some_and(|kill| kill.cause == KillCause::Unstored));
            let is_refused = self.refused.contains(&request) && !is_ended;
            assert!(!is_refused, "the refused submit {request} has made {}", record.id);
            if let Some(other) = tasks.insert(request, record.id) {
                panic!("submit {request} has made two tasks: {other} and {}", record.id);
            }
        }
    }

    pub(crate) fn kill_confirmed(&mut self, task: TaskId, disk: &Disk) {
        let record = &disk[&task];
        if is_retried(record) {
            return;
        }
        check_kill(record, record.round);
        self.killed.entry(task).or_insert(record.round);
    }

    pub(crate) fn looked_up(task: TaskId, answer: &Fields) {
        let text = |name| answer.get(name).and_then(Scalar::as_text);
        assert_eq!(text("__TASK_ID__"), Some(task.to_string().as_str()));
    }

    /// Checks what replaces what.
    pub(crate) fn committed(&mut self, disk: &Disk, record: &Record) {
        let record = match record {
            Record::Put(record) => record,
            Record::Round(..)
            | Record::Gate(..)
            | Record::Drained(..)
            | Record::Job(..)
            | Record::Graph(..)
            | Record::GraphEntry(..) => {
                return;
            }
            // A submit that the store did not take, and that was refused.
            Record::Remove(task) if !disk.contains_key(task) => {
                return assert!(!self.accepted.contains(task), "the accepted task {task} is forgotten");
            }
            Record::Remove(task) => panic!("{task} is forgotten although everything is kept"),
        };
        assert!(
            record.counts.losses <= record.policy.losses_max + 1,
            "task {} is lost too often: {record:?}",
            record.id
        );
        // Its end and the order for another round may have been committed together.
        let retried = disk.get(&record.id).is_some_and(|before| {
            record.past.iter().any(|past| past.end == RoundEnd::Retried && past.round >= before.round)
        });
        if retried {
            self.killed.remove(&record.id);
        }
        if let Some(round) = self.killed.get(&record.id) {
            assert!(record.round <= *round, "task {} goes to round {} after its kill", record.id, record.round);
            check_kill(record, *round);
        }
        if let Some(before) = disk.get(&record.id) {
            assert!(before.round <= record.round, "task {} goes back to an old round", record.id);
            let finished = before.phase() == Phase::Finished && !retried;
            let told = TaskRecord { acknowledgement: record.acknowledgement, ..before.clone() };
            assert!(!finished || told == **record, "a finished task changes: {before:?} {record:?}");
            let lasting = before.kill.as_ref().filter(|kill| kill.cause.ends_the_task() && !retried);
            assert!(lasting.is_none() || before.kill == record.kill, "task {} forgets its kill", record.id);
        }
        self.check_uncalled_kill(record);
        if let TaskState::Finished { run: Some((assignment, Some(result))), .. } = &record.state
            && let Some(number) = result.report_tail.strip_prefix("run ")
        {
            let run = &self.runs[&number.trim_end().parse().expect("a number")];
            let told = (record.id, record.round, &assignment.agent, Some(result.exit_code.0));
            let true_run = (run.task, run.round, &run.name, run.exit_code);
            assert_eq!(told, true_run, "the result of task {} is that of another run", record.id);
        }
    }

    /// Where no agent has any trouble, a run that was ended by signals was to be ended.
    fn check_uncalled_kill(&self, record: &TaskRecord) {
        let failed = record.past.iter().filter(|past| past.end == RoundEnd::Failed);
        let past = failed.filter_map(|past| Some((past.round, past.result.as_ref()?)));
        let failed = matches!(record.state, TaskState::Finished { outcome: Outcome::Failed, .. });
        let last = record.result().filter(|_| failed).map(|result| (record.round, result));
        let called = |round| self.unrecorded_kills.contains(&(record.id, round));
        for (_, result) in past.chain(last).filter(|(round, _)| self.gentle && !called(*round)) {
            let ended = [ExitCode::KILLED_PREPARING, ExitCode(-15), ExitCode(-9)].contains(&result.exit_code);
            assert!(!ended, "a run of {} was ended without a request: {record:?}", record.id);
        }
    }

    /// The controller died before it could store this.
    pub(crate) fn unrecorded(&mut self, told: Told) {
        self.unrecorded.extend(told.dispatches);
        self.unrecorded_kills.extend(told.kills);
    }

    pub(crate) fn pushed(&mut self, frame: &[u8]) {
        let status = json::parse(frame, &FieldLimits::TRUSTED).expect("a push is a flat object");
        let text = |name| status.get(name).and_then(Scalar::as_text).unwrap_or_default();
        let task: TaskId = text("__TASK_ID__").parse().expect("a push names its task");
        let seq = status.get("__SEQ__").and_then(Scalar::as_i64).expect("a push has a number");
        let round = status.get("__ROUND__").and_then(Scalar::as_i64).expect("a push names its round");
        let phase = base::words::phase_of(text("__STATUS__")).expect("a push names the phase");
        let before = self.pushes.insert(task, (seq, round, phase));
        if let Some((last_seq, last_round, last_phase)) = before {
            assert!(last_seq < seq, "push {seq} of task {task} comes after {before:?}");
            let goes_on = (last_round, last_phase) <= (round, phase);
            assert!(goes_on, "{task} is pushed as {phase:?} of round {round} after {before:?}: it goes back");
        }
        let over = self.finished_pushes.get(&task).is_some_and(|(last, _)| round <= *last);
        assert!(!over, "task {task} is pushed after FINISHED");
        if text("__STATUS__") == "FINISHED" {
            self.finished_pushes.insert(task, (round, text("__OUTCOME__").to_owned()));
        }
    }

    /// A task could not be handed out: it waits again, in the round that was meant for no other agent.
    pub(crate) fn never_sent(&mut self, task: TaskId, round: Round) {
        self.never_sent.insert((task, round));
    }

    /// A state shown by a query is never undone, whatever dies.
    pub(crate) fn shown(&mut self, record: &TaskRecord) {
        let (task, shown) = (record.id, (record.round, record.shown_phase()));
        let never_sent = |(round, phase)| phase == Phase::Dispatched && self.never_sent.contains(&(task, round));
        let before = self.shown.insert(task, shown).filter(|before| !never_sent(*before));
        assert!(
            before.is_none_or(|before| before <= shown),
            "{task} is shown as {shown:?} after {before:?}: it goes back"
        );
    }

    /// No run is ended for its time before it has had it, whatever clock jumps.
    pub(crate) fn check_timeout(&self, now: Nanos, record: &Record) {
        let Record::Put(record) = record else { return };
        let timed_out = record.kill.as_ref().is_some_and(|kill| kill.cause == KillCause::TimedOut);
        let (true, Some(timeout)) = (timed_out && record.phase() == Phase::Running, record.policy.timeout) else {
            return;
        };
        let runs = self.rounds.get(&(record.id, record.round)).into_iter().flatten();
        let began = runs.filter_map(|run| self.runs.get(run)).map(|run| run.started).min();
        let lasted = began.map(|began| now - began).expect("a run that was reported");
        // Times on the wire are decimals.
        let enough = u128::from(lasted) + 1_000 >= timeout.as_nanos();
        assert!(enough, "{} of {lasted} ns takes too long, though it may take {timeout:?}", record.id);
    }

    /// Only an end is pushed again.
    pub(crate) fn pushed_again(record: &TaskRecord) {
        assert_eq!(record.phase(), Phase::Finished, "task {} is pushed again", record.id);
    }

    /// The conditions for a task when everything has come to its end.
    pub(crate) fn check_end(&self, record: &TaskRecord, every_loss_counts: bool) {
        if every_loss_counts && !is_retried(record) {
            let deaths = self.deaths.get(&record.id).copied().unwrap_or_default();
            // The controller may believe that a task of a list has not started. Its next round is in no list.
            let uncounted = u32::from(self.rules.was_ahead(record.id));
            assert!(
                deaths <= record.counts.losses + uncounted,
                "task {} has lost {deaths} agents: {record:?}",
                record.id
            );
        }
        let TaskState::Finished { outcome, .. } = &record.state else { panic!("{record:?} has not finished") };
        let outcome = base::words::outcome(*outcome);
        if let Some((round, pushed)) = self.finished_pushes.get(&record.id)
            && *round == i64::from(record.round.0)
        {
            assert_eq!(pushed, outcome, "task {} was pushed with another outcome", record.id);
        }
        for (_, round) in self.confirmed.range((record.id, Round(0))..=(record.id, Round(u32::MAX))) {
            assert!(has_result_of(record, *round), "the confirmed result of round {round} of {} is lost", record.id);
        }
    }
}

/// The number that a submit with a key has among all requests.
fn request_of(submit: &[u8]) -> Option<u64> {
    let fields = json::parse(submit, &FieldLimits::TRUSTED).expect("a flat object");
    fields.get("request").and_then(Scalar::as_u64)
}

/// Whether the result of this round is kept.
pub(crate) fn has_result_of(record: &TaskRecord, round: Round) -> bool {
    let past = record.past.iter().any(|past| past.round == round && past.result.is_some());
    past || record.phase() == Phase::Finished && record.round == round
}

/// Whether a client has requested another round of a task that had finished.
fn is_retried(record: &TaskRecord) -> bool {
    record.past.iter().any(|past| past.end == RoundEnd::Retried)
}

/// A confirmed kill is either on record or came too late.
fn check_kill(record: &TaskRecord, round: Round) {
    let late = record.phase() >= Phase::Ended;
    assert!(record.kill.is_some() || late, "the confirmed kill of {} in round {round} is lost", record.id);
    if let (TaskState::Finished { outcome, .. }, Some(kill)) = (&record.state, &record.kill) {
        // The first cause of the end counts; a run that only took too long is ended by the kill.
        let expected = match kill.cause {
            KillCause::Expired => "EXPIRED",
            KillCause::Skipped(_) => "SKIPPED",
            _ => "KILLED",
        };
        let by_itself = *outcome == Outcome::Succeeded && record.result().is_some_and(|result| result.by_itself);
        let timed_out = kill.cause == KillCause::TimedOut;
        assert!(
            timed_out || by_itself || base::words::outcome(*outcome) == expected,
            "task {}: {outcome:?}",
            record.id
        );
    }
}
