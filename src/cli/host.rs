//! The controller of a command that starts one if there is none, for the duration of the command.

use super::Session;
use super::connect::{self, Configured};
use super::exit::{self, Failure};
use super::output::note;
use crate::shell::ephemeral::{EphemeralLeftover, EphemeralPlan, EphemeralService, Way};
use crate::shell::lending::lend_slot;
use crate::shell::signals::Signals;
use crate::shell::supervisor::{self, AGENTS_MAX};

/// The controller that a command uses.
pub(super) struct Place {
    pub(super) endpoint: String,
    /// Whether it ends with the command.
    pub(super) is_hosted: bool,
}

/// Does the work of a command at the controller that answers, otherwise at one that is started for it with this number of agents:
/// by default one for each processor.
pub(super) fn at_controller(
    session: &mut Session,
    signals: &mut Signals,
    agents: Option<u32>,
    work: impl FnOnce(&mut Session, &mut Signals, &Place) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    if let Some(endpoint) = endpoint(session)? {
        // In a task, this command does nothing but wait from here on.
        lend_slot();
        return work(session, signals, &Place { endpoint, is_hosted: false });
    }
    let host = host(session, signals, agents)?;
    let result = work(session, signals, &Place { endpoint: host.up().controller.clone(), is_hosted: true });
    // If the user leaves at once, the supervisor ends the service.
    if !matches!(&result, Err(failure) if failure.exit == exit::INTERRUPTED) {
        match host.end(signals) {
            Ok(()) => {}
            Err(EphemeralLeftover::Keepers(_)) => session.end_abandoned(),
            Err(error) => note(&error.to_string()),
        }
    }
    result
}

/// The endpoint of the controller; `None` if there is none and none was named.
fn endpoint(session: &Session) -> Result<Option<String>, Failure> {
    let Session { global, config, .. } = session;
    if global.controller()?.is_some() {
        return connect::endpoint(global, config).map(Some);
    }
    let endpoint = match connect::configured(config) {
        // A service that is started here would not be the one that is meant.
        Configured::Listening(endpoint) | Configured::Elsewhere(endpoint) => return Ok(Some(endpoint)),
        Configured::At(endpoint) => endpoint,
        Configured::Nowhere => return Ok(None),
    };
    // A supervisor restarts its controller, so in that case the client waits for it.
    let none_listens = connect::is_refused(&endpoint, config.client.reply_timeout)
        && supervisor::holder(&config.paths.state_dir).is_none();
    Ok((!none_listens).then_some(endpoint))
}

fn host(session: &Session, signals: &mut Signals, agents: Option<u32>) -> Result<EphemeralService, Failure> {
    session.check_start()?;
    session.make_home()?;
    session.end_abandoned();
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let agents = agents.map_or_else(processors, |agents| usize::try_from(agents).unwrap_or(usize::MAX));
    let agents = u16::try_from(agents).unwrap_or(AGENTS_MAX).min(AGENTS_MAX);
    note(&format!("no controller runs here: starting one with {agents} agents for the duration of this run"));
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
