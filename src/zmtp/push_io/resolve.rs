//! Resolves host names to IP addresses on a separate thread, because a name server that does not answer blocks the
//! caller for seconds.
//!
//! There is one such thread. It looks up one name after another, so a slow name delays the others. Numeric addresses
//! are never passed to it. The engine decides what is cached and how many names may be pending.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::event::{EventfdFlags, eventfd};

/// The handle of the thread. The engine bounds the number of pending names.
pub(super) struct Resolver {
    questions: Sender<String>,
    answers: Receiver<Answer>,
    /// Counts the answers that have not been taken.
    ready: Arc<OwnedFd>,
}

/// A name and its addresses, if it has any.
pub(super) type Answer = (String, Vec<IpAddr>);

impl Resolver {
    /// Starts the thread. It ends when the resolver is dropped and the current lookup, if any, has returned.
    pub(super) fn start() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        let ready = Arc::new(eventfd(0, flags)?);
        let (questions, incoming) = mpsc::channel::<String>();
        let (outgoing, answers) = mpsc::channel();
        let bell = Arc::clone(&ready);
        std::thread::Builder::new().name("push-resolve".into()).spawn(move || {
            for name in incoming {
                let ips = look_up(&name);
                // The counter can hold far more answers than there are pending names.
                let ring = || rustix::io::write(&bell, &1u64.to_ne_bytes());
                if outgoing.send((name, ips)).is_err() || ring().is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { questions, answers, ready })
    }

    /// Requests a lookup. Without the thread there is no answer, and the frames for the name expire.
    pub(super) fn ask(&self, name: String) {
        let _ = self.questions.send(name);
    }

    /// The next answer, if there is one.
    pub(super) fn poll_answer(&self) -> Option<Answer> {
        rustix::io::read(&self.ready, &mut [0; 8]).ok()?;
        self.answers.try_recv().ok()
    }
}

/// Readable while answers are waiting.
impl AsFd for Resolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

fn look_up(name: &str) -> Vec<IpAddr> {
    // The port is not used.
    (name, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
}
