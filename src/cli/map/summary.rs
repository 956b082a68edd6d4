//! The last lines of `llts map`: what failed, and the commands to look, to repeat and to go on.

use super::super::output::note;
use crate::engine::map::Map;
use crate::engine::map::tally::{Example, Tally};

/// Notes what has become of a map that has ended. `job` is the name under which the service has it, unless that ends with this command.
pub(super) fn show(map: &Map, job: &str, is_hosted: bool) {
    let tally = map.tally();
    for Example { number, end, task } in &tally.examples {
        // A line that is no task was reported at once.
        if let Some((id, work)) = task {
            note(&format!("line {number} failed ({end}): {work}  [{id}]"));
        }
    }
    lines(tally, map, (!is_hosted).then_some(job)).iter().for_each(|line| note(line));
}

fn lines(tally: &Tally, map: &Map, job: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    if tally.before > 0 {
        lines.push(format!("{} had succeeded before and were not run again", tasks(tally.before)));
    }
    if tally.failed > 0 {
        let total = tally.finished() + tally.left;
        let mut line = format!("{} of {total} failed ({}).", tally.failed, tally.failures());
        let has_tasks = tally.examples.iter().any(|example| example.task.is_some());
        if let Some(job) = job.filter(|_| has_tasks) {
            line += &format!(" Look: llts logs --job {job} --failed   Again: llts retry --job {job} --failed  ");
        }
        if let Some(job) = job {
            line += &format!(" Resume: the same command with --job {job}");
        }
        lines.push(line);
    }
    let left = tally.left + tally.skipped;
    let mut rest = Vec::new();
    if left > 0 {
        rest.push(format!("{} were not run", tasks(left)));
    }
    if !map.input_has_ended() {
        rest.push("the rest of the input was not read".to_owned());
    }
    if !rest.is_empty() {
        let why = if map.is_interrupted() { "interrupted" } else { "the job was stopped" };
        let resume = job.map_or_else(String::new, |job| format!("; resume: the same command with --job {job}"));
        lines.push(format!("{why}: {}{resume}", rest.join(", and ")));
    }
    lines
}

fn tasks(count: u64) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") }
}
