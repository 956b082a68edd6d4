//! Limits the number of prefixes that subscribers may ask for.

/// The share of all subscriptions that one subscriber may have, as a divisor.
const SHARE: usize = 10;

/// The subscriptions of all subscribers, within a bound. Each subscriber may have a tenth of it.
#[derive(Debug)]
pub struct SubscriptionQuota {
    used: usize,
    max: usize,
}

impl SubscriptionQuota {
    /// Without subscribers.
    #[must_use]
    pub const fn new(max: usize) -> Self {
        Self { used: 0, max }
    }

    /// The total number of prefixes allowed for a subscriber that already has `asked` prefixes.
    #[must_use]
    pub fn allowed(&self, asked: usize) -> usize {
        (self.max / SHARE).max(1).min(asked + self.max.saturating_sub(self.used))
    }

    /// The number of prefixes of a subscriber has changed from `before` to `now`.
    pub const fn changed(&mut self, before: usize, now: usize) {
        self.used = self.used - before + now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_a_tenth_and_all_have_the_whole() {
        let mut quota = SubscriptionQuota::new(30);
        assert_eq!(quota.allowed(0), 3);
        quota.changed(0, 3);
        assert_eq!(quota.allowed(3), 3);
        quota.changed(0, 26);
        assert_eq!((quota.allowed(0), quota.allowed(1)), (1, 2), "one is left");
        quota.changed(0, 1);
        assert_eq!(quota.allowed(0), 0);
        assert_eq!(SubscriptionQuota::new(5).allowed(0), 1, "one at least");
    }
}
