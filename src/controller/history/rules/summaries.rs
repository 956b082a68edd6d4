//! Rounds by group: exact counts, and the distributions of their times.

use std::collections::HashMap;
use std::time::Duration;

use api::wire::requests::history::{GroupKey, GroupSummary};
use base::{Distribution, RoundOutcome};

/// Maximum number of groups in one answer, with some kilobytes each.
const GROUPS_MAX: usize = 20_000;

const PERCENTS: [u64; 3] = [50, 90, 99];

/// There are more groups than an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rounds form more than {GROUPS_MAX} groups; group by less, or shorten the time")]
pub struct TooManyGroups;

#[derive(Debug, Default)]
struct Group {
    /// The values that its rounds share, as they are shown.
    shared: Vec<String>,
    counts: [u64; RoundOutcome::ALL.len()],
    ran: Distribution,
    waited: Distribution,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Summaries {
    groups: Vec<Group>,
    /// The positions of the groups, by the bytes of their values.
    positions: HashMap<Box<[u8]>, usize>,
}

impl Summaries {
    /// Counts a round. `key` has the bytes of the values that the rounds of a group share, and `shared` makes these values when
    /// they occur for the first time.
    ///
    /// # Errors
    /// When there are too many groups.
    pub fn add(
        &mut self,
        key: &[u8],
        shared: impl FnOnce() -> Vec<String>,
        outcome: RoundOutcome,
        waited: Duration,
        ran: Option<Duration>,
    ) -> Result<(), TooManyGroups> {
        let at = match self.positions.get(key) {
            Some(at) => *at,
            None if self.groups.len() >= GROUPS_MAX => return Err(TooManyGroups),
            None => {
                self.groups.push(Group { shared: shared(), ..Group::default() });
                self.positions.insert(key.into(), self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        let Some(group) = self.groups.get_mut(at) else { return Ok(()) };
        group.counts[usize::from(outcome.number())] += 1;
        group.waited.add(waited);
        if let Some(ran) = ran {
            group.ran.add(ran);
        }
        Ok(())
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

    /// The groups after the first `skipped` ones, in the order of the values of `by`.
    #[must_use]
    pub fn into_page(mut self, by: &[GroupKey], skipped: usize, len: usize) -> Vec<GroupSummary> {
        self.groups.sort_unstable_by(|one, other| one.shared.cmp(&other.shared));
        self.groups.iter().skip(skipped).take(len).map(|group| group.summary(by)).collect()
    }
}

impl Group {
    fn summary(&self, by: &[GroupKey]) -> GroupSummary {
        let quantiles = |times: &Distribution| PERCENTS.map(|percent| times.quantile(percent));
        GroupSummary {
            key: by.iter().copied().zip(self.shared.iter().cloned()).collect(),
            counts: self.counts,
            ran: (self.ran.runs() > 0).then(|| quantiles(&self.ran)),
            waited: quantiles(&self.waited),
        }
    }
}
