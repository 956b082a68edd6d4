//! Announces that the controller is ready, in its log and on its standard output, with the facts that an operator should know.

use std::io::Write as _;

use crate::hosted::{Guest, Ready};
use api::config::{Config, Exposure};
use api::trust;
use api::trust::Part;

/// Announces the addresses of a controller.
pub(super) fn announce(config: &Config, [requests, broadcasts]: [&str; 2], guests: &[Guest]) -> std::io::Result<()> {
    if config.exposure() == Exposure::Network {
        log::warn!(
            "{requests} is open to the network, and any client that reaches it can run tools: ALLOW_INSECURE is set"
        );
    }
    for warning in trust::warnings(config, Part::Controller) {
        log::warn!("{warning}");
    }
    let mut ready = format!("controller ready: rep {requests} pub {broadcasts}");
    let mut lines = Vec::new();
    for guest in guests {
        match &guest.ready {
            Ready::Address(address) => ready += &format!(" {address}"),
            Ready::Line(line) => lines.push(line),
        }
    }
    log::info!("{ready}");
    let mut out = std::io::stdout();
    writeln!(out, "llts {ready}")?;
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
