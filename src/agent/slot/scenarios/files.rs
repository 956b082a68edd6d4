//! Files of a run that are kept with its task.

use std::sync::Arc;

use super::*;
use base::{FilePattern, KeptFiles, TaskFiles};

fn outputs() -> Arc<TaskFiles> {
    Arc::new(TaskFiles { inputs: Vec::new(), outputs: vec![FilePattern::new("*").unwrap()] })
}

/// An agent that runs a task with outputs.
fn keeping() -> Host {
    let mut host = Host::idle();
    host.answer(ToAgent::Dispatch(Box::new(Dispatch { files: Some(outputs()), ..dispatch(1) })));
    host.slot.handle_prepared(host.now, Ok(()));
    host.slot.handle_spawned(host.now, Ok(()));
    host.settle();
    host
}

/// A result is reported with its files or not at all; a kill meanwhile stops only the keeping.
#[test]
fn the_files_of_a_run_are_kept_before_its_result_is_reported() {
    let kept = || KeptFiles { note: "a was not kept".to_owned(), ..KeptFiles::default() };
    for is_killed in [false, true] {
        let mut host = keeping();
        host.slot.handle_exited(host.now, exited(0));
        host.slot.handle_tree(host.now, false, 0);
        let effects = host.settle();
        assert!(effects.contains(&Effect::Keep) && !effects.contains(&Effect::Remove), "{effects:?}");
        let result = |effect: &Effect| match effect {
            Effect::Send(FromAgent::Report(report)) => report.result.clone(),
            _ => None,
        };
        assert!(effects.iter().all(|effect| result(effect).is_none()), "{effects:?}");
        if is_killed {
            assert!(host.kill().contains(&Effect::AbortKeep));
        }
        host.slot.handle_kept(dispatch(2).task, kept());
        assert_eq!(host.settle(), [], "it is not about this task");
        host.slot.handle_kept(dispatch(1).task, kept());
        assert_eq!(host.settle(), [Effect::Remove]);
        host.slot.handle_removed(host.now);
        let reported = host.settle().iter().find_map(result).unwrap();
        assert_eq!((reported.exit_code, reported.files), (ExitCode(0), Some(Box::new(kept()))));
    }
}

/// A result without its files is not complete: the run waits for another agent.
#[test]
fn an_agent_that_stops_while_it_keeps_files_does_not_report_the_run() {
    let mut host = keeping();
    host.slot.handle_exited(host.now, exited(0));
    host.slot.handle_tree(host.now, false, 0);
    host.settle();
    host.slot.handle_stop(host.now);
    assert_eq!(host.settle(), [Effect::AbortKeep]);
    host.slot.handle_kept(dispatch(1).task, KeptFiles::default());
    assert_eq!(host.settle(), [Effect::Remove]);
    host.slot.handle_removed(host.now);
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Exit)]);
}

/// A run that never started has no files.
#[test]
fn a_failed_preparation_keeps_nothing() {
    let mut host = Host::idle();
    host.answer(ToAgent::Dispatch(Box::new(Dispatch { files: Some(outputs()), ..dispatch(1) })));
    let failure = Failure { exit_code: ExitCode::PREPARE_FAILED, error: "the input a".to_owned() };
    host.slot.handle_prepared(host.now, Err(failure));
    host.slot.handle_tree(host.now, false, 0);
    let effects = host.settle();
    assert!(effects.contains(&Effect::Remove) && !effects.contains(&Effect::Keep), "{effects:?}");
}
