use super::*;
use crate::types::Outcome;
use proptest::prelude::*;

fn rows() -> impl Strategy<Value = Vec<FinishedRound<'static>>> {
    let texts = || "[a-c]{0,2}|größer".prop_map(Cow::<'static, str>::Owned);
    let at = || 0..u64::MAX / 4;
    let row = (
        (at(), 0..5u32, any::<bool>(), 0..RoundOutcome::ALL.len(), any::<Option<i32>>()),
        (texts(), texts(), texts(), texts(), texts(), texts(), texts()),
        (at(), at(), prop::option::of(at()), prop::option::of(at()), at()),
    );
    let row = row.prop_map(|((id, round, is_last, outcome, exit_code), texts, times)| {
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
    });
    prop::collection::vec(row, 0..20)
}

fn written(rows: &[FinishedRound<'_>]) -> BlockWriter {
    let mut writer = BlockWriter::default();
    rows.iter().for_each(|row| writer.push(row));
    writer
}

fn read(bytes: &[u8]) -> Option<Vec<FinishedRound<'_>>> {
    let mut block = Block::new(bytes, FORMAT)?;
    let rows: Vec<Row> = block.by_ref().collect();
    rows.iter().map(|row| block.resolve(row)).collect()
}

/// A row as programs before this format have written it.
#[test]
fn a_block_of_format_1_is_read() {
    let id = TaskId::new(Wall::from_micros(0), [1; 5]);
    let head = [2, 1, b't', 3, b'a', b'-', b'1', IS_LAST, 0];
    let rest = [0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
    let row = [&head[7..], &id.letters(), &rest].concat();
    let bytes = [&head[..7], &row, &row].concat();
    let mut block = Block::new(&bytes, 1).unwrap();
    let rows: Vec<Row> = block.by_ref().collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let row = block.resolve(&row).unwrap();
        assert_eq!((row.task, &*row.tool, &*row.agent, &*row.host), (id, "t", "a-1", ""));
    }
}

proptest! {
    #[test]
    fn rows_come_back_as_they_were(rows in rows()) {
        let writer = written(&rows);
        let bytes = writer.bytes();
        prop_assert_eq!(read(&bytes), Some(rows.clone()));
        let ends = rows.iter().map(|row| row.ended_at);
        let span = ends.clone().min().zip(ends.max()).map(|(first, last)| Span { first, last });
        prop_assert_eq!((writer.count() as usize, writer.span()), (rows.len(), span));
    }

    /// The checksum excludes other bytes; a bug elsewhere must not stop the service.
    #[test]
    fn other_bytes_are_read_without_a_panic(rows in rows(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = written(&rows).bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&bytes);
        let _ = read(&bytes[..at]);
        let _ = read_incidents(&bytes);
    }
}

#[test]
fn a_row_of_a_busy_day_is_small() {
    let row = |n: u64| FinishedRound {
        task: TaskId::new(Wall::from_micros(1_480_000_000_000_000 + n * 90_000), [1, 2, 3, 4, 5]),
        round: Round(0),
        is_last: true,
        outcome: RoundOutcome::Ended(Outcome::Succeeded),
        exit_code: Some(0),
        tool: "convert".into(),
        command: "".into(),
        job: "nightly".into(),
        given_id: "".into(),
        agent: "agent-1".into(),
        host: "".into(),
        submitted_at: Wall::from_micros(1_480_000_000_000_000 + n * 90_000),
        waited: Duration::from_micros(1300),
        started_at: Some(Wall::from_micros(1_480_000_000_002_000 + n * 90_000)),
        ran: Some(Duration::from_millis(61)),
        ended_at: Wall::from_micros(1_480_000_000_070_000 + n * 90_000),
        line: "".into(),
    };
    let rows: Vec<_> = (0..1000).map(row).collect();
    let bytes = written(&rows).bytes();
    assert!(bytes.len() < 36 * rows.len(), "{} bytes", bytes.len());
    assert_eq!(read(&bytes), Some(rows));
}

#[test]
fn incidents_come_back_as_they_were() {
    let incident = |at, kind, text: &str| Incident { at: Wall::from_micros(at), kind, text: text.to_owned() };
    let all: Vec<_> =
        (7..).zip(IncidentKind::ALL).map(|(at, kind)| incident(at, kind, "agent größer is lost")).collect();
    assert_eq!(read_incidents(&incidents(&all)), all);
}
