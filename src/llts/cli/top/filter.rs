//! The filter line of a view, as the user types it: `state=failed,lost tool=x corrupt header`.

use base::{ShownState, Wall};

use api::wire::Narrowing;
use api::wire::client::Selector;
use api::wire::requests::history::SortKey;
use api::wire::requests::rows::{Order, RowsAsk};
use term::{states, when};

/// The names allowed before `=` in a word.
pub(super) const NAMES: &str = "state= tool= job= agent= since= until= longer=yes, and any text";

/// The tasks that a filter selects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filter {
    pub(super) selector: Selector,
    pub(super) wanted: RowsAsk,
}

/// Parses a filter of tasks. An error is a sentence about the wrong word.
pub(super) fn parse(text: &str, (sort, is_reversed): (SortKey, bool), now: Wall) -> Result<Filter, String> {
    let mut filter = Filter::default();
    filter.wanted.order = Order { by: sort, is_reversed };
    let (mut narrowing, mut texts) = (Narrowing::default(), Vec::new());
    for word in text.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            texts.push(word);
            continue;
        };
        let bad = |why: String| format!("{word}: {why}");
        match name {
            "state" => narrowing.states = read_states(value).map_err(bad)?,
            "tool" => filter.wanted.tool = Some(value.to_owned()),
            "agent" => filter.wanted.agent = Some(value.to_owned()),
            "job" => filter.selector = filter.selector.and_job(value),
            "since" => narrowing.since = Some(when::past(value).map_err(bad)?.wall(now)),
            "until" => narrowing.until = Some(when::past(value).map_err(bad)?.wall(now)),
            "longer" => narrowing.runs_longer = value == "yes",
            // The word belongs to a command, such as `in=film7.mov`.
            _ => texts.push(word),
        }
    }
    narrowing.text = (!texts.is_empty()).then(|| texts.join(" ").to_lowercase());
    filter.wanted.narrowing = narrowing;
    Ok(filter)
}

fn read_states(words: &str) -> Result<Vec<ShownState>, String> {
    words.split(',').filter(|word| !word.is_empty()).map(states::shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Outcome;

    #[test]
    fn a_line_is_read_word_by_word() {
        let read = |text| parse(text, (SortKey::Ran, true), Wall::from_micros(1_480_000_000_000_000));
        let filter = read("state=failed,lost tool=t Corrupt  in=film7.mov job=j").unwrap();
        let narrowing = &filter.wanted.narrowing;
        assert_eq!(narrowing.states, [Outcome::Failed, Outcome::Lost].map(ShownState::Finished));
        assert_eq!(narrowing.text.as_deref(), Some("corrupt in=film7.mov"));
        assert_eq!(filter.wanted.tool.as_deref(), Some("t"));
        assert_eq!(filter.selector, Selector::all().and_job("j"));
        assert_eq!(filter.wanted.order, Order { by: SortKey::Ran, is_reversed: true });
        assert!(read("").unwrap().wanted.narrowing.is_empty());
        assert!(read("state=odd").unwrap_err().starts_with("state=odd: "));
        assert!(read("since=x").unwrap_err().starts_with("since=x: "));
    }
}
