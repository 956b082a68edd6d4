//! `llts tdf open CFG PROGRAM SOURCE [INPUT]`: opens tasks and prints their ids.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::shell::{Namespace, OpenError, Order};
use api::config::ManagerConfig;
use base::tdf::TaskId;
use base::tdf::number::{float, repr};
use proc::clock;
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::when;

const ABOUT: &str = "\
CFG is a manager.cfg: [redis], [tdf], [manager] and [task_defaults], which says what holds
for a task that does not say otherwise. A worker fetches PROGRAM from SOURCE and runs
    cd ./PROGRAM/; ./run.sh INPUT
in a shell. T is unix seconds, inf, or a moment such as +10m or 18:30; D is seconds, inf,
or a duration such as 90 or 10m.

Exits with 0 after the tasks are open; 1 if a value is refused, and nothing is open then;
3 if Redis is away, 4 if it refuses.";

const ARGUMENTS: [&str; 4] = [
    "CFG: the path of the configuration file (manager.cfg)",
    "PROGRAM: the name of the program, and of its folder at a worker",
    "SOURCE: where it comes from, such as https://HOST/program.tar.gz or rsync:HOST:program.zip",
    "INPUT: its arguments, in one word; optional",
];

#[derive(Args, Debug)]
#[command(after_help = ABOUT, override_usage = "llts tdf open [OPTIONS] CFG PROGRAM SOURCE [INPUT]")]
pub(crate) struct OpenArgs {
    /// The configuration file, the program, its source, and its input
    #[arg(value_name = "CFG PROGRAM SOURCE INPUT")]
    arguments: Vec<OsString>,
    /// Not to be started before
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    start_after: Option<String>,
    /// To be finished by
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    end_before: Option<String>,
    /// How long a run may take
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    timeout: Option<String>,
    /// How many rounds may fail before the last one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_fails: Option<String>,
    /// How many rounds may take too long before the last one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_timeouts: Option<String>,
    /// Add up to one second to start_after, so that tasks of one moment start in any order
    #[arg(long)]
    add_random_start_offset: bool,
    /// Open a task for each line of FILE, whose input it is; - reads stdin
    #[arg(long, value_name = "FILE")]
    each_line: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: &OpenArgs) -> Result<u8, Failure> {
    let (first, input) = super::all_but_last(&args.arguments, ARGUMENTS)?;
    let config = ManagerConfig::load(Path::new(&first[0])).map_err(Failure::failed)?;
    config.tdf.warnings.iter().for_each(|warning| note(warning));
    let order = Order {
        start_after: option("--start-after", args.start_after.as_deref(), moment)?,
        end_before: option("--end-before", args.end_before.as_deref(), moment)?,
        timeout: option("--timeout", args.timeout.as_deref(), duration)?,
        max_fails: args.max_fails.clone(),
        max_timeouts: args.max_timeouts.clone(),
        add_random_start_offset: args.add_random_start_offset.then_some(true),
        ..Order::new(text("PROGRAM", &first[1])?, text("SOURCE", &first[2])?, "")
    };
    // Before anything is written.
    order.terms(&config.task_defaults, 0.0).map_err(Failure::failed)?;
    let orders: Vec<Order> = match (&args.each_line, input) {
        (None, input) => vec![Order { input: input.cloned().unwrap_or_default().into_vec(), ..order }],
        (Some(_), Some(input)) => {
            return Err(Failure::failed(format!("--each-line brings the inputs; leave {input:?} out")));
        }
        (Some(path), None) => lines(path)?.into_iter().map(|input| Order { input, ..order.clone() }).collect(),
    };
    let mut namespace =
        Namespace::connect(&config.tdf.redis, &config.tdf.namespace).map_err(|error| super::failure(&error))?;
    let ids = namespace.open(&orders, &config.task_defaults, rand::random(), rand::random);
    match ids {
        Ok(ids) => tell(session, &ids),
        Err(OpenError::Redis(error)) => return Err(super::failure(&error)),
        Err(error @ OpenError::Term(_)) => return Err(Failure::failed(error)),
        Err(ref whole @ OpenError::Partly { ref opened, ref error, .. }) => {
            tell(session, opened);
            return Err(Failure { sentence: whole.to_string(), ..super::failure(error) });
        }
    }
    Ok(0)
}

fn tell(session: &mut Session, ids: &[TaskId]) {
    if session.out.is_json() {
        let ids: Vec<Value> = ids.iter().map(|id| json!(id.0)).collect();
        session.out.value(&json!({ "ids": ids }));
    } else {
        ids.iter().for_each(|id| session.out.line(id));
    }
}

fn text<'a>(name: &str, argument: &'a OsString) -> Result<&'a str, Failure> {
    argument.to_str().ok_or_else(|| Failure::failed(format!("{name} is not UTF-8: {argument:?}")))
}

/// The value of an option, if it is given.
fn option(
    name: &str,
    value: Option<&str>,
    read: fn(&str) -> Result<String, String>,
) -> Result<Option<String>, Failure> {
    let failed = |why| Failure::failed(format!("{name} {:?}: {why}", value.unwrap_or_default()));
    value.map(read).transpose().map_err(failed)
}

/// The lines of a file, without their ends.
fn lines(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot read {}: {error}", path.display()));
    let file: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(failed)?),
    };
    let lines = BufReader::new(file).split(b'\n').map(|line| {
        let mut line = line?;
        line.pop_if(|last| *last == b'\r');
        Ok(line)
    });
    lines.collect::<Result<_, _>>().map_err(failed)
}

/// Seconds stay as they are written.
fn moment(text: &str) -> Result<String, String> {
    if float(text).is_some() {
        return Ok(text.to_owned());
    }
    let moment = when::moment(text)?;
    let micros = moment.wall(clock::now().wall).micros();
    #[expect(clippy::cast_precision_loss, reason = "microseconds of today's times fit a double")]
    Ok(repr(micros as f64 / 1e6))
}

fn duration(text: &str) -> Result<String, String> {
    if float(text).is_some() {
        return Ok(text.to_owned());
    }
    let time = when::duration(text)?;
    Ok(repr(time.as_secs_f64()))
}
