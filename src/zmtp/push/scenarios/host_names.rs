//! Receivers with host names.

use super::*;

#[test]
fn frames_for_a_name_wait_until_it_is_resolved_and_it_is_asked_for_once() {
    let mut world = World::new(config());
    for port in 1..=3 {
        world.listen(port, Listener::Reads);
    }
    for port in 1..=2 {
        world.push_to(&named(&format!("host.example:{port}")), 0..2);
    }
    world.push(3, [0]);
    world.run(SECOND);
    assert_eq!(world.asked, ["host.example"]);
    world.expect(3, [0]);
    world.resolve("host.example", &["10.0.0.1"]);
    world.run(Duration::ZERO);
    for port in 1..=2 {
        world.expect(port, 0..2);
    }
    assert_eq!(world.waits[1..], [SECOND; 4]);
}

#[test]
fn a_name_without_an_address_is_given_up_when_that_is_known() {
    let mut world = World::new(config());
    world.push_to(&named("nowhere.invalid:80"), 0..5);
    world.run(millis(30));
    world.resolve("nowhere.invalid", &[]);
    world.run(Duration::ZERO);
    assert_eq!(world.counts().dropped_unreachable, 5);
    assert_eq!(world.log, ["push: 5 messages for tcp://nowhere.invalid:80 dropped: its host name cannot be resolved"]);
}

#[test]
fn a_name_that_is_not_answered_is_given_up_in_time_and_its_answer_is_still_of_use() {
    let mut world = World::new(PushConfig { connect_timeout: 2 * SECOND, ..config() });
    world.listen(80, Listener::Reads);
    let slow = named("slow.example:80");
    world.push_to(&slow, 0..5);
    let given_up = world.run_until(|world| world.counts().dropped_unreachable == 5);
    assert_eq!(given_up, 2 * SECOND);
    assert_eq!(world.log, ["push: 5 messages for tcp://slow.example:80 dropped: its host name is not answered"]);
    world.push_to(&slow, [5]);
    world.run(SECOND);
    assert_eq!(world.asked, ["slow.example"], "it was asked for already");
    world.resolve("slow.example", &["10.0.0.1"]);
    world.run(Duration::ZERO);
    world.expect(80, [5]);
}

#[test]
fn more_names_than_can_be_looked_up_are_given_up_at_once() {
    let mut world = World::new(config());
    for number in 0..70 {
        world.push_to(&named(&format!("host{number}.example:80")), [0]);
        world.run(Duration::ZERO);
    }
    assert_eq!((world.asked.len(), world.counts().dropped_unreachable), (64, 6));
    assert!(world.log[0].ends_with("too many host names are being looked up"), "{:?}", world.log);
}
