//! What a run tells about how far it is.

use super::*;
use api::wire::brief;
use base::Progress;

fn tell(world: &mut World, task: TaskId, fraction: f64) {
    let progress = Progress::new(fraction, "tile").map(Box::new);
    let report = Report { progress, ..report_of(task, Round(0), Phase::Running, None) };
    let (_, answer) = world.say("a", FromAgent::Report(Box::new(report)));
    assert!(matches!(answer, Answer::Now(Reply::Reported { refusal: None, .. })), "{answer:?}");
    world.settle();
}

#[test]
fn progress_is_shown_and_pushed_and_ends_with_the_run() {
    let mut world = World::new();
    let task = world.submitted(&Fields::new().with(words::MAX_FAILS, 1u32));
    world.runs("a", task, Round(0));
    let pushed = world.pushes.len();
    tell(&mut world, task, 0.4);
    let shown = world.told(TASK_QUERY, task);
    assert_eq!((text(&shown, words::PROGRESS), text(&shown, words::PROGRESS_TEXT)), ("0.4".into(), "tile".into()));
    let explained = text(&world.told(TASK_EXPLAIN, task), words::WHY);
    assert_eq!(explained, "agent a runs it; 40 %: tile");
    assert_eq!(brief::why(&world.record(task), None).as_deref(), Some("40 %: tile"));
    tell(&mut world, task, 0.4);
    assert_eq!(world.pushes.len(), pushed + 1, "the same is no news");
    world.ends("a", task, Round(0), result(1));
    assert_eq!(world.told(TASK_QUERY, task).get(words::PROGRESS), None);
    assert_ne!(brief::why(&world.record(task), None).as_deref(), Some("40 %: tile"));
}

/// Progress is not stored, but the numbers of its pushes are.
#[test]
fn no_number_of_a_push_is_used_again_after_a_restart() {
    let mut world = World::new();
    let task = world.task();
    world.runs("a", task, Round(0));
    (1..=250).for_each(|number| tell(&mut world, task, f64::from(number) / 1000.0));
    let last = world.record(task).pushes;
    assert!(last > 250, "{last}");
    world.restart();
    assert!(world.record(task).pushes >= last, "{} < {last}", world.record(task).pushes);
}
