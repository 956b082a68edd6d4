//! The outputs of prompts that no worker has: of the last run of a finished prompt, and of a run without a result.

use std::io;
use std::path::Path;

use super::folders::Folders;
use crate::files::create::TASKS;
use crate::files::results::{ATTEMPTS, JSON, RUN, read_json, read_output};
use crate::master::engine::FileName;
use crate::wire::{TailPart, TailQuery};

/// Reads the next part. The error is a sentence for people.
pub(super) fn read_tail(folders: &Folders, query: &TailQuery) -> Result<TailPart, String> {
    let file = FileName::from(query.file.as_str());
    if query.file.contains('/') || !file.is_prompt() {
        return Err(format!("{:?} is no name of a prompt", query.file));
    }
    let output = file.with_ending(query.output.ending());
    let part = |bytes: Vec<u8>, ended: bool, note: String| {
        let (run, offset) = (query.run.clone().unwrap_or_default(), query.offset);
        Ok(TailPart { run, offset, bytes, ended, note, ..TailPart::default() })
    };
    if let Some(folder) = folders.finished().into_iter().find(|folder| is_there(folder, &file)) {
        let run = read_json(&folder.join(file.with_ending(JSON).as_os_str()))
            .and_then(|json| json[RUN].as_str().map(str::to_owned));
        let is_other = query.run.is_some() && run.is_some() && query.run != run;
        if is_other && !query.next {
            let note = format!("that run has ended without a result; {file} has run again since");
            return part(Vec::new(), true, note).map(|part| TailPart { again: true, ..part });
        }
        let run = run.or_else(|| query.run.clone()).unwrap_or_default();
        return match read_output(&folder.join(output.as_os_str()), query.offset) {
            Ok((bytes, ended)) => part(bytes, ended, String::new()).map(|part| TailPart { run, ..part }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("{file} has ended, and its output is not here but with its worker"))
            }
            Err(error) => Err(format!("the output of {file} cannot be read: {error}")),
        };
    }
    if !is_there(&folders.pending, &file) {
        return Err(format!("there is no prompt {file} below {}", folders.root.join(TASKS).display()));
    }
    if query.next {
        // The engine has not found the waiting file yet.
        return part(Vec::new(), false, String::new());
    }
    let again = format!("{file} waits again; this is the output of a run without a result");
    match read_output(&folders.tasks.join(ATTEMPTS).join(output.as_os_str()), query.offset) {
        Ok((bytes, true)) => part(bytes, true, again).map(|part| TailPart { again: true, ..part }),
        Ok((bytes, false)) => part(bytes, false, String::new()),
        Err(_) if query.run.is_some() => part(Vec::new(), true, again).map(|part| TailPart { again: true, ..part }),
        Err(_) => Err(format!("{file} waits, and no run of it has an output")),
    }
}

fn is_there(folder: &Path, file: &FileName) -> bool {
    folder.join(file.as_os_str()).symlink_metadata().is_ok()
}
