//! The words for phases and outcomes, as arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use base::{Outcome, Phase, ShownState, words};

/// Parses one of these words, in the meaning that `read` gives to it.
pub fn one_of<Read: Clone + Send + Sync + 'static>(
    words: impl Into<PossibleValuesParser>,
    read: impl Fn(&str) -> Option<Read> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = Read> {
    words.into().try_map(move |word| read(&word).ok_or_else(|| format!("{word} is none of them")))
}

/// Parses the word of a phase.
pub fn phase() -> impl TypedValueParser<Value = Phase> {
    one_of(Phase::ALL.map(words::phase), |word| words::phase_of(&word.to_ascii_uppercase()))
}

/// Parses the word of an outcome, or that of its state in tables.
pub fn outcome() -> impl TypedValueParser<Value = Outcome> {
    one_of(Outcome::ALL.map(value), ended)
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
