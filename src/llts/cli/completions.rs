//! `llts completions`: words that a shell can offer after the typed ones. Names of tasks, jobs, agents, gates and tools come from the
//! running service, over its socket. Without a service, nothing is offered or reported.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Arg, CommandFactory as _, Parser as _, ValueHint};
use clap_complete::env::Shells;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate};

use super::about::CompletionsArgs;
use super::args::Arguments;
use super::selection::ids::short;
use super::{configure, events, help, rows, use_context};
use api::wire::client::Selector;
use api::wire::requests::gate::gates;
use api::wire::requests::job::jobs;
use api::wire::requests::list::tasks;
use api::wire::requests::tool;
use llts_client::{Client, ClientError};
use term::exit::Failure;
use term::output::Output;
use term::states;

/// The variable with which a shell asks for completions; its value is the name of the shell.
const VARIABLE: &str = "LLTS_COMPLETE";

/// Completion must feel instant, so a shell waits no longer for the service.
const PATIENCE: Duration = Duration::from_millis(25);

/// The number of newest tasks and jobs that are offered.
const OFFERED: u64 = 100;

/// `llts completions SHELL`: prints the script for a shell.
pub(super) fn run(out: &mut Output, args: &CompletionsArgs) -> Result<u8, Failure> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        let names: Vec<_> = shells.names().collect();
        let sentence =
            format!("there are no completions for the shell {:?}; there are for {}", args.shell, names.join(", "));
        return Err(Failure::usage(sentence));
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "llts", "llts", "llts", &mut script).map_err(Failure::failed)?;
    out.text(&String::from_utf8_lossy(&script));
    Ok(0)
}

/// Answers a shell that started this process for completions. Returns whether one did.
pub(super) fn answer() -> bool {
    let here = std::env::current_dir().ok();
    // The script puts a `--` before the words of the line.
    let has_command = std::env::args_os().skip(2).any(|word| word == "--");
    let factory = if has_command { words_of_a_command } else { command };
    let asked = CompleteEnv::with_factory(factory).var(VARIABLE).try_complete(std::env::args_os(), here.as_deref());
    // A user at the prompt cannot fix a wrong request of the shell, so it is not reported.
    asked.unwrap_or(true)
}

fn command() -> clap::Command {
    let mut command = Arguments::command();
    command.build();
    with_names(command)
}

/// In place of all verbs, where a command stands behind `--`: its words may be files, and the engine of completions offers nothing there.
fn words_of_a_command() -> clap::Command {
    clap::Command::new("llts").arg(Arg::new("words").num_args(0..).value_hint(ValueHint::AnyPath))
}

/// Offers names for the arguments that are names of things of a service, or words of this program.
fn with_names(command: clap::Command) -> clap::Command {
    let verb = command.get_name().to_owned();
    // The engine offers a command once, and would offer its shortest name.
    let aliases: Vec<String> = command.get_visible_aliases().map(str::to_owned).collect();
    let command = command.visible_alias(Resettable::Reset).aliases(aliases);
    let command = command.mut_args(|arg| match names_for(&verb, &arg) {
        Some(names) => {
            let is_list = arg.get_value_delimiter() == Some(',');
            arg.add(ArgValueCompleter::new(move |current: &OsStr| offered(names, current, is_list)))
        }
        None => arg,
    });
    command.mut_subcommands(with_names)
}

/// Names, each with a short description.
type Named = Vec<(String, String)>;

#[derive(Clone, Copy)]
enum Names {
    OfService(fn(&Client, &str) -> Result<Named, ClientError>),
    Known(fn() -> Named),
}

/// The kind of names for an argument, which the argument's name in the help tells.
fn names_for(verb: &str, arg: &Arg) -> Option<Names> {
    let shown = arg.get_value_names()?.first()?.as_str();
    Some(match (shown, arg.get_id().as_str()) {
        ("TASK", _) if verb == "kill" => Names::OfService(|client, current| task_names(client, current, false)),
        ("TASK", _) => Names::OfService(|client, current| task_names(client, current, true)),
        ("AGENT", _) | ("NAME", "agent") => Names::OfService(agent_names),
        ("GATE", _) | ("NAME", "gate") => Names::OfService(gate_names),
        ("TOOL", _) | ("NAME", "tool") => Names::OfService(tool_names),
        ("NAME", "job" | "after_job") => Names::OfService(job_names),
        ("NAME", "columns") => Names::Known(|| plain(rows::column_names())),
        ("STATE", "state") if verb == "events" => Names::Known(|| plain(events::states())),
        ("STATE", "state") => Names::Known(|| plain(states::shown_words())),
        ("SHELL", _) => Names::Known(|| plain(Shells::builtins().names().map(str::to_owned))),
        ("TOPIC", _) => Names::Known(help::topics),
        _ => return None,
    })
}

fn plain(names: impl Iterator<Item = String>) -> Named {
    names.map(|name| (name, String::new())).collect()
}

/// The names that may replace a word, or the last part of a list with commas.
fn offered(names: Names, current: &OsStr, is_list: bool) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let before = current.rfind(',').filter(|_| is_list).map_or(0, |comma| comma + 1);
    let (before, current) = current.split_at(before);
    let found = match names {
        Names::OfService(names) => client().and_then(|client| names(&client, current).ok()).unwrap_or_default(),
        Names::Known(names) => names(),
    };
    let fitting = found.into_iter().filter(|(name, _)| name.starts_with(current));
    let offer = |(name, about): (String, String)| {
        CompletionCandidate::new(OsString::from(format!("{before}{name}")))
            .help(Some(about).filter(|about| !about.is_empty()).map(Into::into))
    };
    fitting.map(offer).collect()
}

/// The running service that a command without options would use.
fn client() -> Option<Client> {
    let Arguments { mut global, command } = Arguments::try_parse_from(["llts", "stats"]).ok()?;
    let (_, mut config, _) = configure(&mut global, &command).ok()?;
    use_context(&mut global, &mut config).ok()?;
    config.client.reply_timeout = PATIENCE;
    Client::secured(&config, &global.named().endpoint(&config).ok()?).ok()
}

/// The short ids of tasks, or their whole ids once the beginning of one is typed, and the words that stand for tasks.
fn task_names(client: &Client, current: &str, with_finished: bool) -> Result<Named, ClientError> {
    let rows = client.ask(&tasks(&Selector::all(), 0, OFFERED))?.rows;
    let is_whole = current.starts_with('T') && "TASK_".starts_with(current.get(..5).unwrap_or(current));
    let about = |state: &str, work: &str| format!("{} {work}", state.to_lowercase());
    let id = |id: &str| if is_whole { id.to_owned() } else { short(id).to_owned() };
    let wanted = rows.iter().filter(|task| with_finished || task.outcome().is_none());
    let found = wanted.map(|task| (id(task.id()), about(task.outcome().unwrap_or(task.status()), &task.work())));
    let words =
        [("last", "the newest task"), ("all", "all tasks")].map(|(word, about)| (word.to_owned(), about.to_owned()));
    Ok(words.into_iter().chain(found).collect())
}

fn job_names(client: &Client, _current: &str) -> Result<Named, ClientError> {
    let rows = client.ask(&jobs(0, OFFERED))?.rows;
    Ok(rows.iter().map(|job| (job.name().to_owned(), base::counted(job.total(), "task"))).collect())
}

fn agent_names(client: &Client, _current: &str) -> Result<Named, ClientError> {
    let rows = client.agents()?;
    Ok(rows.iter().map(|agent| (agent.id().to_owned(), agent.status().to_lowercase())).collect())
}

fn gate_names(client: &Client, _current: &str) -> Result<Named, ClientError> {
    let rows = client.ask(&gates())?.rows;
    Ok(rows.iter().map(|gate| (gate.name().to_owned(), gate.status().to_lowercase())).collect())
}

fn tool_names(client: &Client, _current: &str) -> Result<Named, ClientError> {
    let rows = client.all(tool::list)?;
    Ok(rows.iter().map(|tool| (tool.name().to_owned(), String::new())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_names(command: &clap::Command, path: &[&str], id: &str) -> bool {
        let command = path.iter().try_fold(command, |command, name| command.find_subcommand(name)).unwrap();
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap_or_else(|| panic!("{path:?} {id}"));
        names_for(command.get_name(), arg).is_some()
    }

    #[test]
    fn names_of_things_are_offered_where_they_are_taken() {
        let mut command = Arguments::command();
        command.build();
        for (path, id) in [
            (&["logs"][..], "tasks"),
            (&["kill"], "job"),
            (&["run"], "tool"),
            (&["submit"], "after"),
            (&["pause"], "agent"),
            (&["pause"], "gate"),
            (&["gate", "set"], "gate"),
            (&["job"], "job"),
            (&["list"], "agent"),
            (&["list"], "tool"),
            (&["history"], "agent"),
            (&["history"], "tool"),
            (&["events"], "tool"),
        ] {
            assert!(has_names(&command, path, id), "{path:?} {id}");
        }
        assert!(!has_names(&command, &["logs"], "given_id"));
    }

    #[test]
    fn words_of_this_program_are_offered_also_behind_a_comma() {
        let mut command = Arguments::command();
        command.build();
        let offered = |verb: &str, id: &str, current: &str| -> Vec<String> {
            let command = command.find_subcommand(verb).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            let names = names_for(verb, arg).unwrap_or_else(|| panic!("{verb} {id}"));
            let found = offered(names, OsStr::new(current), arg.get_value_delimiter() == Some(','));
            found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(offered("list", "state", "f"), ["failed"]);
        assert_eq!(offered("list", "state", "ok,t"), ["ok,timed-out"]);
        assert_eq!(offered("events", "state", "running,f"), ["running,finished", "running,failed"]);
        assert_eq!(offered("list", "columns", "id,wh"), ["id,when", "id,what", "id,why"]);
        assert_eq!(offered("help", "words", "exit"), ["exit-codes"]);
        assert_eq!(offered("completions", "shell", ""), ["bash", "elvish", "fish", "powershell", "zsh"]);
        assert!(offered("help", "words", "").iter().any(|topic| topic == "map"));
    }

    #[test]
    fn scripts_are_made_for_the_shells_and_others_are_refused() {
        for shell in ["bash", "zsh", "fish"] {
            let mut script = Vec::new();
            let shells = Shells::builtins();
            shells.completer(shell).unwrap().write_registration(VARIABLE, "llts", "llts", "llts", &mut script).unwrap();
            assert!(String::from_utf8(script).unwrap().contains(VARIABLE), "{shell}");
        }
        let mut out = Output::new(term::output::Format::Human);
        let refused = run(&mut out, &CompletionsArgs { shell: "csh".to_owned() }).unwrap_err();
        assert!(refused.exit == 2 && refused.sentence.contains("\"csh\"; there are for bash"), "{refused:?}");
    }
}
