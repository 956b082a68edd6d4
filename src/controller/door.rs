//! The doors: they bring requests to the controller and take replies, broadcasts and changes of tasks from it.
//!
//! A new door is an implementation of [`Door`] in a [guest](crate::hosted::Guest), and one line where the controller is put
//! together. The [`Sequencer`](engine::Sequencer) does not know doors: it returns each reply with the
//! return address of the request.

mod zmtp;

use std::cell::OnceCell;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

pub use zmtp::ZmtpDoor;

use ::zmtp::envelope::ReplyTo;
use ::zmtp::port::{Suspension, Unsendable};
use api::wire::page::PageBytes;
use api::wire::reply::Reply;
use api::wire::{Refusal, publish, reply, task};
use base::{AllowCommands, Caller, Mono, Right, TaskId, TaskRecord};
use engine::ConnectionId;
use proc::background::Bell;

/// One request, as received by a door.
#[derive(Debug)]
pub struct Call {
    /// Number of its connection, which the door never reuses.
    pub connection: u64,
    /// Return address of its reply, in the door's own terms.
    pub to: ReplyTo,
    /// Its sender.
    pub caller: Caller,
    /// Its JSON object, or why it is not read.
    pub body: Result<Vec<u8>, Refusal>,
}

/// A change of a task, for subscribers.
#[derive(Debug)]
pub struct Change<'a> {
    /// 1 for the first change since the start of the controller, increasing by one.
    pub number: u64,
    /// The task after the change.
    pub record: &'a TaskRecord,
    message: OnceCell<Vec<u8>>,
}

impl<'a> Change<'a> {
    /// The change with this number.
    #[must_use]
    pub const fn new(number: u64, record: &'a TaskRecord) -> Self {
        Self { number, record, message: OnceCell::new() }
    }

    /// The TASK/STATUS message for it, as it is pushed.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        self.message.get_or_init(|| publish::encode_status(self.record))
    }

    /// The message for receivers that may not see commands, if it differs.
    #[must_use]
    pub fn hidden_message(&self) -> Option<Vec<u8>> {
        task::has_command(self.record).then(|| {
            let mut record = self.record.clone();
            task::hide_command(&mut record);
            publish::encode_status(&record)
        })
    }

    /// The same as [`Self::message`], by value.
    #[must_use]
    pub fn into_message(self) -> Vec<u8> {
        self.message.into_inner().unwrap_or_else(|| publish::encode_status(self.record))
    }
}

/// A way into the controller. No method waits for a peer.
pub trait Door {
    /// Rings when there is something to receive; the door is asked only then, until nothing is left. `None` for the door in which
    /// the loop itself waits.
    fn bell(&self) -> Option<&Bell>;

    /// The next request, if there is one.
    fn receive(&mut self) -> Option<Call>;

    /// The next closed connection: it sends nothing more and takes no reply. Its requests have all been received. A door
    /// that does not notice closings always returns `None`.
    fn poll_closed(&mut self) -> Option<u64>;

    /// The request with this return address came from an agent, so its connection never gives way to a newcomer.
    fn exempt(&mut self, to: &ReplyTo);

    /// An agent has shown that it is there: it may be a new one.
    fn see_agent(&mut self) {}

    /// Sends a reply. It may be delayed for `delay_max`, to share a write with another message to the same peer.
    ///
    /// # Errors
    /// When the peer has gone or does not read.
    fn send(&mut self, to: ReplyTo, body: Vec<u8>, delay_max: Duration) -> Result<(), Unsendable>;

    /// Sends a broadcast to agents and subscribers that read; it may be lost.
    fn publish(&mut self, message: &[u8]);

    /// Shows a change to subscribers.
    fn show(&mut self, change: &Change<'_>);

    /// Whether there is a peer that may want something, besides agents. A door that cannot tell has none.
    fn has_guests(&self) -> bool {
        false
    }

    /// Hands all sent messages over to the kernel.
    fn flush(&mut self);

    /// Delivers all sent messages, within about a second.
    fn close(self: Box<Self>);

    /// Like [`Self::close`], but another program takes the place of this one. Returns the listener, which stays open for that
    /// program.
    fn suspend(self: Box<Self>) -> Option<OwnedFd> {
        self.close();
        None
    }
}

/// The return address of a reply.
#[derive(Clone, Debug)]
pub struct Address {
    door: u8,
    to: ReplyTo,
    /// The sender of the request.
    pub caller: Caller,
    /// Whether it may see commands: [`Right::Commands`].
    pub sees_commands: bool,
}

impl Address {
    /// The address of a request that no door has received.
    #[cfg(test)]
    pub(crate) fn of_no_door() -> Self {
        Self { door: 0, to: ReplyTo::of(Vec::new()), caller: Caller::UNKNOWN, sees_commands: true }
    }

    /// Encodes a reply for this address. `has_command` says whether a task has a command, as far as that is known.
    #[must_use]
    pub fn encode(
        &self,
        kind: &str,
        reply: &mut Reply,
        page_bytes: PageBytes,
        has_command: impl FnOnce(TaskId) -> Option<bool>,
    ) -> Vec<u8> {
        if !self.sees_commands {
            reply.hide_commands(has_command);
        }
        reply::encode(kind, reply, page_bytes)
    }
}

/// All doors of a controller.
pub struct Doors {
    /// The door in which the loop waits.
    zmtp: ZmtpDoor,
    others: Vec<Other>,
    allow: AllowCommands,
}

/// A door besides that of the ports.
struct Other {
    door: Box<dyn Door>,
    /// Whether its bell has rung, and something may be left to receive.
    has_rung: bool,
}

/// A request, with the engine's names for its connection and address.
#[derive(Debug)]
pub struct Request {
    /// The connection, unique among all doors.
    pub connection: ConnectionId,
    /// Return address of its reply.
    pub to: Address,
    /// Its JSON object, or why it is not read.
    pub body: Result<Vec<u8>, Refusal>,
}

impl Doors {
    /// The doors of a controller: the door of the ports, and all others.
    #[must_use]
    pub fn new(zmtp: ZmtpDoor, others: Vec<Box<dyn Door>>, allow: AllowCommands) -> Self {
        let others = others.into_iter().map(|door| Other { door, has_rung: false }).collect();
        Self { zmtp, others, allow }
    }

    /// Waits until a door has something to receive, one of `fds` is readable, or the deadline has passed; returns for each
    /// of `fds` whether it is readable.
    pub fn wait<const N: usize>(&mut self, now: Mono, deadline: Option<Mono>, fds: [BorrowedFd<'_>; N]) -> [bool; N] {
        let bells = self.others.iter().filter_map(|other| other.door.bell());
        let fds: Vec<_> = fds.into_iter().chain(bells.map(Bell::as_fd)).collect();
        // A turn has taken as many requests as it may, and left others.
        let has_left = self.others.iter().any(|other| other.has_rung);
        let ready = self.zmtp.wait(now, if has_left { Some(now) } else { deadline }, &fds);
        let mut rung = ready.iter().skip(N);
        for other in &mut self.others {
            let Some(bell) = other.door.bell() else { continue };
            if rung.next() == Some(&true) {
                other.has_rung = bell.take();
            }
        }
        std::array::from_fn(|index| ready.get(index).copied().unwrap_or_default())
    }

    /// As [`Self::wait`], by a controller that takes no requests any more.
    pub fn wait_unheard(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) {
        self.zmtp.wait(now, deadline, fds);
    }

    /// Number of open connections of the ports for requests.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.zmtp.connections()
    }

    fn each(&mut self) -> impl Iterator<Item = (u8, &mut (dyn Door + 'static))> {
        let zmtp: &mut (dyn Door + 'static) = &mut self.zmtp;
        (0..).zip(std::iter::once(zmtp).chain(self.others.iter_mut().map(|other| &mut *other.door)))
    }

    fn door(&mut self, number: u8) -> &mut dyn Door {
        match usize::from(number).checked_sub(1) {
            None => &mut self.zmtp,
            Some(index) => &mut *self.others[index].door,
        }
    }

    /// The numbers of the doors.
    pub fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        (0..=self.others.len()).map_while(|number| u8::try_from(number).ok())
    }

    /// The next request at one door, if there is one.
    pub fn receive(&mut self, door: u8) -> Option<Request> {
        let Call { connection, to, caller, body } = self.call(door)?;
        let connection = ConnectionId { door, number: connection };
        let sees_commands = self.allow.admits(caller, Right::Commands);
        Some(Request { connection, to: Address { door, to, caller, sees_commands }, body })
    }

    fn call(&mut self, door: u8) -> Option<Call> {
        let Some(index) = usize::from(door).checked_sub(1) else { return self.zmtp.receive() };
        let Other { door, has_rung } = &mut self.others[index];
        let call = has_rung.then(|| door.receive()).flatten();
        *has_rung = call.is_some();
        call
    }

    /// The next closed connection.
    pub fn poll_closed(&mut self) -> Option<ConnectionId> {
        self.each().find_map(|(door, at)| Some(ConnectionId { door, number: at.poll_closed()? }))
    }

    /// See [`Door::exempt`].
    pub fn exempt(&mut self, address: &Address) {
        self.door(address.door).exempt(&address.to);
    }

    /// See [`Door::see_agent`]; for each door.
    pub fn see_agent(&mut self) {
        self.others.iter_mut().for_each(|other| other.door.see_agent());
    }

    /// See [`Door::send`].
    ///
    /// # Errors
    /// See [`Door::send`].
    pub fn send(&mut self, address: Address, body: Vec<u8>, delay_max: Duration) -> Result<(), Unsendable> {
        self.door(address.door).send(address.to, body, delay_max)
    }

    /// See [`Door::publish`]; for each door.
    pub fn publish(&mut self, message: &[u8]) {
        self.each().for_each(|(_, door)| door.publish(message));
    }

    /// See [`Door::show`]; for each door.
    pub fn show(&mut self, change: &Change<'_>) {
        self.each().for_each(|(_, door)| door.show(change));
    }

    /// See [`Door::has_guests`]; at any door.
    #[must_use]
    pub fn have_guests(&self) -> bool {
        self.zmtp.has_guests() || self.others.iter().any(|other| other.door.has_guests())
    }

    /// See [`Door::flush`]; for each door.
    pub fn flush(&mut self) {
        self.each().for_each(|(_, door)| door.flush());
    }

    /// Ends without closing the connections of clients of the ports; see
    /// [`Ports::suspend`](::zmtp::sockets::Ports::suspend).
    #[must_use]
    pub fn suspend(self) -> Suspension {
        // Only the door of HTTP has a listener.
        let http = self.others.into_iter().filter_map(|other| other.door.suspend()).next();
        let mut suspension = self.zmtp.suspend();
        if let Some(http) = http {
            suspension.ports.http = Some(http.as_raw_fd());
            suspension.kept.push(http);
        }
        suspension
    }

    /// See [`Door::close`]; for each door.
    pub fn close(self) {
        self.others.into_iter().for_each(|other| other.door.close());
        Box::new(self.zmtp).close();
    }
}
