//! Which systems a controller hosts: the one place that knows the controller and all of them.

use std::error::Error;

use api::config::Config;
use controller::hosted::{Guest, Host, Ready};

use prompts::master::process::HostedMaster;
use tdf::shell::pool;

/// Each, in the order in which they start and are announced.
pub const HOSTS: [Host; 4] = [
    crate::http::host,
    |house| host_prompts(house.config),
    |house| lists::shell::host(house.config),
    |house| pool::host(house.config),
];

/// A prompt master has its own workers, so it opens no door.
fn host_prompts(config: &Config) -> Result<Option<Guest>, Box<dyn Error + Send + Sync>> {
    if !config.prompt.hosted {
        return Ok(None);
    }
    let master = HostedMaster::start(config)?;
    let ready = Ready::Line(master.to_string());
    Ok(Some(Guest { ready, door: None, stop_before: Some(Box::new(|| master.stop())), stop_after: None }))
}
