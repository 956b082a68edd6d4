//! One step of a task between two states, as the scripts take it.

use serde_json::{Value, json};

use super::words;
use base::tdf::State;

/// One step. Consecutive steps form one move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The set that the task leaves; `None` for a task in no set.
    pub from: Option<State>,
    /// The set that the task enters.
    pub to: State,
    /// The round in which the moment is kept.
    pub round: u32,
    /// Fields and their new values.
    pub changes: Vec<(String, String)>,
    /// A note behind the two states in the log, in parentheses.
    pub note: String,
}

/// The hops of a move as the scripts read them: `[[from, to, round, [field, value, …], note], …]`.
#[must_use]
pub fn encode(hops: &[Hop]) -> Value {
    let encoded = hops.iter().map(|hop| {
        let changes = hop.changes.iter().flat_map(|(field, value)| [field.as_str(), value.as_str()]);
        let from = hop.from.map_or("none", words::state);
        let note = if hop.note.is_empty() { String::new() } else { format!(" ({})", hop.note) };
        json!([from, words::state(hop.to), hop.round.to_string(), changes.collect::<Vec<_>>(), note])
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_a_list_of_its_hops() {
        let first = Hop { from: None, to: State::Timeout, round: 1, changes: Vec::new(), note: String::new() };
        let changes = vec![("round".to_owned(), "2".to_owned())];
        let second = Hop { from: Some(State::Timeout), to: State::Open, round: 2, changes, note: "w lost".to_owned() };
        let expected = r#"[["none","timeout","1",[],""],["timeout","open","2",["round","2"]," (w lost)"]]"#;
        assert_eq!(encode(&[first, second]).to_string(), expected);
    }
}
