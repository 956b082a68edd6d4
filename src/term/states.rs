//! The words for phases and outcomes, as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use base::{Outcome, Phase, ShownState, words};

/// Parses the word of a phase.
pub fn phase() -> impl TypedValueParser<Value = Phase> {
    PossibleValuesParser::new(Phase::ALL.map(words::phase))
        .try_map(|word| words::phase_of(&word.to_ascii_uppercase()).ok_or_else(|| format!("{word} is none of them")))
}

/// Parses the word of an outcome, or that of its state in tables.
pub fn outcome() -> impl TypedValueParser<Value = Outcome> {
    PossibleValuesParser::new(Outcome::ALL.map(value))
        .try_map(|word| ended(&word).ok_or_else(|| format!("{word} is none of them")))
}

/// The word of an outcome, and that of its state in tables.
pub fn value(outcome: Outcome) -> PossibleValue {
    PossibleValue::new(words::outcome(outcome)).alias(ShownState::Finished(outcome).word().replace(' ', "-"))
}

/// The outcome with one of these words.
#[must_use]
pub fn ended(word: &str) -> Option<Outcome> {
    match ShownState::of_word(word) {
        Some(ShownState::Finished(outcome)) => Some(outcome),
        _ => None,
    }
}

/// Parses a state as shown in tables: `ok`, `failed`, `timed-out` and so on.
pub fn shown(word: &str) -> Result<ShownState, String> {
    ShownState::of_word(word).ok_or_else(|| {
        let known: Vec<_> = shown_words().collect();
        format!("it is none of the states {}", known.join(", "))
    })
}

/// The words of all states shown in tables.
pub fn shown_words() -> impl Iterator<Item = String> {
    ShownState::ALL.into_iter().map(|state| state.word().replace(' ', "-"))
}
