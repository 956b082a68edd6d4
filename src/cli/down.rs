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
    let is_nothing = stopped == Stopped::default();
    let sentence = match stopped {
        Stopped { supervisor: Some(pid), remains: 0 } => format!("stopped the service (process {pid})"),
        Stopped { supervisor: Some(pid), remains } => {
            format!("stopped the service (process {pid}); ended {remains} processes that it had left")
        }
        Stopped { supervisor: None, remains: 0 } => format!("no service runs in {state_dir} (STATE_DIR)"),
        Stopped { supervisor: None, remains } => {
            format!("the supervisor was gone; ended {remains} processes that it had left")
        }
    };
    if session.out.is_json() {
        session.out.value(&json!({ "stopped": !is_nothing, "pid": stopped.supervisor }));
    } else if is_nothing {
        note(&sentence);
    } else {
        session.out.line(sentence);
    }
    Ok(0)
}
