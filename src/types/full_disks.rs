//! The agents that a task stays away from, for a time, because their disk had no room for it.

use std::borrow::Cow;
use std::time::Duration;

use super::{PastRound, Requirements, RoundEnd, TaskRecord, Wall};

impl TaskRecord {
    /// How long a task first stays away from an agent whose disk was full: a person has freed space by then, and a trial may
    /// transfer all inputs again.
    pub const DISK_PAUSE: Duration = Duration::from_mins(10);
    /// After this many doublings, which make 21 hours, that pause stays as it is.
    pub const DISK_PAUSE_DOUBLINGS_MAX: u32 = 7;

    /// The past rounds that ended because the disk of their agent was full, since a client last asked for another round. Their
    /// agents do not get the task until [`Self::disk_trial`].
    pub fn full_rounds(&self) -> impl Iterator<Item = &PastRound> {
        self.all_full_rounds().filter(|past| past.at > self.disks_trusted)
    }

    fn all_full_rounds(&self) -> impl Iterator<Item = &PastRound> {
        let since = self.past.iter().rev().take_while(|past| past.end != RoundEnd::Retried);
        since.filter(|past| past.end == RoundEnd::DiskFull)
    }

    /// The moment from which on it may go to agents again whose disk was full: the pause doubles with each time that the last of
    /// them had no room.
    #[must_use]
    pub fn disk_trial(&self) -> Option<Wall> {
        let last = self.full_rounds().next()?;
        let agent = |past: &PastRound| past.assignment.as_ref().map(|run| run.agent.clone());
        let times = self.all_full_rounds().filter(|past| agent(past) == agent(last)).count();
        let doubled = u32::try_from(times.saturating_sub(1)).unwrap_or(u32::MAX).min(Self::DISK_PAUSE_DOUBLINGS_MAX);
        Some(last.at + Self::DISK_PAUSE * 2_u32.pow(doubled))
    }

    /// It may go to all agents again.
    pub fn trust_disks(&mut self) {
        self.disks_trusted = self.full_rounds().map(|past| past.at).max().unwrap_or(self.disks_trusted);
    }

    /// The requirements for its next start: those of its policy, without the agents whose disk was full.
    #[must_use]
    pub fn needs(&self) -> Cow<'_, Requirements> {
        let needs = &self.policy.needs;
        if self.past.is_empty() || self.full_rounds().next().is_none() {
            return Cow::Borrowed(needs);
        }
        let full = self.full_rounds().filter_map(|past| Some(past.assignment.as_ref()?.agent.clone()));
        Cow::Owned(Requirements { avoided: full.collect(), ..needs.clone() })
    }
}
