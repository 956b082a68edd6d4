//! The one command of a worker at the level of the system: its two files and its processes. The engine decides.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::folders::file_name;
use crate::engine::task::{ERR, OUT};
use crate::engine::worker::{Output, StartFailure, Worker};
use crate::wire::Order;
use base::lists::ListTaskId;
use proc::clock;
use proc::files::disk_room::check_room;
use proc::files::file_part::read_part;
use proc::files::removal;
use proc::process::ChildEnd;
use proc::runs::Runs;
use proc::worker::WorkerStartError;
use proc::worker::commands::Commands;

/// Marks every process of a command.
const MARK: &str = "LLTS_RUN_LISTS";

/// The folder for outputs that a killed worker of the same name has left.
const LOST: &str = "lost";

/// The state that outlives a command, and the command itself.
pub(super) struct Runner {
    /// The current folder of all commands.
    here: PathBuf,
    /// The folder with the outputs.
    folder: PathBuf,
    pub(super) commands: Commands,
    /// The files of the command that runs.
    outputs: Option<Outputs>,
    /// The files of the last command, which the next one gets if it follows in the same turn.
    spare: Option<Outputs>,
}

impl Runner {
    /// Ends what dead workers have left, and sets aside the outputs of the last worker of this name.
    pub(super) fn start(here: &Path, folder: PathBuf, runs: Runs) -> Result<Self, WorkerStartError> {
        let mut commands = Commands::start(MARK, runs)?;
        set_aside(&folder)?;
        commands.write_record(None).map_err(io::Error::other)?;
        Ok(Self { here: here.to_owned(), folder, commands, outputs: None, spare: None })
    }

    /// Starts a command.
    pub(super) fn begin(&mut self, order: &Order) -> Result<(), StartFailure> {
        let spare = self.spare.take().and_then(|spare| spare.reuse(&self.folder, order.id).ok());
        let outputs = spare.map_or_else(|| Outputs::create(&self.folder, order.id), Ok);
        let outputs = outputs.map_err(StartFailure::Worker)?;
        let begun = self.commands.begin((&order.cmd).into(), &self.here, [&outputs.out, &outputs.err]);
        begun.map_err(|error| {
            let failure = if error.is_of_words() { StartFailure::Task } else { StartFailure::Worker };
            failure(error.to_string())
        })?;
        self.outputs = Some(outputs);
        Ok(())
    }

    /// Removes the files of the last command: the next one may come much later.
    pub(super) fn rest(&mut self) {
        if self.outputs.is_none()
            && let Some(spare) = self.spare.take()
        {
            spare.remove(&self.folder);
        }
    }

    /// A child has ended: the command, or an orphan that it left behind.
    pub(super) fn reap(&mut self, worker: &mut Worker) {
        match self.commands.reap() {
            Some(ChildEnd::Root(exit)) => worker.handle_exited(clock::now(), exit.exit),
            Some(ChildEnd::Rest(rest)) => worker.handle_tree(clock::now(), rest.left),
            None => {}
        }
    }

    /// The outputs of the command that has ended.
    pub(super) fn collect(&mut self, bytes_max: usize) -> Result<(Output, Output), String> {
        let Some(outputs) = self.outputs.take() else { return Err("there is no command".to_owned()) };
        let read = |file: &File| {
            let length = file.metadata()?.len();
            Ok::<_, io::Error>(Output { bytes: read_part(file, 0, length.min(bytes_max as u64))?, length })
        };
        let both = check_room(&self.folder).and_then(|()| Ok((read(&outputs.out)?, read(&outputs.err)?)));
        // A process that survives all signals may still write to the files.
        if self.commands.is_any_left() {
            outputs.remove(&self.folder);
        } else {
            self.spare = Some(outputs);
        }
        both.map_err(|error| error.to_string())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.rest();
    }
}

/// The two files that a command writes to.
#[derive(Debug)]
struct Outputs {
    id: ListTaskId,
    out: File,
    err: File,
}

impl Outputs {
    fn paths(folder: &Path, id: ListTaskId) -> [PathBuf; 2] {
        [OUT, ERR].map(|ending| folder.join(file_name(id, ending)))
    }

    fn create(folder: &Path, id: ListTaskId) -> Result<Self, String> {
        let file = |path: &PathBuf| {
            let made = File::options().read(true).write(true).create(true).truncate(true).open(path);
            made.map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        let [out, err] = Self::paths(folder, id);
        Ok(Self { id, out: file(&out)?, err: file(&err)? })
    }

    /// Reuses the files for another command: two renames cost a fifth of two new files. Fails for files that have another name.
    fn reuse(mut self, folder: &Path, id: ListTaskId) -> io::Result<Self> {
        let (from, to) = (Self::paths(folder, self.id), Self::paths(folder, id));
        for ((file, from), to) in [&mut self.out, &mut self.err].into_iter().zip(&from).zip(&to) {
            let metadata = file.metadata()?;
            if metadata.nlink() != 1 {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            if metadata.len() > 0 {
                file.set_len(0)?;
                // The command has moved the position that it shared with this file.
                file.rewind()?;
            }
            fs::rename(from, to)?;
        }
        Ok(Self { id, ..self })
    }

    fn remove(&self, folder: &Path) {
        for path in Self::paths(folder, self.id) {
            // The command may have removed the file.
            let _ = fs::remove_file(path);
        }
    }
}

/// Moves outputs that a killed worker has left aside, where people find them until the next such worker.
fn set_aside(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let names = super::folders::names(folder)?;
    let left: Vec<&String> = names.iter().filter(|name| *name != LOST).collect();
    if left.is_empty() {
        return Ok(());
    }
    let lost = folder.join(LOST);
    removal::remove_and_unmount(&lost).map_err(io::Error::other)?;
    fs::create_dir(&lost)?;
    left.iter().try_for_each(|name| fs::rename(folder.join(name), lost.join(name)))?;
    log::warn!("a worker of this name has left {} outputs, which are in {} now", left.len(), lost.display());
    Ok(())
}
