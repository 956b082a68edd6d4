//! `llts-bench` measures the service on this machine, each case next to its lower bound or an established program, in the
//! same run.
//!
//! A [`Case`] starts services of its own (controller and agents as processes, the store on disk), measures in rounds that
//! alternate between the service and its rival, and returns [`Row`]s: the median over the rounds with the minimum and the
//! maximum, the same for the rival, their ratio, and the goal. Machines differ and are noisy; ratios of one run are not.
//!
//! | module | content |
//! |---|---|
//! | [`case`] | a file for each case: its measurement, its rival, and its goal |
//! | [`mod@load`] | the load generator: one thread, one connection, one wait |
//! | [`requester`] | REQ sockets of libzmq, as in users' programs |
//! | [`service`] | an ephemeral service and its processes |
//! | [`namespace`] | a Redis with a namespace of TDF, and its components |
//! | [`meter`] | processor time and memory of processes |
//! | [`floor`] | lower bounds without a service: processes, the disk |
//! | [`part`], [`echo`], [`simulated_agents`] | rivals and simulated agents, in processes of their own |
//! | [`stock`] | a store with many waiting tasks, made before the service starts |
//! | [`samples`], [`row`] | from numbers to rows |
//! | [`arguments`], [`show`] | the command line, and the table |
//!
//! # How a start is timed
//!
//! `run.sh` itself reports the times of its first and its last instruction: bash has the wall clock as `$EPOCHREALTIME`, in
//! microseconds, without starting a program, and the tool's `report.log` is returned with the result. The lower bound is
//! the same `run.sh`, started by `posix_spawn` from here, so that the time of bash itself is on both sides.

mod arguments;
mod case;
mod echo;
mod error;
mod floor;
mod latency;
mod load;
mod meter;
mod namespace;
mod part;
mod place;
mod requester;
mod row;
mod samples;
mod service;
mod show;
mod simulated_agents;
mod stock;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use api::config::Config;
use clap::Parser as _;
use proc::clock;
use proc::signals::{STOP, Signals};

use arguments::{Arguments, Measurement, Part};
use case::Case;
use error::BenchError;
use place::{Machine, Place, cores};
use row::{Measured, Row, Unit};
use samples::Spread;
use show::Report;

/// As shells report a program that SIGINT has ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let Arguments { config: file, part, measurement } = Arguments::parse();
    let result = match part {
        None => measure(file, &measurement),
        Some(part) => run_part(&file, part).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(BenchError::Interrupted) => {
            note("interrupted");
            INTERRUPTED.into()
        }
        Err(error) => {
            note(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn measure(file: PathBuf, wanted: &Measurement) -> Result<ExitCode, BenchError> {
    // Before any thread is started.
    let mut signals = Signals::install(&STOP).map_err(BenchError::io("wait for signals"))?;
    let plan = wanted.plan(file);
    let place = Place::new(&load(&plan.config)?)?;
    let machine = Machine::here(place.folder());
    if machine.is_in_memory {
        note("TMPDIR is in memory, so no write has to reach a disk: set it to a folder on the disk to be measured");
    }
    let cases = if wanted.cases.is_empty() { &Case::ALL } else { wanted.cases.as_slice() };
    let mut report = Report { machine, at: clock::now().wall, is_quick: plan.quick, rows: Vec::new() };
    for case in cases {
        note(&format!("measuring {}: {}", case.name(), case.about()));
        let mut bench = Bench { plan: &plan, place: &place, signals: &mut signals };
        for row in case.run(&mut bench)? {
            if let Row::Failed(case, why) = &row {
                note(&format!("{}: {why}", case.name()));
            }
            report.rows.push(row);
        }
    }
    report.print(wanted.json.as_deref())?;
    let has_failed = report.rows.iter().any(|row| matches!(row, Row::Failed(..)));
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn run_part(file: &Path, part: Part) -> Result<(), BenchError> {
    let served = match part {
        Part::Tasks => case::warm::serve(),
        Part::Echo { of, answer_bytes } => echo::serve(of, answer_bytes),
        Part::Agents { count: 1 } => simulated_agents::serve_one(&load(file)?),
        Part::Agents { count } => simulated_agents::serve_many(&load(file)?, count),
    };
    match served {
        // A part ends normally with the end of its standard input, or by a signal.
        Err(BenchError::Interrupted) => Ok(()),
        served => served,
    }
}

fn load(file: &Path) -> Result<Config, BenchError> {
    let loaded = Config::load(Some(file), None).map_err(|error| BenchError::Unexpected(error.to_string()));
    loaded.map(|(config, _)| config)
}

/// Prints a message for people, beside the results on stdout.
fn note(sentence: &str) {
    // Without a stderr the message has no reader.
    let _ = writeln!(io::stderr(), "llts-bench: {sentence}");
}

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The configuration file: its values apply to the services, except paths and addresses.
    pub(crate) config: PathBuf,
    /// The number of tasks of the throughput case; other numbers are derived from it.
    pub(crate) tasks: usize,
    /// The number of rounds of each case.
    pub(crate) rounds: usize,
    /// The number of agents, where a case does not set it.
    pub(crate) agents: u16,
    /// Very small numbers, to check that everything works; the results say nothing about speed.
    pub(crate) quick: bool,
}

/// The environment of a case.
pub(crate) struct Bench<'a> {
    /// The settings of the measurement.
    pub(crate) plan: &'a Plan,
    /// The folder of tools and of the files of rivals.
    pub(crate) place: &'a Place,
    /// A signal ends the measurement.
    pub(crate) signals: &'a mut Signals,
}

impl Bench<'_> {
    /// One of two numbers: for the full measurement, or for the quick one.
    const fn pick<T: Copy>(&self, full: T, quick: T) -> T {
        if self.plan.quick { quick } else { full }
    }

    /// Waits, unless a signal comes.
    fn pause(&mut self, duration: Duration) -> Result<(), BenchError> {
        part::wait_readable(&[], Some(duration), self.signals).map(drop)
    }
}
