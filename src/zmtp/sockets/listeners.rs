//! The listeners of an endpoint, and the rules of admission.

use super::peer::PeerId;
use super::stream::Listener;
use crate::curve_keys::KeyFolder;
use crate::endpoint::{Admission, ConnectionLimits, Refusals};
use crate::engine::{Peer as OtherSide, PublicKey, Settings};
use base::{CallerKey, Loopback, Mono};

/// Counters of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Accepted connections.
    pub accepted: u64,
    /// Refused connections: no place, or no descriptor.
    pub refused: u64,
    /// Connections that we have closed for a reason.
    pub disconnected: u64,
}

#[derive(Debug)]
pub(super) struct Accepting {
    pub(super) listeners: Vec<Listening>,
    pub(super) admission: Admission<PeerId>,
    pub(super) refusals: Refusals,
    /// The users of this machine that are served without a key.
    pub(super) loopback: Loopback,
    /// When to accept again after a failure.
    pub(super) resumes_at: Option<Mono>,
    /// The keys that listeners with CURVE accept.
    pub(super) keys: Option<KeyFolder>,
    pub(super) counts: Counts,
}

#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: Listener,
    pub(super) settings: Settings,
    /// Whether connections may be waiting.
    pub(super) has_callers: bool,
}

impl Accepting {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            listeners: Vec::new(),
            admission: Admission::new(limits),
            refusals: Refusals::default(),
            loopback: Loopback::default(),
            resumes_at: None,
            keys: None,
            counts: Counts::default(),
        }
    }

    pub(super) const fn listeners(&self) -> usize {
        self.listeners.len()
    }

    pub(super) fn add(&mut self, listener: Listener, settings: Settings) {
        self.listeners.push(Listening { listener, settings, has_callers: true });
    }

    pub(super) fn called(&mut self, tag: usize) {
        if let Some(listening) = self.listeners.get_mut(tag) {
            listening.has_callers = true;
        }
    }

    pub(super) fn has_callers(&self, now: Mono) -> bool {
        self.resumes_at.is_none_or(|at| at <= now) && self.listeners.iter().any(|listening| listening.has_callers)
    }

    /// The next deadline of the listeners and keys.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        let look_at = self.keys.as_ref().map(KeyFolder::look_at);
        self.resumes_at.into_iter().chain(look_at).chain(self.refusals.poll_timeout()).min()
    }

    pub(super) fn keys_changed(&mut self) {
        if let Some(keys) = &mut self.keys {
            keys.note_news();
        }
    }

    /// The rights of the key that a peer has proved.
    pub(super) fn standing_of(&self, key: Option<PublicKey>) -> CallerKey {
        let Some(key) = key else { return CallerKey::None };
        let may_command = self.keys.as_ref().is_some_and(|folder| folder.keys().commanders.contains(&key));
        if may_command { CallerKey::Commands } else { CallerKey::Authorised }
    }

    /// Whether the key of a peer is currently authorised.
    pub(super) fn is_welcome(&self, other: &OtherSide) -> bool {
        let keys = self.keys.as_ref().map(KeyFolder::keys);
        keys.zip(other.key).is_none_or(|(keys, key)| keys.authorised.contains(&key))
    }
}
