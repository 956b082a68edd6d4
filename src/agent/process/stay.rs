//! The tools that stay at this agent: started once, and given one task after the other (docs/stay.md).
//!
//! | state | event | next |
//! |---|---|---|
//! | starting | it says that it is ready | idle, and the task that it was started for is handed over |
//! | starting | `start_timeout` has passed, it ends, it says anything else | over; the task has failed |
//! | idle | a task of its version | busy |
//! | idle | `idle` has passed; a new version; another tool needs the memory; no controller for [`CONTACT_PATIENCE`]; the agent ends | stopping |
//! | idle | it says anything, closes its connection, or ends | over, which no task notices |
//! | busy | it answers the task | idle, or stopping: `max_tasks`, `memory` |
//! | busy | it answers anything else, closes its connection, or ends; a kill | over; the task has failed, and all of its processes are ended with the run |
//! | stopping | it ends; the time for that has passed, and it is killed | over |
//!
//! The processes that a tool has when it is ready are its members. They outlive a task ([`RunProcesses::keep`]); every other one that is
//! there at its end was left behind, and ends. When the tool is to end with its task, its members count as left behind, too.
//!
//! Its stdout and stderr are files in its folder, emptied before each task, so all that reads outputs finds those of the task. Output
//! between two tasks goes to the log.

mod line;
mod protocol;
mod tool;

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use crate::workspace::{TaskDir, TrashRemainder};
use api::tools::ToolVersion;
use base::{ExitCode, Mono, Round, Stay, TaskId, ToolName};
pub(super) use line::Line;
use line::Received;
use proc::clock;
use proc::files::file_stamp::FileStamp;
use proc::process::{self, ChildExit, ProcessId, RunProcesses, RunningChild};
use protocol::{Done, Said};
pub(super) use tool::Tool;
use tool::{Closed, State};

/// Idle tools end when no controller has been there for so long.
const CONTACT_PATIENCE: Duration = Duration::from_secs(20);

/// How long a tool that has closed its connection may take to end, so that its exit code is known.
const CLOSED_PATIENCE: Duration = Duration::from_secs(1);

/// The archive that a tool was unpacked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) version: ToolVersion,
    pub(super) stamp: FileStamp,
}

/// A tool that stays, unpacked and not started yet.
#[derive(Debug)]
pub(super) struct Cold {
    pub(super) identity: Identity,
    pub(super) terms: Stay,
    pub(super) home: TaskDir,
    /// Remains of older folders.
    pub(super) rest: Vec<TrashRemainder>,
}

/// News of the tool that has the present task.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    /// It takes the task now.
    Ready,
    /// It has answered.
    Done { exit_code: ExitCode, report: String, value: Option<Box<str>> },
    /// It has ended, before it has read the task or later.
    Ended { exit: ChildExit, has_read_task: bool },
    /// It does not do what it must: the end of a sentence that begins with the tool.
    Broken(String),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Stays {
    tools: Vec<Tool>,
    last_key: u64,
    /// The tool with the present task, and the task.
    current: Option<(u64, (TaskId, Round))>,
    /// `STAY_MEMORY_MAX`
    memory_max: u64,
    /// How long a tool that is told to end may take.
    stop_time: Duration,
    /// Since when there is no controller.
    alone_since: Option<Mono>,
    /// The homes of tools that have gone, to be removed.
    left: Vec<TaskDir>,
}

impl Stays {
    pub(super) fn new(memory_max: u64, stop_time: Duration) -> Self {
        let (tools, left) = (Vec::new(), Vec::new());
        Self { tools, last_key: 0, current: None, memory_max, stop_time, alone_since: None, left }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tools that a next task could find running.
    pub(super) fn warm(&self) -> BTreeSet<ToolName> {
        let stays = |tool: &&Tool| matches!(tool.state, State::Idle { .. } | State::Busy);
        self.tools.iter().filter(stays).map(|tool| tool.name().clone()).collect()
    }

    fn current(&mut self) -> Option<&mut Tool> {
        let (key, _) = self.current?;
        self.tools.iter_mut().find(|tool| tool.key == key)
    }

    fn present(&self) -> Option<&Tool> {
        let (key, _) = self.current?;
        self.tools.iter().find(|tool| tool.key == key)
    }

    /// The folder with the outputs of the present task.
    pub(super) fn home(&self) -> Option<&TaskDir> {
        self.present().map(|tool| &tool.home)
    }

    /// Takes an idle tool of this version for a task; its terms. Others of that name are outdated.
    pub(super) fn take(&mut self, identity: &Identity, run: (TaskId, Round)) -> Option<Stay> {
        let now = clock::now().mono;
        let kill_at = now + self.stop_time;
        let mut found = None;
        for tool in self.tools.iter_mut().filter(|tool| tool.is_idle() && *tool.name() == identity.version.tool) {
            if tool.identity != *identity {
                log::info!("tool {}: another version is wanted; ending the one that stays", tool.name());
                tool.stop(kill_at);
            } else if tool.has_ended() || tool.line.receive() != Received::Nothing {
                tool.stop(kill_at);
            } else {
                found = Some((tool.key, tool.terms));
            }
        }
        let (key, terms) = found?;
        self.current = Some((key, run));
        Some(terms)
    }

    /// A tool was started for a task. A process of it that waits is not known to be of the same version: its archive may be too new, or
    /// too large, to be recognised at once.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn start(
        &mut self,
        Cold { identity, terms, home, rest: _ }: Cold,
        started: (RunningChild, Line),
        run: (TaskId, Round),
    ) -> std::io::Result<()> {
        let now = clock::now().mono;
        for other in self.tools.iter_mut().filter(|tool| tool.is_idle() && *tool.name() == identity.version.tool) {
            other.stop(now + self.stop_time);
        }
        self.last_key += 1;
        let tool = Tool::new((self.last_key, identity, terms), home, started, now)?;
        self.tools.push(tool);
        self.current = Some((self.last_key, run));
        Ok(())
    }

    /// The root of the tool with the present task.
    pub(super) fn root(&self) -> Option<ProcessId> {
        self.present().map(|tool| tool.root.id())
    }

    /// Hands the present task over.
    ///
    /// # Errors
    /// When the tool has closed its connection.
    pub(super) fn hand(&mut self, folder: Option<&Path>, task: &[u8]) -> std::io::Result<()> {
        let Some((_, run)) = self.current else { return Ok(()) };
        let line = protocol::task(run, folder, task);
        self.current().map_or(Ok(()), |tool| tool.hand(&line))
    }

    /// Tells the tool to give the present task up.
    pub(super) fn cancel(&mut self) {
        let Some((_, (task, _))) = self.current else { return };
        if let Some(tool) = self.current() {
            // An error means that it has ended already.
            let _ = tool.line.send(&protocol::kill(task));
        }
    }

    /// The present task has ended, and no process is left that must not be: its tool waits for another one. `false`: it has ended with
    /// the task.
    pub(super) fn release(&mut self, stays: bool, processes: &mut RunProcesses) {
        let Some((key, run)) = self.current.take() else { return };
        let Some(at) = self.tools.iter().position(|tool| tool.key == key) else { return };
        let tool = &mut self.tools[at];
        if !stays || tool.has_ended() {
            return self.bury(at, processes);
        }
        let now = clock::now().mono;
        let kill_at = now + self.stop_time;
        tool.end_task(now, run);
        if let Some(why) = tool.reason_to_end(now) {
            log::debug!("tool {} ends: {why}", tool.name());
            tool.stop(kill_at);
        }
        self.keep_within_memory(kill_at);
    }

    /// The tool that was unused for longest goes first, and the last one stays whatever it takes.
    fn keep_within_memory(&mut self, kill_at: Mono) {
        let mut idle: Vec<(Mono, &mut Tool)> =
            self.tools.iter_mut().filter_map(|tool| Some((tool.idle_since()?, tool))).collect();
        idle.sort_by_key(|(since, _)| std::cmp::Reverse(*since));
        let mut sum = 0_u64;
        for (at, (_, tool)) in idle.iter_mut().enumerate() {
            sum = sum.saturating_add(tool.memory());
            if at > 0 && sum > self.memory_max {
                log::info!("tool {} ends: the tools that stay take {sum} bytes (STAY_MEMORY_MAX)", tool.name());
                tool.stop(kill_at);
            }
        }
    }

    /// The next news of the tool with the present task.
    pub(super) fn poll(&mut self, processes: &mut RunProcesses) -> Option<Event> {
        let now = clock::now().mono;
        let kill_at = now + self.stop_time;
        let current = self.current;
        let mut event = None;
        for tool in &mut self.tools {
            let is_current = current.is_some_and(|(key, _)| key == tool.key);
            match (tool.state, is_current) {
                (State::Starting { .. } | State::Busy, true) if tool.closed.is_none() => {
                    event = event.or_else(|| heard(tool, current.map(|(_, run)| run), now));
                }
                (State::Idle { .. }, _) => match tool.line.receive() {
                    Received::Nothing => {}
                    Received::Closed { .. } => tool.stop(kill_at),
                    Received::Line(_) | Received::TooLong => {
                        log::warn!("tool {} has answered without a task; it ends", tool.name());
                        tool.stop(kill_at);
                    }
                },
                (State::Starting { .. } | State::Busy | State::Over | State::Stopping { .. }, _) => {}
            }
        }
        if event == Some(Event::Ready)
            && let Some(tool) = self.current()
        {
            tool.members = processes.stragglers();
            processes.keep(&tool.members);
        }
        event
    }

    /// A child has ended. The end of the tool with the present task is returned.
    pub(super) fn reap(&mut self, processes: &mut RunProcesses) -> Option<Event> {
        let mut event = None;
        let mut at = 0;
        while at < self.tools.len() {
            let is_current = self.current.is_some_and(|(key, _)| key == self.tools[at].key);
            let tool = &mut self.tools[at];
            match tool.root.try_wait() {
                Ok(None) => at += 1,
                ended if is_current => {
                    let exit = ended.ok().flatten().unwrap_or(ChildExit::unused(ExitCode::PREPARE_FAILED));
                    // An answer that came before the end counts.
                    let said = heard(tool, self.current.map(|(_, run)| run), clock::now().mono);
                    let has_read_task = tool.closed.is_none_or(|closed| closed.has_read_all);
                    event = said.filter(|said| *said != Event::Ready).or(Some(Event::Ended { exit, has_read_task }));
                    at += 1;
                }
                _ => {
                    log::debug!("tool {} has ended without a task", self.tools[at].name());
                    self.bury(at, processes);
                }
            }
        }
        event
    }

    /// Ends the remaining processes of a tool without a task, and forgets it.
    fn bury(&mut self, at: usize, processes: &mut RunProcesses) {
        let tool = self.tools.swap_remove(at);
        tool.line.close();
        processes.release(&tool.members);
        process::end_all(&tool.processes());
        self.left.push(tool.home);
    }

    /// The members of the tool with the present task end with it.
    pub(super) fn condemn(&mut self, processes: &mut RunProcesses) {
        if let Some(tool) = self.current() {
            tool.line.close();
            tool.state = State::Over;
            processes.release(&tool.members);
        }
    }

    /// Whether the controller is there.
    pub(super) fn set_contact(&mut self, is_there: bool) {
        if is_there {
            self.alone_since = None;
        } else if self.alone_since.is_none() {
            self.alone_since = Some(clock::now().mono);
        }
    }

    /// The next deadline.
    pub(super) fn deadline(&self) -> Option<Mono> {
        let is_idle = self.tools.iter().any(Tool::is_idle);
        let alone = self.alone_since.filter(|_| is_idle).map(|since| since + CONTACT_PATIENCE);
        self.tools.iter().filter_map(Tool::deadline).chain(alone).min()
    }

    /// Handles all deadlines that have passed. News of the tool with the present task is returned.
    pub(super) fn handle_timeout(&mut self) -> Option<Event> {
        if self.tools.is_empty() {
            return None;
        }
        let now = clock::now().mono;
        let kill_at = now + self.stop_time;
        let is_alone = self.alone_since.is_some_and(|since| since + CONTACT_PATIENCE <= now);
        let (mut event, mut over) = (None, Vec::new());
        for (at, tool) in self.tools.iter_mut().enumerate() {
            let is_due = tool.deadline().is_some_and(|deadline| deadline <= now);
            match tool.state {
                State::Idle { .. } if is_due || is_alone => {
                    let why = if is_due { "it was idle" } else { "there is no controller" };
                    log::info!("tool {} ends: {why}", tool.name());
                    tool.stop(kill_at);
                }
                State::Starting { .. } if is_due && tool.closed.is_none() => {
                    let seconds = tool.terms.start_timeout.as_secs();
                    event = Some(Event::Broken(format!(
                        "was not ready after {seconds} s (start_timeout in its tool.toml)"
                    )));
                }
                State::Starting { .. } if is_due => {
                    event = Some(Event::Broken("has closed its connection before it was ready".to_owned()));
                }
                State::Busy if is_due => {
                    event = Some(Event::Broken("has closed its connection without an answer".to_owned()));
                }
                State::Stopping { .. } if is_due => over.push(at),
                State::Starting { .. } | State::Idle { .. } | State::Busy | State::Over | State::Stopping { .. } => {}
            }
        }
        over.into_iter().for_each(|at| self.kill(at));
        event
    }

    /// Kills a tool that was told to end; SIGCHLD tells when it has.
    fn kill(&mut self, at: usize) {
        let stop_time = self.stop_time;
        let tool = &mut self.tools[at];
        log::warn!("tool {} does not end; killing it", tool.name());
        process::end_all(&tool.processes());
        tool.state = State::Stopping { kill_at: clock::now().mono + stop_time };
    }

    /// Readable when [`Self::poll`] may have something.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let is_heard = |state| matches!(state, State::Starting { .. } | State::Idle { .. } | State::Busy);
        let listens = move |tool: &&Tool| tool.closed.is_none() && is_heard(tool.state);
        self.tools.iter().filter(listens).map(|tool| tool.line.as_fd())
    }

    /// The homes of tools that have gone since the last call.
    pub(super) fn take_left(&mut self) -> Vec<TaskDir> {
        std::mem::take(&mut self.left)
    }

    /// The agent ends, without a task: all of them end.
    pub(super) fn close(&mut self, processes: &mut RunProcesses) {
        let end = clock::now().mono + self.stop_time;
        self.tools.iter_mut().for_each(|tool| tool.stop(end));
        while !self.tools.is_empty() {
            self.reap(processes);
            let left = end.since(clock::now().mono);
            if left.is_zero() {
                (0..self.tools.len()).rev().for_each(|at| self.bury(at, processes));
            } else if let Some(tool) = self.tools.first() {
                process::wait_for_end(tool.root.id(), left);
            }
        }
    }
}

/// The next message of the tool with a task.
fn heard(tool: &mut Tool, run: Option<(TaskId, Round)>, now: Mono) -> Option<Event> {
    let line = match tool.line.receive() {
        Received::Line(line) => line,
        Received::Nothing => return None,
        Received::TooLong => {
            let max = protocol::LINE_BYTES_MAX;
            return Some(Event::Broken(format!("has written a line of more than {max} bytes")));
        }
        Received::Closed { has_read_all } => {
            // The kernel tells once that bytes were left.
            tool.closed.get_or_insert(Closed { has_read_all, until: now + CLOSED_PATIENCE });
            return None;
        }
    };
    let is_starting = matches!(tool.state, State::Starting { .. });
    Some(match protocol::read(&line) {
        Ok(Said::Ready) if is_starting => Event::Ready,
        Ok(Said::Ready) => Event::Broken("has said twice that it is ready".to_owned()),
        Ok(Said::Done(_)) if is_starting => Event::Broken("has answered before it was ready".to_owned()),
        Ok(Said::Done(done)) => answer(done, run, tool.answered),
        Err(why) => Event::Broken(why),
    })
}

fn answer(
    Done { id, round, exit_code, report, value }: Done,
    run: Option<(TaskId, Round)>,
    before: Option<(TaskId, Round)>,
) -> Event {
    let is_of = |run: Option<(TaskId, Round)>| run.is_some_and(|(task, of)| task.to_string() == id && of == round);
    if is_of(run) {
        Event::Done { exit_code, report, value }
    } else if is_of(before) {
        Event::Broken(format!("has answered the task before, {id}, a second time"))
    } else {
        Event::Broken(format!("has answered round {round} of task {id:?}, which it does not have"))
    }
}
