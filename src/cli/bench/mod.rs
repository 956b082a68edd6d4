//! `llts bench`: measures this machine, each case beside its floor or beside what people use, and prints one table.
//!
//! What is measured is [`crate::shell::bench`]'s concern; how it is shown, [`show`]'s.

mod show;

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser as _};
use clap::{Args, Subcommand, ValueEnum};

use super::Session;
use super::exit::{self, Failure};
use super::output::note;
use crate::config::Transport;
use crate::shell::bench::{Bench, BenchError, Case, Machine, Place, Plan, Row, crowd, echo};
use crate::shell::clock;
use crate::shell::signals::{STOP, Signals};
use crate::shell::supervisor::AGENTS_MAX;

use show::Report;

/// Tasks of the throughput, where nobody says how many; a few in the quick measurement.
const TASKS: usize = 5_000;
const TASKS_QUICK: usize = 20;

const ROUNDS: usize = 3;

#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(super) struct BenchArgs {
    /// What to measure [default: everything]
    #[arg(value_name = "CASE", value_parser = case(), hide_possible_values = true)]
    cases: Vec<Case>,
    /// Tasks of the throughput [default: 5000]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    tasks: Option<usize>,
    /// Rounds, of which the table shows the middle one, the least and the greatest [default: 3]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: Option<usize>,
    /// Agents, where a case does not say how many [default: one for each core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u16>::new().range(1..=u64::from(AGENTS_MAX)))]
    agents: Option<u16>,
    /// What carries the messages of controller and agents
    #[arg(long, value_enum, value_name = "own|zmq|both", hide_possible_values = true, default_value_t = Over::Both)]
    transport: Over,
    /// Write the results as JSON, too; - is stdout, in place of the table
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
    /// The table as Markdown, with the machine and the command
    #[arg(long)]
    markdown: bool,
    /// Tiny numbers, to see that everything works: they say nothing about speed
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Over {
    Own,
    Zmq,
    Both,
}

impl Over {
    fn transports(self) -> Vec<Transport> {
        match self {
            Self::Own => vec![Transport::Own],
            Self::Zmq => vec![Transport::Zmq],
            Self::Both => vec![Transport::Own, Transport::Zmq],
        }
    }
}

fn case() -> impl clap::builder::TypedValueParser<Value = Case> {
    let find = |name: String| Case::ALL.into_iter().find(|case| case.name() == name);
    PossibleValuesParser::new(Case::ALL.map(Case::name)).try_map(move |name| find(name).ok_or("no such case"))
}

fn after_help() -> String {
    let width = Case::ALL.iter().map(|case| case.name().len()).max().unwrap_or_default();
    let lines = Case::ALL.iter().map(|case| format!("  {:width$}  {}\n", case.name(), case.about()));
    format!(
        "Hosts services of its own in the folder for temporary files (TMPDIR), which must be on the disk that is meant.\n\
         The whole measurement takes some minutes. A target that is missed is no failure; a case that cannot be measured is. Cases:\n{}",
        lines.collect::<String>()
    )
}

pub(super) fn run(session: &mut Session, args: &BenchArgs) -> Result<u8, Failure> {
    // Before any thread is started.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let place = Place::new(&session.config).map_err(Failure::failed)?;
    let plan = plan(session, args);
    let machine = Machine::here(place.folder());
    if machine.is_in_memory {
        note("TMPDIR is in memory, where nothing has to reach a disk: set it to a folder on the disk that is meant");
    }
    let cases = if args.cases.is_empty() { &Case::ALL } else { args.cases.as_slice() };
    let mut report = Report { machine, at: clock::now().wall, is_quick: plan.quick, rows: Vec::new() };
    for case in cases {
        note(&format!("measuring {}: {}", case.name(), case.about()));
        let mut bench = Bench { plan: &plan, place: &place, signals: &mut signals };
        let interrupted = |_| Failure::new(exit::INTERRUPTED, "interrupted; what was started is being ended");
        for row in case.run(&mut bench).map_err(interrupted)? {
            if let Row::Failed(case, why) = &row {
                note(&format!("{}: {why}", case.name()));
            }
            report.rows.push(row);
        }
    }
    report.print(&mut session.out, args.json.as_deref(), args.markdown)?;
    let has_failed = report.rows.iter().any(|row| matches!(row, Row::Failed(..)));
    Ok(if has_failed { exit::FAILED } else { 0 })
}

fn plan(session: &Session, args: &BenchArgs) -> Plan {
    let cores = u16::try_from(crate::shell::bench::cores()).unwrap_or(AGENTS_MAX).min(AGENTS_MAX);
    Plan {
        config: session.config_file(),
        transports: args.transport.transports(),
        tasks: args.tasks.unwrap_or(if args.quick { TASKS_QUICK } else { TASKS }),
        rounds: args.rounds.unwrap_or(if args.quick { 1 } else { ROUNDS }),
        agents: args.agents.unwrap_or(cores),
        quick: args.quick,
    }
}

/// A rival, or simulated agents; ends with its standard input.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(super) enum PartArgs {
    /// Answers every message
    Echo {
        /// What carries the messages
        #[arg(long, value_enum)]
        transport: Over,
        /// Bytes of each answer
        #[arg(long)]
        answer_bytes: usize,
    },
    /// Agents without processes
    Agents {
        /// How many
        #[arg(long)]
        count: usize,
    },
}

pub(super) fn run_part(session: &Session, part: PartArgs) -> Result<u8, Failure> {
    let served = match part {
        PartArgs::Echo { transport, answer_bytes } => echo::serve(transport.transports()[0], answer_bytes),
        PartArgs::Agents { count: 1 } => crowd::serve_one(&session.config),
        PartArgs::Agents { count } => crowd::serve_many(&session.config, count),
    };
    match served {
        // Whoever has started it has heard enough.
        Ok(()) | Err(BenchError::Interrupted) => Ok(0),
        Err(error) => Err(Failure::failed(error)),
    }
}
