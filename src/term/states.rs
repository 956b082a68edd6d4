//! The words for phases and outcomes, as arguments.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use base::{Outcome, Phase, ShownState, words};

/// Reads the word of a phase.
pub fn phase() -> impl TypedValueParser<Value = Phase> {
    word(Phase::ALL.map(words::phase), words::phase_of)
}

/// Reads the word of an outcome.
pub fn outcome() -> impl TypedValueParser<Value = Outcome> {
    word(Outcome::ALL.map(words::outcome), words::outcome_of)
}

/// A state of a table: `ok`, `failed`, `timed-out` and so on.
pub fn shown(word: &str) -> Result<ShownState, String> {
    ShownState::of_word(word).ok_or_else(|| {
        let known: Vec<_> = shown_words().collect();
        format!("it is none of the states {}", known.join(", "))
    })
}

/// The words of all states of a table.
pub fn shown_words() -> impl Iterator<Item = String> {
    ShownState::ALL.into_iter().map(|state| state.word().replace(' ', "-"))
}

/// One of the words of the wire, in upper or lower case.
fn word<T, const N: usize>(words: [&'static str; N], of: fn(&str) -> Option<T>) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words)
        .try_map(move |word| of(&word.to_ascii_uppercase()).ok_or_else(|| format!("{word} is none of them")))
}
