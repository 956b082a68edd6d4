//! The server's side of `/events`: a client that listens to changes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::sse;
use futures_util::stream::{self, Stream};

use super::access::Denied;
use super::events::{After, Event, Events};
use base::TaskId;
use base::words::kind;

/// Events that are fetched at once for one listener.
const EVENTS_AT_ONCE: usize = 64;

/// The header with the id of the last event that a client has received.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// One listener to changes.
pub(super) struct Listener {
    events: Arc<Events>,
    /// The number of the last change that it has received or does not want.
    heard: u64,
    /// The task whose changes it wants; `None` for all tasks.
    task: Option<TaskId>,
    /// Fetched events that have not been sent yet.
    next: std::vec::IntoIter<Event>,
    has_missed: bool,
    sees_commands: bool,
}

impl Listener {
    /// `from` is the number or id of the first wanted change. `Last-Event-ID`, which a browser sends when it reconnects, is the id of the
    /// last received one. Without either, only future changes are sent. Numbers start anew with each start, so a change of another start
    /// or a number far ahead counts as a gap.
    pub(super) fn new(
        events: &Arc<Events>,
        headers: &HeaderMap,
        query: &str,
        sees_commands: bool,
    ) -> Result<Self, Denied> {
        let bad = |what: String| Denied(StatusCode::BAD_REQUEST, what);
        let mut listener = Self {
            events: Arc::clone(events),
            heard: events.last(),
            task: None,
            next: Vec::new().into_iter(),
            has_missed: false,
            sees_commands,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("from", first)) => {
                    let from = match events.number_of(first) {
                        Some(number) => number,
                        None => first
                            .parse()
                            .map(Some)
                            .map_err(|_| bad(format!("from is {first:?}; give the number or the id of an event")))?,
                    };
                    listener.hear_after(from.map(|from| from.saturating_sub(1)));
                }
                Some(("task", id)) => {
                    let task = id.parse().map_err(|_| bad(format!("task is {id:?}; give the id of a task")))?;
                    listener.task = Some(task);
                }
                _ => return Err(bad(format!("{pair:?} is unknown; there is from=NUMBER and task=ID"))),
            }
        }
        if let Some(last) = headers.get(LAST_EVENT_ID).and_then(|last| last.to_str().ok()) {
            listener.hear_after(events.number_of(last).flatten());
        }
        Ok(listener)
    }

    /// Continues after this change; `None` if its number is unknown or impossible.
    fn hear_after(&mut self, heard: Option<u64>) {
        let known = heard.filter(|heard| *heard <= self.events.last());
        self.has_missed = known.is_none();
        self.heard = known.unwrap_or_default();
    }

    pub(super) fn stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        stream::unfold(self, |mut listener| async move {
            let event = listener.next_event().await;
            Some((Ok(event), listener))
        })
    }

    async fn next_event(&mut self) -> sse::Event {
        loop {
            if std::mem::take(&mut self.has_missed) {
                // After the gap, it continues with the oldest kept change.
                return self.gap(self.heard + 1);
            }
            if let Some(event) = self.next.next() {
                self.heard = event.number;
                if self.task.is_none_or(|task| task == event.task) {
                    let id = self.events.id_of(event.number);
                    return sse::Event::default().id(id).event(kind::TASK_STATUS).data(if self.sees_commands {
                        &*event.message
                    } else {
                        &*event.hidden
                    });
                }
                continue;
            }
            self.events.wait(self.heard).await;
            match self.events.after(self.heard, EVENTS_AT_ONCE) {
                After::Events(events) => self.next = events.into_iter(),
                After::Gap(first) => {
                    self.heard = first - 1;
                    return self.gap(first);
                }
            }
        }
    }

    /// An event which says that all changes before this number were dropped.
    fn gap(&self, first: u64) -> sse::Event {
        sse::Event::default()
            .event("gap")
            .data(format!("changes before number {first} are not kept any more; ask for the state"))
    }
}
