//! Simulations: the real engines on virtual time, with a network, disks, processes and clocks that a seed makes fail.
//!
//! | module | what it is |
//! |---|---|
//! | [`dice`] | chance and the trace, both decided by the seed |
//! | [`plan`] | what a seed decides before anything happens |
//! | [`world`], [`event`] | virtual time and its events |
//! | [`network`] | connections that break, messages that are late, lost or doubled |
//! | [`controller`], [`turn`] | the controller's process and its disk |
//! | [`leaders`] | controllers that lead one queue after the other, and the one that does not know it |
//! | [`host`], [`agent`], [`tool`] | the agents' processes, their supervisors, and what they run |
//! | [`client`], [`receiver`] | clients and operators, and who is pushed to |
//! | [`tools`] | which agent has which tools |
//! | [`policy_fields`] | what submitters demand, and what operators do |
//! | [`relations`] | jobs and dependencies, with their rules |
//! | [`lists`] | which tasks say that they are short |
//! | [`graphs`] | step graphs, with their rules |
//! | [`faults`], [`cuts`] | what goes wrong |
//! | [`model`], [`runs`] | what was promised and what really ran, checked after every event |
//! | [`rules`] | the rules of policies, checked with every decision |
//! | [`probe`] | looking into the controller |
//! | [`checks`] | one simulation, and what must be true in its end |
//!
//! `SIMULATION_SEED=17` runs one seed and prints what happens; `SIMULATION_SEEDS=100000` runs so many: with `cargo test`,
//! for nextest ends a test after a quarter of an hour. A change of [`plan`] makes another run of every seed.

mod agent;
mod checks;
mod client;
mod controller;
mod cuts;
mod dice;
mod event;
mod faults;
mod graphs;
mod host;
mod leaders;
mod lists;
mod model;
mod network;
mod plan;
mod policy_fields;
mod probe;
mod receiver;
mod relations;
mod rules;
mod runs;
mod tool;
mod tools;
mod turn;
mod world;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use checks::{Summary, run};
use dice::Dice;
use event::Defect;
use plan::Plan;

/// Seeds in a normal run. A release runs 100,000.
const SEEDS: u64 = 250;
/// Tests among which they are shared.
const PARTS: u64 = 4;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; it must be a number")))
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the panics of seeds off the terminal: with their backtraces they take longer than the simulations.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
}

/// The broken promise of a seed, if it breaks one.
fn broken(seed: u64, defect: Option<Defect>) -> Result<Summary, String> {
    silence();
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(seed, false, defect))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    });
    QUIET.set(false);
    outcome
}

/// Every seed of a part; those that fail are named with the command that replays each.
#[expect(clippy::print_stdout, reason = "shown with a failure, or when asked for")]
fn part(part: u64) {
    if variable("SIMULATION_SEED").is_some() {
        return;
    }
    let seeds = variable("SIMULATION_SEEDS").unwrap_or(SEEDS);
    let (mut failed, mut tasks, mut repeated) = (Vec::new(), 0, 0);
    let mut outcomes = BTreeMap::new();
    let all = (part..seeds).step_by(usize::try_from(PARTS).expect("few"));
    for seed in all {
        match broken(seed, None) {
            Ok(summary) => {
                tasks += summary.tasks;
                repeated += summary.repeated_rounds;
                for (outcome, count) in summary.outcomes {
                    *outcomes.entry(outcome).or_insert(0) += count;
                }
            }
            Err(why) => failed.push((seed, why)),
        }
    }
    println!(
        "{tasks} tasks: {outcomes:?}; {repeated} runs of a round whose first dispatch was lost with its controller"
    );
    let list: String = failed.iter().take(20).map(|(seed, why)| format!("  {seed}: {why}\n")).collect();
    let Some((seed, _)) = failed.first() else { return };
    panic!(
        "{} seeds fail; replay: SIMULATION_SEED={seed} cargo nextest run --no-capture simulation::one_seed\n{list}",
        failed.len()
    );
}

#[test]
fn the_first_part_keeps_every_promise() {
    part(0);
}

#[test]
fn the_second_part_keeps_every_promise() {
    part(1);
}

#[test]
fn the_third_part_keeps_every_promise() {
    part(2);
}

#[test]
fn the_fourth_part_keeps_every_promise() {
    part(3);
}

/// The replay of a seed, line by line.
#[test]
fn one_seed_keeps_every_promise() {
    if let Some(seed) = variable("SIMULATION_SEED") {
        println!("{:?}", run(seed, true, None));
    }
}

/// The seeds beyond those of every run that have found a defect, of the product or of the checks.
#[test]
fn seeds_that_have_found_a_defect_keep_every_promise() {
    let assignments_of_void_runs = [2694, 46522];
    let ends_without_a_confirmation = [13179, 31345, 43906, 46738, 58147, 86653, 94323, 97447];
    let withdrawn_submits = [6043, 13029, 16001, 44825, 48288, 48587, 60056, 85547];
    let tasks_back_in_a_stopped_job = [21740, 44818, 52571];
    let restored_agents_with_two_runs = [27191, 94253];
    let clocks_that_jump_at_a_gate = [34605];
    let ends_and_retries_in_one_commit = [20557, 23126, 53800, 54097, 61259, 90337, 93999, 98787];
    let late_applies = [10163, 15011, 29811, 31567, 35975, 43336];
    let agents_back_from_a_common_silence = [22873, 44841, 80715, 85648, 97843];
    let cuts_that_the_checks_took_for_others = [16743, 58007];
    let refused_submits_with_a_key = [9324, 22579, 43721, 76929];
    let refused_submits_that_stop_a_job = [42720];
    let kinds: [&[u64]; 12] = [
        &assignments_of_void_runs,
        &ends_without_a_confirmation,
        &withdrawn_submits,
        &tasks_back_in_a_stopped_job,
        &restored_agents_with_two_runs,
        &clocks_that_jump_at_a_gate,
        &ends_and_retries_in_one_commit,
        &late_applies,
        &agents_back_from_a_common_silence,
        &cuts_that_the_checks_took_for_others,
        &refused_submits_with_a_key,
        &refused_submits_that_stop_a_job,
    ];
    for seed in kinds.into_iter().flatten() {
        run(*seed, false, None);
    }
}

/// The same seed replays the same run, byte for byte.
#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..10 {
        assert_eq!(run(seed, false, None), run(seed, false, None));
    }
    assert_ne!(run(0, false, None).hash, run(1, false, None).hash);
}

/// Seeds that reach nothing would keep every promise.
#[test]
fn some_seeds_reach_every_outcome() {
    let reached: BTreeSet<_> = (0..60).flat_map(|seed| run(seed, false, None).outcomes.into_keys()).collect();
    assert_eq!(
        reached,
        BTreeSet::from([
            "SUCCEEDED",
            "FAILED",
            "TIMED_OUT",
            "EXPIRED",
            "KILLED",
            "LOST",
            "SKIPPED",
            "later rounds",
            "given back",
            "no tool"
        ])
    );
}

/// A check that cannot fail is a defect of the simulation: each test plants a defect of the product, and a check has to notice it.
///
/// A row begins with the first seed that shows its defect. After a change of the plan the search goes on from there.
/// `SIMULATION_SEARCH=1`, with a release build, searches all from 0 and prints the new numbers.
macro_rules! checks_find {
    ($($test:ident: $defect:ident from $first:literal, $complaint:literal;)*) => {
        $(#[test]
        fn $test() {
            find($first, Defect::$defect, $complaint);
        })*
    };
}

checks_find! {
    the_checks_find_lost_rows: LostRow from 2, "is lost";
    the_checks_find_old_rounds_taken_for_new_ones: OldRoundAsNew from 16, "is that of another run";
    the_checks_find_a_store_that_lies: LyingStore from 0, "is accepted before it is stored";
    the_checks_find_runs_before_their_key_is_stored: LyingStore from 36, "has a key and runs before it is stored";
    the_checks_find_numbers_that_repeat: UsedNumbers from 0, "comes after";
    the_checks_find_forgotten_progress: ForgottenProgress from 85, "it goes back";
    the_checks_find_hasty_agents: HastyAgents from 0, "takes too long";
    the_checks_find_double_pushes: DoublePush from 0, "comes after";
    the_checks_find_double_jobs: DoubleJob from 0, "runs at";
    the_checks_find_forgotten_kills: ForgottenKill from 50, "kill";
    the_checks_find_forgotten_gates: ForgottenGates from 89, "beyond gate";
    the_checks_find_forgotten_drains: ForgottenDrains from 52, "goes to the drained agent";
    the_checks_find_forgotten_counts: ForgottenCounts from 5, "of TASK";
    the_checks_find_early_starts: EarlyStart from 4, "starts before __START_AFTER__";
    the_checks_find_turned_priorities: TurnedPriorities from 0, "starts before its turn";
    the_checks_find_new_keys: NewKeys from 1, "has made two tasks";
    the_checks_find_deaf_receivers: DeafReceiver from 1, "not done in time";
    the_checks_find_modest_lists: ModestLists from 230, "runs at";
    the_checks_find_runs_without_end: EndlessRuns from 76, "which is void or over";
    the_checks_find_agents_that_do_not_tell: UntoldTools from 1_053, "has for long";
    the_checks_find_exclusive_rounds_that_overlap: NoGuards from 1_315, "the exclusive";
    the_checks_find_leases_that_are_forgotten: ForgottenLeases from 1_315, "the exclusive";
    the_checks_find_two_leaders: TwoLeaders from 608, "goes to the history twice";
    the_checks_find_leaders_without_doubt: SureLeaders from 37, "no task";
    the_checks_find_lists_that_are_forgotten: ForgottenLists from 37_426, "beyond gate";
}

#[expect(clippy::print_stdout, reason = "the number for the row")]
fn find(first: u64, defect: Defect, complaint: &str) {
    let (first, most) = variable("SIMULATION_SEARCH").map_or((first, 1_000), |_| (0, 100_000));
    let shows = |seed: &u64| {
        // Only where nothing else goes wrong must an agent be believed to have what it has for long.
        let may = defect != Defect::UntoldTools || Plan::new(&mut Dice::new(*seed)).is_peaceful();
        may && broken(*seed, Some(defect)).is_err_and(|why| why.contains(complaint))
    };
    let found = (first..first + most).find(shows);
    println!("{defect:?} from {found:?}: {complaint}");
    assert!(found.is_some(), "no check notices {defect:?}");
}
