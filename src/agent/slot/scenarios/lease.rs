//! Scenarios of exclusive runs: the agent's behaviour when it is not sure that its controller receives its messages.

use super::*;

/// How long a run may continue after the last answered heartbeat.
const TERM: Duration = Duration::from_millis(5940);
const KILL_TIME: Duration = Duration::from_millis(1500);

fn exclusive() -> Dispatch {
    Dispatch { lease: Some(INTERVAL * 2), ..dispatch(1) }
}

impl Host {
    /// The controller answers the latest heartbeat.
    fn is_heard(&mut self, number: u32, wanted: Option<Directive>) -> Vec<Effect> {
        let wanted = wanted.map(|wanted| (dispatch(1).task, Round(0), wanted));
        self.answer(ToAgent::Heard(Heard {
            controller: 1,
            beat: Some(number),
            wanted,
            parked: true,
            tools: None,
            serving: None,
            folder: None,
            epoch: None,
            clock: None,
        }))
    }

    /// An agent whose first heartbeat was answered, and which got an exclusive task at once.
    fn with_exclusive(prepared: bool) -> (Self, Vec<Effect>) {
        let mut host = Self::starting();
        host.settle();
        host.is_heard(1, None);
        let effects = host.answer(ToAgent::Dispatch(Box::new(exclusive())));
        if prepared {
            host.slot.handle_prepared(host.now, Ok(()));
            assert_eq!(host.slot.poll_effect(host.now), Some(Effect::Spawn));
            host.slot.handle_spawned(host.now, Ok(()));
            host.settle();
        }
        (host, effects)
    }

    fn hold(&self, from: Mono) -> Effect {
        Effect::Lease(Some(Hold { until: from + TERM, kill_at: from + TERM + KILL_TIME }))
    }

    /// All effects of a period without contact.
    fn alone(&mut self, time: Duration) -> Vec<Effect> {
        let end = self.now.mono + time;
        let mut all = Vec::new();
        while self.now.mono < end {
            all.extend(self.pass(end.since(self.now.mono)));
        }
        all.retain(|effect| !is_heartbeat(effect) && *effect != Effect::Reconnect);
        all
    }
}

#[test]
fn the_guard_knows_of_the_lease_before_anything_is_prepared() {
    let start = Mono::from_nanos(0);
    let (mut host, effects) = Host::with_exclusive(true);
    assert_eq!(effects[0], host.hold(start), "{effects:?}");
    assert!(is_heartbeat(&effects[1]), "the controller hears of the run at once: {effects:?}");
    assert!(matches!(effects[2], Effect::Prepare(_)), "{effects:?}");
    let effects = host.end(0);
    assert!(effects.contains(&Effect::Lease(None)), "nothing is left: {effects:?}");
    assert_eq!(reports(&effects), [(Phase::Finished, Some(0))]);
}

#[test]
fn an_answered_heartbeat_renews_the_lease_from_when_it_was_sent() {
    let (mut host, _) = Host::with_exclusive(true);
    host.now.mono = host.now.mono + Duration::from_millis(700);
    let sent = Mono::from_nanos(0);
    assert_eq!(host.is_heard(2, Some(Directive::Run)), [], "it was sent when the lease began");
    let effects = host.pass(INTERVAL);
    assert!(is_heartbeat(&effects[0]));
    let sent = sent + INTERVAL;
    host.now.mono = host.now.mono + Duration::from_millis(700);
    assert_eq!(host.is_heard(3, Some(Directive::Run)), [host.hold(sent)]);
    assert_eq!(host.is_heard(3, Some(Directive::Run)), [], "twice is once");
}

/// The controller may have given the run up already, and waits only for the lease that it knows of.
#[test]
fn an_answer_that_does_not_speak_of_the_run_renews_nothing() {
    let (mut host, _) = Host::with_exclusive(true);
    host.pass(INTERVAL);
    assert_eq!(host.is_heard(3, None), []);
    assert_eq!(host.alone(TERM - INTERVAL), [Effect::Signal(Signal::Terminate)]);
}

#[test]
fn a_run_is_ended_when_its_controller_is_not_heard() {
    let (mut host, _) = Host::with_exclusive(true);
    assert_eq!(host.alone(TERM - Duration::from_millis(1)), []);
    assert_eq!(host.alone(Duration::from_millis(1)), [Effect::Signal(Signal::Terminate)]);
    assert_eq!(host.alone(KILL_INTERVAL), [Effect::Signal(Signal::Kill)]);
    assert_eq!(host.end(-9), [Effect::CheckTree, Effect::Lease(None), Effect::Remove], "the controller is not there");
    let effects = host.answer(heard(1));
    assert_eq!(reports(&effects), [(Phase::Finished, Some(ExitCode::LEASE_OVER.0))], "and hears so when it is back");
}

/// No process has to be ended, and the controller can still use the result.
#[test]
fn what_has_ended_in_time_keeps_its_result() {
    let (mut host, _) = Host::with_exclusive(true);
    host.end(3);
    assert_eq!(host.alone(TERM * 2), []);
    assert_eq!(reports(&host.answer(heard(2))), [(Phase::Finished, Some(3))]);
}

/// An agent that was stopped wakes after the term.
#[test]
fn a_run_is_not_started_beyond_its_lease() {
    let (mut host, _) = Host::with_exclusive(false);
    host.slot.handle_prepared(host.now, Ok(()));
    host.now.mono = host.now.mono + TERM;
    let effects = host.settle();
    assert!(!effects.contains(&Effect::Spawn) && effects.contains(&Effect::CheckTree), "{effects:?}");
    host.clean();
    assert_eq!(reports(&host.answer(heard(2))), [(Phase::Finished, Some(ExitCode::LEASE_OVER.0))]);
}

#[test]
fn an_agent_that_wakes_up_late_kills_at_once() {
    let (mut host, _) = Host::with_exclusive(true);
    host.now.mono = host.now.mono + TERM + KILL_TIME;
    host.slot.handle_timeout(host.now);
    let effects = host.settle();
    assert!(effects.contains(&Effect::Signal(Signal::Kill)), "{effects:?}");
    assert!(!effects.contains(&Effect::Signal(Signal::Terminate)), "{effects:?}");
}

/// The guard was faster; SIGCHLD comes before every deadline. That is no failure of the tool.
#[test]
fn a_run_that_the_guard_has_ended_is_given_up() {
    let (mut host, _) = Host::with_exclusive(true);
    host.now.mono = host.now.mono + TERM + KILL_TIME;
    host.end(-9);
    assert_eq!(reports(&host.answer(heard(2))), [(Phase::Finished, Some(ExitCode::LEASE_OVER.0))]);
}

#[test]
fn a_run_that_is_not_wanted_is_said_to_be_over() {
    let (mut host, _) = Host::with_exclusive(true);
    assert_eq!(host.is_heard(2, Some(Directive::Drop)), [Effect::Signal(Signal::Terminate)]);
    assert_eq!(reports(&host.end(-15)), [(Phase::Finished, Some(ExitCode::LEASE_OVER.0))]);
    let refused = ToAgent::Reported { task: dispatch(1).task, round: Round(0), finished: true, accepted: false };
    assert_eq!(host.answer(refused), [], "it waits for its next task");
}

#[test]
fn a_task_that_comes_when_its_lease_is_over_is_asked_for_again() {
    let mut host = Host::starting();
    host.settle();
    host.is_heard(1, None);
    host.alone(TERM);
    assert_eq!(host.answer(ToAgent::Dispatch(Box::new(exclusive()))), []);
    let effects = host.is_heard(2, None);
    assert_eq!(effects, [apply()], "{effects:?}");
    let effects = host.answer(ToAgent::Dispatch(Box::new(exclusive())));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Prepare(_))), "{effects:?}");
}

/// A stopping agent returns the task with its good-bye.
#[test]
fn an_agent_that_stops_leaves_the_lease_with_its_good_bye() {
    let (mut host, _) = Host::with_exclusive(true);
    host.slot.handle_stop(host.now);
    assert_eq!(host.settle(), [Effect::Signal(Signal::Terminate)]);
    let effects = host.end(-15);
    assert!(effects.contains(&Effect::Lease(None)) && effects.contains(&Effect::Send(FromAgent::Exit)), "{effects:?}");
    assert_eq!(reports(&effects), []);
}
