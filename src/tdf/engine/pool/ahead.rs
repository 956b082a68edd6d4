//! Claims beyond the free agents, so that no agent waits for Redis and for a commit between two short programs: as many tasks as
//! will start within [`AHEAD`], if programs take as long as the last ones did. Longer programs are claimed for free agents only.

use std::collections::VecDeque;
use std::time::Duration;

/// A claim and the commit of its submits take about a tenth of this on an ordinary disk.
const AHEAD: Duration = Duration::from_millis(50);

/// Number of last programs whose times count. The longest decides, so that one long program among short ones ends the claims ahead.
const RUNS: usize = 16;

/// An agent's own time between the ends of two programs: about a millisecond.
const RUN_COST: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(super) struct Pace {
    times: VecDeque<Duration>,
}

impl Pace {
    /// A program has taken so long.
    pub(super) fn add(&mut self, took: Duration) {
        if self.times.len() >= RUNS {
            self.times.pop_front();
        }
        self.times.push_back(took);
    }

    /// Tasks that so many agents will begin soon, beside those that begin now.
    pub(super) fn ahead(&self, agents: usize) -> usize {
        let Some(longest) = self.times.iter().max().filter(|_| self.times.len() >= RUNS) else { return 0 };
        let each = AHEAD.as_micros() / (*longest + RUN_COST).as_micros();
        usize::try_from(each).unwrap_or(usize::MAX).saturating_mul(agents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(times: &[u64]) -> Pace {
        let mut pace = Pace::default();
        times.iter().for_each(|millis| pace.add(Duration::from_millis(*millis)));
        pace
    }

    #[test]
    fn only_short_programs_are_claimed_ahead() {
        assert_eq!(pace(&[]).ahead(2), 0);
        assert_eq!(pace(&[4; RUNS - 1]).ahead(2), 0, "too few to tell");
        assert_eq!(pace(&[4; RUNS]).ahead(2), 20);
        assert_eq!(pace(&[50; RUNS]).ahead(100), 0);
        let mut mixed = pace(&[1; RUNS]);
        mixed.add(Duration::from_secs(1));
        assert_eq!(mixed.ahead(2), 0);
        (0..RUNS).for_each(|_| mixed.add(Duration::from_millis(1)));
        assert_eq!(mixed.ahead(2), 50);
    }
}
