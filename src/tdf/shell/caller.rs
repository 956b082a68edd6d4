//! The calls of a worker to Redis, on the thread that makes them.

use super::error::RedisError;
use super::namespace::{Claim, Namespace};
use super::session::WorkerKind;
use base::tdf::WorkerName;

/// A worker at Redis.
pub(super) struct Caller {
    pub(super) namespace: Namespace,
    pub(super) worker: WorkerName,
    pub(super) kind: WorkerKind,
    /// Whether the worker is registered: a restarted Redis may have lost it.
    pub(super) is_known: bool,
}

impl Caller {
    /// Makes a call, after registering the worker if necessary.
    pub(super) fn ask<T>(
        &mut self,
        call: impl FnOnce(&mut Namespace, &WorkerName) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        if !self.is_known {
            self.namespace.register(&self.worker, self.kind)?;
            self.is_known = true;
        }
        let answer = call(&mut self.namespace, &self.worker);
        self.is_known = answer.is_ok();
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
