//! An agent that is asked to end as soon as it has no task.

use super::*;

#[test]
fn a_retiring_agent_without_a_task_leaves_at_once() {
    let mut host = Host::idle();
    host.slot.handle_retire(host.now);
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Exit)]);
    assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);
}

#[test]
fn a_retiring_agent_ends_its_run_normally_and_leaves_when_the_result_is_confirmed() {
    let mut host = Host::running();
    host.slot.handle_retire(host.now);
    assert_eq!(host.settle(), []);
    assert_eq!(host.next(INTERVAL * 10), None, "the run goes on");
    let effects = host.end(0);
    assert_eq!(reports(&effects), [(Phase::Finished, Some(0))]);
    let asks = |effect: &Effect| match effect {
        Effect::Send(FromAgent::Report(report)) => report.wait.is_some(),
        Effect::Send(FromAgent::Apply(_)) => true,
        _ => false,
    };
    assert!(!effects.iter().any(asks), "it wants no other task: {effects:?}");
    // The controller may be replaced at the same time: the result is not given up.
    host.pass(STOP_TIMEOUT * 3);
    let (task, round) = (dispatch(1).task, Round(0));
    let confirmed = ToAgent::Reported { task, round, finished: true, accepted: true };
    assert_eq!(host.answer(confirmed), [Effect::Send(FromAgent::Exit)]);
    assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);
}

/// A stop is more urgent than the end of the run.
#[test]
fn a_retiring_agent_can_still_be_stopped() {
    let mut host = Host::running();
    host.slot.handle_retire(host.now);
    host.slot.handle_stop(host.now);
    assert_eq!(host.settle(), [Effect::Signal(Signal::Terminate)]);
}
