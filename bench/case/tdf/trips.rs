//! Round trips of a task, as MONITOR shows them: commands of one connection that leave together are one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use crate::namespace::Ground;
use crate::row::{Measured, Unit};
use crate::{Bench, BenchError};

/// What a worker needs, and the whole life of a task.
const WORKER_MAX: f64 = 2.0;
const LIFE_MAX: f64 = 5.0;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Measured>, BenchError> {
    let tasks = bench.pick(500, 10);
    let mut ground = Ground::start(bench)?;
    let (mut namespace, mut redis) = (ground.namespace()?, ground.connect()?);
    let failed = || BenchError::io("read what MONITOR shows");
    let mut monitor = TcpStream::connect((Ipv4Addr::LOCALHOST, ground.port())).map_err(failed())?;
    monitor.write_all(b"MONITOR\r\n").map_err(failed())?;
    let mut lines = BufReader::new(monitor).lines();
    lines.next().transpose().map_err(failed())?;
    // Each by itself, and before the components start, as those of the original whose round trips were counted.
    for _ in 0..tasks {
        ground.open(&mut namespace, 1)?;
    }
    ground.staff(1)?;
    ground.component(&["manage", "manager.cfg"])?;
    ground.until(&mut redis, "archived", tasks, bench)?;
    let () = redis::cmd("ECHO").arg("the end").query(&mut redis)?;
    let mut shown = Vec::new();
    for line in lines {
        let line = line.map_err(failed())?;
        if line.contains("\"ECHO\" \"the end\"") {
            break;
        }
        shown.push(line);
    }
    let (worker, life) = count(&shown);
    #[expect(clippy::cast_precision_loss, reason = "no case counts to 2^53")]
    let per_task = |count: usize| count as f64 / tasks as f64;
    let row = |what: &str, count: usize| Measured::new(what, Unit::Ratio, &[per_task(count)]);
    let within = |row: Measured, most: f64| row.goal(format!("at most {most}"), |row| row.spread.median <= most);
    Ok(vec![
        within(row("round trips of a task, worker", worker), WORKER_MAX),
        within(row("round trips of a task, whole life with open and archive", life), LIFE_MAX),
    ])
}

/// What moves a task, and is therefore counted. The others hold leases, look, or tidy: their number does not grow with the tasks.
const MOVES: [&str; 6] = ["open", CLAIM, REPORT, "apply", TAKE, "archive"];
const CLAIM: &str = "claim";
const REPORT: &str = "report";
const TAKE: &str = "take";

/// Round trips of the worker, and of all. The first claim of a worker belongs to no task: each later one leaves with a report.
fn count(shown: &[String]) -> (usize, usize) {
    let names: BTreeMap<String, &str> =
        tdf::shell::scripts().map(|(name, text)| (redis::Script::new(text).get_hash().to_owned(), name)).collect();
    // By connection: whether its last command was a report, behind which a claim leaves with it.
    let mut reported: BTreeMap<&str, bool> = BTreeMap::new();
    let (mut worker, mut all) = (0, 0);
    for line in shown {
        // TIME [DB ADDRESS] "COMMAND" "DIGEST" …; what a script calls has `lua` for an address.
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        // A script that Redis does not know yet is sent once more, as its text.
        let [_, _, address, "\"EVALSHA\"", digest, ..] = words[..] else { continue };
        let Some(name) = names.get(digest.trim_matches('"')).filter(|name| MOVES.contains(name)) else { continue };
        // The look of a manager's round.
        if *name == TAKE && line.contains(" \"from\" ") {
            continue;
        }
        if *name == CLAIM && reported.insert(address, false) != Some(false) {
            continue;
        }
        if *name == REPORT {
            reported.insert(address, true);
        }
        all += 1;
        worker += usize::from(*name == CLAIM || *name == REPORT);
    }
    (worker, all)
}
