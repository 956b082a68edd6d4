//! Not a test: the time of a question about a month.

use super::super::tables;
use super::*;
use proc::clock;

const ROUNDS: u64 = 10_000_000;

/// The rounds of a day, with ends in order.
const FILL: &str = "
    INSERT INTO rounds
    WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1 - 1)
    SELECT ?2 + n * (86400000000 / ?1), printf('TASK_%d.%06d_abcde', ?2 / 1000000 + n, n % 1000000), 0, 1,
        CASE WHEN random() % 50 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, 0,
        CASE abs(random()) % 4 WHEN 0 THEN 'convert' WHEN 1 THEN 'fetch' WHEN 2 THEN 'report' ELSE 'thumbnail' END,
        '', 'nightly', '', 'agent-' || abs(random()) % 8, '', ?2 + n * (86400000000 / ?1) - 3000000,
        abs(random()) % 5000, ?2 + n * (86400000000 / ?1) - 2900000, abs(random()) % 3000000, ''
    FROM numbers
";

/// `cargo test --lib -- --ignored --nocapture a_month_of_ten_million_rounds`, which takes 1.3 GB in the folder for temporary files.
#[test]
#[ignore = "takes a minute and more than a gigabyte"]
fn a_month_of_ten_million_rounds() {
    let world = World::new();
    let folder = Folder::of(world.folder.path());
    std::fs::create_dir_all(world.folder.path().join("history")).unwrap();
    let begin = clock::now().mono;
    for day in 0..30 {
        let day = Day(Day::of(at(DAY).wall).0 + day);
        let connection = tables::open_to_write(&folder.path_of(day), false).unwrap();
        connection.execute(FILL, [(ROUNDS / 30).cast_signed(), day.begin().micros().cast_signed()]).unwrap();
    }
    let sizes = std::fs::read_dir(world.folder.path().join("history")).unwrap();
    let bytes: u64 = sizes.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    println!("{ROUNDS} rounds are written in {:?}: {} bytes for each", clock::now().mono.since(begin), bytes / ROUNDS);
    let by = vec![GroupKey::Day, GroupKey::Tool];
    let page = Page { offset: 0, limit: Some(20) };
    for (name, what) in [
        ("by day and tool", What::Summary { by, clock_ahead: 0, page: PAGE }),
        ("the newest", What::Rounds { sort: SortKey::Ended, is_reversed: false, page }),
        ("the longest", What::Rounds { sort: SortKey::Ran, is_reversed: false, page }),
    ] {
        let begin = clock::now().mono;
        let answer = world.ask(all(), what);
        println!("{name}: {:?} for {} rows", clock::now().mono.since(begin), answer.page.total);
    }
}
