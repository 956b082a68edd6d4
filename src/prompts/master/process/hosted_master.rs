//! A prompt master inside another process: on a thread of its own, until its host stops it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use mio::Waker;

use super::{Audience, MasterOptions, PromptError, PromptMaster};
use api::config::Config;

/// Time limit for closing all connections at the end, if `SHUTDOWN_TIMEOUT` is not shorter. The prompts are back in their
/// folder by then, so a stopping host need not wait for a worker that stays connected.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A running master, which keeps running when no file is left.
#[derive(Debug)]
pub struct HostedMaster {
    waker: Arc<Waker>,
    thread: JoinHandle<()>,
    ready_line: String,
}

impl HostedMaster {
    /// Starts a master with the port and the root of the configuration.
    ///
    /// # Errors
    /// [`PromptError`], when it cannot start.
    pub fn start(config: &Config) -> Result<Self, PromptError> {
        let (root, port, audience) = (config.prompt.root_dir.as_path(), config.prompt.port, &Audience::default());
        let options =
            MasterOptions { root, port, keep_alive: true, starts_max: None, timeout: None, cost_max: None, audience };
        let mut config = config.clone();
        config.prompt.shutdown_timeout = config.prompt.shutdown_timeout.min(CLOSE_TIMEOUT);
        let master = PromptMaster::start(&config, options)?;
        let (waker, ready_line) = (Arc::clone(&master.waker), master.ready_line());
        let thread = std::thread::Builder::new().name("prompt-master".into()).spawn(move || run(master))?;
        Ok(Self { waker, thread, ready_line })
    }

    /// Puts back the prompts of workers, closes its connections and waits for its end: at most a second.
    ///
    /// # Errors
    /// When the request to stop cannot be sent.
    pub fn stop(self) -> io::Result<()> {
        self.waker.wake()?;
        // A panic of the thread has already been reported by the thread.
        let _ = self.thread.join();
        Ok(())
    }
}

/// The line that announces readiness and the address.
impl fmt::Display for HostedMaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ready_line)
    }
}

fn run(master: PromptMaster) {
    match master.run(None) {
        Ok(end) => {
            log::info!("prompt master stopped");
            log::debug!("{:?}", end.totals);
        }
        Err(error) => log::error!("{error}"),
    }
}
