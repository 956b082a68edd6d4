//! The words for phases and outcomes, as arguments.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use base::{Outcome, Phase, ShownState, words};

/// Parses the word of a phase.
pub fn phase() -> impl TypedValueParser<Value = Phase> {
    word(Phase::ALL.map(words::phase), words::phase_of)
}

/// Parses the word of an outcome.
pub fn outcome() -> impl TypedValueParser<Value = Outcome> {
    word(Outcome::ALL.map(words::outcome), words::outcome_of)
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

/// Parses one of these words, in upper or lower case.
fn word<T, const N: usize>(words: [&'static str; N], of: fn(&str) -> Option<T>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words)
        .try_map(move |word| of(&word.to_ascii_uppercase()).ok_or_else(|| format!("{word} is none of them")))
}
