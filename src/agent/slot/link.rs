//! The conversation with the controller: whether it answers, what it has confirmed, and what must be repeated.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Effect, Ending, Settings, Slot, Timer};
use api::wire::requests::FromAgent;
use api::wire::requests::heartbeat::{Beat, Heartbeat, OwnVersions, ToldTools};
use api::wire::requests::report::Report;
use api::wire::version::Version;
use base::{Mono, Now, Round, Session, TaskId, ToolName};

/// Unanswered heartbeats after which the connection is given up.
const UNANSWERED_MAX: u32 = 2;

/// Heartbeats whose answers may still come; older ones could not renew a lease.
const BEATS_MAX: usize = 16;

/// Rejected heartbeats after which the agent gives up. A predecessor with the same name is lost after two intervals.
const REJECTIONS_MAX: u32 = 4;

#[derive(Debug, Default)]
pub(super) struct Link {
    /// The life of the controller that answered last.
    controller: Option<u64>,
    /// Number of heartbeats since the last answer.
    unanswered: u32,
    rejections: u32,
    /// Number of the last heartbeat.
    beat: u32,
    /// Send times of the heartbeats since the last answered one, oldest first.
    beats: VecDeque<(u32, Mono)>,
    /// Send time of the last heartbeat that the controller has answered: leases count from it.
    last_contact: Option<Mono>,
    /// The APPLY that is on its way or parked.
    applied: Option<Applied>,
    /// Final reports of runs that the controller has not confirmed, oldest first, with the number of answered heartbeats
    /// since.
    unconfirmed: VecDeque<(Report, u32)>,
    joined: bool,
    /// See [`Heartbeat::own_versions`].
    own_versions: Option<Arc<OwnVersions>>,
    /// The tools that stay here.
    warm: BTreeSet<ToolName>,
}

#[derive(Clone, Copy, Debug)]
struct Applied {
    at: Mono,
    /// Number of unanswered heartbeats sent before the APPLY: their answers do not take it into account.
    heartbeats_before: u32,
}

/// An answer to a heartbeat, compared with the earlier ones.
pub(super) struct Contact {
    /// Whether the agent has just joined.
    pub(super) is_first: bool,
    /// Whether earlier reports may be lost: the controller has started again, or the connection is new.
    pub(super) is_new_controller: bool,
}

impl Link {
    /// Whether the controller has answered on this connection.
    pub(super) const fn is_up(&self) -> bool {
        self.controller.is_some()
    }

    /// A connection has been made: earlier messages may be lost.
    pub(super) const fn connected(&mut self) {
        self.unanswered = 0;
        self.controller = None;
        self.applied = None;
    }

    /// A heartbeat is about to be sent; true if the connection must be given up first.
    pub(super) const fn heartbeat(&mut self) -> bool {
        let give_up = self.unanswered >= UNANSWERED_MAX;
        if give_up {
            self.connected();
        }
        self.unanswered += 1;
        give_up
    }

    /// Whether every heartbeat has been answered.
    pub(super) const fn is_answered(&self) -> bool {
        self.unanswered == 0
    }

    pub(super) fn next_heartbeat(
        &mut self,
        now: Mono,
        settings: &Settings,
        busy: bool,
        run: Option<(TaskId, Round)>,
        tools: Option<ToldTools>,
    ) -> Heartbeat {
        let replaces = settings.replaces.filter(|_| !self.joined && settings.session != Session::default());
        self.beat = self.beat.wrapping_add(1);
        self.beats.push_back((self.beat, now));
        if self.beats.len() > BEATS_MAX {
            self.beats.pop_front();
        }
        let beat = Some(Beat { number: self.beat, kill_budget: Some(settings.kill_budget()) });
        let (version, own_versions) = (Some(Version::ours()), self.own_versions.clone());
        let (ip, tags) = (Some(settings.ip.clone()), settings.tags.clone());
        let warm = self.warm.clone();
        Heartbeat { busy, run, ip, tags, replaces, tools, beat, version, own_versions, warm, ..Heartbeat::default() }
    }

    /// From now on, heartbeats report these versions.
    pub(super) fn set_own_versions(&mut self, versions: OwnVersions) {
        self.own_versions = Some(versions).filter(|versions| !versions.is_empty()).map(Arc::new);
    }

    /// From now on, heartbeats report these tools as running.
    pub(super) fn set_warm(&mut self, warm: BTreeSet<ToolName>) {
        self.warm = warm;
    }

    /// The controller has received the heartbeat with this number; returns the send time.
    pub(super) fn beat_received(&mut self, number: u32) -> Option<Mono> {
        let at = self.beats.iter().position(|(beat, _)| *beat == number)?;
        let sent = self.beats.drain(..=at).next_back().map(|(_, sent)| sent);
        self.last_contact = self.last_contact.max(sent);
        sent
    }

    /// Send time of the last heartbeat that the controller has received.
    pub(super) const fn last_contact(&self) -> Option<Mono> {
        self.last_contact
    }

    /// A heartbeat is answered; `parked` is false if the controller has no APPLY of this agent, and no task on its way to
    /// it.
    pub(super) fn handle_answer(&mut self, controller: u64, parked: bool) -> Contact {
        self.unanswered = 0;
        self.rejections = 0;
        let is_new_controller = self.controller.replace(controller) != Some(controller);
        // The APPLY or its answer was lost, on a connection that was silently replaced (docs/design/hazards.md, A5).
        let is_lost = |applied: &mut Applied| match applied.heartbeats_before {
            0 => !parked,
            before => {
                applied.heartbeats_before = before - 1;
                false
            }
        };
        self.applied.take_if(|applied| is_new_controller || is_lost(applied));
        Contact { is_first: !std::mem::replace(&mut self.joined, true), is_new_controller }
    }

    pub(super) const fn has_applied(&self) -> bool {
        self.applied.is_some()
    }

    /// When the pending APPLY was sent.
    pub(super) fn applied_at(&self) -> Option<Mono> {
        self.applied.map(|applied| applied.at)
    }

    /// An APPLY is about to be sent, alone or with a report.
    pub(super) const fn apply(&mut self, now: Mono) {
        self.applied = Some(Applied { at: now, heartbeats_before: self.unanswered });
    }

    /// The APPLY has an answer.
    pub(super) const fn answered(&mut self) {
        self.applied = None;
    }

    /// Forgets an APPLY that was sent at least this long ago; true if none is pending.
    pub(super) fn forget_apply(&mut self, now: Mono, age: Duration) -> bool {
        self.applied.take_if(|applied| now.since(applied.at) >= age);
        self.applied.is_none()
    }

    /// The controller rejects this agent: another process has its id, or their versions do not match. Returns the number of
    /// heartbeats rejected in a row.
    const fn rejected(&mut self) -> u32 {
        self.unanswered = 0;
        self.applied = None;
        self.rejections += 1;
        self.rejections
    }

    /// Keeps the final report of a run until it is confirmed.
    pub(super) fn keep_report(&mut self, report: Report) {
        self.unconfirmed.push_back((report, 0));
    }

    pub(super) fn confirmed(&mut self, task: TaskId, round: Round, last: bool) {
        if last {
            self.unconfirmed.retain(|(report, _)| (report.task, report.round) != (task, Some(round)));
        }
    }

    /// Whether everything is confirmed.
    pub(super) fn is_settled(&self) -> bool {
        self.unconfirmed.is_empty()
    }

    /// The unconfirmed final reports, oldest first.
    pub(super) fn unconfirmed_reports(&self) -> impl Iterator<Item = &Report> {
        self.unconfirmed.iter().map(|(report, _)| report)
    }

    /// The final report of this run, if it has not been confirmed.
    pub(super) fn unconfirmed(&self, task: TaskId, round: Round) -> Option<&Report> {
        self.unconfirmed_reports().find(|report| (report.task, report.round) == (task, Some(round)))
    }

    /// The reports that have not been confirmed although a heartbeat sent after them has been answered.
    pub(super) fn reports_to_repeat(&mut self, all: bool) -> Vec<Report> {
        let mut repeat = Vec::new();
        for (report, answers) in &mut self.unconfirmed {
            *answers += 1;
            if all || *answers >= 2 {
                *answers = 0;
                repeat.push(report.clone());
            }
        }
        repeat
    }
}

impl Slot {
    /// A connection has been made. Earlier messages may be lost, and the peer may be another controller. So a heartbeat is
    /// sent at once, and its answer triggers the repetition of the rest.
    pub fn handle_connected(&mut self, now: Now) {
        self.link.connected();
        self.drop_list();
        if self.timers.is_set(&Timer::Farewell) {
            return self.effects.push_back(Effect::Send(FromAgent::Exit));
        }
        self.heartbeat(now);
    }

    /// Logs the reason at once, because the agent gives up some heartbeats later.
    pub(super) fn rejected(&mut self, reason: String) {
        match self.link.rejected() {
            1 => self.journal.warn(format!("the controller refuses this agent: {reason}")),
            2..=REJECTIONS_MAX => {}
            _ => self.effects.push_back(Effect::Exit(Ending::Rejected(reason))),
        }
    }

    pub(super) fn heartbeat(&mut self, now: Now) {
        if self.link.heartbeat() {
            self.journal.warn("the controller does not answer; connecting again");
            self.effects.push_back(Effect::Reconnect);
        }
        let (busy, run) = (!self.run.is_free(), self.run.id());
        let mut heartbeat = self.link.next_heartbeat(now.mono, &self.settings, busy, run, self.tools.poll_report());
        (heartbeat.epoch, heartbeat.skew) = (self.epochs.present(), self.skew.reported());
        self.effects.push_back(Effect::Send(FromAgent::Heartbeat(heartbeat)));
        self.timers.set(Timer::Heartbeat, now.mono + self.settings.heartbeat_interval);
    }
}

impl super::Slot {
    /// Short enough that a lost APPLY is soon repeated.
    pub(super) fn apply_wait(&self) -> Duration {
        self.settings.heartbeat_interval * 2
    }
}
