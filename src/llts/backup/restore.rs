//! Puts a backup into another home, at the places that the backup's configuration names.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use super::{
    BackupError, CONFIG, FOLDER_MODE, HOME, Listed, MANIFEST, Manifest, STATE, TOOL_SOURCES, TOOLS, VERSION, describe,
    open, sync,
};
use api::config::Config;
use api::home::Home;
use base::Wall;
use controller::process::LOCK;
use controller::store;
use proc::files::draft::replace;
use proc::files::file_copy::copy_into;
use proc::files::state_file;
use proc::lock::StateLock;

/// A backup that was restored.
pub(crate) struct Restored {
    pub(crate) tasks: usize,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// When the backup was made.
    pub(crate) made_at: Wall,
    /// Folders of the configuration that are not in the home.
    pub(crate) outside: Vec<PathBuf>,
    /// The server that the configuration names for the queue, which is restored as a file instead.
    pub(crate) server: Option<String>,
}

/// A file of the backup, and its place.
struct Placed {
    from: PathBuf,
    to: PathBuf,
}

impl Restored {
    /// Restores a backup into a home without a store. The home is made if it is missing.
    pub(crate) fn from(dir: &Path, home: &Home) -> Result<Self, BackupError> {
        let manifest = read(dir)?;
        check(dir, &manifest)?;
        let tasks = store::inspect(&dir.join(STATE), |_| {})?;
        let (homely, others): (Vec<_>, Vec<_>) =
            manifest.files.iter().partition(|listed| listed.path.starts_with(HOME));
        let mut missing = missing(place(dir, &homely, &[(HOME, Some(home.folder()))]))?;
        // The configuration names the places of everything else.
        let config = config_of(dir, home)?;
        let server = config.store.server.as_ref().map(|_| config.store.place(&config.paths.state_dir));
        let paths = config.paths;
        let _lock = StateLock::acquire(&paths.state_dir, LOCK)?;
        let stored = paths.state_dir.join(store::FILE_NAME);
        if stored.exists() {
            return Err(BackupError::HasStore(paths.state_dir));
        }
        let sources = paths.tool_sources_dir.as_deref();
        let folders = [(STATE, Some(&*paths.state_dir)), (TOOLS, Some(&*paths.tools_dir)), (TOOL_SOURCES, sources)];
        missing.extend(self::missing(place(dir, &others, &folders))?);
        home.make()?;
        let synced =
            || sync(&paths.state_dir).map_err(|source| BackupError::Io { path: paths.state_dir.clone(), source });
        let (store, rest): (Vec<_>, Vec<_>) = missing.into_iter().partition(|placed| placed.to == stored);
        rest.iter().try_for_each(put)?;
        synced()?;
        // The store goes last: with it, the home is complete.
        store.iter().try_for_each(put)?;
        synced()?;
        let bytes = manifest.files.iter().map(|listed| listed.bytes).sum();
        let made_at = Wall::from_micros(manifest.made_at);
        let own = home.folder();
        let outside = folders.into_iter().filter_map(|(_, folder)| folder).filter(|folder| !folder.starts_with(own));
        let outside = outside.map(Path::to_owned).collect();
        Ok(Self { tasks, outside, server, files: manifest.files.len(), bytes, made_at })
    }
}

fn read(dir: &Path) -> Result<Manifest, BackupError> {
    let path = dir.join(MANIFEST);
    let manifest: Manifest = match open(&path).and_then(|_| state_file::read(&path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BackupError::NotWhole(dir.to_owned())),
        found => found.map_err(|source| BackupError::Io { path: path.clone(), source })?,
    };
    if manifest.version > VERSION {
        return Err(BackupError::Newer { path: dir.to_owned(), version: manifest.version });
    }
    Ok(manifest)
}

/// Verifies every file before any is written.
fn check(dir: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    let store = Path::new(STATE).join(store::FILE_NAME);
    if !manifest.files.iter().any(|listed| listed.path == store) {
        return Err(BackupError::NotWhole(dir.to_owned()));
    }
    for Listed { path, bytes, digest } in &manifest.files {
        let file = dir.join(path);
        let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let is_known = [HOME, STATE, TOOLS, TOOL_SOURCES].iter().any(|root| path.starts_with(root));
        if !is_inside || !is_known || !describe(&file).is_ok_and(|found| found == (*bytes, digest.clone())) {
            return Err(BackupError::Damaged(file));
        }
    }
    Ok(())
}

/// The configuration that the home will have.
fn config_of(dir: &Path, home: &Home) -> Result<Config, BackupError> {
    let file = dir.join(HOME).join(CONFIG);
    let file = file.exists().then_some(file);
    let base = std::path::absolute(home.folder()).unwrap_or_else(|_| home.folder().to_owned());
    Ok(Config::load(file.as_deref(), Some(&base))?.0)
}

/// The target places of files: each folder replaces the first name of its files' paths.
fn place(dir: &Path, files: &[&Listed], folders: &[(&str, Option<&Path>)]) -> Vec<Placed> {
    let placed = files.iter().filter_map(|listed| {
        let (name, folder) = folders.iter().find(|(name, _)| listed.path.starts_with(name))?;
        let below = listed.path.strip_prefix(name).ok()?;
        Some(Placed { from: dir.join(&listed.path), to: (*folder)?.join(below) })
    });
    placed.collect()
}

/// The files that are not in their places yet. A different file in such a place is an error.
fn missing(placed: Vec<Placed>) -> Result<Vec<Placed>, BackupError> {
    let describe = |path: &Path| describe(path).map_err(|source| BackupError::Io { path: path.to_owned(), source });
    let mut missing = Vec::new();
    for placed in placed {
        if fs::symlink_metadata(&placed.to).is_err() {
            missing.push(placed);
        } else if describe(&placed.to)? != describe(&placed.from)? {
            return Err(BackupError::Occupied(placed.to));
        }
    }
    Ok(missing)
}

fn put(Placed { from, to }: &Placed) -> Result<(), BackupError> {
    let copied = || -> io::Result<()> {
        if let Some(folder) = to.parent() {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        }
        let file = open(from)?;
        let mode = file.metadata()?.permissions().mode() & 0o777;
        replace(to, mode, |new| copy_into(&file, new))
    };
    copied().map_err(|source| BackupError::Io { path: to.clone(), source })
}
