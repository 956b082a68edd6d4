//! Task lists inside a controller: `[lists] DIR`. The server of the folder runs on a thread of its own, with the agents of the
//! controller as one of its workers; [`controller::hosted`] is the door through which that thread asks the controller.
//!
//! ```text
//! folder <-- ListsServer, Agents --> request --> HostedDoor --> loop of the controller --> agent
//!               ^        ^                           |
//!   other workers        +---- answer, change <------+
//! ```
//!
//! All file work is on this thread and on that of the keeper. Tasks of lists are tasks of the controller in every other respect.
//! Without the controller nothing of this runs, and its tasks wait in its store.

use std::error::Error;

use super::ListsError;
use super::server::ListsServer;
use super::server::own::Own;
use crate::wire::agents::JOB;
use api::config::Config;
use base::AllowCommands;
use controller::hosted::{Guest, HostedDoor};

/// Serves the configured folder, if there is one. The commands run in the folder of this process.
///
/// # Errors
/// [`ListsError`], when the folder or the port cannot be used.
pub fn host(config: &Config) -> Result<Option<Guest>, Box<dyn Error + Send + Sync>> {
    let Some(dir) = &config.lists.dir else { return Ok(None) };
    if config.controller.allow_commands == AllowCommands::No {
        return Err(ListsError::NoCommands(dir.to_owned()).into());
    }
    let folder = std::env::current_dir()?;
    let Some(folder) = folder.to_str() else { return Err(ListsError::NoText(folder).into()) };
    let mut server = ListsServer::start(config, dir, config.lists.port)?;
    let (mut door, link) = HostedDoor::new(JOB)?;
    server.host(Own::new(config.lists.server.output_bytes_max, folder, link))?;
    let ready_line = server.ready_line();
    door.start(move || {
        if let Err(error) = server.run(None) {
            log::error!("{error}: its lists are served again when the controller is started again");
        }
    })?;
    Ok(Some(Guest::behind(door, ready_line)))
}
