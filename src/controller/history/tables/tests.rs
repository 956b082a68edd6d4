use proptest::prelude::*;

use super::*;
use base::{IncidentKind, Outcome, RoundOutcome};

fn round() -> impl Strategy<Value = FinishedRound<'static>> {
    let text = || "[a-c']{0,2}|größer".prop_map(Cow::<'static, str>::Owned);
    let at = || 0..u64::MAX / 4;
    let round = (
        (at(), 0..5u32, any::<bool>(), 0..RoundOutcome::ALL.len(), any::<Option<i32>>()),
        (text(), text(), text(), text(), text(), text(), text()),
        (at(), at(), prop::option::of(at()), prop::option::of(at()), at()),
    );
    round.prop_map(|((id, round, is_last, outcome, exit_code), texts, times)| {
        let (tool, command, job, given_id, agent, line, host) = texts;
        let (submitted, waited, started, ran, ended) = times;
        FinishedRound {
            task: TaskId::new(Wall::from_micros(id), [1, 2, 3, 4, round]),
            round: Round(round),
            is_last,
            outcome: RoundOutcome::ALL[outcome],
            exit_code,
            tool,
            command,
            job,
            given_id,
            agent,
            host,
            submitted_at: Wall::from_micros(submitted),
            waited: Duration::from_micros(waited),
            started_at: started.map(Wall::from_micros),
            ran: ran.map(Duration::from_micros),
            ended_at: Wall::from_micros(ended),
            line,
        }
    })
}

fn all(connection: &Connection) -> Vec<FinishedRound<'static>> {
    let mut all = Vec::new();
    rounds(connection, "ORDER BY ended_at, task, round", [], |round| {
        all.push(round);
        Ok(())
    })
    .unwrap();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn rows_come_back_as_they_were(mut rounds in prop::collection::vec(round(), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_to_write(&folder.path().join("day"), false).unwrap();
        prop_assert_eq!(put(&connection, &rounds, &[]).unwrap(), rounds.len());
        prop_assert_eq!(put(&connection, &rounds, &[]).unwrap(), 0, "a round is there once");
        rounds.sort_by_key(|round| (round.ended_at, round.task.to_string(), round.round));
        prop_assert_eq!(all(&connection), rounds);
    }
}

#[test]
fn incidents_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let connection = open_to_write(&folder.path().join("day"), false).unwrap();
    let incident = |(at, kind)| Incident { at: Wall::from_micros(at), kind, text: "agent größer is lost".to_owned() };
    let known: Vec<_> = (7..).zip(IncidentKind::ALL).map(incident).collect();
    for _ in 0..2 {
        put(&connection, &[], &known).unwrap();
    }
    assert_eq!(incidents(&connection, "ORDER BY at", []).unwrap(), known);
}

/// A reader of the manual names these columns.
#[test]
fn the_manual_has_each_column_and_its_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    let connection = open_to_write(&folder.path().join("day"), false).unwrap();
    let ended = FinishedRound {
        task: TaskId::new(Wall::from_micros(1_480_000_000_000_000), [1; 5]),
        round: Round(0),
        is_last: true,
        outcome: RoundOutcome::Ended(Outcome::Failed),
        exit_code: Some(3),
        tool: "convert".into(),
        command: "".into(),
        job: "".into(),
        given_id: "".into(),
        agent: "a".into(),
        host: "".into(),
        submitted_at: Wall::from_micros(1_480_000_000_000_000),
        waited: Duration::from_millis(1),
        started_at: Some(Wall::from_micros(1_480_000_000_001_000)),
        ran: Some(Duration::from_millis(1500)),
        ended_at: Wall::from_micros(1_480_000_001_501_000),
        line: "corrupt header".into(),
    };
    put(&connection, &[ended], &[]).unwrap();
    let manual = include_str!("../../../../docs/operate.md");
    for table in ["rounds", "incidents"] {
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?)").unwrap();
        let columns = columns.query_map([table], |row| row.get::<_, String>(0)).unwrap();
        for column in columns.map(Result::unwrap) {
            assert!(manual.contains(&format!("`{column}`")), "docs/operate.md lacks the column {column} of {table}");
        }
    }
    let (_, example) = manual.split_once("sqlite3 -box ").unwrap().1.split_once('"').unwrap();
    let (sql, _) = example.split_once('"').unwrap();
    let found = connection.query_row(sql, [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, f64>(3)?))
    });
    assert_eq!(found, Ok(("convert".to_owned(), 1, 1, 1.5)), "{sql}");
}
