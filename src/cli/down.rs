//! `llts down`: stop what `up` has started, and wait until nothing is left of it.

use serde_json::json;

use super::Session;
use super::exit::Failure;
use super::output::note;
use crate::shell::supervisor::{Stopped, stop};

/// That nothing runs is what was asked for: no failure.
pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let stopped = stop(&session.config).map_err(Failure::failed)?;
    let state_dir = session.config.paths.state_dir.display();
    let (pid, sentence) = match stopped {
        Stopped::Service(pid) => (Some(pid), format!("stopped the service (process {pid})")),
        Stopped::Remains(ended) => (None, format!("the supervisor was gone; ended {ended} processes that it had left")),
        Stopped::Nothing => (None, format!("no service runs in {state_dir} (STATE_DIR)")),
    };
    if session.out.is_json() {
        session.out.value(&json!({ "stopped": stopped != Stopped::Nothing, "pid": pid }));
    } else if stopped == Stopped::Nothing {
        note(&sentence);
    } else {
        session.out.line(sentence);
    }
    Ok(0)
}
