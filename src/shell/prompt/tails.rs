//! The outputs of prompts that no worker has: of the last run of a finished prompt, and of a run without a result.

use std::io;
use std::path::Path;

use super::folders::Folders;
use crate::engine::master::FileName;
use crate::protocol::prompt::{TailPart, TailQuery};
use crate::shell::prompt_create::TASKS;
use crate::shell::prompt_results::{ATTEMPTS, read_output};

/// Reads the next part, or says in one sentence why there is none.
pub(super) fn read_tail(folders: &Folders, query: &TailQuery) -> Result<TailPart, String> {
    let file = FileName::from(query.file.as_str());
    if query.file.contains('/') || !file.is_prompt() {
        return Err(format!("{:?} is no name of a prompt", query.file));
    }
    let output = file.with_ending(query.output.ending());
    let part = |bytes: Vec<u8>, ended: bool, note: String| {
        let (run, offset) = (query.run.clone().unwrap_or_default(), query.offset);
        Ok(TailPart { tail: 0, run, offset, bytes, ended, note })
    };
    if let Some(folder) = folders.finished().into_iter().find(|folder| is_there(folder, &file)) {
        return match read_output(&folder.join(output.as_os_str()), query.offset) {
            Ok((bytes, ended)) => part(bytes, ended, String::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("{file} has ended, and its output is not here but with its worker"))
            }
            Err(error) => Err(format!("the output of {file} cannot be read: {error}")),
        };
    }
    if !is_there(&folders.pending, &file) {
        return Err(format!("there is no prompt {file} below {}", folders.root.join(TASKS).display()));
    }
    let again = format!("{file} waits again; this is the output of a run without a result");
    match read_output(&folders.tasks.join(ATTEMPTS).join(output.as_os_str()), query.offset) {
        Ok((bytes, true)) => part(bytes, true, again),
        Ok((bytes, false)) => part(bytes, false, String::new()),
        Err(_) if query.run.is_some() => part(Vec::new(), true, again),
        Err(_) => Err(format!("{file} waits, and no run of it has an output")),
    }
}

fn is_there(folder: &Path, file: &FileName) -> bool {
    folder.join(file.as_os_str()).symlink_metadata().is_ok()
}
