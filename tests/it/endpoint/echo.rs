//! A thread that has the two ports and answers every message with itself, but for [`WAIT`].

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use api::config::Config;
use api::transport;
use nix::sys::eventfd::{EfdFlags, EventFd};
use proc::clock;
use zmtp::sockets::{PortSettings, Ports};

use crate::endpoint::ports;
use testkit::own_ip;

/// Longer than any condition takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const PATIENCE_MILLIS: i32 = 60_000;

/// The prefix of the messages that are made on demand.
pub(crate) const WATCHABLE: &str = "watch";

/// A request that gets no answer, as if it was parked.
pub(crate) const WAIT: &[u8] = b"wait";

/// A message that only an agent sends.
pub(crate) const AGENT: &[u8] = b"agent";

pub(crate) fn settings() -> PortSettings {
    ports::settings(PATIENCE)
}

/// A configuration whose ports for requests and broadcasts are at this address, with the generous limits of [`settings`].
pub(crate) fn configured(ip: Ipv4Addr, [requests, broadcasts]: [u16; 2]) -> Config {
    let file = format!(
        "CONTROLLER_IP = \"{ip}\"\nCONTROLLER_IPC_FILE = \"\"\nCONTROLLER_REP_PORT = {requests}\n\
         CONTROLLER_PUB_PORT = {broadcasts}\nHANDSHAKE_TIMEOUT = {PATIENCE_MILLIS}\nSEND_TIMEOUT = {PATIENCE_MILLIS}\n\
         PING_INTERVAL = 0\nSEND_QUEUE_MAX = 100000\nAGENT_RECONNECT_INTERVAL_MAX = 100\n"
    );
    Config::from_parts(Some((Path::new("test.toml"), &file)), []).unwrap()
}

enum Order {
    Publish(Vec<u8>),
    /// Reports whether there is a subscriber.
    Watched(Sender<bool>),
}

/// Ends when it is dropped.
pub(crate) struct Echo {
    pub(crate) requests: String,
    pub(crate) broadcasts: String,
    orders: Option<Sender<Order>>,
    wake: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    pub(crate) fn start(settings: &PortSettings) -> Self {
        let free = format!("tcp://{}:0", own_ip());
        Self::start_at(&free, &free, settings)
    }

    pub(crate) fn start_at(requests: &str, broadcasts: &str, settings: &PortSettings) -> Self {
        let ports = Ports::bind(requests, broadcasts, WATCHABLE.to_owned(), settings).unwrap();
        Self::serving(move || ports)
    }

    /// With the ports as a controller binds them; 0 is a free port.
    pub(crate) fn bound(ports: [u16; 2]) -> Self {
        let config = configured(own_ip(), ports);
        Self::serving(move || {
            transport::bind(&config, WATCHABLE.to_owned(), 1024, zmtp::port::SuspendedPorts::default()).unwrap()
        })
    }

    /// Ends, and begins again on the same ports.
    pub(crate) fn restarted(self) -> Self {
        let ports = self.ports();
        drop(self);
        Self::bound(ports)
    }

    pub(crate) fn ports(&self) -> [u16; 2] {
        [&self.requests, &self.broadcasts].map(|endpoint| endpoint.rsplit_once(':').unwrap().1.parse().unwrap())
    }

    fn serving(bind: impl FnOnce() -> Ports + Send + 'static) -> Self {
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap());
        let (sender, orders) = mpsc::channel();
        let (announce, announced) = mpsc::channel();
        let woken = Arc::clone(&wake);
        let thread = std::thread::spawn(move || {
            let ports = bind();
            announce.send((ports.requests().to_owned(), ports.broadcasts().to_owned())).unwrap();
            serve(ports, &orders, &woken);
        });
        let (requests, broadcasts) = announced.recv_timeout(PATIENCE).expect("the ports are bound");
        Self { requests, broadcasts, orders: Some(sender), wake, thread: Some(thread) }
    }

    pub(crate) fn publish(&self, frame: &[u8]) {
        self.order(Order::Publish(frame.to_vec()));
    }

    pub(crate) fn is_watched(&self) -> bool {
        let (sender, answer) = mpsc::channel();
        self.order(Order::Watched(sender));
        answer.recv_timeout(PATIENCE).unwrap()
    }

    fn order(&self, order: Order) {
        self.orders.as_ref().unwrap().send(order).unwrap();
        self.wake.write(1).unwrap();
    }

    /// The port of the requests as a plain address.
    pub(crate) fn address(&self) -> &str {
        self.requests.strip_prefix("tcp://").unwrap()
    }
}

fn serve(mut ports: Ports, orders: &mpsc::Receiver<Order>, wake: &EventFd) {
    loop {
        let ready = ports.wait(clock::now().mono, None, &[wake.as_fd()]);
        if ready[0] {
            wake.read().unwrap();
        }
        for _ in 0..256 {
            let Some(frames) = ports.receive() else { break };
            match frames.last().map(Vec::as_slice) {
                Some(WAIT) => continue,
                Some(AGENT) => ports.exempt(&frames[0]),
                _ => {}
            }
            let _ = ports.send(&frames, Duration::ZERO);
        }
        loop {
            match orders.try_recv() {
                Ok(Order::Publish(frame)) => ports.publish(&frame),
                Ok(Order::Watched(answer)) => answer.send(ports.is_watched()).unwrap(),
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => return ports.close(),
            }
        }
        ports.flush();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.orders = None;
        self.wake.write(1).unwrap();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}
