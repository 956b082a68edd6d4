//! The command line: takes arguments, prints text for people or JSON for programs. Each subcommand has one file.
//!
//! Results go to stdout, everything else to stderr, in single lines that begin with `llts:`. With `--output json`, stdout is one JSON
//! value, even when the command fails.

mod answers;
mod args;
mod caller;
mod change;
mod command;
mod failures;
mod file;
mod host;
mod later;
mod output_reader;
mod parameter;
mod policy;
mod relations;
mod rounds;
mod rows;
mod selection;
mod tails;
mod waiting;

mod about;
mod agent;
mod agents;
mod completions;
mod config;
mod context;
mod controller;
mod doctor;
mod down;
mod drain;
mod events;
mod explain;
mod forget;
mod gate;
mod get;
mod graph;
mod guard;
mod hand_over;
mod help;
mod history;
mod hold;
mod incidents;
mod info;
mod init;
mod invite;
mod job;
mod join;
mod keys;
mod kill;
mod list;
mod logs;
mod manual;
mod map;
mod open;
mod pause;
mod progress;
mod query;
mod restart;
mod retry;
pub mod run;
mod service;
mod show;
mod stats;
mod status;
mod step;
mod store;
mod submit;
mod supervise;
mod tool;
mod tool_help;
mod top;
mod up;
mod wait;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal as _};

use clap::Parser;

use ::service::supervisor::{self, Abandoned};
use api::config::{Config, ConfigError, Sources};
use api::home::Home;
use api::tools;
use base::{os_text, printable, printable_lines, shortened};
use proc::first_process;
use proc::process::close_all_on_exec;
use proc::supervised::is_supervised;

use args::{Arguments, Command, Place};
use term::connect::Global;
use term::exit::Failure;
use term::output::{Format, Output, note, print, written};
use term::session::Session;

/// Reads the arguments. Without a command, a terminal gets the status screen. In a map, all words after the first `:::` are values, even
/// those that begin with a dash.
fn arguments(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    if let Some((before, values)) = words.iter().position(|word| word == map::SOURCE).map(|at| words.split_at(at))
        && let Ok(mut arguments) = Arguments::try_parse_from(before)
        && let Command::Map(args) = &mut arguments.command
    {
        args.values = values.to_vec();
        return Ok(arguments);
    }
    match Arguments::try_parse_from(&words) {
        Err(refused) if args::lacks_command(&refused) && std::io::stdout().is_terminal() => {
            let alone = ["status", "--alone"].map(OsString::from);
            Arguments::try_parse_from(words.into_iter().chain(alone)).map_err(|_| refused)
        }
        parsed => parsed,
    }
}

/// Runs the program with the arguments of this process, and returns its exit code.
#[must_use]
pub fn run() -> u8 {
    if completions::answer() {
        return 0;
    }
    match first_process::run_child() {
        Ok(None) => {}
        Ok(Some(code)) => return code,
        Err(error) => note(&format!("processes that end here are not reaped: {error}")),
    }
    // A lock or a pipe of the caller belongs to this process, and not to a service that it starts.
    if let Err(error) = close_all_on_exec() {
        note(&format!("cannot keep descriptors of the caller from other programs: {error}"));
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let Arguments { global, command } = match arguments(words.clone()) {
        Ok(arguments) => arguments,
        Err(refused) => return refuse(refused, &words),
    };
    global.color.apply();
    term::hints::begin(term::hints::Options {
        // The commands that a join prints are meant for the other machine.
        of_home: if matches!(command, Command::Join(_)) { String::new() } else { global.typed_home() },
        of_controller: global.named_elsewhere().map(|named| format!(" {named}")).unwrap_or_default(),
        is_verb: help::is_verb,
        uses_a_controller: help::uses_a_controller,
    });
    let mut out = Output::of(global.output, name_of_verb(&global));
    if let Some(result) = without_a_service(&mut out, &command) {
        return result.and_then(|code| out.flushed().map(|()| code)).unwrap_or_else(|failure| {
            out.failure(&failure);
            failure.exit
        });
    }
    let is_map = matches!(command, Command::Map(_));
    let handover = if let Command::Supervise(args) = &command { args.0.handover() } else { None };
    let verb = name_of_verb(&global);
    let session = begin(global, &command, &verb).map_err(|failure| match handover {
        Some(handover) => supervise::not_begun(handover, failure),
        None => failure,
    });
    let result = session.and_then(|mut session| {
        let code = dispatch(&mut session, command)?;
        session.out.flushed()?;
        Ok(code)
    });
    result.unwrap_or_else(|failure| {
        let failure = if is_map { map::with_its_code(failure) } else { failure };
        out.failure(&failure);
        failure.exit
    })
}

/// The name of the command, if its results depend on it.
fn name_of_verb(global: &Global) -> String {
    let is_needed = global.output == Format::Json;
    is_needed.then(args::verb).flatten().unwrap_or_default()
}

/// Prints help, or the fault in the arguments.
fn refuse(mut refused: clap::Error, words: &[OsString]) -> u8 {
    let readable: Vec<OsString> = words.iter().map(|word| printable(&os_text(word)).into()).collect();
    let is_harmful = readable != words;
    if is_harmful && let Err(again) = arguments(readable.clone()) {
        // clap would take escape sequences from the caller for its own colours.
        refused = again;
    }
    help::advise(&mut refused, &readable);
    let refused = &refused;
    let verb = args::verb();
    let code = args::exit_code(refused, verb.as_deref());
    let mut out = Output::of(args::format(), verb.as_deref().unwrap_or_default());
    if code != 0 && out.is_json() {
        let text = help::in_place_of(refused, verb.as_deref()).unwrap_or_else(|| refused.to_string());
        out.failure(&Failure::new(code, help::one_line(&text)));
        return code;
    }
    let printed = match help::in_place_of(refused, verb.as_deref()) {
        Some(text) => print(&shortened(&text), refused.use_stderr()),
        None if code != 0
            && let text = refused.to_string()
            && let short = shortened(&text)
            && (is_harmful || matches!(short, Cow::Owned(_))) =>
        {
            print(&printable_lines(&short), refused.use_stderr())
        }
        None => refused.print(),
    };
    tool_help::print(refused);
    // Help and version are results. An error has nowhere else to go.
    if code == 0
        && let Err(failure) = written(printed)
    {
        note(&failure.sentence);
        return failure.exit;
    }
    code
}

/// Runs a command that needs neither a home nor a configuration, so that a spoilt one does not stop it.
fn without_a_service(out: &mut Output, command: &Command) -> Option<Result<u8, Failure>> {
    match command {
        Command::Help(args) => Some(help::run(out, args)),
        Command::Completions(args) => Some(completions::run(out, args)),
        Command::Man(args) => Some(manual::write(out, args)),
        Command::Progress(args) => Some(progress::run(args)),
        Command::Service(args) => service::without_home(out, args),
        _ => None,
    }
}

/// Makes the context of a command.
fn begin(mut global: Global, command: &Command, verb: &str) -> Result<Session, Failure> {
    let (home, mut config, sources) = configure(&mut global, command)?;
    // A process of a service has the environment of the service, which has printed these warnings already.
    if command.is_for_people() && !is_supervised() {
        sources.warnings().iter().for_each(|warning| note(warning));
    }
    obey_or_refuse(&global, command)?;
    if command.acts_elsewhere().is_none() {
        use_context(&mut global, &mut config)?;
    }
    let out = Output::of(global.output, verb);
    Ok(Session { global, config, sources, home, out })
}

/// Finds the home and reads the configuration there.
fn configure(global: &mut Global, command: &Command) -> Result<(Home, Config, Sources), Failure> {
    let usage = |error: ConfigError| Failure::usage(error.to_string());
    if command.place() == Place::Controller
        && let Some(of_task) = global.named().of_task()?
    {
        return Ok(of_task);
    }
    let mut home = match Home::find(global.home.as_deref(), global.config.as_deref()) {
        // Doctor reports the home as it is, even an unusable one.
        Err(_) if matches!(command, Command::Doctor) => Home::meant(global.home.as_deref(), global.config.as_deref()),
        found => found?,
    };
    if command.runs_in_its_home() {
        // This is the only path that is relative to the folder in which the process was started.
        if let Some(file) = &mut global.config {
            *file = std::path::absolute(&*file).unwrap_or_else(|_| file.clone());
        }
        home.make().and_then(|_| home.enter())?;
    }
    let (mut config, sources) = match command {
        Command::Config(args) if args.is_about_defaults() => Config::built_in(),
        _ => load(global, &home, command),
    }
    .map_err(usage)?;
    if command.place() != Place::Service {
        global.named().use_keys_of_task(&mut config)?;
    }
    Ok((home, config, sources))
}

/// Reads the configuration. A command that looks at or stops a running service needs no more of it than the place of the socket, so a
/// damaged file must not keep it from that.
fn load(global: &Global, home: &Home, command: &Command) -> Result<(Config, Sources), ConfigError> {
    let (file, base) = (global.config.as_deref(), home.base());
    if let Some(kept) = command.kept_config() {
        return Config::load_kept(file, base, &kept);
    }
    Config::load(file, base).or_else(|damage| {
        // A named file that does not exist is a mistake in the command.
        let is_absent = matches!(&damage, ConfigError::Read { source, .. } if source.kind() == ErrorKind::NotFound);
        if is_absent || !command.does_without_configuration() {
            return Err(damage);
        }
        let Ok(sound) = Config::load_what_is_sound(file, base) else { return Err(damage) };
        if !matches!(command, Command::Doctor) {
            note(&format!("{damage}; this command works without it, and the next start needs this mended"));
        }
        Ok(sound)
    })
}

/// Ends the remains of ephemeral services whose keepers were killed, and reports them.
fn end_abandoned(session: &Session) {
    for Abandoned { folder, ended } in supervisor::end_abandoned(&session.config) {
        note(&down::of_abandoned(&folder, ended.as_ref()));
    }
}

/// Creates the home with a first tool, if it does not exist, and says so.
fn make_home(session: &Session) -> Result<(), Failure> {
    if let Some(sentence) = made_home(session)? {
        note(&sentence);
    }
    Ok(())
}

/// As [`make_home`], but returns the sentence about a new home.
fn made_home(session: &Session) -> Result<Option<String>, Failure> {
    if !session.home.make()? {
        return Ok(None);
    }
    let folder = session.home.folder().display();
    let paths = &session.config.paths;
    match &paths.tool_sources_dir {
        Some(sources) if !sources.exists() && !paths.tools_dir.exists() => {
            tools::unpack_samples(sources, Some(tools::FIRST_SAMPLE)).map_err(Failure::failed)?;
            Ok(Some(format!("{folder} is the home of your service; it has the tool {} to try", tools::FIRST_SAMPLE)))
        }
        _ => Ok(Some(format!("{folder} is the home of your service"))),
    }
}

/// Refuses a named controller that the command would not use.
fn obey_or_refuse(global: &Global, command: &Command) -> Result<(), Failure> {
    match (global.named_elsewhere(), command.acts_elsewhere()) {
        (Some(named), Some(what)) => Err(Failure::usage(format!("{what}, so {named} has no meaning here; omit it"))),
        _ => Ok(()),
    }
}

/// Takes the address and the keys of the named context.
fn use_context(global: &mut Global, config: &mut Config) -> Result<(), Failure> {
    if let Some(address) = global.named().use_context(config)? {
        global.set_controller(address);
    }
    Ok(())
}

fn dispatch(session: &mut Session, command: Command) -> Result<u8, Failure> {
    match command {
        Command::Up(args) => up::run(session, &args),
        Command::Down(args) => down::run(session, &args),
        Command::Restart(args) => restart::run(session, &args),
        Command::Run(args) => run::run(session, &args),
        Command::Map(args) => map::run(session, &args),
        Command::Submit(args) => submit::run(session, &args),
        Command::Wait(args) => wait::run(session, &args),
        Command::Logs(args) => logs::run(session, &args),
        Command::Kill(args) => kill::run(session, &args),
        Command::Retry(args) => retry::run(session, &args),
        Command::Forget(args) => forget::run(session, &args),
        Command::Get(args) => get::run(session, &args),
        Command::Hold(args) => hold::run(session, &args),
        Command::Release(args) => hold::release(session, &args),
        Command::Pause(args) => pause::run(session, &args),
        Command::Resume(args) => pause::resume(session, &args),
        Command::Query(args) => query::run(session, &args),
        Command::Explain(args) => explain::run(session, &args),
        Command::Show(args) => show::run(session, &args),
        Command::List(args) => list::run(session, &args),
        Command::History(args) => history::run(session, &args),
        Command::Events(args) => events::run(session, &args),
        Command::Incidents(args) => incidents::run(session, &args),
        Command::Jobs(args) => job::list(session, &args),
        Command::Job(args) => job::run(session, &args),
        Command::Stats => stats::run(session),
        Command::Status(args) => status::run(session, &args),
        Command::Top(args) => top::run(session, &args),
        Command::Info => info::run(session),
        Command::Open(args) => open::run(session, &args),
        Command::Doctor => doctor::run(session),
        Command::Service(args) => service::run(session, &args),
        Command::Init(args) => init::run(session, &args),
        Command::Join(args) => join::run(session, &args),
        Command::Agents => agents::run(session),
        Command::Drain(args) => drain::run(session, &args),
        Command::Gate(args) => gate::run(session, &args),
        Command::Store(args) => store::run(session, &args),
        Command::Graph(args) => graph::run(session, &args),
        Command::Step(args) => step::run(session, &args),
        Command::Tool(args) => tool::run(session, &args),
        Command::Keys(args) => keys::run(session, &args),
        Command::Config(args) => config::run(session, &args),
        Command::Context(args) => context::run(session, args.0),
        Command::Prompt(args) => prompts::cli::run(session, args.0),
        Command::Lists(args) => lists::cli::run(session, &args),
        Command::Tdf(args) => tdf::cli::run(session, args.0),
        Command::Controller(args) => controller::run(session, &args),
        Command::Agent(args) => agent::run(session, &args),
        Command::Guard(args) => guard::run(session, &args),
        Command::Supervise(args) => supervise::run(session, args.0),
        // These commands already ran, without a session.
        Command::Help(_) | Command::Completions(_) | Command::Man(_) | Command::Progress(_) => Ok(0),
    }
}
