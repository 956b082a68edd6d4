//! The arguments of `llts-bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand};
use service::supervisor::AGENTS_MAX;

use crate::echo::Echo;
use crate::{Case, Plan, cores};

/// Default number of tasks of the throughput case, and of the quick measurement.
const TASKS: usize = 5_000;
const TASKS_QUICK: usize = 20;

const ROUNDS: usize = 3;

/// Measures the service on this machine, each case next to its lower bound or an established program, and prints one table
#[derive(Debug, Parser)]
#[command(name = "llts-bench", version, after_help = after_help(), max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Configuration file of the services. ./config.toml is not read, so that every machine measures the same by default
    #[arg(long, global = true, value_name = "FILE", default_value = "/dev/null", hide_default_value = true)]
    pub(crate) config: PathBuf,
    #[command(subcommand)]
    pub(crate) part: Option<Part>,
    #[command(flatten)]
    pub(crate) measurement: Measurement,
}

#[derive(Args, Debug)]
pub(crate) struct Measurement {
    /// What to measure [default: everything]
    #[arg(value_name = "CASE", value_parser = case(), hide_possible_values = true)]
    pub(crate) cases: Vec<Case>,
    /// Tasks of the throughput [default: 5000]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    tasks: Option<usize>,
    /// Number of rounds; the table shows the median, the minimum and the maximum [default: 3]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: Option<usize>,
    /// Number of agents, where a case does not set it [default: one per core]
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u16>::new().range(1..=u64::from(AGENTS_MAX)))]
    agents: Option<u16>,
    /// Also write the results as JSON; - is stdout and replaces the table
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Very small numbers, to check that everything works: the results say nothing about speed
    #[arg(long)]
    quick: bool,
}

fn case() -> impl clap::builder::TypedValueParser<Value = Case> {
    let find = |name: String| Case::ALL.into_iter().find(|case| case.name() == name);
    PossibleValuesParser::new(Case::ALL.map(Case::name)).try_map(move |name| find(name).ok_or("no such case"))
}

fn after_help() -> String {
    let width = Case::ALL.iter().map(|case| case.name().len()).max().unwrap_or_default();
    let lines = Case::ALL.iter().map(|case| format!("  {:width$}  {}\n", case.name(), case.about()));
    format!(
        "Starts services of its own in the folder for temporary files (TMPDIR), which must be on the disk to be measured.\n\
         The whole measurement takes some minutes. A target that is missed is no failure; a case that cannot be measured is. Cases:\n{}",
        lines.collect::<String>()
    )
}

impl Measurement {
    /// The settings of the measurement; `config` is the configuration of the services.
    pub(crate) fn plan(&self, config: PathBuf) -> Plan {
        let cores = u16::try_from(cores()).unwrap_or(AGENTS_MAX).min(AGENTS_MAX);
        Plan {
            config,
            tasks: self.tasks.unwrap_or(if self.quick { TASKS_QUICK } else { TASKS }),
            rounds: self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS }),
            agents: self.agents.unwrap_or(cores),
            quick: self.quick,
        }
    }
}

/// A process that a case needs beside the service: a rival, or simulated agents. It ends with its standard input.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Part {
    /// Answers every message
    #[command(name = "serve-echo", hide = true)]
    Echo {
        /// The sockets that answer
        #[arg(long, value_enum)]
        of: Echo,
        /// Bytes of each answer
        #[arg(long)]
        answer_bytes: usize,
    },
    /// Agents without processes
    #[command(name = "serve-agents", hide = true)]
    Agents {
        /// Number of agents
        #[arg(long)]
        count: usize,
    },
    /// A tool that stays
    #[command(name = "serve-tasks", hide = true)]
    Tasks,
}
