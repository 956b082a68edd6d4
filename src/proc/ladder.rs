//! The kill ladder: the processes of one run, from the start of the root to the end of the last process, for the agent
//! or worker that started it. The root is the run.sh of a task, or the command for a prompt. It may leave other
//! processes behind.
//!
//! | state | event | next state |
//! |---|---|---|
//! | the root lives | it must end; the next signal is due | the same, after a signal to all processes |
//! | the root lives | it has ended | the root has ended |
//! | the root has ended | processes are left; the next signal is due | the same, after a signal to them |
//! | the root has ended | no process is left, or the rest cannot be ended | the run has ended |

use std::time::Duration;

use base::{Mono, Now};

/// Time between two SIGKILLs to processes that have not ended yet.
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Number of SIGKILLs to the remains of a worker's run before it counts as ended: ten seconds. Only a process that runs
/// as another user or waits for a device survives the first, and no other run should wait for that.
const SWEEPS_MAX: u32 = 100;

/// A signal to all processes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, and SIGCONT so that a stopped process can obey.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Why the program or command of a task was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// This task cannot be started, for this reason. The same would happen everywhere.
    Task(String),
    /// Nothing can be started here, for this reason. Another worker may succeed.
    Worker(String),
}

/// The time that a run gets to end.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Whether the first signal is SIGTERM.
    pub is_polite: bool,
    /// Time between two signals while the root lives.
    pub kill_interval: Duration,
    /// Maximum number of these signals; `None` for no limit.
    pub kills_max: Option<u32>,
    /// Minimum time between SIGTERM and SIGKILL to processes that the root has left behind.
    pub grace: Duration,
    /// Time between two SIGKILLs to them.
    pub sweep_interval: Duration,
    /// Maximum number of these SIGKILLs; `None` for no limit.
    pub sweeps_max: Option<u32>,
}

impl Terms {
    /// For a worker, which does not wait for processes that cannot be ended.
    pub const fn of_worker(kill_interval: Duration, grace: Duration) -> Self {
        let (kills_max, sweeps_max) = (None, Some(SWEEPS_MAX));
        Self { is_polite: true, kill_interval, kills_max, grace, sweep_interval: SWEEP_INTERVAL, sweeps_max }
    }
}

/// The next action for a run.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before the next event, or before [`RunMachine::due`].
    Wait,
    /// Send this signal.
    Signal(Signal),
    /// Send this signal, then check for remaining processes.
    Sweep(Signal),
    /// No process is left.
    Over,
    /// Processes are left that have survived all signals.
    Withstood,
}

/// The processes of one run. `E` describes the end of the root.
#[derive(Debug, PartialEq)]
pub struct RunMachine<E> {
    /// The end of the root; `None` while it lives.
    pub end: Option<E>,
    /// Number of signals since the last change of state.
    signals: u32,
    due: Option<Mono>,
    /// The end of the grace time that SIGTERM to a living root has granted to the whole tree.
    given_until: Option<Mono>,
}

impl<E> RunMachine<E> {
    /// For a root that was just started.
    pub const fn started() -> Self {
        Self { end: None, signals: 0, due: None, given_until: None }
    }

    /// For a root that has ended like this. Whether processes are left is unknown before a check.
    pub const fn ended(end: E) -> Self {
        Self { end: Some(end), signals: 0, due: None, given_until: None }
    }

    /// The root has ended like this. Whether processes are left is unknown before a check.
    pub fn handle_end(&mut self, end: E) {
        // A shell ends at once on SIGTERM, but the program that it waited for may need all of the grace time.
        *self = Self { given_until: self.given_until, ..Self::ended(end) };
    }

    /// When to call [`Self::handle_timeout`].
    pub const fn due(&self) -> Option<Mono> {
        self.due
    }

    /// Whether any signal was sent since the last change of state.
    pub const fn is_signalled(&self) -> bool {
        self.signals > 0
    }

    /// Whether the root lives although it has received every signal of the ladder.
    pub const fn is_at_the_end(&self) -> bool {
        self.end.is_none() && self.is_signalled() && self.due.is_none()
    }

    /// Begins to end the root. The remaining steps follow by timeouts.
    pub fn end(&mut self, now: Now, terms: &Terms) -> Step {
        if self.end.is_some() || self.is_signalled() { Step::Wait } else { self.handle_timeout(now, terms) }
    }

    /// A check has shown whether any process is left.
    pub fn handle_tree(&mut self, now: Now, left: bool, terms: &Terms) -> Step {
        match self.end {
            Some(_) if !left => {
                self.due = None;
                Step::Over
            }
            // A process born after the root was signalled has not had SIGTERM.
            Some(_) if !self.is_signalled() => self.handle_timeout(now, terms),
            Some(_) | None => Step::Wait,
        }
    }

    /// Ends the grace times of processes that are being ended.
    pub fn hurry(&mut self, now: Now) -> Step {
        self.due = self.due.map(|_| now.mono);
        self.given_until = None;
        Step::Wait
    }

    /// The next signal is due. The first one is SIGTERM and all others are SIGKILL. The last one to the root is SIGKILL
    /// even if it is the only one, because no process may outlive the ladder.
    pub fn handle_timeout(&mut self, now: Now, terms: &Terms) -> Step {
        let lives = self.end.is_none();
        if !lives && terms.sweeps_max.is_some_and(|max| self.signals > max) {
            self.due = None;
            return Step::Withstood;
        }
        self.signals += 1;
        let is_first = self.signals == 1;
        let is_last = lives && terms.kills_max.is_some_and(|max| self.signals >= max);
        let is_polite = is_first && !is_last && terms.is_polite;
        let due = match (lives, is_polite) {
            (true, _) => now.mono + terms.kill_interval,
            (false, true) => self.given_until.unwrap_or_default().max(now.mono + terms.grace),
            (false, false) => now.mono + terms.sweep_interval,
        };
        self.due = (!is_last).then_some(due);
        if lives && is_polite {
            self.given_until = self.due;
        }
        let signal = if is_polite { Signal::Terminate } else { Signal::Kill };
        if lives || is_first { Step::Signal(signal) } else { Step::Sweep(signal) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        is_polite: true,
        kill_interval: Duration::from_secs(2),
        kills_max: Some(3),
        grace: Duration::from_secs(1),
        sweep_interval: SWEEP_INTERVAL,
        sweeps_max: Some(2),
    };

    /// A run and the time, which jumps from one signal to the next.
    struct Story {
        run: RunMachine<()>,
        now: Now,
        terms: Terms,
    }

    impl Story {
        fn new(terms: Terms) -> Self {
            Self { run: RunMachine::started(), now: Now::default(), terms }
        }

        fn ends(&mut self) -> Step {
            self.run.end(self.now, &self.terms)
        }

        fn left(&mut self, left: bool) -> Step {
            self.run.handle_tree(self.now, left, &self.terms)
        }

        /// The next step that time alone causes, and the time until it.
        fn next(&mut self) -> Option<(Duration, Step)> {
            let due = self.run.due()?;
            let pause = due.since(self.now.mono);
            self.now.mono = due;
            Some((pause, self.run.handle_timeout(self.now, &self.terms)))
        }
    }

    const TERMINATE: Step = Step::Signal(Signal::Terminate);
    const KILL: Step = Step::Signal(Signal::Kill);

    #[test]
    fn a_root_is_asked_once_and_then_killed_until_it_ends_or_nothing_more_is_allowed() {
        let mut story = Story::new(TERMS);
        assert_eq!(story.ends(), TERMINATE);
        assert_eq!(story.ends(), Step::Wait, "it goes on by itself");
        assert_eq!(story.left(true), Step::Wait, "the root lives");
        let kill = Some((TERMS.kill_interval, KILL));
        assert_eq!([story.next(), story.next(), story.next()], [kill, kill, None]);
        let mut story = Story::new(Terms { kills_max: None, ..TERMS });
        assert_eq!(story.ends(), TERMINATE);
        assert!((0..1000).all(|_| story.next() == kill));
    }

    #[test]
    fn the_last_signal_is_sigkill_and_so_is_any_that_is_late() {
        assert_eq!(Story::new(Terms { kills_max: Some(1), ..TERMS }).ends(), KILL);
        let mut late = Story::new(Terms { is_polite: false, ..TERMS });
        assert_eq!(late.ends(), KILL);
        late.run.handle_end(());
        assert_eq!(late.left(true), KILL);
        assert_eq!(late.next(), Some((SWEEP_INTERVAL, Step::Sweep(Signal::Kill))));
    }

    #[test]
    fn what_a_root_leaves_behind_is_asked_once_and_then_killed_until_nothing_is_left() {
        let mut story = Story::new(Terms { sweeps_max: None, ..TERMS });
        story.run.handle_end(());
        assert_eq!(story.run.due(), None, "before a look, nothing is known of the rest");
        assert_eq!(story.left(true), TERMINATE);
        assert_eq!(story.left(true), Step::Wait);
        assert_eq!(story.next(), Some((TERMS.grace, Step::Sweep(Signal::Kill))));
        assert!((0..1000).all(|_| story.next() == Some((SWEEP_INTERVAL, Step::Sweep(Signal::Kill)))));
        assert_eq!((story.left(false), story.run.due()), (Step::Over, None));
    }

    #[test]
    fn what_a_root_leaves_that_was_asked_to_end_has_the_rest_of_its_time() {
        for (after, left) in [(100, Duration::from_millis(1900)), (1700, TERMS.grace)] {
            let mut story = Story::new(TERMS);
            assert_eq!(story.ends(), TERMINATE);
            story.now.mono = story.now.mono + Duration::from_millis(after);
            story.run.handle_end(());
            assert_eq!(story.left(true), TERMINATE);
            assert_eq!(story.next(), Some((left, Step::Sweep(Signal::Kill))));
        }
        let mut hurried = Story::new(TERMS);
        assert_eq!((hurried.ends(), hurried.run.hurry(hurried.now)), (TERMINATE, Step::Wait));
        hurried.run.handle_end(());
        assert_eq!(hurried.left(true), TERMINATE);
        assert_eq!(hurried.next(), Some((TERMS.grace, Step::Sweep(Signal::Kill))));
    }

    #[test]
    fn what_withstands_all_signals_is_given_up() {
        let mut story = Story::new(TERMS);
        story.run.handle_end(());
        assert_eq!(story.left(true), TERMINATE);
        let sweep = |pause| Some((pause, Step::Sweep(Signal::Kill)));
        assert_eq!([story.next(), story.next()], [sweep(TERMS.grace), sweep(SWEEP_INTERVAL)]);
        assert_eq!(story.next(), Some((SWEEP_INTERVAL, Step::Withstood)));
        assert_eq!(story.next(), None);
    }

    #[test]
    fn a_hurry_brings_the_next_signal_and_begins_nothing() {
        let mut story = Story::new(TERMS);
        assert_eq!((story.run.hurry(story.now), story.next()), (Step::Wait, None));
        assert_eq!(story.ends(), TERMINATE);
        assert_eq!((story.run.hurry(story.now), story.next()), (Step::Wait, Some((Duration::ZERO, KILL))));
    }
}
