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
