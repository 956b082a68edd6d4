//! `llts prompt clean`: the folders that workers have kept because git or the disk could not, and their removal.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::files::create::TASKS;
use crate::files::kept::{Kept, kept};
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::style::Look;
use term::table::Table;
use term::times;

const DAY: f64 = 24.0 * 60.0 * 60.0;

#[derive(Args, Debug)]
#[command(after_help = "\
Lists the folders in .tasks/.runs/ that no worker removes: the work of a run that git could
not keep (--workdir git-worktree), and the files of a run whose results could not be stored.
Their content is nowhere else. --remove removes those that are listed, and lists them all
the same. Exits with 1 if one cannot be removed.")]
pub(crate) struct CleanArgs {
    /// The folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// Only those that were not changed for so many days
    #[arg(long, value_name = "DAYS", value_parser = days)]
    older_than: Option<Duration>,
    /// Remove them
    #[arg(long)]
    remove: bool,
}

pub(crate) fn run(session: &mut Session, args: &CleanArgs) -> Result<u8, Failure> {
    let root = super::root(session, args.root_dir.as_deref());
    let root = root.canonicalize().unwrap_or(root);
    let unreadable = |error| Failure::usage(format!("cannot read {}: {error}", root.join(TASKS).display()));
    let mut found = kept(&root).map_err(unreadable)?;
    found.retain(|kept| args.older_than.is_none_or(|age| kept.age >= age));
    let mut problem = None;
    if args.remove {
        found.retain(|kept| match kept.remove() {
            Ok(()) => true,
            Err(error) => {
                let sentence = format!("cannot remove {}: {error}", kept.path.display());
                problem.replace(sentence).iter().for_each(|last| note(last));
                false
            }
        });
    }
    show(session, &found, args.remove);
    problem.map_or(Ok(0), |problem| Err(Failure::failed(problem)))
}

fn show(session: &mut Session, found: &[Kept], removed: bool) {
    if session.out.is_json() {
        return session.out.value(&Value::Array(found.iter().map(|kept| value(kept, removed)).collect()));
    }
    if found.is_empty() {
        return note("no such folder is there");
    }
    let mut table = Table::new(&["KEPT", "FOR", "PROMPT", if removed { "REMOVED" } else { "FOLDER" }]);
    for kept in found {
        let prompt = kept.prompt.as_ref().map(|(name, failed)| format!("{name} ({})", outcome(*failed)));
        let (age, path) = (times::duration(kept.age), kept.path.to_string_lossy());
        table.row([what(kept), &age, &prompt.unwrap_or_default(), &path]);
    }
    let text = table.show(Look::plain(None));
    session.out.line(text.trim_end());
}

fn value(kept: &Kept, removed: bool) -> Value {
    json!({
        "folder": kept.path.to_string_lossy(),
        "kept": what(kept),
        "age_seconds": kept.age.as_secs_f64(),
        "prompt": kept.prompt.as_ref().map(|(name, _)| name),
        "outcome": kept.prompt.as_ref().map(|(_, failed)| outcome(*failed)),
        "removed": removed,
    })
}

const fn what(kept: &Kept) -> &'static str {
    if kept.is_work { "work" } else { "results" }
}

const fn outcome(is_failed: bool) -> &'static str {
    if is_failed { "failed" } else { "done" }
}

fn days(text: &str) -> Result<Duration, String> {
    let days: Option<f64> = text.parse().ok();
    days.and_then(|days| Duration::try_from_secs_f64(days * DAY).ok())
        .ok_or_else(|| "it is no number of days".to_owned())
}
