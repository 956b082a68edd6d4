//! What a user can do if a controller does not answer.

use std::path::PathBuf;

use api::config::Config;
use api::service_file;
use api::service_file::Service;

/// For a controller that could run here.
const LOCAL: &str = "start one with `llts up`, or choose another with --controller";

/// For the controller of a joined home.
const JOINED: &str = "this home belongs to that controller, which is started on its own machine; see whether it runs there and can be reached from here";

/// The facts from which the advice is made when it is needed.
#[derive(Debug)]
pub(super) struct Remedy {
    endpoint: String,
    is_joined: bool,
    state_dir: PathBuf,
    log: PathBuf,
}

impl Remedy {
    /// For the controller at this endpoint.
    pub(super) fn new(config: &Config, endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            is_joined: config.joined_controller().as_deref() == Some(endpoint),
            state_dir: config.paths.state_dir.clone(),
            log: service_file::log_file(config),
        }
    }

    /// The advice, as a part of a sentence.
    pub(super) fn text(&self) -> String {
        if self.is_joined {
            return JOINED.to_owned();
        }
        let is_own =
            |service: &Service| service.controller == self.endpoint || service.socket.as_ref() == Some(&self.endpoint);
        match service_file::holder(&self.state_dir).and_then(|_| Service::read(&self.state_dir)).filter(is_own) {
            Some(Service { pid, .. }) => format!(
                "the service of this home runs (process {pid}) and starts its controller again when it ends; see why it does not answer: {}",
                self.log.display()
            ),
            None => LOCAL.to_owned(),
        }
    }
}
