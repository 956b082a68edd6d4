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

/// Round trips of the worker, and of all, without those that poll.
fn count(shown: &[String]) -> (usize, usize) {
    // By connection: whether its last command was a report, behind which a claim leaves with it.
    let mut reported: BTreeMap<&str, bool> = BTreeMap::new();
    let (mut worker, mut all) = (0, 0);
    for line in shown {
        // TIME [DB ADDRESS] "COMMAND" "DIGEST" "1" "PREFIX" …; what a script calls has `lua` for an address.
        let mut words = line.split(' ');
        let (Some(address), Some(command)) = (words.nth(2), words.next()) else { continue };
        // A script that Redis does not know yet is sent once more, as its text.
        if address == "lua]" || command != "\"EVALSHA\"" {
            continue;
        }
        let arguments: Vec<&str> = words.skip(3).collect();
        let kind = Kind::of(&arguments);
        let is_together = kind == Kind::Claim && reported.insert(address, false) == Some(true);
        if kind == Kind::Report {
            reported.insert(address, true);
        }
        if is_together || kind == Kind::Poll {
            continue;
        }
        all += 1;
        worker += usize::from(matches!(kind, Kind::Claim | Kind::Report));
    }
    (worker, all)
}

#[derive(PartialEq)]
enum Kind {
    Claim,
    Report,
    /// Leases, and looks at what may be there.
    Poll,
    Other,
}

impl Kind {
    fn of(arguments: &[&str]) -> Self {
        let text = |at: usize| arguments.get(at).map_or("", |word| word.trim_matches('"'));
        let is_token = text(1).len() > 17 && text(1).as_bytes()[16] == b'-';
        match text(0) {
            "w1" if is_token => Self::Claim,
            // A renewal.
            "w1" => Self::Poll,
            _ if text(2) == "w1" => Self::Report,
            // What mends and tidies once a minute, and the look of a manager's round.
            _ if arguments.len() == 2 || text(2) == "1000" || text(5) == "from" => Self::Poll,
            // A page of a server's round: ids with their scores, whose number no other script reaches.
            _ if arguments.len() > 100 => Self::Poll,
            // The lease of the server, and the pages and facts of a round.
            // A server tells its name, its process and a number: words with blanks between them.
            _ if arguments.contains(&"\"10000\"")
                || ["open", "running", "executed", "timeout", "failure"].contains(&text(0)) =>
            {
                Self::Poll
            }
            _ => Self::Other,
        }
    }
}
