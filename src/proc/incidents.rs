//! Incidents from any part of a process, noted globally like log lines: most parts do not know the controller that they
//! serve.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::clock;
use base::{Incident, IncidentKind, Wall, words};

/// The file in STATE_DIR in which a supervisor, which has no history, leaves incidents for its controller.
const LEFT: &str = "incidents.left";

/// Maximum bytes of that file: room for more incidents than a restart leaves.
const LEFT_BYTES_MAX: u64 = 64 * 1024;

/// Takes the incidents of this process.
pub type Listener = Box<dyn Fn(Incident) + Send>;

/// The history of this process, if it has one.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Sends all further incidents to this listener.
pub fn listen(listener: Option<Listener>) {
    *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = listener;
}

/// Notes an incident. A process without a history drops it.
pub fn note(kind: IncidentKind, text: impl Into<String>) {
    if let Some(listener) = &*LISTENER.lock().unwrap_or_else(PoisonError::into_inner) {
        listener(Incident { at: clock::now().wall, kind, text: text.into() });
    }
}

/// Leaves an incident for the controller of this STATE_DIR, which takes it when it starts or is told to.
///
/// # Errors
/// When the file cannot be written.
pub fn leave(state_dir: &Path, kind: IncidentKind, text: &str) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(left(state_dir))?;
    if file.metadata()?.len() > LEFT_BYTES_MAX {
        return Ok(());
    }
    let line = format!("{} {} {}\n", clock::now().wall.micros(), words::incident(kind), text.replace('\n', " "));
    file.write_all(line.as_bytes())
}

/// Whether an incident was left that no controller has taken.
pub fn are_left(state_dir: &Path) -> bool {
    left(state_dir).exists()
}

/// Whether an incident of this kind was left.
#[must_use]
pub fn is_left(state_dir: &Path, kind: IncidentKind) -> bool {
    let text = fs::read_to_string(left(state_dir)).unwrap_or_default();
    text.lines().any(|line| line.split(' ').nth(1) == Some(words::incident(kind)))
}

/// Notes the incidents that were left for this controller.
pub fn take_left(state_dir: &Path) {
    let path = left(state_dir);
    let Ok(text) = fs::read_to_string(&path) else { return };
    if let Err(error) = fs::remove_file(&path) {
        log::warn!("cannot remove {}: {error}", path.display());
    }
    let read = |line: &str| {
        let (at, rest) = line.split_once(' ')?;
        let (kind, text) = rest.split_once(' ')?;
        let at = Wall::from_micros(at.parse().ok()?);
        Some(Incident { at, kind: words::incident_of(kind)?, text: text.to_owned() })
    };
    if let Some(listener) = &*LISTENER.lock().unwrap_or_else(PoisonError::into_inner) {
        text.lines().filter_map(read).for_each(listener);
    }
}

fn left(state_dir: &Path) -> PathBuf {
    state_dir.join(LEFT)
}
