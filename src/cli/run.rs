//! `llts run`: submit a task, wait for its end, print its report, exit as it did.

use std::collections::BTreeSet;

use clap::Args;

use super::Session;
use super::caller::caller;
use super::connect::{self, Configured};
use super::exit::{self, Failure};
use super::output::{Output, note, stderr_text};
use super::submit::{TaskArgs, hand_over};
use super::tails::note_tails;
use crate::client::{Client, Waited};
use crate::config::Transport;
use crate::config::nearest::nearest;
use crate::protocol::client::{Selector, TaskView};
use crate::protocol::requests::agents::AgentRow;
use crate::protocol::requests::kill::kill;
use crate::protocol::requests::submit::Submission;
use crate::shell::ephemeral::{EphemeralLeftover, EphemeralPlan, EphemeralService, Way};
use crate::shell::signals::{STOP, Signals};
use crate::shell::supervisor::{self, AGENTS_MAX};
use crate::types::{ExitCode, ToolName, ToolSet};

#[derive(Args, Debug)]
#[command(after_help = "\
Prints the output of the task: stdout to stdout, stderr to stderr, nothing added. Its report log goes to stdout if it has \
printed nothing there, otherwise to stderr. Only the end of each is returned; a note on stderr says so if something is missing.
Ctrl-C ends the task and waits for its end; a second Ctrl-C leaves at once.
If no controller answers where the configuration says, one is started for the time of the run.
The options of Policy are explained by `llts submit --help`.")]
pub(super) struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,
}

pub(super) fn run(session: &mut Session, args: &RunArgs) -> Result<u8, Failure> {
    let submission = args.task.submission_with_stdin(session.global.is_elsewhere()?)?;
    // Before the client starts threads of its own.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    match endpoint(session)? {
        Some(endpoint) => run_at(session, &mut signals, &endpoint, &submission),
        None => {
            let host = host(session, &mut signals)?;
            let result = run_at(session, &mut signals, &host.up().controller, &submission);
            // If the user leaves at once, the supervisor ends the service.
            if !matches!(&result, Err(failure) if failure.exit == exit::INTERRUPTED) {
                match host.end(&mut signals) {
                    Ok(()) => {}
                    Err(EphemeralLeftover::Keepers(_)) => session.end_abandoned(),
                    Err(error) => note(&error.to_string()),
                }
            }
            result
        }
    }
}

/// The endpoint of the controller; `None` if there is none and none was named.
fn endpoint(session: &Session) -> Result<Option<String>, Failure> {
    let Session { global, config, .. } = session;
    if global.controller()?.is_some() {
        return connect::endpoint(global, config).map(Some);
    }
    let Configured::At(endpoint) = connect::configured(config) else { return Ok(None) };
    // A supervisor restarts its controller, so in that case the client waits for it.
    let nobody = connect::is_refused(&endpoint, config.client.reply_timeout)
        && supervisor::holder(&config.paths.state_dir).is_none();
    Ok((!nobody).then_some(endpoint))
}

fn host(session: &Session, signals: &mut Signals) -> Result<EphemeralService, Failure> {
    session.check_start()?;
    session.make_home()?;
    session.end_abandoned();
    let agents = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let agents = u16::try_from(agents).unwrap_or(AGENTS_MAX).min(AGENTS_MAX);
    note(&format!("no controller runs here: starting one with {agents} agents for the duration of this run"));
    // libzmq would permit every user to open a socket in the file system.
    let way = if session.config.network.transport == Transport::Own { Way::Socket } else { Way::Tcp };
    let plan = EphemeralPlan {
        program: Session::program()?,
        home: session.home.folder().to_owned(),
        config: session.config_file(),
        agents,
        way,
        environment: Vec::new(),
    };
    let host = plan.start(signals).map_err(Failure::failed)?;
    host.up().warnings.iter().for_each(|warning| note(warning));
    Ok(host)
}

fn run_at(
    session: &mut Session,
    signals: &mut Signals,
    endpoint: &str,
    submission: &Submission,
) -> Result<u8, Failure> {
    let client = Client::secured(&session.config, endpoint)?;
    let submitted = hand_over(&client, submission)?;
    let Some(task) = wait(&client, signals, &submitted.id)? else {
        return Err(Failure::new(exit::INTERRUPTED, format!("left {} before its end", submitted.id)));
    };
    let (code, sentence) = exit::of_task(&task);
    show(&mut session.out, &task, sentence.is_none());
    if let Some(sentence) = sentence {
        note(&(sentence + &nearest_tool(&client, &task)));
    }
    Ok(code)
}

/// For a missing tool: the name of the tool that was probably meant.
fn nearest_tool(client: &Client, task: &TaskView) -> String {
    if task.exit_code() != Some(ExitCode::TOOL_MISSING) {
        return String::new();
    }
    let agents = super::agents::collect(client).unwrap_or_default();
    let names: BTreeSet<_> = agents.iter().filter_map(AgentRow::tools).flat_map(names_of).collect();
    match nearest(task.tool(), names.iter().map(ToolName::as_str)) {
        Some(name) => format!("; the nearest tool that an agent has is {name}"),
        None => String::new(),
    }
}

fn names_of(tools: ToolSet) -> Vec<ToolName> {
    if let ToolSet::Only(names) = tools { names } else { Vec::new() }
}

/// Waits for the end; the first signal requests it, the second gives up.
fn wait(client: &Client, signals: &mut Signals, id: &str) -> Result<Option<TaskView>, Failure> {
    use std::os::fd::AsFd as _;
    let mut asked = false;
    loop {
        match client.wait(&Selector::task(id), None, Some(signals.as_fd()))? {
            Waited::Finished(task) => return Ok(Some(task)),
            Waited::Expired(_) => {}
            Waited::Interrupted => {
                let count = signals.read().len();
                if asked && count > 0 {
                    return Ok(None);
                }
                if count > 0 {
                    note(&format!("ending {id}; press Ctrl-C again to leave at once"));
                    client.ask(&kill(id, &caller("Ctrl-C in llts run")))?;
                    asked = true;
                }
            }
        }
    }
}

/// The output of a tool goes into the pipe. A tool without output has only its report to show; beside an output, the report
/// goes to stderr.
fn show(out: &mut Output, task: &TaskView, is_last: bool) {
    if out.is_json() {
        out.fields(task.fields());
        return note_tails(task);
    }
    let is_quiet = task.stdout().is_empty();
    out.printed(if is_quiet { task.report() } else { task.stdout() });
    note_tails(task);
    if !is_quiet && !task.report().is_empty() {
        note("report.log:");
        stderr_text(task.report(), false);
    }
    stderr_text(task.stderr(), is_last);
}
