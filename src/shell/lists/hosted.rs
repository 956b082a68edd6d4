//! Task lists inside a controller: `[lists] DIR`. The server of the folder runs on a thread of its own, with the agents of the
//! controller as one of its workers; this is the door through which that thread asks the controller.
//!
//! ```text
//! folder <-- ListsServer, Agents --> request --> HostedLists, a door --> loop of the controller --> agent
//!               ^        ^                           |
//!   other workers        +---- answer, change <------+
//! ```
//!
//! All file work is on this thread and on that of the keeper; the loop of the controller only passes bytes. Tasks of lists are tasks of
//! the controller in every other respect. Without the controller nothing of this runs, and its tasks wait in its store.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ListsError;
use super::server::ListsServer;
use super::server::own::{News, Own, Seam};
use crate::config::Config;
use crate::protocol::envelope::ReplyTo;
use crate::protocol::lists::agents::JOB;
use crate::shell::background::Bell;
use crate::shell::door::{Call, Change, Door};
use crate::shell::port::Unsendable;
use crate::types::{AllowCommands, Caller, CallerPlace, Phase};

/// All requests come from one connection, which stays.
const CONNECTION: u64 = 0;

/// The lists of a controller, on a thread of their own.
#[derive(Debug)]
pub struct HostedLists {
    requests: Receiver<(u64, Vec<u8>)>,
    controller: Arc<Bell>,
    /// Whether the bell has rung and there may be more requests.
    has_requests: bool,
    /// `None` once the thread has been asked to end.
    news: Option<Sender<News>>,
    bell: Arc<Bell>,
    /// Whether there is news for which the bell has not rung.
    is_unheard: bool,
    wants_agents: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
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
        let (to_controller, requests) = mpsc::channel();
        let (news, to_thread) = mpsc::channel();
        let (controller, bell) = (Arc::new(Bell::new()?), Arc::new(Bell::new()?));
        let wants_agents = Arc::new(AtomicBool::new(false));
        let seam = Seam {
            requests: to_controller,
            controller: Arc::clone(&controller),
            news: to_thread,
            bell: Arc::clone(&bell),
            wants_agents: Arc::clone(&wants_agents),
        };
        server.host(Own::new(config.lists.output_bytes_max, folder, seam))?;
        let ready_line = server.ready_line();
        let thread = std::thread::Builder::new().name("lists".to_owned()).spawn(move || {
            if let Err(error) = server.run(None) {
                log::error!("{error}: its lists are served again when the controller is started again");
            }
        })?;
        Ok(Self {
            requests,
            controller,
            has_requests: false,
            news: Some(news),
            bell,
            is_unheard: false,
            wants_agents,
            thread: Some(thread),
            ready_line,
        })
    }

    /// The line that announces the folder and the address.
    #[must_use]
    pub fn ready_line(&self) -> &str {
        &self.ready_line
    }

    fn tell(&mut self, news: News) {
        // A thread that has ended, because its folder has vanished, hears nothing.
        if let Some(sender) = &self.news
            && sender.send(news).is_ok()
        {
            self.is_unheard = true;
        }
    }
}

impl Door for HostedLists {
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        Some(self.controller.as_fd())
    }

    fn receive(&mut self) -> Option<Call> {
        self.has_requests |= self.controller.take();
        if !self.has_requests {
            return None;
        }
        let request = self.requests.try_recv().ok();
        self.has_requests = request.is_some();
        let (number, body) = request?;
        Some(Call { connection: CONNECTION, to: ReplyTo::of(number.to_be_bytes().to_vec()), body: Ok(body) })
    }

    fn poll_closed(&mut self) -> Option<u64> {
        if self.has_requests {
            // The turn has taken as many as it may; the next one takes the others.
            self.controller.ring();
        }
        None
    }

    fn exempt(&mut self, _: &ReplyTo) {}

    /// The commands of a folder that the owner of the service has configured are the owner's.
    fn caller(&self, _: &ReplyTo) -> Option<Caller> {
        Some(Caller { place: CallerPlace::Socket, has_key: true })
    }

    fn send(&mut self, to: ReplyTo, body: Vec<u8>, _: Duration) -> Result<(), Unsendable> {
        let number = to.peer().try_into().map(u64::from_be_bytes).map_err(|_| Unsendable::NoPeer)?;
        self.tell(News::Answer(number, body));
        Ok(())
    }

    fn publish(&mut self, _: &[u8]) {}

    fn show(&mut self, change: &Change<'_>) {
        if change.record.membership().is_some_and(|member| member.name.as_str() == JOB) {
            self.tell(News::Change(change.message().to_vec()));
        }
        let is_free = || change.record.phase() == Phase::Finished;
        if self.wants_agents.load(Ordering::Relaxed) && is_free() && self.wants_agents.swap(false, Ordering::Relaxed) {
            self.tell(News::Freed);
        }
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.is_unheard) {
            self.bell.ring();
        }
    }

    fn close(mut self: Box<Self>) {
        self.news = None;
        self.bell.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the task lists has panicked");
        }
    }
}
