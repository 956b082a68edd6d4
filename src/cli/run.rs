//! `llts run`: submit a task, show its outputs as they come, exit as it did.

mod follow;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::time::Duration;

use clap::Args;

use super::Session;
use super::caller::caller;
use super::connect::{self, Configured};
use super::exit::{self, Failure};
use super::output::note;
use super::submit::{TaskArgs, hand_over};
use super::tails::note_tails;
use crate::client::{Client, Waited};
use crate::config::Transport;
use crate::config::nearest::nearest;
use crate::protocol::client::{Selector, TaskView};
use crate::protocol::requests::agents::AgentRow;
use crate::protocol::requests::kill::kill;
use crate::protocol::requests::submit::Submission;
use crate::shell::clock;
use crate::shell::ephemeral::{EphemeralLeftover, EphemeralPlan, EphemeralService, Way};
use crate::shell::signals::{STOP, Signals};
use crate::shell::supervisor::{self, AGENTS_MAX};
use crate::types::{ExitCode, Mono, ToolName, ToolSet};

use follow::{Finish, Followed, Followers};

/// How long the end of a task is awaited before its outputs are followed. No person sees the difference, and a task that
/// ends within it costs two requests.
const SHORT_RUN: Duration = Duration::from_millis(30);

#[derive(Args, Debug)]
#[command(after_help = "\
Prints the output of the task as it comes: stdout to stdout, stderr to stderr, byte for byte. Its report log goes to stdout at \
the end if it has printed nothing there, otherwise to stderr. If another round follows a failed one, the outputs of both are \
printed. A note on stderr says so if something is missing. With --output json, the end of each output is part of the value.
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
    let endpoint = match connect::configured(config) {
        Configured::Listening(endpoint) => return Ok(Some(endpoint)),
        Configured::At(endpoint) => endpoint,
        Configured::Nowhere => return Ok(None),
    };
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
    let mut run = Run { client: &client, signals, id: &submitted.id, asked: false };
    let Some((task, failure)) = run.show(session)? else {
        return Err(Failure::new(exit::INTERRUPTED, format!("left {} before its end", submitted.id)));
    };
    let (code, sentence) = match (failure, exit::of_task(&task)) {
        (Some(ErrorKind::BrokenPipe), _) => return Ok(exit::BROKEN_PIPE),
        (Some(_), (0, sentence)) => (exit::FAILED, sentence),
        (_, of_task) => of_task,
    };
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

/// A submitted task.
struct Run<'a> {
    client: &'a Client,
    signals: &'a mut Signals,
    id: &'a str,
    /// Whether its end was requested.
    asked: bool,
}

impl Run<'_> {
    /// Shows the outputs of the task, as they come, and returns the task when it has finished, and why stdout did not take
    /// all of its output; `None` if the user leaves.
    ///
    /// Most tasks end before a reader of their outputs has connected, and their result contains all of it. So the outputs
    /// are followed only if the task has not finished after a moment.
    fn show(&mut self, session: &mut Session) -> Result<Option<(TaskView, Option<ErrorKind>)>, Failure> {
        if session.out.is_json() {
            let task = self.wait(None)?;
            if let Some(task) = &task {
                session.out.fields(task.fields());
                note_tails(task);
            }
            return Ok(task.map(|task| (task, None)));
        }
        let soon = clock::now().mono + SHORT_RUN;
        let early = match self.wait(Some(soon))? {
            Some(task) if task.is_finished() && task.round() == 0 => Some(task),
            Some(_) => None,
            None => return Ok(None),
        };
        let mut followed = Followed::default();
        let task = match early {
            Some(task) => task,
            None => {
                let mut followers = Followers::start(&session.config, self.client.endpoint(), self.id)?;
                let Some(task) = self.wait(None)? else { return Ok(None) };
                let Some(ended) = followers.end(self.signals) else { return Ok(None) };
                followed = ended;
                task
            }
        };
        let (_, sentence) = exit::of_task(&task);
        let failure = Finish { client: self.client, task: &task, followed }.show(sentence.is_some());
        Ok(Some((task, failure)))
    }

    /// Waits for the end, or until a moment; the first signal requests the end, the second gives up.
    fn wait(&mut self, until: Option<Mono>) -> Result<Option<TaskView>, Failure> {
        loop {
            match self.client.wait(&Selector::task(self.id), until, Some(self.signals.as_fd()))? {
                Waited::Finished(task) | Waited::Expired(task) => return Ok(Some(task)),
                Waited::Interrupted => {
                    let count = self.signals.read().len();
                    if self.asked && count > 0 {
                        return Ok(None);
                    }
                    if count > 0 {
                        note(&format!("ending {}; press Ctrl-C again to leave at once", self.id));
                        self.client.ask(&kill(self.id, &caller("Ctrl-C in llts run")))?;
                        self.asked = true;
                    }
                }
            }
        }
    }
}
