//! The connection to the master, and when to look for a master again.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Away | its timer; the end of the run that lost its master | Connecting |
//! | Connecting | connected; unreachable | Joining; Away, or the end of patience |
//! | Joining | JOIN_ACK; closed, or no answer; REFUSED | Joined; as above; the end |
//! | Joined | closed; USAGE_LIMITED sent | Away; Limited |
//! | Limited | closed; REQUEST | Resting; Joined |
//! | Resting | its timer | Connecting |
//!
//! A master may close the connection of a limited worker, which joins again when the command can work again. Another master
//! keeps the connection and decides which prompts the worker gets meanwhile.
//!
//! A master of llts sends COMPLETED when its work is done. The document's master closes the connection instead, and so does a
//! master that is restarted. So a worker looks for the master again for [`Settings::patience`](super::Settings::patience), and
//! in any case while it keeps a run.

use std::time::Duration;

use super::{Effect, End, Timer, Worker};
use crate::wire::{FromWorker, Offer, Welcome};
use base::{Mono, Now};

/// The pause after the first failed attempt; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A search of this length is logged for people. A master takes less time to start again.
const REPORT_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) enum Link {
    Away(Search),
    Connecting(Search),
    Joining(Search),
    Joined,
    /// Joined, and the command can do nothing more until this moment.
    Limited(Mono),
    Resting,
    Ended,
}

/// A search for the master.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    since: Mono,
    /// Pause after the next failure.
    pause: Duration,
    /// The worker had a master before.
    had_master: bool,
    /// The master has refused the key of this worker, which is logged once.
    denied: bool,
    /// The search was logged for people.
    is_reported: bool,
}

impl Link {
    pub(super) const fn new(now: Now) -> Self {
        Self::Away(Search::new(now, false))
    }

    pub(super) const fn is_joined(&self) -> bool {
        matches!(self, Self::Joined | Self::Limited(_))
    }

    /// True from the connection to its end.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Joining(_) | Self::Joined | Self::Limited(_))
    }

    #[cfg(test)]
    pub(super) const fn is_joining(&self) -> bool {
        matches!(self, Self::Joining(_))
    }

    #[cfg(test)]
    pub(super) const fn is_connecting(&self) -> bool {
        matches!(self, Self::Connecting(_))
    }
}

impl Search {
    const fn new(now: Now, had_master: bool) -> Self {
        Self { since: now.mono, pause: FIRST_PAUSE, had_master, denied: false, is_reported: false }
    }
}

impl Worker {
    /// Connects to the master, if it is away and no run of the last connection is left to end.
    pub(super) fn connect(&mut self) {
        if let Link::Away(search) = self.link
            && (self.run.is_free() || self.timers.is_set(&Timer::Lease))
        {
            self.timers.clear(&Timer::Reconnect);
            self.link = Link::Connecting(search);
            self.effects.push_back(Effect::Connect);
        }
    }

    /// The connection is made; the worker calls itself `id` on it.
    pub fn handle_connected(&mut self, now: Now, id: &str) {
        let Link::Connecting(search) = self.link else { return };
        self.link = Link::Joining(search);
        self.timers.set(Timer::Join, now.mono + self.settings.join_timeout);
        let secret = self.settings.secret.as_ref().map(|secret| secret.reveal().to_owned());
        let resumes = self.settings.patience != Some(Duration::ZERO);
        let run = self.run.id().filter(|_| self.timers.is_set(&Timer::Lease)).cloned();
        let offer = Offer { resumes, run, gate: self.settings.gate.clone(), tails: true };
        self.send(FromWorker::Join { worker: id.to_owned(), secret, splits: true, offer });
    }

    /// The connection cannot be made.
    pub fn handle_unreachable(&mut self, now: Now, reason: &str) {
        if let Link::Connecting(search) = self.link {
            self.search_on(now, Search { denied: false, ..search }, reason);
        }
    }

    /// The keys of one side are wrong. A worker that had a master before goes on looking, because its key may be put back.
    pub fn handle_denied(&mut self, now: Now, reason: &str) {
        let Link::Connecting(search) = self.link else { return };
        if !search.had_master {
            return self.exit(End::Refused(reason.to_owned()));
        }
        if !search.denied {
            self.journal
                .error(format!("the master refuses this worker, which it has taken before: {reason}; trying again"));
        }
        self.search_on(now, Search { denied: true, ..search }, reason);
    }

    pub(super) fn joined(&mut self, now: Now, welcome: Option<Box<Welcome>>) {
        if !matches!(self.link, Link::Joining(_)) {
            return;
        }
        self.timers.clear(&Timer::Join);
        self.link = Link::Joined;
        let was_kept = self.timers.is_set(&Timer::Lease);
        if !was_kept && welcome.as_ref().is_some_and(|welcome| welcome.run.is_some()) {
            // The run was given up after the JOIN was sent: without the connection the master gives its prompt away.
            self.link = Link::Away(Search::new(now, true));
            self.effects.push_back(Effect::Close);
            self.timers.set(Timer::Reconnect, now.mono + FIRST_PAUSE);
            return;
        }
        let is_wanted = welcome.as_ref().is_some_and(|welcome| welcome.run.as_ref() == self.run.id());
        self.welcome = welcome;
        if was_kept && is_wanted {
            self.timers.clear(&Timer::Lease);
            self.go_on_with_run();
        } else if was_kept {
            self.journal.warn("the master has given the prompt of this run to another worker, or has its result");
            self.lose_run(now);
        }
    }

    /// The run is void although the master can be reached. The worker ends the run before it joins again, so that the master does not
    /// wait for the answer to another prompt meanwhile.
    fn lose_run(&mut self, now: Now) {
        self.timers.clear(&Timer::Lease);
        if self.run.is_reporting() {
            return self.drop_report();
        }
        self.link = Link::Away(Search::new(now, true));
        self.void_run(now);
        self.effects.push_back(Effect::Close);
        self.timers.set(Timer::Reconnect, now.mono + FIRST_PAUSE);
    }

    /// Time for which the master keeps the prompt of the run, if it does.
    fn lease(&self) -> Option<Duration> {
        let lease = self.welcome.as_ref().map(|welcome| welcome.lease).filter(|lease| !lease.is_zero());
        lease.filter(|_| !self.stopping && self.settings.patience != Some(Duration::ZERO) && self.run.is_wanted())
    }

    /// COMPLETED: no work is left, so there is no reason to look for the master again.
    pub(super) fn completed(&mut self, now: Now) {
        if self.link.is_joined() && self.run.is_free() {
            self.exit(End::Completed);
        } else {
            // The master does not have the prompt of this run: as after any other end of the connection.
            self.journal.warn("the master says that all prompts are done");
            self.welcome = None;
            self.effects.push_back(Effect::Close);
            self.handle_closed(now, "the master has ended");
        }
    }

    pub(super) fn refused(&mut self, now: Now, reason: String) {
        if matches!(self.link, Link::Joining(_)) && self.run.is_free() {
            self.exit(End::Refused(reason));
        } else {
            self.journal.warn(format!("the master closes the connection: {reason}"));
            self.effects.push_back(Effect::Close);
            self.handle_closed(now, &reason);
        }
    }

    /// The connection has ended.
    pub fn handle_closed(&mut self, now: Now, reason: &str) {
        self.timers.clear(&Timer::Join);
        match self.link {
            Link::Joining(search) => self.search_on(now, search, reason),
            Link::Joined => {
                self.journal.info(format!("the connection to the master has ended: {reason}"));
                self.link = Link::Away(Search::new(now, true));
                match self.lease() {
                    Some(lease) => self.timers.set(Timer::Lease, self.last_message + lease),
                    None => self.void_run(now),
                }
                if self.settings.patience == Some(Duration::ZERO) && self.run.is_free() {
                    self.exit(End::MasterGone);
                } else {
                    self.timers.set(Timer::Reconnect, now.mono + FIRST_PAUSE);
                }
            }
            Link::Limited(until) => self.rest(now, until),
            Link::Away(_) | Link::Connecting(_) | Link::Resting | Link::Ended => {}
        }
    }

    /// Continues the search after a failed attempt, or gives up.
    fn search_on(&mut self, now: Now, search: Search, reason: &str) {
        let is_over = self.settings.patience.is_some_and(|patience| now.mono.since(search.since) >= patience);
        if is_over && self.run.is_free() {
            self.journal.error(format!("gave up looking for the master: {reason}"));
            self.exit(match search {
                Search { denied: true, .. } => End::Refused(reason.to_owned()),
                Search { had_master: true, .. } => End::MasterGone,
                _ => End::NoMaster(reason.to_owned()),
            });
            return;
        }
        self.journal.debug(format!("no master yet: {reason}"));
        let pause = (search.pause * 2).min(self.settings.reconnect_interval_max);
        let is_long = now.mono.since(search.since) >= REPORT_AFTER;
        if is_long && !search.is_reported {
            let limit =
                self.settings.patience.map_or("until one does".into(), |time| format!("for {} s", time.as_secs_f64()));
            self.journal.warn(format!(
                "no prompt master answers ({reason}); trying again {limit}. A master that has ended for good does not come back: end this \
                 worker with Ctrl-C or SIGTERM, or give it --patience SECONDS"
            ));
        }
        self.link = Link::Away(Search { pause, is_reported: search.is_reported || is_long, ..search });
        self.timers.set(Timer::Reconnect, now.mono + search.pause);
    }

    /// USAGE_LIMITED has been sent.
    pub(super) fn limited(&mut self, now: Now, pause: Duration) {
        if self.stopping || !self.link.is_joined() {
            return;
        }
        self.link = Link::Limited(now.mono + pause);
        if self.settings.ends_when_limited {
            self.exit(End::Limited(pause));
        }
    }

    fn rest(&mut self, now: Now, until: Mono) {
        self.link = Link::Resting;
        self.journal
            .info(format!("the command is limited; joining again in {:.0} s", until.since(now.mono).as_secs_f64()));
        self.timers.set(Timer::Resume, until);
    }

    pub(super) fn link_timer(&mut self, now: Now, timer: Timer) {
        match (timer, &self.link) {
            (Timer::Reconnect, Link::Away(_)) => self.connect(),
            (Timer::Resume, Link::Resting) => {
                self.link = Link::Away(Search::new(now, true));
                self.connect();
            }
            (Timer::Lease, _) => {
                self.journal
                    .warn("the master was away for so long that it gives the prompt of this run to another worker");
                self.void_run(now);
                self.leave_if_stopping();
            }
            (Timer::Join, &Link::Joining(search)) => {
                self.effects.push_back(Effect::Close);
                self.search_on(now, search, "it does not answer a JOIN");
            }
            _ => {}
        }
    }

    /// The run has ended: a waiting reconnect continues.
    pub(super) fn after_run(&mut self) {
        self.leave_if_stopping();
        if self.settings.patience == Some(Duration::ZERO)
            && matches!(self.link, Link::Away(Search { had_master: true, .. }))
        {
            self.exit(End::MasterGone);
        }
        self.connect();
    }
}
