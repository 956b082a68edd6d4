//! Log lines about refused connections: one for each address and reason per minute, and few in total. A peer that keeps
//! trying must not fill the log.

use std::collections::BTreeSet;
use std::time::Duration;

use base::Mono;

/// How long the same line is logged only once.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum lines in one window. Further ones are only counted.
const LINES_MAX: usize = 10;

/// The lines of this window.
#[derive(Debug, Default)]
pub struct Refusals {
    since: Mono,
    told: BTreeSet<String>,
    untold: u64,
}

impl Refusals {
    /// A connection was refused, with this line for the log. Returns the line if it is to be logged.
    pub fn turned_away(&mut self, now: Mono, line: String) -> Option<String> {
        if self.untold == 0 && now.since(self.since) >= WINDOW {
            self.begin(now);
        }
        if self.told.len() >= LINES_MAX || self.told.contains(&line) {
            self.untold += 1;
            return None;
        }
        self.told.insert(line.clone());
        Some(line)
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        (self.untold > 0).then(|| self.since + WINDOW)
    }

    /// A summary of the lines that were suppressed in a window that has ended.
    pub fn handle_timeout(&mut self, now: Mono) -> Option<String> {
        self.poll_timeout().filter(|at| *at <= now)?;
        let untold = self.untold;
        self.begin(now);
        Some(format!("{untold} more connections were refused in the last minute, for these reasons or others"))
    }

    fn begin(&mut self, now: Mono) {
        *self = Self { since: now, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_and_a_count() {
        let mut refusals = Refusals::default();
        let line = |host: u32| format!("of 10.0.0.{host}");
        assert_eq!(refusals.turned_away(at(100), line(1)), Some(line(1)));
        assert_eq!((refusals.turned_away(at(101), line(1)), refusals.poll_timeout()), (None, Some(at(160))));
        let told = (2..=99).filter_map(|host| refusals.turned_away(at(102), line(host)));
        assert_eq!(told.count(), LINES_MAX - 1);
        assert_eq!(refusals.handle_timeout(at(159)), None);
        let count = refusals.handle_timeout(at(160)).unwrap();
        assert!(count.starts_with("90 more connections"), "{count}");
        assert_eq!((refusals.poll_timeout(), refusals.handle_timeout(at(300))), (None, None));
        assert!(refusals.turned_away(at(161), line(1)).is_some(), "a new minute");
    }
}
