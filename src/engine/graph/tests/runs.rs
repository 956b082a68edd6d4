//! Whole graphs: what a task finds, how a graph ends, and that its entries make it again.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rand::SeedableRng as _;

use super::random::{Random, document};
use super::*;
use base::{GraphStatus, Wall};

/// A graph whose tasks end when the test says so.
struct Story {
    run: GraphRun,
    entries: Vec<GraphEntry>,
    running: Vec<StepTask>,
    told: Vec<StepTask>,
    killed: Vec<StepTask>,
    last: Option<StatusChange>,
    seconds: u64,
}

impl Story {
    fn new(steps: &[&str]) -> Self {
        Self::of(Arc::new(graph(&lines(steps)).unwrap()))
    }

    fn of(graph: Arc<Graph>) -> Self {
        let run = GraphRun::new(graph, 2_000, Wall::from_micros(0));
        let (entries, running, told, killed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut story = Self { run, entries, running, told, killed, last: None, seconds: 0 };
        story.drain();
        story
    }

    fn drain(&mut self) {
        while let Some(effect) = self.run.poll_effect() {
            match effect {
                GraphEffect::Start(slot) => self.running.push(slot),
                GraphEffect::End(slot) => self.told.push(slot),
                GraphEffect::Kill(slot) => self.killed.push(slot),
                GraphEffect::Drop(slot) => self.running.retain(|running| *running != slot),
                GraphEffect::Changed(change) => {
                    assert_eq!(change.seq, self.last.map_or(0, |last| last.seq) + 1);
                    self.last = Some(change);
                }
            }
        }
        self.run.sanity_check();
    }

    fn handle(&mut self, event: GraphEvent) -> bool {
        self.handle_with(event, |_| false)
    }

    fn handle_with(&mut self, event: GraphEvent, has_not_begun: impl FnMut(StepTask) -> bool) -> bool {
        self.seconds += 1;
        let entry = self.run.handle(Wall::from_micros(self.seconds), event, has_not_begun);
        let matters = entry.is_some();
        self.entries.extend(entry);
        self.drain();
        matters
    }

    fn step(&self, name: &str) -> StepIndex {
        self.run.scheduler().graph().named(&StepName::new(name).unwrap()).unwrap()
    }

    fn task(&self, name: &str, number: u32) -> StepTask {
        StepTask { step: self.step(name), role: TaskRole::Main, number }
    }

    fn announce(&mut self, name: &str, number: u32, round: u32, location: &str) {
        let slot = self.task(name, number);
        self.handle(GraphEvent::Announced { slot, round, output: 0, location: location.into() });
    }

    /// A task ends with success in this round, with these lines of its file; without a file if there are none.
    fn succeed(&mut self, name: &str, number: u32, round: u32, lines: &[&str]) {
        let slot = self.task(name, number);
        self.running.retain(|running| *running != slot);
        let locations = lines.iter().map(|line| Arc::from(*line)).collect();
        let provided = if lines.is_empty() { Vec::new() } else { vec![(0, locations)] };
        self.handle(GraphEvent::Ended(slot, TaskEnd { failure: None, round, provided }));
    }

    fn fail(&mut self, name: &str, number: u32, why: &str) {
        let slot = self.task(name, number);
        self.running.retain(|running| *running != slot);
        self.handle(GraphEvent::Ended(slot, TaskEnd { failure: Some(why.into()), round: 0, provided: Vec::new() }));
    }

    /// The locations of the inputs of a task: `a b | c`.
    fn inputs(&self, name: &str, number: u32) -> String {
        let inputs = self.run.inputs(self.task(name, number));
        let texts = inputs.iter().map(|(_, locations)| {
            locations
                .iter()
                .map(|location| if location.is_empty() { "-" } else { location })
                .collect::<Vec<_>>()
                .join(" ")
        });
        texts.collect::<Vec<_>>().join(" | ")
    }
}

#[test]
fn the_order_of_locations_is_that_of_the_document_and_the_tasks() {
    let mut story = Story::new(&["a 2", "b", "x x b+a", "c 1 b+a x"]);
    story.announce("a", 1, 0, "a1-said");
    story.succeed("a", 1, 0, &["a1-file"]);
    story.announce("a", 0, 0, "a0-said");
    story.succeed("a", 0, 0, &["a0-file", "a0-more"]);
    story.succeed("b", 0, 0, &[]);
    let all = "- a0-said a0-file a0-more a1-said a1-file";
    assert_eq!(story.inputs("c", 0), format!("{all} | {all}"));
}

#[test]
fn a_task_of_a_partition_finds_that_one_alone() {
    let mut story = Story::new(&["a", "s", "b each a s|s"]);
    story.announce("a", 0, 0, "one");
    story.succeed("s", 0, 0, &["side"]);
    let prepare = StepTask { step: story.step("b"), role: TaskRole::Prepare(2), number: 0 };
    assert_eq!(story.run.inputs(prepare).len(), 1, "it finds its own input alone");
    story.running.retain(|slot| *slot != prepare);
    story.handle(GraphEvent::Ended(prepare, TaskEnd { failure: None, round: 0, provided: Vec::new() }));
    story.announce("a", 0, 0, "two");
    assert_eq!(story.inputs("b", 0), "one | side | side");
    assert_eq!(story.inputs("b", 1), "two | side | side");
}

#[test]
fn a_later_round_repeats_its_announcements() {
    let mut story = Story::new(&["a", "b each a"]);
    story.announce("a", 0, 0, "x");
    story.announce("a", 0, 0, "x");
    assert_eq!(story.running.len(), 3, "twice in one round are two");
    story.announce("a", 0, 1, "x");
    story.announce("a", 0, 1, "y");
    assert_eq!(story.running.len(), 4);
    story.succeed("a", 0, 1, &["x", "z"]);
    assert_eq!(story.running.len(), 4, "x y of the second round, x of its file, and z");
    assert_eq!((0..4).map(|at| story.inputs("b", at)).collect::<Vec<_>>(), ["x", "x", "y", "z"]);
}

#[test]
fn only_running_main_tasks_provide() {
    let mut story = Story::new(&["m", "a", "b 1 m|a", "c each b"]);
    story.announce("b", 0, 0, "early");
    story.succeed("a", 0, 0, &[]);
    let prepare = StepTask { step: story.step("b"), role: TaskRole::Prepare(1), number: 0 };
    let event = GraphEvent::Announced { slot: prepare, round: 0, output: 0, location: "prepared".into() };
    assert!(!story.handle(event));
    let slot = story.task("m", 0);
    let event = GraphEvent::Announced { slot, round: 0, output: 7, location: "no such output".into() };
    assert!(!story.handle(event));
    let end = TaskEnd { failure: None, round: 0, provided: vec![(7, vec!["no such output".into()])] };
    assert!(story.handle(GraphEvent::Ended(slot, end)));
    let provided: usize = story.run.scheduler().graph().indexes().map(|step| story.run.provided(step)).sum();
    assert_eq!(provided, 0);
}

#[test]
fn a_graph_succeeds_with_its_last_step() {
    let mut story = Story::new(&["a", "b 1 a"]);
    story.succeed("a", 0, 0, &[]);
    assert_eq!((story.run.status(), story.run.counts()), (GraphStatus::Running, [0, 0, 0, 0, 1, 0, 1, 0]));
    story.succeed("b", 0, 0, &[]);
    assert_eq!((story.run.status(), story.run.reason()), (GraphStatus::Succeeded, None));
    let last = StatusChange { seq: 9, step: None, status: GraphStatus::Succeeded };
    assert_eq!((story.last, story.run.ended_at()), (Some(last), Some(Wall::from_micros(2))));
    assert_eq!(story.run.times(StepIndex(1))[StepState::Running as usize], Some(Wall::from_micros(1)));
}

#[test]
fn a_failed_task_ends_the_rest_and_gives_the_reason() {
    let mut story = Story::new(&["a 2", "b", "c 1 a+b"]);
    story.fail("a", 1, "step a: it failed");
    assert_eq!(story.killed, [story.task("a", 0), story.task("b", 0)]);
    assert_eq!(story.run.status(), GraphStatus::Running, "two tasks run");
    story.fail("b", 0, "killed");
    story.fail("a", 0, "killed");
    assert_eq!((story.run.status(), story.run.reason()), (GraphStatus::Failed, Some("step a: it failed")));
    assert_eq!(story.run.counts()[StepState::Running as usize], 2, "the steps keep their states");
}

#[test]
fn a_task_that_was_told_to_end_does_not_fail() {
    let mut story = Story::new(&["a 2", "b 1 a"]);
    story.handle(GraphEvent::Complete(story.step("a")));
    assert_eq!(story.told.len(), 2);
    story.fail("a", 0, "signal 15");
    story.fail("a", 1, "signal 15");
    assert_eq!(story.run.scheduler().state(story.step("b")), StepState::Running);
}

#[test]
fn a_killed_graph_drops_what_has_not_begun() {
    let mut story = Story::new(&["a 2", "b 1 a"]);
    let waiting = story.task("a", 1);
    story.handle_with(GraphEvent::Kill("enough".into()), |slot| slot == waiting);
    assert_eq!(
        (story.killed.as_slice(), story.running.as_slice()),
        (&[story.task("a", 0)][..], &[story.task("a", 0)][..])
    );
    story.fail("a", 0, "killed");
    assert_eq!((story.run.status(), story.run.reason()), (GraphStatus::Killed, Some("enough")));
    assert!(!story.handle(GraphEvent::Kill("again".into())), "it has ended");
    assert_eq!(story.entries.len(), 2);
}

/// The state of a run, as far as others see it.
fn shown(run: &GraphRun, running: &[StepTask]) -> String {
    let steps: Vec<_> = run.scheduler().graph().indexes().collect();
    let states: Vec<_> =
        steps.iter().map(|step| (run.scheduler().state(*step), *run.times(*step), run.provided(*step))).collect();
    let inputs: Vec<_> = running.iter().map(|slot| (slot, run.inputs(*slot))).collect();
    format!("{:?} {:?} {:?} {:?} {states:?} {inputs:?}", run.status(), run.reason(), run.ended_at(), run.counts())
}

/// Something random happens.
fn step(story: &mut Story, random: &mut Random) {
    let at = random.random_range(0..story.running.len());
    let slot = story.running[at];
    let not_begun: BTreeSet<StepTask> = story.running.iter().copied().filter(|_| random.random_bool(0.3)).collect();
    let location: Arc<str> = format!("l{}", random.random_range(0..3)).into();
    let round = random.random_range(0..2);
    let event = match random.random_range(0..20) {
        0..5 => GraphEvent::Announced { slot, round, output: 0, location },
        5..18 => {
            story.running.swap_remove(at);
            let provided = if slot.role == TaskRole::Main && random.random_bool(0.5) {
                vec![(0, vec![location])]
            } else {
                Vec::new()
            };
            GraphEvent::Ended(slot, TaskEnd { failure: None, round, provided })
        }
        18 => GraphEvent::Complete(slot.step),
        _ if random.random_bool(0.1) => GraphEvent::Kill("enough".into()),
        _ if random.random_bool(0.1) => {
            story.running.swap_remove(at);
            GraphEvent::Ended(slot, TaskEnd { failure: Some("failed".into()), round, provided: Vec::new() })
        }
        _ => GraphEvent::Complete(slot.step),
    };
    story.handle_with(event, |slot| not_begun.contains(&slot));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// A controller that is killed at any moment goes on with the same graph.
    #[test]
    fn the_entries_of_a_graph_make_it_again(count in 1..=30_usize, seed: u64) {
        let mut random = Random::seed_from_u64(seed);
        let graph = Arc::new(graph(&document(count, &mut random)).unwrap());
        let mut story = Story::of(Arc::clone(&graph));
        while !story.running.is_empty() {
            step(&mut story, &mut random);
            let begin = Wall::from_micros(0);
            let mut again = GraphRun::restore(Arc::clone(&graph), 2_000, begin, story.entries.iter().cloned());
            again.sanity_check();
            prop_assert_eq!(shown(&story.run, &story.running), shown(&again, &story.running));
            let mut starts = BTreeSet::new();
            while let Some(effect) = again.poll_effect() {
                let GraphEffect::Start(slot) = effect else { panic!("{effect:?}") };
                prop_assert!(starts.insert(slot));
            }
            prop_assert_eq!(starts, story.running.iter().copied().collect());
            if random.random_bool(0.3) {
                story.run = again;
            }
        }
        prop_assert!(story.run.status() != GraphStatus::Running);
        prop_assert_eq!(story.last.map(|last| last.status), Some(story.run.status()));
    }
}
