//! The epochs of the services that this machine has served, and what of it the controller is told.
//!
//! | the controller | is |
//! |---|---|
//! | has an epoch at least as new as the known one of its service, or tells none | obeyed; a newer epoch is remembered |
//! | has an older one, or the same one from another start | not obeyed: it was started from an older copy of the store. The run goes on, for the controller with the newer one |

use base::{Epoch, KnownEpoch};

/// Services that are remembered: an agent serves one, and few of them in its life.
const SERVICES_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// The highest of each service, the present service last.
    known: Vec<KnownEpoch>,
    /// The start of a controller that is not obeyed.
    refused: Option<u64>,
}

/// What the epoch of a controller means.
pub(super) enum Heard {
    /// Nothing new.
    Known,
    /// It is to be remembered.
    Newer,
    /// The controller must not be obeyed, because of this epoch. Whether that is new.
    Older(KnownEpoch, bool),
}

impl Epochs {
    pub(super) const fn new(known: Vec<KnownEpoch>) -> Self {
        Self { known, refused: None }
    }

    /// A controller has answered.
    pub(super) fn hear(&mut self, epoch: Epoch, controller: u64) -> Heard {
        let place = self.known.iter().position(|known| known.epoch.service == epoch.service);
        let before = place.map(|place| self.known.remove(place));
        if let Some(before) = before.filter(|before| before.outdates(epoch, controller)) {
            self.known.push(before);
            return Heard::Older(before, self.refused.replace(controller) != Some(controller));
        }
        self.refused = None;
        let present = KnownEpoch { epoch, controller };
        self.known.push(present);
        if self.known.len() > SERVICES_MAX {
            self.known.remove(0);
        }
        if before == Some(present) { Heard::Known } else { Heard::Newer }
    }

    /// Whether the present controller is not obeyed.
    pub(super) const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// What a heartbeat tells.
    pub(super) fn told(&self) -> Option<KnownEpoch> {
        self.known.last().copied()
    }
}
