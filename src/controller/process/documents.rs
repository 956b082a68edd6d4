//! Reads the long documents of step graphs on a thread of its own. A document of 10,000 steps takes 13 ms (benches/controller.rs),
//! during which the loop serves others. Its first turn in the loop takes 4 ms.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::door::Address;
use api::wire::requests::{Message, Refused, Request};
use api::wire::rules::Rules;
use api::wire::{Refusal, requests};
use engine::ConnectionId;
use engine::graph::Graph;
use proc::background::Background;
use zmtp::envelope;
use zmtp::envelope::LongKind;

/// Maximum bytes of a GRAPH/SUBMIT that is read in the loop: this takes a millisecond, which a thread would not save.
const SHORT_BYTES: usize = 65_536;

/// A request whose document is to be read.
pub(super) struct Unread {
    pub(super) connection: ConnectionId,
    pub(super) to: Address,
    pub(super) body: Vec<u8>,
}

/// A request that has been read, with the steps of its graph connected.
pub(super) struct Document {
    pub(super) connection: ConnectionId,
    pub(super) to: Address,
    pub(super) message: Result<(&'static str, Message), Refused>,
    pub(super) plan: Option<Result<Arc<Graph>, Refusal>>,
}

/// The thread.
pub(super) struct Documents {
    thread: Background<Unread, Document>,
    /// Number of requests that it has got and not given back.
    pending: usize,
}

impl Documents {
    /// Starts it.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub(super) fn start(rules: Rules) -> io::Result<Self> {
        let read = move |Unread { connection, to, body }: Unread, done: &dyn Fn(Document)| {
            let message = requests::parse(&body, &rules);
            let plan = match &message {
                Ok((_, Message::Client(Request::GraphSubmit(submit)))) => {
                    Some(Graph::new(&submit.graph.document).map(Arc::new))
                }
                Ok(_) | Err(_) => None,
            };
            done(Document { connection, to, message, plan });
        };
        Ok(Self { thread: Background::start("documents", read)?, pending: 0 })
    }

    /// Whether a request is one for this thread.
    pub(super) fn is_long(body: &[u8]) -> bool {
        body.len() > SHORT_BYTES && envelope::long_kind(body) == LongKind::Graph
    }

    /// Begins to read a document.
    pub(super) fn read(&mut self, unread: Unread) {
        self.pending += 1;
        self.thread.give(unread);
    }

    /// The next document that has been read.
    pub(super) fn poll(&mut self) -> Option<Document> {
        let document = self.thread.poll()?;
        self.pending -= 1;
        Some(document)
    }

    /// Whether every document has been read and taken.
    pub(super) const fn is_idle(&self) -> bool {
        self.pending == 0
    }
}

/// Readable when a document has been read.
impl AsFd for Documents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.as_fd()
    }
}
