//! `llts up`: start a controller and agents in the background.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::Session;
use super::exit::Failure;
use super::output::note;
use super::table::Table;
use crate::shell::signals::{STOP, Signals};
use crate::shell::supervisor::{AGENTS_MAX, Launch, log_file};

/// The document's number of agents (section 4.1).
const AGENTS: u16 = 30;

#[derive(Args, Debug)]
#[command(after_help = "Returns when the controller and all agents are ready. One service runs per STATE_DIR.")]
pub(super) struct UpArgs {
    /// How many agents
    #[arg(value_name = "N", default_value_t = AGENTS, value_parser = agents())]
    agents: u16,
}

/// How many agents there may be.
fn agents() -> RangedU64ValueParser<u16> {
    RangedU64ValueParser::new().range(1..=u64::from(AGENTS_MAX))
}

pub(super) fn run(session: &mut Session, args: &UpArgs) -> Result<u8, Failure> {
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    session.check_start()?;
    session.make_home()?;
    session.end_abandoned();
    let launch = Launch {
        program: Session::program()?,
        home: session.home.folder().to_owned(),
        config: session.config_file(),
        agents: args.agents,
        guest: None,
        environment: Vec::new(),
    };
    let mut launched = launch.start().map_err(Failure::failed)?;
    let service = launched.wait_up(&mut signals, &log_file(&session.config)).map_err(Failure::failed)?;
    service.warnings.iter().for_each(|warning| note(warning));
    if session.out.is_json() {
        session.out.value(&serde_json::json!(service));
        return Ok(0);
    }
    let mut table = Table::pairs();
    table.row(["controller", &service.controller]);
    table.row(["publisher", &service.publisher]);
    if let Some(http) = &service.http {
        table.row(["http", http]);
    }
    table.row(["agents", &service.agents.to_string()]);
    session.out.table(&table);
    Ok(0)
}
