//! A prompt master inside another process: on a thread of its own, until its host stops it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use mio::Waker;

use super::{Place, PromptError, PromptMaster};
use crate::config::Config;

/// A running master. It stays when no file is left.
#[derive(Debug)]
pub struct Hosted {
    waker: Arc<Waker>,
    thread: JoinHandle<()>,
    address: SocketAddr,
}

impl Hosted {
    /// Starts a master with the port and the root of the configuration.
    ///
    /// # Errors
    /// [`PromptError`], when it cannot start.
    pub fn start(config: &Config) -> Result<Self, PromptError> {
        let place = Place { root: &config.prompt.root_dir, port: config.prompt.port, keep_alive: true };
        let master = PromptMaster::start(config, place)?;
        let (waker, address) = (Arc::clone(&master.waker), master.address());
        let thread = std::thread::Builder::new().name("prompt-master".into()).spawn(move || run(master))?;
        Ok(Self { waker, thread, address })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes its connections and waits for its end, as long as `SHUTDOWN_TIMEOUT` at the most.
    ///
    /// # Errors
    /// When it cannot be told to stop.
    pub fn stop(self) -> io::Result<()> {
        self.waker.wake()?;
        // Had it panicked, its thread would have said so.
        let _ = self.thread.join();
        Ok(())
    }
}

fn run(master: PromptMaster) {
    match master.run(None) {
        Ok(end) => log::info!("prompt master stopped: {:?}", end.totals),
        Err(error) => log::error!("{error}"),
    }
}
