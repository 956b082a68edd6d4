//! Rows by group: exact counts, and the distributions of their times.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::keeper::Day;
use crate::protocol::requests::history::{GroupKey, GroupSummary};
use crate::protocol::rounds::block::{Block, Row, Text};
use crate::protocol::words;
use crate::types::{Distribution, RoundOutcome, Wall};

/// Groups of one answer, with some kilobytes each.
const GROUPS_MAX: usize = 20_000;

const PERCENTS: [u64; 3] = [50, 90, 99];

/// There are more groups than an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rounds form more than {GROUPS_MAX} groups; group by less, or shorten the time")]
pub struct TooManyGroups;

#[derive(Debug, Default)]
struct Group {
    counts: [u64; RoundOutcome::ALL.len()],
    ran: Distribution,
    runs: u64,
    waited: Distribution,
}

/// The numbers that make a row one of a group, within a block.
type Numbers = [u64; GroupKey::ALL.len()];

/// See the [module](self).
#[derive(Debug)]
pub struct Summaries {
    by: Vec<GroupKey>,
    clock_ahead: i32,
    groups: Vec<Group>,
    /// The positions of groups, in the order of their keys.
    keys: BTreeMap<Vec<String>, usize>,
    /// The same for the block that is being read.
    of_block: HashMap<Numbers, usize>,
}

impl Summaries {
    /// Groups rows by these keys; the days of the reader begin so many seconds before those of UTC.
    #[must_use]
    pub fn new(by: Vec<GroupKey>, clock_ahead: i32) -> Self {
        Self { by, clock_ahead, groups: Vec::new(), keys: BTreeMap::new(), of_block: HashMap::new() }
    }

    /// A block begins: its texts have numbers of their own.
    pub fn begin_block(&mut self) {
        self.of_block.clear();
    }

    /// Takes a row that matches.
    ///
    /// # Errors
    /// When there are too many groups.
    pub fn add(&mut self, block: &Block<'_>, row: &Row) -> Result<(), TooManyGroups> {
        let mut numbers = Numbers::default();
        for (number, key) in numbers.iter_mut().zip(&self.by) {
            *number = self.number(*key, row);
        }
        let at = match self.of_block.get(&numbers) {
            Some(at) => *at,
            None => self.place(numbers, block)?,
        };
        let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
        group.counts[usize::from(row.outcome.number())] += 1;
        group.waited.add(row.waited);
        if let Some(ran) = row.ran {
            group.ran.add(ran);
            group.runs += 1;
        }
        Ok(())
    }

    fn number(&self, key: GroupKey, row: &Row) -> u64 {
        match key {
            GroupKey::Day => Day::of(self.at_reader(row.ended_at)).0,
            GroupKey::Hour => row.ended_at.micros() / MICROS_OF_AN_HOUR,
            GroupKey::Tool => row.text(Text::Tool).into(),
            GroupKey::Outcome => row.outcome.number().into(),
            GroupKey::Job => row.text(Text::Job).into(),
            GroupKey::Agent => row.text(Text::Agent).into(),
            GroupKey::Host => row.text(Text::Host).into(),
        }
    }

    /// A moment as the clocks of the reader show it.
    fn at_reader(&self, at: Wall) -> Wall {
        Wall::from_micros(at.micros().saturating_add_signed(i64::from(self.clock_ahead) * 1_000_000))
    }

    fn place(&mut self, numbers: Numbers, block: &Block<'_>) -> Result<usize, TooManyGroups> {
        let text = |(key, number): (&GroupKey, u64)| match key {
            GroupKey::Day => Day(number).to_string(),
            GroupKey::Hour => (number * MICROS_OF_AN_HOUR / 1_000_000).to_string(),
            GroupKey::Outcome => {
                let outcome = RoundOutcome::ALL.into_iter().find(|outcome| u64::from(outcome.number()) == number);
                outcome.map_or("", words::round_outcome).to_owned()
            }
            GroupKey::Tool | GroupKey::Job | GroupKey::Agent | GroupKey::Host => {
                block.text(u32::try_from(number).unwrap_or_default()).to_owned()
            }
        };
        let key: Vec<_> = self.by.iter().zip(numbers).map(text).collect();
        let next = self.groups.len();
        let at = *self.keys.entry(key).or_insert(next);
        if at == next {
            if next >= GROUPS_MAX {
                return Err(TooManyGroups);
            }
            self.groups.push(Group::default());
        }
        self.of_block.insert(numbers, at);
        Ok(at)
    }

    /// Number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is no group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups behind the first ones, in the order of their keys.
    #[must_use]
    pub fn page(&self, skipped: usize, len: usize) -> Vec<GroupSummary> {
        let page = self.keys.iter().skip(skipped).take(len);
        page.filter_map(|(key, at)| Some(self.summary(key, self.groups.get(*at)?))).collect()
    }

    fn summary(&self, key: &[String], group: &Group) -> GroupSummary {
        let quantiles = |times: &Distribution| PERCENTS.map(|percent| times.quantile(percent));
        let ran: Option<[Duration; 3]> = (group.runs > 0).then(|| quantiles(&group.ran));
        GroupSummary {
            key: self.by.iter().copied().zip(key.iter().cloned()).collect(),
            counts: group.counts,
            ran,
            waited: quantiles(&group.waited),
        }
    }
}

const MICROS_OF_AN_HOUR: u64 = 3_600_000_000;
