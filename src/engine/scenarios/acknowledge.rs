//! Scenarios of receivers that confirm the end of a task, and of receivers that do not.
#![cfg(test)]

use super::*;
use base::{Acknowledgement, PushAddress};

const ADDRESS: &str = "tcp://127.0.0.1:5999";

fn address(text: &str) -> PushAddress {
    PushAddress::parse(text, &base::AddressPolicy::everything()).unwrap()
}

fn acknowledged() -> Fields {
    Fields::new().with(words::ADDRESS, ADDRESS).with(words::PUSH_ACK, true)
}

impl World {
    fn confirm(&mut self, task: TaskId, seq: u32, from: &str) {
        self.controller.handle_acknowledgement(self.now, task, seq, &address(from));
        self.settle();
    }

    fn finished_with_acknowledgement(&mut self) -> (TaskId, u32) {
        let task = self.submitted(&acknowledged());
        self.exits("a", task, 0, 0);
        (task, self.record(task).pushes)
    }
}

#[test]
fn the_end_is_pushed_until_it_is_confirmed() {
    let mut world = World::new();
    let (task, seq) = world.finished_with_acknowledgement();
    assert!(world.pushed_again.is_empty());
    world.pass(seconds(1.0));
    assert_eq!(world.pushed_again.len(), 1);
    assert_eq!((world.pushed_again[0].phase(), world.pushed_again[0].pushes), (Phase::Finished, seq), "the same push");
    world.pass(seconds(30.0));
    let count = world.pushed_again.len();
    assert!((4..=8).contains(&count), "the pauses grow: {count}");
    world.confirm(task, seq, ADDRESS);
    assert_eq!(world.record(task).acknowledgement, Acknowledgement::Received(world.now.wall));
    world.pass(seconds(1000.0));
    assert_eq!(world.pushed_again.len(), count);
    assert!(world.told(TASK_QUERY, task).get("__ACK_TIME__").is_some());
}

#[test]
fn who_has_not_the_key_of_the_receiver_is_not_the_receiver() {
    const KEY: &str = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
    let key = |text| base::PublicKey::parse(text).unwrap();
    let mut world = World::new();
    let task = world.submitted(&acknowledged().with(words::ADDRESS_KEY, KEY));
    world.exits("a", task, 0, 0);
    let seq = world.record(task).pushes;
    world.confirm(task, seq, ADDRESS);
    let other = address(ADDRESS).with_key(key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"));
    world.controller.handle_acknowledgement(world.now, task, seq, &other);
    assert_eq!(world.record(task).acknowledgement, Acknowledgement::None);
    world.controller.handle_acknowledgement(world.now, task, seq, &address(ADDRESS).with_key(key(KEY)));
    assert_eq!(world.record(task).acknowledgement, Acknowledgement::Received(world.now.wall));
}

#[test]
fn only_the_push_of_the_end_is_confirmed_and_only_by_its_receiver() {
    let mut world = World::new();
    let (task, seq) = world.finished_with_acknowledgement();
    world.confirm(task, seq - 1, ADDRESS);
    world.confirm(task, seq + 1, ADDRESS);
    world.confirm(task, seq, "tcp://127.0.0.1:6000");
    assert_eq!(world.record(task).acknowledgement, Acknowledgement::None);
    world.confirm(task, seq, ADDRESS);
    let at = world.now.wall;
    world.pass(seconds(1.0));
    world.confirm(task, seq, ADDRESS);
    assert_eq!(world.record(task).acknowledgement, Acknowledgement::Received(at), "twice is harmless");
    // An unknown task, a running task, and one that did not ask for a confirmation.
    let running = world.submitted(&acknowledged());
    world.runs("a", running, Round(0));
    world.confirm(running, world.pushes.last().unwrap().pushes, ADDRESS);
    assert_eq!(world.record(running).acknowledgement, Acknowledgement::None);
    let plain = world.submitted(&Fields::new().with(words::ADDRESS, ADDRESS));
    world.exits("b", plain, 0, 0);
    let seq = world.record(plain).pushes;
    world.confirm(plain, seq, ADDRESS);
    assert_eq!(world.record(plain).acknowledgement, Acknowledgement::None);
    world.confirm("TASK_1480000000.120000_AZazA".parse().unwrap(), 1, ADDRESS);
}

#[test]
fn a_receiver_that_never_confirms_is_given_up() {
    let mut world = World::new();
    let (task, seq) = world.finished_with_acknowledgement();
    world.pass_with(seconds(700.0), &[("a", None)]);
    assert!(matches!(world.record(task).acknowledgement, Acknowledgement::GivenUp(_)));
    let count = world.pushed_again.len();
    assert!((10..=30).contains(&count), "{count}");
    world.confirm(task, seq, ADDRESS);
    world.restart();
    world.pass(seconds(700.0));
    assert_eq!(world.pushed_again.len(), count, "given up is given up");
}

#[test]
fn what_was_not_confirmed_is_pushed_again_after_a_restart() {
    let mut world = World::new();
    let (task, seq) = world.finished_with_acknowledgement();
    let (done, done_seq) = world.finished_with_acknowledgement();
    world.confirm(done, done_seq, ADDRESS);
    world.restart();
    world.pass(seconds(1.0));
    assert_eq!(world.pushed_again.iter().map(|record| record.id).collect::<Vec<_>>(), [task]);
    world.confirm(task, seq, ADDRESS);
    world.restart();
    world.pass(seconds(1000.0));
    assert_eq!(world.pushed_again.len(), 1);
}

/// The clock jumps while receivers are asked (docs/design/hazards.md, D7).
#[test]
fn a_clock_that_jumps_gives_up_no_receiver() {
    const DAY: i64 = 86_400;
    for jump in [DAY, -DAY] {
        let mut world = World::with(|settings| settings.keep = Duration::ZERO);
        let (task, seq) = world.finished_with_acknowledgement();
        world.jump(jump);
        world.pass_with(seconds(300.0), &[("a", None)]);
        assert_eq!(world.record(task).acknowledgement, Acknowledgement::None, "{jump}");
        let count = world.pushed_again.len();
        assert!((8..=16).contains(&count), "the pauses grow: {count}, {jump}");
        world.confirm(task, seq, ADDRESS);
        assert!(matches!(world.record(task).acknowledgement, Acknowledgement::Received(_)), "{jump}");

        let (forsaken, _) = world.finished_with_acknowledgement();
        world.jump(jump);
        world.pass_with(seconds(700.0), &[("a", None)]);
        let state = world.stored.get(&forsaken).map(|record| record.acknowledgement);
        assert!(matches!(state, None | Some(Acknowledgement::GivenUp(_))), "given up in its time: {state:?}, {jump}");
    }
}

/// A retry leads to another end, which is confirmed separately.
#[test]
fn a_retry_is_confirmed_anew() {
    let mut world = World::new();
    let (task, seq) = world.finished_with_acknowledgement();
    world.do_to(TASK_RETRY, task);
    world.pass(seconds(100.0));
    assert!(world.pushed_again.is_empty(), "there is no end to push");
    world.confirm(task, seq, ADDRESS);
    world.exits("b", task, 1, 1);
    world.confirm(task, seq, ADDRESS);
    assert_eq!(world.record(task).acknowledgement, Acknowledgement::None, "that was the end before");
    world.pass(seconds(1.0));
    assert_eq!(world.pushed_again.last().map(|record| record.round), Some(Round(1)));
    let seq = world.record(task).pushes;
    world.confirm(task, seq, ADDRESS);
    assert!(matches!(world.record(task).acknowledgement, Acknowledgement::Received(_)));
}

#[test]
fn a_task_that_is_killed_while_it_waits_is_confirmed_too() {
    let mut world = World::new();
    let task = world.submitted(&acknowledged());
    world.kill(task);
    world.pass(seconds(1.0));
    assert_eq!(world.pushed_again.len(), 1);
}

/// A promise to push outlives the retention of finished tasks.
#[test]
fn a_task_is_not_forgotten_while_its_end_is_not_confirmed() {
    let mut world = World::with(|settings| settings.keep = Duration::ZERO);
    let (task, seq) = world.finished_with_acknowledgement();
    let plain = world.task();
    world.exits("a", plain, 0, 0);
    world.pass_with(seconds(200.0), &[("a", None)]);
    assert!(!world.stored.contains_key(&plain), "TASK_KEEP_HOURS is 0");
    assert!(world.pushed_again.len() >= 8, "{}", world.pushed_again.len());
    world.confirm(task, seq, ADDRESS);
    world.pass_with(seconds(700.0), &[("a", None)]);
    assert!(world.stored.is_empty());
}

/// The late confirmation carries the number of a PREPARING from another life of the controller.
#[test]
fn a_late_confirmation_of_an_earlier_push_confirms_no_end() {
    let mut world = World::new();
    world.loses_progress = true;
    let task = world.submitted(&acknowledged().with(words::MAX_LOSSES, 0u32));
    world.runs("a", task, Round(0));
    let before: Vec<_> = world.pushes.iter().map(|record| record.pushes).collect();
    world.restart();
    world.pass(INTERVAL * 2);
    assert_eq!(world.outcome(task), Outcome::Lost);
    for seq in before {
        world.confirm(task, seq, ADDRESS);
        assert_eq!(world.record(task).acknowledgement, Acknowledgement::None, "that was push {seq}");
    }
    let end = world.record(task).pushes;
    world.restart();
    assert_eq!(world.record(task).pushes, end, "what is stored is pushed again as it was");
    world.confirm(task, end, ADDRESS);
    assert!(matches!(world.record(task).acknowledgement, Acknowledgement::Received(_)));
}
