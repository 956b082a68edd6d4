//! The answers of the controller (docs/sources/controller.md, 2, 5.1).

use std::sync::Arc;

use super::page::{PageBytes, PageOf};
use super::requests::agents::{self, AgentView};
use super::requests::apply::{self, ListTerms};
use super::requests::file::{self, FileState};
use super::requests::heartbeat::Heard;
use super::requests::history::{self, HistoryAnswer};
use super::requests::job::results::{self, EndRows};
use super::requests::logs::{self, OutputPart};
use super::requests::rows::{self, RowsPage};
use super::requests::serve::Wanted;
use super::requests::stats::{AgentCounts, TaskCounts};
use super::requests::status::{self, Part, StatusView};
use super::requests::tool::{self, ToolLogRow, ToolPart, ToolView};
use super::requests::{explain, gate, graph, job, list, query, report, submit};
use super::task;
use base::code::{Code, Refusal};
use base::json::ObjectWriter;
use base::{
    GateView, GraphId, GraphView, Holdup, JobView, Phase, Round, StepContext, StepView, TaskId, TaskRecord, ToolDigest,
    Wall, words,
};

/// One answer. Each request gets exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The request was carried out; there is no further data.
    Done,
    /// A task was accepted.
    Submitted {
        /// Id of the task.
        task: TaskId,
        /// A warning about the parts of the submit that were changed.
        warning: Option<String>,
        /// Whether it was accepted before, with the same `__SUBMIT_KEY__`.
        duplicate: bool,
    },
    /// A task was accepted, and the answer comes after its end.
    Called {
        /// The task.
        record: Box<TaskRecord>,
        /// A warning about the parts of the submit that were changed.
        warning: Option<String>,
        /// Whether it was accepted before, with the same `__SUBMIT_KEY__`.
        duplicate: bool,
    },
    /// Several tasks were accepted.
    SubmittedMany {
        /// Their ids, in the order of the request.
        tasks: Vec<TaskId>,
        /// The numbers of those that were accepted before, with the same `__SUBMIT_KEY__`.
        duplicates: Vec<usize>,
        /// A warning about the parts of the submits that were changed.
        warning: Option<String>,
    },
    /// The known data of a task.
    Task {
        /// The task.
        record: Box<TaskRecord>,
        /// The number of tasks that matched.
        matches: usize,
    },
    /// The number of tasks in each phase, and the end of the pause if the service is paused.
    Statistic(TaskCounts, Option<Wall>),
    /// Some tasks, newest first.
    Tasks {
        /// The tasks of the page.
        records: Vec<TaskRecord>,
        /// The position of the page.
        page: PageOf,
    },
    /// Some tasks as rows.
    Rows(Box<RowsPage>),
    /// The state of the service.
    Status(Box<StatusView>),
    /// Number of agents.
    AgentCounts(AgentCounts),
    /// Some agents, in the order of their ids.
    Agents {
        /// The agents of the page.
        agents: Vec<AgentView>,
        /// The position of the page.
        page: PageOf,
    },
    /// The answer to a heartbeat.
    Heartbeat(Heard),
    /// A task for an agent, with its place in its graph.
    Assigned(Box<TaskRecord>, Option<Arc<StepContext>>),
    /// Several tasks for an agent, which starts them in this order.
    AssignedList(Vec<TaskRecord>, ListTerms),
    /// The answer to a report.
    Reported {
        /// The task.
        task: TaskId,
        /// The round of the report.
        round: Round,
        /// The reported phase.
        phase: Phase,
        /// The refusal, if it was refused.
        refusal: Option<Refusal>,
    },
    /// The explanation of the present state of a task.
    Explained {
        /// The task.
        record: Box<TaskRecord>,
        /// The cause of the delay, if it waits.
        holdup: Option<Holdup>,
        /// The version of the tool in its agent's own folder, if that replaced the pinned one.
        own: Option<ToolDigest>,
    },
    /// A part of an output.
    Output(Box<OutputPart>),
    /// Finished rounds, their numbers, or incidents.
    History(Box<HistoryAnswer>),
    /// The part of an output that an agent must send.
    Wanted(Wanted),
    /// The state of a gate.
    Gate(GateView),
    /// The states of all gates.
    Gates(Vec<GateView>),
    /// The state of a job.
    Job(Box<JobView>),
    /// Ends of tasks of a job, in their order.
    Results(Box<EndRows>),
    /// Some jobs, newest first.
    Jobs {
        /// The jobs of the page.
        jobs: Vec<JobView>,
        /// The position of the page.
        page: PageOf,
    },
    /// A graph was accepted.
    GraphSubmitted {
        /// Id of the graph.
        graph: GraphId,
        /// A warning about fields that were ignored.
        warning: Option<String>,
        /// Whether it was accepted before, with the same `__SUBMIT_KEY__`.
        duplicate: bool,
    },
    /// The state of a graph.
    Graph(Box<GraphView>),
    /// Some graphs, newest first.
    Graphs {
        /// The graphs of the page.
        graphs: Vec<GraphView>,
        /// The position of the page.
        page: PageOf,
    },
    /// Some steps of a graph, in the order of its document.
    Steps {
        /// The steps of the page.
        steps: Vec<StepView>,
        /// The position of the page.
        page: PageOf,
    },
    /// A part of an archive was written, or not.
    ToolPut {
        /// Number of bytes that are there.
        end: u64,
        /// Whether the archive is complete.
        is_whole: bool,
        /// The largest part, in bytes.
        limit: u64,
        /// A warning about the name.
        warning: Option<String>,
    },
    /// A part of a file was written, or not.
    FilePut(FileState),
    /// A part of a version of a tool, or of a file.
    ToolPart(ToolPart),
    /// Some tools that the controller holds, in the order of their names.
    Tools {
        /// The tools of the page.
        tools: Vec<ToolView>,
        /// The position of the page.
        page: PageOf,
    },
    /// Everything about one tool.
    Tool(Box<ToolView>),
    /// The changes of the name of a tool, oldest first.
    ToolLog(Vec<ToolLogRow>),
    /// The tasks of a job were changed.
    Concerned {
        /// Number of changed tasks.
        count: usize,
        /// Why other tasks were left unchanged.
        warning: Option<String>,
    },
    /// A reply with an additional sentence about the present state of the service.
    Warned(Box<Self>, String),
    /// The request was refused.
    Refused(Refusal),
}

impl Reply {
    /// Removes everything that only a sender with [`base::Right::Commands`] may see. `has_command` tells whether a task has a
    /// command, if that is known.
    pub fn hide_commands(&mut self, has_command: impl FnOnce(TaskId) -> Option<bool>) {
        let answer = match self {
            Self::Warned(reply, _) => &mut **reply,
            answer => answer,
        };
        match answer {
            Self::Task { record, .. } | Self::Called { record, .. } | Self::Explained { record, .. } => {
                task::hide_command(record);
            }
            Self::Tasks { records, .. } => records.iter_mut().for_each(task::hide_command),
            Self::Rows(page) => page.rows.iter_mut().for_each(|row| task::hide_command(&mut row.record)),
            Self::Status(view) => {
                view.parts.iter_mut().filter_map(Part::row).for_each(|row| task::hide_command(&mut row.record));
            }
            Self::Results(ends) => {
                ends.rows.iter_mut().filter_map(|row| row.record.as_deref_mut()).for_each(task::hide_command);
            }
            Self::History(answer) => history::hide_commands(answer),
            Self::Output(part) if has_command(part.output.task) != Some(false) => {
                let message = "this is the output of a command, which ALLOW_COMMANDS does not let this sender see";
                *answer = Refusal::new(Code::NotAllowed, message).into();
            }
            Self::Warned(..)
            | Self::Output(_)
            | Self::Done
            | Self::Submitted { .. }
            | Self::SubmittedMany { .. }
            | Self::Statistic(..)
            | Self::AgentCounts(_)
            | Self::Agents { .. }
            | Self::Heartbeat(_)
            | Self::Assigned(..)
            | Self::AssignedList(..)
            | Self::Reported { .. }
            | Self::Wanted(_)
            | Self::Gate(_)
            | Self::Gates(_)
            | Self::Job(_)
            | Self::Jobs { .. }
            | Self::GraphSubmitted { .. }
            | Self::Graph(_)
            | Self::Graphs { .. }
            | Self::Steps { .. }
            | Self::ToolPut { .. }
            | Self::FilePut(_)
            | Self::ToolPart(_)
            | Self::Tools { .. }
            | Self::Tool(_)
            | Self::ToolLog(_)
            | Self::Concerned { .. }
            | Self::Refused(_) => {}
        }
    }
}

/// Writes a reply to a request of this kind.
#[must_use]
pub fn encode(kind: &str, reply: &Reply, page_bytes: PageBytes) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let mut writer = ObjectWriter::typed(&mut out, kind);
    match reply {
        Reply::Refused(refusal) | Reply::Reported { refusal: Some(refusal), .. } => {
            writer.literal(words::CODE, refusal.code.number());
            writer.text(words::ERROR_MSG, &refusal.message);
            writer.maybe(words::INDEX, refusal.index);
        }
        _ => writer.literal(words::CODE, 0),
    }
    write_body(reply, page_bytes, &mut writer);
    writer.end();
    out
}

fn write_body(reply: &Reply, page_bytes: PageBytes, writer: &mut ObjectWriter<'_>) {
    match reply {
        Reply::Done | Reply::Refused(_) => {}
        Reply::Warned(reply, warning) => match &**reply {
            Reply::Concerned { count, warning: Some(own) } => {
                job::write_concerned(*count, Some(&format!("{own}; {warning}")), writer);
            }
            reply => {
                write_body(reply, page_bytes, writer);
                writer.text(words::WARNING, warning);
            }
        },
        Reply::Submitted { task, warning, duplicate } => submit::write(*task, warning.as_deref(), *duplicate, writer),
        Reply::Called { record, warning, duplicate } => {
            submit::write_called(record, warning.as_deref(), *duplicate, writer);
        }
        Reply::SubmittedMany { tasks, duplicates, warning } => {
            submit::many::write(tasks, duplicates, warning.as_deref(), writer);
        }
        Reply::Job(view) => job::write(view, writer),
        Reply::Results(ends) => results::write(ends, page_bytes, writer),
        Reply::Jobs { jobs, page } => page.write(jobs, "jobs", page_bytes, writer, job::write_row),
        Reply::GraphSubmitted { graph, warning, duplicate } => {
            graph::write_submitted(*graph, *duplicate, warning.as_deref(), writer);
        }
        Reply::Graph(view) => graph::write(view, writer),
        Reply::Graphs { graphs, page } => page.write(graphs, "graphs", page_bytes, writer, graph::write_row),
        Reply::Steps { steps, page } => page.write(steps, "steps", page_bytes, writer, graph::write_step),
        Reply::ToolPut { end, is_whole, limit, warning } => {
            tool::write_put((*end, *is_whole), *limit, warning.as_deref(), writer);
        }
        Reply::FilePut(state) => file::write_state(state, writer),
        Reply::ToolPart(part) => tool::write_part(part, writer),
        Reply::Tools { tools, page } => page.write(tools, "tools", page_bytes, writer, tool::write_row),
        Reply::Tool(view) => tool::write(view, writer),
        Reply::ToolLog(rows) => tool::write_log(rows, writer),
        Reply::Concerned { count, warning } => job::write_concerned(*count, warning.as_deref(), writer),
        Reply::Task { record, matches } => query::write(record, *matches, writer),
        Reply::Explained { record, holdup, own } => explain::write(record, holdup.as_ref(), *own, writer),
        Reply::Output(part) => logs::write(part, writer),
        Reply::History(answer) => history::write(answer, page_bytes, writer),
        Reply::Wanted(wanted) => wanted.write(writer),
        Reply::Gate(gate) => gate::write(gate, writer),
        Reply::Gates(gates) => {
            writer.literal(words::TOTAL, gates.len());
            gates.iter().for_each(|gate| writer.object(gate.name.as_str(), |writer| gate::write(gate, writer)));
        }
        Reply::Statistic(counts, paused_until) => {
            counts.write(writer);
            writer.maybe_moment(words::PAUSED_UNTIL, *paused_until);
        }
        Reply::Tasks { records, page } => page.write(records, "tasks", page_bytes, writer, list::write),
        Reply::Rows(page) => rows::write(page, page_bytes, writer),
        Reply::Status(view) => status::write(view, writer),
        Reply::AgentCounts(counts) => counts.write(writer),
        Reply::Agents { agents, page } => page.write(agents, "agents", page_bytes, writer, agents::write),
        Reply::Heartbeat(heard) => heard.write(writer),
        Reply::AssignedList(tasks, terms) => apply::write_list(tasks, *terms, writer),
        Reply::Assigned(record, step) => apply::write_answer(record, step.as_deref(), writer),
        Reply::Reported { task, round, phase, .. } => report::write_answer(*task, *round, *phase, writer),
    }
}

impl From<OutputPart> for Reply {
    fn from(part: OutputPart) -> Self {
        Self::Output(Box::new(part))
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The answer to an offer of outputs that was replaced by a later one.
#[must_use]
pub fn replaced() -> Reply {
    Reply::Refused(Refusal::new(Code::NotAllowed, "a later AGENT/SERVE has replaced this one"))
}

/// The answer to an agent for which there is no task.
#[must_use]
pub fn no_task() -> Reply {
    Reply::Refused(Refusal::new(Code::NoTask, "no task waits for an agent"))
}
