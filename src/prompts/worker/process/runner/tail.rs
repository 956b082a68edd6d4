//! The output of the present run, or the kept one of a run without a result, for a client that follows it.

use std::io;
use std::path::PathBuf;

use super::Runner;
use crate::files::create::TASKS;
use crate::files::results::{ATTEMPTS, file_name, read_open_output, read_output};
use crate::wire::{TailOrder, TailPart};

/// The answer to a request.
pub(in crate::worker::process) enum Answer {
    Part(TailPart),
    /// No part yet; this file may grow.
    Wait(PathBuf),
    /// The command is not started yet.
    Early,
    /// The run has ended, and the master has its output.
    None,
}

impl Runner {
    /// The answer to a request.
    pub(in crate::worker::process) fn tail(&self, order: &TailOrder) -> Answer {
        let part = |bytes: Vec<u8>, ended: bool, note: String| {
            let (tail, offset) = (order.tail, order.offset);
            Answer::Part(TailPart { tail, offset, bytes, ended, note, ..TailPart::default() })
        };
        let Some(wanted) = &order.run else {
            let again = format!("{} waits again; this is the output of a run without a result", order.file);
            let name = format!("{}.{}", file_name(Some(&order.file), ""), order.output.ending());
            return match read_output(&self.root.join(TASKS).join(ATTEMPTS).join(name), order.offset) {
                Ok((bytes, false)) => part(bytes, false, String::new()),
                Ok((bytes, true)) => part(bytes, true, again),
                // An empty output is not kept.
                Err(_) => part(Vec::new(), true, again),
            };
        };
        if self.pending.as_ref().is_some_and(|pending| pending.request.id == *wanted) {
            return Answer::Early;
        }
        let present = self.run.as_ref().filter(|run| run.request == *wanted);
        let path = present.map(|run| run.folder.join(order.output.ending()));
        let live = path.as_ref().map(|path| read_output(path, order.offset));
        match (live, path) {
            (Some(Ok((bytes, _))), _) if !bytes.is_empty() => part(bytes, false, String::new()),
            (Some(Ok(_)), Some(path)) => Answer::Wait(path),
            (Some(Err(error)), _) if error.kind() != io::ErrorKind::NotFound => {
                part(Vec::new(), true, format!("the output of {} cannot be read: {error}", order.file))
            }
            // Moved already, and not reported yet.
            _ => {
                match self.last.as_ref().filter(|(run, _)| run == wanted).map(|(_, outputs)| outputs.file(order.output))
                {
                    Some(file) => match read_open_output(file, order.offset) {
                        Ok((bytes, _)) if !bytes.is_empty() => part(bytes, false, String::new()),
                        _ => Answer::None,
                    },
                    None => Answer::None,
                }
            }
        }
    }
}
