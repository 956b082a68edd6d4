//! Many requests in flight at one controller, for a program that has a loop of its own.
//!
//! A request that the controller parks must be answered within [`PARK_MAX`](super::PARK_MAX), so that its silence shows that it is
//! gone. A lost connection is made again, and unanswered requests are repeated.

use std::os::fd::BorrowedFd;

use super::remedy::Remedy;
use super::{ClientError, PARK_MAX, SILENCE_MAX, resolve};
use api::config::Config;
use api::transport;
use api::wire::client::{Ask, ReplyError};
use base::Mono;
use proc::clock;
use zmtp::sockets::{Pipe, Piped};

/// The number of a request.
pub type RequestId = u32;

/// A message of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The answer to a request; [`Ask::decode`] reads it.
    Answer(RequestId, Vec<u8>),
    /// A broadcast.
    Broadcast(Vec<u8>),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Pipeline {
    pipe: Pipe,
    endpoint: String,
    remedy: Remedy,
    /// The longest time in which the controller answers something.
    patience: std::time::Duration,
    hears_broadcasts: bool,
    /// The moment of the last answer, or that of the first request after all others were answered.
    heard: Mono,
    /// The moment of the last new connection because of silence, if nothing was heard after it.
    redialled: Option<Mono>,
}

impl Pipeline {
    /// Prepares the configured connection. Broadcasts with this prefix arrive where their endpoint is known.
    ///
    /// # Errors
    /// As [`Client::secured`](super::Client::secured).
    pub fn secured(config: &Config, endpoint: &str, prefix: Option<&str>) -> Result<Self, ClientError> {
        let shown = resolve::resolve(endpoint, config.client.reply_timeout)?;
        Ok(Self {
            pipe: transport::pipe(config, endpoint, prefix)?,
            hears_broadcasts: prefix.is_some() && transport::broadcasts(config, endpoint).is_some(),
            endpoint: shown,
            remedy: Remedy::new(config, endpoint),
            patience: PARK_MAX + config.client.reply_timeout,
            heard: clock::now().mono,
            redialled: None,
        })
    }

    /// Whether broadcasts arrive: the address of those of another service is not known.
    #[must_use]
    pub const fn hears_broadcasts(&self) -> bool {
        self.hears_broadcasts
    }

    /// Sends a request, at the latest with the next wait.
    pub fn send<A>(&mut self, ask: &Ask<A>) -> RequestId {
        if self.pipe.unanswered() == 0 {
            self.heard = clock::now().mono;
        }
        self.pipe.send(ask.encode())
    }

    /// Waits until a message has arrived, one of `fds` is readable, or the deadline has passed; returns which of `fds` are readable,
    /// and the messages.
    ///
    /// # Errors
    /// When the controller is silent for too long or rejects the connection.
    pub fn wait(
        &mut self,
        until: Option<Mono>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Vec<bool>, Vec<Arrival>), ClientError> {
        let silent_at = (self.pipe.unanswered() > 0).then(|| self.redialled.unwrap_or(self.heard) + self.patience);
        let (ready, messages) = self.pipe.wait(until.into_iter().chain(silent_at).min(), fds);
        let mut arrivals = Vec::with_capacity(messages.len());
        for message in messages {
            arrivals.push(match message {
                Piped::Broadcast(frame) => Arrival::Broadcast(frame),
                Piped::Answer(number, mut frames) => {
                    (self.heard, self.redialled) = (clock::now().mono, None);
                    match (frames.pop(), frames.is_empty()) {
                        (Some(frame), true) => Arrival::Answer(number, frame),
                        _ => return Err(ReplyError::Malformed("the reply has more than one frame".to_owned()).into()),
                    }
                }
            });
        }
        if let Some(denial) = self.pipe.take_denial() {
            return Err(ClientError::Denied { endpoint: self.endpoint.clone(), denial });
        }
        self.check_silence(silent_at)?;
        Ok((ready, arrivals))
    }

    fn check_silence(&mut self, silent_at: Option<Mono>) -> Result<(), ClientError> {
        let now = clock::now().mono;
        let silence = now.since(self.heard);
        if silent_at.is_none_or(|at| now < at) || silence < self.patience {
            return Ok(());
        }
        // The patience may be the longer time; a request that was lost with a controller is asked again in any case.
        if silence >= SILENCE_MAX && self.redialled.is_some() {
            let (endpoint, remedy) = (self.endpoint.clone(), self.remedy.text());
            return Err(ClientError::NoController { endpoint, waited: silence, remedy });
        }
        self.redialled = Some(now);
        self.pipe.redial();
        Ok(())
    }
}
