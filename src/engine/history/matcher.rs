//! Selects rows of a block.

use crate::protocol::requests::history::RoundFilter;
use crate::protocol::rounds::block::{Block, Row, Text};

/// A filter, with the numbers that its texts have in one block.
#[derive(Debug)]
pub struct Matcher<'a> {
    filter: &'a RoundFilter,
    texts: Vec<(Text, u32)>,
}

impl<'a> Matcher<'a> {
    /// The matcher for a block; `None` if no row of it can match.
    #[must_use]
    pub fn new(filter: &'a RoundFilter, block: &Block<'_>) -> Option<Self> {
        let wanted = [
            (Text::Tool, &filter.tool),
            (Text::Job, &filter.job),
            (Text::Agent, &filter.agent),
            (Text::GivenId, &filter.given_id),
        ];
        let mut texts = Vec::new();
        for (text, wanted) in wanted {
            if let Some(wanted) = wanted {
                let number = block.texts().iter().position(|text| text == wanted)?;
                texts.push((text, u32::try_from(number).ok()?));
            }
        }
        Some(Self { filter, texts })
    }

    /// Whether a row of the block matches.
    #[must_use]
    pub fn matches(&self, row: &Row) -> bool {
        let filter = self.filter;
        (filter.since..filter.until).contains(&row.ended_at)
            && (filter.outcomes.is_empty() || filter.outcomes.contains(&row.outcome))
            && self.texts.iter().all(|(text, number)| row.text(*text) == *number)
            && (filter.task.is_none() || filter.task == row.task())
            && filter.letters.is_none_or(|letters| row.task().is_some_and(|task| task.letters() == letters))
    }
}
