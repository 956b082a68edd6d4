//! A backup of a home: a folder with everything that a controller needs to continue elsewhere.
//!
//! | path | content |
//! |---|---|
//! | `home/` | `config.toml`, `limits.toml` and `keys/` of the home, and keys at other places below it |
//! | `state/` | of `STATE_DIR`: the store as it was after one commit, `archives/`, `history/` and the tokens |
//! | `tools/`, `tool-sources/` | `AGENT_TOOLS_DIR` and `TOOL_SOURCES_DIR` |
//! | `backup.json` | the program, the time, and the size and digest of every file. It is written last: a backup without it is incomplete |
//!
//! # Beside a running controller
//!
//! A task is stored once its files are in the archives, and a file may be removed once the last task that needs it has ended. So the
//! archives are copied before the store and again after it. Then the copy is checked for the files that the tasks in the copied store
//! name.
//!
//! # Restoring
//!
//! Nothing is overwritten: if a file exists and differs, the restore is refused before anything is written. The store is put in place
//! last, so an interrupted restore leaves a home without a store and can be repeated. The store comes without the file `epoch` of its
//! last start, so the next start begins an epoch above all earlier ones.

mod restore;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::http::{Grant, token_file};
use api::archives_dir::dir_in;
use api::config::Config;
use api::wire::version;
use base::{Phase, ToolDigest, Wall};
use controller::store::{self, StoreError};
use proc::files::file_copy::copy_into;
use proc::files::file_digest::digest_of;
use proc::files::{removal, state_file};

pub(crate) use restore::Restored;

/// The version of the layout above.
const VERSION: u32 = 1;

/// The file that makes a folder a backup.
const MANIFEST: &str = "backup.json";

const HOME: &str = "home";
const STATE: &str = "state";
const TOOLS: &str = "tools";
const TOOL_SOURCES: &str = "tool-sources";

/// The keys of a home.
const KEYS: &str = "keys";

/// The configuration of a home.
const CONFIG: &str = "config.toml";

/// The file in `STATE_DIR/archives` that is not named by a digest.
const TOOL_LOG: &str = "log";

/// Permissions of created folders: a backup has keys and tokens.
const FOLDER_MODE: u32 = 0o700;

/// How often the archives are searched for files that tasks need. A file that an earlier search missed has gone with a task that ended
/// meanwhile.
const LOOKS: usize = 3;

/// Why a backup could not be made or restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    #[error("{} is not empty; a backup is made in a new folder", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} is in {}, which is backed up itself; name a folder elsewhere", .dir.display(), .within.display())]
    Within { dir: PathBuf, within: PathBuf },
    #[error("{} is no whole backup: it has no {MANIFEST}, which is written last, or no store", .0.display())]
    NotWhole(PathBuf),
    #[error("{} is a backup of version {version}, and this program knows versions up to {VERSION}; use the newer program", .path.display())]
    Newer { path: PathBuf, version: u32 },
    #[error("{} differs from its entry in backup.json; use another backup", .0.display())]
    Damaged(PathBuf),
    #[error("{} is there and differs from the backup; move it away, or restore into another home (--home)", .0.display())]
    Occupied(PathBuf),
    #[error("there is a store in {}; move it away, or restore into another home (--home)", .0.display())]
    HasStore(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot use {}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] api::config::ConfigError),
    #[error(transparent)]
    Home(#[from] api::home::HomeError),
    #[error(transparent)]
    Lock(#[from] proc::lock::LockError),
}

/// The content of `backup.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    /// The program that has made it.
    program: String,
    /// The time of the backup, in microseconds since 1970.
    made_at: u64,
    files: Vec<Listed>,
}

/// A file of a backup.
#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    path: PathBuf,
    bytes: u64,
    digest: String,
}

/// A finished backup.
pub(crate) struct Made {
    pub(crate) tasks: usize,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// The parts that are not in it and why, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Makes a backup in a new folder, also while the service runs.
pub(crate) fn make(
    config: &Config,
    home: &Path,
    file: Option<&Path>,
    dir: &Path,
    now: Wall,
) -> Result<Made, BackupError> {
    let failed = |source| BackupError::Io { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(dir).map_err(failed)?;
    if fs::read_dir(dir).map_err(failed)?.next().is_some() {
        return Err(BackupError::NotEmpty(dir.to_owned()));
    }
    fs::set_permissions(dir, Permissions::from_mode(FOLDER_MODE)).map_err(failed)?;
    let paths = &config.paths;
    let sources = paths.tool_sources_dir.as_deref();
    let keys = home.join(KEYS);
    let copied = [Some(&*keys), Some(&*paths.state_dir), Some(&*paths.tools_dir), sources];
    let real = dir.canonicalize().map_err(failed)?;
    let is_inside = |within: &&Path| within.canonicalize().is_ok_and(|within| real.starts_with(within));
    let made = match copied.into_iter().flatten().find(is_inside) {
        Some(within) => Err(BackupError::Within { dir: dir.to_owned(), within: within.to_owned() }),
        None => fill(config, home, file, dir, now),
    };
    // With the folder left in place, the next attempt would find one that is not empty.
    made.inspect_err(|_| drop(removal::remove(dir)))
}

/// Makes a backup in an empty folder.
fn fill(config: &Config, home: &Path, file: Option<&Path>, dir: &Path, now: Wall) -> Result<Made, BackupError> {
    let failed = |source| BackupError::Io { path: dir.to_owned(), source };
    let mut backup = Backup { dir, files: Vec::new(), notes: Vec::new() };
    let tasks = backup.add_state(config)?;
    backup.add_home(config, home, file)?;
    backup.add_tree(&config.paths.tools_dir, Path::new(TOOLS))?;
    if let Some(sources) = &config.paths.tool_sources_dir {
        backup.add_tree(sources, Path::new(TOOL_SOURCES))?;
    }
    let Backup { files, notes, .. } = backup;
    let program = version::program().to_owned();
    let manifest = Manifest { version: VERSION, program, made_at: now.micros(), files };
    // The files are synced first: the manifest claims that they are there.
    sync(dir).map_err(failed)?;
    state_file::replace(&dir.join(MANIFEST), &manifest).map_err(failed)?;
    sync(dir).map_err(failed)?;
    let bytes = manifest.files.iter().map(|listed| listed.bytes).sum();
    Ok(Made { tasks, files: manifest.files.len(), bytes, notes })
}

/// Flushes a folder and everything in it to the disk.
fn sync(dir: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(dir)?)?)
}

struct Backup<'a> {
    dir: &'a Path,
    files: Vec<Listed>,
    notes: Vec<String>,
}

impl Backup<'_> {
    /// Adds the parts of `STATE_DIR`. Returns the number of tasks.
    fn add_state(&mut self, config: &Config) -> Result<usize, BackupError> {
        let state_dir = &config.paths.state_dir;
        self.add_archives(state_dir)?;
        let state = self.dir.join(STATE);
        self.make_folder(&state)?;
        store::export(&config.store, state_dir, &state)?;
        self.list_archives()?;
        let mut needed = BTreeSet::new();
        let tasks = store::inspect(&state, |record| {
            if record.phase() < Phase::Finished {
                let inputs = record.files.iter().flat_map(|files| &files.inputs).map(|input| input.digest);
                needed.extend(inputs.chain(record.pin));
            }
            let kept = record.result().and_then(|result| result.files.as_ref());
            needed.extend(kept.iter().flat_map(|kept| &kept.files).map(|file| file.digest));
        })?;
        self.list(&Path::new(STATE).join(store::FILE_NAME))?;
        let archives = dir_in(&state);
        for _ in 0..LOOKS {
            self.add_archives(state_dir)?;
            needed.retain(|digest: &ToolDigest| !archives.join(digest.to_string()).exists());
            if needed.is_empty() {
                break;
            }
        }
        if !needed.is_empty() {
            let count = needed.len();
            self.notes.push(format!("{count} files that tasks name are not in {}", dir_in(state_dir).display()));
        }
        self.add_history(state_dir)?;
        for grant in [Grant::Change, Grant::Read] {
            let token = token_file(config, grant);
            if token.starts_with(state_dir)
                && let Some(name) = token.file_name()
            {
                self.add(&token, &Path::new(STATE).join(name))?;
            }
        }
        Ok(tasks)
    }

    /// Copies the files of the archives that are not in the backup yet.
    fn add_archives(&mut self, state_dir: &Path) -> Result<(), BackupError> {
        let (from, to) = (dir_in(state_dir), dir_in(Path::new(STATE)));
        for name in names(&from)? {
            let is_log = name == TOOL_LOG;
            if is_log || name.parse::<ToolDigest>().is_ok() {
                self.add(&from.join(&name), &to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Lists the archives that the export of the queue has written.
    fn list_archives(&mut self) -> Result<(), BackupError> {
        let archives = dir_in(Path::new(STATE));
        for name in names(&self.dir.join(&archives))? {
            let path = archives.join(name);
            if !self.files.iter().any(|listed| listed.path == path) {
                self.list(&path)?;
            }
        }
        Ok(())
    }

    fn add_history(&mut self, state_dir: &Path) -> Result<(), BackupError> {
        let (from, to) = (state_dir.join("history"), Path::new(STATE).join("history"));
        for name in names(&from)?.into_iter().filter(|name| name.ends_with(".sqlite")) {
            self.make_folder(&self.dir.join(&to))?;
            let (day, copy) = (from.join(&name), to.join(&name));
            store::copy_database(&day, &self.dir.join(&copy))?;
            self.list(&copy)?;
        }
        Ok(())
    }

    fn add_home(&mut self, config: &Config, home: &Path, file: Option<&Path>) -> Result<(), BackupError> {
        let to = Path::new(HOME);
        let own = home.join(CONFIG);
        self.add(file.unwrap_or(&own), &to.join(CONFIG))?;
        self.add(&home.join("limits.toml"), &to.join("limits.toml"))?;
        let keys = home.join(KEYS);
        self.add_tree(&keys, &to.join(KEYS))?;
        for path in config.network.key_paths() {
            match path.strip_prefix(home) {
                Ok(_) if path.starts_with(&keys) => {}
                Ok(below) => self.add_tree(path, &to.join(below))?,
                Err(_) => self.notes.push(format!("{} is not below the home: copy it yourself", path.display())),
            }
        }
        Ok(())
    }

    /// Adds a file, or a folder with everything in it, if it is there.
    fn add_tree(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        if from.is_dir() { self.add_folder(from, to) } else { self.add(from, to) }
    }

    fn add_folder(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        for name in fs::read_dir(from).map_err(|source| BackupError::Io { path: from.to_owned(), source })? {
            let name = name.map_err(|source| BackupError::Io { path: from.to_owned(), source })?.file_name();
            let (from, to) = (from.join(&name), to.join(&name));
            if name.to_str().is_none() {
                self.notes.push(format!("the name of {} is no text: it is left out", from.display()));
                continue;
            }
            // A link to a folder may lead in a circle, so links to folders are not followed.
            let is_folder = fs::symlink_metadata(&from).is_ok_and(|about| about.is_dir());
            if is_folder { self.add_folder(&from, &to)? } else { self.add(&from, &to)? }
        }
        Ok(())
    }

    /// Copies a file, if it exists and is not in the backup yet.
    fn add(&mut self, from: &Path, to: &Path) -> Result<(), BackupError> {
        let failed = |source| BackupError::Io { path: from.to_owned(), source };
        let copy = self.dir.join(to);
        let file = match open(from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(from).is_err() => {
                return Ok(());
            }
            _ if copy.exists() => return Ok(()),
            Err(error) if [io::ErrorKind::InvalidInput, io::ErrorKind::NotFound].contains(&error.kind()) => {
                self.notes.push(format!("{} is no file: it is left out", from.display()));
                return Ok(());
            }
            opened => opened.map_err(failed)?,
        };
        let about = file.metadata().map_err(failed)?;
        if let Some(folder) = copy.parent() {
            self.make_folder(folder)?;
        }
        let mode = about.permissions().mode() & 0o777;
        let new = OpenOptions::new().write(true).create_new(true).mode(mode).open(&copy);
        let copied = new.and_then(|new| copy_into(&file, &new));
        copied.map_err(|source| BackupError::Io { path: copy, source })?;
        self.list(to)
    }

    /// Lists a complete file of the backup in the manifest.
    fn list(&mut self, path: &Path) -> Result<(), BackupError> {
        let listed =
            describe(&self.dir.join(path)).map(|(bytes, digest)| Listed { path: path.to_owned(), bytes, digest });
        let failed = |source| BackupError::Io { path: self.dir.join(path), source };
        self.files.push(listed.map_err(failed)?);
        Ok(())
    }

    fn make_folder(&self, folder: &Path) -> Result<(), BackupError> {
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        made.map_err(|source| BackupError::Io { path: folder.to_owned(), source })
    }
}

/// Opens a regular file for reading. Opening a pipe would wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    File::open(path)
}

/// The size and the digest of a file.
fn describe(path: &Path) -> io::Result<(u64, String)> {
    let file = open(path)?;
    Ok((file.metadata()?.len(), digest_of(&file)?.to_string()))
}

/// The sorted names in a folder; none if it does not exist.
fn names(folder: &Path) -> Result<Vec<String>, BackupError> {
    let failed = |source| BackupError::Io { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is no text is none of ours.
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}
