//! `llts prompt master`: hands the prompts of a folder out until none is left, or until Ctrl-C.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::{port, root};
use crate::master::engine::Totals;
use crate::master::process::{Audience, End, MasterOptions, PromptMaster};
use base::Usd;
use proc::logging;
use proc::signals::{STOP, Signals};
use term::exit::{FAILED, Failure, INTERRUPTED};
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
Exits with 0 when every prompt that it handed out is done, 1 if one of them has failed, also
under a master before that was ended with prompts left, or if it cannot start, 130 after a
second Ctrl-C.")]
pub(super) struct MasterArgs {
    /// TCP port; 0 uses a free one [default: prompt.PORT]
    port: Option<u16>,
    /// Folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// Pause after handing out N prompts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_starts: Option<u64>,
    /// Pause when the prompts have cost this much, as far as their outputs tell it (claude --output-format json); a bound of
    /// llts prompt resume goes first
    #[arg(long, value_name = "USD", value_parser = super::usd)]
    max_cost: Option<Usd>,
    /// Time limit of a run, for prompts that name none
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Shell command to run at the end, with the summary in PROMPT_ALL, _SUCCEEDED, _FAILED and _LEFT
    #[arg(long, value_name = "COMMAND")]
    on_end: Option<String>,
    /// Shell command to run for each prompt that has failed, with its name in PROMPT_PROMPT
    #[arg(long, value_name = "COMMAND")]
    on_fail: Option<String>,
    /// Address that gets a POST with JSON for both
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Continue to run when no prompt is left
    #[arg(long)]
    keep_alive: bool,
}

pub(super) fn run(session: &mut Session, args: &MasterArgs) -> Result<u8, Failure> {
    let config = &session.config;
    // Before any thread is started, so that all of them leave these signals to the loop.
    let signals = Signals::install(&STOP).map_err(Failure::failed)?;
    logging::init(&config.log, None).map_err(Failure::failed)?;
    let root = root(session, args.root_dir.as_deref());
    let keep_alive = args.keep_alive || config.prompt.keep_alive;
    let (on_end, on_fail, webhook) = (args.on_end.clone(), args.on_fail.clone(), args.webhook.clone());
    let options = MasterOptions {
        root: &root,
        port: port(session, args.port),
        keep_alive,
        starts_max: args.max_starts,
        timeout: args.timeout,
        cost_max: args.max_cost,
        audience: &Audience { on_end, on_fail, webhook },
    };
    let master = PromptMaster::start(config, options).map_err(Failure::failed)?;
    let ready = master.ready_line();
    if session.out.is_json() {
        note(&ready);
    } else {
        session.out.line(ready);
    }
    let end = master.run(Some(signals)).map_err(Failure::failed)?;
    print_summary(session, &end);
    Ok(match end {
        End { forced: true, .. } => INTERRUPTED,
        End { totals, .. } if totals.failed > 0 => FAILED,
        _ => 0,
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let allowed = Duration::from_millis(1)..=Duration::from_secs(366 * 86_400);
    seconds.filter(|time| allowed.contains(time)).ok_or_else(|| "it is no number of seconds up to a year".to_owned())
}

fn print_summary(session: &mut Session, end: &End) {
    let totals = &end.totals;
    let seconds = totals.running_for.as_secs_f64();
    if session.out.is_json() {
        session.out.value(&json!({
            "running_seconds": seconds,
            "all": totals.all,
            "succeeded": totals.succeeded,
            "failed": totals.failed,
            "left": totals.left(),
            "timed_out": totals.timed_out,
            "cost_usd": totals.cost.map(Usd::dollars),
        }));
        return;
    }
    let Totals { all, succeeded, failed, .. } = totals;
    let left = totals.left();
    let late = match totals.timed_out {
        0 => String::new(),
        late => format!(" ({late} by time-out)"),
    };
    let cost = totals.cost.map(|cost| format!("; {cost}")).unwrap_or_default();
    session.out.line(format!(
        "{seconds:.1} s, {all} prompts: {succeeded} succeeded, {failed} failed{late}, {left} left{cost}"
    ));
}
