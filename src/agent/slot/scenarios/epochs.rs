//! Scenarios of controllers with stores of different ages, and with other clocks.
#![cfg(test)]

use super::*;
use base::{Epoch, KnownEpoch, Skew, Wall};

const NEW: Epoch = Epoch { service: 7, number: 100 };
const OLD: Epoch = Epoch { number: 99, ..NEW };

fn heard_with(controller: u64, epoch: Epoch) -> ToAgent {
    let beat = None;
    ToAgent::Heard(Heard { epoch: Some(epoch), beat, ..Heard::of(controller) })
}

fn remembers(effects: &[Effect]) -> Option<KnownEpoch> {
    effects.iter().find_map(|effect| if let Effect::Remember(known) = effect { Some(*known) } else { None })
}

fn told(effects: &[Effect]) -> Heartbeat {
    let one = |effect: &Effect| {
        if let Effect::Send(FromAgent::Heartbeat(heartbeat)) = effect { Some(heartbeat.clone()) } else { None }
    };
    effects.iter().find_map(one).expect("a heartbeat")
}

#[test]
fn the_highest_epoch_is_remembered_and_told() {
    let mut host = Host::starting();
    host.settle();
    let known = KnownEpoch { epoch: NEW, controller: 1 };
    assert_eq!(remembers(&host.answer(heard_with(1, NEW))), Some(known));
    assert_eq!(remembers(&host.answer(heard_with(1, NEW))), None);
    host.now.mono = host.now.mono + INTERVAL;
    host.slot.handle_timeout(host.now);
    assert_eq!(told(&host.settle()).epoch, Some(known));
}

/// An older store is started on the same address, and later the newer one again.
#[test]
fn a_controller_with_an_older_store_gets_nothing_and_ends_nothing() {
    for (controller, epoch) in [(2, OLD), (2, NEW)] {
        let mut host = Host::starting();
        host.settle();
        host.answer(heard_with(1, NEW));
        host.answer(ToAgent::Dispatch(Box::new(dispatch(1))));
        host.slot.handle_connected(host.now);
        host.settle();
        let run = (dispatch(1).task, dispatch(1).round);
        let drop = ToAgent::Heard(Heard {
            epoch: Some(epoch),
            wanted: Some((run.0, run.1, Directive::Drop)),
            ..Heard::of(controller)
        });
        assert_eq!(host.answer(drop), [], "it is not obeyed, and gets no report");
        let log = host.slot.take_log();
        let said = log.iter().filter(|line| line.text.contains("another controller counts")).count();
        assert_eq!(said, 1, "{log:?}");
        host.slot.handle_published(host.now, Published::Kill(run.0, run.1));
        assert_eq!(host.settle(), []);
        // The newer one is back.
        host.slot.handle_connected(host.now);
        host.settle();
        let effects = host.answer(heard_with(1, NEW));
        let is_report =
            |effect: &&Effect| matches!(effect, Effect::Send(FromAgent::Report(report)) if report.task == run.0);
        assert_eq!(effects.iter().filter(is_report).count(), 1, "its run has gone on: {effects:?}");
    }
}

#[test]
fn another_service_and_a_newer_store_are_obeyed() {
    let mut host = Host::starting();
    host.settle();
    host.answer(heard_with(1, NEW));
    for (controller, epoch) in [(2, Epoch { number: 101, ..NEW }), (3, Epoch { service: 8, number: 1 })] {
        host.slot.handle_connected(host.now);
        host.settle();
        assert_eq!(remembers(&host.answer(heard_with(controller, epoch))), Some(KnownEpoch { epoch, controller }));
    }
    // The first service is not forgotten for that.
    host.slot.handle_connected(host.now);
    host.settle();
    assert_eq!(host.answer(heard_with(1, NEW)), []);
}

#[test]
fn a_difference_of_clocks_is_told_once() {
    let mut host = Host::starting();
    let first = told(&host.settle()).beat.expect("its number").number;
    host.now.mono = host.now.mono + Duration::from_secs(2);
    // The answer took two seconds, so that a second more or less is not known.
    let clock =
        |seconds: i64| Some(Wall::from_micros(host.now.wall.micros().saturating_add_signed(seconds * 1_000_000)));
    let (near, far) = (clock(-2), clock(3600));
    let answer = |beat, clock| ToAgent::Heard(Heard { beat: Some(beat), clock, ..Heard::of(1) });
    host.answer(answer(first, near));
    host.now.mono = host.now.mono + INTERVAL;
    host.slot.handle_timeout(host.now);
    let second = told(&host.settle());
    assert_eq!(second.skew, None);
    host.slot.take_log();
    host.answer(answer(second.beat.expect("its number").number, far));
    let log = host.slot.take_log();
    assert!(log.iter().any(|line| line.text.contains("the clock of this machine is 3600.0 s behind that")), "{log:?}");
    host.now.mono = host.now.mono + INTERVAL;
    host.slot.handle_timeout(host.now);
    let third = told(&host.settle());
    assert_eq!(third.skew, Some(Skew(-3_600_000_000)));
    host.answer(answer(third.beat.expect("its number").number, far));
    assert!(!host.slot.take_log().iter().any(|line| line.text.contains("clock")), "it is told once");
}
