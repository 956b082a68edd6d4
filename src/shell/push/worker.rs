//! The loop of the push thread: one wait, then all that is ready, then the wait for the nearest deadline.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use nix::sys::eventfd::EventFd;

use super::queue::cost;
use super::table::Table;
use crate::shell::clock;
use crate::types::Mono;
use crate::types::PushAddress;

/// Frames taken over in one turn; the sockets get their turn before the next ones.
const FRAMES_PER_TURN: usize = 256;

/// The part of the linger time that is kept for what libzmq has taken already.
const LINGER_SHARE: u32 = 4;

/// Frames that leave the caller together.
pub(super) type Batch = Vec<(Arc<PushAddress>, Vec<u8>)>;

/// The thread's own.
pub(super) struct Worker {
    pub(super) table: Table,
    pub(super) batches: Receiver<Batch>,
    pub(super) wake: Arc<EventFd>,
}

/// What became of the way from the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Intake {
    Empty,
    More,
    /// The caller has let go: stop.
    Closed,
}

impl Worker {
    /// Runs until the caller lets go of its end of the channel, and then for the linger time at the most.
    pub(super) fn run(mut self) {
        let ended = self.run_until_closed().and_then(|()| self.run_until_drained());
        if let Err(error) = ended {
            // The poller fails for our own mistakes only; frames that are pushed from here on are counted as dropped.
            log::error!("push: the thread ends because it cannot wait: {error}");
        }
    }

    fn run_until_closed(&mut self) -> io::Result<()> {
        let mut intake = Intake::Empty;
        while intake != Intake::Closed {
            intake = self.turn(intake, None)?;
        }
        Ok(())
    }

    fn run_until_drained(mut self) -> io::Result<()> {
        let now = clock::now().mono;
        let linger = self.table.limits.linger;
        let end = now + linger;
        let drain_end = now + (linger - linger / LINGER_SHARE);
        self.table.give_up_dead(now);
        while !self.table.is_drained() && clock::now().mono < drain_end {
            self.turn(Intake::Empty, Some(drain_end))?;
        }
        let now = clock::now().mono;
        self.table.close_all(now, end.since(now));
        Ok(())
    }

    fn turn(&mut self, intake: Intake, end: Option<Mono>) -> io::Result<Intake> {
        let ready = self.table.poller.wait(self.timeout(intake, end))?;
        let now = clock::now().mono;
        // First, because these are the only ones who are known to have been woken.
        for id in ready.keys {
            self.table.serve(now, id, true);
        }
        if ready.woken {
            // It fails when another turn has emptied it.
            let _ = self.wake.read();
        }
        let intake = self.take_batches(now);
        self.table.take_answers(now);
        self.table.handle_timeout(now);
        self.table.serve_marked(now);
        self.table.admit(now);
        self.table.inbox.announce();
        Ok(intake)
    }

    fn timeout(&self, intake: Intake, end: Option<Mono>) -> Option<Duration> {
        if intake == Intake::More {
            return Some(Duration::ZERO);
        }
        let now = clock::now().mono;
        let deadline = self.table.poll_timeout(now).into_iter().chain(end).min();
        deadline.map(|deadline| deadline.since(now))
    }

    fn take_batches(&mut self, now: Mono) -> Intake {
        let mut frames = 0;
        while frames < FRAMES_PER_TURN {
            let batch = match self.batches.try_recv() {
                Ok(batch) => batch,
                Err(TryRecvError::Empty) => return Intake::Empty,
                Err(TryRecvError::Disconnected) => return Intake::Closed,
            };
            frames += batch.len();
            let bytes = batch.iter().map(|(_, frame)| cost(frame)).sum();
            for (address, frame) in batch {
                self.table.enqueue(now, &address, frame);
            }
            self.table.counters.handed_over_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Intake::More
    }
}
