//! The help of the whole program: a first page with the common commands, `llts help all` with every command, `llts help options`, and the
//! pages of the manual. Each command's own help comes from clap.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::CommandFactory as _;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::about::HelpArgs;
use super::args::Arguments;
use super::manual;
use super::selection::IDS;
use term::exit::Failure;
use term::output::Output;
use term::style::{Look, PLAIN, Screen};

/// A group of commands in the help. Commands in its first list are on the first page.
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
            "open",
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

/// Columns of the help if the width of the terminal is unknown.
const WIDTH: usize = 80;

/// Columns of the headings.
const TITLE_WIDTH: usize = 13;

/// Whether it is the name of a command for people.
pub(super) fn is_verb(word: &str) -> bool {
    HEADINGS.iter().any(|heading| heading.has(word))
}

/// Whether a command for people uses the controller that an option names.
pub(super) fn uses_a_controller(verb: &str) -> bool {
    HEADINGS[..3].iter().any(|heading| heading.has(verb)) || ["graph", "info"].contains(&verb)
}

impl Heading {
    fn has(&self, name: &str) -> bool {
        self.first.iter().chain(self.others).any(|own| *own == name)
    }
}

/// `llts help`.
pub(super) fn run(out: &mut Output, args: &HelpArgs) -> Result<u8, Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let text = match words.as_slice() {
        [] => first_page(),
        ["all"] => all(),
        ["options"] => options(out.columns().unwrap_or(WIDTH)),
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

/// The topics for help.
pub(super) fn topics() -> Vec<(String, String)> {
    let own = [("all", "every command"), ("options", "the options of every command")];
    let pages = manual::topics().map(|topic| (topic.name, topic.title));
    let mut topics: Vec<_> =
        own.into_iter().chain(pages).map(|(name, about)| (name.to_owned(), about.to_owned())).collect();
    let program = Arguments::command();
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        // A page of the manual takes precedence over a command of the same name.
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

/// The command for these words: its name or alias, then the names of its subcommands.
fn command(words: &[&str]) -> Option<clap::Command> {
    let mut all = Arguments::command();
    all.build();
    words.iter().try_fold(all, |command, word| command.find_subcommand(word).cloned())
}

fn of_command(words: &[&str]) -> String {
    command(words).map(|mut command| command.render_long_help().to_string()).unwrap_or_default()
}

/// The page for newcomers, which fits the smallest terminal.
pub(super) fn first_page() -> String {
    let mut text = "llts runs commands and tools on this machine or on many.   Usage: llts COMMAND …\n\n".to_owned();
    text += &commands(false, |heading| heading.first.to_vec());
    text + "\nMore: llts help all, llts help options, llts help TOPIC, llts COMMAND --help\n"
}

/// Every command, and the pages of the manual.
fn all() -> String {
    let mut text = commands(true, |heading| heading.first.iter().chain(heading.others).copied().collect());
    text += "\nManual: llts help TOPIC\n";
    let mut topics = Screen::new(Look::plain(Some(WIDTH)));
    for topic in manual::topics() {
        topics.behind((PLAIN, &format!("  {}", topic.name), 18), PLAIN, topic.title);
    }
    text += &topics.text();
    text + "\nllts COMMAND --help has the options of a command, llts help options of all.\n"
}

fn commands(with_aliases: bool, which: impl Fn(&Heading) -> Vec<&'static str>) -> String {
    let all = Arguments::command();
    let mut screen = Screen::new(Look::plain(Some(WIDTH)));
    let named = HEADINGS.iter().flat_map(&which).filter(|name| all.find_subcommand(name).is_some());
    let second = named.map(str::len).max().unwrap_or_default();
    let first = TITLE_WIDTH;
    for heading in &HEADINGS {
        let mut title = heading.title;
        for name in which(heading) {
            // The build may lack a command that a heading names.
            let Some(command) = all.find_subcommand(name) else { continue };
            let about = command.get_about().map(StyledStr::to_string).unwrap_or_default();
            let aliases: Vec<&str> = command.get_visible_aliases().collect();
            let aliases =
                if aliases.is_empty() || !with_aliases { String::new() } else { format!(" ({})", aliases.join(", ")) };
            let before = format!("{title:<first$}  {name:<second$}  ");
            screen.behind((PLAIN, &before, before.len()), PLAIN, &format!("{about}{aliases}"));
            title = "";
        }
    }
    screen.text()
}

/// The options of every command, and the exit codes.
fn options(width: usize) -> String {
    let global = Arguments::command();
    let shown = global.get_arguments().filter(|arg| arg.is_global_set()).map(|arg| arg.clone().hide(false));
    let mut command =
        clap::Command::new("llts").disable_help_flag(true).args(shown).help_template("{options}").term_width(width);
    format!(
        "Every command takes these options, before or behind its name:\n\n{}\n\nllts help exit-codes explains the exit codes.\n",
        command.render_long_help()
    )
}

/// A text that replaces clap's own, where that does not help.
pub(super) fn in_place_of(refused: &clap::Error, verb: Option<&str>) -> Option<String> {
    match (refused.kind(), verb) {
        (ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, None) => Some(first_page()),
        (ErrorKind::MissingRequiredArgument, Some(verb)) if lacks(refused, IDS) => Some(which_task(verb)),
        (ErrorKind::MissingRequiredArgument, Some(verb)) if lacks(refused, "<TOOL>") && takes_a_command(verb) => {
            Some(tool_or_command(verb))
        }
        (ErrorKind::ValueValidation, _) => no_number(refused),
        _ => None,
    }
}

/// Explains how to give a value that begins with a dash. clap's own advice would make it another argument.
pub(super) fn advise(refused: &mut clap::Error, words: &[OsString]) {
    if let Some(ContextValue::String(typed)) = refused.get(ContextKind::InvalidSubcommand)
        && let Some(ContextValue::Strings(known)) = refused.get(ContextKind::SuggestedSubcommand)
    {
        let likeness = |name: &String| strsim::jaro_winkler(name, typed);
        let nearest = known.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
        let nearest = nearest.cloned().into_iter().collect();
        refused.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(nearest));
    }
    let is_like_another = refused.get(ContextKind::SuggestedArg).is_some();
    if let Some(ContextValue::String(word)) = refused.get(ContextKind::InvalidArg)
        && refused.kind() == ErrorKind::UnknownArgument
        && !is_like_another
        && let Some(tip) = tip(word, words)
    {
        refused.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// The advice about a word that clap takes for an unknown option.
fn tip(word: &str, words: &[OsString]) -> Option<String> {
    let mut all = Arguments::command();
    all.build();
    let words: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    // clap names a group of short options by its first letter.
    let at = words.iter().position(|typed| typed.starts_with(word))?;
    let command = words[..at].iter().fold(&all, |command, word| command.find_subcommand(&**word).unwrap_or(command));
    let typed = &words[at];
    let before = at.checked_sub(1).map(|before| &*words[before]);
    let takes_it = |option: &&str| {
        let is_named = |arg: &&clap::Arg| {
            let long = arg.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long));
            long || arg.get_short().is_some_and(|short| **option == format!("-{short}"))
        };
        command.get_arguments().find(is_named).is_some_and(|arg| arg.get_action().takes_values())
    };
    if let Some(option) = before.filter(takes_it) {
        let mark = if option.starts_with("--") { "=" } else { "" };
        return Some(format!("to give '{typed}' to {option}, write {option}{mark}{typed}"));
    }
    let name = command.get_name();
    let has_command = command.get_arguments().any(clap::Arg::is_last_set);
    has_command.then(|| format!("the words of a command stand behind --, as in llts {name} -- COMMAND {typed}"))
}

/// Joins a message of several lines into one sentence.
pub(super) fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").or_else(|| text.strip_prefix("llts: ")).unwrap_or(text);
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("For more information");
    let lines: Vec<_> = text.lines().map(str::trim).filter(is_said).collect();
    lines.join("; ")
}

fn lacks(refused: &clap::Error, argument: &str) -> bool {
    let Some(ContextValue::Strings(missing)) = refused.get(ContextKind::InvalidArg) else { return false };
    missing.iter().any(|missing| missing.contains(argument))
}

/// Whether a command and its words may stand behind `--`.
fn takes_a_command(verb: &str) -> bool {
    let mut all = Arguments::command();
    // Until then, commands have no arguments.
    all.build();
    all.find_subcommand(verb).is_some_and(|command| command.get_arguments().any(clap::Arg::is_last_set))
}

fn tool_or_command(verb: &str) -> String {
    format!("llts: {verb} what?\n")
        + &row(&format!("llts {verb} -- COMMAND WORD …"), "a command of this machine, as in a shell")
        + &row(&format!("llts {verb} TOOL KEY=VALUE …"), "a tool; llts tool list shows them")
}

/// The fault of a text that should be a number, which the standard library says in its own words.
fn no_number(refused: &clap::Error) -> Option<String> {
    let source = refused.source()?;
    let (ContextValue::String(argument), ContextValue::String(value)) =
        (refused.get(ContextKind::InvalidArg)?, refused.get(ContextKind::InvalidValue)?)
    else {
        return None;
    };
    let why = match source.downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => "it is too large",
        Some(IntErrorKind::NegOverflow) => "it is too small",
        Some(IntErrorKind::InvalidDigit) if value.starts_with('-') => "it must be a whole number from 0",
        Some(_) => "it is not a whole number",
        None => source.is::<ParseFloatError>().then_some("it is not a number")?,
    };
    Some(format!("error: invalid value '{value}' for '{argument}': {why}\n\nFor more information, try '--help'.\n"))
}

fn row(command: &str, about: &str) -> String {
    format!("  {command:<30}  {about}\n")
}

fn which_task(verb: &str) -> String {
    format!("llts: {verb} which tasks?\n")
        + &row(&format!("llts {verb} last"), "the newest; last:5 are the five newest")
        + &row(&format!("llts {verb} ID"), "one, or several; llts list shows the ids")
        + &row(&format!("llts {verb} --job NAME"), "those of a job; all, --failed and others: --help")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::later::breaks_a_sentence;
    use term::hints;
    use unicode_width::UnicodeWidthStr as _;

    #[test]
    fn each_command_has_one_heading() {
        let named: Vec<_> = HEADINGS.iter().flat_map(|heading| heading.first.iter().chain(heading.others)).collect();
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let count = named.iter().filter(|named| **named == &name).count();
            assert_eq!(count, 1, "src/llts/cli/help.rs: {name} stands below {count} headings of HEADINGS");
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
        let options = options(WIDTH);
        for line in all().lines().chain(options.lines()) {
            assert!(line.width() <= WIDTH, "{line}");
        }
        for option in ["--home", "--config", "--controller", "--context", "--output"] {
            assert!(options.contains(option), "{options}");
        }
        let help = of_command(&["list"]);
        assert!(!help.contains("--controller") && help.contains("llts help options"), "{help}");
    }

    /// A line break of the source within a sentence would stay, at any width of the terminal.
    #[test]
    fn no_sentence_of_the_help_has_a_line_break() {
        fn check(command: &clap::Command, name: &str, broken: &mut Vec<String>) {
            let own = [command.get_about(), command.get_long_about()];
            let after = [command.get_after_help(), command.get_after_long_help()];
            let of_args = command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
            for text in own.into_iter().chain(after).chain(of_args).flatten() {
                let text = text.to_string();
                for (line, next) in text.lines().zip(text.lines().skip(1)) {
                    if breaks_a_sentence(line, next) {
                        broken.push(format!("{name}: {line}"));
                    }
                }
            }
            for command in command.get_subcommands() {
                check(command, &format!("{name} {}", command.get_name()), broken);
            }
        }
        let mut all = Arguments::command();
        all.build();
        let mut broken = Vec::new();
        check(&all, "llts", &mut broken);
        assert_eq!(broken, [""; 0]);
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
    fn a_value_with_a_dash_gets_advice_that_works() {
        use clap::Parser as _;
        let advised = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let mut refused = Arguments::try_parse_from(&words).unwrap_err();
            advise(&mut refused, &words);
            let text = refused.to_string();
            text.lines().find_map(|line| line.trim().strip_prefix("tip: ")).unwrap_or_default().to_owned()
        };
        for (line, tip) in [
            ("llts list --limit -5", "to give '-5' to --limit, write --limit=-5"),
            ("llts run --timeout -5s -- true", "to give '-5s' to --timeout, write --timeout=-5s"),
            ("llts map -j -5 -- true", "to give '-5' to -j, write -j-5"),
            ("llts run ls -l", "the words of a command stand behind --, as in llts run -- COMMAND -l"),
            ("llts list -5", "to pass '-5' as a value, use '-- -5'"),
            ("llts list --limt 5", "a similar argument exists: '--limit'"),
        ] {
            assert_eq!(advised(line), tip, "{line}");
        }
    }

    #[test]
    fn an_unknown_topic_is_refused_with_the_known_ones() {
        let sentence = unknown("shel").sentence;
        assert!(sentence.contains("Did you mean shell?") && sentence.contains("exit-codes"), "{sentence}");
    }

    #[test]
    fn commands_have_the_options_that_name_their_service() {
        let options = hints::Options {
            of_home: " --home '/a b'".to_owned(),
            of_controller: " --context farm".to_owned(),
            is_verb,
            uses_a_controller,
        };
        for (message, typed) in [
            ("start one with `llts up`", "start one with `llts --home '/a b' up`"),
            ("left: llts wait T", "left: llts --home '/a b' --context farm wait T"),
            (
                "llts logs T   llts retry T",
                "llts --home '/a b' --context farm logs T   llts --home '/a b' --context farm retry T",
            ),
            ("SIGTERM to llts run, process 7", "SIGTERM to llts run, process 7"),
            ("this llts is version 1", "this llts is version 1"),
            ("`llts --home /b up`", "`llts --home /b up`"),
            ("llts help all; llts", "llts help all; llts"),
        ] {
            assert_eq!(options.insert(message), typed);
        }
    }
}
