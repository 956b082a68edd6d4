//! `llts up`: start a controller and agents in the background.

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::Session;
use super::exit::Failure;
use super::output::note;
use super::table::Table;
use crate::config::CurveClientFiles;
use crate::shell::endpoint::absolute;
use crate::shell::signals::{STOP, Signals};
use crate::shell::supervisor::{self, AGENTS_MAX, Launch, log_file};
use crate::shell::transport;

/// The document's number of agents (section 4.1).
const AGENTS: u16 = 30;

#[derive(Args, Debug)]
#[command(after_help = "Returns when the controller and all agents are ready. One service runs per STATE_DIR.")]
pub(super) struct UpArgs {
    /// Number of agents; 0 starts a controller alone, for agents of other machines
    #[arg(value_name = "N", default_value_t = AGENTS, value_parser = agents(0))]
    agents: u16,
    /// Start no controller but this many agents, of the one that --controller, --context or the configuration names
    #[arg(long, value_name = "N", conflicts_with = "agents", value_parser = agents(1))]
    agents_only: Option<u16>,
}

impl UpArgs {
    /// Whether the controller is another one.
    pub(super) const fn is_about_agents_only(&self) -> bool {
        self.agents_only.is_some()
    }
}

/// The permitted numbers of agents.
fn agents(min: u64) -> RangedU64ValueParser<u16> {
    RangedU64ValueParser::new().range(min..=u64::from(AGENTS_MAX))
}

/// Refuses what only the home of the controller has, with what can be done here.
pub(super) fn refuse_joined(session: &Session, here: &str) -> Result<(), Failure> {
    let Some(controller) = session.config.joined_controller() else { return Ok(()) };
    let home = session.home.folder().display();
    Err(Failure::usage(format!(
        "the home {home} belongs to the controller at {controller}, which has its service and its store; {here}"
    )))
}

/// The supervisor refuses it too; here the home is known by a name that holds in every folder.
fn refuse_second(session: &Session) -> Result<(), Failure> {
    let Some(holder) = supervisor::lasting_holder(&session.config.paths.state_dir) else { return Ok(()) };
    let process = holder.pid.map_or_else(|| "a process elsewhere".to_owned(), |pid| format!("process {pid}"));
    let home = session.home.folder().display();
    let sentence = format!(
        "a service already runs in the home {home} ({process}); `llts down` stops it, --home DIR names another home"
    );
    Err(Failure::failed(sentence))
}

/// The controller of agents that are started without one.
fn controller(session: &Session) -> Result<String, Failure> {
    let named = session.global.controller()?;
    let endpoint = named.unwrap_or_else(|| transport::agent_endpoint(&session.config));
    // The agents would say so one by one.
    session.config.clone().at_controller(&endpoint).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(endpoint)
}

pub(super) fn run(session: &mut Session, args: &UpArgs) -> Result<u8, Failure> {
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    if args.agents_only.is_none() {
        refuse_joined(session, "`llts up --agents-only N` starts agents for it here")?;
    }
    session.check_start()?;
    let elsewhere = args.agents_only.map(|_| controller(session)).transpose()?;
    session.make_home()?;
    session.end_abandoned();
    refuse_second(session)?;
    // The keys of a context are not in any configuration.
    let keys = session.config.network.curve_client.as_ref().filter(|_| elsewhere.is_some());
    let keys = keys.map(CurveClientFiles::variables).transpose().map_err(Failure::failed)?;
    let environment = keys.into_iter().flatten().map(|(name, file)| (name.into(), file.into())).collect();
    let launch = Launch {
        program: Session::program()?,
        home: session.home.folder().to_owned(),
        config: session.config_file(),
        agents: args.agents_only.unwrap_or(args.agents),
        elsewhere,
        ephemeral_dir: None,
        environment,
    };
    let mut launched = launch.start().map_err(Failure::failed)?;
    let service = launched.wait_up(&mut signals, &log_file(&session.config)).map_err(Failure::failed)?;
    service.warnings.iter().for_each(|warning| note(warning));
    if session.out.is_json() {
        session.out.value(&serde_json::json!(service));
        return Ok(0);
    }
    let mut table = Table::pairs();
    table.row(["controller", &absolute(&service.controller)]);
    table.row(["publisher", &service.publisher]);
    if let Some(http) = &service.http {
        table.row(["http", http]);
    }
    table.row(["agents", &service.agents.to_string()]);
    session.out.table(&table);
    Ok(0)
}
