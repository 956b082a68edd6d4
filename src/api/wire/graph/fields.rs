//! The fields for the tasks of a step: `policy`, of a graph or of a step, and `parameters`.

use super::table::{Place, Table, bad};
use crate::wire::{policy, source};
use base::code::{Code, Refusal, shown};
use base::json::FieldLimits;
use base::{Fields, Policy, nearest_hint, words};

/// The fields of a submit that may stand in a `policy` although they are none, in addition to [`source::WORDS`].
const BESIDE_POLICY: [&str; 7] =
    [words::ADDRESS, words::ADDRESS_KEY, words::EXPECTED_DURATION, words::CWD, words::STDIN, words::UMASK, words::ENV];

/// The fields of a submit that a `policy` must not have: the graph sets them, or they would contradict it.
const OF_THE_GRAPH: [&str; 10] = [
    words::OPERATION,
    words::COMMAND,
    words::SHELL,
    words::FATHER_ID,
    words::AFTER,
    words::JOB,
    words::JOB_MAX_FAILS,
    words::JOB_PUSH,
    words::SUBMIT_KEY,
    words::GIVEN_ID,
];

/// Whether a field of a policy concerns commands alone.
pub(super) fn is_of_a_command(name: &str) -> bool {
    [words::CWD, words::STDIN, words::UMASK, words::ENV].contains(&name)
}

/// The policy in this table.
pub(super) fn policy(table: &mut Table) -> Result<Fields, Refusal> {
    let fields = table.fields("policy")?;
    for (name, _) in fields.iter() {
        if OF_THE_GRAPH.contains(&name) {
            let what =
                format!("policy: {name} is not allowed here: the graph says what its tasks are and when they start");
            return Err(bad(&table.place, what));
        }
        let is_of_a_source = source::WORDS.contains(&name);
        if is_of_a_source && matches!(table.place, Place::Graph) {
            let what = format!("policy: {name} concerns the program of one step: put it into the policy of that step");
            return Err(bad(&table.place, what));
        }
        if policy::field(name).is_none() && !BESIDE_POLICY.contains(&name) && !is_of_a_source {
            let known = Policy::FIELDS.iter().map(|field| field.word).chain(BESIDE_POLICY).chain(source::WORDS);
            let what = format!("policy: {} is not a field of a submit{}", shown(name), nearest_hint(name, known));
            return Err(bad(&table.place, what));
        }
    }
    Ok(fields)
}

/// The parameters in this table.
pub(super) fn parameters(table: &mut Table) -> Result<Fields, Refusal> {
    let fields = table.fields("parameters")?;
    if let Some((name, _)) = fields.iter().find(|(name, _)| name.starts_with("__") || words::is_of_a_round(name)) {
        let what = format!(
            "parameters: {} has the form of a field of the service; rename it, or put it into policy",
            shown(name)
        );
        return Err(bad(&table.place, what));
    }
    Ok(fields)
}

/// Checks the limits for the fields of a submit.
pub(super) fn check_size(fields: &Fields, limits: &FieldLimits) -> Result<(), Refusal> {
    if fields.len() > limits.fields {
        let (count, max) = (fields.len(), limits.fields);
        let message = format!("its tasks have {count} fields; at most {max} are accepted (FIELDS_MAX)");
        return Err(Refusal::new(Code::LimitReached, message));
    }
    for (name, value) in fields.iter() {
        if name.len() > limits.name_bytes {
            let max = limits.name_bytes;
            let message = format!("the field name {} is longer than {max} bytes (FIELD_NAME_BYTES_MAX)", shown(name));
            return Err(Refusal::new(Code::BadField, message));
        }
        let (max, key, code) = limits.of_text(name);
        if let Some(text) = value.as_text().filter(|text| text.len() > max) {
            let message = format!("field {} has {} bytes; at most {max} are accepted ({key})", shown(name), text.len());
            return Err(Refusal::new(code, message));
        }
    }
    Ok(())
}
