//! `llts spool add`: adds one task, or one for each line of a file.

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::engine::task::{CMD_BYTES_MAX, check_command};
use crate::shell::orders;
use crate::shell::orders::Terms;
use base::Wall;
use proc::clock;
use term::exit::Failure;
use term::session::Session;
use term::when;
use term::when::Moment;

/// The end of the year 9999: a task without `--until` may be started at any time.
const NEVER: Wall = Wall::from_micros(253_402_300_799_000_000);

/// Lines of one file. More are a mistake, or belong into several files.
const LINES_MAX: usize = 1_000_000;

#[derive(Args, Debug)]
#[command(after_help = when::HELP)]
pub(crate) struct AddArgs {
    /// One line for sh
    #[arg(value_name = "CMD", required_unless_present = "each_line", conflicts_with = "each_line")]
    cmd: Option<String>,
    /// A task for each line of FILE that is not empty; - reads stdin
    #[arg(long, value_name = "FILE")]
    each_line: Option<PathBuf>,
    /// Not to be started after this moment
    #[arg(long, value_name = "MOMENT", value_parser = when::moment, allow_hyphen_values = true)]
    until: Option<Moment>,
    /// How long the command is expected to run
    #[arg(long, value_name = "DURATION", value_parser = when::duration, default_value = "0")]
    expected_duration: Duration,
    /// How often it may fail; after that it is not repeated
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_fails: u32,
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>, args: &AddArgs) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    let commands = match (&args.cmd, &args.each_line) {
        (Some(cmd), _) => {
            check_command(cmd).map_err(|error| Failure::usage(error.to_string()))?;
            vec![cmd.clone()]
        }
        (None, Some(path)) => lines(path)?,
        (None, None) => Vec::new(),
    };
    let now = clock::now().wall;
    let seconds = args.expected_duration;
    let terms = Terms {
        until: args.until.map_or(NEVER, |moment| moment.wall(now)),
        expected_duration: seconds.as_secs() + u64::from(seconds.subsec_nanos() > 0),
        max_fails: args.max_fails,
    };
    let durable = super::is_durable(session);
    let (is_json, out) = (session.out.is_json(), &mut session.out);
    let mut ids = Vec::new();
    let added = orders::add(&folders, commands, terms, durable, |id| {
        if is_json {
            ids.push(id.to_string());
        } else {
            out.line(id);
        }
    });
    added?;
    if is_json {
        session.out.value(&json!({ "ids": ids }));
    }
    Ok(0)
}

/// The commands of a file. All of them are checked before the first is added.
fn lines(path: &Path) -> Result<Vec<String>, Failure> {
    let shown = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| Failure::failed(format!("cannot read {shown}: {error}"));
    let file: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(failed)?),
    };
    let wrong = |number: usize, why: &str| {
        Err(Failure::usage(format!("line {number} of {shown} cannot be a task: {why}; no task was added")))
    };
    let (mut reader, mut commands) = (BufReader::new(file), Vec::new());
    for number in 1.. {
        let mut line = Vec::new();
        // One byte more than is allowed, and the end of the line.
        let limit = CMD_BYTES_MAX as u64 + 3;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        if number > LINES_MAX {
            return wrong(number, &format!("a file has at most {LINES_MAX} lines; divide it"));
        }
        line.pop_if(|last| *last == b'\n');
        line.pop_if(|last| *last == b'\r');
        if line.len() > CMD_BYTES_MAX {
            return wrong(number, &format!("it has more than {CMD_BYTES_MAX} bytes, so put it into a script"));
        }
        let Ok(line) = String::from_utf8(line) else { return wrong(number, "it is not valid UTF-8") };
        if line.trim().is_empty() {
            continue;
        }
        if let Err(error) = check_command(&line) {
            return wrong(number, &error.to_string());
        }
        commands.push(line);
    }
    Ok(commands)
}
