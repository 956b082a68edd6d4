//! The engine of step graphs: changes of state in a second, from the first step to the last, without tasks that take time.

use std::sync::Arc;

use api::wire::graph::{Document, GraphRules};
use api::wire::rules::DefaultPolicies;
use base::GraphLimits;
use base::json::FieldLimits;
use divan::counter::ItemsCount;
use engine::graph::{Effect, Graph, Scheduler};

fn main() {
    divan::main();
}

const STEPS: usize = 10_000;

fn graph(inputs: impl Fn(usize) -> Vec<usize>) -> Arc<Graph> {
    let limits = GraphLimits { bytes_max: 1 << 24, steps_max: STEPS, connections_max: 10 * STEPS, tasks_max: STEPS };
    let rules = GraphRules { graph: limits, fields: FieldLimits::TRUSTED, defaults: DefaultPolicies::default() };
    let step = |at: usize| {
        let sources: Vec<String> = inputs(at).iter().map(|source| format!("\"s{source}.out\"")).collect();
        let inputs =
            if sources.is_empty() { String::new() } else { format!(",\"inputs\":{{\"in\":[{}]}}", sources.join(",")) };
        format!("\"s{at}\":{{\"operation\":\"t\"{inputs}}}")
    };
    let text = format!("{{\"steps\":{{{}}}}}", (0..STEPS).map(step).collect::<Vec<_>>().join(","));
    let document = Document::parse(&text, &rules).expect("a document");
    Arc::new(Graph::new(&document).expect("a graph"))
}

/// Runs all steps. Returns the number of changes of state.
fn run(graph: &Arc<Graph>) -> usize {
    let mut scheduler = Scheduler::new(Arc::clone(graph), STEPS);
    let mut changes = 0;
    while let Some(effect) = scheduler.poll_effect() {
        match effect {
            Effect::Start(slot, _) => drop(scheduler.handle_ended(slot, true)),
            Effect::Changed(..) => changes += 1,
            Effect::End(_) | Effect::Excess(_) | Effect::Done => {}
        }
    }
    changes
}

fn measure(bencher: divan::Bencher<'_, '_>, graph: &Arc<Graph>) {
    let changes = run(graph);
    bencher.counter(ItemsCount::new(changes)).bench_local(|| run(graph));
}

#[divan::bench(sample_count = 20)]
fn chain(bencher: divan::Bencher<'_, '_>) {
    measure(bencher, &graph(|at| at.checked_sub(1).into_iter().collect()));
}

#[divan::bench(sample_count = 20)]
fn one_to_all_to_one(bencher: divan::Bencher<'_, '_>) {
    let inputs = |at| match at {
        0 => Vec::new(),
        at if at + 1 == STEPS => (1..at).collect(),
        _ => vec![0],
    };
    measure(bencher, &graph(inputs));
}
