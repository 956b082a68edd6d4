//! Lists from their claim to their end, and the workers that have them.

use super::*;
use api::config::Config;

/// A server with a list of three tasks that worker `w` has on connection 1.
fn running(expected: u64) -> (Story, RunningName) {
    let mut story = Story::new();
    story.joins(1, "w", &[]);
    (1..=3).for_each(|number| story.adds(&task(number, expected)));
    let (list, _) = story.claims(1).unwrap();
    assert_eq!(list.to_string(), format!("{BEGIN}_w_{BEGIN}"));
    (story, list)
}

/// new -> open -> running -> closed.
#[test]
fn a_list_closes_when_the_last_result_is_stored_and_not_before() {
    let (mut story, list) = running(0);
    story.reports(1, &list, 1, &[1, 2]);
    story.reports(1, &list, 2, &[3]);
    assert_eq!(story.stores().number, 1);
    assert_eq!(story.hears(Connection(1)), Some(FromServer::Ack { number: 1 }));
    assert_eq!(story.moves.len(), 1, "one result is not stored");
    assert_eq!(story.stores().number, 2);
    assert_eq!(story.closes(), list);
    assert_eq!(story.hears(Connection(1)), Some(FromServer::Ack { number: 2 }));
    story.passes(1000 * SECOND);
    assert!(story.moves.is_empty());
}

/// running -> open: the document's timeout.
#[test]
fn a_list_is_opened_again_when_its_worker_is_away_and_its_time_has_passed() {
    let (mut story, list) = running(20);
    story.reports(1, &list, 1, &[2]);
    story.stores();
    story.does(|server, now| server.handle_closed(now, Connection(1)));
    story.passes(69 * SECOND);
    assert!(story.moves.is_empty(), "60 s are expected, and 10 s are grace");
    story.passes(SECOND);
    assert_eq!(story.reopens(), [2], "an ended task stays ended");
    story.joins(2, "v", &[]);
    let (again, tasks) = story.claims(2).unwrap();
    assert_eq!((again.worker.as_str(), tasks), ("v", vec![1, 3]));
}

#[test]
fn a_list_without_expectations_waits_for_its_worker_for_the_grace_only() {
    let (mut story, _) = running(0);
    for _ in 0..50 {
        story.passes(5 * SECOND);
        story.says(Connection(1), FromWorker::Beat {});
    }
    assert!(story.moves.is_empty(), "a worker that is alive is not cut, however long it takes");
    story.passes(10 * SECOND);
    assert_eq!(story.hung_up, BTreeSet::from([Connection(1)]), "it has been silent");
    story.passes(10 * SECOND);
    assert_eq!(story.reopens(), [0; 0]);
}

#[test]
fn a_worker_that_comes_back_goes_on_and_repeats_nothing() {
    let (mut story, list) = running(0);
    story.reports(1, &list, 1, &[1]);
    story.does(|server, now| server.handle_closed(now, Connection(1)));
    story.stores();
    story.passes(9 * SECOND);
    assert!(matches!(story.joins(2, "w", &[&list]), Some(FromServer::Welcome { void, .. }) if void.is_empty()));
    story.passes(9 * SECOND);
    assert!(story.moves.is_empty(), "it is the worker's");
    story.reports(2, &list, 1, &[1, 2]);
    let Some(Effect::Store(_, _, ended)) = story.moves.front() else { panic!("{:?}", story.moves) };
    assert_eq!(ended.len(), 1, "the first result is stored already");
    story.stores();
    story.reports(2, &list, 2, &[2, 1]);
    assert_eq!(story.hears(Connection(2)), Some(FromServer::Ack { number: 1 }));
    assert_eq!(story.hears(Connection(2)), Some(FromServer::Ack { number: 2 }), "at once: both are stored");
    story.reports(2, &list, 3, &[3]);
    story.stores();
    assert_eq!(story.closes(), list);
}

#[test]
fn a_new_process_of_a_worker_does_not_have_the_list_of_the_old_one() {
    let (mut story, list) = running(200);
    assert!(
        matches!(story.joins(2, "w", &[]), Some(FromServer::Refused { is_passing: true, .. })),
        "the old one is still connected"
    );
    story.does(|server, now| server.handle_closed(now, Connection(1)));
    story.joins(3, "w", &[]);
    assert_eq!(story.reopens(), [0; 0], "at once");
    let (again, tasks) = story.claims(3).unwrap();
    assert_eq!((again.second, tasks), (list.second, vec![1, 2, 3]));
}

#[test]
fn a_late_result_is_refused_and_counted() {
    let (mut story, list) = running(0);
    story.does(|server, now| server.handle_closed(now, Connection(1)));
    story.passes(10 * SECOND);
    story.reopens();
    let void = vec![Name(list.clone())];
    assert!(matches!(story.joins(2, "w", &[&list]), Some(FromServer::Welcome { void: theirs, .. }) if theirs == void));
    story.server.take_facts();
    story.reports(2, &list, 1, &[1, 2]);
    assert_eq!(story.hears(Connection(2)), Some(FromServer::Void { list: Name(list) }));
    assert_eq!(story.server.take_facts().unwrap().late, 2);
    assert!(story.moves.is_empty());
}

#[test]
fn a_worker_that_leaves_gives_the_rest_back_after_its_results_are_stored() {
    let (mut story, list) = running(200);
    story.reports(1, &list, 1, &[1]);
    story.says(Connection(1), FromWorker::Leave {});
    assert_eq!(story.moves.len(), 1, "the result comes first");
    story.stores();
    assert_eq!(story.reopens(), [1]);
    assert!(story.hung_up.contains(&Connection(1)));
}

#[test]
fn what_cannot_be_stored_or_moved_stays_and_is_tried_again() {
    let (mut story, list) = running(0);
    story.reports(1, &list, 1, &[1, 2, 3]);
    let Some(Effect::Store(_, receipt, ended)) = story.moves.pop_front() else { panic!("{:?}", story.moves) };
    story.does(|server, now| server.handle_stored(now, &list, receipt, Err(("disk full".into(), ended))));
    assert_eq!((story.hears(Connection(1)), story.moves.len()), (None, 0), "no promise");
    story.passes(SECOND);
    story.stores();
    assert_eq!(story.hears(Connection(1)), Some(FromServer::Ack { number: 1 }));
    let Some(Effect::Close(..)) = story.moves.pop_front() else { panic!("{:?}", story.moves) };
    story.does(|server, now| server.handle_closed_list(now, &list, Err("disk full".into())));
    story.passes(SECOND);
    assert_eq!(story.closes(), list);
}

#[test]
fn a_server_that_starts_finds_its_lists() {
    let mut story = Story::new();
    let lost: RunningName = format!("{}_w_{}", BEGIN - 100, BEGIN - 50).parse().unwrap();
    let waiting: Tasks = [(id(1), task(1, 20)), (id(2), task(2, 40))].into();
    let ended: RunningName = format!("{}_v_{}", BEGIN - 90, BEGIN - 40).parse().unwrap();
    story.does(|server, now| {
        server.handle_running(now, &lost, waiting, BTreeSet::from([id(3)]));
        server.handle_running(now, &ended, Tasks::new(), BTreeSet::from([id(4)]));
        server.handle_open(now, 7, [(id(5), task(5, 0))].into());
    });
    assert_eq!(story.closes(), ended, "all of it had ended");
    story.joins(1, "v", &[]);
    assert_eq!(story.claims(1).unwrap().1, [5]);
    for _ in 0..19 {
        story.passes(SECOND);
        story.says(Connection(1), FromWorker::Beat {});
    }
    assert!(story.moves.is_empty(), "10 of its 60 s are left, and its worker gets 10 s to come back");
    story.passes(SECOND);
    assert_eq!(story.reopens(), [3]);
    assert_eq!(story.claims(1).unwrap().1, [1, 2]);
}

#[test]
fn strangers_are_told_once_and_wrong_secrets_after_a_pause() {
    let config = Config::from_parts(None, [("LLTS_LISTS_SECRET".to_owned(), "open sesame".to_owned())]).unwrap();
    let mut story = Story::with(Settings { secret: config.lists.server.secret, workers_max: 3, ..settings() });
    assert_eq!(story.joins(1, "w", &[]), None);
    story.says(Connection(1), FromWorker::Claim {});
    story.passes(SECOND);
    assert!(
        matches!(story.hears(Connection(1)), Some(FromServer::Refused { reason, .. }) if reason.contains("SECRET"))
    );
    assert_eq!(story.hung_up, BTreeSet::from([Connection(1)]));
    story.does(|server, now| server.handle_connected(now, Connection(2)));
    story.says(Connection(2), FromWorker::Claim {});
    assert!(matches!(story.hears(Connection(2)), Some(FromServer::Refused { reason, .. }) if reason.contains("HELLO")));
    story.does(|server, now| server.handle_connected(now, Connection(3)));
    let secret = Some("open sesame".to_owned());
    story.says(Connection(3), FromWorker::Hello { worker: "a/b".into(), secret, lists: vec![] });
    assert!(matches!(story.hears(Connection(3)), Some(FromServer::Refused { reason, .. }) if reason.contains("a/b")));
    story.does(|server, now| server.handle_connected(now, Connection(4)));
    assert!(
        matches!(story.hears(Connection(4)), Some(FromServer::Refused { reason, .. }) if reason.contains("WORKERS_MAX"))
    );
}

#[test]
fn another_user_of_the_machine_is_refused_with_the_reason() {
    let mut story = Story::new();
    story.does(|server, now| server.handle_connected(now, Connection(1)));
    story.does(|server, _| server.handle_stranger(Connection(1), "it belongs to user 7".into()));
    story.says(Connection(1), FromWorker::Hello { worker: "w".into(), secret: None, lists: vec![] });
    let said = story.hears(Connection(1));
    assert!(matches!(&said, Some(FromServer::Refused { reason, .. }) if reason.contains("user 7")), "{said:?}");
    assert_eq!(story.hung_up, BTreeSet::from([Connection(1)]));
    assert!(matches!(story.joins(2, "w", &[]), Some(FromServer::Welcome { .. })), "its name is free");
}

/// The folder has left running/, so that its name is free, and the server has not heard of it.
#[test]
fn a_list_never_has_the_name_of_one_whose_end_is_not_reported() {
    let mut story = Story::with(Settings { list_tasks_max: 1, ..settings() });
    story.joins(1, "w", &[]);
    story.adds(&task(1, 0));
    let (first, _) = story.claims(1).unwrap();
    story.reports(1, &first, 1, &[1]);
    story.stores();
    story.hears(Connection(1));
    story.adds(&task(2, 0));
    let (second, _) = story.claims(1).unwrap();
    assert!(first.second == second.second && first != second, "{second}");
    assert_eq!(story.closes(), first);
    story.reports(1, &second, 2, &[2]);
    story.stores();
    assert_eq!(story.closes(), second);
}
