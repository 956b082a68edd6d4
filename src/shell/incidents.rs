//! Incidents from any part of the shell, like lines for the log: most parts do not know the controller that they serve.

use std::sync::{Mutex, PoisonError};

use super::clock;
use crate::types::{Incident, IncidentKind};

/// Takes the incidents of this process.
pub type Listener = Box<dyn Fn(Incident) + Send>;

/// The history of this process, if it has one.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// From here on, incidents go there.
pub fn listen(listener: Option<Listener>) {
    *LISTENER.lock().unwrap_or_else(PoisonError::into_inner) = listener;
}

/// Notes an incident. A process without a history drops it.
pub fn note(kind: IncidentKind, text: impl Into<String>) {
    if let Some(listener) = &*LISTENER.lock().unwrap_or_else(PoisonError::into_inner) {
        listener(Incident { at: clock::now().wall, kind, text: text.into() });
    }
}
