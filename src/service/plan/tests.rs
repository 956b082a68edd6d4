//! Scenarios of a supervisor on virtual time.

use super::renewal::PROOF;
use super::slot::{LIFE_MIN, PAUSE_MAX, PAUSE_MIN, PAUSE_READY_MAX};
use super::*;

const TIMES: Times = Times { start_max: Duration::from_secs(60), stop_max: Duration::from_secs(11) };
const SECOND: Duration = Duration::from_secs(1);

/// A plan with its clock.
struct World {
    plan: Plan,
    now: Mono,
}

#[test]
fn an_agent_whose_task_waits_lends_its_slot_until_it_works_again() {
    let mut world = World::up(2);
    world.plan = std::mem::replace(&mut world.plan, Plan::new(Mono::default(), 0, TIMES)).lending(2);
    let [first, second, lent, other] = [1, 2, Role::LENT_FROM + 1, Role::LENT_FROM + 2].map(Role::Agent);
    assert_eq!(lent.to_string(), "lent-agent-1");
    // A short wait starts no agent.
    world.plan.handle_waits(world.now, first, true);
    world.plan.handle_waits(world.now, first, false);
    world.pass(SECOND);
    assert_eq!(world.effects(), []);
    world.plan.handle_waits(world.now, first, true);
    world.pass(SECOND);
    assert_eq!(world.effects(), [Effect::Start(lent)]);
    world.ready(lent);
    // The task of that one waits, too; there is no room for a third one.
    world.plan.handle_waits(world.now, lent, true);
    world.pass(SECOND);
    assert_eq!(world.effects(), [Effect::Start(other)]);
    world.plan.handle_waits(world.now, second, true);
    world.pass(SECOND);
    assert_eq!(world.effects(), []);
    // It ends when it has no task, is not started again, and makes room.
    world.plan.handle_waits(world.now, lent, false);
    assert_eq!(world.effects(), [], "it is not ready");
    world.ready(other);
    assert_eq!(world.effects(), [Effect::Retire(other)]);
    world.ended_cleanly(other);
    world.pass(SECOND);
    assert_eq!(world.effects().last(), Some(&Effect::Start(other)), "for the second agent");
    world.plan.handle_waits(world.now, first, false);
    assert_eq!(world.effects(), [Effect::Retire(lent)]);
    world.stop();
    for role in [first, second, lent, other, Role::Controller] {
        world.ended_cleanly(role);
    }
    assert_eq!(world.effects().last(), Some(&Effect::Quit(None)));
}

impl World {
    fn new(agents: u16) -> Self {
        Self { plan: Plan::new(Mono::default(), agents, TIMES), now: Mono::default() }
    }

    fn up(agents: u16) -> Self {
        let mut world = Self::new(agents);
        world.ready(Role::Controller);
        (1..=agents).for_each(|number| world.ready(Role::Agent(number)));
        assert_eq!(world.effects().last(), Some(&Effect::Announce));
        world
    }

    fn ready(&mut self, role: Role) {
        self.plan.handle_ready(self.now, role);
        self.plan.sanity_check();
    }

    fn ended(&mut self, role: Role) {
        self.plan.handle_ended(self.now, role, "exited with code 1");
        self.plan.sanity_check();
    }

    /// It has ended and has left no process behind.
    fn ended_cleanly(&mut self, role: Role) {
        self.ended(role);
        self.orphans_gone();
    }

    fn orphans_gone(&mut self) {
        self.plan.handle_orphans_gone(self.now);
        self.plan.sanity_check();
    }

    fn stop(&mut self) {
        self.plan.handle_stop(self.now);
        self.plan.sanity_check();
    }

    /// Lets time pass, and handles every deadline on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some((due, _)) = self.plan.poll_timeout().filter(|(due, _)| *due <= end) {
            self.now = self.now.max(due);
            self.plan.handle_timeout(self.now);
            self.plan.sanity_check();
        }
        self.now = end;
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.plan.poll_effect()).collect()
    }

    /// How long it takes until the agent starts again.
    fn pause(&mut self) -> Duration {
        self.ended_cleanly(Role::Agent(1));
        let (until, _) = self.plan.poll_timeout().unwrap();
        let pause = until.since(self.now);
        self.pass(pause);
        assert_eq!(self.effects(), [Effect::EndOrphans, Effect::Start(Role::Agent(1))]);
        pause
    }
}

#[test]
fn agents_are_added_and_removed_while_it_serves() {
    let mut world = World::up(2);
    let [first, second, third, fourth] = [1, 2, 3, 4].map(Role::Agent);
    assert!(world.plan.is_complete());
    assert!(world.plan.handle_agents(world.now, 4));
    assert_eq!(world.effects(), [Effect::Start(third), Effect::Start(fourth)]);
    world.ready(third);
    // One that is not ready yet is asked to end when it is.
    assert!(!world.plan.is_complete() && world.plan.handle_agents(world.now, 1));
    assert_eq!(world.effects(), [Effect::Retire(second), Effect::Retire(third)]);
    assert!(world.plan.is_complete(), "what ends is not awaited");
    world.ready(fourth);
    assert_eq!(world.effects(), [Effect::Retire(fourth)]);
    world.ended_cleanly(third);
    world.pass(SECOND);
    assert_eq!(world.effects(), [Effect::EndOrphans], "it is not started again");
    // The second was asked to end, but is needed again.
    assert!(world.plan.handle_agents(world.now, 2));
    assert_eq!(world.effects(), []);
    world.ended_cleanly(second);
    world.pass(SECOND);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(second)]);
    world.ready(second);
    world.ended_cleanly(fourth);
    world.effects();
    world.stop();
    assert_eq!(world.effects(), [Effect::Terminate(first), Effect::Terminate(second)]);
    assert!(!world.plan.handle_agents(world.now, 5), "it stops");
}

/// `llts restart --wait` waits for every agent that is to be new.
#[test]
fn an_agent_that_is_removed_is_not_awaited_by_a_restart() {
    let mut world = World::up(2);
    world.plan.handle_proven();
    assert_eq!(world.plan.renewal().map(|progress| progress.agents_left), Some(2));
    world.plan.handle_agents(world.now, 1);
    world.ended_cleanly(Role::Agent(2));
    assert_eq!(world.plan.renewal().map(|progress| progress.agents_left), Some(1));
}

#[test]
fn the_agents_of_a_supervisor_are_known_by_their_names() {
    for role in [Role::Agent(1), Role::Agent(999), Role::Agent(Role::LENT_FROM + 3)] {
        assert!(Role::is_named(&role.to_string()), "{role}");
    }
    for name in ["controller", "agent-", "agent-0", "agent-x", "host-agent-1", "agent-1b", "x"] {
        assert!(!Role::is_named(name), "{name}");
    }
}

#[test]
fn the_controller_comes_first_and_the_service_is_up_when_all_are_ready() {
    let mut world = World::new(2);
    assert_eq!(world.effects(), [Effect::Start(Role::Controller)]);
    world.ready(Role::Controller);
    assert_eq!(world.effects(), [Effect::Start(Role::Agent(1)), Effect::Start(Role::Agent(2))]);
    world.ready(Role::Agent(2));
    assert_eq!(world.effects(), []);
    world.ready(Role::Agent(1));
    assert_eq!(world.effects(), [Effect::Announce]);
    assert_eq!(world.plan.poll_timeout(), None, "an idle service has no timer");
}

#[test]
fn a_start_that_fails_stops_everything_and_says_why() {
    let mut world = World::new(2);
    world.ready(Role::Controller);
    world.effects();
    world.ended(Role::Agent(1));
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Terminate(Role::Agent(2))]);
    world.orphans_gone();
    world.ended_cleanly(Role::Agent(2));
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Terminate(Role::Controller)]);
    world.ended_cleanly(Role::Controller);
    let reason = "agent-1 exited with code 1".to_owned();
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Quit(Some(reason))]);
}

#[test]
fn a_controller_that_cannot_start_ends_the_start() {
    let mut world = World::new(1);
    world.effects();
    world.ended_cleanly(Role::Controller);
    let reason = "controller exited with code 1".to_owned();
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Quit(Some(reason))]);
}

#[test]
fn a_start_that_takes_too_long_names_who_is_missing() {
    let mut world = World::new(2);
    world.ready(Role::Controller);
    world.ready(Role::Agent(1));
    world.effects();
    world.pass(TIMES.start_max);
    world.ended_cleanly(Role::Agent(1));
    world.ended_cleanly(Role::Agent(2));
    world.ended_cleanly(Role::Controller);
    assert_eq!(
        world.effects().last(),
        Some(&Effect::Quit(Some("the service is not up after 60 s; missing: agent-2".to_owned())))
    );
}

#[test]
fn who_dies_again_and_again_is_started_ever_later_but_always() {
    let mut world = World::up(1);
    let pauses: Vec<Duration> = (0..8).map(|_| world.pause()).collect();
    assert_eq!(pauses[0], PAUSE_MIN);
    assert!(pauses.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(PAUSE_MAX)), "{pauses:?}");
    assert_eq!(pauses[7], PAUSE_MAX);
    world.ready(Role::Agent(1));
    assert_eq!(world.pause(), PAUSE_READY_MAX, "it did not die of its start");
    world.pass(LIFE_MIN);
    assert_eq!(world.pause(), PAUSE_MIN, "a long life forgives");
}

#[test]
fn a_slot_has_one_process_at_a_time() {
    let mut world = World::up(1);
    world.pass(SECOND);
    world.ready(Role::Agent(1));
    world.pass(SECOND);
    assert_eq!(world.effects(), []);
    world.ended_cleanly(Role::Agent(1));
    world.ended_cleanly(Role::Agent(1));
    world.pass(PAUSE_MAX);
    let starts = world.effects().into_iter().filter(|effect| matches!(effect, Effect::Start(_)));
    assert_eq!(starts.count(), 1);
}

#[test]
fn the_next_agent_starts_only_when_the_orphans_are_gone() {
    let mut world = World::up(1);
    world.ended(Role::Agent(1));
    for _ in 0..10 {
        assert_eq!(world.effects(), [Effect::EndOrphans]);
        world.pass(ORPHANS_AGAIN);
    }
    world.orphans_gone();
    assert_eq!(world.plan.poll_effect(), Some(Effect::EndOrphans));
    assert_eq!(world.effects(), [Effect::Start(Role::Agent(1))]);
}

#[test]
fn orphans_that_cannot_be_ended_hold_nobody_up_for_ever() {
    let mut world = World::up(1);
    world.ended(Role::Agent(1));
    world.pass(ORPHANS_MAX);
    assert_eq!(world.effects().last(), Some(&Effect::Start(Role::Agent(1))));
}

#[test]
fn the_controller_is_started_again_and_the_agents_stay() {
    let mut world = World::up(2);
    world.ended_cleanly(Role::Controller);
    world.pass(PAUSE_MIN);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(Role::Controller)]);
    world.ready(Role::Controller);
    assert_eq!(world.effects(), [], "a second start is not announced");
}

#[test]
fn a_stop_asks_the_agents_first_and_leaves_last() {
    let mut world = World::up(2);
    world.stop();
    assert_eq!(world.effects(), [Effect::Terminate(Role::Agent(1)), Effect::Terminate(Role::Agent(2))]);
    world.ended_cleanly(Role::Agent(2));
    assert_eq!(world.effects(), [Effect::EndOrphans]);
    world.ended_cleanly(Role::Agent(1));
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Terminate(Role::Controller)]);
    world.ended_cleanly(Role::Controller);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Quit(None)]);
    assert_eq!(world.plan.poll_timeout(), None);
}

#[test]
fn a_stop_starts_nobody_again() {
    let mut world = World::up(2);
    world.ended_cleanly(Role::Agent(1));
    world.stop();
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Terminate(Role::Agent(2))]);
    world.pass(PAUSE_MAX);
    world.ended_cleanly(Role::Agent(2));
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Terminate(Role::Controller)]);
}

#[test]
fn who_does_not_end_is_ended() {
    let mut world = World::up(2);
    world.stop();
    world.ended_cleanly(Role::Agent(1));
    world.effects();
    world.pass(TIMES.stop_max);
    assert_eq!(world.effects(), [Effect::Kill(Role::Agent(2))]);
    world.ended_cleanly(Role::Agent(2));
    world.effects();
    world.pass(TIMES.stop_max);
    assert_eq!(world.effects(), [Effect::Kill(Role::Controller)]);
    world.ended_cleanly(Role::Controller);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Quit(None)]);
}

#[test]
fn a_second_stop_ends_everybody_at_once() {
    let mut world = World::up(2);
    world.stop();
    world.effects();
    world.stop();
    let kills = [Role::Controller, Role::Agent(1), Role::Agent(2)].map(Effect::Kill);
    assert_eq!(world.effects(), kills);
    for role in [Role::Agent(1), Role::Controller, Role::Agent(2)] {
        world.ended_cleanly(role);
    }
    assert_eq!(world.effects().last(), Some(&Effect::Quit(None)));
    world.stop();
    assert_eq!(world.effects(), []);
}

#[test]
fn a_stop_before_the_service_is_up_is_a_start_that_failed() {
    let mut world = World::new(1);
    world.stop();
    world.ended_cleanly(Role::Controller);
    let effects = world.effects();
    assert!(effects.contains(&Effect::Terminate(Role::Controller)));
    assert_eq!(effects.last(), Some(&Effect::Quit(Some("the service was stopped before it was up".to_owned()))));
}

/// An agent that does not end its run when the lease expires must itself be stopped.
#[test]
fn an_agent_that_outlives_its_lease_is_killed() {
    let mut world = World::up(2);
    let (first, second) = (world.now + SECOND, world.now + SECOND * 2);
    world.plan.handle_lease(Role::Agent(1), Some(first));
    world.plan.handle_lease(Role::Agent(2), Some(first));
    world.plan.handle_lease(Role::Agent(1), Some(second));
    world.plan.handle_lease(Role::Agent(2), None);
    assert_eq!(world.plan.poll_timeout(), Some((second, Timer::Lease(Role::Agent(1)))));
    world.pass(SECOND * 2 - Duration::from_millis(1));
    assert_eq!(world.effects(), []);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.effects(), [Effect::Fence(Role::Agent(1))]);
    world.ended_cleanly(Role::Agent(1));
    assert_eq!(world.effects(), [Effect::EndOrphans]);
    world.pass(PAUSE_MIN);
    assert_eq!(world.effects(), [Effect::Start(Role::Agent(1))]);
    world.pass(LIFE_MIN);
    assert_eq!(world.effects(), [], "the lease went with the process");
}

#[test]
fn a_renewal_replaces_the_controller_first_and_each_agent_when_it_has_ended() {
    let mut world = World::up(2);
    let [one, two] = [1, 2].map(Role::Agent);
    world.plan.handle_renew(world.now);
    assert_eq!(world.effects(), [Effect::Retire(Role::Controller), Effect::NoteRenewal]);
    assert_eq!(world.plan.renewal(), Some(Progress { controller: false, agents_left: 2 }));
    world.ended_cleanly(Role::Controller);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(Role::Controller)], "without a pause");
    world.ready(Role::Controller);
    assert_eq!(world.effects(), [Effect::Retire(one), Effect::Retire(two), Effect::NoteRenewal]);
    world.ended_cleanly(two);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(two)]);
    assert_eq!(world.plan.renewal(), Some(Progress { controller: true, agents_left: 2 }));
    world.ready(two);
    assert_eq!(world.effects(), [Effect::NoteRenewal]);
    // The first one has a task for days. Another one that dies meanwhile is started after the usual pause.
    world.pass(SECOND * 100_000);
    world.ended_cleanly(two);
    assert_eq!(world.effects(), [Effect::EndOrphans]);
    world.pass(PAUSE_MIN);
    assert_eq!(world.effects(), [Effect::Start(two)]);
    world.ready(two);
    assert_eq!(world.plan.renewal(), Some(Progress { controller: true, agents_left: 1 }));
    world.ended_cleanly(one);
    world.ready(one);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(one), Effect::NoteRenewal]);
    assert_eq!((world.plan.renewal(), world.plan.poll_timeout()), (None, None));
}

#[test]
fn a_controller_that_does_not_make_room_is_killed_and_one_that_cannot_start_is_tried_again() {
    let mut world = World::up(1);
    world.plan.handle_renew(world.now);
    world.effects();
    world.pass(TIMES.stop_max);
    assert_eq!(world.effects(), [Effect::Kill(Role::Controller)]);
    world.ended_cleanly(Role::Controller);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(Role::Controller)]);
    world.ended_cleanly(Role::Controller);
    world.pass(PAUSE_MAX);
    assert_eq!(world.effects(), [Effect::EndOrphans, Effect::Start(Role::Controller)]);
    world.ready(Role::Controller);
    assert_eq!(world.effects(), [Effect::Retire(Role::Agent(1)), Effect::NoteRenewal]);
}

#[test]
fn a_program_is_tried_by_the_controller_before_anything_else_becomes_it() {
    let mut world = World::up(1);
    assert!(world.plan.handle_try(world.now) && world.plan.is_trying());
    assert_eq!(world.effects(), [Effect::Retire(Role::Controller)]);
    world.ready(Role::Controller);
    world.pass(PROOF - Duration::from_millis(1));
    assert_eq!((world.effects(), world.plan.renewal()), (vec![], None));
    world.pass(Duration::from_millis(1));
    assert_eq!(world.effects(), [Effect::Proven]);
    assert_eq!((world.plan.is_trying(), world.plan.poll_timeout()), (false, None));
    world.plan.handle_proven();
    assert_eq!(world.effects(), [Effect::Retire(Role::Agent(1)), Effect::NoteRenewal]);
}

#[test]
fn a_controller_that_ends_in_its_trial_is_started_at_once_as_the_earlier_program() {
    let back = |why: &str| [Effect::Reject(why.to_owned()), Effect::EndOrphans, Effect::Start(Role::Controller)];
    let mut world = World::up(1);
    let mut trial = |events: &dyn Fn(&mut World)| {
        assert!(world.plan.handle_try(world.now));
        world.effects();
        events(&mut world);
        world.ended_cleanly(Role::Controller);
        let effects = world.effects();
        world.ready(Role::Controller);
        assert_eq!((world.effects(), world.plan.poll_timeout()), (vec![], None), "nothing else happens");
        effects
    };
    assert_eq!(trial(&|_| ()), back("its controller exited with code 1"));
    let late = |world: &mut World| {
        world.pass(TIMES.stop_max + TIMES.start_max);
        assert_eq!(world.effects(), [Effect::Kill(Role::Controller)]);
    };
    assert_eq!(trial(&late), back("its controller was not ready after 71 s"));
    let soon = |world: &mut World| world.ready(Role::Controller);
    assert_eq!(trial(&soon), back("its controller was ready, but soon ended: it exited with code 1"));
}

#[test]
fn a_stop_ends_a_trial_and_a_controller_that_is_down_begins_none() {
    let mut world = World::up(1);
    assert!(world.plan.handle_try(world.now));
    world.effects();
    world.stop();
    assert!(!world.plan.is_trying());
    assert_eq!(world.effects(), [Effect::Terminate(Role::Agent(1))]);
    let mut world = World::up(1);
    world.ended_cleanly(Role::Controller);
    assert!(!world.plan.handle_try(world.now));
}

#[test]
fn agents_of_a_controller_elsewhere_are_renewed_alone() {
    let mut world = World { plan: Plan::of_agents(Mono::default(), 1, TIMES), now: Mono::default() };
    world.plan.handle_renew(world.now);
    assert_eq!(world.effects(), [Effect::Start(Role::Agent(1))], "it is not up");
    world.ready(Role::Agent(1));
    world.effects();
    world.plan.handle_renew(world.now);
    assert_eq!(world.effects(), [Effect::Retire(Role::Agent(1)), Effect::NoteRenewal]);
}

#[test]
fn a_stop_ends_a_renewal() {
    let mut world = World::up(1);
    world.plan.handle_renew(world.now);
    world.ended_cleanly(Role::Controller);
    world.effects();
    world.stop();
    assert_eq!(world.effects(), [Effect::Terminate(Role::Agent(1))]);
    assert_eq!(world.plan.renewal(), None);
    world.ready(Role::Controller);
    assert_eq!(world.effects(), []);
}

#[test]
fn a_controller_can_become_the_new_program_without_an_end() {
    let mut world = World::up(1);
    world.plan.handle_renew(world.now);
    world.effects();
    world.ready(Role::Controller);
    assert_eq!(world.effects(), [Effect::Retire(Role::Agent(1)), Effect::NoteRenewal]);
    assert_eq!(world.plan.poll_timeout(), None, "it is not killed");
}

/// The supervisor's program is replaced, too: its successor has the same processes.
#[test]
fn a_plan_is_continued_by_another_one() {
    let mut world = World::up(3);
    let lease = world.now + SECOND * 30;
    world.plan.handle_lease(Role::Agent(1), Some(lease));
    world.ended(Role::Agent(2));
    assert_eq!(world.plan.living(), None, "the remains of a dead process are not ended");
    world.orphans_gone();
    let living = world.plan.living().unwrap();
    assert_eq!(
        living.iter().map(|one| one.role).collect::<Vec<_>>(),
        [Role::Controller, Role::Agent(1), Role::Agent(3)]
    );
    world.plan = Plan::adopt(world.now, 3, true, &living, TIMES);
    world.plan.sanity_check();
    assert_eq!(world.effects(), [Effect::Start(Role::Agent(2))]);
    world.pass(SECOND * 30);
    assert_eq!(world.effects(), [Effect::Fence(Role::Agent(1))]);
    world.stop();
    assert_eq!(world.effects(), [1, 2, 3].map(|agent| Effect::Terminate(Role::Agent(agent))));
    assert_eq!(world.plan.living(), None);
}
