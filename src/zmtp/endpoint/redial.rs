//! A connection that is made again whenever it is lost.
//!
//! | state | until | next state |
//! |---|---|---|
//! | resting | its pause, which doubles each time, has passed | dialled |
//! | dialled | the handshake is complete | open |
//! | dialled | it fails, and another way is left | resting, until now |
//! | dialled | it fails on the last way | resting |
//! | open | it is lost | resting for the first pause |

use std::time::Duration;

use base::Mono;

/// The pause before the second attempt to connect. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Number of successive closings without an answer that count as a refusal. An overloaded peer may do the same once.
const UNANSWERED_MIN: u32 = 2;

/// See the [module](self).
#[derive(Debug)]
pub struct Redial<K> {
    state: State<K>,
    pause: Duration,
    pause_max: Duration,
    /// Number of attempts in a row that ended without an answer to our first command.
    unanswered: u32,
}

#[derive(Clone, Copy, Debug)]
enum State<K> {
    Resting { until: Mono },
    Dialled(K),
    Open(K),
}

impl<K: Copy + PartialEq> Redial<K> {
    /// A connection to be dialled at once, with pauses of at most this long.
    #[must_use]
    pub fn new(now: Mono, pause_max: Duration) -> Self {
        let state = State::Resting { until: now };
        Self { state, pause: FIRST_PAUSE, pause_max: pause_max.max(FIRST_PAUSE), unanswered: 0 }
    }

    /// When the next attempt is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Mono> {
        match self.state {
            State::Resting { until } => Some(until),
            State::Dialled(_) | State::Open(_) => None,
        }
    }

    /// Whether the next attempt is due.
    #[must_use]
    pub fn is_due(&self, now: Mono) -> bool {
        self.poll_timeout().is_some_and(|until| until <= now)
    }

    /// An attempt has begun.
    pub const fn handle_dialled(&mut self, id: K) {
        self.state = State::Dialled(id);
    }

    /// No attempt could be begun. Another way, if one is left, is tried at once; the pause comes behind the last one.
    pub fn handle_failed(&mut self, now: Mono, has_another_way: bool) {
        let pause = if has_another_way { Duration::ZERO } else { self.pause };
        self.state = State::Resting { until: now + pause };
        if !has_another_way {
            self.pause = (self.pause * 2).min(self.pause_max);
        }
    }

    /// The handshake is complete.
    pub const fn handle_opened(&mut self, id: K) {
        (self.state, self.pause, self.unanswered) = (State::Open(id), FIRST_PAUSE, 0);
    }

    /// The connection is lost; `was_unanswered` if the peer has closed it without answering our first command. Returns
    /// whether the reason is worth reporting: the connection was never open, and a missing answer counts only from the
    /// second time on.
    pub fn handle_closed(&mut self, now: Mono, was_unanswered: bool, has_another_way: bool) -> bool {
        let was_open = matches!(self.state, State::Open(_));
        self.handle_failed(now, has_another_way);
        self.unanswered = if was_unanswered { self.unanswered + 1 } else { 0 };
        !was_open && (self.unanswered == 0 || self.unanswered >= UNANSWERED_MIN)
    }

    /// Gives the connection up and dials again at once. Returns the connection to close.
    pub fn handle_given_up(&mut self, now: Mono) -> Option<K> {
        let given_up = self.current();
        (self.state, self.pause) = (State::Resting { until: now }, FIRST_PAUSE);
        given_up
    }

    /// The connection that is dialled or open. Events of any other connection must be ignored.
    #[must_use]
    pub const fn current(&self) -> Option<K> {
        match self.state {
            State::Dialled(id) | State::Open(id) => Some(id),
            State::Resting { .. } => None,
        }
    }

    /// The connection, if it is open.
    #[must_use]
    pub const fn open(&self) -> Option<K> {
        match self.state {
            State::Open(id) => Some(id),
            State::Resting { .. } | State::Dialled(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_pause_doubles_up_to_its_bound_and_begins_anew_with_a_connection() {
        let mut redial = Redial::new(at(0), Duration::from_millis(350));
        assert!(redial.is_due(at(0)));
        let mut now = 0;
        for pause in [100, 200, 350, 350] {
            redial.handle_dialled(1);
            assert_eq!((redial.poll_timeout(), redial.open()), (None, None));
            assert!(redial.handle_closed(at(now), false, false), "the reason of a refusal is told at once");
            assert_eq!(redial.poll_timeout(), Some(at(now + pause)));
            now += pause;
        }
        redial.handle_dialled(2);
        redial.handle_opened(2);
        assert_eq!(redial.open(), Some(2));
        assert!(!redial.handle_closed(at(now), false, false), "one that was open was not refused");
        assert_eq!(redial.poll_timeout(), Some(at(now + 100)));
    }

    #[test]
    fn all_ways_share_one_pause_which_doubles_with_each_round() {
        let mut redial = Redial::new(at(0), Duration::from_secs(9));
        let mut now = 0;
        for pause in [100, 200, 400] {
            redial.handle_dialled(1);
            redial.handle_closed(at(now), false, true);
            assert_eq!(redial.poll_timeout(), Some(at(now)), "the second way follows at once");
            redial.handle_failed(at(now), false);
            now += pause;
            assert_eq!(redial.poll_timeout(), Some(at(now)));
        }
    }

    #[test]
    fn silence_means_something_from_the_second_time_on() {
        let mut redial = Redial::new(at(0), Duration::from_secs(1));
        let told = [true, true, false, true, true].map(|unanswered| {
            redial.handle_dialled(1);
            redial.handle_closed(at(0), unanswered, false)
        });
        assert_eq!(told, [false, true, true, false, true]);
    }

    #[test]
    fn one_that_is_given_up_is_dialled_at_once() {
        let mut redial = Redial::new(at(0), Duration::from_secs(1));
        assert_eq!(redial.handle_given_up(at(1)), None);
        redial.handle_dialled(7);
        assert_eq!(redial.handle_given_up(at(2)), Some(7));
        assert!(redial.is_due(at(2)));
    }
}
