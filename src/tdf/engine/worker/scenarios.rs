//! Stories of a worker, told event by event.
#![cfg(test)]

use super::*;
use crate::engine::outage::{LOG_AGAIN_AFTER, RETRY_FIRST};
use base::tdf::WorkerName;

const SETTINGS: Settings = Settings {
    pause_after_success: Duration::ZERO,
    pause_after_failure: Duration::from_millis(500),
    poll_interval: Duration::from_millis(400),
    kill_interval: Duration::from_secs(2),
    straggler_grace: Duration::from_secs(1),
};

fn fence(task: u64) -> Fence {
    let worker = WorkerName::new("w").unwrap();
    Fence { task: TaskId(task), round: 0, worker, started: format!("{task}.5") }
}

fn task(id: u64) -> Assignment {
    let [program, source] = ["p", "http://x/run.sh"].map(str::to_owned);
    let timeouts = Budget { used: 0, max: 0 };
    Assignment { fence: fence(id), program, source, input: b"1 2".to_vec(), timeout: None, timeouts }
}

fn away<T>() -> Result<T, String> {
    Err("gone".to_owned())
}

/// A worker, and the time, which goes from one deadline to the next.
struct Story {
    worker: Worker,
    now: Now,
}

impl Story {
    fn new(settings: Settings, results: Vec<Fence>) -> Self {
        Self { worker: Worker::new(Now::default(), settings, results), now: Now::default() }
    }

    /// A worker whose first claim is under way.
    fn claiming() -> Self {
        let mut story = Self::new(SETTINGS, Vec::new());
        story.does(&[Effect::Recover]);
        story.worker.handle_recovered(story.now, Ok(Vec::new()));
        story.does(&[Effect::Claim(0)]);
        story
    }

    /// A worker whose program runs.
    fn running(task: Assignment) -> Self {
        let mut story = Self::claiming();
        story.claims(task);
        story.starts();
        story
    }

    fn claims(&mut self, task: Assignment) {
        self.worker.handle_claimed(self.now, Ok(Some(task.clone())));
        self.does(&[Effect::Prepare { task: Box::new(task), doubted: false }]);
    }

    fn starts(&mut self) {
        self.worker.handle_prepared(self.now, Ok(()));
        self.does(&[Effect::Start]);
        self.worker.handle_started(self.now, Ok(()));
        self.does(&[]);
    }

    /// The program ends by itself and leaves nothing.
    fn ends(&mut self) {
        self.worker.handle_exited();
        self.does(&[Effect::CheckTree]);
        self.worker.handle_tree(self.now, false);
    }

    fn collected(&mut self, outcome: Outcome, has_failed: bool) {
        self.does(&[Effect::Collect(outcome)]);
        self.worker.handle_collected(self.now, has_failed);
    }

    fn effects(&mut self) -> Vec<Effect> {
        self.worker.sanity_check();
        std::iter::from_fn(|| self.worker.poll_effect()).collect()
    }

    #[track_caller]
    fn does(&mut self, expected: &[Effect]) {
        assert_eq!(self.effects(), expected);
    }

    /// The next deadline comes; why, and after how long.
    fn next(&mut self) -> Option<(Timer, Duration)> {
        let (at, timer) = self.worker.poll_timeout()?;
        let pause = at.since(self.now.mono);
        self.now.mono = at;
        self.worker.handle_timeout(self.now);
        Some((timer, pause))
    }
}

fn report(id: u64, claim: Option<u64>) -> Effect {
    Effect::Report { fence: fence(id), claim }
}

#[test]
fn a_task_costs_a_claim_and_a_report_and_the_next_claim_goes_with_the_report() {
    let mut story = Story::running(task(1));
    for id in 1..4 {
        story.ends();
        story.collected(Outcome::Executed, false);
        story.does(&[report(id, Some(id))]);
        story.worker.handle_reported(story.now, Ok(None));
        story.does(&[Effect::Forget(fence(id))]);
        story.claims(task(id + 1));
        story.starts();
    }
}

#[test]
fn a_pause_that_the_user_wants_is_kept_and_an_idle_worker_is_woken() {
    let mut story = Story::running(task(1));
    story.ends();
    story.collected(Outcome::Executed, true);
    story.does(&[report(1, None)]);
    story.worker.handle_reported(story.now, Ok(None));
    story.does(&[Effect::Forget(fence(1))]);
    story.worker.handle_woken();
    story.does(&[]);
    assert_eq!(story.next(), Some((Timer::Claim, SETTINGS.pause_after_failure)));
    story.does(&[Effect::Claim(1)]);
    story.worker.handle_claimed(story.now, Ok(None));
    story.does(&[]);
    story.worker.handle_woken();
    story.does(&[Effect::Claim(2)]);
    // Opened after the claim has left, and before it is answered.
    story.worker.handle_woken();
    story.worker.handle_claimed(story.now, Ok(None));
    story.does(&[Effect::Claim(3)]);
    story.worker.handle_claimed(story.now, Ok(None));
    assert_eq!(story.next(), Some((Timer::Claim, SETTINGS.poll_interval)));
    story.does(&[Effect::Claim(4)]);
}

#[test]
fn a_claim_without_an_answer_is_made_again_with_the_same_token() {
    let mut story = Story::claiming();
    story.worker.handle_claimed(story.now, away());
    story.does(&[Effect::Log(Note::Away("gone".into()))]);
    for pause in [RETRY_FIRST, RETRY_FIRST * 2] {
        assert_eq!(story.next(), Some((Timer::Retry, pause)));
        story.does(&[Effect::Claim(0)]);
        story.worker.handle_claimed(story.now, away());
        story.does(&[]);
    }
    story.next();
    story.does(&[Effect::Claim(0)]);
    story.worker.handle_claimed(story.now, Ok(Some(task(7))));
    let prepare = Effect::Prepare { task: Box::new(task(7)), doubted: false };
    story.does(&[Effect::Log(Note::Back), prepare]);
}

#[test]
fn a_worker_whose_name_another_process_has_stops() {
    let mut story = Story::running(task(1));
    story.worker.handle_displaced(story.now, "taken".into());
    story.does(&[Effect::Signal(Signal::Terminate)]);
    story.ends();
    story.does(&[Effect::Discard, Effect::GiveBack(fence(1))]);
    story.worker.handle_displaced(story.now, "taken, as before".into());
    story.worker.handle_given_back(story.now, away());
    let mut last = None;
    while let Some((timer, _)) = story.next() {
        if timer == Timer::Retry {
            story.worker.handle_given_back(story.now, away());
        }
        last = story.effects().pop();
    }
    assert_eq!(last, Some(Effect::Exit(End::Broken("taken".into()))));

    let mut story = Story::claiming();
    story.worker.handle_claimed(story.now, Ok(None));
    story.worker.handle_displaced(story.now, "taken".into());
    story.does(&[Effect::Exit(End::Broken("taken".into()))]);
}

#[test]
fn a_program_goes_on_while_redis_is_away_and_its_result_is_kept_and_reported() {
    let mut story = Story::running(task(1));
    assert_eq!(story.next(), Some((Timer::Renew, RENEWAL_INTERVAL)));
    story.does(&[Effect::Renew(Some(fence(1)))]);
    story.worker.handle_renewed(story.now, Some(&fence(1)), away());
    story.does(&[Effect::Log(Note::Away("gone".into()))]);
    for pause in [100, 200, 400, 800, 1000, 1000] {
        assert_eq!(story.next(), Some((Timer::Renew, Duration::from_millis(pause))));
        story.does(&[Effect::Renew(Some(fence(1)))]);
        story.worker.handle_renewed(story.now, Some(&fence(1)), away());
        story.does(&[]);
    }
    story.ends();
    story.collected(Outcome::Executed, false);
    story.does(&[report(1, Some(1))]);
    assert_eq!(story.next(), Some((Timer::Keep, KEEP_AFTER)));
    story.does(&[Effect::Keep]);
    story.worker.handle_reported(story.now, away());
    story.does(&[]);
    assert_eq!(story.next().unwrap().0, Timer::Renew);
    story.does(&[Effect::Renew(Some(fence(1)))]);
    story.worker.handle_renewed(story.now, Some(&fence(1)), Ok(None));
    assert_eq!(story.next(), Some((Timer::Retry, Duration::ZERO)));
    story.does(&[report(1, Some(1))]);
    story.worker.handle_reported(story.now, Ok(None));
    story.does(&[Effect::Log(Note::Back), Effect::Forget(fence(1))]);
}

/// A key of a wrong type: the claims are refused, and the renewals are not.
#[test]
fn a_call_that_redis_refuses_alone_is_said_once_an_hour() {
    let mut story = Story::claiming();
    let refused = || Err("the key ns:open is no sorted set".to_owned());
    story.worker.handle_claimed(story.now, refused());
    let mut said = Vec::new();
    let end = story.now.mono + LOG_AGAIN_AFTER + Duration::from_secs(120);
    while story.now.mono < end {
        for effect in story.effects() {
            match effect {
                Effect::Renew(of) => story.worker.handle_renewed(story.now, of.as_ref(), Ok(None)),
                Effect::Claim(_) => story.worker.handle_claimed(story.now, refused()),
                Effect::Log(note) => said.push(note),
                other => panic!("{other:?}"),
            }
        }
        story.next();
    }
    let refusal = Note::Away("the key ns:open is no sorted set".to_owned());
    assert_eq!(said, [refusal.clone(), refusal]);
    story.effects();
    story.worker.handle_claimed(story.now, Err("another".to_owned()));
    story.does(&[Effect::Log(Note::Away("another".to_owned()))]);
    story.worker.handle_claimed(story.now, Err("and another".to_owned()));
    story.does(&[]);
    story.worker.handle_claimed(story.now, Ok(None));
    story.does(&[Effect::Log(Note::Back)]);
}

#[test]
fn what_a_dead_process_has_left_is_reported_or_lost_first() {
    let mut story = Story::new(SETTINGS, vec![fence(1), fence(2)]);
    story.does(&[report(1, None)]);
    story.worker.handle_reported(story.now, away());
    story.does(&[Effect::Log(Note::Away("gone".into()))]);
    assert_eq!(story.next().unwrap().0, Timer::Retry);
    story.does(&[report(1, None)]);
    story.worker.handle_reported(story.now, Ok(None));
    story.does(&[Effect::Log(Note::Back), Effect::Forget(fence(1)), report(2, None)]);
    story.worker.handle_reported(story.now, Ok(Some("open, round 1".into())));
    let dropped = Note::Dropped(TaskId(2), "open, round 1".into());
    story.does(&[Effect::Log(dropped), Effect::Forget(fence(2)), Effect::Recover]);
    story.worker.handle_recovered(story.now, Ok(vec![(TaskId(3), State::Open)]));
    story.does(&[Effect::Log(Note::Orphan(TaskId(3), State::Open)), Effect::Claim(0)]);
}

#[test]
fn a_program_that_takes_too_long_is_ended_with_all_that_it_has_started() {
    let limit = Duration::from_secs(1);
    let mut story = Story::running(Assignment { timeout: Some(limit), ..task(1) });
    assert_eq!(story.next(), Some((Timer::Limit, limit)));
    story.does(&[Effect::Signal(Signal::Terminate)]);
    assert_eq!(story.next(), Some((Timer::Renew, RENEWAL_INTERVAL - limit)));
    story.does(&[Effect::Renew(Some(fence(1)))]);
    story.worker.handle_renewed(story.now, Some(&fence(1)), Ok(None));
    assert_eq!(story.next().unwrap().0, Timer::Signal);
    story.does(&[Effect::Signal(Signal::Kill)]);
    story.worker.handle_exited();
    story.does(&[Effect::CheckTree]);
    story.worker.handle_tree(story.now, true);
    story.does(&[Effect::Signal(Signal::Terminate)]);
    story.worker.handle_tree(story.now, false);
    story.collected(Outcome::TimedOut(limit), true);
    story.does(&[report(1, None)]);
}

#[test]
fn the_time_of_a_fetch_counts() {
    let limit = Duration::from_secs(1);
    let mut story = Story::claiming();
    story.claims(Assignment { timeout: Some(limit), ..task(1) });
    assert_eq!(story.next(), Some((Timer::Limit, limit)));
    story.does(&[Effect::CancelPreparation]);
    story.worker.handle_prepared(story.now, away());
    story.collected(Outcome::TimedOut(limit), true);
    story.does(&[report(1, None)]);
}

#[test]
fn a_run_that_is_not_ours_any_more_is_ended_and_not_reported() {
    let mut story = Story::running(task(1));
    story.next();
    story.does(&[Effect::Renew(Some(fence(1)))]);
    story.worker.handle_renewed(story.now, Some(&fence(1)), Ok(Some("expired".into())));
    let dropped = Note::Dropped(TaskId(1), "expired".into());
    story.does(&[Effect::Log(dropped), Effect::Signal(Signal::Terminate)]);
    story.ends();
    story.does(&[Effect::Discard]);
    assert_eq!(story.next(), Some((Timer::Claim, SETTINGS.pause_after_failure)));
}

#[test]
fn what_cannot_be_fetched_or_started_is_reported() {
    let mut story = Story::claiming();
    story.claims(task(1));
    story.worker.handle_prepared(story.now, away());
    story.collected(Outcome::Unstarted("gone".into()), true);
    story.does(&[report(1, None)]);
    let mut story = Story::claiming();
    story.claims(task(1));
    story.worker.handle_prepared(story.now, Ok(()));
    story.effects();
    story.worker.handle_started(story.now, Err(StartFailure::Task("no shell".into())));
    story.collected(Outcome::Unstarted("no shell".into()), true);
    story.does(&[report(1, None)]);
}

#[test]
fn a_worker_that_can_run_nothing_gives_back_and_ends() {
    let mut story = Story::claiming();
    story.claims(task(1));
    story.worker.handle_prepared(story.now, Ok(()));
    story.effects();
    story.worker.handle_started(story.now, Err(StartFailure::Worker("disk full".into())));
    story.does(&[Effect::Discard, Effect::GiveBack(fence(1))]);
    story.worker.handle_given_back(story.now, Ok(true));
    let end = End::Broken("disk full".into());
    story.does(&[Effect::Log(Note::GivenBack(TaskId(1))), Effect::Exit(end)]);
}

#[test]
fn a_stop_ends_the_program_and_gives_its_task_back() {
    let mut story = Story::running(task(1));
    story.worker.handle_stop(story.now);
    story.does(&[Effect::Signal(Signal::Terminate)]);
    // The second time it gets no time.
    story.worker.handle_stop(story.now);
    assert_eq!(story.next(), Some((Timer::Signal, Duration::ZERO)));
    story.does(&[Effect::Signal(Signal::Kill)]);
    story.ends();
    story.does(&[Effect::Discard, Effect::GiveBack(fence(1))]);
    story.worker.handle_given_back(story.now, Ok(true));
    let end = End::Stopped { given_back: Some(TaskId(1)) };
    story.does(&[Effect::Log(Note::GivenBack(TaskId(1))), Effect::Exit(end)]);
}

#[test]
fn a_task_that_was_moved_meanwhile_is_not_called_given_back() {
    let mut story = Story::running(task(1));
    story.worker.handle_stop(story.now);
    story.effects();
    story.ends();
    story.effects();
    story.worker.handle_given_back(story.now, Ok(false));
    let effects = story.effects();
    assert!(matches!(
        effects[..],
        [Effect::Log(Note::Dropped(TaskId(1), _)), Effect::Exit(End::Stopped { given_back: None })]
    ));
}

/// The shell of the command ends at once on SIGTERM, and is the root of the run.
#[test]
fn a_program_that_is_to_end_has_the_kill_interval_although_its_shell_has_ended() {
    let mut story = Story::running(task(1));
    story.worker.handle_stop(story.now);
    story.effects();
    story.worker.handle_exited();
    story.worker.handle_tree(story.now, true);
    story.effects();
    assert_eq!(story.next(), Some((Timer::Renew, Duration::from_secs(2))));
    story.does(&[Effect::Renew(Some(fence(1))), Effect::Signal(Signal::Kill), Effect::CheckTree]);
}

#[test]
fn a_stop_lets_a_result_be_reported_and_a_claim_be_answered() {
    let mut story = Story::running(task(1));
    story.ends();
    story.collected(Outcome::Executed, false);
    story.does(&[report(1, Some(1))]);
    story.worker.handle_stop(story.now);
    story.worker.handle_reported(story.now, Ok(None));
    story.does(&[Effect::Forget(fence(1))]);
    story.worker.handle_claimed(story.now, Ok(Some(task(2))));
    story.does(&[Effect::GiveBack(fence(2))]);
    story.worker.handle_given_back(story.now, Ok(true));
    let effects = story.effects();
    assert!(matches!(effects.last(), Some(Effect::Exit(End::Stopped { given_back: Some(TaskId(2)) }))), "{effects:?}");

    let mut story = Story::claiming();
    story.worker.handle_stop(story.now);
    story.does(&[]);
    story.worker.handle_claimed(story.now, Ok(None));
    story.does(&[Effect::Exit(End::Stopped { given_back: None })]);
}

#[test]
fn a_stop_while_redis_is_away_keeps_the_result_and_takes_no_longer_than_it_must() {
    let mut story = Story::running(task(1));
    story.ends();
    story.collected(Outcome::Executed, false);
    story.worker.handle_reported(story.now, away());
    story.effects();
    story.worker.handle_stop(story.now);
    let mut waited = Duration::ZERO;
    while let Some((timer, pause)) = story.next() {
        waited += pause;
        let effects = story.effects();
        match timer {
            Timer::Retry => {
                assert_eq!(effects, [report(1, None)], "no new claim");
                story.worker.handle_reported(story.now, away());
                story.effects();
            }
            Timer::Renew => story.worker.handle_renewed(story.now, Some(&fence(1)), away()),
            Timer::Leave => assert_eq!(effects, [Effect::Exit(End::Kept(TaskId(1)))]),
            other => assert_eq!(other, Timer::Keep),
        }
    }
    assert_eq!(waited, LEAVE_AFTER);

    let mut story = Story::running(task(1));
    story.worker.handle_stop(story.now);
    story.effects();
    story.ends();
    story.does(&[Effect::Discard, Effect::GiveBack(fence(1))]);
    story.worker.handle_given_back(story.now, away());
    story.effects();
    story.worker.handle_stop(story.now);
    story.does(&[Effect::Exit(End::Unreturned(TaskId(1)))]);
}

#[test]
fn a_program_that_has_failed_is_looked_at_before_it_runs_again() {
    let mut story = Story::running(task(1));
    story.ends();
    story.collected(Outcome::Executed, true);
    story.effects();
    story.worker.handle_reported(story.now, Ok(None));
    story.next();
    story.effects();
    story.worker.handle_claimed(story.now, Ok(Some(task(2))));
    story.does(&[Effect::Prepare { task: Box::new(task(2)), doubted: true }]);
}

#[test]
fn a_kept_result_that_cannot_be_read_is_read_again_and_then_stays_for_the_next_process() {
    let mut story = Story::new(SETTINGS, vec![fence(1), fence(2)]);
    story.does(&[report(1, None)]);
    story.worker.handle_unreadable(story.now, "EIO".to_owned());
    assert_eq!(story.next(), Some((Timer::Retry, READ_PAUSE)));
    story.does(&[report(1, None)]);
    story.worker.handle_reported(story.now, Ok(None));
    story.does(&[Effect::Forget(fence(1)), report(2, None)]);
    story.worker.handle_unreadable(story.now, "EIO".to_owned());
    for _ in 1..READS_MAX {
        assert_eq!(story.effects(), []);
        // The lease is renewed meanwhile.
        while !story.effects().contains(&report(2, None)) {
            story.next();
        }
        story.worker.handle_unreadable(story.now, "EIO".to_owned());
    }
    story.does(&[Effect::Log(Note::Unreadable(TaskId(2), "EIO".to_owned())), Effect::Recover]);
}

/// The report of a long one takes its time.
#[test]
fn the_lease_of_a_kept_result_is_renewed() {
    let mut story = Story::new(SETTINGS, vec![fence(1)]);
    story.does(&[report(1, None)]);
    assert_eq!(story.next(), Some((Timer::Renew, RENEWAL_INTERVAL)));
    story.does(&[Effect::Renew(Some(fence(1)))]);
}
