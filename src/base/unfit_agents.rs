//! The agents that a task avoids for a while: their disk had no room for it, or their machine lacks its folder or its
//! client.

use std::borrow::Cow;
use std::time::Duration;

use super::{PastRound, Requirements, RoundEnd, TaskRecord, Wall};

impl TaskRecord {
    /// How long a task first avoids such an agent. By then a person may have freed space or made the folder. An earlier
    /// trial could transfer all inputs in vain.
    pub const UNFIT_PAUSE: Duration = Duration::from_mins(10);
    /// After this many doublings, which amount to 21 hours, the pause stays constant.
    pub const UNFIT_PAUSE_DOUBLINGS_MAX: u32 = 7;

    /// The past rounds that ended because their agent was unfit, since a client last asked for another round. Their agents do not
    /// get the task until [`Self::next_trial`].
    pub fn unfit_rounds(&self) -> impl Iterator<Item = &PastRound> {
        self.all_unfit_rounds().filter(|past| past.at > self.agents_trusted)
    }

    fn all_unfit_rounds(&self) -> impl Iterator<Item = &PastRound> {
        let since = self.past.iter().rev().take_while(|past| past.end != RoundEnd::Retried);
        since.filter(|past| matches!(past.end, RoundEnd::DiskFull | RoundEnd::NotHere))
    }

    /// The moment from which it may go to them again. The pause doubles each time the last of them was unfit.
    #[must_use]
    pub fn next_trial(&self) -> Option<Wall> {
        let last = self.unfit_rounds().next()?;
        let agent = |past: &PastRound| past.assignment.as_ref().map(|run| run.agent.clone());
        let times = self.all_unfit_rounds().filter(|past| agent(past) == agent(last)).count();
        let doubled = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX).min(Self::UNFIT_PAUSE_DOUBLINGS_MAX);
        Some(last.at + Self::UNFIT_PAUSE * 2_u32.pow(doubled))
    }

    /// Lets it go to all agents again.
    pub fn trust_agents(&mut self) {
        self.agents_trusted = self.unfit_rounds().map(|past| past.at).max().unwrap_or(self.agents_trusted);
    }

    /// The requirements for its next start: those of its policy, without the unfit agents. A folder that one agent
    /// lacks is missing for all agents of its machine.
    #[must_use]
    pub fn needs(&self) -> Cow<'_, Requirements> {
        let needs = &self.policy.needs;
        if self.past.is_empty() || self.unfit_rounds().next().is_none() {
            return Cow::Borrowed(needs);
        }
        let mut needs = needs.clone();
        for (past, run) in self.unfit_rounds().filter_map(|past| Some((past, past.assignment.as_ref()?))) {
            if past.end == RoundEnd::NotHere {
                needs.avoided_hosts.insert(run.host);
            }
            needs.avoided.insert(run.agent.clone());
        }
        Cow::Owned(needs)
    }
}
