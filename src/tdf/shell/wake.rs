//! A second connection, with the messages of the other components. It makes its listeners fast, not correct: their rounds and polls
//! make up for a lost message.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::error::RedisError;
use super::link::Address;
use crate::wire::words;
use crate::wire::words::channel;
use api::config::RedisSection;
use proc::background::Bell;

/// A connection without a message for this long is made again: it may have been cut silently.
const QUIET_MAX: Duration = Duration::from_secs(10);

/// Between two attempts to reach a Redis that is away.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);

/// Messages that are kept for a busy listener. Its next round finds the tasks of the messages that are dropped beyond this.
const MESSAGES_MAX: usize = 10_000;

/// The channels to listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A task can be claimed.
    Open,
    /// An llts worker has reported.
    Executed,
    /// A task is for the manager.
    Ended,
}

impl Channel {
    const ALL: [Self; 3] = [Self::Open, Self::Executed, Self::Ended];

    const fn name(self) -> &'static str {
        match self {
            Self::Open => channel::OPEN,
            Self::Executed => channel::EXECUTED,
            Self::Ended => channel::ENDED,
        }
    }
}

/// The received messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// On a channel, with its payload.
    Received(Channel, Vec<u8>),
    /// The connection is new: earlier messages may be lost.
    Connected,
}

/// Listens until it is dropped.
pub struct Wake {
    bell: Arc<Bell>,
    messages: Receiver<Message>,
    stopping: Arc<Stop>,
}

#[derive(Default)]
struct Stop {
    is_set: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Stop {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits for this time, or until a stop.
    fn pause(&self, time: Duration) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.changed.wait_timeout_while(guard, time, |()| !self.is_set());
    }
}

impl Wake {
    /// Begins to listen. During an outage of Redis, the connection is tried again.
    ///
    /// # Errors
    /// When the section cannot be used, or descriptors or threads have run out.
    pub fn start(redis: &RedisSection, namespace: &str, channels: &[Channel]) -> Result<Self, WakeError> {
        let address = Address::new(redis)?;
        let bell = Arc::new(Bell::new()?);
        let stopping = Arc::new(Stop::default());
        let (sender, messages) = mpsc::sync_channel(MESSAGES_MAX);
        let prefix = words::prefix(namespace);
        let names = channels.iter().map(|channel| format!("{prefix}{}", channel.name())).collect();
        let listener =
            Listener { address, prefix, names, sender, bell: Arc::clone(&bell), stop: Arc::clone(&stopping) };
        std::thread::Builder::new().name("tdf-wake".to_owned()).spawn(move || listener.run())?;
        Ok(Self { bell, messages, stopping })
    }

    /// The messages since the last call, at most [`MESSAGES_MAX`] messages.
    pub fn take(&mut self) -> Vec<Message> {
        self.bell.take();
        self.messages.try_iter().take(MESSAGES_MAX).collect()
    }
}

/// Why the messages cannot be received.
#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    /// The section cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Descriptors or threads have run out.
    #[error("cannot listen for messages of Redis: {0}")]
    System(#[from] io::Error),
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.stopping.is_set.store(true, Ordering::Release);
        let _guard = self.stopping.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopping.changed.notify_all();
    }
}

struct Listener {
    address: Address,
    prefix: String,
    names: Vec<String>,
    sender: SyncSender<Message>,
    bell: Arc<Bell>,
    stop: Arc<Stop>,
}

impl Listener {
    /// Ends within [`QUIET_MAX`] after a stop.
    fn run(&self) {
        while !self.stop.is_set() {
            if let Err(error) = self.listen() {
                log::debug!("{error}");
                self.stop.pause(RECONNECT_PAUSE);
            }
        }
    }

    /// Returns after a long silence.
    fn listen(&self) -> Result<(), RedisError> {
        let mut connection = self.address.connect()?;
        let failed = |error: redis::RedisError| super::link::failure(self.address.shown(), "subscribe", &error);
        let mut subscription = connection.as_pubsub();
        subscription.subscribe(&self.names).map_err(failed)?;
        subscription.set_read_timeout(Some(QUIET_MAX)).map_err(failed)?;
        self.send(Message::Connected);
        while !self.stop.is_set() {
            let message = match subscription.get_message() {
                Ok(message) => message,
                Err(error) if error.is_timeout() => return Ok(()),
                Err(error) => return Err(failed(error)),
            };
            let name = message.get_channel_name().strip_prefix(&self.prefix).unwrap_or_default();
            if let Some(channel) = Channel::ALL.into_iter().find(|channel| channel.name() == name) {
                self.send(Message::Received(channel, message.get_payload_bytes().to_vec()));
            }
        }
        Ok(())
    }

    fn send(&self, message: Message) {
        // The receiver may be gone; and a full queue has enough messages to wake it.
        let _ = self.sender.try_send(message);
        self.bell.ring();
    }
}
