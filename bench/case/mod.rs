//! The cases of the benchmark, one file each.

mod agents;
mod clients;
mod copy;
mod depth;
mod echo;
mod end;
mod idle;
mod kill;
mod memory;
mod path;
mod query;
mod restart;
mod start;
mod submit;
mod tdf;
mod throughput;
pub(crate) mod warm;

use super::{Bench, BenchError, Row};

/// A case of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Case {
    /// Short tasks per second, against xargs.
    Throughput,
    /// From the submit to the first instruction of run.sh.
    Start,
    /// From the end of run.sh to the pushes.
    End,
    /// A request of a REQ client, against an echo.
    Query,
    /// Durable submits per second, against an echo and SQLite.
    Submit,
    /// From the kill to FINISHED.
    Kill,
    /// A million waiting tasks against a thousand.
    Depth,
    /// Memory of a waiting task.
    Memory,
    /// A controller that was killed, with a million tasks.
    Restart,
    /// Thousands of agents that only send heartbeats.
    Agents,
    /// A large tool, against a copy of its files.
    Copy,
    /// A service with nothing to do.
    Idle,
    /// All messages of a task, without its process.
    Path,
    /// Pipelined messages, against libzmq.
    Echo,
    /// Eight REQ clients: the controller's cost of a request.
    Clients,
    /// Tasks in Redis, against xargs and plain commands.
    Tdf,
    /// Tasks of a tool that stays, against processes.
    Warm,
}

impl Case {
    /// All cases, in the order of the table.
    pub(crate) const ALL: [Self; 17] = [
        Self::Throughput,
        Self::Start,
        Self::End,
        Self::Query,
        Self::Submit,
        Self::Kill,
        Self::Depth,
        Self::Memory,
        Self::Restart,
        Self::Agents,
        Self::Copy,
        Self::Idle,
        Self::Path,
        Self::Echo,
        Self::Clients,
        Self::Tdf,
        Self::Warm,
    ];

    /// Its name.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Start => "start",
            Self::End => "end",
            Self::Query => "query",
            Self::Submit => "submit",
            Self::Kill => "kill",
            Self::Depth => "depth",
            Self::Memory => "memory",
            Self::Restart => "restart",
            Self::Agents => "agents",
            Self::Copy => "copy",
            Self::Idle => "idle",
            Self::Path => "path",
            Self::Echo => "echo",
            Self::Clients => "clients",
            Self::Tdf => "tdf",
            Self::Warm => "warm",
        }
    }

    /// A short description of the measurement.
    #[must_use]
    pub(crate) const fn about(self) -> &'static str {
        match self {
            Self::Throughput => "short tasks per second, against xargs on the same run.sh",
            Self::Start => "from the submit to the first instruction of run.sh, against posix_spawn",
            Self::End => "from the last instruction of run.sh to ENDED and FINISHED at the submitter",
            Self::Query => "queries of a REQ client, against an echo of libzmq",
            Self::Submit => "durable submits, 64 in flight, against an echo and SQLite alone",
            Self::Kill => "from the kill of five processes to FINISHED",
            Self::Depth => "submit and dispatch with 1,000,000 waiting tasks, against 1,000",
            Self::Memory => "memory of a waiting task with five short parameters",
            Self::Restart => "from kill -9 of a controller with 1,000,000 tasks to the first answer",
            Self::Agents => "processor time of a controller with thousands of idle agents",
            Self::Copy => "a tool of 50 MB in 500 files, against cp -r",
            Self::Idle => "processor time and memory of a controller and 30 agents with nothing to do",
            Self::Path => "submit to FINISHED through a simulated agent: messages only",
            Self::Echo => "pipelined messages, 64 and 512 in flight, against libzmq",
            Self::Clients => "processor time of the controller for a query of one of 8 REQ clients",
            Self::Tdf => "tasks in Redis: programs, claims, round trips, latencies, a long queue",
            Self::Warm => "tasks of a tool that stays, against processes",
        }
    }

    /// Runs the case. If this machine lacks something, or an error occurs, the result is a row that reports it: the other
    /// cases are still measured.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`] after a signal.
    pub(crate) fn run(self, bench: &mut Bench<'_>) -> Result<Vec<Row>, BenchError> {
        let measured = match self {
            Self::Throughput => throughput::run(bench),
            Self::Start => start::run(bench),
            Self::End => end::run(bench),
            Self::Query => query::run(bench),
            Self::Submit => submit::run(bench),
            Self::Kill => kill::run(bench),
            Self::Depth => depth::run(bench),
            Self::Memory => memory::run(bench),
            Self::Restart => restart::run(bench),
            Self::Agents => agents::run(bench),
            Self::Copy => copy::run(bench),
            Self::Idle => idle::run(bench),
            Self::Path => path::run(bench),
            Self::Echo => echo::run(bench),
            Self::Clients => clients::run(bench),
            Self::Tdf => tdf::run(bench),
            Self::Warm => warm::run(bench),
        };
        match measured {
            Ok(rows) => Ok(rows.into_iter().map(|row| Row::Measured(self, row)).collect()),
            Err(BenchError::Missing(why)) => Ok(vec![Row::Skipped(self, why)]),
            Err(BenchError::Interrupted) => Err(BenchError::Interrupted),
            Err(error) => Ok(vec![Row::Failed(self, error.to_string())]),
        }
    }
}
