//! The presence of Redis: an expired lease shows a lost worker only if Redis was there to renew it.
//!
//! A worker renews its lease as long as Redis answers. While Redis is away, stopped or frozen, leases end although their workers
//! live. So a lease is judged only after Redis has answered without an interruption for as long as a lease lasts: a worker that
//! lives has renewed its lease by then.

use std::time::Duration;

use base::Mono;

/// How long an llts run is safe without a renewal.
pub const LEASE: Duration = Duration::from_secs(10);

/// How often leases are renewed: four renewals may be late or lost before a lease ends.
pub const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// A longer silence of Redis is an interruption. A lease that was renewed in time before a shorter one lasts for as long again after
/// it, at least.
const SILENCE_MAX: Duration = Duration::from_secs(4);

/// The presence of Redis, by its answers.
#[derive(Debug, Default)]
pub struct Presence {
    /// Since when Redis has answered without an interruption.
    since: Mono,
    /// The last answer, and the time of Redis in it; `None` before the first one of a connection.
    last: Option<(Mono, f64)>,
}

impl Presence {
    /// Redis has answered, with its time in unix seconds.
    pub fn handle_answer(&mut self, now: Mono, time: f64) {
        let is_continued = self.last.is_some_and(|(at, before)| {
            let (passed, by_redis) = (now.since(at).as_secs_f64(), time - before);
            let silence_max = SILENCE_MAX.as_secs_f64();
            // The clock of Redis was set: leases have ended early, or end late.
            let has_jumped = (by_redis - passed).abs() > silence_max;
            passed <= silence_max && !has_jumped
        });
        if !is_continued {
            self.since = now;
        }
        self.last = Some((now, time));
    }

    /// The connection is lost, or Redis did not answer.
    pub fn handle_silence(&mut self) {
        self.last = None;
    }

    /// From when leases are judged, in unix seconds by the clock of Redis.
    #[must_use]
    pub fn judged_from(&self) -> f64 {
        let Some((at, time)) = self.last else { return f64::INFINITY };
        time - at.since(self.since).as_secs_f64() + LEASE.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that hears of Redis at these moments of its own clock, each with the time of Redis.
    fn hears(answers: &[(f64, f64)]) -> Presence {
        let mut presence = Presence::default();
        for (at, time) in answers {
            presence.handle_answer(Mono::default() + Duration::from_secs_f64(*at), *time);
        }
        presence
    }

    #[test]
    fn leases_are_judged_after_one_lease_of_answers() {
        assert_eq!(Presence::default().judged_from(), f64::INFINITY, "nothing is known before the first answer");
        assert_eq!(hears(&[(5.0, 100.0)]).judged_from(), 110.0);
        assert_eq!(hears(&[(5.0, 100.0), (6.0, 101.0), (9.5, 104.5)]).judged_from(), 110.0);
    }

    #[test]
    fn a_lost_connection_begins_anew() {
        let mut presence = hears(&[(5.0, 100.0), (6.0, 101.0)]);
        presence.handle_silence();
        assert_eq!(presence.judged_from(), f64::INFINITY);
        presence.handle_answer(Mono::default() + Duration::from_secs(7), 102.0);
        assert_eq!(presence.judged_from(), 112.0);
    }

    #[test]
    fn a_silence_and_a_jump_of_the_clock_begin_anew() {
        for (what, second) in [
            ("Redis, the server or the machine was stopped", (11.0, 106.0)),
            ("the clock of Redis was set forward", (6.0, 200.0)),
            ("the clock of Redis was set back", (6.0, 10.0)),
            ("the machine was suspended, and the clock of this process stood still", (5.1, 400.0)),
        ] {
            assert_eq!(hears(&[(5.0, 100.0), second]).judged_from(), second.1 + 10.0, "{what}");
        }
        // What clocks do by themselves.
        assert_eq!(hears(&[(5.0, 100.0), (8.0, 103.1)]).judged_from(), 110.1);
    }
}
