//! Scenarios of tasks that a tool that stays gets.

use super::*;

const CANCEL: Effect = Effect::Cancel { ends_tool: true };

impl Host {
    /// A tool is being started for the task.
    fn starting_a_tool() -> Self {
        let mut host = Self::idle();
        host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
        host.slot.handle_prepared(host.now, Ok(()));
        assert!(host.settle().contains(&Effect::Spawn));
        host
    }

    fn handed() -> Self {
        let mut host = Self::starting_a_tool();
        host.slot.handle_handed(host.now);
        host.settle();
        assert!(host.next(Duration::from_millis(2)).is_some_and(|effect| matches!(effect, Effect::Send(_))));
        host
    }
}

#[test]
fn a_task_is_running_when_its_tool_has_it_and_its_value_is_reported() {
    let mut host = Host::starting_a_tool();
    host.slot.handle_handed(host.now);
    assert_eq!(host.settle(), [], "the answer may come at once");
    let Some(effect) = host.next(Duration::from_millis(2)) else { panic!("no report") };
    assert_eq!(reports(&[effect]), [(Phase::Running, None)]);
    let Exited { result, provided } = exited(0);
    let result = RunResult { value: Some("7".into()), warm: Some(true), ..result };
    host.slot.handle_exited(host.now, Exited { result, provided });
    let effects = host.clean();
    assert_eq!(reports(&effects), [(Phase::Finished, Some(0))]);
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Send(FromAgent::Report(report)) => report.result.clone(),
        _ => None,
    });
    let result = told.expect("a result");
    assert_eq!((result.value.as_deref(), result.warm, result.by_itself), (Some("7"), Some(true), true));
}

#[test]
fn a_killed_task_is_cancelled_first_and_its_tool_gets_the_kill_ladder_later() {
    let mut host = Host::handed();
    assert_eq!(host.kill(), [CANCEL]);
    assert_eq!(host.kill(), [], "once");
    assert_eq!(host.next(KILL_INTERVAL - Duration::from_millis(1)), None);
    assert_eq!(host.next(Duration::from_millis(1)), Some(Effect::Signal(Signal::Terminate)));
    assert_eq!(host.next(KILL_INTERVAL), Some(Effect::Signal(Signal::Kill)));
    assert_eq!(reports(&host.end(-9)), [(Phase::Finished, Some(-9))]);
}

#[test]
fn a_killed_task_that_answers_in_time_is_not_signalled() {
    let mut host = Host::handed();
    host.kill();
    let effects = host.end(1);
    assert_eq!(reports(&effects), [(Phase::Finished, Some(1))]);
    let later = std::iter::repeat_with(|| host.pass(INTERVAL)).take(4).flatten();
    assert!(!later.into_iter().any(|effect| matches!(effect, Effect::Signal(_))));
}

#[test]
fn a_kill_during_the_start_of_a_tool_stops_that() {
    let mut host = Host::starting_a_tool();
    assert_eq!(host.kill(), [Effect::AbortStart]);
    let mut killed = exited(ExitCode::KILLED_PREPARING.0);
    killed.result.error = "killed".to_owned();
    host.slot.handle_spawned(host.now, Err(SpawnFailure::Exited(Box::new(killed))));
    assert_eq!(reports(&host.clean()), [(Phase::Finished, Some(ExitCode::KILLED_PREPARING.0))]);
}

#[test]
fn an_order_that_overtakes_the_start_is_carried_out_after_it() {
    let mut host = Host::starting_a_tool();
    host.kill();
    host.slot.handle_handed(host.now);
    assert!(host.settle().contains(&CANCEL));
}
