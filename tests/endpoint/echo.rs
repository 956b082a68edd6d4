//! A thread that has the two ports and answers every message with itself, but for [`WAIT`].

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use llts::shell::clock;
use llts::shell::endpoint::{OwnPorts, PortSettings};
use llts::shell::transport::Ports;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::loopback::own_ip;
use crate::ports;

/// Longer than any condition takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const PATIENCE_MILLIS: i32 = 60_000;

/// What the messages that are made on demand begin with.
pub(crate) const WATCHABLE: &str = "watch";

/// What gets no answer, as if it was parked.
pub(crate) const WAIT: &[u8] = b"wait";

/// What only an agent says.
pub(crate) const AGENT: &[u8] = b"agent";

pub(crate) fn settings() -> PortSettings {
    ports::settings(PATIENCE)
}

enum Order {
    Publish(Vec<u8>),
    /// Says whether somebody watches.
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
        let ports = OwnPorts::bind(requests, broadcasts, WATCHABLE.to_owned(), settings).unwrap();
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap());
        let (sender, orders) = mpsc::channel();
        let (requests, broadcasts) = (ports.requests().to_owned(), ports.broadcasts().to_owned());
        let woken = Arc::clone(&wake);
        let thread = std::thread::spawn(move || serve(Box::new(ports), &orders, &woken));
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

fn serve(mut ports: Box<dyn Ports>, orders: &mpsc::Receiver<Order>, wake: &EventFd) {
    loop {
        let ready = ports.wait(clock::now().mono, None, &[wake.as_fd()]);
        if ready[0] {
            wake.read().unwrap();
        }
        for _ in 0..256 {
            let Some(frames) = ports.receive() else { break };
            match frames.last().map(Vec::as_slice) {
                Some(WAIT) => continue,
                Some(AGENT) => ports.keep(&frames[0]),
                _ => {}
            }
            let _ = ports.send(frames, Duration::ZERO);
        }
        loop {
            match orders.try_recv() {
                Ok(Order::Publish(frame)) => ports.publish(frame),
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

/// Asks until it is so.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = clock::now().mono + PATIENCE;
    while !condition() {
        assert!(clock::now().mono < end, "it does not come about: {what}");
        std::thread::yield_now();
    }
}
