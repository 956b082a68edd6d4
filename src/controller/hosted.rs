//! A master in the process of a controller, on a thread of its own: it asks the controller through this door as any client does, and
//! hears each change of the tasks of its job.
//!
//! ```text
//! master, a thread --> request --> HostedDoor --> loop of the controller --> agent
//!    ^                                 |
//!    +--------- answer, change --------+
//! ```
//!
//! The loop of the controller only passes bytes.

mod guest;

pub use guest::{Guest, Host, House, Ready, Stop};

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::door::{Call, Change, Door};
use base::{Caller, CallerPlace, Phase, TaskState};
use proc::background::Bell;
use zmtp::envelope::ReplyTo;
use zmtp::port::Unsendable;

/// All requests come from one connection, which stays.
const CONNECTION: u64 = 0;

/// A message of the loop of the controller to the thread of the master.
#[derive(Debug)]
pub enum FromController {
    /// The answer to the request with this number.
    Answer(u64, Vec<u8>),
    /// A task of the job of the master has changed.
    Change(Vec<u8>),
    /// A task has finished, or an agent has shown itself, so one may be free.
    Freed,
}

/// The thread's end of the door.
#[derive(Debug)]
pub struct ControllerLink {
    requests: Sender<(u64, Vec<u8>)>,
    /// Wakes the controller.
    controller: Arc<Bell>,
    /// Whether there are requests for which the bell has not rung.
    has_unflushed: Cell<bool>,
    /// The messages of the controller; disconnected once the thread is to end.
    pub messages: Receiver<FromController>,
    /// Wakes the thread.
    pub bell: Arc<Bell>,
    /// Whether the thread wants to hear when an agent may be free.
    pub wants_agents: Arc<AtomicBool>,
}

impl ControllerLink {
    /// Hands over a request with this number, which its answer will have. [`Self::flush`] sends it.
    pub fn ask(&self, number: u64, request: Vec<u8>) {
        // A controller that has ended answers nothing.
        let _ = self.requests.send((number, request));
        self.has_unflushed.set(true);
    }

    /// Wakes the controller for the requests since the last call, so that it gets all of them in one turn.
    pub fn flush(&self) {
        if self.has_unflushed.take() {
            self.controller.ring();
        }
    }
}

/// The controller's end of the door.
#[derive(Debug)]
pub struct HostedDoor {
    /// The job of all tasks of the master.
    job: &'static str,
    requests: Receiver<(u64, Vec<u8>)>,
    controller: Arc<Bell>,
    /// `None` once the thread has been asked to end.
    messages: Option<Sender<FromController>>,
    bell: Arc<Bell>,
    /// Whether there are messages for which the bell has not rung.
    has_unflushed: bool,
    wants_agents: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HostedDoor {
    /// A door for the tasks of `job`, and the other end of it, which [`Self::start`] gives to a thread.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new(job: &'static str) -> io::Result<(Self, ControllerLink)> {
        let (to_controller, requests) = mpsc::channel();
        let (messages, to_thread) = mpsc::channel();
        let (controller, bell) = (Arc::new(Bell::new()?), Arc::new(Bell::new()?));
        let wants_agents = Arc::new(AtomicBool::new(false));
        let link = ControllerLink {
            requests: to_controller,
            controller: Arc::clone(&controller),
            has_unflushed: Cell::new(false),
            messages: to_thread,
            bell: Arc::clone(&bell),
            wants_agents: Arc::clone(&wants_agents),
        };
        let (messages, has_unflushed, thread) = (Some(messages), false, None);
        Ok((Self { job, requests, controller, messages, bell, has_unflushed, wants_agents, thread }, link))
    }

    /// Starts the thread of the master, which ends when [`ControllerLink::messages`] is disconnected.
    ///
    /// # Errors
    /// When threads have run out.
    pub fn start(&mut self, master: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.thread = Some(std::thread::Builder::new().name(self.job.to_owned()).spawn(master)?);
        Ok(())
    }

    /// An agent may be free.
    fn tell_if_wanted(&mut self) {
        if self.wants_agents.load(Ordering::Relaxed) && self.wants_agents.swap(false, Ordering::Relaxed) {
            self.tell(FromController::Freed);
        }
    }

    fn tell(&mut self, message: FromController) {
        // A thread that has ended hears nothing.
        if let Some(sender) = &self.messages
            && sender.send(message).is_ok()
        {
            self.has_unflushed = true;
        }
    }
}

/// Whether a change matters to a master, which distinguishes three states of a task: it waits, has started, or has finished.
const fn concerns_a_master(state: &TaskState) -> bool {
    match state {
        TaskState::Waiting { .. } | TaskState::Preparing(_) | TaskState::Finished { .. } => true,
        // An earlier controller may have told of its preparation.
        TaskState::Running(run) => run.dispatched.is_none(),
        TaskState::Dispatched(_) | TaskState::OutOfContact { .. } | TaskState::Ended { .. } => false,
    }
}

impl Door for HostedDoor {
    fn bell(&self) -> Option<&Bell> {
        Some(&self.controller)
    }

    fn receive(&mut self) -> Option<Call> {
        let (number, body) = self.requests.try_recv().ok()?;
        // The commands of a master that the owner of the service has configured are the owner's.
        let caller = Caller::at(CallerPlace::Own);
        Some(Call { connection: CONNECTION, to: ReplyTo::of(number.to_be_bytes().to_vec()), caller, body: Ok(body) })
    }

    fn poll_closed(&mut self) -> Option<u64> {
        None
    }

    fn exempt(&mut self, _: &ReplyTo) {}

    fn see_agent(&mut self) {
        self.tell_if_wanted();
    }

    fn send(&mut self, to: ReplyTo, body: Vec<u8>, _: Duration) -> Result<(), Unsendable> {
        let number = to.peer().try_into().map(u64::from_be_bytes).map_err(|_| Unsendable::NoPeer)?;
        self.tell(FromController::Answer(number, body));
        Ok(())
    }

    fn publish(&mut self, _: &[u8]) {}

    fn show(&mut self, change: &Change<'_>) {
        let is_of_job = || change.record.membership().is_some_and(|member| member.name.as_str() == self.job);
        if concerns_a_master(&change.record.state) && is_of_job() {
            self.tell(FromController::Change(change.message().to_vec()));
        }
        if change.record.phase() == Phase::Finished {
            self.tell_if_wanted();
        }
    }

    fn flush(&mut self) {
        if std::mem::take(&mut self.has_unflushed) {
            self.bell.ring();
        }
    }

    fn close(mut self: Box<Self>) {
        self.messages = None;
        self.bell.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the job {} has panicked", self.job);
        }
    }
}
