//! The epochs of the services that this machine has served: a controller with an older store is not obeyed.
//!
//! | the controller | is |
//! |---|---|
//! | has an epoch at least as new as the known one of its service, or none | obeyed; a newer epoch is remembered |
//! | has an older epoch, or the same one from another start | not obeyed: its store is an older copy. The run continues for the controller with the newer store |

use base::{Epoch, KnownEpoch};

/// Services that are remembered: an agent serves one at a time, and few in its life.
const SERVICES_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Epochs {
    /// The highest of each service, the present service last.
    known: Vec<KnownEpoch>,
    /// The start of a controller that is not obeyed.
    refused: Option<u64>,
}

/// The epoch of a controller, compared with the known ones.
pub(super) enum EpochCheck {
    Known,
    /// The epoch is to be remembered.
    Newer,
    /// The controller must not be obeyed, because of this epoch. True for the first answer of this start of it.
    Older(KnownEpoch, bool),
}

impl Epochs {
    pub(super) const fn new(known: Vec<KnownEpoch>) -> Self {
        Self { known, refused: None }
    }

    /// A controller has answered.
    pub(super) fn check(&mut self, epoch: Epoch, controller: u64) -> EpochCheck {
        let index = self.known.iter().position(|known| known.epoch.service == epoch.service);
        let before = index.map(|index| self.known.remove(index));
        if let Some(before) = before.filter(|before| before.outdates(epoch, controller)) {
            self.known.push(before);
            return EpochCheck::Older(before, self.refused.replace(controller) != Some(controller));
        }
        self.refused = None;
        let present = KnownEpoch { epoch, controller };
        self.known.push(present);
        if self.known.len() > SERVICES_MAX {
            self.known.remove(0);
        }
        if before == Some(present) { EpochCheck::Known } else { EpochCheck::Newer }
    }

    /// Whether the present controller is not obeyed.
    pub(super) const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// The epoch of the present service.
    pub(super) fn present(&self) -> Option<KnownEpoch> {
        self.known.last().copied()
    }
}
