//! Log lines about connections that were turned away at the door: one for each address and reason a minute, and few in all.
//! Whoever tries to get in must not fill the log.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::engine::zmtp::Cut;
use crate::types::Mono;

/// For how long a reason of an address is told once only.
const WINDOW: Duration = Duration::from_secs(60);

/// Lines in one window; what is beyond them is counted.
const LINES_MAX: usize = 10;

/// What was told in this window.
#[derive(Debug)]
pub(super) struct Refusals {
    since: Mono,
    told: BTreeSet<String>,
    untold: u64,
}

impl Refusals {
    pub(super) const fn new() -> Self {
        Self { since: Mono::from_nanos(0), told: BTreeSet::new(), untold: 0 }
    }

    /// A connection from there was turned away. Gives back the line to log, if it is to be told.
    pub(super) fn turned_away(&mut self, now: Mono, from: &str, cut: &Cut) -> Option<String> {
        if self.untold == 0 && now.since(self.since) >= WINDOW {
            self.begin(now);
        }
        let line = format!("a connection {from} is refused: {cut}{}", remedy(cut));
        if self.told.len() >= LINES_MAX || self.told.contains(&line) {
            self.untold += 1;
            return None;
        }
        self.told.insert(line.clone());
        Some(line)
    }

    /// When there is something to tell although nothing happens.
    pub(super) fn poll_timeout(&self) -> Option<Mono> {
        (self.untold > 0).then(|| self.since + WINDOW)
    }

    /// What was not told in a window that is over.
    pub(super) fn handle_timeout(&mut self, now: Mono) -> Option<String> {
        self.poll_timeout().filter(|at| *at <= now)?;
        let untold = self.untold;
        self.begin(now);
        Some(format!("{untold} more connections were refused in the last minute, for these reasons or others"))
    }

    fn begin(&mut self, now: Mono) {
        *self = Self { since: now, ..Self::new() };
    }
}

/// What may be wrong at the other side, for the most common mistakes.
const fn remedy(cut: &Cut) -> &'static str {
    match cut {
        Cut::Unauthorised(_) => "; a file with it in CURVE_AUTHORISED_KEYS_DIR lets it in",
        Cut::Keys(_) => "; it may have another CURVE_SERVER_PUBLIC_KEY_FILE than the key of this controller",
        Cut::Mechanism { .. } => "; either both sides have the CURVE keys of the configuration, or neither",
        _ => "",
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
        let mut refusals = Refusals::new();
        let wrong = Cut::Unauthorised("KEY".to_owned());
        let line = refusals.turned_away(at(100), "of 10.0.0.1", &wrong).unwrap();
        assert!(line.contains("of 10.0.0.1") && line.contains("KEY") && line.contains("CURVE_AUTHORISED_KEYS_DIR"));
        assert_eq!(
            (refusals.turned_away(at(101), "of 10.0.0.1", &wrong), refusals.poll_timeout()),
            (None, Some(at(160)))
        );
        let told = (2..=99).filter_map(|host| refusals.turned_away(at(102), &format!("of 10.0.0.{host}"), &wrong));
        assert_eq!(told.count(), LINES_MAX - 1);
        assert_eq!(refusals.handle_timeout(at(159)), None);
        let count = refusals.handle_timeout(at(160)).unwrap();
        assert!(count.starts_with("90 more connections"), "{count}");
        assert_eq!((refusals.poll_timeout(), refusals.handle_timeout(at(300))), (None, None));
        assert!(refusals.turned_away(at(161), "of 10.0.0.1", &wrong).is_some(), "a new minute");
    }
}
