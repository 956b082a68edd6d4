//! `llts restart`: replace the processes of the service by ones of this program, without losing a task.

use clap::Args;

use super::info;
use llts_client::configured;
use proc::signals::{STOP, Signals};
use service::supervisor::{RenewError, renew};
use term::exit::{Failure, INTERRUPTED};
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
The controller becomes this program first: clients wait a few milliseconds. When it has served for three seconds, the supervisor \
follows. Each agent is replaced as soon as it has no task; until then it works for the new controller.
Run it with the new version of llts, wherever that lies.")]
pub(super) struct RestartArgs {
    /// Wait until every agent is new, which takes as long as its present task
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(session: &mut Session, args: &RestartArgs) -> Result<u8, Failure> {
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    session.check_start()?;
    if let Some(pid) = configured::dead_supervisor(&session.config) {
        return Err(Failure::failed(info::without_supervisor(&pid.to_string())));
    }
    let program = Session::program()?;
    let restarted = renew(&session.config, program, rand::random(), args.wait, &mut signals);
    let service = restarted.map_err(|error| match error {
        RenewError::Left => Failure::new(INTERRUPTED, error.to_string()),
        error => Failure::failed(error),
    })?;
    if session.out.is_json() {
        session.out.value(&serde_json::json!(service));
        return Ok(0);
    }
    session.out.line(format!("restarted as version {} (process {})", service.version, service.pid));
    match service.renewal.map_or(0, |renewal| renewal.agents_left) {
        0 => {}
        _ => note("its agents follow, each as soon as it has no task"),
    }
    Ok(0)
}
