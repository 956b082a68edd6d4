//! The keys of machines that wait for `llts keys accept`: a file for each, named for the machine, in a folder of that of the
//! authorised keys. The name of the folder begins with a dot, so the controller does not take them for authorised.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use crate::config::CurveServerFiles;
use crate::protocol::join::Newcomer;
use crate::shell::curve_keys::{self, KeyError};
use crate::types::{AgentId, PublicKey};

/// The folder, in CURVE_AUTHORISED_KEYS_DIR.
const FOLDER: &str = ".waiting";

/// The keys of one controller.
#[derive(Clone, Debug)]
pub struct KeysInWait {
    authorised: PathBuf,
}

/// A decision that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It may have left, or was decided on already.
    #[error("no machine called {0} waits to be let in; `llts keys list` shows those that do")]
    Unknown(AgentId),
    /// A key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A folder or file cannot be used.
    #[error("cannot use {}: {source}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl KeysInWait {
    /// Those of the controller with these files.
    #[must_use]
    pub fn of(files: &CurveServerFiles) -> Self {
        Self { authorised: files.authorised_keys.clone() }
    }

    /// The folder, which may not exist.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.authorised.join(FOLDER)
    }

    /// A machine begins to wait. It replaces one of the same name whose invitation was killed.
    ///
    /// # Errors
    /// When the file cannot be written, or a key of that name is authorised already.
    pub fn add(&self, newcomer: &Newcomer) -> Result<(), WaitError> {
        let taken = self.authorised.join(newcomer.name.as_str());
        if taken.symlink_metadata().is_ok() {
            return Err(KeyError::Exists(taken).into());
        }
        let folder = self.folder();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| WaitError::File { path: folder, source })?;
        self.remove(&newcomer.name)?;
        Ok(curve_keys::write_public(&self.path(&newcomer.name), newcomer.key)?)
    }

    /// The machines that wait, by name.
    ///
    /// # Errors
    /// When the folder or a file cannot be read.
    pub fn list(&self) -> Result<Vec<Newcomer>, WaitError> {
        let names = names(self.folder())?;
        names.into_iter().map(|name| Ok(Newcomer { key: self.key(&name)?, name })).collect()
    }

    /// The keys that are authorised, by name. Files that hold no key are left out, as the controller does.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn authorised(&self) -> Result<Vec<Newcomer>, WaitError> {
        let names = names(self.authorised.clone())?.into_iter();
        let key = |name: &AgentId| curve_keys::public(&self.authorised.join(name.as_str())).ok();
        Ok(names.filter_map(|name| Some(Newcomer { key: key(&name)?, name })).collect())
    }

    /// Lets a machine in that waits; returns its key.
    ///
    /// # Errors
    /// When it does not wait, or a key of that name is authorised already.
    pub fn accept(&self, name: &AgentId) -> Result<PublicKey, WaitError> {
        let key = self.key(name)?;
        super::let_in(&self.authorised, &Newcomer { name: name.clone(), key })?;
        self.remove(name)?;
        Ok(key)
    }

    /// Does not let a machine in that waits; returns its key.
    ///
    /// # Errors
    /// When it does not wait.
    pub fn refuse(&self, name: &AgentId) -> Result<PublicKey, WaitError> {
        let key = self.key(name)?;
        self.remove(name)?;
        Ok(key)
    }

    /// The decision on a machine; `None` while it waits.
    pub(super) fn decided(&self, newcomer: &Newcomer) -> Option<bool> {
        let is = |path: PathBuf| curve_keys::public(&path).is_ok_and(|key| key == newcomer.key);
        if is(self.path(&newcomer.name)) {
            return None;
        }
        Some(is(self.authorised.join(newcomer.name.as_str())))
    }

    /// It waits no longer.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub fn remove(&self, name: &AgentId) -> Result<(), WaitError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(WaitError::File { path, source }),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn key(&self, name: &AgentId) -> Result<PublicKey, WaitError> {
        match curve_keys::public(&self.path(name)) {
            Err(KeyError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(WaitError::Unknown(name.clone()))
            }
            read => Ok(read?),
        }
    }

    fn path(&self, name: &AgentId) -> PathBuf {
        self.folder().join(name.as_str())
    }
}

/// The names of the files in a folder, if there is one.
fn names(folder: PathBuf) -> Result<Vec<AgentId>, WaitError> {
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let entries = entries.map_err(|source| WaitError::File { path: folder, source })?;
    let name = |entry: &fs::DirEntry| AgentId::new(entry.file_name().to_str()?).ok();
    let mut names: Vec<AgentId> = entries.iter().filter_map(name).collect();
    names.sort();
    Ok(names)
}
