//! The connection to the server, and the search for a lost server.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Away | its timer | Connecting |
//! | Connecting | connected; unreachable | Joining; Away, or the end of patience |
//! | Joining | WELCOME; closed, no answer, or a passing refusal; REFUSED | Joined; as above; the end |
//! | Joined | closed | Away, without an end: the server has tasks of this worker |

use std::time::Duration;

use super::{Effect, End, Timer, Worker};
use crate::wire::{FromWorker, Name};
use base::{Mono, Now};

/// The pause after the first failed attempt; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Time limit for the answer to HELLO.
const JOIN_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) enum Link {
    Away(Search),
    Connecting(Search),
    Joining(Search),
    /// Joined, with this time between two signs of life; and whether CLAIM was sent.
    Joined {
        beat: Duration,
        has_claimed: bool,
    },
    Ended,
}

/// A search for the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    since: Mono,
    /// Pause after the next failure.
    pause: Duration,
    /// Whether there has been a server.
    is_known: bool,
}

impl Link {
    pub(super) const fn new(now: Now) -> Self {
        Self::Away(Search { since: now.mono, pause: FIRST_PAUSE, is_known: false })
    }

    pub(super) const fn is_joined(&self) -> bool {
        matches!(self, Self::Joined { .. })
    }

    #[cfg(test)]
    pub(super) const fn is_connecting(&self) -> bool {
        matches!(self, Self::Connecting(_))
    }
}

impl Worker {
    pub(super) fn connect(&mut self) {
        if let Link::Away(search) = self.link {
            self.link = Link::Connecting(search);
            self.effects.push_back(Effect::Connect);
        }
    }

    /// The connection is made.
    pub fn handle_connected(&mut self, now: Now) {
        let Link::Connecting(search) = self.link else { return };
        self.link = Link::Joining(search);
        self.timers.set(Timer::Join, now.mono + JOIN_MAX);
        let mut lists = self.outbox.lists();
        lists.extend(self.list.as_ref().map(|list| list.name.clone()));
        self.send(FromWorker::Hello {
            worker: self.settings.name.to_string(),
            secret: self.settings.secret.as_ref().map(|secret| secret.reveal().to_owned()),
            lists: lists.into_iter().map(Name).collect(),
        });
    }

    /// The connection cannot be made.
    pub fn handle_unreachable(&mut self, now: Now, reason: &str) {
        if let Link::Connecting(search) = self.link {
            self.search_on(now, search, reason);
        }
    }

    /// The connection has ended.
    pub fn handle_closed(&mut self, now: Now, reason: &str) {
        match self.link {
            Link::Joining(search) => self.search_on(now, search, reason),
            Link::Joined { .. } => {
                self.journal.warn(format!("the connection to the server has ended: {reason}"));
                self.timers.clear(&Timer::Beat);
                self.link = Link::Away(Search { since: now.mono, pause: FIRST_PAUSE, is_known: true });
                self.timers.set(Timer::Reconnect, now.mono + FIRST_PAUSE);
            }
            Link::Away(_) | Link::Connecting(_) | Link::Ended => {}
        }
    }

    /// Continues the search after a failed attempt, or gives up.
    fn search_on(&mut self, now: Now, search: Search, reason: &str) {
        self.timers.clear(&Timer::Join);
        if !search.is_known && now.mono.since(search.since) >= self.settings.patience {
            self.link = Link::Ended;
            return self.effects.push_back(Effect::Exit(End::NoServer(reason.to_owned())));
        }
        self.journal.debug(format!("no server yet: {reason}"));
        let pause = (search.pause * 2).min(self.settings.reconnect_interval_max);
        self.link = Link::Away(Search { pause, ..search });
        self.timers.set(Timer::Reconnect, now.mono + search.pause);
    }

    pub(super) fn joined(&mut self, now: Now, lost_after: Duration) {
        if matches!(self.link, Link::Joining(_)) {
            self.timers.clear(&Timer::Join);
            let beat = (lost_after / 3).max(Duration::from_millis(1));
            self.link = Link::Joined { beat, has_claimed: false };
            self.timers.set(Timer::Beat, now.mono + beat);
        }
    }

    pub(super) fn refused(&mut self, now: Now, reason: String, is_passing: bool) {
        match self.link {
            Link::Joining(search) if is_passing => {
                self.effects.push_back(Effect::Close);
                self.search_on(now, search, &reason);
            }
            Link::Joining(_) => {
                self.effects.push_back(Effect::Close);
                self.link = Link::Ended;
                self.effects.push_back(Effect::Exit(End::Refused(reason)));
            }
            _ => {
                self.effects.push_back(Effect::Close);
                self.handle_closed(now, &reason);
            }
        }
    }

    /// Asks for the next list.
    pub(super) fn claim(&mut self) {
        if let Link::Joined { has_claimed, .. } = &mut self.link
            && !std::mem::replace(has_claimed, true)
        {
            self.send(FromWorker::Claim {});
        }
    }

    /// The server has sent a list, or has answered that there is none.
    pub(super) fn claimed(&mut self) {
        if let Link::Joined { has_claimed, .. } = &mut self.link {
            *has_claimed = false;
        }
    }

    pub(super) fn link_timer(&mut self, now: Now, timer: Timer) {
        match (timer, &self.link) {
            (Timer::Reconnect, Link::Away(_)) => self.connect(),
            (Timer::Join, &Link::Joining(search)) => {
                self.effects.push_back(Effect::Close);
                self.search_on(now, search, "it does not answer HELLO");
            }
            (Timer::Beat, &Link::Joined { beat, .. }) => {
                self.send(FromWorker::Beat {});
                self.timers.set(Timer::Beat, now.mono + beat);
            }
            _ => {}
        }
    }
}
