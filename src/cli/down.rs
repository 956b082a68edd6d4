//! `llts down`: stop the service that `up` has started, wait until none of its processes is left, and end the remains of
//! killed ephemeral services.

use std::path::Path;

use serde_json::json;

use super::Session;
use super::exit::{FAILED, Failure};
use super::output::note;
use crate::shell::supervisor::{Abandoned, Stopped, end_abandoned, stop};

/// It is not a failure if no service runs.
pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let stopped = stop(&session.config);
    // They do not belong to this service, and a failure to end them is not one of this command.
    let abandoned = end_abandoned(&session.config);
    for Abandoned { folder, ended } in &abandoned {
        let sentence = of_abandoned(folder, ended.as_ref());
        match ended {
            Ok(_) if !session.out.is_json() => session.out.line(sentence),
            Ok(_) | Err(_) => note(&sentence),
        }
    }
    show(session, stopped.map_err(Failure::failed)?, &abandoned);
    Ok(if abandoned.iter().all(|one| one.ended.is_ok()) { 0 } else { FAILED })
}

fn show(session: &mut Session, stopped: Stopped, abandoned: &[Abandoned]) {
    let state_dir = session.config.paths.state_dir.display();
    let is_nothing = stopped == Stopped::default();
    let sentence = match stopped {
        Stopped { supervisor: Some(pid), remains: 0 } => format!("stopped the service (process {pid})"),
        Stopped { supervisor: Some(pid), remains } => {
            format!("stopped the service (process {pid}); ended {remains} processes that it had left behind")
        }
        Stopped { supervisor: None, remains: 0 } => format!("no service runs in {state_dir} (STATE_DIR)"),
        Stopped { supervisor: None, remains } => {
            format!("the supervisor had ended; ended {remains} processes that it had left behind")
        }
    };
    if session.out.is_json() {
        let abandoned: Vec<_> = abandoned
            .iter()
            .map(|Abandoned { folder, ended }| json!({ "folder": folder, "ended": ended.as_ref().ok(), "error": ended.as_ref().err() }))
            .collect();
        session.out.value(&json!({ "stopped": !is_nothing, "pid": stopped.supervisor, "abandoned": abandoned }));
    } else if is_nothing {
        note(&sentence);
    } else {
        session.out.line(sentence);
    }
}

/// The report on an ephemeral service whose command, guard and supervisor were killed.
pub(super) fn of_abandoned(folder: &Path, ended: Result<&u32, &String>) -> String {
    let folder = folder.display();
    match ended {
        Ok(ended) => format!(
            "an ephemeral service had lost its supervisor and its guard; ended {ended} of its processes and removed {folder}"
        ),
        Err(why) => format!("cannot end the remains of an ephemeral service in {folder}: {why}"),
    }
}
