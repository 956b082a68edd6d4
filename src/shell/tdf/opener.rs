//! Opens tasks: many of them in one script, and each once, however often the script is sent.

use std::time::Duration;

use super::error::RedisError;
use super::link::Call;
use super::namespace::Namespace;
use super::{reply, scripts};
use crate::config::TdfTaskDefaults;
use crate::protocol::tdf::terms::{BadTerm, Terms};
use crate::types::tdf::TaskId;

/// Tasks that one script opens: it keeps Redis from others for some milliseconds.
const BATCH: usize = 500;

/// How long a token is known: longer than an opener goes on asking with it. Each costs Redis some hundred bytes.
const TOKEN_LIFETIME: Duration = Duration::from_secs(60);

/// A task that is to be opened. Missing values are taken from `[task_defaults]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The name of the program.
    pub program: String,
    /// Where the program comes from.
    pub source: String,
    /// Its arguments, as a shell reads them.
    pub input: Vec<u8>,
    /// Unix seconds.
    pub start_after: Option<String>,
    /// Unix seconds, or `inf`.
    pub end_before: Option<String>,
    /// Seconds, or `inf`.
    pub timeout: Option<String>,
    /// A whole number.
    pub max_fails: Option<String>,
    /// A whole number.
    pub max_timeouts: Option<String>,
    /// Whether up to one second is added to `start_after`.
    pub add_random_start_offset: Option<bool>,
}

impl Order {
    /// A task with all defaults.
    #[must_use]
    pub fn new(program: &str, source: &str, input: impl AsRef<[u8]>) -> Self {
        let (program, source) = (program.to_owned(), source.to_owned());
        Self { program, source, input: input.as_ref().to_vec(), ..Self::default() }
    }

    /// The terms that hold, with `offset` seconds added if that is asked for.
    ///
    /// # Errors
    /// When a value is none that a task can have.
    pub fn terms(&self, defaults: &TdfTaskDefaults, offset: f64) -> Result<Terms, BadTerm> {
        let or = |said: &Option<String>, default: &String| said.as_ref().unwrap_or(default).clone();
        let terms = Terms {
            start_after: or(&self.start_after, &defaults.start_after),
            end_before: or(&self.end_before, &defaults.end_before),
            timeout: or(&self.timeout, &defaults.timeout),
            max_fails: or(&self.max_fails, &defaults.max_fails),
            max_timeouts: or(&self.max_timeouts, &defaults.max_timeouts),
        };
        let terms = terms.checked()?;
        let later = self.add_random_start_offset.unwrap_or(defaults.add_random_start_offset);
        Ok(if later { terms.started_later(offset) } else { terms })
    }
}

/// Why a task cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A value is none that a task can have; nothing was written.
    #[error(transparent)]
    Term(#[from] BadTerm),
    /// Redis does not answer as it should.
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl Namespace {
    /// Opens tasks and tells their ids, in the same order. `nonce` is a number that no other call has: a repetition of this one with
    /// the same orders opens nothing that it has opened before.
    ///
    /// # Errors
    /// When a value is none that a task can have, before anything is written, or when Redis does not answer as it should.
    pub fn open(
        &mut self,
        orders: &[Order],
        defaults: &TdfTaskDefaults,
        nonce: u64,
        mut offset: impl FnMut() -> f64,
    ) -> Result<Vec<TaskId>, OpenError> {
        let terms = orders.iter().map(|order| order.terms(defaults, offset())).collect::<Result<Vec<_>, _>>()?;
        let mut ids = Vec::with_capacity(orders.len());
        for (at, (orders, terms)) in orders.chunks(BATCH).zip(terms.chunks(BATCH)).enumerate() {
            let call = Call::new(scripts::OPEN).arg(format!("{nonce:016x}-{at}"));
            let mut call = call.arg(TOKEN_LIFETIME.as_secs().to_string()).arg(&self.name);
            for (order, terms) in orders.iter().zip(terms) {
                call = call.arg(&order.program).arg(&order.source).arg(&order.input);
                call = call.arg(&terms.start_after).arg(&terms.end_before).arg(&terms.timeout);
                call = call.arg(&terms.max_fails).arg(&terms.max_timeouts);
            }
            let opened: Vec<TaskId> =
                self.ask(call, |value| reply::list(value)?.into_iter().map(reply::parsed).collect())?;
            if opened.len() != orders.len() {
                return Err(self.link.reply(scripts::OPEN.name).into());
            }
            ids.extend(opened);
        }
        Ok(ids)
    }
}
