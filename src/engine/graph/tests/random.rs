//! Random graphs of up to 50 steps, with their events in random orders.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;

use super::*;

pub(super) type Random = Xoshiro256PlusPlus;

/// A document with this many steps, each of which takes some of the earlier ones.
pub(super) fn document(count: usize, random: &mut Random) -> String {
    let mut steps = Vec::new();
    for at in 0..count {
        let port = |letter: char, number: usize, random: &mut Random| {
            let mut all: Vec<usize> = (0..at).collect();
            all.shuffle(random);
            all.truncate(random.random_range(1..=2));
            let sources: Vec<String> = all.iter().map(|step| format!("\"s{step}.out\"")).collect();
            format!("\"{letter}{number}\":[{}]", sources.join(","))
        };
        let ports = |letter: char, max: usize, random: &mut Random| -> Vec<String> {
            let count = if at == 0 { 0 } else { random.random_range(0..=max) };
            (0..count).map(|number| port(letter, number, random)).collect()
        };
        let inputs = ports('i', 2, random);
        let mut keys = vec![format!("\"inputs\":{{{}}}", inputs.join(","))];
        match random.random_range(0..10) {
            0..2 => {}
            kind => {
                let is_each = kind < 5 && !inputs.is_empty();
                let tasks = if is_each { "\"i0\"".to_owned() } else { random.random_range(0..=2).to_string() };
                let subs = ports('s', 2, random);
                let prepare: Vec<String> =
                    (0..subs.len()).map(|sub| format!("\"s{sub}\":{}", random.random_range(0..=2))).collect();
                keys.push(format!("\"operation\":\"t\",\"tasks\":{tasks},\"propagate\":{}", random.random_bool(0.8)));
                keys.push(format!("\"sub_inputs\":{{{}}},\"prepare\":{{{}}}", subs.join(","), prepare.join(",")));
            }
        }
        steps.push(format!("\"s{at}\":{{{}}}", keys.join(",")));
    }
    steps.shuffle(random);
    format!("{{\"steps\":{{{}}}}}", steps.join(","))
}

/// The end of one graph.
#[derive(Debug, PartialEq)]
struct End {
    is_done: bool,
    has_excess: bool,
    /// The tasks of each step and role, by what they are for and not by the order in which they came.
    tasks: BTreeMap<(StepIndex, TaskRole), Vec<u64>>,
}

/// One run of a graph. Its tasks announce what their identity says, at once or at their end.
struct Run {
    scheduler: Scheduler,
    random: Random,
    /// The running tasks with their identities.
    running: Vec<(StepTask, u64)>,
    identities: BTreeMap<(StepIndex, u32), u64>,
    seen: BTreeSet<StepTask>,
    states: Vec<StepState>,
    end: End,
}

fn mixed(parts: &[u64]) -> u64 {
    parts.iter().fold(7, |sum, part| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}

impl Run {
    fn new(graph: Arc<Graph>, order: u64) -> Self {
        let states = vec![StepState::Created; graph.steps().len()];
        let end = End { is_done: false, has_excess: false, tasks: BTreeMap::new() };
        let (scheduler, random) = (Scheduler::new(graph, 2_000), Random::seed_from_u64(order));
        let (identities, seen) = (BTreeMap::new(), BTreeSet::new());
        Self { scheduler, random, running: Vec::new(), identities, seen, states, end }
    }

    fn drain(&mut self) {
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                Effect::Start(slot, partition) => self.start(slot, partition),
                Effect::Changed(step, state) => {
                    let before = std::mem::replace(&mut self.states[step.0 as usize], state);
                    assert!(before < state, "{step:?} goes back from {before:?} to {state:?}");
                }
                Effect::End(slot) => assert!(self.running.iter().any(|(running, _)| *running == slot)),
                Effect::Excess(_) => self.end.has_excess = true,
                Effect::Done => assert!(!std::mem::replace(&mut self.end.is_done, true)),
            }
        }
        self.scheduler.sanity_check();
    }

    fn start(&mut self, slot: StepTask, partition: Option<Partition>) {
        assert!(self.seen.insert(slot), "{slot:?} starts twice");
        let expected = if slot.role == TaskRole::Main { StepState::Running } else { StepState::Preparing };
        assert_eq!(self.scheduler.state(slot.step), expected, "{slot:?}");
        let of = partition.map(|of| {
            let task = self.identities.get(&(of.output.step, of.task)).expect("it has run");
            mixed(&[*task, u64::from(of.number)])
        });
        let identity = mixed(&[u64::from(slot.step.0), of.unwrap_or_else(|| u64::from(slot.number))]);
        if slot.role == TaskRole::Main {
            self.identities.insert((slot.step, slot.number), identity);
        }
        self.end.tasks.entry((slot.step, slot.role)).or_default().push(identity);
        self.running.push((slot, identity));
    }

    /// What a task announces: nothing, that there is nothing, or one or two partitions.
    fn announce(&mut self, slot: StepTask, identity: u64) {
        let kind = u32::try_from(identity >> 32 & 3).expect("two bits");
        if slot.role == TaskRole::Main && kind > 0 {
            let output = OutputId { step: slot.step, output: 0 };
            self.scheduler.handle_providing(output, slot.number, 0, kind - 1);
        }
    }

    /// Runs the graph to its end, and now and then completes a step early.
    fn run(mut self, early: f64) -> End {
        self.drain();
        while !self.running.is_empty() {
            let (slot, identity) = self.running.swap_remove(self.random.random_range(0..self.running.len()));
            if self.random.random_bool(early) {
                let steps = u32::try_from(self.states.len()).expect("a small graph");
                self.running.push((slot, identity));
                self.scheduler.handle_completion(StepIndex(self.random.random_range(0..steps)));
                self.drain();
                continue;
            }
            // A task announces before its end; others may end in between.
            if self.random.random_bool(0.5) {
                self.announce(slot, identity);
                self.drain();
            } else {
                self.announce(slot, identity);
            }
            assert!(self.scheduler.handle_ended(slot, true));
            self.drain();
        }
        self.end.tasks.values_mut().for_each(|tasks| tasks.sort_unstable());
        self.end
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_ends_with_the_same_tasks(count in 1..=50_usize, seed: u64, orders: [u64; 3]) {
        let text = document(count, &mut Random::seed_from_u64(seed));
        let graph = Arc::new(graph(&text).map_err(|refusal| TestCaseError::fail(refusal.to_string()))?);
        let [first, second, third] = orders.map(|order| Run::new(Arc::clone(&graph), order).run(0.0));
        prop_assert!(first.is_done != first.has_excess, "{}", text);
        if !first.has_excess {
            prop_assert_eq!(&first, &second, "{}", &text);
            prop_assert_eq!(&first, &third, "{}", &text);
        }
    }

    #[test]
    fn a_graph_whose_steps_complete_early_ends(count in 1..=50_usize, seed: u64, order: u64) {
        let text = document(count, &mut Random::seed_from_u64(seed));
        let graph = Arc::new(graph(&text).map_err(|refusal| TestCaseError::fail(refusal.to_string()))?);
        let end = Run::new(graph, order).run(0.2);
        prop_assert!(end.is_done != end.has_excess, "{}", text);
    }
}
