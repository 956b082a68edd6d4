//! The socket of libzmq: what it is told, and what its answers mean.
//!
//! The socket only takes frames for a completed connection (`ZMQ_IMMEDIATE`), so "writable" means "connected, and the
//! peer reads". "Not writable" has three meanings, which libzmq does not tell apart; [`Flow`] does.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use super::{Flow, LOOKS_MAX, Outcome, RECEIVE_BYTES_MAX, Served, WireTimes};
use crate::shell::push::inbox::Inbox;
use crate::shell::push::pace::Pace;
use crate::shell::push::queue::FrameQueue;
use crate::types::Mono;
use crate::types::{PushAddress, endpoint};

/// Frames that one look at the socket sends.
const BATCH: usize = 256;

/// Frames inside libzmq at the most. Our own queue stands before it, and a lost connection loses what is inside.
const SEND_HWM: i32 = 100;

/// libzmq learns of what the peer has read in steps of half the mark: one that became writable takes this many frames.
const ROOM_AFTER_WRITABLE: usize = 50;

/// Frames of a peer that wait inside libzmq.
const RECEIVE_HWM: i32 = 8;

/// First and longest pause between two attempts to connect.
const RECONNECT: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// How long the kernel waits before it asks a silent peer whether it is still there, and between further questions.
const KEEPALIVE_IDLE_SECONDS: i32 = 30;
const KEEPALIVE_INTERVAL_SECONDS: i32 = 10;
const KEEPALIVE_COUNT: i32 = 3;

/// One open socket.
pub(in crate::shell::push) struct ZmqWire {
    socket: zmq::Socket,
    descriptor: RawFd,
    flow: Flow,
    /// A frame was sent after the last look: if the socket is not writable then, that frame filled it.
    sent_since_look: bool,
    pace: Pace,
}

impl ZmqWire {
    /// Opens a socket and starts to connect. It fails when descriptors or sockets have run out.
    pub(in crate::shell::push) fn open(
        context: &zmq::Context,
        (ip, port): (IpAddr, u16),
        times: WireTimes,
        now: Mono,
    ) -> zmq::Result<Self> {
        let socket = context.socket(zmq::DEALER)?;
        socket.set_linger(milliseconds(times.linger))?;
        socket.set_handshake_ivl(milliseconds(times.handshake))?;
        socket.set_immediate(true)?;
        socket.set_ipv6(ip.is_ipv6())?;
        socket.set_sndhwm(SEND_HWM)?;
        socket.set_rcvhwm(RECEIVE_HWM)?;
        socket.set_maxmsgsize(i64::try_from(RECEIVE_BYTES_MAX).unwrap_or(i64::MAX))?;
        socket.set_reconnect_ivl(milliseconds(RECONNECT))?;
        socket.set_reconnect_ivl_max(milliseconds(RECONNECT_MAX))?;
        socket.set_tcp_keepalive(1)?;
        socket.set_tcp_keepalive_idle(KEEPALIVE_IDLE_SECONDS)?;
        socket.set_tcp_keepalive_intvl(KEEPALIVE_INTERVAL_SECONDS)?;
        socket.set_tcp_keepalive_cnt(KEEPALIVE_COUNT)?;
        let descriptor = socket.get_fd()?;
        socket.connect(&endpoint(ip, port))?;
        let flow = Flow::Connecting { since: now };
        Ok(Self { socket, descriptor, flow, sent_since_look: false, pace: Pace::default() })
    }

    /// What to watch for readability.
    pub(in crate::shell::push) const fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    /// What is known of the connection.
    pub(in crate::shell::push) const fn flow(&self) -> Flow {
        self.flow
    }

    /// When reading goes on, if it pauses.
    pub(in crate::shell::push) fn paused_until(&self) -> Option<Mono> {
        self.pace.paused_until()
    }

    /// Lets the socket deliver for another time than the configured one when it is closed.
    pub(in crate::shell::push) fn set_linger(&self, linger: Duration) {
        // It fails for a bad value or a closed socket only.
        let _ = self.socket.set_linger(milliseconds(linger));
    }

    /// Sends what waits and reads what came. `has_news` says that the descriptor was ready, not that a frame was pushed.
    ///
    /// The descriptor only tells of news; sending and receiving swallow news. So the events are looked at until nothing
    /// moves any more.
    pub(in crate::shell::push) fn serve(
        &mut self,
        (queue, inbox): (&mut FrameQueue, &mut Inbox),
        peer: &Arc<PushAddress>,
        now: Mono,
        has_news: bool,
    ) -> Served {
        let mut served = Served { outcome: Outcome::More, sent: 0, received: 0, bytes: 0 };
        self.pace.tick(now);
        for look in 0..LOOKS_MAX {
            let Ok(events) = self.socket.get_events() else {
                served.outcome = Outcome::Lost;
                return served;
            };
            let (readable, writable) = (events.contains(zmq::POLLIN), events.contains(zmq::POLLOUT));
            let received = if readable { self.read(inbox, peer, &mut served) } else { 0 };
            if writable {
                self.write(queue, &mut served);
            }
            // A frame that is left although there was room was refused because of news that came in between.
            let may_move = writable && (self.sent_since_look || !queue.is_empty());
            if received == 0 && !may_move {
                let quiet_wake = has_news && look == 0 && !readable;
                served.outcome = if writable { Outcome::Settled } else { self.not_writable(now, quiet_wake) };
                return served;
            }
        }
        served
    }

    /// Tells the three meanings apart. A connection that is lost in the very moment of a send may pass for a full one; then
    /// libzmq connects again by itself, or the frames wait for the longer of the two time limits.
    fn not_writable(&mut self, now: Mono, quiet_wake: bool) -> Outcome {
        let filled = std::mem::take(&mut self.sent_since_look);
        match self.flow {
            Flow::Connecting { .. } => Outcome::Settled,
            Flow::Up { sent } if filled && sent >= ROOM_AFTER_WRITABLE => {
                self.flow = Flow::Full { since: now };
                Outcome::Settled
            }
            Flow::Up { .. } => Outcome::Lost,
            // News that are neither room nor a frame: the connection has been taken down.
            Flow::Full { .. } if quiet_wake => Outcome::Lost,
            Flow::Full { .. } => Outcome::Settled,
        }
    }

    fn write(&mut self, queue: &mut FrameQueue, served: &mut Served) {
        let before = match self.flow {
            Flow::Up { sent } => sent,
            Flow::Connecting { .. } | Flow::Full { .. } => 0,
        };
        let mut sent = 0;
        while sent < BATCH
            && let Some(frame) = queue.front()
            && self.socket.send(frame, zmq::DONTWAIT).is_ok()
        {
            served.bytes += frame.len();
            queue.pop();
            sent += 1;
        }
        served.sent += sent;
        self.flow = Flow::Up { sent: before.saturating_add(sent) };
        self.sent_since_look = sent > 0;
    }

    fn read(&mut self, inbox: &mut Inbox, peer: &Arc<PushAddress>, served: &mut Served) -> usize {
        let mut message = zmq::Message::new();
        let mut received = 0;
        while received < self.pace.left() && self.socket.recv(&mut message, zmq::DONTWAIT).is_ok() {
            inbox.take(peer, &message);
            served.bytes += message.len();
            received += 1;
        }
        served.received += received;
        self.pace.spend(received);
        received
    }
}

fn milliseconds(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
