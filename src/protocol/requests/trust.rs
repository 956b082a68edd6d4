//! Messages with files, whose treatment depends on the right of their sender to send commands.

use super::{Message, Request};

impl Message {
    /// Whether it brings files, or names those of a task.
    #[must_use]
    pub fn has_files(&self) -> bool {
        match self {
            Self::Client(Request::FilePut(_)) => true,
            Self::Client(Request::Submit(submit)) => submit.files.is_some(),
            Self::Client(Request::SubmitMany(many)) => many.tasks.iter().any(|submit| submit.files.is_some()),
            Self::Client(_) | Self::Agent(..) => false,
        }
    }

    /// Notes that its sender may send commands.
    pub fn trust(&mut self) {
        match self {
            Self::Client(Request::FilePut(put)) => put.is_trusted = true,
            Self::Client(Request::Submit(submit)) => submit.is_trusted = true,
            Self::Client(Request::SubmitMany(many)) => {
                many.tasks.iter_mut().for_each(|submit| submit.is_trusted = true);
            }
            Self::Client(_) | Self::Agent(..) => {}
        }
    }
}
