//! Opens tasks: many of them in one script, and each once, however often the script is sent.

use std::fmt::Write as _;
use std::time::Duration;

use super::error::RedisError;
use super::link::Call;
use super::namespace::Namespace;
use super::{reply, scripts};
use crate::wire::terms::{BadTerm, Terms};
use api::config::TdfTaskDefaults;
use base::tdf::TaskId;

/// Tasks that one script opens: it keeps Redis from others for some milliseconds.
const BATCH: usize = 500;

/// How long Redis remembers a token: longer than an opener repeats it. Each costs some hundred bytes.
const TOKEN_LIFETIME: Duration = Duration::from_secs(120);

/// A task that is to be opened. Missing values are taken from `[task_defaults]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The name of the program.
    pub program: String,
    /// Where the program comes from.
    pub source: String,
    /// Arguments of the program, as a shell reads them.
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
    /// When a value is invalid for a task.
    pub fn terms(&self, defaults: &TdfTaskDefaults, offset: f64) -> Result<Terms, BadTerm> {
        let or = |given: &Option<String>, default: &String| given.as_ref().unwrap_or(default).clone();
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
    /// A value is invalid for a task; nothing was written.
    #[error(transparent)]
    Term(#[from] BadTerm),
    /// Redis does not answer as it should, and nothing was opened.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Redis does not answer as it should, and some tasks are open, or may be.
    #[error("{error}; {}", known(opened.len(), *doubtful, *all))]
    Partly {
        /// The first tasks, which are open.
        opened: Vec<TaskId>,
        /// The number of those after them of which nothing is known.
        doubtful: usize,
        /// The number of all that were to be opened. The rest is not open.
        all: usize,
        /// The error of Redis.
        error: RedisError,
    },
}

fn known(opened: usize, doubtful: usize, all: usize) -> String {
    let mut text = format!("{opened} of {all} were opened");
    if doubtful > 0 {
        let which = if doubtful == 1 { "the next one is".to_owned() } else { format!("the next {doubtful} are") };
        let _ = write!(
            text,
            ", and whether {which} open is not known; look with 'llts tdf list CFG open' before you repeat"
        );
    }
    if opened + doubtful < all {
        let _ = write!(text, "; the last {} were not opened", all - opened - doubtful);
    }
    text
}

impl Namespace {
    /// Opens tasks and returns their ids, in the same order. During an outage the call is repeated for a bounded time. `nonce` is a
    /// number that no other call has: a repetition of this call with the same orders opens no task twice.
    ///
    /// # Errors
    /// When a value is invalid for a task, before anything is written, or when Redis does not answer as it should.
    pub fn open(
        &mut self,
        orders: &[Order],
        defaults: &TdfTaskDefaults,
        nonce: u64,
        mut offset: impl FnMut() -> f64,
    ) -> Result<Vec<TaskId>, OpenError> {
        let terms = orders.iter().map(|order| order.terms(defaults, offset())).collect::<Result<Vec<_>, _>>()?;
        let all = orders.len();
        let mut ids = Vec::with_capacity(all);
        for (at, (orders, terms)) in orders.chunks(BATCH).zip(terms.chunks(BATCH)).enumerate() {
            let call = Call::new(scripts::OPEN).arg(format!("{nonce:016x}-{at}"));
            let mut call = call.arg(TOKEN_LIFETIME.as_secs().to_string()).arg(&self.name);
            for (order, terms) in orders.iter().zip(terms) {
                call = call.arg(&order.program).arg(&order.source).arg(&order.input);
                call = call.arg(&terms.start_after).arg(&terms.end_before).arg(&terms.timeout);
                call = call.arg(&terms.max_fails).arg(&terms.max_timeouts);
            }
            let count = orders.len();
            let opened = self.ask_patiently(&call, |value| {
                let ids: Vec<TaskId> = reply::list(value)?.into_iter().map(reply::parsed).collect::<Option<_>>()?;
                (ids.len() == count).then_some(ids)
            });
            match opened {
                Ok(opened) => ids.extend(opened),
                Err(error) => return Err(partly(ids, count, all, error)),
            }
        }
        Ok(ids)
    }
}

/// The state after an error in the middle: a refused script has opened nothing.
fn partly(opened: Vec<TaskId>, asked: usize, all: usize, error: RedisError) -> OpenError {
    let doubtful = if matches!(error, RedisError::Away { .. } | RedisError::Reply { .. }) { asked } else { 0 };
    if opened.is_empty() && doubtful == 0 {
        return error.into();
    }
    OpenError::Partly { opened, doubtful, all, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_the_middle_says_what_is_open() {
        let away = RedisError::Away { address: "h:1".to_owned(), message: "gone".to_owned(), was_reached: true };
        let text = partly(vec![TaskId(1), TaskId(2)], 3, 9, away.clone()).to_string();
        assert!(
            text.starts_with("Redis at h:1 is away: gone; 2 of 9 were opened, and whether the next 3 are open"),
            "{text}"
        );
        assert!(text.ends_with("; the last 4 were not opened"), "{text}");
        assert!(partly(vec![], 1, 1, away).to_string().contains("whether the next one is open is not known"));
        let full = RedisError::Failed { address: "h:1".to_owned(), script: "open", message: "OOM".to_owned() };
        assert!(matches!(partly(vec![], 3, 9, full.clone()), OpenError::Redis(_)));
        assert!(
            partly(vec![TaskId(1)], 3, 9, full).to_string().ends_with("1 of 9 were opened; the last 8 were not opened")
        );
    }
}
