//! Scenarios of runs that are told to finish early, in each state of a run.

use std::sync::Arc;

use super::*;
use base::{PortName, Provided, RunResult, StepContext, StepName, StepRole};

const STEP_GRACE: Duration = Duration::from_secs(5);

fn of_a_step() -> Dispatch {
    let step = StepContext {
        graph: "GRAPH_1480000000.120000_AZazA".parse().unwrap(),
        step: StepName::new("s").unwrap(),
        role: StepRole::Main,
        partition: 0,
        inputs: [].into(),
        outputs: Arc::from([PortName::new("out").unwrap()]),
        grace: STEP_GRACE,
    };
    Dispatch { step: Some(Arc::new(step)), ..dispatch(1) }
}

fn provided() -> Box<Provided> {
    Box::new([(PortName::new("out").unwrap(), vec!["a".into()])].into())
}

fn providing(exit_code: i32) -> Exited {
    Exited { provided: Some(ProvideFolder::Read(provided())), ..exited(exit_code) }
}

/// What a run that has been told gets.
const TOLD: [Effect; 2] = [Effect::TellToFinish, Effect::Signal(Signal::Terminate)];

impl Host {
    fn taking(dispatch: Dispatch) -> Self {
        let mut host = Self::idle();
        host.answer(ToAgent::Dispatch(Box::new(dispatch)));
        host
    }

    fn of_a_step() -> Self {
        let mut host = Self::taking(of_a_step());
        host.slot.handle_prepared(host.now, Ok(()));
        host.slot.handle_spawned(host.now, Ok(()));
        host.settle();
        host
    }

    fn finish(&mut self) -> Vec<Effect> {
        self.slot.handle_published(self.now, Published::Finish(dispatch(1).task, dispatch(1).round));
        self.settle()
    }

    /// The order in the answer to a heartbeat.
    fn is_wanted(&mut self, directive: Directive) -> Vec<Effect> {
        let wanted = Some((dispatch(1).task, Round(0), directive));
        let ToAgent::Heard(heard) = heard(1) else { unreachable!() };
        self.answer(ToAgent::Heard(Heard { wanted, ..heard }))
    }

    /// run.sh has ended like this; the last report.
    fn ends(&mut self, exited: Exited) -> (RunResult, Option<Box<Provided>>) {
        self.slot.handle_exited(self.now, exited);
        let effects = self.clean();
        let report = effects.iter().rev().find_map(|effect| match effect {
            Effect::Send(FromAgent::Report(report)) => Some(report),
            _ => None,
        });
        let Some(report) = report.filter(|report| report.phase == Phase::Finished) else { panic!("{effects:?}") };
        (report.result.clone().unwrap(), report.provided.clone())
    }
}

#[test]
fn a_run_that_is_told_gets_a_file_and_a_signal_and_its_end_is_no_failure() {
    for exit_code in [0, 7, -15, 75] {
        let mut host = Host::of_a_step();
        assert_eq!(host.finish(), TOLD);
        let (result, given) = host.ends(providing(exit_code));
        assert_eq!((result.exit_code.0, result.told_to_finish, result.by_itself), (exit_code, true, false));
        assert_eq!(given, Some(provided()), "its locations count");
        let later = std::iter::repeat_with(|| host.pass(INTERVAL)).take(4).flatten();
        assert!(!later.into_iter().any(|effect| matches!(effect, Effect::Signal(_))), "no signal follows");
    }
}

#[test]
fn a_lost_order_comes_with_the_next_answer_and_a_repeated_one_changes_nothing() {
    let mut host = Host::of_a_step();
    assert_eq!(host.is_wanted(Directive::Run), []);
    assert_eq!(host.is_wanted(Directive::Finish), TOLD);
    assert_eq!((host.is_wanted(Directive::Finish), host.finish()), (vec![], vec![]));
}

#[test]
fn a_run_that_does_not_finish_gets_the_kill_ladder_after_the_grace_time() {
    let mut host = Host::of_a_step();
    host.finish();
    assert_eq!(host.next(STEP_GRACE - Duration::from_millis(1)), None);
    assert_eq!(host.next(Duration::from_millis(1)), Some(Effect::Signal(Signal::Terminate)));
    assert_eq!(host.next(KILL_INTERVAL), Some(Effect::Signal(Signal::Kill)));
    let (result, given) = host.ends(providing(-9));
    assert!(result.told_to_finish && given.is_some(), "it was not killed for itself");
}

#[test]
fn a_kill_overrides_the_order_to_finish() {
    let mut host = Host::of_a_step();
    host.finish();
    assert_eq!(host.kill(), [Effect::Signal(Signal::Terminate)]);
    assert_eq!(host.next(KILL_INTERVAL), Some(Effect::Signal(Signal::Kill)), "it does not wait for the grace time");
    let (result, given) = host.ends(providing(-9));
    assert_eq!((result.told_to_finish, given), (false, None));
}

#[test]
fn a_killed_run_is_not_told_to_finish() {
    let mut host = Host::of_a_step();
    host.kill();
    assert_eq!((host.finish(), host.is_wanted(Directive::Finish)), (vec![], vec![]));
    assert!(!host.ends(providing(-15)).0.told_to_finish);
}

#[test]
fn a_run_that_prepares_is_not_started() {
    let mut host = Host::taking(of_a_step());
    assert_eq!(host.finish(), [Effect::AbortPrepare]);
    host.slot.handle_prepared(host.now, Ok(()));
    assert!(!host.settle().contains(&Effect::Spawn));
    host.slot.handle_tree(host.now, false, 0);
    host.slot.handle_removed(host.now);
    let effects = host.settle();
    assert_eq!(told(&effects), Some((Phase::Finished, "told to finish during its preparation".to_owned(), true)));

    // A kill while the preparation stops.
    let mut host = Host::taking(of_a_step());
    host.finish();
    host.kill();
    host.slot.handle_prepared(host.now, Ok(()));
    assert_eq!(told(&host.clean()).unwrap().1, "killed during its preparation");
}

#[test]
fn a_run_that_starts_is_told_when_it_runs() {
    let mut host = Host::taking(of_a_step());
    host.slot.handle_prepared(host.now, Ok(()));
    assert!(host.settle().contains(&Effect::Spawn));
    assert_eq!(host.finish(), [Effect::AbortStart], "which concerns a tool that stays alone");
    host.slot.handle_spawned(host.now, Ok(()));
    assert!(host.settle().starts_with(&TOLD));

    // One whose start is being repeated ends without it.
    let mut host = Host::taking(of_a_step());
    host.slot.handle_prepared(host.now, Ok(()));
    host.slot.handle_spawned(host.now, Err(SpawnFailure::Busy));
    host.settle();
    host.finish();
    assert_eq!(reports(&host.clean()), [(Phase::Finished, Some(-128))]);
}

#[test]
fn an_order_may_come_before_its_task_and_a_kill_is_the_stronger_one() {
    let mut host = Host::idle();
    assert_eq!(host.finish(), []);
    let effects = host.answer(ToAgent::Dispatch(Box::new(of_a_step())));
    assert!(effects.contains(&Effect::AbortPrepare), "{effects:?}");

    let mut host = Host::idle();
    host.finish();
    host.kill();
    host.finish();
    host.answer(ToAgent::Dispatch(Box::new(of_a_step())));
    host.slot.handle_prepared(host.now, Ok(()));
    assert_eq!(told(&host.clean()).unwrap().1, "killed during its preparation");
}

#[test]
fn a_run_that_has_ended_is_not_told_and_a_task_without_a_step_never_is() {
    let mut host = Host::of_a_step();
    host.slot.handle_exited(host.now, providing(7));
    host.settle();
    assert_eq!(host.finish(), []);
    host.slot.handle_tree(host.now, false, 0);
    host.slot.handle_removed(host.now);
    let effects = host.settle();
    let Some(Effect::Send(FromAgent::Report(report))) = effects.last() else { panic!("{effects:?}") };
    assert!(!report.result.as_ref().unwrap().told_to_finish && report.provided.is_none());

    let mut host = Host::running();
    assert_eq!(host.finish(), []);
    assert!(!host.ends(exited(0)).0.told_to_finish);
}

#[test]
fn only_a_round_that_succeeds_provides_and_only_in_its_last_report() {
    assert_eq!(Host::of_a_step().ends(providing(1)).1, None);
    assert_eq!(Host::of_a_step().ends(providing(75)).1, None, "a round that defers has not succeeded");
    let mut host = Host::of_a_step();
    host.slot.handle_exited(host.now, providing(0));
    host.slot.handle_tree(host.now, true, 0);
    let effects = host.settle();
    let early =
        effects.iter().any(|effect| matches!(effect, Effect::Send(FromAgent::Report(r)) if r.provided.is_some()));
    assert!(!early && reports(&effects) == [(Phase::Ended, Some(0))]);
    let effects = host.clean();
    assert!(matches!(effects.last(), Some(Effect::Send(FromAgent::Report(r))) if r.provided.is_some()));
}

#[test]
fn a_folder_that_cannot_be_read_makes_a_run_fail_unless_it_was_told_to_finish() {
    let invalid = |exit_code| {
        let provided = Some(ProvideFolder::Invalid("../provide/x is a link".to_owned()));
        Exited { provided, ..exited(exit_code) }
    };
    for (told, exit_code, expected, error) in
        [(false, 0, -133, "../provide/x is a link"), (false, 3, 3, ""), (true, -15, -15, "../provide/x is a link")]
    {
        let mut host = Host::of_a_step();
        if told {
            host.finish();
        }
        let (result, given) = host.ends(invalid(exit_code));
        assert_eq!((result.exit_code.0, &*result.error, given), (expected, error, None));
    }
}
