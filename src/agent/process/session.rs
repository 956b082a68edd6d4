//! The sessions of an agent: each lifetime of a name has its own session, and the number of the previous one.
//!
//! The lock of the name proves that the previous lifetime has ended, so the controller lets the new one replace it at once.
//! A name that the agent chose itself is used only once and needs none of this.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Name;
use base::Session;
use proc::files::draft::{SHARED, replace};
use proc::lock::{LockError, StateLock};

/// The sessions of one name, for as long as this process uses it.
pub(super) struct Sessions {
    /// The present session.
    pub(super) present: Session,
    /// The previous one, unless it sent an exit.
    pub(super) before: Option<Session>,
    file: Option<(PathBuf, StateLock)>,
}

impl Sessions {
    /// Begins a session.
    ///
    /// # Errors
    /// When another process uses the name, or the file cannot be written.
    pub(super) fn begin(dir: &Path, name: &Name) -> Result<Self, LockError> {
        // JSON keeps whole numbers exact up to 2^53; 0 is an agent without a session.
        let present = Session((rand::random::<u64>() >> 11).max(1));
        let Name::Given(name) = name else { return Ok(Self { present, before: None, file: None }) };
        let lock = StateLock::acquire(dir, name.as_str())?;
        let path = dir.join(format!("{name}.session"));
        let before = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()).map(Session);
        if let Err(error) = replace(&path, SHARED, |file| writeln!(file, "{}", present.0)) {
            // Without the file, only a takeover after a crash is slower.
            log::error!("cannot write {}: {error}", path.display());
        }
        Ok(Self { present, before, file: Some((path, lock)) })
    }

    /// The agent has sent its exit, so no successor needs to replace it.
    pub(super) fn end(self) {
        if let Some((path, _lock)) = self.file {
            let _ = fs::remove_file(path);
        }
    }
}
