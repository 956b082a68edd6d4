//! Measures the service on this machine, each thing beside its floor or beside what people use, in the same run.
//!
//! A [`Case`] hosts services of its own (controller and agents as processes, the store on disk), measures in rounds that
//! alternate between the service and its rival, and gives [`Row`]s: the median over the rounds with the least and the greatest,
//! the same of the rival, their ratio, and what is to be reached. Machines differ and are noisy; ratios of one run are not.
//!
//! | part | what it is |
//! |---|---|
//! | [`case`] | a file for each case: what is measured, against what, and the goal |
//! | [`load`] | the generator of load: one thread, one connection, one wait |
//! | [`requester`] | REQ sockets of libzmq: what users' programs have |
//! | [`service`] | a hosted service and its processes |
//! | [`meter`] | processor time and memory of processes |
//! | [`floor`] | what the machine can do without a service: processes, the disk |
//! | [`part`], [`echo`], [`crowd`] | rivals and simulated agents, in processes of their own |
//! | [`stock`] | a store with many waiting tasks, made before the service starts |
//! | [`samples`], [`row`] | from numbers to rows |
//!
//! # How a start is timed
//!
//! `run.sh` itself says when its first and its last instruction ran: bash has the wall clock as `$EPOCHREALTIME`, in
//! microseconds, without starting a program, and what the tool writes to `report.log` comes back with the result. The floor is
//! the same `run.sh`, started by `posix_spawn` from here, so that what bash itself takes is on both sides.

pub mod case;
pub mod crowd;
pub mod echo;
mod error;
mod floor;
mod latency;
mod load;
mod meter;
mod part;
mod place;
mod requester;
mod row;
mod samples;
mod service;
mod stock;

use std::path::PathBuf;
use std::time::Duration;

pub use case::Case;
pub use error::BenchError;
pub use place::{Machine, Place, cores};
pub use row::{Goal, Measured, Rival, Row, Unit};
pub use samples::Spread;

use crate::config::Transport;
use crate::shell::signals::Signals;

/// What to measure with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration file, if one was named: what it says of everything but places holds for the services.
    pub config: Option<PathBuf>,
    /// The transports of controller and agents.
    pub transports: Vec<Transport>,
    /// Tasks of the throughput; other numbers go with it.
    pub tasks: usize,
    /// Rounds of each case.
    pub rounds: usize,
    /// Agents, where a case does not say how many.
    pub agents: u16,
    /// Tiny numbers, to see that everything works; they say nothing about speed.
    pub quick: bool,
}

/// What a case has at hand.
pub struct Bench<'a> {
    /// What to measure with.
    pub plan: &'a Plan,
    /// Where tools and files of rivals are.
    pub place: &'a Place,
    /// A signal ends the measurement.
    pub signals: &'a mut Signals,
}

impl Bench<'_> {
    /// A number of the full measurement, or of the quick one.
    const fn pick<T: Copy>(&self, full: T, quick: T) -> T {
        if self.plan.quick { quick } else { full }
    }

    /// Waits, unless a signal comes.
    fn pause(&mut self, duration: Duration) -> Result<(), BenchError> {
        part::wait_readable(&[], Some(duration), self.signals).map(drop)
    }
}

/// The word of the configuration for a transport.
#[must_use]
pub const fn transport_word(transport: Transport) -> &'static str {
    match transport {
        Transport::Own => "own",
        Transport::Zmq => "zmq",
    }
}
