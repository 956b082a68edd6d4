//! The invariants of a [`Delivery`] between two effects.

use super::delivery::Delivery;
use super::effect::Timer;
use super::receiver::Stage;
use base::Host;

impl Delivery {
    /// Checks every invariant. Tests call it after each step.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn sanity_check(&self) {
        self.life.receivers.sanity_check();
        self.life.sockets.sanity_check(&self.life.receivers, &self.life.config);
        self.names.sanity_check();
        self.turn.sanity_check(&self.life.receivers);
        self.life.backlog.sanity_check(self.life.receivers.iter().map(|(_, receiver)| &receiver.queue));
        assert!(self.life.receivers.len() <= self.life.config.receivers_max());
        for (id, receiver) in self.life.receivers.iter() {
            // A marked receiver is served in this turn or the next one, which sets its timer.
            if let Some((due, _)) = receiver.due(&self.life.config).filter(|_| !receiver.is_marked) {
                let timer = self.life.timers.get(&Timer::Receiver(id));
                assert!(timer.is_some_and(|at| at <= due), "{timer:?} for {due:?}: {receiver:?}");
            }
            if let (Stage::Resolving, Host::Name(name)) = (&receiver.stage, &receiver.address.host) {
                assert!(self.names.is_asked(name), "{receiver:?}");
            }
        }
    }
}
