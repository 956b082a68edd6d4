//! `llts store`: read the durable store, also while a controller uses it, and repair it while none does.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::change::confirm;
use super::up::refuse_joined;
use crate::backup::{self, Made, Restored};
use api::wire::task;
use base::{counted, path_text, quoted_path};
use controller::store;
use controller::store::{Salvage, StoreError};
use proc::clock;
use proc::lock::StateLock;
use term::exit::{BROKEN_PIPE, Failure};
use term::output::{Output, note};
use term::session::Session;
use term::times;

/// Maximum number of task ids in a sentence; the others are only counted.
const NAMED_MAX: usize = 10;

#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Copy the home into a new folder, also while its service runs
    #[command(after_help = "\
The backup has the store as it is at this moment, the files of tasks, the tools, the history, the keys and the configuration: \
with it, one can act as the controller. It does not have outputs that agents keep (`llts logs` of long outputs), logs and work folders.

`llts --home HOME store restore DIR` makes a home of it, also on another machine.")]
    Backup {
        /// The folder, which is made
        dir: PathBuf,
    },
    /// Make a home of a backup
    #[command(after_help = "\
The home (`--home`, LLTS_HOME) must have no store. A file that is there and differs from the backup is a refusal before anything is \
written. Tasks that were accepted after the backup are not in it. Tasks that have ended since then run again; a run that an \
agent still has goes on. Agents obey the restored controller, and no longer the one before.")]
    Restore {
        /// The folder of the backup
        dir: PathBuf,
    },
    /// Copy the queue of a stopped service into an empty store
    #[command(after_help = "\
Each store is `sqlite`, the file in STATE_DIR, or the URL of a PostgreSQL, with the other STORE_ keys of the configuration, such as \
STORE_SCHEMA. Tools and files of tasks go along. The configuration is not changed: set STORE to the new one afterwards. The old \
one can no longer be used by mistake: its controller refuses to start, and agents refuse it.

llts store copy sqlite postgresql://llts@db.example/llts")]
    Copy {
        /// The store to copy: `sqlite`, or a URL
        from: String,
        /// The empty store
        to: String,
    },
    /// Read all of it and report whether it is intact
    Check,
    /// Print every task, oldest first, one JSON object per line
    Export,
    /// Make a new store of the readable parts of a damaged one, which is kept
    Repair {
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) fn run(session: &mut Session, args: &StoreArgs) -> Result<u8, Failure> {
    refuse_joined(session, "run this command there")?;
    let state_dir = session.config.paths.state_dir.clone();
    match &args.command {
        StoreCommand::Check => {
            let tasks = store::inspect_at(&session.config.store, &state_dir, |_| {}).map_err(Failure::failed)?;
            let place = session.config.store.place(&state_dir);
            show_whole(&mut session.out, &place, tasks);
        }
        StoreCommand::Export => {
            let section = session.config.store.clone();
            store::inspect_at(&section, &state_dir, |record| session.out.json_line(&task::to_json(&record)))
                .map_err(Failure::failed)?;
            // An incomplete export is a failure.
            if session.out.is_broken() {
                return Ok(BROKEN_PIPE);
            }
        }
        StoreCommand::Repair { .. } if session.config.store.server.is_some() => {
            return Err(Failure::usage(
                "the queue is in PostgreSQL, which repairs its own files; restore a backup, or a replica",
            ));
        }
        StoreCommand::Repair { yes } => repair(&mut session.out, &state_dir, *yes)?,
        StoreCommand::Copy { from, to } => copy(session, from, to)?,
        StoreCommand::Backup { dir } => make_backup(session, dir)?,
        StoreCommand::Restore { dir } => restore(session, dir)?,
    }
    Ok(0)
}

fn copy(session: &mut Session, from: &str, to: &str) -> Result<(), Failure> {
    let named = |text| session.config.store.named(text).map_err(Failure::usage);
    let (from, to) = (named(from)?, named(to)?);
    let state_dir = &session.config.paths.state_dir;
    if from == to {
        return Err(Failure::usage("the two stores are one"));
    }
    let _lock = StateLock::acquire(state_dir, controller::process::LOCK).map_err(Failure::failed)?;
    let tasks = store::transfer(&from, &to, state_dir).map_err(Failure::failed)?;
    let place = to.place(state_dir);
    let out = &mut session.out;
    if out.is_json() {
        out.value(&json!({ "copied_to": place, "tasks": tasks }));
    } else {
        out.line(format_args!("{place} has {}; set STORE to it before the next `llts up`", counted(tasks, "task")));
    }
    Ok(())
}

fn show_whole(out: &mut Output, place: &str, tasks: usize) {
    if out.is_json() {
        out.value(&json!({ "whole": true, "tasks": tasks }));
    } else {
        out.line(format_args!("the store in {place} is intact: {}", counted(tasks, "task")));
    }
}

fn repair(out: &mut Output, state_dir: &Path, yes: bool) -> Result<(), Failure> {
    let _lock = StateLock::acquire(state_dir, controller::process::LOCK).map_err(Failure::failed)?;
    store::finish_repair(state_dir).map_err(Failure::failed)?;
    match store::inspect(state_dir, |_| {}) {
        Ok(tasks) => {
            show_whole(out, &state_dir.display().to_string(), tasks);
            return Ok(());
        }
        Err(StoreError::Damaged { what, .. }) => note(&format!("the store in {}: {what}", state_dir.display())),
        Err(error) => return Err(Failure::failed(error)),
    }
    let salvage = Salvage::read(state_dir).map_err(Failure::failed)?;
    for what in &salvage.unreadable {
        note(&format!("cannot be read: {what}"));
    }
    if !salvage.outdated.is_empty() {
        note(&format!("only an earlier state can be read: {}", named(&salvage.outdated)));
    }
    confirm(&format!("continue with the {} readable tasks", salvage.tasks()), yes)?;
    let kept = salvage.put_in_place(state_dir).map_err(Failure::failed)?;
    if out.is_json() {
        out.value(&json!({
            "whole": false,
            "tasks": salvage.tasks(),
            "unreadable": salvage.unreadable,
            "outdated": salvage.outdated,
            "kept": path_text(&kept),
        }));
    } else {
        out.line(format_args!(
            "the store has {}; the damaged one is in {}",
            counted(salvage.tasks(), "task"),
            kept.display()
        ));
    }
    Ok(())
}

fn make_backup(session: &mut Session, dir: &Path) -> Result<(), Failure> {
    let (home, file) = (session.home.folder(), session.config_file());
    let made = backup::make(&session.config, home, file.as_deref(), dir, clock::now().wall).map_err(Failure::failed)?;
    let Made { tasks, files, bytes, notes } = made;
    notes.iter().for_each(|sentence| note(sentence));
    let out = &mut session.out;
    if out.is_json() {
        out.value(&json!({ "backup": path_text(dir), "tasks": tasks, "files": files, "bytes": bytes, "notes": notes }));
    } else {
        out.line(format_args!(
            "{} has {} in {}, {bytes} bytes",
            dir.display(),
            counted(tasks, "task"),
            counted(files, "file")
        ));
    }
    Ok(())
}

fn restore(session: &mut Session, dir: &Path) -> Result<(), Failure> {
    if session.global.config.is_some() {
        return Err(Failure::usage("a backup has its own configuration; name the home with --home, without --config"));
    }
    let Restored { tasks, files, bytes, made_at, outside, server } =
        Restored::from(dir, &session.home).map_err(Failure::failed)?;
    for folder in &outside {
        note(&format!("its configuration has a folder outside of the home: {}", folder.display()));
    }
    if let Some(server) = &server {
        note(&format!(
            "its configuration has the queue in {server}, and the restored one is a file: set STORE = \"sqlite\" to use that, or copy it \
             into an empty schema with `llts store copy sqlite {server}`"
        ));
    }
    let home = session.home.folder();
    let out = &mut session.out;
    if out.is_json() {
        out.value(&json!({ "home": path_text(home), "tasks": tasks, "files": files, "bytes": bytes, "made_at": times::rfc3339(made_at) }));
    } else {
        out.line(format_args!(
            "{} has the {} of {}: {}, {bytes} bytes",
            home.display(),
            counted(tasks, "task"),
            times::local(made_at),
            counted(files, "file"),
        ));
        out.line(format_args!("start it with `llts --home {} up`", quoted_path(home)));
    }
    Ok(())
}

fn named(ids: &[String]) -> String {
    let shown = ids[..ids.len().min(NAMED_MAX)].join(", ");
    match ids.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
