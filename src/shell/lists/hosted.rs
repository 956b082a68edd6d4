//! Task lists inside a controller: `[lists] DIR`. The server of the folder runs on a thread of its own, with the agents of the
//! controller as one of its workers; [`crate::shell::hosted`] is the door through which that thread asks the controller.
//!
//! ```text
//! folder <-- ListsServer, Agents --> request --> HostedDoor --> loop of the controller --> agent
//!               ^        ^                           |
//!   other workers        +---- answer, change <------+
//! ```
//!
//! All file work is on this thread and on that of the keeper. Tasks of lists are tasks of the controller in every other respect.
//! Without the controller nothing of this runs, and its tasks wait in its store.

use std::path::Path;

use super::ListsError;
use super::server::ListsServer;
use super::server::own::Own;
use crate::config::Config;
use crate::protocol::lists::agents::JOB;
use crate::shell::door::Door;
use crate::shell::hosted::HostedDoor;
use crate::types::AllowCommands;

/// The lists of a controller, on a thread of their own.
#[derive(Debug)]
pub struct HostedLists {
    door: HostedDoor,
    ready_line: String,
}

impl HostedLists {
    /// Serves the configured folder. The commands run in `folder`.
    ///
    /// # Errors
    /// [`ListsError`], when the folder or the port cannot be used.
    pub fn start(config: &Config, dir: &Path, folder: &Path) -> Result<Self, ListsError> {
        if config.controller.allow_commands == AllowCommands::No {
            return Err(ListsError::NoCommands(dir.to_owned()));
        }
        let Some(folder) = folder.to_str() else { return Err(ListsError::NoText(folder.to_owned())) };
        let mut server = ListsServer::start(config, dir, config.lists.port)?;
        let (mut door, seam) = HostedDoor::new(JOB)?;
        server.host(Own::new(config.lists.server.output_bytes_max, folder, seam))?;
        let ready_line = server.ready_line();
        door.start(move || {
            if let Err(error) = server.run(None) {
                log::error!("{error}: its lists are served again when the controller is started again");
            }
        })?;
        Ok(Self { door, ready_line })
    }

    /// The line that announces the folder and the address.
    #[must_use]
    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    /// The way of the thread to the controller.
    #[must_use]
    pub fn into_door(self) -> Box<dyn Door> {
        Box::new(self.door)
    }
}
