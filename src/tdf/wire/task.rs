//! A whole task as its hash has it, typed where it can be, and as a JSON value for people and programs.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value, json};

use super::words::{self, field};
use base::tdf::number::{float, int};
use base::tdf::{State, TaskId};

/// Fields that are numbers, as far as they are finite.
const NUMBERS: [&str; 8] = [
    field::START_AFTER,
    field::END_BEFORE,
    field::TIMEOUT,
    field::MAX_FAILS,
    field::MAX_TIMEOUTS,
    field::ROUND,
    field::FAILS,
    field::TIMEOUTS,
];

/// A task as it was read, with unchecked fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    id: TaskId,
    /// The set that it was read from.
    set: Option<State>,
    fields: BTreeMap<String, Vec<u8>>,
}

impl Task {
    /// A task of these fields, found in this set.
    #[must_use]
    pub fn new(id: TaskId, set: Option<State>, fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Self {
        let named = |(name, value): (Vec<u8>, Vec<u8>)| (String::from_utf8_lossy(&name).into_owned(), value);
        Self { id, set, fields: fields.into_iter().map(named).collect() }
    }

    /// The number of the task.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// The set of the entry: `archived` for a task whose field `state` still has its end.
    #[must_use]
    pub const fn set(&self) -> Option<State> {
        self.set
    }

    /// The field `state`, if it is a known one.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        words::parse_state(&self.text(field::STATE)?)
    }

    /// The field `round`.
    #[must_use]
    pub fn round(&self) -> Option<u32> {
        self.text(field::ROUND)?.parse().ok()
    }

    /// A field as it is.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name).map(Vec::as_slice)
    }

    /// A field of a round, such as `output`.
    #[must_use]
    pub fn of_round(&self, round: u32, name: &str) -> Option<&[u8]> {
        self.get(&words::of_round(round, name))
    }

    /// A field of the last round.
    #[must_use]
    pub fn current(&self, name: &str) -> Option<&[u8]> {
        self.of_round(self.round()?, name)
    }

    /// A field as text; bytes that are none are replaced.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The task as one JSON object: the fields of the task, its log as a list of lines, and its rounds as a list of objects.
    /// A number that JSON has not, such as `inf`, is a text.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert(field::ID.to_owned(), json!(self.id.0));
        let mut rounds: BTreeMap<u32, Map<String, Value>> = BTreeMap::new();
        for (name, bytes) in &self.fields {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let of_round = name.split_once(':').and_then(|(round, name)| Some((round.parse().ok()?, name)));
            match (of_round, name.as_str()) {
                (Some((round, name)), _) => {
                    let value = if words::parse_state(name).is_some() { number(&text) } else { Value::String(text) };
                    rounds.entry(round).or_default().insert(name.to_owned(), value);
                }
                (None, field::ID) => {}
                (None, field::LOG) => {
                    object.insert(field::LOG.to_owned(), text.lines().collect());
                }
                (None, name) => {
                    let value = if NUMBERS.contains(&name) { number(&text) } else { Value::String(text) };
                    object.insert(name.to_owned(), value);
                }
            }
        }
        if let Some(set) = self.set {
            object.insert("set".to_owned(), json!(words::state(set)));
        }
        let rounds = rounds.into_iter().map(|(round, mut fields)| {
            fields.shift_insert(0, field::ROUND.to_owned(), json!(round));
            Value::Object(fields)
        });
        object.insert("rounds".to_owned(), rounds.collect());
        Value::Object(object)
    }
}

fn number(text: &str) -> Value {
    let whole = int(text).filter(|number| !matches!(*number, i64::MIN | i64::MAX)).map(Number::from);
    let number = whole.or_else(|| float(text).and_then(Number::from_f64));
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_one_object_with_its_rounds() {
        let fields = [
            ("id", "7"),
            ("input", "a b"),
            ("timeout", "inf"),
            ("start_after", "12.5"),
            ("max_fails", "1"),
            ("state", "succeeded"),
            ("round", "1"),
            ("log", "one\ntwo"),
            ("0:open", "1.5"),
            ("0:error", "bad\n"),
            ("1:output", "5"),
        ];
        let fields = fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let task = Task::new(TaskId(7), Some(State::Archived), fields);
        assert_eq!((task.state(), task.round()), (Some(State::Succeeded), Some(1)));
        assert_eq!((task.current("output"), task.current("error")), (Some(&b"5"[..]), None));
        let expected = json!({
            "id": 7, "input": "a b", "timeout": "inf", "start_after": 12.5, "max_fails": 1, "state": "succeeded",
            "round": 1, "log": ["one", "two"], "set": "archived",
            "rounds": [{"round": 0, "open": 1.5, "error": "bad\n"}, {"round": 1, "output": "5"}],
        });
        assert_eq!(task.to_json(), expected);
    }
}
