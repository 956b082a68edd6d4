//! The controller of a command that starts a service if none runs: a lasting one in the home, or with `--no-service` an ephemeral one for
//! the command.

use clap::Args;

use crate::cli::{end_abandoned, made_home};
use api::config::{Config, IdleStop};
use api::home::FoundBy;
use api::wire::requests::stats;
use base::{counted, span};
use llts_client::Client;
use llts_client::configured::{self, Configured};
use proc::lending::lend_slot;
use proc::signals::Signals;
use service::ephemeral::{EphemeralLeftover, EphemeralPlan, EphemeralService, Way};
use service::supervisor;
use service::supervisor::{AGENTS_MAX, Launch, RenewError, Service, log_file};
use term::exit;
use term::exit::Failure;
use term::output::note;
use term::session::Session;

/// Number of services that end while this command is about to use them, before it gives up.
const ENDS_MAX: u32 = 10;

/// What a command does where no service runs.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct HostArgs {
    /// Start no service that stays: if none runs, agents are started for this command alone, and its tasks are forgotten with it
    #[arg(long, help_heading = "Service")]
    pub(super) no_service: bool,
}

/// The controller that a command uses.
pub(super) struct Place {
    pub(super) endpoint: String,
    /// Whether the service ends with the command.
    pub(super) is_hosted: bool,
}

/// Does the work of a command at the running controller, or at that of a service started for the command. A started service has this
/// number of agents, by default one for each processor.
pub(super) fn at_controller(
    session: &mut Session,
    signals: &mut Signals,
    HostArgs { no_service }: HostArgs,
    agents: Option<u32>,
    work: impl FnOnce(&mut Session, &mut Signals, &Place) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let running = if no_service {
        endpoint(session)?.map(|endpoint| (endpoint, None))
    } else {
        service(session, signals, agents)?
    };
    if let Some((endpoint, kept)) = running {
        // If this command runs inside a task, it does nothing but wait from here on.
        lend_slot();
        let result = work(session, signals, &Place { endpoint, is_hosted: false });
        drop(kept);
        return result;
    }
    let host = host(session, signals, agents)?;
    let result = work(session, signals, &Place { endpoint: host.up().controller.clone(), is_hosted: true });
    // After Ctrl-C, the command leaves at once and the supervisor ends the service.
    if !matches!(&result, Err(failure) if failure.exit == exit::INTERRUPTED) {
        match host.end(signals) {
            Ok(()) => {}
            Err(EphemeralLeftover::Keepers(_)) => end_abandoned(session),
            Err(error) => note(&error.to_string()),
        }
    }
    result
}

/// The endpoint of the named or running controller; `None` if none was named and none runs.
fn endpoint(session: &Session) -> Result<Option<String>, Failure> {
    let Session { global, config, .. } = session;
    if global.controller()?.is_some() {
        return Ok(Some(global.named().endpoint(config)?));
    }
    let endpoint = match configured::find(config) {
        // The user means this service, so none is started in its place.
        Configured::Listening(endpoint) | Configured::Elsewhere(endpoint) => return Ok(Some(endpoint)),
        Configured::At(endpoint) => endpoint,
        Configured::Nowhere => return Ok(None),
    };
    // With a supervisor, the client waits, because the controller will be restarted.
    let none_listens = configured::is_refused(&endpoint, config.client.reply_timeout)
        && supervisor::holder(&config.paths.state_dir).is_none();
    Ok((!none_listens).then_some(endpoint))
}

/// The named controller, or else that of the home's service, which is started if none runs. The returned client keeps a service up that
/// would end without work.
fn service(
    session: &Session,
    signals: &mut Signals,
    agents: Option<u32>,
) -> Result<Option<(String, Option<Client>)>, Failure> {
    let Session { global, config, .. } = session;
    let state_dir = &config.paths.state_dir;
    for _ in 0..ENDS_MAX {
        if let Some(endpoint) = endpoint(session)? {
            let is_named = global.controller()?.is_some();
            let service = if is_named { None } else { Service::read(state_dir) };
            let ends = service.as_ref().is_some_and(|service| service.idle_stop.is_some());
            let is_absent = service.is_none() && supervisor::holder(state_dir).is_some();
            if is_named || !(ends || is_absent) {
                return Ok(Some((endpoint, None)));
            }
            // Once the service has answered, the open connection counts as work.
            if ends && let Some(client) = kept(session, &endpoint)? {
                return Ok(Some((endpoint, Some(client))));
            }
            supervisor::settled(config, signals).map_err(interrupted)?;
            continue;
        }
        session.check_start()?;
        // The sentence about the start names the home.
        made_home(session).map_err(|failure| Failure {
            sentence: format!("{}; or run the command with --no-service, which keeps nothing", failure.sentence),
            ..failure
        })?;
        end_abandoned(session);
        let _starting = supervisor::starting(config).map_err(Failure::failed)?;
        // Another command may have started one meanwhile.
        if supervisor::settled(config, signals).map_err(interrupted)?.is_none() {
            start(session, signals, processors(agents).max(processors(None)))?;
        }
    }
    Err(Failure::failed("the service of this home ends again and again; see its log, or `llts incidents`"))
}

/// A connection that keeps the service up; `None` if the service has ended.
fn kept(session: &Session, endpoint: &str) -> Result<Option<Client>, Failure> {
    if configured::is_refused(endpoint, session.config.client.reply_timeout) {
        return Ok(None);
    }
    let client = Client::secured(&session.config, endpoint)?;
    match client.ask(&stats::tasks()) {
        Ok(_) => Ok(Some(client)),
        Err(_) if supervisor::holder(&session.config.paths.state_dir).is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn interrupted(error: RenewError) -> Failure {
    match error {
        RenewError::Left => Failure::new(exit::INTERRUPTED, "left before the service was up".to_owned()),
        error => Failure::failed(error),
    }
}

/// Starts the service of the home, which stays after this command.
fn start(session: &Session, signals: &mut Signals, agents: u16) -> Result<(), Failure> {
    let launch = Launch {
        program: Session::program()?,
        home: session.home.folder().to_owned(),
        config: session.config_file(),
        agents,
        until_idle: true,
        elsewhere: None,
        ephemeral_dir: None,
        environment: Vec::new(),
    };
    let mut launched = launch.start().map_err(Failure::failed)?;
    let service = launched.wait_up(signals, &log_file(&session.config)).map_err(Failure::failed)?;
    note(&started(session, &service));
    service.warnings.iter().for_each(|warning| note(warning));
    Ok(())
}

/// When a service ends by itself, if it does, with what decides that.
pub(super) fn ends(config: &Config, idle_stop: Option<f64>) -> Option<String> {
    let limit = idle_stop.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok())?;
    let why = if config.service.idle_stop == IdleStop::Auto { "`llts up` keeps it" } else { "IDLE_STOP" };
    Some(format!("it ends after {} without tasks ({why})", span(limit)))
}

fn started(session: &Session, service: &Service) -> String {
    let what = match session.home.by() {
        FoundBy::Default => format!("the service of this user, in {},", session.home.folder().display()),
        _ => format!("the service of the home {}", session.home.folder().display()),
    };
    let end = ends(&session.config, service.idle_stop).unwrap_or_else(|| "`llts down` stops it".to_owned());
    let agents = counted(service.agents, "agent");
    format!("started {what} with {agents}; {end}")
}

/// This number of agents, by default one for each processor.
pub(super) fn processors(agents: Option<u32>) -> u16 {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let agents = agents.map_or_else(processors, |agents| usize::try_from(agents).unwrap_or(usize::MAX));
    u16::try_from(agents).unwrap_or(AGENTS_MAX).min(AGENTS_MAX)
}

fn host(session: &Session, signals: &mut Signals, agents: Option<u32>) -> Result<EphemeralService, Failure> {
    session.check_start()?;
    end_abandoned(session);
    let agents = processors(agents);
    note(&format!("no service runs here: {agents} agents start for this command, and its tasks are forgotten with it"));
    let plan = EphemeralPlan {
        program: Session::program()?,
        home: session.home.folder().to_owned(),
        config: session.config_file(),
        agents,
        way: Way::Socket,
        environment: Vec::new(),
    };
    let host = plan.start(signals).map_err(Failure::failed)?;
    host.up().warnings.iter().for_each(|warning| note(warning));
    Ok(host)
}
