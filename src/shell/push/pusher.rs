//! What the loop of the controller calls. Nothing here waits for the network, until the end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::counts::PushCounts;
use super::inbox::{Inbox, Received};
use super::poller::Ready;
use super::queue::QueueLimits;
use super::resolve::Resolver;
use super::table::{Limits, Table};
use crate::engine::zmtp::KeyPair;
use crate::shell::clock;
use crate::types::AddressPolicy;
use crate::types::Mono;
use crate::types::PushAddress;

/// DESCRIPTORS_RESERVED has two for each of them.
const SOCKETS_MAX: usize = 900;

/// Addresses that are known at the same time, for each socket: one that has it, the others in the line.
const PEERS_PER_SOCKET: usize = 4;

/// Addresses whose queues may be full at the same time, as far as memory goes.
const FULL_QUEUES_MAX: usize = 16;

/// The limits of a [`Pusher`]; `defaults.toml` of the configuration says what each default is for.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// What we prove to receivers that want CURVE.
    pub keys: KeyPair,
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
    /// Frames from receivers that wait for the caller.
    pub acknowledgements_max: usize,
    /// What host names may resolve to.
    pub policy: AddressPolicy,
}

/// Pushes frames to addresses, in order for each address.
///
/// The loop that owns it waits for its descriptor and until [`Self::poll_timeout`], then calls [`Self::turn`] and takes what
/// [`Self::poll_acknowledgement`] has; it calls [`Self::push`] any number of times, and [`Self::flush`] once after them;
/// [`Self::stop`] at the end. Only that last one waits.
pub struct Pusher {
    table: Table,
}

impl Pusher {
    /// Starts the thread that looks host names up, and nothing else.
    ///
    /// # Errors
    ///
    /// When descriptors or threads have run out.
    pub fn start(config: PushConfig) -> io::Result<Self> {
        let (limits, inbox) = (Limits::from(&config), Inbox::new(config.acknowledgements_max));
        let table = Table::new(limits, config.keys, Resolver::start(config.policy)?, inbox)?;
        Ok(Self { table })
    }

    /// Takes a frame for an address. It never fails: what cannot be delivered is counted.
    pub fn push(&mut self, now: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        self.push_by(now, now, address, frame);
    }

    /// As [`Self::push`], for a frame that may wait until `by` for others to the same address, and share their write.
    pub fn push_by(&mut self, now: Mono, by: Mono, address: &Arc<PushAddress>, frame: Vec<u8>) {
        self.table.enqueue(now, by, address, frame);
    }

    /// Sends what was pushed to addresses that can take it, one write for each, as far as the slice of this turn goes; the rest
    /// goes with later turns.
    pub fn flush(&mut self, now: Mono) {
        self.table.flush(now);
    }

    /// Does a slice of what there is to do, now that the wait is over; `readable` is what it has said of the descriptor.
    pub fn turn(&mut self, now: Mono, readable: bool) {
        let ready = if readable { self.table.poller.wait(Duration::ZERO) } else { Ready::default() };
        self.table.turn(now, ready);
    }

    /// When [`Self::turn`] is to be called though the descriptor is not readable; `Some(now)` while there is more to do.
    #[must_use]
    pub fn poll_timeout(&self, now: Mono) -> Option<Mono> {
        self.table.poll_timeout(now)
    }

    /// The next frame that a receiver has sent back.
    pub fn poll_acknowledgement(&mut self) -> Option<Received> {
        self.table.inbox.pop()
    }

    /// What has become of the frames so far.
    #[must_use]
    pub const fn counts(&self) -> PushCounts {
        self.table.counts()
    }

    /// How long the frames that were sent have waited, in seconds.
    #[must_use]
    pub fn waited(&self) -> Histogram {
        self.table.waited.clone()
    }

    /// Delivers what waits for addresses that can be reached, for the linger time at the most, and closes all sockets.
    pub fn stop(mut self) -> PushCounts {
        self.drain();
        self.counts()
    }

    fn drain(&mut self) {
        let mut now = clock::now().mono;
        let end = now + self.table.limits.linger;
        self.table.give_up_dead(now);
        while !self.table.is_drained() && now < end {
            let deadline = self.poll_timeout(now).map_or(end, |at| at.min(end));
            let ready = self.table.poller.wait(deadline.since(now));
            now = clock::now().mono;
            self.table.turn(now, ready);
        }
        self.table.close_all(now);
    }
}

/// Readable while a socket has news or a host name is answered.
impl AsFd for Pusher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.table.poller.as_fd()
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.drain();
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

    fn config() -> PushConfig {
        let seconds = Duration::from_secs(60);
        PushConfig {
            keys: KeyPair::from_bytes([1; 32]),
            sockets_max: 2,
            queue_max: 100,
            queue_bytes_max: 100_000,
            connect_timeout: seconds,
            idle_timeout: seconds,
            linger: seconds,
            acknowledgements_max: 0,
            // Other addresses of a name, such as ::1, must not be taken.
            policy: AddressPolicy { allow: vec!["127.0.0.1/32".parse().unwrap()], own: vec![] },
        }
    }

    fn receiver() -> (zmq::Socket, Arc<PushAddress>) {
        let socket = zmq::Context::new().socket(zmq::DEALER).unwrap();
        socket.set_rcvhwm(0).unwrap();
        socket.set_rcvtimeo(60_000).unwrap();
        socket.bind("tcp://127.0.0.1:*").unwrap();
        let endpoint = socket.get_last_endpoint().unwrap().unwrap();
        let bound: SocketAddr = endpoint.strip_prefix("tcp://").unwrap().parse().unwrap();
        (socket, Arc::new(PushAddress { host: Host::Ip(bound.ip()), port: bound.port(), key: None }))
    }

    /// Connects, and sends what one turn takes.
    fn send_the_first(pusher: &mut Pusher, now: Mono) {
        while pusher.counts().sent == 0 {
            pusher.table.turn(now, pusher.table.poller.wait(Duration::from_secs(60)));
        }
    }

    #[test]
    fn frames_for_a_name_wait_until_it_is_resolved() {
        let (receiver, address) = receiver();
        let mut pusher = Pusher::start(config()).unwrap();
        // The parser writes a number for it; as a name it stands for any that resolves.
        let named = Arc::new(PushAddress { host: Host::Name("localhost".into()), port: address.port, key: None });
        for frame in ["first", "second"] {
            pusher.push(clock::now().mono, &named, frame.into());
        }
        assert_eq!(pusher.stop().sent, 2);
        assert_eq!(receiver.recv_string(0).unwrap().unwrap(), "first");
        assert_eq!(receiver.recv_string(0).unwrap().unwrap(), "second");
        assert_eq!(address.host, Host::Ip(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn more_frames_than_may_wait_can_be_pushed_in_one_turn() {
        let (receiver, address) = receiver();
        let mut pusher = Pusher::start(PushConfig { queue_max: 1000, ..config() }).unwrap();

        let now = clock::now().mono;
        pusher.push(now, &address, "first".into());
        pusher.flush(now);
        send_the_first(&mut pusher, now);
        for _ in 0..5000 {
            pusher.push(now, &address, "next".into());
        }
        let counts = pusher.stop();
        assert_eq!((counts.sent, counts.dropped_full), (5001, 0));
        assert!((0..5001).all(|_| receiver.recv_bytes(0).is_ok()));
    }

    /// Its first turn may end before all is written.
    #[test]
    fn a_receiver_that_took_long_to_connect_gets_what_waits_at_the_stop() {
        const FRAMES: u64 = 40;
        let (receiver, address) = receiver();
        let mut pusher = Pusher::start(PushConfig { queue_bytes_max: 100_000_000, ..config() }).unwrap();
        let now = clock::now().mono.before(pusher.table.limits.grace());
        for _ in 0..FRAMES {
            pusher.push(now, &address, vec![b'x'; 250_000]);
        }
        pusher.flush(now);
        send_the_first(&mut pusher, now);
        let reader = std::thread::spawn(move || (0..FRAMES).all(|_| receiver.recv_bytes(0).is_ok()));
        assert_eq!(pusher.stop().sent, FRAMES);
        assert!(reader.join().unwrap());
    }

    #[test]
    fn what_may_wait_goes_with_the_next_frame_or_when_it_is_due() {
        let (receiver, address) = receiver();
        let mut pusher = Pusher::start(config()).unwrap();

        let now = clock::now().mono;
        pusher.push(now, &address, "0".into());
        pusher.flush(now);
        send_the_first(&mut pusher, now);
        let by = now + Duration::from_millis(8);
        let sent_after = |pusher: &mut Pusher, now: Mono| {
            pusher.turn(now, false);
            pusher.counts().sent
        };
        pusher.push_by(now, by, &address, "1".into());
        assert_eq!(sent_after(&mut pusher, now), 1);
        assert_eq!(pusher.poll_timeout(now), Some(by));
        pusher.push(now, &address, "2".into());
        assert_eq!(sent_after(&mut pusher, now), 3);

        pusher.push_by(now, by, &address, "3".into());
        assert_eq!(sent_after(&mut pusher, now), 3);
        assert_eq!(sent_after(&mut pusher, by), 4);
        for text in ["0", "1", "2", "3"] {
            assert_eq!(receiver.recv_string(0).unwrap().unwrap(), text, "in order");
        }
    }
}
