//! Scenarios of lists: the agent starts one task after the other, and says when it will start no more.

use super::*;
use api::wire::requests::apply::{DispatchList, ListTerms};
use api::wire::requests::report::LetGo;

const TIME: Duration = Duration::from_millis(25);

fn list(count: u64) -> ToAgent {
    let dispatches =
        (1..=count).map(|number| Dispatch { batch_delay: Duration::from_millis(8), ..dispatch(number) }).collect();
    ToAgent::List(Box::new(DispatchList { dispatches, terms: ListTerms { number: 7, time: TIME } }))
}

fn let_go(started: u32) -> Option<LetGo> {
    Some(LetGo { list: 7, started })
}

fn sent<'a>(effects: &'a [Effect]) -> Vec<&'a Report> {
    let report = |effect: &'a Effect| match effect {
        Effect::Send(FromAgent::Report(report)) => Some(&**report),
        _ => None,
    };
    effects.iter().filter_map(report).collect()
}

fn prepared(effects: &[Effect]) -> Vec<TaskId> {
    let task = |effect: &Effect| if let Effect::Prepare(dispatch) = effect { Some(dispatch.task) } else { None };
    effects.iter().filter_map(task).collect()
}

impl Host {
    /// An agent whose first task of a list runs.
    fn with_list(count: u64) -> Self {
        let mut host = Self::idle();
        assert_eq!(prepared(&host.answer(list(count))), [dispatch(1).task]);
        host.runs();
        host
    }

    fn runs(&mut self) {
        self.slot.handle_prepared(self.now, Ok(()));
        self.slot.handle_spawned(self.now, Ok(()));
        self.settle();
    }

    fn confirm(&mut self, number: u64) -> Vec<Effect> {
        let (task, round) = (dispatch(number).task, dispatch(number).round);
        self.answer(ToAgent::Reported { task, round, finished: true, accepted: true })
    }
}

#[test]
fn each_end_is_told_at_once_and_only_the_last_one_asks_for_more() {
    let mut host = Host::with_list(3);
    for number in 1..=2 {
        let effects = host.end(0);
        let [report] = &sent(&effects)[..] else { panic!("{effects:?}") };
        assert_eq!((report.task, report.phase, report.wait), (dispatch(number).task, Phase::Finished, None));
        assert_eq!(report.let_go, None);
        let at = |wanted: fn(&Effect) -> bool| effects.iter().position(wanted);
        let (told, started) = (at(|one| matches!(one, Effect::Send(_))), at(|one| matches!(one, Effect::Prepare(_))));
        assert!(told < started, "the end is told before the next task starts: {effects:?}");
        assert_eq!(prepared(&effects), [dispatch(number + 1).task], "without an answer");
        host.runs();
    }
    let effects = host.end(0);
    assert!(sent(&effects)[0].wait.is_some() && sent(&effects)[0].let_go.is_none(), "{effects:?}");
    assert_eq!(prepared(&effects), []);
    // Reports that the controller may have missed are repeated.
    assert_eq!(host.confirm(2), []);
    host.slot.handle_connected(host.now);
    host.settle();
    let repeated = host.answer(heard(2));
    assert_eq!(
        sent(&repeated).iter().map(|report| report.task).collect::<Vec<_>>(),
        [dispatch(1).task, dispatch(3).task]
    );
}

#[test]
fn a_list_is_let_go_when_its_task_turns_out_to_be_long() {
    let mut host = Host::with_list(3);
    host.pass(Duration::from_millis(8));
    let effects = host.pass(TIME);
    let [report] = &sent(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((report.task, report.phase, report.let_go), (dispatch(1).task, Phase::Running, let_go(1)));
    let effects = host.end(0);
    let [report] = &sent(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((report.let_go, report.wait.is_some()), (let_go(1), true), "it says so again");
    assert_eq!(prepared(&effects), []);
}

/// An agent that was stopped for long finds the end of its run before anything else.
#[test]
fn no_task_of_a_list_starts_after_its_time() {
    let mut host = Host::with_list(3);
    host.now.mono = host.now.mono + TIME;
    let effects = host.end(0);
    let [report] = &sent(&effects)[..] else { panic!("{effects:?}") };
    assert_eq!((report.let_go, report.wait.is_some()), (let_go(1), true));
    assert_eq!(prepared(&effects), []);
    // Nor does a list that arrives when its time has passed.
    let mut host = Host::idle();
    host.now.mono = host.now.mono + TIME;
    assert_eq!(prepared(&host.answer(list(2))), [dispatch(1).task]);
    host.runs();
    assert_eq!(prepared(&host.end(0)), []);
}

#[test]
fn a_list_does_not_outlive_its_connection() {
    let mut host = Host::with_list(3);
    host.end(0);
    host.runs();
    host.slot.handle_connected(host.now);
    host.settle();
    let mut tasks = told(&host.answer(heard(1)));
    tasks.extend(told(&host.pass(Duration::from_millis(8))));
    assert!(tasks.contains(&(dispatch(1).task, None)) && tasks.contains(&(dispatch(2).task, let_go(2))), "{tasks:?}");
    assert_eq!(prepared(&host.end(0)), []);
}

fn told(effects: &[Effect]) -> Vec<(TaskId, Option<LetGo>)> {
    sent(effects).into_iter().map(|report| (report.task, report.let_go)).collect()
}

#[test]
fn a_killed_task_of_a_list_never_starts() {
    let mut host = Host::with_list(3);
    host.slot.handle_published(host.now, Published::Kill(dispatch(2).task, dispatch(2).round));
    // Those of others do not displace it.
    for number in 100..300 {
        host.slot.handle_published(host.now, Published::Kill(dispatch(number).task, Round(0)));
    }
    assert_eq!(host.settle(), [], "the running task is not meant");
    let effects = host.end(0);
    assert!(effects.contains(&Effect::AbortPrepare), "{effects:?}");
    host.slot.handle_prepared(host.now, Ok(()));
    let effects = host.settle();
    assert!(!effects.contains(&Effect::Spawn), "{effects:?}");
    let effects = host.clean();
    assert_eq!(reports(&effects), [(Phase::Finished, Some(ExitCode::KILLED_PREPARING.0))]);
    assert_eq!(prepared(&effects), [dispatch(3).task], "the others go on");
}

#[test]
fn a_refused_report_a_stop_and_a_retirement_end_a_list() {
    let refused = ToAgent::Reported { task: dispatch(1).task, round: Round(0), finished: true, accepted: false };
    let mut host = Host::with_list(4);
    host.end(0);
    host.runs();
    host.answer(refused);
    let effects = host.end(0);
    assert_eq!((prepared(&effects), sent(&effects)[0].let_go), (vec![], let_go(2)));
    let mut host = Host::with_list(2);
    host.slot.handle_retire(host.now);
    let effects = host.end(0);
    assert_eq!((prepared(&effects), sent(&effects)[0].let_go, sent(&effects)[0].wait), (vec![], let_go(1), None));
    let mut host = Host::with_list(2);
    host.slot.handle_stop(host.now);
    host.slot.handle_exited(host.now, exited(-15));
    assert_eq!(prepared(&host.clean()), []);
}
