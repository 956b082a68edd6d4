//! Long and wide graphs: each connection is looked at a bounded number of times, whatever the number of the others.

use super::*;

/// Runs all tasks of a graph. Returns the connections that were looked at, and the number of tasks.
fn run(text: &str) -> (u64, usize) {
    let graph = Arc::new(graph(text).expect("a graph"));
    let mut scheduler = Scheduler::new(graph, 100_000);
    let (mut tasks, mut is_done) = (0, false);
    while let Some(effect) = scheduler.poll_effect() {
        match effect {
            Effect::Start(slot, _) => {
                tasks += 1;
                assert!(scheduler.handle_ended(slot, true));
            }
            Effect::Done => is_done = true,
            Effect::End(_) | Effect::Changed(..) | Effect::Excess(_) => {}
        }
    }
    assert!(is_done);
    (scheduler.looks, tasks)
}

fn chain(length: usize) -> String {
    let mut steps = vec!["s0".to_owned()];
    steps.extend((1..length).map(|at| format!("s{at} 1 s{}", at - 1)));
    lines(&steps.iter().map(String::as_str).collect::<Vec<_>>())
}

fn fan(width: usize) -> String {
    let mut steps = vec!["first".to_owned()];
    steps.extend((0..width).map(|at| format!("s{at} 1 first")));
    steps.push(format!("last 1 {}", (0..width).map(|at| format!("s{at}")).collect::<Vec<_>>().join("+")));
    lines(&steps.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Four changes of state at each of the two ends of a connection.
#[test]
fn the_work_is_linear_in_the_connections() {
    assert_eq!(run(&chain(10_000)), (8 * 9_999, 10_000));
    assert_eq!(run(&fan(10_000)), (8 * 20_000, 10_002));
}

#[test]
fn a_drawing_has_a_layer_for_each_length_of_way() {
    let graph = graph(&lines(&["a", "b 1 a", "c 1 b", "d 1 a c", "e 1 a"])).unwrap();
    let layout = Layout::of(&graph);
    let layers: Vec<usize> = layout.steps.iter().map(|place| place.layer).collect();
    assert_eq!(layers, [0, 1, 2, 3, 1]);
    let long = layout.lines.iter().find(|line| (line.from, line.to) == (StepIndex(0), StepIndex(3))).unwrap();
    assert_eq!(long.bends.iter().map(|bend| bend.layer).collect::<Vec<_>>(), [1, 2]);
    let mut places: Vec<(usize, String)> =
        layout.steps.iter().map(|place| (place.layer, place.row.to_string())).collect();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), 5, "no two steps share a place");
}

#[test]
fn a_drawing_of_two_parallel_ways_has_no_crossing() {
    let graph = graph(&lines(&["a", "b", "c 1 b", "d 1 a", "e 1 d", "f 1 c"])).unwrap();
    let layout = Layout::of(&graph);
    for one in &layout.lines {
        for other in layout
            .lines
            .iter()
            .filter(|other| layout.steps[other.from.0 as usize].layer == layout.steps[one.from.0 as usize].layer)
        {
            let row = |step: StepIndex| layout.steps[step.0 as usize].row;
            let crosses = (row(one.from) - row(other.from)) * (row(one.to) - row(other.to)) < 0.0;
            assert!(!crosses, "{one:?} crosses {other:?}");
        }
    }
}
