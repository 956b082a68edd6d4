//! Scenarios of an agent, on virtual time, with a shell that does what each scenario says.
#![cfg(test)]

mod epochs;
mod files;
mod finish;
mod lease;
mod lists;
mod progress;
mod retire;
mod stay;

use std::collections::BTreeSet;
use std::time::Duration;

use super::stop::FAREWELL;
use super::*;
use api::wire::publish::Published;
use api::wire::requests::heartbeat::{Beat, Heartbeat};
use api::wire::version::Version;
use base::{ExitCode, Fields, Phase, RunResult, ToolName, Wall};

const INTERVAL: Duration = Duration::from_secs(3);
const KILL_INTERVAL: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_millis(500);
const FOREIGN_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

struct Host {
    slot: Slot,
    now: Now,
}

impl Host {
    /// An agent that has just started.
    fn starting() -> Self {
        Self::starting_with(3)
    }

    fn starting_with(kill_count: u32) -> Self {
        let settings = Settings {
            epochs: Vec::new(),
            agent: AgentId::new("a").unwrap(),
            session: Session(1),
            replaces: Some(Session(9)),
            tags: Labels::default(),
            tools: None,
            ip: "127.0.0.1".to_owned(),
            heartbeat_interval: INTERVAL,
            kill_interval: KILL_INTERVAL,
            kill_count,
            straggler_grace: GRACE,
            foreign_process_timeout: FOREIGN_TIMEOUT,
            stop_timeout: STOP_TIMEOUT,
        };
        let now = Now { mono: Mono::from_nanos(0), wall: Wall::from_micros(1_000_000) };
        Self { slot: Slot::new(settings, now), now }
    }

    /// An agent that waits for a task.
    fn idle() -> Self {
        Self::starting().ready()
    }

    /// The controller answers.
    fn ready(mut self) -> Self {
        self.settle();
        self.answer(heard(1));
        self
    }

    /// An agent whose run.sh runs.
    fn running() -> Self {
        Self::idle().with_a_run()
    }

    fn with_a_run(mut self) -> Self {
        let host = &mut self;
        host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
        host.slot.handle_prepared(host.now, Ok(()));
        host.slot.handle_spawned(host.now, Ok(()));
        host.settle();
        self
    }

    /// All effects but looks at the outputs, which change nothing here.
    fn settle(&mut self) -> Vec<Effect> {
        let effects = std::iter::from_fn(|| self.slot.poll_effect(self.now));
        effects.filter(|effect| ![Effect::TrimOutputs, Effect::LookAtProgress].contains(effect)).collect()
    }

    /// Lets time pass, and counts the looks at the outputs.
    fn looks_at_outputs(&mut self, within: Duration, is_long: bool) -> u32 {
        let end = self.now.mono + within;
        let mut looks = 0;
        while let Some((at, _)) = self.slot.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now.mono = at;
            self.slot.handle_timeout(self.now);
            while let Some(effect) = self.slot.poll_effect(self.now) {
                if effect == Effect::TrimOutputs {
                    looks += 1;
                    self.slot.handle_trimmed(self.now, is_long);
                }
            }
        }
        self.now.mono = end;
        looks
    }

    fn answer(&mut self, answer: ToAgent) -> Vec<Effect> {
        self.slot.handle_answer(self.now, answer);
        self.settle()
    }

    fn kill(&mut self) -> Vec<Effect> {
        self.slot.handle_published(self.now, Published::Kill(dispatch(1).task, dispatch(1).round));
        self.settle()
    }

    /// Lets time pass up to the end or the first effect.
    fn pass(&mut self, duration: Duration) -> Vec<Effect> {
        let end = self.now.mono + duration;
        while let Some((at, _)) = self.slot.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now.mono = at;
            self.slot.handle_timeout(self.now);
            let effects = self.settle();
            if !effects.is_empty() {
                return effects;
            }
        }
        self.now.mono = end;
        Vec::new()
    }

    /// The next effect except heartbeats, which are answered.
    fn next(&mut self, within: Duration) -> Option<Effect> {
        let end = self.now.mono + within;
        loop {
            let left = end.since(self.now.mono);
            let effects = self.pass(left);
            let mut others = effects.into_iter().filter(|effect| !is_heartbeat(effect));
            if let Some(effect) = others.next() {
                return Some(effect);
            }
            if self.now.mono >= end {
                return None;
            }
            assert_eq!(self.answer(heard(1)), []);
        }
    }

    /// Goes through the end of a run that leaves no process behind.
    fn end(&mut self, exit_code: i32) -> Vec<Effect> {
        self.slot.handle_exited(self.now, exited(exit_code));
        self.clean()
    }

    fn clean(&mut self) -> Vec<Effect> {
        self.slot.handle_tree(self.now, false, 0);
        self.slot.handle_removed(self.now);
        self.settle()
    }
}

fn is_heartbeat(effect: &Effect) -> bool {
    matches!(effect, Effect::Send(FromAgent::Heartbeat(_)))
}

fn heard(controller: u64) -> ToAgent {
    ToAgent::Heard(Heard {
        controller,
        wanted: None,
        parked: true,
        tools: None,
        beat: None,
        serving: None,
        folder: None,
        epoch: None,
        clock: None,
    })
}

fn dispatch(number: u64) -> Dispatch {
    Dispatch {
        files: None,
        task: TaskId::new(Wall::from_micros(number), [0; 5]),
        round: Round(0),
        tool: ToolName::new("t").unwrap(),
        pin: None,
        command: None,
        source: None,
        fields: Fields::new(),
        batch_delay: Duration::ZERO,
        lease: None,
        step: None,
    }
}

fn exited(exit_code: i32) -> Exited {
    let result = RunResult { cpu_seconds: 0.5, max_rss_kib: 7, ..RunResult::of(ExitCode(exit_code), String::new()) };
    Exited { result, provided: None }
}

/// The phases and exit codes of the reports among the effects.
fn reports(effects: &[Effect]) -> Vec<(Phase, Option<i32>)> {
    let report = |effect: &Effect| match effect {
        Effect::Send(FromAgent::Report(report)) => {
            Some((report.phase, report.result.as_ref().map(|result| result.exit_code.0)))
        }
        _ => None,
    };
    effects.iter().filter_map(report).collect()
}

fn apply() -> Effect {
    Effect::Send(FromAgent::Apply(Some(INTERVAL * 2)))
}

#[test]
fn an_agent_says_hello_and_then_asks_for_a_task() {
    let mut host = Host::starting();
    let hello = Heartbeat {
        busy: false,
        run: None,
        ip: Some("127.0.0.1".to_owned()),
        tags: Labels::default(),
        replaces: Some(Session(9)),
        tools: None,
        beat: Some(Beat { number: 1, kill_budget: Some(KILL_INTERVAL + GRACE + Duration::from_secs(1)) }),
        version: Some(Version::ours()),
        own_versions: None,
        epoch: None,
        skew: None,
        warm: BTreeSet::new(),
    };
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Heartbeat(hello))]);
    assert_eq!(host.answer(heard(1)), [Effect::Ready, apply()]);
    assert_eq!(host.answer(heard(1)), [], "one APPLY is enough");
    host.now.mono = host.now.mono + INTERVAL * 2;
    assert_eq!(host.answer(ToAgent::NoTask), [apply()]);
}

/// A short task costs two messages, and the second asks for the next task.
#[test]
fn a_short_task_costs_two_reports() {
    let mut host = Host::idle();
    host.slot.handle_answer(host.now, ToAgent::Dispatch(Box::new(dispatch(1))));
    assert_eq!(host.slot.poll_effect(host.now), Some(Effect::Prepare(Box::new(dispatch(1)))));
    host.slot.handle_prepared(host.now, Ok(()));
    assert_eq!(host.slot.poll_effect(host.now), Some(Effect::Spawn));
    host.slot.handle_spawned(host.now, Ok(()));
    assert_eq!(reports(&host.settle()), [(Phase::Running, None)]);

    host.slot.handle_exited(host.now, exited(3));
    assert_eq!(host.slot.poll_effect(host.now), Some(Effect::CheckTree));
    host.slot.handle_tree(host.now, false, 0);
    assert_eq!(host.slot.poll_effect(host.now), Some(Effect::Remove));
    host.slot.handle_removed(host.now);
    let [Effect::Send(FromAgent::Report(report))] = &host.settle()[..] else { panic!() };
    assert_eq!((report.phase, report.wait), (Phase::Finished, Some(INTERVAL * 2)));
    let times = report.times;
    assert!(times.prepare.is_some() && times.run.is_some() && times.end.is_some() && times.finish.is_some());
    assert_eq!(report.result.as_ref().map(|result| (result.exit_code.0, result.max_rss_kib)), Some((3, 7)));
}

#[test]
fn a_preparation_that_takes_time_is_reported() {
    let mut host = Host::idle();
    let effects = host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
    assert_eq!(reports(&effects), [(Phase::Preparing, None)]);
}

/// -128 to -131 (docs/sources/controller.md, 2.7).
#[test]
fn a_failed_preparation_ends_the_run_with_its_code() {
    let mut host = Host::idle();
    host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
    let failure = Failure { exit_code: ExitCode::TOOL_MISSING, error: "no such tool".to_owned() };
    host.slot.handle_prepared(host.now, Err(failure));
    assert_eq!(reports(&host.clean()), [(Phase::Finished, Some(-129))]);
}

#[test]
fn a_kill_while_preparing_gives_minus_128() {
    let mut host = Host::idle();
    host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
    assert_eq!(host.kill(), [Effect::AbortPrepare]);
    assert_eq!(host.kill(), [], "a second kill changes nothing");
    host.slot.handle_prepared(host.now, Ok(()));
    assert_eq!(reports(&host.clean()), [(Phase::Finished, Some(-128))]);
}

/// The kill and the answer to the APPLY use different connections.
#[test]
fn a_kill_may_come_before_its_task() {
    let mut host = Host::idle();
    assert_eq!(host.kill(), []);
    let effects = host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
    assert!(effects.contains(&Effect::AbortPrepare), "{effects:?}");
}

/// AGENT_KILL_INTERVAL and AGENT_KILL_COUNT (docs/sources/controller.md, 4.3).
#[test]
fn the_kill_ladder_is_term_then_kill_and_ends() {
    let mut host = Host::running();
    assert_eq!(host.kill(), [Effect::Signal(Signal::Terminate)]);
    assert_eq!(host.next(KILL_INTERVAL - Duration::from_millis(1)), None);
    assert_eq!(host.next(Duration::from_millis(1)), Some(Effect::Signal(Signal::Kill)));
    assert_eq!(host.next(KILL_INTERVAL), Some(Effect::Signal(Signal::Kill)));
    assert_eq!(host.next(KILL_INTERVAL * 10), None, "three signals in all");
    assert_eq!(reports(&host.end(-9)), [(Phase::Finished, Some(-9))]);
}

/// A ladder that ended with SIGTERM would leave a task that ignores it running forever (docs/sources/controller.md, 4.3).
#[test]
fn the_last_signal_is_a_kill_whatever_the_count() {
    for (count, expected) in [
        (1, vec![Signal::Kill]),
        (2, vec![Signal::Terminate, Signal::Kill]),
        (4, vec![Signal::Terminate, Signal::Kill, Signal::Kill, Signal::Kill]),
    ] {
        let mut host = Host::starting_with(count).ready().with_a_run();
        let mut signals: Vec<Effect> = host.kill();
        while let Some(effect) = host.next(KILL_INTERVAL) {
            signals.push(effect);
        }
        assert_eq!(signals, expected.into_iter().map(Effect::Signal).collect::<Vec<_>>(), "{count} signals");
    }
}

/// The slot is free only when no process is left (docs/design/hazards.md, P1).
#[test]
fn what_run_sh_leaves_behind_is_ended_first() {
    let mut host = Host::running();
    host.slot.handle_exited(host.now, exited(0));
    host.slot.handle_tree(host.now, true, 0);
    let effects = host.settle();
    assert!(effects.contains(&Effect::Signal(Signal::Terminate)), "{effects:?}");
    assert_eq!(reports(&effects), [(Phase::Ended, Some(0))]);
    host.slot.handle_tree(host.now, true, 2);
    assert_eq!(host.settle(), []);
    assert_eq!(host.pass(GRACE), [Effect::Signal(Signal::Kill), Effect::CheckTree]);
    host.slot.handle_tree(host.now, true, 0);
    assert_eq!(host.next(GRACE), Some(Effect::Signal(Signal::Kill)), "again, until nothing is left");
    host.slot.handle_tree(host.now, false, 1);
    host.slot.handle_removed(host.now);
    let effects = host.settle();
    let Some(Effect::Send(FromAgent::Report(report))) = effects.last() else { panic!("{effects:?}") };
    assert_eq!((report.phase, report.result.as_ref().map(|result| result.reaped)), (Phase::Finished, Some(3)));
}

/// A shell ends at once on SIGTERM; the program that it waited for has the rest of AGENT_KILL_INTERVAL, and its last lines count.
#[test]
fn a_program_that_is_killed_has_the_kill_interval_although_its_shell_has_ended() {
    let mut host = Host::running();
    host.kill();
    host.now.mono = host.now.mono + KILL_INTERVAL / 4;
    host.slot.handle_exited(host.now, exited(-15));
    host.slot.handle_tree(host.now, true, 0);
    let effects = host.settle();
    assert!(effects.contains(&Effect::Signal(Signal::Terminate)), "a process born meanwhile: {effects:?}");
    assert_eq!(reports(&effects), [(Phase::Ended, None)], "its outputs are not complete");
    assert_eq!(host.next(KILL_INTERVAL * 3 / 4 - Duration::from_millis(1)), None);
    host.slot.handle_tree(host.now, false, 1);
    assert_eq!(host.settle(), [Effect::ReadAgain(ExitCode(-15)), Effect::Remove]);
    let mut again = exited(-15);
    again.result.stdout_tail = "last".to_owned();
    host.slot.handle_read_again(again);
    host.slot.handle_removed(host.now);
    let effects = host.settle();
    let Some(Effect::Send(FromAgent::Report(report))) = effects.last() else { panic!("{effects:?}") };
    let result = report.result.as_ref().map(|result| (result.exit_code.0, &*result.stdout_tail, result.cpu_seconds));
    assert_eq!((report.phase, result), (Phase::Finished, Some((-15, "last", 0.5))));
}

/// A finished run, except for a process that the agent may not signal.
fn refused() -> Host {
    let mut host = Host::running();
    host.slot.handle_exited(host.now, exited(0));
    host.slot.handle_tree(host.now, true, 0);
    host.slot.handle_refused(host.now, "process 7 of user 0");
    host
}

/// The last report among the effects: its phase, the reason in its result, and whether it asks for a task.
fn told(effects: &[Effect]) -> Option<(Phase, String, bool)> {
    let report = effects.iter().rev().find_map(|effect| match effect {
        Effect::Send(FromAgent::Report(report)) => Some(report),
        _ => None,
    })?;
    let reason = report.result.as_ref().map(|result| result.error.clone()).unwrap_or_default();
    Some((report.phase, reason, report.wait.is_some()))
}

/// Passes the time for which what may not be ended is waited for. Gives back what follows the removal of the folder.
fn gives_up_waiting(host: &mut Host, reason: &str) -> Vec<Effect> {
    let start = host.now.mono;
    while !host.pass(INTERVAL).contains(&Effect::Remove) {
        host.answer(heard(1));
        host.slot.handle_tree(host.now, true, 0);
        host.slot.handle_refused(host.now, reason);
    }
    assert_eq!(host.now.mono.since(start), FOREIGN_TIMEOUT);
    host.slot.handle_removed(host.now);
    host.settle()
}

#[test]
fn a_process_that_may_not_be_ended_holds_the_slot_and_is_named() {
    let mut host = refused();
    let reason = "process 7 of user 0".to_owned();
    assert_eq!(told(&host.settle()), Some((Phase::Ended, reason.clone(), false)), "at once");
    let effects = gives_up_waiting(&mut host, &reason);
    assert_eq!(told(&effects), Some((Phase::Finished, reason, false)), "it does not ask for another task");
    let Some(Effect::Send(FromAgent::Heartbeat(heartbeat))) = effects.last() else { panic!("{effects:?}") };
    assert_eq!((heartbeat.busy, heartbeat.run), (true, None), "at once");
    host.answer(heard(1));
    let task = dispatch(1).task;
    host.answer(ToAgent::Reported { task, round: Round(0), finished: true, accepted: true });
    let effects = host.pass(INTERVAL * 2);
    let [Effect::Send(FromAgent::Heartbeat(heartbeat))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((heartbeat.busy, heartbeat.run), (true, None), "busy, but with no task");
    host.answer(heard(1));
    host.slot.handle_tree(host.now, false, 1);
    assert!(matches!(host.settle()[..], [Effect::Send(FromAgent::Apply(Some(_)))]), "when it has ended");
}

/// The process survives SIGTERM and SIGKILL, but becomes another user only between the two.
#[test]
fn a_process_that_may_not_be_ended_any_more_is_named_after_the_end_was_told() {
    let mut host = Host::running();
    host.slot.handle_exited(host.now, exited(0));
    host.slot.handle_tree(host.now, true, 0);
    assert_eq!(told(&host.settle()), Some((Phase::Ended, String::new(), false)));
    assert_eq!(host.pass(GRACE).first(), Some(&Effect::Signal(Signal::Kill)));
    host.slot.handle_refused(host.now, "process 7 of user 0");
    assert_eq!(told(&host.settle()), Some((Phase::Ended, "process 7 of user 0".to_owned(), false)));
}

#[test]
fn a_process_that_ends_in_time_leaves_no_reason() {
    let mut host = refused();
    host.settle();
    host.slot.handle_tree(host.now, false, 1);
    host.slot.handle_removed(host.now);
    assert_eq!(told(&host.settle()), Some((Phase::Finished, String::new(), true)));
}

#[test]
fn a_stopping_agent_does_not_wait_for_what_it_may_not_end() {
    let mut host = refused();
    host.settle();
    host.slot.handle_stop(host.now);
    assert!(host.settle().contains(&Effect::Remove));
    host.slot.handle_removed(host.now);
    assert_eq!(told(&host.settle()), Some((Phase::Finished, "process 7 of user 0".to_owned(), false)));
    host.answer(ToAgent::Reported { task: dispatch(1).task, round: Round(0), finished: true, accepted: true });
    assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);

    // The same after the result has been reported.
    let mut host = refused();
    host.settle();
    while !host.pass(INTERVAL).contains(&Effect::Remove) {
        host.answer(heard(1));
        host.slot.handle_tree(host.now, true, 0);
    }
    host.slot.handle_removed(host.now);
    host.settle();
    host.answer(ToAgent::Reported { task: dispatch(1).task, round: Round(0), finished: true, accepted: true });
    host.slot.handle_stop(host.now);
    assert!(host.settle().contains(&Effect::Send(FromAgent::Exit)));
}

/// A run whose run.sh has become another user, after the last signal of its kill ladder.
fn unended() -> Host {
    let mut host = Host::running();
    host.kill();
    loop {
        host.slot.handle_refused(host.now, "process 7 of user 0");
        match host.next(INTERVAL) {
            Some(Effect::Signal(_)) => {}
            Some(Effect::Unended) => break,
            other => panic!("{other:?}"),
        }
    }
    host.slot.handle_unended(host.now, exited(-9));
    host.slot.handle_tree(host.now, true, 0);
    host.slot.handle_refused(host.now, "process 7 of user 0");
    host
}

#[test]
fn a_run_sh_that_may_not_be_ended_is_named_and_does_not_hold_up_the_end() {
    let mut host = unended();
    let reason = "process 7 of user 0".to_owned();
    assert_eq!(told(&host.settle()), Some((Phase::Ended, reason.clone(), false)), "at once");
    let effects = gives_up_waiting(&mut host, &reason);
    assert_eq!(reports(&effects), [(Phase::Finished, Some(-9))]);
    assert_eq!(told(&effects), Some((Phase::Finished, reason, false)), "it does not ask for another task");
    let task = dispatch(1).task;
    host.answer(ToAgent::Reported { task, round: Round(0), finished: true, accepted: true });
    host.slot.handle_tree(host.now, false, 1);
    assert!(matches!(host.settle()[..], [Effect::Send(FromAgent::Apply(Some(_)))]), "when it has ended");
}

#[test]
fn a_run_sh_that_ends_by_itself_before_its_end_is_reported_has_its_own_exit_code() {
    let mut host = unended();
    host.settle();
    let effects = host.end(3);
    assert_eq!(reports(&effects), [(Phase::Finished, Some(3))]);
    assert_eq!(told(&effects), Some((Phase::Finished, String::new(), true)));
    host.slot.handle_exited(host.now, exited(4));
    assert_eq!(host.settle(), [], "once");
}

/// Another process of the run refused the SIGKILL.
#[test]
fn a_run_sh_that_ends_with_the_last_signal_has_ended_as_ever() {
    let mut host = Host::running();
    host.kill();
    host.next(INTERVAL);
    host.slot.handle_refused(host.now, "process 7 of user 0");
    while host.next(INTERVAL).is_some() {}
    host.slot.handle_refused(host.now, "process 7 of user 0");
    assert_eq!(reports(&host.end(-9)), [(Phase::Finished, Some(-9))]);
}

#[test]
fn a_stopping_agent_does_not_wait_for_a_run_sh_that_it_may_not_end() {
    let mut host = Host::running();
    host.slot.handle_stop(host.now);
    host.settle();
    let mut signals = 0;
    while host.next(INTERVAL) != Some(Effect::Unended) {
        host.slot.handle_refused(host.now, "process 7 of user 0");
        signals += 1;
        assert!(signals <= 3, "it waits for what it may not end");
    }
    host.slot.handle_unended(host.now, exited(-9));
    host.slot.handle_tree(host.now, true, 0);
    host.slot.handle_refused(host.now, "process 7 of user 0");
    assert!(host.settle().contains(&Effect::Remove));
    host.slot.handle_removed(host.now);
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Exit)]);
}

/// docs/design/hazards.md, P5.
#[test]
fn a_busy_run_sh_is_tried_again() {
    let mut host = Host::idle();
    host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
    host.slot.handle_prepared(host.now, Ok(()));
    assert_eq!(host.settle().last(), Some(&Effect::Spawn));
    for _ in 0..5 {
        host.slot.handle_spawned(host.now, Err(SpawnFailure::Busy));
        assert_eq!(host.next(Duration::from_millis(2)), Some(Effect::Spawn));
    }
    host.slot.handle_spawned(host.now, Err(SpawnFailure::Busy));
    assert_eq!(reports(&host.clean()), [(Phase::Finished, Some(-131))]);
}

#[test]
fn a_silent_controller_is_given_up_and_found_again() {
    let mut host = Host::running();
    for _ in 0..2 {
        assert!(host.pass(INTERVAL).iter().all(is_heartbeat));
    }
    let effects = host.pass(INTERVAL);
    assert_eq!(effects.first(), Some(&Effect::Reconnect), "{effects:?}");
    let id = (dispatch(1).task, Round(0));
    let wanted = Some((id.0, id.1, Directive::Run));
    let effects = host.answer(ToAgent::Heard(Heard {
        controller: 1,
        wanted,
        parked: true,
        tools: None,
        beat: None,
        serving: None,
        folder: None,
        epoch: None,
        clock: None,
    }));
    assert_eq!(reports(&effects), [(Phase::Running, None)], "the run went on, and is reported again");
    assert!(!effects.contains(&apply()));
}

/// The controller has restarted: an agent with a free slot gets a task at once, not only with its next heartbeat.
#[test]
fn an_agent_says_that_it_is_here_as_soon_as_it_is_connected() {
    let mut host = Host::idle();
    host.slot.handle_connected(host.now);
    let effects = host.settle();
    assert!(matches!(&effects[..], [heartbeat] if is_heartbeat(heartbeat)), "once for each connection: {effects:?}");
    assert_eq!(host.answer(heard(2)), [apply()]);
    let effects = host.pass(INTERVAL - Duration::from_millis(1));
    assert_eq!(effects, [], "the next one is due an interval later");
}

#[test]
fn what_was_not_confirmed_is_said_again_on_another_connection() {
    let mut host = Host::running();
    assert_eq!(reports(&host.end(7)), [(Phase::Finished, Some(7))]);
    for controller in [1, 2] {
        host.slot.handle_connected(host.now);
        assert!(host.settle().iter().all(is_heartbeat));
        assert_eq!(reports(&host.answer(heard(controller))), [(Phase::Finished, Some(7))]);
    }
    let mut host = Host::running();
    host.slot.handle_connected(host.now);
    host.settle();
    assert_eq!(reports(&host.answer(heard(2))), [(Phase::Running, None)], "also of a run that goes on");
}

#[test]
fn a_stopping_agent_goes_on_where_it_was_on_another_connection() {
    let mut host = Host::running();
    host.end(7);
    host.slot.handle_stop(host.now);
    host.slot.handle_connected(host.now);
    host.settle();
    assert_eq!(reports(&host.answer(heard(2))), [(Phase::Finished, Some(7))]);
    let (task, round) = (dispatch(1).task, Round(0));
    let confirmed = ToAgent::Reported { task, round, finished: true, accepted: true };
    assert_eq!(host.answer(confirmed), [Effect::Send(FromAgent::Exit)]);
    host.slot.handle_connected(host.now);
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Exit)], "and nothing else");
    assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);
}

/// A result is repeated until it is confirmed.
#[test]
fn a_result_that_was_not_confirmed_is_repeated() {
    let mut host = Host::running();
    assert_eq!(reports(&host.end(0)), [(Phase::Finished, Some(0))]);
    assert_eq!(host.answer(heard(1)), [], "that heartbeat may have been on its way before the report");
    assert_eq!(reports(&host.answer(heard(1))), [(Phase::Finished, Some(0))]);
    assert_eq!(reports(&host.answer(heard(2))), [(Phase::Finished, Some(0))], "a new controller has not heard it");
    let (task, round) = (dispatch(1).task, Round(0));
    host.answer(ToAgent::Reported { task, round, finished: true, accepted: true });
    assert_eq!(reports(&host.answer(heard(3))), []);
}

/// Two APPLYs may be on their way: the controller answers the older one at once, and the newer one stays parked.
#[test]
fn an_apply_that_was_replaced_is_not_repeated_without_end() {
    let mut host = Host::idle();
    assert_eq!(host.answer(heard(2)), [apply()]);
    assert_eq!(host.answer(ToAgent::NoTask), [], "the newer one is parked");
    host.now.mono = host.now.mono + INTERVAL * 2;
    assert_eq!(host.answer(ToAgent::NoTask), [apply()]);
}

/// A connection is silently replaced, and the parked APPLY is lost with it (docs/design/hazards.md, A5).
#[test]
fn an_apply_without_an_answer_is_repeated() {
    let mut host = Host::idle();
    for _ in 0..2 {
        host.pass(INTERVAL);
        assert_eq!(host.answer(heard(1)), [], "its answer may still come");
    }
    host.pass(INTERVAL);
    assert_eq!(host.answer(heard(1)), [apply()]);
}

/// The same, as soon as the controller says so; but an answer to a heartbeat that was sent before the APPLY proves nothing
/// about it.
#[test]
fn an_apply_that_the_controller_does_not_have_is_repeated_at_once() {
    let not_parked = ToAgent::Heard(Heard {
        controller: 1,
        wanted: None,
        parked: false,
        tools: None,
        beat: None,
        serving: None,
        folder: None,
        epoch: None,
        clock: None,
    });
    let mut host = Host::idle();
    assert!(host.pass(INTERVAL).iter().all(is_heartbeat));
    assert_eq!(host.answer(not_parked.clone()), [apply()]);
    assert!(host.pass(INTERVAL).iter().all(is_heartbeat));
    assert_eq!(host.answer(heard(1)), [], "that one has arrived");

    let mut host = Host::running();
    assert!(host.pass(INTERVAL).iter().all(is_heartbeat));
    assert_eq!(reports(&host.end(0)), [(Phase::Finished, Some(0))], "which asks for the next task");
    let (task, round) = (dispatch(1).task, Round(0));
    host.answer(ToAgent::Reported { task, round, finished: true, accepted: true });
    assert_eq!(host.answer(not_parked.clone()), [], "the heartbeat came first");
    assert!(host.pass(INTERVAL).iter().all(is_heartbeat));
    assert_eq!(host.answer(not_parked), [apply()]);
}

/// For a controller that has restarted, a request for a task means that the previous run has left no result.
#[test]
fn no_task_is_asked_for_before_the_last_result_is_confirmed() {
    let mut host = Host::running();
    host.end(0);
    let effects = host.answer(heard(2));
    assert_eq!(reports(&effects), [(Phase::Finished, Some(0))]);
    assert!(!effects.contains(&apply()), "{effects:?}");
    let (task, round) = (dispatch(1).task, Round(0));
    assert_eq!(host.answer(ToAgent::Reported { task, round, finished: true, accepted: true }), [apply()]);
}

#[test]
fn a_new_controller_is_asked_for_a_task_again() {
    let mut host = Host::idle();
    assert_eq!(host.answer(heard(1)), []);
    assert_eq!(host.answer(heard(2)), [apply()]);
}

/// A fenced agent ends its run and sends no further report on it (README.md, promise 3).
#[test]
fn a_run_that_nobody_wants_is_ended_silently() {
    for fence in [
        ToAgent::Reported { task: dispatch(1).task, round: Round(0), finished: false, accepted: false },
        ToAgent::Heard(Heard {
            controller: 1,
            wanted: Some((dispatch(1).task, Round(0), Directive::Drop)),
            parked: true,
            tools: None,
            beat: None,
            serving: None,
            folder: None,
            epoch: None,
            clock: None,
        }),
    ] {
        let mut host = Host::running();
        assert_eq!(host.answer(fence), [Effect::Signal(Signal::Terminate)]);
        host.slot.handle_exited(host.now, exited(-15));
        assert_eq!(host.settle(), [Effect::CheckTree]);
        assert_eq!(host.clean(), [Effect::Remove, apply()]);
    }
}

/// A run that ended while the controller was away still has an unsent report when the run is fenced.
#[test]
fn a_result_that_nobody_wants_any_more_leaves_the_slot_free() {
    let mut host = Host::running();
    for _ in 0..3 {
        host.pass(INTERVAL);
    }
    assert_eq!(reports(&host.end(0)), [], "no peer listens");
    let wanted = Some((dispatch(1).task, Round(0), Directive::Drop));
    assert_eq!(
        host.answer(ToAgent::Heard(Heard {
            controller: 2,
            wanted,
            parked: false,
            tools: None,
            beat: None,
            serving: None,
            folder: None,
            epoch: None,
            clock: None,
        })),
        [apply()]
    );
}

#[test]
fn a_stopping_agent_ends_its_run_and_leaves() {
    let mut host = Host::running();
    host.slot.handle_stop(host.now);
    assert_eq!(host.settle(), [Effect::Signal(Signal::Terminate)]);
    host.slot.handle_exited(host.now, exited(-15));
    host.settle();
    assert_eq!(host.clean(), [Effect::Remove, Effect::Send(FromAgent::Exit)]);
    assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);
}

/// A result that is known when the agent must stop is reported before it leaves.
#[test]
fn a_stopping_agent_does_not_throw_a_result_away() {
    let mut host = Host::running();
    host.slot.handle_exited(host.now, exited(0));
    host.slot.handle_stop(host.now);
    host.settle();
    let effects = host.clean();
    assert_eq!(reports(&effects), [(Phase::Finished, Some(0))]);
    assert!(!effects.contains(&Effect::Send(FromAgent::Exit)), "{effects:?}");
    let (task, round) = (dispatch(1).task, Round(0));
    let confirmed = ToAgent::Reported { task, round, finished: true, accepted: true };
    assert_eq!(host.answer(confirmed), [Effect::Send(FromAgent::Exit)]);
    assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);
}

/// All messages of a stopping agent, until it has ended.
fn farewell(host: &mut Host) -> Vec<Effect> {
    let mut said = Vec::new();
    let end = host.now.mono + STOP_TIMEOUT * 10;
    while !said.iter().any(|effect| matches!(effect, Effect::Exit(_))) {
        let effects = host.pass(INTERVAL);
        assert!(host.now.mono < end, "it waits for ever: {said:?}");
        said.extend(effects.into_iter().filter(|effect| !is_heartbeat(effect) && *effect != Effect::Reconnect));
    }
    said
}

/// The controller disappears before the run ends, or before it confirms: the agent waits for neither forever.
#[test]
fn a_stopping_agent_does_not_wait_for_ever_for_its_controller() {
    let mut host = Host::running();
    for _ in 0..3 {
        host.pass(INTERVAL);
    }
    assert_eq!(reports(&host.end(0)), [], "no peer listens");
    let mut silent = Host::running();
    assert_eq!(reports(&silent.end(0)), [(Phase::Finished, Some(0))]);
    for mut host in [host, silent] {
        let begin = host.now.mono;
        host.slot.handle_stop(host.now);
        assert_eq!(host.settle(), []);
        assert_eq!(farewell(&mut host), [Effect::Send(FromAgent::Exit), Effect::Exit(Ending::Unconfirmed)]);
        assert_eq!(host.now.mono.since(begin), STOP_TIMEOUT + FAREWELL);
    }
}

/// The same, if the run ends only after the request to stop; a controller that comes back in time gets the result.
#[test]
fn a_controller_that_comes_back_in_time_gets_the_result_of_a_stopping_agent() {
    for comes_back in [true, false] {
        let mut host = Host::running();
        for _ in 0..3 {
            host.pass(INTERVAL);
        }
        host.slot.handle_exited(host.now, exited(7));
        host.slot.handle_stop(host.now);
        host.clean();
        if comes_back {
            assert_eq!(reports(&host.answer(heard(2))), [(Phase::Finished, Some(7))]);
            let (task, round) = (dispatch(1).task, Round(0));
            host.answer(ToAgent::Reported { task, round, finished: true, accepted: true });
            assert_eq!(host.answer(ToAgent::Left), [Effect::Exit(Ending::Left)]);
        } else {
            assert_eq!(farewell(&mut host).last(), Some(&Effect::Exit(Ending::Unconfirmed)));
        }
    }
}

#[test]
fn an_idle_agent_leaves_at_once_also_without_a_controller() {
    let mut host = Host::idle();
    host.slot.handle_stop(host.now);
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Exit)]);
    assert_eq!(host.pass(FAREWELL), [Effect::Exit(Ending::Unconfirmed)]);
}

/// The second agent of a name gives up with the controller's sentence, once its predecessor cannot be the
/// obstacle any more (docs/design/hazards.md, A10).
#[test]
fn an_agent_whose_name_is_taken_gives_up() {
    let mut host = Host::starting();
    host.settle();
    for number in 0..4 {
        assert_eq!(host.answer(ToAgent::Rejected("taken".to_owned())), []);
        let said: Vec<_> = host.slot.take_log().into_iter().map(|line| line.text).collect();
        assert_eq!(said.iter().any(|line| line.ends_with("refuses this agent: taken")), number == 0, "{said:?}");
        assert!(host.pass(INTERVAL).iter().all(is_heartbeat));
    }
    assert_eq!(
        host.answer(ToAgent::Rejected("taken".to_owned())),
        [Effect::Exit(Ending::Rejected("taken".to_owned()))]
    );
}

/// A task that was sent twice runs once, however short it is (README.md, promise 3).
#[test]
fn a_task_that_comes_again_is_answered_with_its_result() {
    let mut host = Host::running();
    host.end(7);
    assert_eq!(reports(&host.answer(ToAgent::Dispatch(Box::new(dispatch(1))))), [(Phase::Finished, Some(7))]);
    let (task, round) = (dispatch(1).task, Round(0));
    host.answer(ToAgent::Reported { task, round, finished: true, accepted: false });
    let effects = host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
    assert!(matches!(effects.first(), Some(Effect::Prepare(_))), "the controller knows better: {effects:?}");
}

#[test]
fn a_task_that_comes_while_the_slot_is_taken_is_left_to_the_controller() {
    let mut host = Host::running();
    assert_eq!(host.answer(ToAgent::Dispatch(Box::new(dispatch(2)))), []);
    assert_eq!(host.slot.run.id(), Some((dispatch(1).task, dispatch(1).round)));
}

/// Every agent receives every kill. The kill of an earlier round, here or elsewhere, does not apply to the next one.
#[test]
fn the_kill_of_a_round_does_not_end_the_next_one() {
    let mut host = Host::idle();
    assert_eq!(host.kill(), [], "another agent has that round");
    let next = Dispatch { round: Round(1), ..dispatch(1) };
    let effects = host.answer(ToAgent::Dispatch(Box::new(next)));
    assert!(!effects.contains(&Effect::AbortPrepare), "{effects:?}");
    assert_eq!(host.kill(), [], "nor when it comes late");
}

#[test]
fn a_short_run_with_batch_delay_is_told_in_one_report() {
    let mut host = Host::idle();
    let batch_delay = Duration::from_millis(8);
    let dispatch = Dispatch { batch_delay, ..dispatch(1) };
    assert_eq!(
        host.answer(ToAgent::Dispatch(Box::new(dispatch.clone()))),
        [Effect::Prepare(Box::new(dispatch.clone()))]
    );
    host.slot.handle_prepared(host.now, Ok(()));
    assert_eq!(host.settle(), [Effect::Spawn]);
    host.slot.handle_spawned(host.now, Ok(()));
    assert_eq!(host.settle(), []);
    host.slot.handle_exited(host.now, exited(0));
    assert_eq!(host.settle(), [Effect::CheckTree]);
    host.slot.handle_tree(host.now, false, 0);
    assert_eq!(host.settle(), [Effect::Remove]);
    host.slot.handle_removed(host.now);
    let told = host.settle();
    let [Effect::Send(FromAgent::Report(report))] = &told[..] else { panic!("{told:?}") };
    assert_eq!((report.phase, report.times.run.is_some()), (Phase::Finished, true));
    assert!(report.wait.is_some(), "it asks for the next task");
    assert!(host.pass(batch_delay * 2).iter().all(is_heartbeat));
}

#[test]
fn a_long_run_is_told_of_when_its_batch_delay_has_passed() {
    let mut host = Host::idle();
    let batch_delay = Duration::from_millis(8);
    host.answer(ToAgent::Dispatch(Box::new(Dispatch { batch_delay, ..dispatch(1) })));
    host.pass(batch_delay / 2);
    host.slot.handle_prepared(host.now, Ok(()));
    host.slot.handle_spawned(host.now, Ok(()));
    assert_eq!(host.settle(), [Effect::Spawn]);
    let told = host.pass(batch_delay / 2);
    let [Effect::Send(FromAgent::Report(report))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(report.phase, Phase::Running);
}

/// This holds whatever the wall clocks do meanwhile (docs/design/hazards.md, D7).
#[test]
fn a_run_is_told_with_how_long_it_has_lasted() {
    let mut host = Host::running();
    host.now.mono = host.now.mono + INTERVAL / 2;
    host.now.wall = Wall::from_micros(5);
    let effects = host.answer(heard(2));
    let report = effects.iter().find_map(|effect| match effect {
        Effect::Send(FromAgent::Report(report)) => Some(report),
        _ => None,
    });
    let report = report.unwrap_or_else(|| panic!("{effects:?}"));
    assert_eq!((report.phase, report.ran), (Phase::Running, Some(INTERVAL / 2)));
}

/// Only the agent knows whether its signal or the end came first.
#[test]
fn a_run_that_ends_without_a_signal_has_ended_by_itself() {
    let by_itself = |effects: &[Effect]| match effects.last() {
        Some(Effect::Send(FromAgent::Report(report))) => report.result.as_ref().map(|result| result.by_itself),
        other => panic!("{other:?}"),
    };
    assert_eq!(by_itself(&Host::running().end(0)), Some(true));
    let mut host = Host::running();
    host.kill();
    assert_eq!(by_itself(&host.end(0)), Some(false));
}

/// One offer is parked as long as the controller has it, and none goes to a controller that does not know offers.
#[test]
fn outputs_are_offered_when_the_controller_has_no_offer() {
    use api::wire::requests::serve::{Part, Served, Wanted};
    use base::{OutputId, Stream};
    let mut host = Host::idle();
    let told = |serving| {
        ToAgent::Heard(Heard {
            controller: 1,
            wanted: None,
            parked: true,
            tools: None,
            beat: None,
            serving,
            folder: None,
            epoch: None,
            clock: None,
        })
    };
    assert_eq!(host.answer(told(None)), []);
    let offer = || Effect::Send(FromAgent::Serve(Served::Offer));
    assert_eq!(host.answer(told(Some(false))), [offer()]);
    assert_eq!(host.answer(told(Some(true))), []);
    let output = OutputId { task: dispatch(1).task, round: Round(0), stream: Stream::Stdout };
    let wanted = Wanted { ask: 3, output, offset: 0, limit: 9, watch: false };
    assert_eq!(host.answer(ToAgent::Wanted(wanted.clone())), [Effect::Read(wanted)]);
    let part = Served::Part(3, Part::Missing("none".to_owned()));
    host.slot.handle_served(part.clone());
    assert_eq!(host.settle(), [Effect::Send(FromAgent::Serve(part))]);
    host.slot.handle_stop(host.now);
    host.settle();
    assert_eq!(host.answer(told(Some(false))), [], "a stopping agent offers nothing");
}

/// The outputs of a run are looked at with each heartbeat, and more often once one is long.
#[test]
fn outputs_are_trimmed_while_their_run_writes() {
    assert_eq!(Host::idle().looks_at_outputs(INTERVAL, true), 0);
    let mut host = Host::running();
    assert_eq!(host.looks_at_outputs(INTERVAL, false), 1);
    assert!(host.looks_at_outputs(INTERVAL * 2, true) > 2);
    host.end(0);
    assert_eq!(host.looks_at_outputs(INTERVAL, true), 0, "it has ended");
}
