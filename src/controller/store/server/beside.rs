//! The sessions of a leader besides the one for its commits: for its files, and for its lease while it starts.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgstore::{PART_BYTES, Session};

use crate::archives::Mirror;
use api::config::StoreServer;
use base::{Epoch, ToolDigest};

/// The archives and files in the server.
pub(super) struct Files {
    session: Session,
    epoch: Epoch,
    home: String,
}

impl Files {
    /// The files of a queue that this home leads in this epoch; without an epoch, of a queue that it only reads.
    pub(super) fn open(server: &StoreServer, epoch: Option<Epoch>, home: String) -> Result<Self, pgstore::Error> {
        let mut session = Session::open(server.clone())?;
        if epoch.is_some() {
            // These parts are from an earlier leader that ended before it had sent the others. Only the leader removes them,
            // because it knows that it is not sending.
            session.remove_loose_parts()?;
        }
        Ok(Self { session, epoch: epoch.unwrap_or_default(), home })
    }

    fn leads(&self, leads: bool) -> io::Result<()> {
        if leads {
            return Ok(());
        }
        let epoch = self.epoch.number;
        Err(io::Error::other(format!(
            "the controller of epoch {epoch} does not lead the queue in {}",
            self.session.place()
        )))
    }
}

impl Mirror for Files {
    fn home(&self) -> String {
        self.home.clone()
    }

    fn part_bytes(&self) -> u64 {
        PART_BYTES
    }

    fn files(&mut self) -> io::Result<Vec<(ToolDigest, u64)>> {
        self.session.files().map_err(io::Error::other)
    }

    fn put_part(&mut self, digest: &ToolDigest, number: u64, part: &[u8]) -> io::Result<()> {
        self.session.put_part(digest, number, part).map_err(io::Error::other)
    }

    fn put_file(&mut self, digest: &ToolDigest, bytes: u64) -> io::Result<bool> {
        self.session.put_file(digest, bytes).map_err(io::Error::other)
    }

    fn part(&mut self, digest: &ToolDigest, number: u64) -> io::Result<Option<Vec<u8>>> {
        self.session.part(digest, number).map_err(io::Error::other)
    }

    fn remove(&mut self, digest: &ToolDigest) -> io::Result<()> {
        let leads = self.session.remove_file(self.epoch, digest).map_err(io::Error::other)?;
        self.leads(leads)
    }

    fn log(&mut self) -> io::Result<Vec<String>> {
        self.session.tool_log().map_err(io::Error::other)
    }

    fn add_to_log(&mut self, line: &str) -> io::Result<()> {
        let leads = self.session.add_to_tool_log(self.epoch, line).map_err(io::Error::other)?;
        self.leads(leads)
    }
}

/// Renews the lease of a controller that loads its queue, until it is dropped.
#[derive(Debug)]
pub struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(server: StoreServer, epoch: Epoch, interval: Duration) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let keep = move || {
            let mut session = None;
            while stopped.recv_timeout(interval) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                if session.is_none() {
                    session = Session::open(server.clone()).ok();
                }
                if let Some(session) = &mut session
                    && let Err(error) = session.renew(epoch)
                {
                    log::warn!("the lease is not renewed: {error}");
                }
            }
        };
        let thread = thread::Builder::new().name("lease".to_owned()).spawn(keep)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// The controller renews its lease itself from now on.
    pub fn end(self) {}
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has no state that a panic could leave half changed.
            let _ = thread.join();
        }
    }
}
