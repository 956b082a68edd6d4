//! TASK/ROWS: tasks as rows of a table for people, in pages. A row has the work of a task, its state and the reason of it, but
//! not its fields and outputs.

use std::time::Duration;

use super::history::SortKey;
use super::{Ask, Filter, Kind, Reader, Request, words};
use crate::wire::client::{ReplyError, Selector, decode_parts, view};
use crate::wire::page::{PageBytes, PageOf};
use crate::wire::typed::{field, moment, truth};
use crate::wire::{Narrowing, brief, task, what};
use base::code::Refusal;
use base::json::ObjectWriter;
use base::{ExitCode, Fields, Holdup, Phase, RoundOutcome, ShownState, StateCounts, TaskId, TaskRecord, Wall};

/// Tasks as rows, in pages.
pub const TASK_ROWS: Kind = Kind::question("TASK/ROWS", |mut reader| {
    let page = reader.page()?;
    let order = Order {
        by: reader.sort()?.unwrap_or_default(),
        is_reversed: truth(&reader.fields, words::REVERSE)? == Some(true),
    };
    let narrowing = reader.narrowing()?;
    for name in [words::SORT, words::REVERSE].into_iter().chain(NARROWING) {
        reader.fields.remove(name);
    }
    Ok(Request::TaskRows(Filter::new(&reader.fields), Box::new((narrowing, order)), page))
});

/// The fields of a [`Narrowing`].
const NARROWING: [&str; 6] = [words::STATES, words::TEXT, words::SINCE, words::UNTIL, words::LETTERS, words::LONGER];

/// The order of rows. By default, the newest task comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The rows with the largest value of this key come first.
    pub by: SortKey,
    /// The smallest come first instead.
    pub is_reversed: bool,
}

/// A row: a task with data that its record does not contain.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// The task.
    pub record: TaskRecord,
    /// The cause of the delay, if it waits.
    pub holdup: Option<Holdup>,
    /// The run time that most tasks of its job, or of its tool, did not exceed.
    pub usual: Option<Duration>,
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsPage {
    /// The rows.
    pub rows: Vec<TaskRow>,
    /// The numbers of all tasks that match, by their states.
    pub states: StateCounts,
    /// The moment of the answer.
    pub now: Wall,
    /// The position of the page.
    pub page: PageOf,
}

impl Reader<'_> {
    /// The letters at the end of an id.
    pub(super) fn letters(&self) -> Result<Option<[u8; TaskId::SUFFIX_LEN]>, Refusal> {
        let wanted = format_args!("the {} letters at the end of an id", TaskId::SUFFIX_LEN);
        field(&self.fields, words::LETTERS, wanted, |value| value.as_text()?.as_bytes().try_into().ok())
    }

    fn narrowing(&self) -> Result<Narrowing, Refusal> {
        let fields = &self.fields;
        let known = ShownState::ALL.map(ShownState::word).join(", ");
        let wanted = format_args!("words out of {known}, separated by commas");
        let states = field(fields, words::STATES, wanted, |value| {
            value.as_text()?.split(',').map(ShownState::of_word).collect()
        })?;
        let text = field(fields, words::TEXT, "a text", |value| value.as_text().map(str::to_lowercase))?;
        Ok(Narrowing {
            states: states.unwrap_or_default(),
            text,
            since: moment(fields, words::SINCE)?,
            until: moment(fields, words::UNTIL)?,
            letters: self.letters()?,
            runs_longer: truth(fields, words::LONGER)?.unwrap_or_default(),
            sees_commands: false,
        })
    }
}

/// Conditions of a client beside equal fields, and the order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowsAsk {
    /// The conditions.
    pub narrowing: Narrowing,
    /// Their order.
    pub order: Order,
    /// The name of the tool.
    pub tool: Option<String>,
    /// The agent.
    pub agent: Option<String>,
}

/// Requests rows. The controller may return fewer than `limit`: request the next page from there.
#[must_use]
pub fn rows(selector: &Selector, wanted: &RowsAsk, offset: u64, limit: u64) -> Ask<Rows> {
    let RowsAsk { narrowing, order, tool, agent } = wanted;
    let mut ask = Ask::new(TASK_ROWS.word, decode).matching(selector);
    ask = ask.with(words::OFFSET, offset).with(words::LIMIT, limit);
    ask = ask.with(words::SORT, order.by.word()).with(words::REVERSE, order.is_reversed);
    if !narrowing.states.is_empty() {
        let states: Vec<_> = narrowing.states.iter().map(|state| state.word()).collect();
        ask = ask.with(words::STATES, states.join(","));
    }
    let letters = narrowing.letters.as_ref().and_then(|letters| std::str::from_utf8(letters).ok());
    let texts = [
        (words::TEXT, narrowing.text.as_deref()),
        (words::LETTERS, letters),
        (words::OPERATION, tool.as_deref()),
        (words::AGENT_ID, agent.as_deref()),
    ];
    for (name, text) in texts {
        ask = text.into_iter().fold(ask, |ask, text| ask.with(name, text));
    }
    for (name, moment) in [(words::SINCE, narrowing.since), (words::UNTIL, narrowing.until)] {
        ask = moment.into_iter().fold(ask, |ask, moment| ask.with(name, moment.unix_seconds()));
    }
    if narrowing.runs_longer { ask.with(words::LONGER, true) } else { ask }
}

/// The fields of a task that a row has.
const FIELDS: [&str; 18] = [
    words::TASK_ID,
    words::STATUS,
    words::ROUND,
    words::SUBMIT_TIME,
    words::AGENT_ID,
    words::AGENT_IP,
    words::DISPATCH_TIME,
    words::RUN_TIME,
    words::END_TIME,
    words::FINISH_TIME,
    words::NOT_BEFORE,
    words::HELD_TIME,
    words::KILL_TIME,
    words::OUTCOME,
    words::REASON,
    words::EXIT_CODE,
    words::PROGRESS,
    words::PROGRESS_TEXT,
];

/// Writes the answer.
pub(in crate::wire) fn write(page: &RowsPage, page_bytes: PageBytes, writer: &mut ObjectWriter<'_>) {
    writer.moment(words::TIME, page.now);
    write_states(&page.states, writer);
    page.page.write(&page.rows, "tasks", page_bytes, writer, |row, writer| {
        writer.object(&row.record.id.to_string(), |writer| write_row(row, writer));
    });
}

pub(in crate::wire) fn write_states(states: &StateCounts, writer: &mut ObjectWriter<'_>) {
    states.by_state().for_each(|(state, count)| writer.literal(state.word(), count));
}

pub(in crate::wire) fn read_states(fields: &Fields) -> StateCounts {
    let mut states = StateCounts::default();
    for state in ShownState::ALL {
        let count = fields.count(state.word()).and_then(|count| usize::try_from(count).ok());
        states.set(state, count.unwrap_or_default());
    }
    states
}

pub(in crate::wire) fn write_row(row: &TaskRow, writer: &mut ObjectWriter<'_>) {
    let TaskRow { record, holdup, usual } = row;
    task::write_some(record, &FIELDS, writer);
    writer.text(words::OPERATION, record.tool.as_str());
    writer.maybe_text(words::JOB, record.membership().map(|job| job.name.as_str()));
    writer.maybe_text(words::GIVEN_ID, task::given_id_text(record).as_deref());
    writer.text(words::WHAT, &what::of(record));
    writer.maybe_text(words::WHY, brief::why(record, holdup.as_ref()));
    writer.maybe(words::USUAL, usual.map(|usual| usual.as_secs_f64()));
}

view! {
    /// A row of a table of tasks.
    RowView {
        /// Id of the task.
        id: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// The name of its tool, or of the operation that stands for a command.
        tool: &str = |fields| fields.text(words::OPERATION).unwrap_or_default();
        /// The word for its phase.
        status: &str = |fields| fields.text(words::STATUS).unwrap_or_default();
        /// The number of its round, from 0.
        round: u64 = |fields| fields.count(words::ROUND).unwrap_or_default();
        /// The word for its outcome.
        outcome: Option<&str> = |fields| fields.text(words::OUTCOME);
        /// Since when it is held.
        held_at: Option<Wall> = |fields| fields.moment(words::HELD_TIME);
        /// If it waits: the time before which it does not start.
        not_before: Option<Wall> = |fields| fields.moment(words::NOT_BEFORE);
        /// The time at which it was accepted.
        submitted_at: Option<Wall> = |fields| fields.moment(words::SUBMIT_TIME);
        /// The time at which an agent got it.
        dispatched_at: Option<Wall> = |fields| fields.moment(words::DISPATCH_TIME);
        /// The time at which its program was started.
        run_at: Option<Wall> = |fields| fields.moment(words::RUN_TIME);
        /// The time at which its program ended.
        ended_at: Option<Wall> = |fields| fields.moment(words::END_TIME);
        /// The time at which it finished.
        finished_at: Option<Wall> = |fields| fields.moment(words::FINISH_TIME);
        /// The agent that has or had it.
        agent: &str = |fields| fields.text(words::AGENT_ID).unwrap_or_default();
        /// The address of its agent's machine, if that is not the controller's.
        host: &str = |fields| fields.text(words::AGENT_IP).unwrap_or_default();
        /// Its job.
        job: &str = |fields| fields.text(words::JOB).unwrap_or_default();
        /// The id that its submitter chose.
        given_id: &str = |fields| fields.text(words::GIVEN_ID).unwrap_or_default();
        /// Its work, in one line.
        what: &str = |fields| fields.text(words::WHAT).unwrap_or_default();
        /// The cause of its wait, or the last line of its stderr, or the reason of its end.
        why: &str = |fields| fields.text(words::WHY).unwrap_or_default();
        /// The reason of its end, where that is more than an exit code.
        reason: &str = |fields| fields.text(words::REASON).unwrap_or_default();
        /// The run time, in seconds, that most tasks of its job or tool did not exceed.
        usual: Option<Duration> = |fields| {
            Duration::try_from_secs_f64(fields.get(words::USUAL)?.as_f64()?).ok()
        };
    }
}

impl RowView {
    /// Its state. An unknown word counts as the state of a waiting task.
    #[must_use]
    pub fn state(&self) -> ShownState {
        let outcome = self.outcome().and_then(words::round_outcome_of);
        let outcome = outcome.and_then(|end| if let RoundOutcome::Ended(outcome) = end { Some(outcome) } else { None });
        let phase = words::phase_of(self.status()).unwrap_or(Phase::Waiting);
        ShownState::new(phase, outcome, self.held_at().is_some())
    }

    /// The exit code of its run, if there is one.
    #[must_use]
    pub fn exit_code(&self) -> Option<ExitCode> {
        let code = self.fields().get(words::EXIT_CODE)?.as_i64()?;
        i32::try_from(code).ok().map(ExitCode)
    }
}

/// A page of rows, as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The number of all tasks that match.
    pub total: u64,
    /// Their numbers by state.
    pub states: StateCounts,
    /// The moment of the answer, by the clock of the controller.
    pub now: Wall,
    /// The rows of the page.
    pub rows: Vec<RowView>,
}

fn decode(frame: &[u8]) -> Result<Rows, ReplyError> {
    let (head, rows) = decode_parts(frame)?;
    Ok(Rows {
        total: head.count(words::TOTAL).unwrap_or_default(),
        states: read_states(&head),
        now: head.moment(words::TIME).unwrap_or_default(),
        rows: rows.into_iter().map(|(_, row)| row.into()).collect(),
    })
}
