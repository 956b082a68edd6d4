//! The handle of the push thread: what the loop of the controller calls. Nothing here waits for the network.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::counts::{Counters, PushCounts, add};
use super::inbox::{AckSink, Inbox};
use super::poller::Poller;
use super::queue::{QueueLimits, cost};
use super::resolve::Resolver;
use super::table::{Limits, Parts, Table};
use super::wire::Wires;
use super::worker::{Batch, Worker};
use crate::config::Transport;
use crate::types::AddressPolicy;
use crate::types::PushAddress;

/// libzmq allows 1,023 sockets in a context; the rest is for closed ones that linger.
const SOCKETS_MAX: usize = 900;

/// Addresses that are known at the same time, for each socket: one that has it, the others in the line.
const PEERS_PER_SOCKET: usize = 4;

/// Addresses whose queues may be full at the same time, as far as memory goes.
const FULL_QUEUES_MAX: usize = 16;

/// Frames that leave without a call to [`Pusher::flush`].
const BATCH_FRAMES_MAX: usize = 256;

/// The limits of a [`Pusher`]; `config.toml` says what each default is for.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Who reads and writes the sockets.
    pub transport: Transport,
    /// Open sockets; 1 to 900.
    pub sockets_max: usize,
    /// Frames that wait for one address.
    pub queue_max: usize,
    /// Bytes that wait for one address, with 64 more for each frame. All addresses together get sixteen times this.
    pub queue_bytes_max: usize,
    /// How long frames wait for an address that cannot be reached.
    pub connect_timeout: Duration,
    /// How long an unused socket stays open, and how long frames wait for a receiver that is connected and takes nothing.
    pub idle_timeout: Duration,
    /// How long [`Pusher::stop`] and a closed socket go on delivering.
    pub linger: Duration,
    /// What host names may resolve to.
    pub policy: AddressPolicy,
}

/// Pushes frames to addresses, in order for each address, from a thread of its own.
///
/// [`Self::push`] any number of times, then [`Self::flush`] once at the end of a turn; [`Self::stop`] at the end.
#[derive(Debug)]
pub struct Pusher {
    batch: Batch,
    /// `None` once the thread has been told to stop.
    batches: Option<Sender<Batch>>,
    wake: Arc<EventFd>,
    counters: Arc<Counters>,
    waiting_bytes_max: usize,
    thread: Option<JoinHandle<()>>,
}

impl Pusher {
    /// Starts the thread. `acks` gets what receivers send back; without it that is read and thrown away.
    ///
    /// # Errors
    ///
    /// When descriptors or threads have run out.
    pub fn start(config: PushConfig, acks: Option<AckSink>) -> io::Result<Self> {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
        let counters = Arc::<Counters>::default();
        let limits = Limits::from(&config);
        let wires = wires(config.transport)?;
        let table = Table::new(Parts {
            limits,
            wires,
            poller: Poller::new(&wake)?,
            resolver: Resolver::start(config.policy, Arc::clone(&wake))?,
            inbox: Inbox::new(acks, Arc::clone(&counters)),
            counters: Arc::clone(&counters),
        });
        let (sender, batches) = mpsc::channel();
        let worker = Worker { table, batches, wake: Arc::clone(&wake) };
        let thread = std::thread::Builder::new().name("push".into()).spawn(move || worker.run())?;
        Ok(Self {
            batch: Batch::new(),
            batches: Some(sender),
            wake,
            counters,
            waiting_bytes_max: limits.bytes_max,
            thread: Some(thread),
        })
    }

    /// Takes a frame for an address. It never waits and never fails: what cannot be delivered is counted.
    pub fn push(&mut self, address: &Arc<PushAddress>, frame: Vec<u8>) {
        // The thread takes over at once; if it is starved of the processor, memory is still bounded.
        let cost = cost(&frame);
        let waiting = self.counters.handed_over_bytes.fetch_add(cost, Ordering::Relaxed);
        if waiting + cost > self.waiting_bytes_max {
            self.counters.handed_over_bytes.fetch_sub(cost, Ordering::Relaxed);
            add(&self.counters.dropped_full, 1);
            return;
        }
        self.batch.push((Arc::clone(address), frame));
        if self.batch.len() >= BATCH_FRAMES_MAX {
            self.flush();
        }
    }

    /// Hands over what was pushed and wakes the thread, once for all of it.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let Some(batches) = &self.batches else { return };
        if let Err(mpsc::SendError(batch)) = batches.send(std::mem::take(&mut self.batch)) {
            // The thread has ended, and has said why.
            add(&self.counters.dropped_unreachable, batch.len());
            let bytes = batch.iter().map(|(_, frame)| cost(frame)).sum();
            self.counters.handed_over_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        super::ring(&self.wake);
    }

    /// What has become of the frames so far.
    #[must_use]
    pub fn counts(&self) -> PushCounts {
        self.counters.read()
    }

    /// Delivers what waits for addresses that can be reached, for the linger time at the most, and ends the thread.
    pub fn stop(mut self) -> PushCounts {
        self.end();
        self.counts()
    }

    fn end(&mut self) {
        self.flush();
        self.batches = None;
        super::ring(&self.wake);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("push: the thread has panicked");
        }
    }
}

fn wires(transport: Transport) -> io::Result<Wires> {
    Ok(match transport {
        Transport::Own => Wires::Own,
        Transport::Zmq => {
            let context = zmq::Context::new();
            // The first socket starts the threads of the context: here its failure can be told.
            drop(context.socket(zmq::DEALER)?);
            Wires::Zmq(context)
        }
    })
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.end();
    }
}

impl From<&PushConfig> for Limits {
    fn from(config: &PushConfig) -> Self {
        let sockets_max = config.sockets_max.clamp(1, SOCKETS_MAX);
        Self {
            sockets_max,
            peers_max: sockets_max * PEERS_PER_SOCKET,
            queue: QueueLimits { frames_max: config.queue_max, bytes_max: config.queue_bytes_max },
            bytes_max: config.queue_bytes_max.saturating_mul(FULL_QUEUES_MAX),
            connect_timeout: config.connect_timeout,
            idle_timeout: config.idle_timeout,
            linger: config.linger,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::types::Host;

    #[test]
    fn frames_for_a_name_wait_until_it_is_resolved() {
        let context = zmq::Context::new();
        let receiver = context.socket(zmq::DEALER).unwrap();
        receiver.set_rcvtimeo(60_000).unwrap();
        receiver.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = receiver.get_last_endpoint().unwrap().unwrap();
        let bound: SocketAddr = endpoint.strip_prefix("tcp://").unwrap().parse().unwrap();

        let seconds = Duration::from_secs(60);
        let mut pusher = Pusher::start(
            PushConfig {
                transport: Transport::Own,
                sockets_max: 2,
                queue_max: 100,
                queue_bytes_max: 100_000,
                connect_timeout: seconds,
                idle_timeout: seconds,
                linger: seconds,
                // Other addresses of the name, such as ::1, must not be taken.
                policy: AddressPolicy { allow: vec!["127.0.0.1/32".parse().unwrap()], own: vec![] },
            },
            None,
        )
        .unwrap();
        // The parser writes a number for it; as a name it stands for any that resolves.
        let named = Arc::new(PushAddress { host: Host::Name("localhost".into()), port: bound.port() });
        for frame in ["first", "second"] {
            pusher.push(&named, frame.into());
        }
        pusher.flush();
        assert_eq!(receiver.recv_string(0).unwrap().unwrap(), "first");
        assert_eq!(receiver.recv_string(0).unwrap().unwrap(), "second");
        assert_eq!(bound.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(pusher.stop().sent, 2);
    }
}
