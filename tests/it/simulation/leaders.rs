//! A queue that several controllers may lead: what a seed plans, and the controller that was deposed and does not know it yet.
//!
//! | event | then |
//! |---|---|
//! | [`Fault::TakeOver`] | the store takes no commit of the leader any more; another one starts with what is stored |
//! | the deposed one is frozen | it says nothing, and in the end it looks first whether it still leads |
//! | it is cut off from the store | its lease has ended by its own clock: the store is in trouble. Agents and clients may come to it |
//! | it learns that the epoch is not its own | it is gone at once |
//!
//! A run is told to an agent after its commit, so no round is ever handed out twice.

use base::Epoch;
use engine::Departure;

use crate::simulation::controller::{Life, Outcome, ReplyTo};
use crate::simulation::dice::{Dice, MILLI, Nanos, SECOND};
use crate::simulation::event::{Defect, Event};
use crate::simulation::plan::{Fault, HEARTBEAT};
use crate::simulation::world::{World, note};

/// A controller that was deposed.
pub(crate) struct Deposed {
    pub(crate) life: Life,
    is_frozen: bool,
    /// Whether it has not acted since.
    is_new: bool,
    ends_at: Nanos,
}

/// The take-overs of a seed whose queue several controllers may lead; none for the other seeds. Its dice are its own.
pub(crate) fn plan(seed: u64, calm: Nanos) -> Vec<(Nanos, Fault)> {
    let mut dice = Dice::new(seed ^ 0x006c_6561_6465_7273);
    if !dice.chance(250) {
        return Vec::new();
    }
    let take_overs = (0..1 + dice.index(4)).map(|_| {
        let length = dice.skewed(MILLI..=9 * HEARTBEAT);
        (dice.within(0..=calm), Fault::TakeOver { is_frozen: dice.chance(400), length })
    });
    take_overs.collect()
}

impl World {
    /// The epoch of the present leader.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.plan.is_shared().then_some(Epoch { service: 1, number: self.server.lives })
    }

    pub(crate) fn take_over(&mut self, is_frozen: bool, length: Nanos) {
        if !self.server.is_up() || self.server.deposed.is_some() {
            return;
        }
        self.end_commits();
        let Some(life) = self.server.life.take() else { unreachable!("it was up a moment ago") };
        note!(self, "controller {} does not lead any more; frozen: {is_frozen}", life.number);
        let ends_at = self.now + length;
        self.server.deposed = Some(Deposed { life, is_frozen, is_new: true, ends_at });
        self.server.forget_plans();
        self.at(self.now, Event::DeposedWakes);
        self.at(ends_at, Event::DeposedEnds);
        let delay = self.dice.skewed(10 * MILLI..=4 * SECOND);
        self.after(delay, Event::ControllerStarts);
    }

    /// Whether the deposed controller acts, if there is one.
    fn has_false_leader(&self) -> bool {
        self.server.deposed.as_ref().is_some_and(|deposed| !deposed.is_frozen)
    }

    /// The life of the controller that a new connection comes to.
    pub(crate) fn server_of_connection(&mut self) -> Option<u64> {
        let leader = self.server.life.as_ref().map(|life| life.number);
        if self.has_false_leader() && (leader.is_none() || self.dice.chance(400)) {
            return self.server.deposed.as_ref().map(|deposed| deposed.life.number);
        }
        leader
    }

    pub(crate) fn is_of_deposed(&self, life: u64) -> bool {
        self.server.deposed.as_ref().is_some_and(|deposed| deposed.life.number == life)
    }

    /// A message reaches the machine of the deposed controller.
    pub(crate) fn deposed_receives(&mut self, from: ReplyTo, body: Vec<u8>) {
        let delay = self.wake_delay();
        let Some(deposed) = &mut self.server.deposed else { return };
        deposed.life.inbox.push_back((from, body));
        self.after(delay, Event::DeposedWakes);
    }

    /// Whether a client comes to the deposed controller.
    pub(crate) fn asks_deposed(&mut self) -> bool {
        self.has_false_leader() && (!self.server.is_up() || self.dice.chance(300))
    }

    /// It acts as if it led.
    pub(crate) fn deposed_wakes(&mut self) {
        if !self.has_false_leader() {
            return;
        }
        let Some(deposed) = self.server.deposed.take() else { unreachable!("it was there a moment ago") };
        let Deposed { life, is_frozen, is_new, ends_at } = deposed;
        let (leader, crash_in) = (self.server.life.replace(life), self.server.crash_in.take());
        self.server.is_deposed = true;
        let now = self.controller_now();
        if is_new {
            self.make_trouble(now);
        }
        let turned = self.turn(now);
        assert!(turned.is_ok(), "it is not to crash");
        self.life().sequencer.sanity_check();
        let next = self.life().sequencer.poll_timeout().map(|(at, _)| at);
        let told = std::mem::take(&mut self.life().told);
        self.model.unrecorded(told);
        self.server.is_deposed = false;
        let Some(life) = std::mem::replace(&mut self.server.life, leader) else { unreachable!("it was put there") };
        self.server.crash_in = crash_in;
        self.server.deposed = Some(Deposed { life, is_frozen, is_new: false, ends_at });
        if let Some(at) = next {
            let at = self.nanos_of(at).max(self.now + 1);
            self.at(at, Event::DeposedWakes);
        }
    }

    /// The commit that was under way has had no answer until the end of the lease.
    fn make_trouble(&mut self, now: base::Now) {
        self.life().outcome = None;
        self.life().sequencer.probe_store();
        while let Some(departure) = self.poll_departure(now) {
            if let Departure::Commit(records) = departure {
                let _ = self.life().sequencer.handle_trouble(now, "no answer", records, true);
                return;
            }
        }
        // One was under way already, unless the last one has failed.
        if self.life().sequencer.trouble_since().is_some() {
            return;
        }
        let _ = self.life().sequencer.handle_trouble(now, "no answer", Vec::new(), true);
    }

    /// A commit of the deposed controller has no answer, or an answer that tells nothing.
    pub(crate) fn refuse_commit(&mut self, records: Vec<engine::Record>) {
        if self.defect == Some(Defect::TwoLeaders) {
            self.commit(&records);
            self.life().outcome = Some(Outcome::Stored);
            return self.after(MILLI, Event::DeposedWakes);
        }
        if self.dice.chance(500) {
            self.life().outcome = Some(Outcome::Doubtful(records));
            let delay = self.dice.skewed(MILLI..=SECOND);
            self.after(delay, Event::DeposedWakes);
        }
    }

    /// The store has told it that the epoch is not its own.
    pub(crate) fn deposed_ends(&mut self) {
        if self.server.deposed.as_ref().is_some_and(|deposed| deposed.ends_at <= self.now || self.is_calm) {
            let Some(deposed) = self.server.deposed.take() else { unreachable!("it was there a moment ago") };
            note!(self, "controller {} learns that it does not lead", deposed.life.number);
            self.break_all(deposed.life.number);
        }
    }
}
