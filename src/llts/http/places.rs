//! The places of connections: most serve any request, a few spare ones serve health checks, and streams of events get a share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::access::Denied;

/// Spare places for `/healthz` and `/readyz`: a controller must not seem dead because clients wait.
const SPARE: usize = 16;

/// How many requests in spare places may wait for an ordinary place.
const WAITING: usize = 64;

/// The divisor for the share of all places that streams of events may hold.
const EVENTS_SHARE: usize = 2;

/// All places.
pub(super) struct Places {
    count: usize,
    free: Arc<Semaphore>,
    spare: Arc<Semaphore>,
    waiting: Semaphore,
    events: Arc<Semaphore>,
    /// How long a request waits for a place.
    wait_max: Duration,
}

/// The place of a connection.
#[derive(Clone)]
pub(super) struct Place {
    /// Whether this was a spare place for health checks at first.
    pub(super) is_spare: bool,
    permit: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

impl Places {
    pub(super) fn new(count: usize, wait_max: Duration) -> Self {
        Self {
            count,
            free: Arc::new(Semaphore::new(count)),
            spare: Arc::new(Semaphore::new(SPARE)),
            waiting: Semaphore::new(WAITING),
            events: Arc::new(Semaphore::new(count.div_ceil(EVENTS_SHARE))),
            wait_max,
        }
    }

    /// A place for a new connection.
    pub(super) async fn take(&self) -> Place {
        let free = Arc::clone(&self.free).try_acquire_owned().ok();
        let is_spare = free.is_none();
        let permit = if is_spare { Arc::clone(&self.spare).acquire_owned().await.ok() } else { free };
        Place { is_spare, permit: Arc::new(Mutex::new(permit)) }
    }

    /// A place for a stream of events.
    ///
    /// # Errors
    /// When streams hold their whole share already.
    pub(super) fn take_events(&self) -> Result<OwnedSemaphorePermit, Denied> {
        Arc::clone(&self.events).try_acquire_owned().map_err(|_| {
            denied("streams (/events, /view) have half of all connections, their share (http.CONNECTIONS_MAX); close one, or try \
                 again later")
        })
    }

    /// Waits until the last connection has ended.
    pub(super) async fn emptied(&self) {
        let _ = self.free.acquire_many(u32::try_from(self.count).unwrap_or(u32::MAX)).await;
    }
}

impl Place {
    /// Gives a spare place back, and waits for another one.
    ///
    /// # Errors
    /// When no place becomes free in time, or too many requests wait already.
    pub(super) async fn change(&self, places: &Places) -> Result<(), Denied> {
        self.set(None);
        if let Ok(_waits) = places.waiting.try_acquire()
            && let Ok(Ok(place)) = timeout(places.wait_max, Arc::clone(&places.free).acquire_owned()).await
        {
            self.set(Some(place));
            return Ok(());
        }
        Err(denied("all places for connections are taken (http.CONNECTIONS_MAX); try again later"))
    }

    /// Frees the place: the connection has ended.
    pub(super) fn free(&self) {
        self.set(None);
    }

    fn set(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

fn denied(why: &str) -> Denied {
    Denied(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
}
