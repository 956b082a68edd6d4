//! `llts run TOOL --help` and `llts submit TOOL --help`: after the options, the tool's own description.

use std::io::Write as _;

use clap::error::ErrorKind;

use super::args::{Arguments, Command};
use super::tool::held;
use super::{Output, Session, arguments, configure, use_context};
use base::{ToolName, printable_lines};

/// Prints the tool's own description, if the arguments ask for the help of a task. A controller that does not answer or has no such tool
/// adds nothing to the help.
pub(super) fn print(refused: &clap::Error) {
    if refused.kind() == ErrorKind::DisplayHelp
        && let Some((tool, about)) = about()
    {
        // If the help cannot be written, no other way of output is left.
        let _ = writeln!(std::io::stdout(), "\nTool {tool}: {}", printable_lines(&about));
    }
}

fn about() -> Option<(ToolName, String)> {
    let is_help = |word: &std::ffi::OsString| word == "--help" || word == "-h";
    let words = std::env::args_os().filter(|word| !is_help(word)).collect();
    let Arguments { mut global, command } = arguments(words).ok()?;
    let tool = match &command {
        Command::Run(args) => args.tool(),
        Command::Submit(args) => args.tool(),
        _ => None,
    };
    let tool = ToolName::new(tool?).ok()?;
    let (home, mut config, sources) = configure(&mut global, &command).ok()?;
    use_context(&mut global, &mut config).ok()?;
    let out = Output::new(global.output);
    let session = Session { global, config, sources, home, out };
    let about = held::help(&session.client().ok()?, &tool)?;
    Some((tool, about))
}
