//! `llts supervise`: the process behind `up` and behind an ephemeral `run`. It reports the start on stdout, as one JSON
//! line.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::up::agents;
use crate::cli::make_home;
use api::kept_config;
use proc::files::privacy;
use proc::systemd;
use service::supervisor::{Options, READINESS, Report, check_readiness, go_back, supervise, why_needed};
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
pub(super) struct SuperviseArgs {
    /// Number of agents; without any, tasks wait
    #[arg(long, value_name = "N", value_parser = agents(0))]
    agents: u16,
    /// End after a time without work, unless the configuration says otherwise
    #[arg(long)]
    until_idle: bool,
    /// The controller of the agents, which is not started
    #[arg(long, value_name = "ENDPOINT")]
    of: Option<String>,
    /// Detach from the terminal
    #[arg(long)]
    detached: bool,
    /// Continue as the successor of the program that ran in this process, with the state in this descriptor
    #[arg(long, value_name = "FD", conflicts_with = "guest")]
    handover: Option<i32>,
    /// Only say whether this program can take over the service; with --handover 0, from the state on stdin
    #[arg(long)]
    probe: bool,
    /// Begin only if this supervisor, of which stdin is a pidfd, ends early
    #[arg(long, value_name = "PID", conflicts_with_all = ["handover", "guest"])]
    standby: Option<u32>,
    /// The copy of the configuration with which the service has started
    #[arg(long, value_name = "FILE")]
    kept_config: Option<PathBuf>,
    /// End when stdin does, and remove this folder
    #[arg(long, value_name = "FOLDER")]
    guest: Option<PathBuf>,
}

impl SuperviseArgs {
    /// The state of the earlier program in this process, if this one succeeds it.
    pub(super) fn handover(&self) -> Option<i32> {
        self.handover.filter(|_| !self.probe)
    }

    /// The copy of the configuration that the service started with, if this process belongs to a running service.
    pub(super) fn kept_config(&self) -> Option<PathBuf> {
        self.kept_config.clone().or_else(kept_config::given)
    }
}

/// Handles a failure before the start, such as an unreadable configuration. The earlier program in this process then continues, unless
/// that fails too.
pub(super) fn not_begun(handover: i32, failure: Failure) -> Failure {
    let Failure { exit, sentence } = failure;
    let failed = go_back(handover, sentence.clone());
    Failure::new(exit, format!("{sentence}; nor can the program before it continue: {failed}"))
}

pub(super) fn run(session: &mut Session, args: SuperviseArgs) -> Result<u8, Failure> {
    privacy::keep_files_private();
    let kept_config = args.kept_config();
    let SuperviseArgs { agents, until_idle, of: elsewhere, detached, handover, probe, standby, guest, .. } = args;
    if probe {
        session.check_start()?;
        check_readiness(&session.config, handover.map(|_| io::stdin())).map_err(Failure::failed)?;
        session.out.line(READINESS);
        return Ok(0);
    }
    let standby = match standby.map(|before| why_needed(&session.config.paths.state_dir, before, io::stdin().as_fd())) {
        Some(None) => return Ok(0),
        needed => needed.flatten(),
    };
    let options = Options {
        config: session.config_file(),
        home: session.home.base().map(Path::to_owned),
        kept_config,
        agents,
        until_idle,
        elsewhere,
        detached,
        handover,
        standby,
        ephemeral_dir: guest,
    };
    let is_first = !detached && handover.is_none() && options.standby.is_none() && options.ephemeral_dir.is_none();
    if is_first {
        make_home(session)?;
    }
    // systemd gets its own notification.
    let is_managed = is_first && std::env::var_os(systemd::SOCKET).is_some();
    let reload = session.reload();
    let Session { config, out, .. } = session;
    let mut tell = |report: &Report| {
        if !is_managed {
            out.value(&serde_json::json!(report));
        }
    };
    supervise(config, &options, &reload, |report| tell(report)).map_err(|error| {
        let sentence = error.to_string();
        tell(&Report::Failed(sentence.clone()));
        Failure::failed(sentence)
    })?;
    Ok(0)
}
