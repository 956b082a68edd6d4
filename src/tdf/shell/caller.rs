//! The calls of a worker to Redis, on the thread that makes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::RedisError;
use super::namespace::{Claim, Namespace};
use super::session::WorkerKind;
use base::tdf::WorkerName;

/// A worker at Redis.
pub(super) struct Caller {
    pub(super) namespace: Namespace,
    pub(super) worker: WorkerName,
    kind: WorkerKind,
    /// Whether the worker is registered: a restarted Redis may have lost it, and another process may have its name. What one connection
    /// learns of that holds for the others of this process.
    is_known: Arc<AtomicBool>,
}

impl Caller {
    /// A worker that is registered already, or will be with its first call.
    pub(super) fn new(namespace: Namespace, worker: WorkerName, kind: WorkerKind, is_known: bool) -> Self {
        Self { namespace, worker, kind, is_known: Arc::new(is_known.into()) }
    }

    /// The same worker on a connection of its own.
    pub(super) fn another(&self) -> Self {
        let (worker, is_known) = (self.worker.clone(), Arc::clone(&self.is_known));
        Self { namespace: self.namespace.another(), worker, kind: self.kind, is_known }
    }

    /// Makes a call, after registering the worker if necessary.
    pub(super) fn ask<T>(
        &mut self,
        call: impl FnOnce(&mut Namespace, &WorkerName) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        if !self.is_known.load(Ordering::SeqCst) {
            self.namespace.register(&self.worker, self.kind)?;
            self.is_known.store(true, Ordering::SeqCst);
        }
        let answer = call(&mut self.namespace, &self.worker);
        if answer.is_err() {
            self.is_known.store(false, Ordering::SeqCst);
        }
        answer
    }

    /// Makes a call with a claim of so many tasks; the number of the claim becomes its token.
    pub(super) fn with_claim<T>(
        &mut self,
        (number, count): (u64, u32),
        call: impl FnOnce(&mut Namespace, &Claim<'_>) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let token = format!("{}-{number}", self.namespace.session());
        self.ask(|namespace, worker| call(namespace, &Claim { worker, token: &token, count }))
    }
}
