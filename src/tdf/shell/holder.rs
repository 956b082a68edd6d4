//! Holds ended tasks on while their callbacks run, on a connection and a thread of its own: a callback may take longer than a lease.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use redis::Value;

use super::error::RedisError;
use super::link::{Address, Call, Link};
use super::namespace::{LEASE, RENEWAL_INTERVAL};
use super::scripts;
use base::tdf::TaskId;

#[derive(Default)]
struct State {
    held: Vec<TaskId>,
    stops: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds tasks on until it is dropped.
pub(super) struct Holder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Holder {
    /// Starts it with nothing to hold.
    pub(super) fn start(address: Address, prefix: String, identity: String) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("tdf-holder".to_owned())
            .spawn(move || run(&theirs, &address, &prefix, &identity))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Holds these, and no others.
    pub(super) fn hold(&self, tasks: impl IntoIterator<Item = TaskId>) {
        self.shared.lock().held = tasks.into_iter().collect();
        self.shared.changed.notify_one();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.shared.lock().stops = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("a thread of the manager has panicked");
        }
    }
}

fn run(shared: &Shared, address: &Address, prefix: &str, identity: &str) {
    let mut link: Option<Link> = None;
    loop {
        let held = {
            let guard = shared.lock();
            let waiting = shared.changed.wait_while(guard, |state| state.held.is_empty() && !state.stops);
            let guard = waiting.unwrap_or_else(PoisonError::into_inner);
            let (guard, time) = shared
                .changed
                .wait_timeout_while(guard, RENEWAL_INTERVAL, |state| !state.stops && !state.held.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            if guard.stops {
                return;
            }
            if !time.timed_out() {
                continue;
            }
            guard.held.clone()
        };
        if let Err(error) = renew(&mut link, address, prefix, identity, &held) {
            // The manager itself logs the outage; the lease survives some lost renewals.
            log::debug!("{error}");
            link = None;
        }
    }
}

fn renew(
    link: &mut Option<Link>,
    address: &Address,
    prefix: &str,
    identity: &str,
    held: &[TaskId],
) -> Result<(), RedisError> {
    let link = match link {
        Some(link) => link,
        none => none.insert(Link::connect(address.clone(), prefix.to_owned())?),
    };
    let call = Call::new(scripts::HOLD).arg(identity).arg(LEASE.as_secs().to_string());
    let answer = link.call(held.iter().fold(call, |call, task| call.arg(task.to_string())))?;
    if answer == Value::Int(1) { Ok(()) } else { Err(link.reply(scripts::HOLD.name)) }
}
