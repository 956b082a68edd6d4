//! `llts events`: the changes of tasks as they happen.
//!
//! The controller broadcasts them, so they cost it one message each, and nothing polls. A reader that is too slow loses some, and so does
//! a lost connection; `seq` of a task reveals that.

use std::os::fd::AsFd as _;

use clap::Args;

use api::wire::client::{Selector, TaskView};
use api::wire::publish;
use api::wire::publish::read_status;
use api::wire::requests::rows::{RowsAsk, rows};
use api::wire::requests::stats;
use base::words::kind;
use base::{JobName, Outcome, Phase, ToolName, printable, words};
use llts_client::{Arrival, Client, ClientError, Pipeline};
use proc::clock;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::{note, to_value};
use term::session::Session;
use term::states::ended;
use term::{exit, times};

#[derive(Args, Debug)]
#[command(after_help = "\
Prints a line for each change of a task, until Ctrl-C; with --output json, an object. An event is told once and is not kept: those \
before the start of this command are in `llts show` and `llts history`. A number that is missing in `seq` of a task stands for a change \
that was not told to this reader.")]
pub(super) struct EventsArgs {
    /// Only tasks of this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Only tasks of this tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only changes into these states: phases, or ways to end; several words with commas between them
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<String>,
}

/// A phase or an outcome, in capitals.
fn state(text: &str) -> Result<String, String> {
    let word = text.to_uppercase();
    if let Some(outcome) = ended(text) {
        return Ok(words::outcome(outcome).to_owned());
    }
    if words::phase_of(&word).is_some() {
        return Ok(word);
    }
    Err(format!("it is no state; write one of {}", states().collect::<Vec<_>>().join(", ")))
}

/// The words of all phases and outcomes.
pub(super) fn states() -> impl Iterator<Item = String> {
    let phases = Phase::ALL.into_iter().map(words::phase);
    phases.chain(Outcome::ALL.into_iter().map(words::outcome)).map(str::to_lowercase)
}

impl EventsArgs {
    /// Refuses names that no job or tool can have.
    fn check(&self) -> Result<(), Failure> {
        if let Some(name) = &self.job {
            JobName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
        }
        if let Some(name) = self.archive() {
            ToolName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(())
    }

    /// The tool's name, unless the tool is built in.
    fn archive(&self) -> Option<&str> {
        let built_in = [ToolName::command(), ToolName::source()];
        self.tool.as_deref().filter(|name| built_in.iter().all(|tool| tool.as_str() != *name))
    }

    /// The name of a job or tool that no task has yet: such a task may still come, or the name is misspelt.
    fn unknown(&self, client: &Client) -> Result<Option<String>, ClientError> {
        // This way, a controller that does not answer is reported at once.
        client.ask(&stats::agents())?;
        let is_unknown = |selector: &Selector, tool: Option<&str>| {
            let ask = RowsAsk { tool: tool.map(str::to_owned), ..RowsAsk::default() };
            Ok::<_, ClientError>(client.ask(&rows(selector, &ask, 0, 1))?.total == 0)
        };
        Ok(match (&self.job, self.archive()) {
            (Some(job), _) if is_unknown(&Selector::all().and_job(job), None)? => Some(format!("job {job}")),
            (_, Some(tool)) if is_unknown(&Selector::all(), Some(tool))? => Some(format!("tool {tool}")),
            _ => None,
        })
    }

    fn wants(&self, task: &TaskView) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| wanted.is_none() || wanted.as_deref() == found;
        let states = [Some(task.status()), task.outcome()];
        let is_state = self.state.is_empty() || self.state.iter().any(|state| states.contains(&Some(state.as_str())));
        is(&self.job, task.fields().text(words::JOB)) && is(&self.tool, Some(task.tool())) && is_state
    }
}

pub(super) fn run(session: &mut Session, args: &EventsArgs) -> Result<u8, Failure> {
    // Before any thread is started.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    args.check()?;
    let client = session.client()?;
    let unknown = args.unknown(&client)?;
    let endpoint = session.global.named().endpoint(&session.config)?;
    let prefix = publish::prefix(kind::TASK_STATUS);
    let mut pipeline = Pipeline::secured(&session.config, &endpoint, Some(&prefix))?;
    if !pipeline.hears_broadcasts() {
        return Err(Failure::usage(format!(
            "the address of the broadcasts of {endpoint} is not known here; name the controller in a configuration or a context, or \
             read GET /events of its HTTP_ADDRESS"
        )));
    }
    if !session.out.is_json() {
        let yet = unknown.map(|name| format!("no task has {name} yet; ")).unwrap_or_default();
        note(&format!("{yet}waiting for changes; Ctrl-C ends this"));
    }
    loop {
        let (ready, arrivals) = pipeline.wait(None, &[signals.as_fd()])?;
        if ready.first() == Some(&true) && !signals.read().is_empty() {
            return Ok(exit::INTERRUPTED);
        }
        for arrival in arrivals {
            let Arrival::Broadcast(frame) = arrival else { continue };
            let Some(task) = read_status(&frame).filter(|task| args.wants(task)) else { continue };
            if session.out.is_json() {
                session.out.value(&serde_json::json!({ "task": to_value(task.fields()) }));
            } else {
                session.out.line(line(&task, &times::time_of_day(clock::now().wall)));
            }
            if session.out.is_broken() {
                return Ok(exit::BROKEN_PIPE);
            }
        }
    }
}

/// One change, as a line for people.
fn line(task: &TaskView, at: &str) -> String {
    let (state, code) = (task.outcome().unwrap_or(task.status()), task.exit_code().filter(|code| code.0 != 0));
    let code = code.map(|code| format!(" exit {code}")).unwrap_or_default();
    let agent = task.agent().map(|agent| format!("  {agent}")).unwrap_or_default();
    let last = task.outcome().map(|_| task.last_line()).filter(|last| !last.is_empty());
    let told = task.progress().map(|told| told.to_string());
    let last = last.map(str::to_owned).or(told).map(|last| format!("  {last}")).unwrap_or_default();
    printable(&format!("{at}  {}  {:<10}{code}{agent}  {}{last}", task.id(), state.to_lowercase(), task.work()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Fields;

    fn task(state: &str, outcome: Option<&str>) -> TaskView {
        let fields =
            Fields::new().with(words::TASK_ID, "T").with(words::STATUS, state).with(words::OPERATION, "convert");
        let fields = fields.with(words::JOB, "nightly").with(words::AGENT_ID, "agent-1");
        outcome
            .into_iter()
            .fold(fields, |fields, word| fields.with(words::OUTCOME, word).with(words::EXIT_CODE, 3))
            .into()
    }

    #[test]
    fn a_change_is_a_line() {
        assert_eq!(line(&task("RUNNING", None), "12:00:00"), "12:00:00  T  running     agent-1  convert");
        let told =
            task("RUNNING", None).fields().clone().with(words::PROGRESS, 0.4).with(words::PROGRESS_TEXT, "tile 12");
        assert_eq!(line(&told.into(), "12:00:00"), "12:00:00  T  running     agent-1  convert  40 %: tile 12");
        let ended = task("FINISHED", Some("FAILED"));
        assert_eq!(line(&ended, "12:00:00"), "12:00:00  T  failed     exit 3  agent-1  convert");
    }

    #[test]
    fn changes_are_chosen_by_job_tool_and_state() {
        let args = |job: Option<&str>, tool: Option<&str>, states: &[&str]| EventsArgs {
            job: job.map(str::to_owned),
            tool: tool.map(str::to_owned),
            state: states.iter().map(|word| state(word).unwrap()).collect(),
        };
        let (running, failed) = (task("RUNNING", None), task("FINISHED", Some("FAILED")));
        assert!(args(None, None, &[]).wants(&running) && args(Some("nightly"), Some("convert"), &[]).wants(&running));
        assert!(!args(Some("other"), None, &[]).wants(&running) && !args(None, Some("other"), &[]).wants(&running));
        assert!(args(None, None, &["failed"]).wants(&failed) && !args(None, None, &["failed", "lost"]).wants(&running));
        let ends = [Outcome::Succeeded, Outcome::TimedOut].map(|end| Ok(words::outcome(end).to_owned()));
        assert_eq!([state("ok"), state("timed-out")], ends);
        assert!(state("hung").unwrap_err().contains("it is no state"));
        assert!(args(Some("nightly"), Some(":command"), &[]).check().is_ok());
        for (job, tool, why) in [(Some("a/b"), None, "not the name of a job"), (None, Some(".x"), "not a tool name")] {
            let refused = args(job, tool, &[]).check().unwrap_err();
            assert!(refused.exit == exit::USAGE && refused.sentence.contains(why), "{refused:?}");
        }
    }
}
