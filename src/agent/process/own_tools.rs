//! The archives in the tools folder of this machine that replace the versions that tasks have pinned. Each is logged once, and
//! heartbeats report them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::wire::requests::heartbeat::OwnVersions;
use base::{ToolDigest, ToolName};

/// Differences that are logged; more of them would say nothing new.
const LOGGED_MAX: usize = 1000;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct OwnTools {
    /// The differences that were logged.
    logged: Mutex<BTreeSet<(ToolName, ToolDigest, ToolDigest)>>,
    versions: Mutex<OwnVersions>,
    has_any: AtomicBool,
    is_new: AtomicBool,
}

impl OwnTools {
    /// The archive of this machine is the version that a task has pinned.
    pub(super) fn note_agreement(&self, tool: &ToolName) {
        if self.has_any.load(Ordering::Relaxed) && self.versions().remove(tool).is_some() {
            self.is_new.store(true, Ordering::Relaxed);
        }
    }

    /// The archive of this machine replaces the version that a task has pinned.
    pub(super) fn note_difference(&self, tool: &ToolName, own: ToolDigest, pin: ToolDigest) {
        if self.versions().insert(tool.clone(), own) != Some(own) {
            self.has_any.store(true, Ordering::Relaxed);
            self.is_new.store(true, Ordering::Relaxed);
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_MAX && logged.insert((tool.clone(), own, pin)) {
            log::warn!(
                "tool {tool}: AGENT_TOOLS_DIR of this machine has version {}, which goes before version {} of the controller",
                own.short(),
                pin.short()
            );
        }
    }

    /// The versions, if they have changed since the last call.
    pub(super) fn take_new(&self) -> Option<OwnVersions> {
        let is_new = self.is_new.load(Ordering::Relaxed) && self.is_new.swap(false, Ordering::Relaxed);
        is_new.then(|| self.versions().clone())
    }

    fn versions(&self) -> MutexGuard<'_, OwnVersions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
