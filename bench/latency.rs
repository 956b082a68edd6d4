//! One task after the other on an idle service, and the same run.sh without one: the times of their events.

use std::fs;
use std::path::Path;

use super::load::{Heard, Load, task};
use super::place::STAMP;
use super::service::Service;
use super::{Bench, BenchError, floor};
use api::wire::requests::submit::Submission;
use base::{Phase, Wall, words};
use proc::signals::Signals;

/// Times of one task, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// From the moment before the submit, or before the spawn, to the first instruction.
    pub(crate) start: f64,
    /// From the last instruction until ENDED has arrived, or the end of the process is known.
    pub(crate) ended: f64,
    /// From the last instruction until FINISHED has arrived; for the lower bound, as `ended`.
    pub(crate) finished: f64,
}

/// One round: the lower bound and the service in turn, task by task.
pub(crate) struct Round {
    pub(crate) floor: Vec<Times>,
    pub(crate) service: Vec<Times>,
}

/// Measures rounds of `tasks` tasks each.
pub(crate) fn measure(bench: &mut Bench<'_>, service: &Service, tasks: usize) -> Result<Vec<Round>, BenchError> {
    floor::require("/bin/bash", bench.signals)?;
    let folder = bench.place.tool(STAMP)?;
    let mut load = service.load(bench.signals)?;
    let submission = Submission { address: Some(load.address().to_owned()), ..Submission::new(STAMP.0) };
    let request = submission.request().encode();
    let mut round = |tasks| {
        let mut round = Round { floor: Vec::new(), service: Vec::new() };
        for _ in 0..tasks {
            round.floor.push(of_the_floor(&folder, bench.signals)?);
            round.service.push(of_a_task(&mut load, &request, bench.signals)?);
        }
        Ok(round)
    };
    // The first task of a tool unpacks it.
    round(1)?;
    (0..bench.plan.rounds).map(|_| round(tasks)).collect()
}

fn of_the_floor(folder: &Path, signals: &mut Signals) -> Result<Times, BenchError> {
    let (before, after) = floor::run(folder, signals)?;
    let report = fs::read_to_string(folder.join("report.log")).map_err(BenchError::io("read report.log"))?;
    times(&report, before.wall, after.wall, after.wall)
}

fn of_a_task(load: &mut Load, request: &[u8], signals: &mut Signals) -> Result<Times, BenchError> {
    let before = load.send_now(request)?;
    let mut ended = None;
    loop {
        let (now, Heard::Push(body)) = load.next(signals)? else { continue };
        let task = task(&body)?;
        if task.status() == words::phase(Phase::Ended) {
            ended = Some(now.wall);
        }
        if task.is_finished() {
            // An end that is pushed together with the whole result is no later than FINISHED.
            return times(task.report(), before.wall, ended.unwrap_or(now.wall), now.wall);
        }
    }
}

fn times(report: &str, before: Wall, ended: Wall, finished: Wall) -> Result<Times, BenchError> {
    let mut stamps = report.lines().map(stamp);
    let (Some(Some(first)), Some(Some(last))) = (stamps.next(), stamps.next()) else {
        return Err(BenchError::Missing(format!("/bin/bash has no $EPOCHREALTIME, as 5.0 and later have: {report:?}")));
    };
    let seconds = |from: Wall, to: Wall| to.since(from).as_secs_f64();
    Ok(Times { start: seconds(before, first), ended: seconds(last, ended), finished: seconds(last, finished) })
}

/// Some languages write the decimal point as a comma.
fn stamp(line: &str) -> Option<Wall> {
    let (seconds, micros) = line.split_once(['.', ','])?;
    Some(Wall::from_micros(seconds.parse::<u64>().ok()?.checked_mul(1_000_000)? + micros.parse::<u64>().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_any_language_are_read() {
        let expected = Some(Wall::from_micros(1_480_000_000_120_000));
        assert_eq!(["1480000000.120000", "1480000000,120000"].map(stamp), [expected; 2]);
        assert_eq!([stamp(""), stamp("x.y"), stamp("7")], [None; 3]);
    }

    #[test]
    fn a_report_without_stamps_is_said() {
        let at = Wall::from_micros(5_000_000);
        assert!(matches!(times("\n\n", at, at, at), Err(BenchError::Missing(_))));
        let found =
            times("5.000100\n5.000200\n", at, Wall::from_micros(5_000_500), Wall::from_micros(5_001_200)).unwrap();
        let micros = [found.start, found.ended, found.finished].map(|seconds| (seconds * 1e6).round());
        assert_eq!(micros, [100.0, 300.0, 1000.0]);
    }
}
