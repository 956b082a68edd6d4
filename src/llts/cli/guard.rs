//! `llts guard`: the process that ends the remains of another process if that is killed. Users never start it by hand.

use std::path::PathBuf;

use clap::Args;

use term::exit::Failure;
use term::session::Session;

use proc::guard;
use proc::guard::Watched;

use proc::logging;
use proc::process::{Pid, ProcessId, end_below};

use service::supervisor;
use service::supervisor::KeeperLock;

#[derive(Args, Debug)]
pub(super) struct GuardArgs {
    /// The process to guard
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
    /// Start time of that process, in clock ticks since the boot
    #[arg(long)]
    start_time: u64,
    /// The process runs an ephemeral service in this folder
    #[arg(long, value_name = "FOLDER")]
    guest: Option<PathBuf>,
    /// The process works on prompts in this root folder
    #[arg(long, value_name = "DIR", conflicts_with = "guest")]
    prompts: Option<PathBuf>,
    /// It works for a TDF namespace in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["guest", "prompts"])]
    tdf: Option<PathBuf>,
    /// It works on task lists, with outputs in this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["guest", "prompts", "tdf"])]
    lists: Option<PathBuf>,
}

pub(super) fn run(session: &Session, args: &GuardArgs) -> Result<u8, Failure> {
    let pid = Pid::from_raw(args.pid).ok_or_else(|| Failure::usage(format!("{} is not a process id", args.pid)))?;
    let process = ProcessId { pid, start_time: args.start_time };
    // Both locks are held while the guarded process lives, and then by the process into which this one detaches.
    let _keeper = args.guest.as_deref().map(KeeperLock::join).transpose().map_err(Failure::failed)?;
    let of_prompts = args.prompts.as_deref().map(prompts::worker::process::runs);
    let runs = of_prompts.or_else(|| args.tdf.as_deref().map(tdf::shell::worker::runs));
    let runs = runs.or_else(|| args.lists.as_deref().map(lists::shell::worker::runs));
    let runs = runs.transpose().map_err(Failure::failed)?;
    let _deaf = guard::detach().map_err(Failure::failed)?;
    // An agent's log file belongs to the next agent of the same name.
    logging::init(&session.config.log, None).map_err(Failure::failed)?;
    if args.guest.is_none()
        && runs.is_none()
        && let Err(error) = agent::process::step_out(&session.config)
    {
        log::warn!("{error}");
    }
    if guard::watch(process, std::io::stdin(), end_below) == Watched::Died {
        match (&args.guest, runs) {
            (Some(folder), _) => drop(supervisor::end_ephemeral(&session.config, folder).map_err(Failure::failed)?),
            (None, Some(runs)) => runs.sweep_after_death().map_err(Failure::failed)?,
            (None, None) => drop(agent::process::sweep_after_death(&session.config).map_err(Failure::failed)?),
        }
    }
    Ok(0)
}
