//! The policy of a task, read from what was submitted over the defaults of the configuration (design, section 5).

use std::sync::Arc;

use super::code::{Code, Refusal};
use super::typed::{bad, labels, moment, seconds, truth, whole};
use super::words;
use crate::types::{Fields, Needs, Policy};

/// Budgets beyond this are no budgets.
const COUNT_MAX: u32 = 1_000_000;

const PRIORITY_MAX: i64 = 100;

/// The names of all fields that make a policy.
const NAMES: [&str; 14] = [
    words::START_AFTER,
    words::END_BEFORE,
    words::TIMEOUT,
    words::MAX_FAILS,
    words::MAX_TIMEOUTS,
    words::MAX_LOSSES,
    words::MAX_DEFERS,
    words::RETRY_DELAY,
    words::FAIL_ON_STDERR,
    words::EXCLUSIVE,
    words::PRIORITY,
    words::GATE,
    words::TAGS,
    words::PUSH_ACK,
];

/// Reads the policy of a task. One that demands nothing of its own shares the defaults.
///
/// # Errors
/// -1007 when a field has a bad value, or two contradict each other.
pub fn read(fields: &Fields, defaults: &Arc<Policy>) -> Result<Arc<Policy>, Refusal> {
    if !fields.iter().any(|(name, _)| NAMES.contains(&name)) {
        return Ok(Arc::clone(defaults));
    }
    let or = |value: Option<u32>, default| value.unwrap_or(default);
    let count = |name| whole(fields, name, COUNT_MAX);
    let policy = Policy {
        start_after: moment(fields, words::START_AFTER)?,
        end_before: moment(fields, words::END_BEFORE)?,
        // 0 seconds are no limit, so that a submitter can lift a default.
        timeout: seconds(fields, words::TIMEOUT)?.or(defaults.timeout).filter(|timeout| !timeout.is_zero()),
        fails_max: or(count(words::MAX_FAILS)?, defaults.fails_max),
        timeouts_max: or(count(words::MAX_TIMEOUTS)?, defaults.timeouts_max),
        losses_max: or(count(words::MAX_LOSSES)?, defaults.losses_max),
        defers_max: or(count(words::MAX_DEFERS)?, defaults.defers_max),
        retry_delay: seconds(fields, words::RETRY_DELAY)?.unwrap_or(defaults.retry_delay),
        fail_on_stderr: truth(fields, words::FAIL_ON_STDERR)?.unwrap_or(defaults.fail_on_stderr),
        priority: priority(fields)?.unwrap_or(defaults.priority),
        needs: Needs {
            gates: labels(fields, words::GATE)?,
            tags: labels(fields, words::TAGS)?,
            exclusive: truth(fields, words::EXCLUSIVE)?.unwrap_or(defaults.needs.exclusive),
        },
        push_ack: truth(fields, words::PUSH_ACK)?.unwrap_or(defaults.push_ack),
    };
    if let (Some(start), Some(end)) = (policy.start_after, policy.end_before)
        && start >= end
    {
        let message = format!(
            "{} {start} is not before {} {end}, so the task could never start",
            words::START_AFTER,
            words::END_BEFORE
        );
        return Err(Refusal::new(Code::BadField, message));
    }
    if policy.push_ack && fields.get(words::ADDRESS).is_none() {
        let message = format!("{} is true, but there is no {} to push to", words::PUSH_ACK, words::ADDRESS);
        return Err(Refusal::new(Code::BadField, message));
    }
    Ok(Arc::new(policy))
}

fn priority(fields: &Fields) -> Result<Option<i8>, Refusal> {
    let Some(value) = fields.get(words::PRIORITY) else { return Ok(None) };
    let number = value.as_i64().filter(|number| number.abs() <= PRIORITY_MAX);
    let number = number.and_then(|number| i8::try_from(number).ok());
    number.map(Some).ok_or_else(|| bad(words::PRIORITY, value, "a whole number from -100 to 100"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::types::Scalar;

    fn read_of(name: &str, value: impl Into<Scalar>) -> Result<Arc<Policy>, Refusal> {
        read(&Fields::new().with(name, value), &Arc::new(Policy { losses_max: 3, ..Policy::default() }))
    }

    #[test]
    fn a_task_without_demands_shares_the_defaults() {
        let defaults = Arc::new(Policy::default());
        let policy = read(&Fields::new().with("a", 1u32), &defaults).unwrap();
        assert!(Arc::ptr_eq(&policy, &defaults));
    }

    #[test]
    fn what_is_demanded_stands_over_the_defaults() {
        let policy = read_of(words::TIMEOUT, 1.5).unwrap();
        assert_eq!((policy.timeout, policy.losses_max), (Some(Duration::from_millis(1500)), 3));
        assert_eq!(read_of(words::PRIORITY, -100i32).unwrap().priority, -100);
        assert_eq!(read_of(words::GATE, "b, a").unwrap().needs.gates.to_string(), "a,b");
    }

    #[test]
    fn a_bad_value_is_refused_with_its_name() {
        for (name, value) in [
            (words::TIMEOUT, Scalar::from(-1.0)),
            (words::TIMEOUT, Scalar::from("5")),
            (words::RETRY_DELAY, Scalar::from(1e300)),
            (words::MAX_FAILS, Scalar::from(-1i32)),
            (words::MAX_FAILS, Scalar::from(1.5)),
            (words::MAX_DEFERS, Scalar::Null),
            (words::PRIORITY, Scalar::from(101i32)),
            (words::FAIL_ON_STDERR, Scalar::from(1i32)),
            (words::EXCLUSIVE, Scalar::from("yes")),
            (words::START_AFTER, Scalar::from(-5.0)),
            (words::END_BEFORE, Scalar::from("tomorrow")),
            (words::GATE, Scalar::from("a b")),
            (words::TAGS, Scalar::from(7u32)),
            (words::PUSH_ACK, Scalar::from(true)),
        ] {
            let refusal = read_of(name, value).unwrap_err();
            assert_eq!(refusal.code, Code::BadField);
            assert!(refusal.message.contains(name), "{}", refusal.message);
        }
    }
}
