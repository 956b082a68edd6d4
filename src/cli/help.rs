//! The help of the whole program: a first page with the common commands, `llts help all` with every command, `llts help options`, and
//! the pages of the manual. Each command's own help is that of clap.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::about::HelpArgs;
use super::args::Arguments;
use super::exit::Failure;
use super::manual;
use super::output::Output;
use super::selection::IDS;

/// Where a command stands in the help. Those of the first list are on the first page.
struct Heading {
    title: &'static str,
    first: &'static [&'static str],
    others: &'static [&'static str],
}

const HEADINGS: [Heading; 6] = [
    Heading { title: "Run", first: &["run", "map", "submit", "wait"], others: &["get", "progress"] },
    Heading {
        title: "Look",
        first: &["status", "show", "list", "logs", "job"],
        others: &["top", "jobs", "agents", "stats", "query", "explain", "history", "incidents", "events"],
    },
    Heading { title: "Change", first: &["kill", "retry", "pause"], others: &["resume", "forget", "gate"] },
    Heading {
        title: "Service",
        first: &["up", "down"],
        others: &[
            "restart",
            "info",
            "service",
            "doctor",
            "config",
            "init",
            "tool",
            "store",
            "controller",
            "agent",
            "completions",
        ],
    },
    Heading { title: "Machines", first: &["join"], others: &["keys", "context"] },
    Heading { title: "Other systems", first: &["graph", "prompt", "spool"], others: &["tdf"] },
];

/// Columns of the headings.
const TITLE_WIDTH: usize = 13;

/// `llts help`.
pub(super) fn run(out: &mut Output, args: &HelpArgs) -> Result<u8, Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let text = match words.as_slice() {
        [] => first_page(),
        ["all"] => all(),
        ["options"] => options(),
        [verb, ..] if command(&words).is_some() && manual::page(verb).is_none() => of_command(&words),
        [topic] => match manual::page(topic) {
            Some(page) => {
                manual::show(out, page);
                return Ok(0);
            }
            None => return Err(unknown(topic)),
        },
        _ => return Err(unknown(&words.join(" "))),
    };
    out.text(&text);
    Ok(0)
}

/// What help can be asked about.
pub(super) fn topics() -> Vec<(String, String)> {
    let own = [("all", "every command"), ("options", "the options of every command")];
    let pages = manual::topics().map(|topic| (topic.name, topic.title));
    let mut topics: Vec<_> =
        own.into_iter().chain(pages).map(|(name, about)| (name.to_owned(), about.to_owned())).collect();
    let program = Arguments::command();
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        // A page of the manual goes before the command of the same name.
        if topics.iter().all(|(name, _)| name != command.get_name()) {
            let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
            topics.push((command.get_name().to_owned(), about));
        }
    }
    topics
}

fn unknown(topic: &str) -> Failure {
    let names: Vec<&str> = manual::topics().map(|topic| topic.name).collect();
    let nearest =
        names.iter().map(|name| (strsim::jaro(topic, name), name)).max_by(|one, other| one.0.total_cmp(&other.0));
    let hint = nearest.filter(|(likeness, _)| *likeness > 0.8).map(|(_, name)| format!(" Did you mean {name}?"));
    let hint = hint.unwrap_or_default();
    Failure::usage(format!(
        "there is no help about {topic:?}.{hint} The pages of the manual: {}. The commands: llts help all",
        names.join(", ")
    ))
}

/// The command of these words: its name, or an alias, and the names of those below it.
fn command(words: &[&str]) -> Option<clap::Command> {
    let mut all = Arguments::command();
    all.build();
    words.iter().try_fold(all, |command, word| command.find_subcommand(word).cloned())
}

fn of_command(words: &[&str]) -> String {
    command(words).map(|mut command| command.render_long_help().to_string()).unwrap_or_default()
}

/// The page that a newcomer sees: no larger than the smallest terminal.
pub(super) fn first_page() -> String {
    let mut text = "llts runs commands and tools on this machine or on many.   Usage: llts COMMAND …\n\n".to_owned();
    text += &commands(false, |heading| heading.first.to_vec());
    text + "\nMore: llts help all, llts help options, llts help TOPIC, llts COMMAND --help\n"
}

/// Every command, and the pages of the manual.
fn all() -> String {
    let mut text = commands(true, |heading| heading.first.iter().chain(heading.others).copied().collect());
    text += "\nManual: llts help TOPIC\n";
    for topic in manual::topics() {
        let _ = writeln!(text, "  {:<16}{}", topic.name, topic.title);
    }
    text + "\nllts COMMAND --help shows the options of a command, llts help options those of all.\n"
}

fn commands(with_aliases: bool, which: impl Fn(&Heading) -> Vec<&'static str>) -> String {
    let all = Arguments::command();
    let mut text = String::new();
    let named = HEADINGS.iter().flat_map(&which).filter(|name| all.find_subcommand(name).is_some());
    let second = named.map(str::len).max().unwrap_or_default();
    let first = TITLE_WIDTH;
    for heading in &HEADINGS {
        let mut title = heading.title;
        for name in which(heading) {
            // A heading may name a command that a build does not have.
            let Some(command) = all.find_subcommand(name) else { continue };
            let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            let aliases =
                if aliases.is_empty() || !with_aliases { String::new() } else { format!(" ({})", aliases.join(", ")) };
            let _ = writeln!(text, "{title:<first$}  {name:<second$}  {about}{aliases}");
            title = "";
        }
    }
    text
}

/// The options of every command, and the codes with which one exits.
fn options() -> String {
    let global = Arguments::command();
    let shown = global.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.clone().hide(false));
    let mut command = clap::Command::new("llts").disable_help_flag(true).args(shown).help_template("{options}");
    format!(
        "Every command takes these options, before or behind its name:\n\n{}\n\nllts help exit-codes explains the exit codes.\n",
        command.render_long_help()
    )
}

/// What to say in place of clap's words, if those do not help.
pub(super) fn in_place_of(refused: &clap::Error, verb: Option<&str>) -> Option<String> {
    match (refused.kind(), verb) {
        (ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, None) => Some(first_page()),
        (ErrorKind::MissingRequiredArgument, Some(verb)) if lacks_a_selection(refused) => Some(which_task(verb)),
        _ => None,
    }
}

/// A message of several lines as one sentence.
pub(super) fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").or_else(|| text.strip_prefix("llts: ")).unwrap_or(text);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

fn lacks_a_selection(refused: &clap::Error) -> bool {
    let Some(ContextValue::Strings(missing)) = refused.get(ContextKind::InvalidArg) else { return false };
    missing.iter().any(|missing| missing.contains(IDS))
}

fn which_task(verb: &str) -> String {
    let row = |command: &str, about| format!("  {command:<30}  {about}\n");
    format!("llts: {verb} which tasks?\n")
        + &row(&format!("llts {verb} last"), "the newest; last:5 are the five newest")
        + &row(&format!("llts {verb} ID"), "one, or several; llts list shows the ids")
        + &row(&format!("llts {verb} --job NAME"), "those of a job; all, --failed and others: --help")
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn each_command_has_one_heading() {
        let named: Vec<_> = HEADINGS.iter().flat_map(|heading| heading.first.iter().chain(heading.others)).collect();
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let count = named.iter().filter(|named| **named == &name).count();
            assert_eq!(count, 1, "src/cli/help.rs: {name} stands below {count} headings of HEADINGS");
        }
    }

    #[test]
    fn the_first_page_fits_the_smallest_terminal() {
        let page = first_page();
        assert!(page.lines().count() < 24, "{page}");
        let widest = page.lines().max_by_key(|line| line.width()).unwrap();
        assert!(widest.width() <= 80, "{widest}");
        insta::assert_snapshot!(page);
    }

    #[test]
    fn all_commands_and_options_are_explained_elsewhere() {
        insta::assert_snapshot!(all());
        let options = options();
        for option in ["--home", "--config", "--controller", "--context", "--output"] {
            assert!(options.contains(option), "{options}");
        }
        let help = of_command(&["list"]);
        assert!(!help.contains("--controller") && help.contains("llts help options"), "{help}");
    }

    #[test]
    fn a_command_without_tasks_says_what_to_type() {
        use clap::Parser as _;
        for verb in ["logs", "wait", "kill", "retry", "query"] {
            let refused = Arguments::try_parse_from(["llts", verb]).unwrap_err();
            let said = in_place_of(&refused, Some(verb)).unwrap_or_else(|| panic!("{verb}: {refused}"));
            assert!(said.contains(&format!("llts {verb} last")), "{said}");
        }
        let refused = Arguments::try_parse_from(["llts", "logs", "--no-such-option"]).unwrap_err();
        assert_eq!(in_place_of(&refused, Some("logs")), None);
    }

    #[test]
    fn an_unknown_topic_is_refused_with_the_known_ones() {
        let sentence = unknown("shel").sentence;
        assert!(sentence.contains("Did you mean shell?") && sentence.contains("exit-codes"), "{sentence}");
    }
}
