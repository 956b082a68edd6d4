//! `llts-bench` measures the service on this machine, each thing beside its floor or beside what people use, in the same run.
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
//! | [`arguments`], [`show`] | the command line, and the table |
//!
//! # How a start is timed
//!
//! `run.sh` itself says when its first and its last instruction ran: bash has the wall clock as `$EPOCHREALTIME`, in
//! microseconds, without starting a program, and what the tool writes to `report.log` comes back with the result. The floor is
//! the same `run.sh`, started by `posix_spawn` from here, so that what bash itself takes is on both sides.

mod arguments;
mod case;
mod crowd;
mod echo;
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
mod show;
mod stock;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use llts::config::{Config, Transport};
use llts::shell::clock;
use llts::shell::signals::{STOP, Signals};

use arguments::{Arguments, Measurement, Part};
use case::Case;
use error::BenchError;
use place::{Machine, Place, cores};
use row::{Measured, Row, Unit};
use samples::Spread;
use show::Report;

/// As shells have it for a program that SIGINT has ended.
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
        note("TMPDIR is in memory, where nothing has to reach a disk: set it to a folder on the disk that is meant");
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
        Part::Echo { transport, answer_bytes } => echo::serve(transport.transports()[0], answer_bytes),
        Part::Agents { count: 1 } => crowd::serve_one(&load(file)?),
        Part::Agents { count } => crowd::serve_many(&load(file)?, count),
    };
    match served {
        // The end of its standard input, or a signal, is how a part ends.
        Err(BenchError::Interrupted) => Ok(()),
        served => served,
    }
}

fn load(file: &Path) -> Result<Config, BenchError> {
    let loaded = Config::load(Some(file), None).map_err(|error| BenchError::Unexpected(error.to_string()));
    loaded.map(|(config, _)| config)
}

/// Tells people something, beside the results on stdout.
fn note(sentence: &str) {
    // Without a stderr the sentence has no reader.
    let _ = writeln!(io::stderr(), "llts-bench: {sentence}");
}

/// What to measure with.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The configuration file: what it says of everything but places holds for the services.
    pub(crate) config: PathBuf,
    /// The transports of controller and agents.
    pub(crate) transports: Vec<Transport>,
    /// Tasks of the throughput; other numbers go with it.
    pub(crate) tasks: usize,
    /// Rounds of each case.
    pub(crate) rounds: usize,
    /// Agents, where a case does not say how many.
    pub(crate) agents: u16,
    /// Tiny numbers, to see that everything works; they say nothing about speed.
    pub(crate) quick: bool,
}

/// What a case has at hand.
pub(crate) struct Bench<'a> {
    /// What to measure with.
    pub(crate) plan: &'a Plan,
    /// Where tools and files of rivals are.
    pub(crate) place: &'a Place,
    /// A signal ends the measurement.
    pub(crate) signals: &'a mut Signals,
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
pub(crate) const fn transport_word(transport: Transport) -> &'static str {
    match transport {
        Transport::Own => "own",
        Transport::Zmq => "zmq",
    }
}
