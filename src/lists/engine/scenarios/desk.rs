//! Files of `new/`, and when they form a list.

use super::*;

/// Three tasks are a full list here.
#[test]
fn a_list_is_full_by_count_by_seconds_and_by_age() {
    let mut story = Story::new();
    story.joins(1, "w", &[]);
    (1..=2).for_each(|number| story.adds(&task(number, 0)));
    assert_eq!(story.claims(1), None);
    story.adds(&task(3, 0));
    assert_eq!(story.gets(1).unwrap().1, [1, 2, 3]);

    for (number, seconds) in [(4, 400), (5, 200), (6, 1)] {
        story.adds(&task(number, seconds));
    }
    assert_eq!(story.claims(1).unwrap().1, [4, 5], "before the task that would exceed 600 s");
    assert_eq!(story.claims(1), None);
    story.passes(SECOND / 10);
    story.adds(&task(7, 0));
    story.passes(SECOND / 10);
    assert_eq!(story.gets(1).unwrap().1, [6, 7], "its oldest task is 200 ms old");

    story.adds(&task(8, 10_000));
    assert_eq!(story.claims(1).unwrap().1, [8], "a task beyond the limit has a list of its own");
    story.adds(&task(9, 1));
    story.does(Server::handle_group);
    assert_eq!(story.claims(1).unwrap().1, [9], "close");
}

#[test]
fn lists_and_tasks_go_by_number_and_names_that_collide_get_the_next_second() {
    let mut story = Story::with(Settings { list_tasks_max: 1, ..settings() });
    let at = |number, created| Task { created, ..task(number, 0) };
    for (number, created) in [(4, 1_000_000_000), (3, 999_999_999), (2, 999_999_999), (1, 999_999_998)] {
        story.adds(&at(number, created));
    }
    story.joins(1, "w", &[]);
    let lists: Vec<(u64, Vec<u64>)> =
        (0..4).map(|_| story.claims(1).map(|(name, tasks)| (name.second, tasks)).unwrap()).collect();
    assert_eq!(
        lists,
        [(999_999_998, vec![1]), (999_999_999, vec![3]), (1_000_000_000, vec![4]), (1_000_000_001, vec![2]),]
    );
}

#[test]
fn a_file_counts_when_it_is_whole_and_is_invalid_only_after_a_rest() {
    let mut story = Story::new();
    let name = "1_0.task";
    let text = task(1, 0).write();
    let see = |story: &mut Story, text: &str, rest: Duration, is_open| {
        let seen = Sighting { rest, is_open, ..sighting(text) };
        story.does(|server, now| server.handle_seen(now, name, Some(seen)));
        story.server.is_known(name)
    };
    let half = &text[..text.len() / 2];
    assert!(!see(&mut story, half, Duration::ZERO, false));
    story.passes(SECOND);
    assert_eq!(std::mem::take(&mut story.looks), [name], "it is looked at again");
    assert!(!see(&mut story, half, SECOND, true), "its writer has it open");
    assert!(story.server.take_facts().unwrap().invalid.is_empty());
    assert!(!see(&mut story, half, SECOND, false));
    let invalid = story.server.take_facts().unwrap().invalid;
    assert!(invalid[name].contains("lines"), "{invalid:?}");
    assert_eq!(story.server.take_log().iter().filter(|line| line.text.contains("not a task")).count(), 1);
    assert!(!see(&mut story, half, SECOND, false));
    assert!(story.server.take_log().is_empty(), "it is logged once");
    assert!(!see(&mut story, text.trim_end(), Duration::ZERO, false), "the last line may go on");
    assert!(see(&mut story, text.trim_end(), SECOND, false));
    assert!(story.server.take_facts().unwrap().invalid.is_empty(), "it has become a task");
    story.does(|server, now| server.handle_seen(now, name, None));
    assert!(!story.server.is_known(name), "it was removed");
}

#[test]
fn what_is_not_a_new_task_is_left_where_it_is() {
    let mut story = Story::new();
    let good = task(1, 0).write();
    let ran = format!("{good}w\n1\n2\n");
    let rested = |text: &str| Sighting { rest: SECOND, ..sighting(text) };
    for (name, sighting, why) in [
        ("x.task", rested(&good), "its name is not ID.task"),
        ("1_0", rested(&good), "its name is not ID.task"),
        ("1_1.task", rested(&good), "line 1"),
        ("1_0.task", rested(&ran), "it has run already"),
        ("1_0.task", Sighting { is_taken: true, ..rested(&good) }, "another task has its id"),
        ("2_0.task", Sighting { text: Err("it is not UTF-8".into()), ..rested("") }, "not UTF-8"),
        ("3_0.task", Sighting { is_file: false, ..sighting("") }, "not a regular file"),
        ("folder", Sighting { is_file: false, is_open: true, ..sighting("") }, "not a regular file"),
    ] {
        story.does(|server, now| server.handle_seen(now, name, Some(sighting)));
        let invalid = story.server.take_facts().unwrap().invalid;
        assert!(invalid[name].contains(why), "{name}: {invalid:?}");
        story.does(|server, now| server.handle_seen(now, name, None));
        assert!(story.server.take_facts().unwrap().invalid.is_empty());
    }
    story.adds(&task(1, 0));
    story.does(Server::handle_group);
    story.does(|server, now| server.handle_seen(now, "1_0.task", Some(rested(&good))));
    assert!(story.server.take_facts().unwrap().invalid["1_0.task"].contains("another task"), "it is in a list");
}

#[test]
fn a_full_disk_leaves_tasks_where_they_are_and_is_tried_again() {
    let mut story = Story::new();
    story.joins(1, "w", &[]);
    story.says(Connection(1), FromWorker::Claim {});
    story.is_disk_full = true;
    (1..=3).for_each(|number| story.adds(&task(number, 0)));
    story.passes(SECOND);
    assert_eq!(story.gets(1), None);
    assert_eq!(story.server.take_log().iter().filter(|line| line.text.contains("disk full")).count(), 1, "once");
    story.is_disk_full = false;
    story.passes(SECOND);
    assert_eq!(story.gets(1).unwrap().1, [1, 2, 3]);
}
