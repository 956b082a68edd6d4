//! Host names to IP addresses, on a thread of its own: a name server that does not answer blocks its caller for seconds.
//!
//! There is one such thread. Names are looked up one after the other, so that a slow one delays other names; numeric
//! addresses never come here. What is remembered and what is allowed is the engine's concern.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use rustix::event::{EventfdFlags, eventfd};

/// The way to the thread. The engine bounds the names that it asks for at the same time.
pub(super) struct Resolver {
    questions: Sender<String>,
    answers: Receiver<Answer>,
    /// Counts the answers that were not taken yet.
    ready: Arc<OwnedFd>,
}

/// A name and its addresses, if it has any.
pub(super) type Answer = (String, Vec<IpAddr>);

impl Resolver {
    /// Starts the thread. It ends when the resolver is dropped and the lookup of the moment, if any, has returned.
    pub(super) fn start() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE;
        let ready = Arc::new(eventfd(0, flags)?);
        let (questions, incoming) = mpsc::channel::<String>();
        let (outgoing, answers) = mpsc::channel();
        let bell = Arc::clone(&ready);
        std::thread::Builder::new().name("push-resolve".into()).spawn(move || {
            for name in incoming {
                let ips = look_up(&name);
                // The counter holds far more answers than there are open questions.
                let ring = || rustix::io::write(&bell, &1u64.to_ne_bytes());
                if outgoing.send((name, ips)).is_err() || ring().is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { questions, answers, ready })
    }

    /// Asks for a name. Without a thread there is no answer, and the frames for the name run into their time limit.
    pub(super) fn ask(&self, name: String) {
        let _ = self.questions.send(name);
    }

    /// The next answer, if there is one.
    pub(super) fn poll_answer(&self) -> Option<Answer> {
        rustix::io::read(&self.ready, &mut [0; 8]).ok()?;
        self.answers.try_recv().ok()
    }
}

/// Readable while there are answers.
impl AsFd for Resolver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

fn look_up(name: &str) -> Vec<IpAddr> {
    // The port is not looked at.
    (name, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
}
