//! The keys of machines that wait for `llts keys accept`: one file for each, named after the machine, in a subfolder of the authorised
//! keys. The subfolder's name begins with a dot, so the controller does not take these keys for authorised ones.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use rustix::fs::FlockOperation;

use api::wire::join::Newcomer;
use base::{AgentId, CurveServerFiles};
use zmtp::curve_keys::{AuthorisedKey, KeyError};

/// The folder, in CURVE_AUTHORISED_KEYS_DIR.
const FOLDER: &str = ".waiting";

/// The waiting and the authorised keys of one controller.
#[derive(Clone, Debug)]
pub struct KeysInWait {
    authorised: PathBuf,
}

/// A waiting machine's claim to its name, held by its invitation. Without it, another machine may wait under the same
/// name.
#[derive(Debug)]
pub struct Waiting(#[expect(dead_code, reason = "it holds the lock of the file")] File);

/// A decision that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It may have left, or the decision was made already.
    #[error("no machine called {0} waits to be let in; `llts keys list` shows those that do")]
    Unknown(AgentId),
    /// Another machine waits under that name.
    #[error(
        "another machine waits under the name {0}, with another key; name this one differently (`llts join --name`)"
    )]
    Taken(AgentId),
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
    /// The keys of the controller with these files.
    #[must_use]
    pub fn of(files: &CurveServerFiles) -> Self {
        Self { authorised: files.authorised_keys.clone() }
    }

    /// The folder of waiting keys, which may not exist.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.authorised.join(FOLDER)
    }

    /// Lets a machine wait until [`Self::remove`]. It replaces one of the same name whose invitation was killed. With `may_command`, it
    /// may send commands once it is accepted.
    ///
    /// # Errors
    /// When the file cannot be written, the name already has an authorised key, or another machine waits under it.
    pub fn add(&self, newcomer: &Newcomer, may_command: bool) -> Result<Waiting, WaitError> {
        let taken = self.authorised.join(newcomer.name.as_str());
        if taken.symlink_metadata().is_ok() {
            return Err(KeyError::Exists(taken).into());
        }
        let folder = self.folder();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        let failed = |path: PathBuf| move |source| WaitError::File { path, source };
        made.map_err(failed(folder))?;
        let _turn = self.turn()?;
        let path = self.path(&newcomer.name);
        if File::open(&path)
            .is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
        {
            return Err(WaitError::Taken(newcomer.name.clone()));
        }
        self.remove(&newcomer.name)?;
        AuthorisedKey { key: newcomer.key, may_command }.write(&path)?;
        let file = File::open(&path).map_err(failed(path.clone()))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|errno| failed(path)(errno.into()))?;
        Ok(Waiting(file))
    }

    /// The machines that wait, by name.
    ///
    /// # Errors
    /// When the folder or a file cannot be read.
    pub fn list(&self) -> Result<Vec<(AgentId, AuthorisedKey)>, WaitError> {
        let names = names(self.folder())?;
        names.into_iter().map(|name| Ok((name.clone(), self.key(&name)?))).collect()
    }

    /// The authorised keys, by name. Files that hold no key are left out, as the controller leaves them out.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn authorised(&self) -> Result<Vec<(AgentId, AuthorisedKey)>, WaitError> {
        let names = names(self.authorised.clone())?.into_iter();
        Ok(names.filter_map(|name| Some((name.clone(), self.authorised_key(&name).ok()?))).collect())
    }

    /// The key that is authorised under a name.
    ///
    /// # Errors
    /// When there is none, or its file cannot be used.
    pub fn authorised_key(&self, name: &AgentId) -> Result<AuthorisedKey, KeyError> {
        AuthorisedKey::read(&self.authorised.join(name.as_str()))
    }

    /// Authorises a waiting machine and returns its key. With `may_command` it may send commands, even if it was authorised before.
    ///
    /// # Errors
    /// When it does not wait, or the name already has an authorised key.
    pub fn accept(&self, name: &AgentId, may_command: bool) -> Result<AuthorisedKey, WaitError> {
        let _turn = self.turn()?;
        let key = match self.key(name) {
            Err(WaitError::Unknown(_)) if may_command && self.authorised_key(name).is_ok() => {
                let key = AuthorisedKey { may_command, ..self.authorised_key(name)? };
                key.rewrite(&self.authorised.join(name.as_str()))?;
                return Ok(key);
            }
            key => key?,
        };
        let key = AuthorisedKey { may_command: may_command || key.may_command, ..key };
        super::let_in(&self.authorised, name, key)?;
        self.remove(name)?;
        Ok(key)
    }

    /// Refuses a waiting machine and returns its key.
    ///
    /// # Errors
    /// When it does not wait.
    pub fn refuse(&self, name: &AgentId) -> Result<AuthorisedKey, WaitError> {
        let _turn = self.turn()?;
        let key = self.key(name)?;
        self.remove(name)?;
        Ok(key)
    }

    /// Whether a machine was authorised or refused; `None` while it waits.
    pub(super) fn decided(&self, newcomer: &Newcomer) -> Option<bool> {
        let is = |path: PathBuf| AuthorisedKey::read(&path).is_ok_and(|key| key.key == newcomer.key);
        if is(self.path(&newcomer.name)) {
            return None;
        }
        Some(is(self.authorised.join(newcomer.name.as_str())))
    }

    /// Ends the wait of a machine.
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

    /// Arrivals and decisions take turns, so that none sees the key of a name while it is replaced. `None` if no machine has waited.
    fn turn(&self) -> Result<Option<File>, WaitError> {
        let folder = self.folder();
        let turn = match File::open(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => {
                opened.and_then(|turn| Ok(rustix::fs::flock(&turn, FlockOperation::LockExclusive).map(|()| turn)?))
            }
        };
        turn.map(Some).map_err(|source| WaitError::File { path: folder, source })
    }

    fn key(&self, name: &AgentId) -> Result<AuthorisedKey, WaitError> {
        match AuthorisedKey::read(&self.path(name)) {
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
