//! Tells that the controller is ready, in its log and on its standard output, and what an operator should know.

use std::io::Write as _;

use crate::config::{Config, Exposure};
use crate::shell::http::Http;
use crate::shell::prompt::HostedMaster;
use crate::shell::trust::{self, Part};

/// Announces the addresses of a controller.
pub(super) fn announce<'a>(
    config: &Config,
    [requests, broadcasts]: [&str; 2],
    http: Option<&Http>,
    prompts: Option<&HostedMaster>,
    hosted: impl Iterator<Item = &'a str>,
) -> std::io::Result<()> {
    if config.exposure() == Exposure::Network {
        log::warn!(
            "{requests} is open to the network, and any client that reaches it can run tools: ALLOW_INSECURE is set"
        );
    }
    for warning in trust::warnings(config, Part::Controller) {
        log::warn!("{warning}");
    }
    let http = http.map_or_else(String::new, |http| format!(" http http://{}", http.address()));
    let ready = format!("controller ready: rep {requests} pub {broadcasts}{http}");
    log::info!("{ready}");
    let mut out = std::io::stdout();
    writeln!(out, "llts {ready}")?;
    if let Some(prompts) = prompts {
        writeln!(out, "{prompts}")?;
    }
    for line in hosted {
        writeln!(out, "{line}")?;
    }
    out.flush()
}
