//! One tool that stays: its process, its folder, its connection.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use super::line::Line;
use super::{Identity, protocol};
use crate::process::preparation::{STDERR, STDOUT};
use crate::process::progress::PROGRESS;
use crate::workspace::TaskDir;
use base::{Mono, Round, Stay, TaskId, ToolName};
use proc::process::{ProcessId, RunningChild};

/// Bytes that a tool has written without a task, as far as they are logged.
const LATE_BYTES_MAX: usize = 1000;

/// How long the memory of a tool counts as known. To measure it costs a system call or two for each of its processes.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug)]
pub(in crate::process) struct Tool {
    /// Distinguishes it among the tools of this agent.
    pub(super) key: u64,
    pub(super) identity: Identity,
    pub(super) terms: Stay,
    /// The folder with its copy of the tool.
    pub(in crate::process) home: TaskDir,
    /// Its stdout and stderr, and the bytes in them that are known.
    outputs: [(File, u64); 2],
    pub(super) root: RunningChild,
    /// Its processes when it was ready.
    pub(super) members: Vec<ProcessId>,
    pub(super) line: Line,
    /// It has closed its connection.
    pub(super) closed: Option<Closed>,
    pub(super) state: State,
    tasks: u64,
    /// Its last task.
    pub(super) answered: Option<(TaskId, Round)>,
    /// Bytes of its processes, and when they were measured.
    memory: u64,
    measured: Mono,
}

/// A connection that the tool has closed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    /// Whether it has read everything before.
    pub(super) has_read_all: bool,
    /// Until then it should have ended, so that its exit code is known.
    pub(super) until: Mono,
}

/// The state of a tool that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has been started, and must be ready until this moment.
    Starting { until: Mono },
    /// It waits for a task.
    Idle { since: Mono },
    /// It has a task.
    Busy,
    /// Its processes end with those of the run.
    Over,
    /// It was told to end, and is killed at this moment.
    Stopping { kill_at: Mono },
}

impl Tool {
    /// A tool that was just started in its home.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn new(
        (key, identity, terms): (u64, Identity, Stay),
        home: TaskDir,
        (root, line): (RunningChild, Line),
        now: Mono,
    ) -> io::Result<Self> {
        let open = |name| home.live_output(&[], name).map(|file| (file, 0));
        let outputs = [open(STDOUT)?, open(STDERR)?];
        let state = State::Starting { until: now + terms.start_timeout };
        let (members, closed, tasks, answered, memory) = (Vec::new(), None, 0, None, 0);
        Ok(Self {
            key,
            identity,
            terms,
            home,
            outputs,
            root,
            members,
            line,
            closed,
            state,
            tasks,
            answered,
            memory,
            measured: now,
        })
    }

    pub(super) const fn name(&self) -> &ToolName {
        &self.identity.version.tool
    }

    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle { .. })
    }

    pub(super) const fn idle_since(&self) -> Option<Mono> {
        match self.state {
            State::Idle { since } => Some(since),
            State::Starting { .. } | State::Busy | State::Over | State::Stopping { .. } => None,
        }
    }

    /// Hands a task over.
    ///
    /// # Errors
    /// When it has closed its connection.
    pub(super) fn hand(&mut self, line: &[u8]) -> io::Result<()> {
        self.log_late_output();
        self.home.forget(PROGRESS);
        self.tasks += 1;
        self.state = State::Busy;
        self.line.send(line)
    }

    /// The task has ended: its outputs are complete.
    pub(super) fn end_task(&mut self, now: Mono, run: (TaskId, Round)) {
        self.answered = Some(run);
        for (file, from) in &mut self.outputs {
            *from = size(file);
        }
        self.state = State::Idle { since: now };
    }

    /// Output since the last task belongs to no task. The next one begins with empty outputs.
    fn log_late_output(&mut self) {
        for ((file, from), name) in self.outputs.iter_mut().zip([STDOUT, STDERR]) {
            let size = size(file);
            if size > *from {
                let mut bytes = vec![0; usize::try_from(size - *from).unwrap_or(usize::MAX).min(LATE_BYTES_MAX)];
                let read = file.read_at(&mut bytes, *from).unwrap_or_default();
                let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default());
                let tool = &self.identity.version.tool;
                log::info!("tool {tool} has written {} bytes to {name} without a task: {text:?}", size - *from);
            }
            if size > 0
                && let Err(error) = file.set_len(0)
            {
                log::error!("cannot empty the {name} of tool {}: {error}", self.identity.version.tool);
            }
            *from = 0;
        }
    }

    /// Asks it to end. It is killed at `kill_at` if it has not.
    pub(super) fn stop(&mut self, kill_at: Mono) {
        // An error means that it has ended already.
        let _ = self.line.send(protocol::STOP);
        self.state = State::Stopping { kill_at };
    }

    /// Why it is to end now that it has no task; `None` if it may stay.
    pub(super) fn reason_to_end(&mut self, now: Mono) -> Option<&'static str> {
        if self.terms.max_tasks.is_some_and(|max| self.tasks >= max) {
            return Some("it has had its max_tasks");
        }
        self.measure(now);
        self.terms.memory.is_some_and(|max| self.memory > max).then_some("it takes more than its memory")
    }

    fn measure(&mut self, now: Mono) {
        if self.memory == 0 || now.since(self.measured) >= MEASURE_INTERVAL {
            self.memory = self.members.iter().map(|process| process.resident_bytes()).sum();
            self.measured = now;
        }
    }

    pub(super) const fn memory(&self) -> u64 {
        self.memory
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Mono> {
        match self.state {
            State::Starting { until } => Some(self.closed.map_or(until, |closed| closed.until)),
            State::Idle { since } => Some(since + self.terms.idle),
            State::Busy => self.closed.map(|closed| closed.until),
            State::Over => None,
            State::Stopping { kill_at } => Some(kill_at),
        }
    }

    /// Whether it has ended, which is not known before SIGCHLD.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.root.try_wait(), Ok(None))
    }

    /// All that is known of its processes.
    pub(super) fn processes(&self) -> Vec<ProcessId> {
        std::iter::once(self.root.id()).chain(self.members.iter().copied()).collect()
    }
}

fn size(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}
