//! A receiver of pushes: what is sent to it may be lost, and so may its confirmations.

use std::collections::BTreeSet;

use base::{Acknowledgement, Phase, PushAddress, TaskId, TaskRecord, TaskState};

use crate::simulation::controller::rules;
use crate::simulation::event::{Defect, Event};
use crate::simulation::world::{World, note};

pub(crate) const ADDRESS: &str = "tcp://127.0.0.1:5999";

#[derive(Default)]
pub(crate) struct Receiver {
    /// The ends that have arrived, and that a confirmation was sent for.
    confirmed: BTreeSet<(TaskId, u32)>,
}

pub(crate) fn address() -> PushAddress {
    PushAddress::parse(ADDRESS, &rules().addresses).expect("an address of ours")
}

impl World {
    /// The end of a task is on its way to its receiver.
    pub(crate) fn push_travels(&mut self, record: &TaskRecord) {
        if record.phase() < Phase::Finished || !record.policy.push_ack || self.defect == Some(Defect::DeafReceiver) {
            return;
        }
        if self.dice.chance(self.plan.push_loss) {
            return note!(self, "push {} of {} is lost", record.pushes, record.id);
        }
        self.receiver.confirmed.insert((record.id, record.pushes));
        if self.dice.chance(self.plan.push_loss) {
            return note!(self, "the confirmation of push {} of {} is lost", record.pushes, record.id);
        }
        let delay = self.delay();
        self.after(delay, Event::Confirmed { task: record.id, seq: record.pushes });
    }

    /// A confirmation arrives.
    pub(crate) fn confirmed(&mut self, task: TaskId, seq: u32) {
        if self.server.is_up() {
            self.life().confirmations.push_back((task, seq));
            let at = self.now + self.wake_delay();
            self.wake_controller(at);
        }
    }

    /// Whether the controller waits for a confirmation that is still to come.
    pub(crate) fn awaits(record: &TaskRecord) -> bool {
        let wanted = record.policy.push_ack && record.address.is_some();
        let finished = matches!(record.state, TaskState::Finished { .. });
        wanted && finished && record.acknowledgement == Acknowledgement::None
    }

    /// The end of every task has arrived where it should, or the controller has given up.
    pub(crate) fn check_acknowledgements(&self) {
        for record in self.server.disk.values().filter(|record| record.policy.push_ack) {
            match record.acknowledgement {
                Acknowledgement::Received(_) => {
                    let arrived = self.receiver.confirmed.contains(&(record.id, record.pushes));
                    assert!(arrived, "the end of {} counts as confirmed, but never arrived", record.id);
                }
                // A clock that jumps by a day makes every wait a long one.
                Acknowledgement::GivenUp(_) => assert!(!self.plan.is_steady(), "{} is given up", record.id),
                Acknowledgement::None => panic!("the end of {} was never confirmed", record.id),
            }
        }
    }
}
