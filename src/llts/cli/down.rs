//! `llts down`: stop the service that `up` has started, wait until none of its processes is left, and end the remains of
//! killed ephemeral services.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use rustix::event::Timespec;
use serde_json::json;

use super::change::answered;
use super::{pause, waiting};
use api::wire::requests::stats::TaskCounts;
use api::wire::requests::{down, stats};
use base::{Phase, path_text};
use llts_client::Client;
use llts_client::configured::{self, Configured};
use proc::signals::{STOP, Signals};
use service::supervisor::{Abandoned, Stopped, end_abandoned, holder, stop};
use term::exit::{FAILED, Failure};
use term::output::note;
use term::session::Session;
use term::status_line;

/// How long a pause of the service lasts, before the next one replaces it. If this command is interrupted, the service
/// then goes on.
const PAUSE: Duration = Duration::from_secs(5);

/// The time between two counts of the running tasks.
const LOOK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

#[derive(Args, Debug)]
#[command(after_help = "\
Tasks that wait stay in the store, and start after the next `llts up`, or in the home that stands by. The runs of others are ended, and start again then, in their \
next round. On a terminal this asks first if there are any. With --wait, no further task starts, and the service stops when the \
running ones have ended; an interrupt ends the wait, and the service goes on.")]
pub(super) struct DownArgs {
    /// Let the running tasks end first
    #[arg(long)]
    wait: bool,
    /// Do not ask
    #[arg(long, conflicts_with = "wait")]
    now: bool,
    /// `llts resume --service`
    #[arg(long, conflicts_with_all = ["wait", "now"], hide = true)]
    undo: bool,
}

/// A missing service is not a failure.
pub(super) fn run(session: &mut Session, args: &DownArgs) -> Result<u8, Failure> {
    if args.undo {
        return pause::resume_service(session);
    }
    let mut waited = None;
    // The controller and the agents may have outlived their supervisor.
    let config = &session.config;
    let is_up = holder(&config.paths.state_dir).is_some() || configured::dead_supervisor(config).is_some();
    if !args.now && (args.wait || io::stdin().is_terminal()) && is_up {
        waited = prepare(session, args.wait)?;
    }
    // The remains belong to other services, so a failure to end them does not fail this command.
    let end = || (stop(&session.config), end_abandoned(&session.config));
    let (stopped, abandoned) = match &waited {
        // The special handling of signals covered only the wait: from here on, a signal ends this process again.
        Some(signals) => signals.let_end(end).map_err(Failure::failed)?,
        None => end(),
    };
    for Abandoned { folder, ended } in &abandoned {
        let sentence = of_abandoned(folder, ended.as_ref());
        match ended {
            Ok(_) if !session.out.is_json() => session.out.line(sentence),
            Ok(_) | Err(_) => note(&sentence),
        }
    }
    show(session, stopped.map_err(Failure::failed)?, &abandoned);
    Ok(if abandoned.iter().all(|one| one.ended.is_ok()) { 0 } else { FAILED })
}

/// Waits for the running tasks, or asks whether to stop in spite of them. Returns the signals that the wait has taken
/// over.
fn prepare(session: &Session, wait: bool) -> Result<Option<Signals>, Failure> {
    let Some(client) = client(session)? else {
        // A controller that does not listen starts nothing either.
        return Ok(None);
    };
    if !wait {
        let counts = client.ask(&stats::tasks())?;
        let running = running(&counts);
        if running > 0 {
            let waiting = counts.0[Phase::Waiting as usize];
            let verb = if running == 1 { "is" } else { "are" };
            let state = format!("{} {verb} running and {waiting} waiting", base::counted(running, "task"));
            answered(&format!(
                "{state}. Stop now? The running ones start over at the next `llts up`; --wait lets them finish."
            ))?;
        }
        return Ok(None);
    }
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let is_terminal = io::stderr().is_terminal();
    let mut was_said = false;
    loop {
        let counts = client.ask(&down::pause(PAUSE))?;
        let running = running(&counts);
        if running == 0 {
            status_line::clear();
            return Ok(Some(signals));
        }
        let line = format!("waiting for {}; no other task starts", base::counted(running, "running task"));
        if is_terminal {
            status_line::show_with_hint(&line, "Ctrl-C leaves; the service goes on");
        } else if !std::mem::replace(&mut was_said, true) {
            note(&line);
        }
        if signals.wait(LOOK_INTERVAL) {
            status_line::clear();
            client.ask(&down::pause(Duration::ZERO))?;
            return Err(waiting::left("the service goes on, and tasks start again"));
        }
    }
}

/// The number of tasks with agents.
fn running(counts: &TaskCounts) -> usize {
    [Phase::Dispatched, Phase::Preparing, Phase::Running, Phase::Ended]
        .map(|phase| counts.0[phase as usize])
        .iter()
        .sum()
}

/// The controller of this home, if it listens.
fn client(session: &Session) -> Result<Option<Client>, Failure> {
    let config = &session.config;
    match configured::find(config) {
        Configured::Listening(endpoint) => Ok(Some(Client::secured(config, &endpoint)?)),
        Configured::At(endpoint) if !configured::is_refused(&endpoint, config.client.reply_timeout) => {
            Ok(Some(Client::secured(config, &endpoint)?))
        }
        Configured::At(_) | Configured::Elsewhere(_) | Configured::Nowhere => Ok(None),
    }
}

fn show(session: &mut Session, stopped: Stopped, abandoned: &[Abandoned]) {
    let state_dir = session.config.paths.state_dir.display();
    let is_nothing = stopped == Stopped::default();
    let sentence = match stopped {
        Stopped { standby: Some(pid), supervisor: None, remains: 0 } => format!("ended the standby (process {pid})"),
        Stopped { supervisor: Some(pid), remains: 0, .. } => format!("stopped the service (process {pid})"),
        Stopped { supervisor: Some(pid), remains, .. } => {
            format!("stopped the service (process {pid}); ended {remains} processes that it had left behind")
        }
        Stopped { supervisor: None, remains: 0, .. } => format!("no service runs in {state_dir} (STATE_DIR)"),
        Stopped { supervisor: None, remains, .. } => {
            format!("the supervisor had ended; ended {remains} processes that it had left behind")
        }
    };
    if session.out.is_json() {
        let abandoned: Vec<_> = abandoned
            .iter()
            .map(|Abandoned { folder, ended }| json!({ "folder": path_text(folder), "ended": ended.as_ref().ok(), "error": ended.as_ref().err() }))
            .collect();
        session.out.value(&json!({ "stopped": !is_nothing, "pid": stopped.supervisor, "standby_pid": stopped.standby, "abandoned": abandoned }));
    } else if is_nothing {
        note(&sentence);
    } else {
        session.out.line(sentence);
    }
}

/// A sentence about an ephemeral service whose command, guard and supervisor were killed.
pub(super) fn of_abandoned(folder: &Path, ended: Result<&u32, &String>) -> String {
    let folder = folder.display();
    match ended {
        Ok(ended) => format!(
            "an ephemeral service had lost its supervisor and its guard; ended {ended} of its processes and removed {folder}"
        ),
        Err(why) => format!("cannot end the remains of an ephemeral service in {folder}: {why}"),
    }
}
