//! The epochs that agents of this machine have served under, in one file for all agents: a new agent starts with the epochs of the
//! others.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use base::{Epoch, KnownEpoch};
use proc::files::state_file;

/// Name of the file, beside those of the sessions.
const FILE: &str = "epochs";

/// Services that are remembered, the last ones.
const SERVICES_MAX: usize = 16;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct StoredEpoch {
    service: u64,
    epoch: u64,
    controller: u64,
}

/// The file.
pub(super) struct EpochFile(PathBuf);

impl EpochFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self(dir.join(FILE))
    }

    /// The known epochs. A file that cannot be read counts as empty: the controllers send their epochs anyway.
    pub(super) fn read(&self) -> Vec<KnownEpoch> {
        let stored: Vec<StoredEpoch> = state_file::read(&self.0).unwrap_or_default();
        let known = |stored: StoredEpoch| KnownEpoch {
            epoch: Epoch { service: stored.service, number: stored.epoch },
            controller: stored.controller,
        };
        stored.into_iter().map(known).collect()
    }

    /// Adds an epoch, unless another agent has added a newer one meanwhile.
    pub(super) fn remember(&self, known: KnownEpoch) {
        let mut all = self.read();
        if all.iter().any(|other| other.outdates(known.epoch, known.controller)) {
            return;
        }
        all.retain(|other| other.epoch.service != known.epoch.service);
        all.push(known);
        let stored = |known: &KnownEpoch| StoredEpoch {
            service: known.epoch.service,
            epoch: known.epoch.number,
            controller: known.controller,
        };
        let first = all.len().saturating_sub(SERVICES_MAX);
        let stored: Vec<_> = all[first..].iter().map(stored).collect();
        if let Err(error) = state_file::replace(&self.0, &stored) {
            // An older controller is then noticed only by agents that run already.
            log::warn!("cannot write {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_epoch_of_each_service_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = EpochFile::new(dir.path());
        assert_eq!(file.read(), []);
        let known = |service, number, controller| KnownEpoch { epoch: Epoch { service, number }, controller };
        for one in [known(1, 5, 50), known(2, 1, 10), known(1, 7, 70), known(1, 6, 60), known(1, 7, 71)] {
            file.remember(one);
        }
        assert_eq!(file.read(), [known(2, 1, 10), known(1, 7, 70)]);
        for service in 3..40 {
            file.remember(known(service, 1, 1));
        }
        assert_eq!(file.read().len(), SERVICES_MAX);
    }
}
