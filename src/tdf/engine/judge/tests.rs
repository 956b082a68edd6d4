//! Every rule of the server, and what holds of all of them together.

use proptest::prelude::*;

use super::*;
use base::tdf::{Fence, TaskId, WorkerName};

const NOW: f64 = 1_800_000_000.0;
const AT: Moment = Moment { now: NOW, first_seen: NOW, max_losses: 3, leases_from: 0.0 };

fn facts(set: State) -> Facts {
    Facts {
        task: TaskId(1),
        set: Some(set),
        score: NOW - 10.0,
        state: Some(set),
        round: 0,
        start_after: 0.0,
        end_before: f64::INFINITY,
        timeout: f64::INFINITY,
        fails: Budget { used: 0, max: 0 },
        timeouts: Budget { used: 0, max: 0 },
        run: Some(Run { started: "1799999990.0".into(), started_at: NOW - 10.0, worker: Some("w".into()) }),
        executed_at: Some(NOW - 1.0),
        has_output: true,
        stderr: Stderr::Empty,
        lease: None,
        losses: 0,
        is_stray: false,
    }
}

/// Where the task goes; `None` if it stays.
fn end(facts: &Facts) -> Option<State> {
    match judge(facts, AT) {
        Verdict::Move(hops) | Verdict::Lost(hops) => hops.last().map(|hop| hop.to),
        Verdict::Wait(_) | Verdict::Rescore(_) | Verdict::Stray | Verdict::NoStart => None,
    }
}

fn lease(end: f64, round: u32, started: &str, worker: &str) -> Option<(Fence, f64)> {
    let worker = WorkerName::new(worker).unwrap();
    Some((Fence { task: TaskId(1), round, worker, started: started.into() }, end))
}

#[test]
fn a_task_that_is_not_finished_in_time_expires_in_each_of_three_states() {
    for state in [State::Open, State::Running] {
        let late = Facts { end_before: NOW - 0.1, ..facts(state) };
        assert_eq!(end(&late), Some(State::Expired), "{state:?}");
        assert_eq!(end(&Facts { end_before: NOW, ..late }), None, "{state:?}");
    }
    // It was executed a second ago.
    assert_eq!(end(&Facts { end_before: NOW - 2.0, ..facts(State::Executed) }), Some(State::Expired));
    assert_eq!(end(&Facts { end_before: NOW - 0.5, ..facts(State::Executed) }), Some(State::Succeeded));
    let unknown = Facts { end_before: NOW - 0.5, executed_at: None, ..facts(State::Executed) };
    assert_eq!(end(&unknown), Some(State::Expired));
}

#[test]
fn a_run_times_out_after_its_timeout_also_when_its_clock_is_ahead() {
    let run = |timeout| Facts { timeout, ..facts(State::Running) };
    assert_eq!((end(&run(10.0)), end(&run(9.9))), (None, Some(State::TimedOut)));
    assert_eq!(end(&Facts { timeouts: Budget { used: 0, max: 1 }, ..run(9.9) }), Some(State::Open));
    let ahead = Run { started: "1800003600.0".into(), started_at: NOW + 3600.0, worker: Some("w".into()) };
    let ahead = Facts { run: Some(ahead), ..run(5.0) };
    assert_eq!(judge(&ahead, AT), Verdict::Wait(NOW + 5.0));
    let later = Moment { now: NOW + 5.1, first_seen: NOW, ..AT };
    assert!(matches!(judge(&ahead, later), Verdict::Move(_)));
    assert_eq!(judge(&Facts { run: None, ..run(5.0) }, AT), Verdict::NoStart);
}

#[test]
fn a_worker_of_ours_is_lost_with_its_lease() {
    let held = |lease| Facts { lease, ..facts(State::Running) };
    let expired = held(lease(NOW - 0.1, 0, "1799999990.0", "w"));
    assert!(matches!(judge(&expired, AT), Verdict::Lost(hops) if hops[0].to == State::Open && hops[0].round == 0));
    assert_eq!(end(&Facts { losses: 3, ..expired }), Some(State::Failed));
    assert_eq!(judge(&held(lease(NOW + 4.0, 0, "1799999990.0", "w")), AT), Verdict::Wait(NOW + 4.0));
    // Another one has it.
    for other in [lease(0.0, 1, "1799999990.0", "w"), lease(0.0, 0, "1.0", "w"), lease(0.0, 0, "1799999990.0", "x")] {
        assert_eq!(judge(&held(other), AT), Verdict::Wait(f64::INFINITY));
    }
}

#[test]
fn the_end_of_a_lease_does_not_count_before_its_worker_could_renew_it() {
    let held = Facts { lease: lease(NOW - 60.0, 0, "1799999990.0", "w"), ..facts(State::Running) };
    let back = Moment { leases_from: NOW + 10.0, ..AT };
    assert_eq!(judge(&held, back), Verdict::Wait(NOW + 10.0));
    assert!(matches!(judge(&held, Moment { now: NOW + 10.1, ..back }), Verdict::Lost(_)));
    // A worker that holds its lease reports its time-out itself, for a bounded time.
    let late = Facts { timeout: 9.0, ..held.clone() };
    assert_eq!(judge(&late, back), Verdict::Wait(NOW + 9.0));
    assert!(matches!(judge(&late, Moment { now: NOW + 9.1, ..back }), Verdict::Move(_)));
    assert!(matches!(judge(&late, AT), Verdict::Move(_)), "the lease has ended");
    let fresh = Facts { lease: lease(NOW + 4.0, 0, "1799999990.0", "w"), ..late.clone() };
    assert_eq!(judge(&fresh, AT), Verdict::Wait(NOW + 4.0));
    assert!(matches!(judge(&Facts { lease: None, ..late }, AT), Verdict::Move(_)), "an original's worker");
    // The other limit counts as always.
    assert!(matches!(judge(&Facts { end_before: NOW - 1.0, ..held }, back), Verdict::Move(_)));
    // A run without a lease is no case of this.
    assert_eq!(judge(&facts(State::Running), back), Verdict::Wait(f64::INFINITY));
}

#[test]
fn stderr_decides_between_success_and_failure() {
    let executed = |stderr| Facts { stderr, ..facts(State::Executed) };
    assert_eq!(end(&executed(Stderr::Empty)), Some(State::Succeeded));
    assert_eq!(end(&executed(Stderr::Written)), Some(State::Failed));
    assert_eq!(end(&Facts { fails: Budget { used: 0, max: 1 }, ..executed(Stderr::Written) }), Some(State::Open));
    let Verdict::Move(hops) = judge(&executed(Stderr::Missing), AT) else { panic!("it is a failure") };
    assert_eq!(hops[0].changes[1].0, "0:error");
}

#[test]
fn the_score_of_an_open_task_follows_its_start() {
    let open = |start_after, score| judge(&Facts { start_after, score, ..facts(State::Open) }, AT);
    assert_eq!(open(0.0, 0.0), Verdict::Wait(f64::INFINITY));
    // Opened again by a clock that is ahead.
    assert_eq!(open(0.0, NOW + 3600.0), Verdict::Rescore(NOW));
    assert_eq!(open(NOW + 60.0, NOW - 1.0), Verdict::Rescore(NOW + 60.0));
    assert_eq!(open(NOW + 60.0, NOW + 60.0), Verdict::Wait(f64::INFINITY));
    assert_eq!(open(0.0, f64::INFINITY), Verdict::Rescore(NOW));
}

#[test]
fn what_an_original_leaves_between_two_hops_goes_on() {
    // Its worker raises the round after the first hop, its server before it.
    for (round, expected) in [(0, 1), (1, 1)] {
        let timeouts = Budget { used: 1, max: 1 };
        let Verdict::Move(hops) = judge(&Facts { round, timeouts, ..facts(State::Timeout) }, AT) else {
            panic!("moves")
        };
        assert_eq!((hops[0].to, hops[0].round), (State::Open, expected));
    }
    let spent = Facts { fails: Budget { used: 1, max: 0 }, ..facts(State::Failure) };
    assert_eq!(end(&spent), Some(State::Failed));
}

#[test]
fn a_task_in_no_set_is_put_where_its_state_says() {
    let lost = |state| Facts { set: None, state, ..facts(State::Open) };
    for state in [State::Open, State::Executed, State::Succeeded, State::Failed, State::TimedOut, State::Expired] {
        let Some(Verdict::Move(hops)) = adopt(&lost(Some(state)), 3) else { panic!("{state:?} is restored") };
        assert_eq!((hops[0].from, hops[0].to), (None, state));
    }
    let Some(Verdict::Lost(hops)) = adopt(&lost(Some(State::Running)), 3) else { panic!("it is a loss") };
    assert_eq!((hops[0].from, hops[0].to), (None, State::Open));
    assert_eq!((adopt(&lost(None), 3), adopt(&lost(Some(State::Archived)), 3)), (None, None));
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let moment = prop_oneof![Just(f64::INFINITY), Just(0.0), NOW - 100.0..NOW + 100.0];
    let budget = (0_i64..4, -1_i64..4);
    let set = proptest::sample::select(State::ALL.to_vec());
    (
        set,
        [moment.clone(), moment.clone(), moment],
        prop_oneof![Just(f64::INFINITY), 0.0..200.0],
        budget.clone(),
        budget,
        0_u32..6,
        0_u32..6,
    )
        .prop_map(|(set, [score, start_after, end_before], timeout, fails, timeouts, losses, kind)| Facts {
            score,
            start_after,
            end_before,
            timeout,
            // Where no component is at work, the round is the sum of the counters.
            round: u32::try_from(fails.0 + timeouts.0).unwrap(),
            fails: Budget { used: fails.0, max: fails.1 },
            timeouts: Budget { used: timeouts.0, max: timeouts.1 },
            stderr: [Stderr::Missing, Stderr::Empty, Stderr::Written][kind as usize % 3],
            has_output: kind % 2 == 0,
            lease: if kind > 2 {
                lease(NOW - 5.0, u32::try_from(fails.0 + timeouts.0).unwrap(), "1799999990.0", "w")
            } else {
                None
            },
            losses,
            ..facts(set)
        })
}

proptest! {
    /// A move never leaves a task where no component looks, keeps the sum of the counters, and begins where the task is.
    #[test]
    fn every_move_keeps_the_task_in_sight(facts in any_facts()) {
        if let Verdict::Move(hops) | Verdict::Lost(hops) = judge(&facts, AT) {
            let last = hops.last().unwrap();
            prop_assert_eq!(hops[0].from, facts.set);
            prop_assert!(!matches!(last.to, State::Timeout | State::Failure | State::Running | State::Executed | State::Archived));
            for pair in hops.windows(2) {
                prop_assert_eq!(Some(pair[0].to), pair[1].from);
            }
            let value = |name: &str, old: i64| {
                let new = hops.iter().flat_map(|hop| &hop.changes).rfind(|(field, _)| field == name);
                new.map_or(old, |(_, value)| value.parse().unwrap())
            };
            let sum = value("fails", facts.fails.used) + value("timeouts", facts.timeouts.used);
            if last.to == State::Open {
                prop_assert_eq!(value("round", facts.round.into()), sum);
                prop_assert_eq!(i64::from(last.round), sum);
            }
        }
    }

    /// A task that waits is not due before the moment that is told, and is then.
    #[test]
    fn a_wait_ends_when_something_is_to_happen(facts in any_facts()) {
        if let Verdict::Wait(until) = judge(&facts, AT) {
            prop_assert!(until >= NOW);
            if until.is_finite() {
                let then = Moment { now: until + 0.001, ..AT };
                prop_assert!(!matches!(judge(&facts, then), Verdict::Wait(_)));
            }
        }
    }
}
