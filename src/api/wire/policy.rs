//! The policy of a task, read from the submitted fields over the defaults of the configuration.

use std::sync::Arc;
use std::time::Duration;

use super::typed::{self, ahead, labels, moment, seconds, truth, whole};
use base::code::{Code, Refusal};
use base::json::ObjectWriter;
use base::{EndSignal, Fields, Labels, Policy, PolicyField, PolicySlot, Scalar, Wall, words};

/// The field of a policy with this word of the wire.
pub(super) fn field(word: &str) -> Option<&'static PolicyField> {
    let name = word.strip_prefix("__")?.strip_suffix("__")?;
    Policy::FIELDS.iter().find(|field| field.name == name)
}

/// Reads the policy of a task. A task without policy fields shares the defaults.
///
/// # Errors
/// -1007 when a field has an invalid value, or two contradict each other.
pub fn read(fields: &Fields, defaults: &Arc<Policy>) -> Result<Arc<Policy>, Refusal> {
    let mut policy = Arc::clone(defaults);
    for (word, _) in fields.iter() {
        if let Some(field) = field(word) {
            // The first field of the policy makes a copy of the defaults.
            set(Arc::make_mut(&mut policy), field, fields, word)?;
        }
    }
    if let (Some(start), Some(end)) = (policy.ahead.start, policy.ahead.end)
        && start >= end
    {
        let (start_after, end_before) = (words::START_AFTER, words::END_BEFORE);
        let [start, end] = [start, end].map(|time| time.as_secs_f64());
        let message =
            format!("{start_after} +{start} is not before {end_before} +{end}, so the task could never start");
        return Err(Refusal::new(Code::BadField, message));
    }
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
    if policy.merge && policy.fail_on_stderr {
        let message = format!(
            "{} and {} exclude one another: a run that is merged has no standard error",
            words::MERGE,
            words::FAIL_ON_STDERR
        );
        return Err(Refusal::new(Code::BadField, message));
    }
    if policy.push_ack && fields.get(words::ADDRESS).is_none() {
        let message = format!("{} is true, but there is no {} to push to", words::PUSH_ACK, words::ADDRESS);
        return Err(Refusal::new(Code::BadField, message));
    }
    Ok(policy)
}

/// Reads the value of one field.
fn set(policy: &mut Policy, field: &PolicyField, fields: &Fields, word: &str) -> Result<(), Refusal> {
    match field.slot {
        PolicySlot::Priority(of) => put(of(policy), priority(fields, word)?),
        PolicySlot::Count(of) => put(of(policy), whole(fields, word, Policy::COUNT_MAX)?),
        PolicySlot::Time(of) => put(of(policy), seconds(fields, word)?),
        PolicySlot::Limit(of) => put(of(policy), seconds(fields, word)?.map(Policy::limit)),
        PolicySlot::Moment(of, ahead_of) => match ahead(fields, word)? {
            Some(time) => *ahead_of(policy) = Some(time),
            None => put(of(policy), moment(fields, word)?.map(Some)),
        },
        PolicySlot::Truth(of) => put(of(policy), truth(fields, word)?),
        PolicySlot::Labels(of) => put(of(policy), Some(labels(fields, word)?)),
        PolicySlot::Signal(of) => put(of(policy), signal(fields, word)?),
    }
    Ok(())
}

/// Writes an accepted policy. A value that is 0, false or none is omitted.
pub(super) fn write(policy: &Policy, writer: &mut ObjectWriter<'_>) {
    // The slots of a policy are mutable references, so this works on copies.
    let (mut policy, mut none) = (policy.clone(), Policy::default());
    let (policy, none) = (&mut policy, &mut none);
    for field in Policy::FIELDS {
        match field.slot {
            PolicySlot::Priority(of) if of(policy) != of(none) => writer.literal(field.word, of(policy)),
            PolicySlot::Count(of) if of(policy) != of(none) => writer.literal(field.word, of(policy)),
            PolicySlot::Time(of) if of(policy) != of(none) => writer.literal(field.word, of(policy).as_secs_f64()),
            PolicySlot::Limit(of) if of(policy) != of(none) => {
                writer.maybe(field.word, of(policy).map(|limit| limit.as_secs_f64()));
            }
            PolicySlot::Moment(of, _) if of(policy) != of(none) => writer.maybe(field.word, *of(policy)),
            PolicySlot::Truth(of) if *of(policy) => writer.literal(field.word, true),
            PolicySlot::Labels(of) if of(policy) != of(none) => writer.text(field.word, &of(policy).to_string()),
            PolicySlot::Signal(of) if of(policy) != of(none) => writer.text(field.word, of(policy).word()),
            PolicySlot::Priority(_)
            | PolicySlot::Signal(_)
            | PolicySlot::Count(_)
            | PolicySlot::Time(_)
            | PolicySlot::Limit(_)
            | PolicySlot::Moment(..)
            | PolicySlot::Truth(_)
            | PolicySlot::Labels(_) => {}
        }
    }
}

/// Reads a policy as written by [`write`], each name behind `prefix`; `None` for an invalid one. An accepted policy stays valid,
/// even if it exceeds the present bounds for new tasks.
pub(super) fn restore(fields: &Fields, prefix: &str) -> Option<Policy> {
    let mut policy = Policy::default();
    for (word, value) in fields.iter().filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value))) {
        let policy = &mut policy;
        let time = || Duration::try_from_secs_f64(value.as_f64()?).ok();
        match field(word)?.slot {
            PolicySlot::Priority(of) => *of(policy) = i8::try_from(value.as_i64()?).ok()?,
            PolicySlot::Count(of) => *of(policy) = u32::try_from(value.as_u64()?).ok()?,
            PolicySlot::Time(of) => *of(policy) = time()?,
            PolicySlot::Limit(of) => *of(policy) = Some(time()?),
            PolicySlot::Moment(of, _) => *of(policy) = Some(Wall::from_unix_seconds(value.as_f64()?)?),
            PolicySlot::Truth(of) => *of(policy) = value.as_bool()?,
            PolicySlot::Labels(of) => *of(policy) = Labels::parse(value.as_text()?).ok()?,
            PolicySlot::Signal(of) => *of(policy) = EndSignal::parse(value.as_text()?)?,
        }
    }
    Some(policy)
}

/// The first signal for ending a run, and whether its two outputs are merged, from the fields of its task.
#[must_use]
pub fn of_run(fields: &Fields) -> (EndSignal, bool) {
    let signal = fields.text(words::END_SIGNAL).and_then(EndSignal::parse).unwrap_or_default();
    (signal, fields.get(words::MERGE).and_then(Scalar::as_bool).unwrap_or(false))
}

fn signal(fields: &Fields, word: &str) -> Result<Option<EndSignal>, Refusal> {
    typed::field(fields, word, EndSignal::WORDS, |value| EndSignal::parse(value.as_text()?))
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn priority(fields: &Fields, word: &str) -> Result<Option<i8>, Refusal> {
    let read = |value: &Scalar| i8::try_from(value.as_i64()?).ok().filter(|number| Policy::PRIORITIES.contains(number));
    typed::field(fields, word, "a whole number from -100 to 100", read)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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

    /// The clock of the sender may be wrong.
    #[test]
    fn a_moment_can_be_counted_from_the_acceptance() {
        let at = Wall::from_micros(1_480_000_000_000_000);
        let fields = Fields::new().with(words::START_AFTER, "+1.5").with(words::END_BEFORE, "+3");
        let accepted = read(&fields, &Arc::new(Policy::default())).unwrap().accepted(at);
        let [start, end] = [1500, 3000].map(|millis| Some(at + Duration::from_millis(millis)));
        assert_eq!((accepted.start_after, accepted.end_before), (start, end));
        assert_eq!(accepted.ahead, Default::default());
        let refusal = read(&fields.with(words::END_BEFORE, "+1"), &Arc::new(Policy::default())).unwrap_err();
        assert!(refusal.message.contains("+1.5 is not before __END_BEFORE__ +1"), "{refusal}");
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
            (words::START_AFTER, Scalar::from("+x")),
            (words::START_AFTER, Scalar::from("+-1")),
            (words::START_AFTER, Scalar::from("+1e300")),
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
