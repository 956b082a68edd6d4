//! The decision of a server about a task, as its script reads it.

use serde_json::{Value, json};

use crate::engine::judge::Verdict;
use crate::wire::{Facts, hop, words};
use base::tdf::number::repr;
use base::tdf::{State, TaskId};

/// The decision and its fence. `None` if nothing is to be done.
pub(super) fn encode(facts: &Facts, verdict: &Verdict) -> Option<Value> {
    let set = facts.set.map_or("none", words::state);
    let (id, round) = (facts.task.to_string(), facts.round.to_string());
    let run = facts.run.as_ref().filter(|_| facts.set == Some(State::Running));
    let start = run.map_or("", |run| run.started.as_str());
    Some(match verdict {
        Verdict::Move(hops) => json!(["move", id, set, round, start, hop::encode(hops)]),
        Verdict::Lost(hops) => json!(["lost", id, set, round, start, hop::encode(hops)]),
        Verdict::Rescore(score) => json!(["rescore", id, set, round, start, repr(*score)]),
        Verdict::Stray => json!(["stray", id, set, round, start]),
        Verdict::Wait(_) | Verdict::NoStart => return None,
    })
}

/// The decision about a task in no set; the fence is its state and round.
pub(super) fn encode_adoption(facts: &Facts, verdict: &Verdict) -> Option<Value> {
    let state = words::state(facts.state?);
    let (hops, is_loss) = match verdict {
        Verdict::Move(hops) => (hops, false),
        Verdict::Lost(hops) => (hops, true),
        Verdict::Wait(_) | Verdict::Rescore(_) | Verdict::Stray | Verdict::NoStart => return None,
    };
    Some(json!(["adopt", facts.task.to_string(), state, facts.round.to_string(), "", hop::encode(hops), is_loss]))
}

/// A poisoned entry.
pub(super) fn encode_poison(id: &[u8], set: State, sentence: &str) -> Value {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    json!(["poison", digits, words::state(set), "", "", sentence])
}

/// The task of an entry, if its bytes are a number.
pub(super) fn task_of(id: &[u8]) -> Option<TaskId> {
    std::str::from_utf8(id).ok()?.parse().ok()
}
