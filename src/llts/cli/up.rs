//! `llts up`: start a controller and agents in the background, or change the number of agents of the service that runs.

use std::os::fd::AsFd as _;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::host;
use crate::cli::{end_abandoned, make_home};
use api::config::key_variables;
use api::transport;
use controller::store::ServerStore;
use llts_client::configured;
use proc::lock::StateLock;
use proc::signals::{STOP, Signals};
use proc::{clock, readable};
use service::supervisor;
use service::supervisor::{AGENTS_MAX, Launch, Order, RenewError, STANDBY_LOCK, Service, log_file};
use term::exit::{Failure, INTERRUPTED};
use term::output::note;
use term::session::Session;
use term::table::Table;
use zmtp::sockets::absolute;

/// The time between a standby's checks of the leader.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
#[command(after_help = "\
Returns when the controller and all agents are ready. One service runs per STATE_DIR. Where one runs already, a higher number of \
agents or --add starts more, and --remove ends some: those with the highest numbers, each as soon as it has no task. A service that \
`llts run` or `llts map` has started stays from then on, also without tasks, unless IDLE_STOP is a number.")]
pub(super) struct UpArgs {
    /// Number of agents; 0 starts a controller alone, for agents of other machines [default: one for each processor]
    #[arg(value_name = "N", value_parser = agents(0))]
    agents: Option<u16>,
    /// Start no controller but this many agents, of the one that --controller, --context or the configuration names
    #[arg(long, value_name = "N", conflicts_with = "agents", value_parser = agents(1))]
    agents_only: Option<u16>,
    /// Start this many more agents beside those that run
    #[arg(long, value_name = "N", conflicts_with_all = ["agents", "agents_only"], value_parser = agents(1))]
    add: Option<u16>,
    /// End this many of the agents that run, each as soon as it has no task
    #[arg(long, value_name = "N", conflicts_with_all = ["agents", "agents_only", "add"], value_parser = agents(1))]
    remove: Option<u16>,
    /// Wait until no service runs in the home, here or on another machine that shares it, and none of another home leads its queue
    /// in PostgreSQL; then start one
    #[arg(long, conflicts_with_all = ["agents_only", "add", "remove"])]
    standby: bool,
    /// Lead a queue in PostgreSQL although it lacks what this home has seen; what is missing is lost
    #[arg(long, conflicts_with_all = ["agents_only", "add", "remove"])]
    accept_loss: bool,
}

impl UpArgs {
    /// Whether the controller is on another machine.
    pub(super) const fn is_about_agents_only(&self) -> bool {
        self.agents_only.is_some()
    }

    /// The order for a service with this number of agents, or the reason why nothing changes.
    fn order(&self, service: &Service) -> Result<Order, String> {
        let now = service.agents;
        let max = u32::from(AGENTS_MAX);
        let wanted = match (self.agents.or(self.agents_only), self.add, self.remove) {
            (_, Some(add), _) if u32::from(now) + u32::from(add) > max => {
                return Err(format!("{now} agents run, and {add} more are above {max}, the most of one machine"));
            }
            (_, Some(add), _) => Some(now + add),
            (_, _, Some(remove)) if remove > now => {
                let now = base::counted(now, "agent");
                return Err(format!("the service has {now}, so `llts up --remove {remove}` cannot end {remove}"));
            }
            (_, _, Some(remove)) => Some(now - remove),
            // No user chose the number of agents of a service that a command started.
            (Some(wanted), ..) if wanted < now && service.idle_stop.is_none() => {
                return Err(format!(
                    "the service has {} already (process {}); `llts up --remove {}` ends {2} of them",
                    base::counted(now, "agent"),
                    service.pid,
                    now - wanted
                ));
            }
            (wanted, ..) => wanted,
        };
        Ok(Order::new(wanted.filter(|wanted| *wanted != now), service.idle_stop.is_some()))
    }
}

/// The permitted numbers of agents.
pub(super) fn agents(min: u64) -> RangedU64ValueParser<u16> {
    RangedU64ValueParser::new().range(min..=u64::from(AGENTS_MAX))
}

/// Refuses a command that needs the home of the controller, and says what to do here.
pub(super) fn refuse_joined(session: &Session, here: &str) -> Result<(), Failure> {
    let Some(controller) = session.config.joined_controller() else { return Ok(()) };
    let home = session.home.folder().display();
    Err(Failure::usage(format!(
        "the home {home} belongs to the controller at {controller}, which has its service and its store; {here}"
    )))
}

/// The address of the controller, for agents that start without one.
fn controller(session: &Session) -> Result<String, Failure> {
    let named = session.global.controller()?;
    let endpoint = named.unwrap_or_else(|| transport::agent_endpoint(&session.config));
    // Otherwise each agent would report this.
    session.config.clone().at_controller(&endpoint).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(endpoint)
}

pub(super) fn run(session: &mut Session, args: &UpArgs) -> Result<u8, Failure> {
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    if args.agents_only.is_none() && args.add.is_none() && args.remove.is_none() {
        refuse_joined(session, "`llts up --agents-only N` starts agents for it here")?;
    }
    session.check_start()?;
    let elsewhere = args.agents_only.map(|_| controller(session)).transpose()?;
    make_home(session)?;
    end_abandoned(session);
    if elsewhere.is_none() && supervisor::holder(&session.config.paths.state_dir).is_none() {
        leave_to_leader(session, args, &mut signals)?;
    }
    let (starting, running) = settled(session, args.standby, &mut signals)?;
    let service = match running {
        Some(service) => match change(session, args, &service, &mut signals) {
            // The service ended for want of work meanwhile.
            Err(_) if supervisor::holder(&session.config.paths.state_dir).is_none() => {
                start(session, args, elsewhere, &mut signals)?
            }
            changed => changed?,
        },
        None => start(session, args, elsewhere, &mut signals)?,
    };
    drop(starting);
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
    if let Some(ends) = super::host::ends(&session.config, service.idle_stop) {
        note(&ends);
    }
    Ok(0)
}

/// The running service, if there is one; other commands cannot start one meanwhile. A standby waits until none runs.
fn settled(
    session: &Session,
    is_standby: bool,
    signals: &mut Signals,
) -> Result<(StateLock, Option<Service>), Failure> {
    let state_dir = &session.config.paths.state_dir;
    loop {
        let starting = supervisor::starting(&session.config).map_err(Failure::failed)?;
        let holder = supervisor::holder(state_dir).filter(|_| is_standby);
        let Some(holder) = holder else {
            return Ok((starting, supervisor::settled(&session.config, signals).map_err(changed)?));
        };
        drop(starting);
        let home = session.home.folder().display();
        let by = holder.pid.map_or_else(String::new, |pid| format!(" (process {pid})"));
        note(&format!("a service runs in the home {home}{by}; another one starts here when it ends"));
        if !supervisor::stand_by(state_dir, signals).map_err(Failure::failed)? {
            return Err(Failure::new(INTERRUPTED, "left before the other service has ended".to_owned()));
        }
    }
}

/// Does not start a service while another home leads the queue in the server of STORE. A standby waits until none does.
fn leave_to_leader(session: &Session, args: &UpArgs, signals: &mut Signals) -> Result<(), Failure> {
    let Some(server) = &session.config.store.server else { return Ok(()) };
    let state_dir = &session.config.paths.state_dir;
    let mut store = ServerStore::open(server, state_dir).map_err(Failure::failed)?;
    if args.accept_loss {
        store.accept_loss().map_err(Failure::failed)?;
    }
    let (mut said, mut waiting) = (None, None);
    loop {
        let line = match store.other_leader(state_dir) {
            Ok(None) => {
                store.stand_by_no_more(state_dir);
                return Ok(());
            }
            // It does not come back.
            Ok(Some(leader)) if leader.is_moved() => return Err(Failure::failed(store.leads(&leader))),
            Ok(Some(leader)) if args.standby => {
                if waiting.is_none() {
                    // `llts down` finds the standby by this lock.
                    waiting = Some(StateLock::acquire(state_dir, STANDBY_LOCK).map_err(Failure::failed)?);
                }
                // The next check reports a server that does not answer.
                let _ = store.stand_by(clock::now().mono, state_dir);
                format!("{}; a service starts here when it does not any more", store.leads(&leader))
            }
            Ok(Some(leader)) => {
                let leads = store.leads(&leader);
                return Err(Failure::failed(format!("{leads}; `llts up --standby` waits here until it does not")));
            }
            // A server that restarts comes back.
            Err(error) if said.is_some() => format!("standing by: {error}"),
            Err(error) => return Err(Failure::failed(error)),
        };
        if said.as_ref() != Some(&line) {
            note(&line);
            said = Some(line);
        }
        if readable::wait([signals.as_fd()], Some(LOOK_INTERVAL))[0] {
            signals.read();
            store.stand_by_no_more(state_dir);
            return Err(Failure::new(INTERRUPTED, "left before this home could lead".to_owned()));
        }
    }
}

/// Changes the service that runs.
fn change(session: &Session, args: &UpArgs, service: &Service, signals: &mut Signals) -> Result<Service, Failure> {
    let here = session.home.folder().display();
    let order = args.order(service).map_err(|why| Failure::failed(format!("in the home {here}, {why}")))?;
    let (before, kept) = (service.agents, order.is_lasting);
    if order.agents.is_none() && !kept {
        note(&format!(
            "the service runs already (process {}); `llts up --add N` adds agents, `llts down` stops it",
            service.pid
        ));
        return Ok(service.clone());
    }
    let service = supervisor::order(&session.config, rand::random(), &order, signals).map_err(changed)?;
    if service.agents < before {
        let gone = base::counted(before - service.agents, "agent");
        note(&format!("ending {gone}, each as soon as it has no task"));
    }
    if kept && service.idle_stop.is_none() {
        note("the service stays from now on, also without tasks; `llts down` stops it");
    }
    Ok(service)
}

fn changed(error: RenewError) -> Failure {
    match error {
        RenewError::Left => Failure::new(
            INTERRUPTED,
            "left before all agents were ready; they start all the same, see `llts agents`".to_owned(),
        ),
        error => Failure::failed(error),
    }
}

fn start(
    session: &Session,
    args: &UpArgs,
    elsewhere: Option<String>,
    signals: &mut Signals,
) -> Result<Service, Failure> {
    if args.add.is_some() || args.remove.is_some() {
        let home = session.home.folder().display();
        return Err(Failure::failed(format!(
            "no service runs in the home {home}; `llts up N` starts one with N agents"
        )));
    }
    // The configuration does not have the keys of a context.
    let keys = session.config.network.curve_client.as_ref().filter(|_| elsewhere.is_some());
    let keys = keys.map(key_variables).transpose().map_err(Failure::failed)?;
    let environment = keys.into_iter().flatten().map(|(name, file)| (name.into(), file.into())).collect();
    let launch = Launch {
        program: Session::program()?,
        home: session.home.folder().to_owned(),
        config: session.config_file(),
        agents: args.agents_only.or(args.agents).unwrap_or_else(|| host::processors(None)),
        until_idle: false,
        elsewhere,
        ephemeral_dir: None,
        environment,
    };
    if let Some(pid) = configured::dead_supervisor(&session.config) {
        note(&format!(
            "the supervisor (process {pid}) was killed: the service starts anew, and running tasks start over"
        ));
    }
    let mut launched = launch.start().map_err(Failure::failed)?;
    launched.wait_up(signals, &log_file(&session.config)).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Up {
        #[command(flatten)]
        args: UpArgs,
    }

    fn ordered(line: &str, agents: u16, idle_stop: Option<f64>) -> Result<(Option<u16>, bool), String> {
        let args = Up::try_parse_from(line.split(' ')).unwrap().args;
        let file = serde_json::json!({
            "pid": 7, "started": 0.0, "controller": "", "publisher": "", "agents": agents, "idle_stop": idle_stop,
        });
        let order = args.order(&serde_json::from_value(file).unwrap())?;
        Ok((order.agents, order.is_lasting))
    }

    #[test]
    fn a_service_that_runs_gets_more_or_fewer_agents() {
        for (line, agents, idle_stop, expected) in [
            ("up 8", 4, None, Ok((Some(8), false))),
            ("up --add 4", 4, None, Ok((Some(8), false))),
            ("up --remove 4", 4, None, Ok((Some(0), false))),
            ("up", 2, Some(600.0), Ok((None, true))),
            ("up 2", 2, Some(600.0), Ok((None, true))),
            ("up 4", 2, Some(600.0), Ok((Some(4), true))),
            ("up 1", 2, Some(600.0), Ok((Some(1), true))),
            ("up 2", 4, None, Err("`llts up --remove 2` ends 2 of them")),
            ("up --remove 5", 4, None, Err("cannot end 5")),
            ("up --add 999", 4, None, Err("above 1000")),
            ("up", 4, None, Ok((None, false))),
            ("up 4", 4, None, Ok((None, false))),
        ] {
            match (ordered(line, agents, idle_stop), expected) {
                (Ok(order), Ok(expected)) => assert_eq!(order, expected, "{line}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{line}: {why}"),
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }
}
