use std::time::Duration;

use super::*;
use base::{FinishedRound, Incident, IncidentKind, Mono, Now, Outcome, Round, RoundOutcome, TaskId, Wall};

const START: u64 = 1_480_000_000_000_000;

fn at(seconds: u64) -> Now {
    Now { mono: Mono::from_nanos(seconds * 1_000_000_000), wall: Wall::from_micros(START + seconds * 1_000_000) }
}

fn row(ended_at: Wall) -> FinishedRound<'static> {
    FinishedRound {
        task: TaskId::new(ended_at, [1; 5]),
        round: Round(0),
        is_last: true,
        outcome: RoundOutcome::Ended(Outcome::Succeeded),
        exit_code: Some(0),
        tool: "t".into(),
        command: "".into(),
        job: "".into(),
        given_id: "".into(),
        agent: "a".into(),
        host: "".into(),
        submitted_at: ended_at,
        waited: Duration::ZERO,
        started_at: None,
        ran: None,
        ended_at,
        line: "".into(),
    }
}

/// Writes everything that is due; the days and the numbers of rounds and incidents.
fn written(keeper: &mut Keeper, now: Now) -> Vec<(Day, usize, usize)> {
    keeper.handle_timeout(now);
    let mut all = Vec::new();
    while let Some((day, Batch { rounds, incidents })) = keeper.poll_write(now) {
        all.push((day, rounds.len(), incidents.len()));
        keeper.handle_written(now, day);
    }
    all
}

fn log(keeper: &mut Keeper) -> Vec<String> {
    keeper.take_log().into_iter().map(|line| line.text).collect()
}

#[test]
fn rows_wait_two_seconds_for_others_of_their_day() {
    let mut keeper = Keeper::new(30);
    let midnight = Day(Day::of(at(0).wall).0 + 1).begin();
    keeper.handle_round(at(0), row(midnight.before(Duration::from_secs(1))));
    keeper.handle_round(at(1), row(midnight));
    keeper.handle_round(at(1), row(midnight));
    assert_eq!(written(&mut keeper, at(1)), []);
    assert_eq!(keeper.poll_timeout(), Some(at(2).mono));
    let today = Day::of(at(0).wall);
    let both = [(today, 1, 0), (Day(today.0 + 1), 2, 0)];
    assert_eq!(written(&mut keeper, at(2)), both);
    assert!(keeper.is_at_rest() && keeper.poll_timeout().is_none());
}

#[test]
fn a_reader_and_a_full_batch_wait_for_nothing() {
    let mut keeper = Keeper::new(30);
    keeper.handle_round(at(0), row(at(0).wall));
    keeper.handle_flush(at(0));
    assert_eq!(written(&mut keeper, at(0)).len(), 1);
    (0..4096).for_each(|_| keeper.handle_round(at(1), row(at(1).wall)));
    assert_eq!(written(&mut keeper, at(1)), [(Day::of(at(1).wall), 4096, 0)]);
}

#[test]
fn a_row_of_a_day_that_is_not_kept_is_not_written() {
    let mut keeper = Keeper::new(2);
    let first = Day::first_kept(at(0).wall, 2).begin();
    keeper.handle_round(at(0), row(first));
    keeper.handle_round(at(0), row(first.before(Duration::from_micros(1))));
    keeper.handle_flush(at(0));
    assert_eq!(written(&mut keeper, at(0)), [(Day::of(first), 1, 0)]);
}

#[test]
fn a_full_disk_is_tried_again_and_told_once() {
    let mut keeper = Keeper::new(30);
    keeper.handle_round(at(0), row(at(0).wall));
    keeper.handle_timeout(at(2));
    for second in 2..5 {
        assert!(keeper.poll_write(at(second)).is_some());
        keeper.handle_trouble(at(second), "no space");
        assert_eq!((keeper.poll_write(at(second)), keeper.poll_timeout()), (None, Some(at(second + 1).mono)));
    }
    assert_eq!(log(&mut keeper), ["the history cannot be written: no space; it is tried again every second"]);
    let today = Day::of(at(0).wall);
    assert_eq!(written(&mut keeper, at(5)), [(today, 1, 0), (today, 0, 1)]);
    assert_eq!(log(&mut keeper), ["the history is written again; no round is missing"]);
    assert!(!keeper.is_in_trouble());
}

#[test]
fn rows_beyond_the_bound_are_counted() {
    let mut keeper = Keeper::new(30);
    keeper.handle_trouble(at(0), "no space");
    (0..200_003).for_each(|_| keeper.handle_round(at(0), row(at(0).wall)));
    keeper.handle_flush(at(3));
    assert_eq!(written(&mut keeper, at(3))[0].1, 200_000);
    let said = log(&mut keeper);
    assert!(said.last().is_some_and(|line| line.contains("3 rounds are missing until the next start")), "{said:?}");
}

#[test]
fn incidents_of_a_kind_are_bounded_in_a_minute() {
    let mut keeper = Keeper::new(30);
    let incident = |kind| Incident { at: at(0).wall, kind, text: "x".to_owned() };
    (0..25).for_each(|_| keeper.handle_incident(at(0), incident(IncidentKind::Refused)));
    keeper.handle_incident(at(0), incident(IncidentKind::AgentLost));
    let today = Day::of(at(0).wall);
    assert_eq!(written(&mut keeper, at(0)), [(today, 0, 21)]);
    assert_eq!(keeper.poll_timeout(), Some(at(60).mono));
    keeper.handle_timeout(at(60));
    let (_, others) = keeper.poll_write(at(60)).expect("the others");
    assert_eq!((others.incidents.len(), others.incidents[0].text.as_str()), (1, "and 5 more within a minute"));
}

#[test]
fn a_day_has_the_name_that_calendars_give_it() {
    for (day, name) in [
        (0, "1970-01-01"),
        (58, "1970-02-28"),
        (59, "1970-03-01"),
        (11_016, "2000-02-29"),
        (19_782, "2024-02-29"),
        (20_780, "2026-11-23"),
    ] {
        assert_eq!((Day(day).to_string().as_str(), name.parse()), (name, Ok(Day(day))));
    }
    for day in 0..200_000 {
        assert_eq!(Day(day).to_string().parse(), Ok(Day(day)));
    }
    for name in
        ["", "2026-02-29", "2026-1-1", "2026-13-01", "x", "2026-11-23-1", "1969-12-31", "99999999999999999999-01-01"]
    {
        assert!(name.parse::<Day>().is_err(), "{name}");
    }
}
