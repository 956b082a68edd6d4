//! `llts jobs` and `llts job`: tasks with a common name, treated as one. Also the orders of other commands about a whole job.

use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use super::change;
use super::failures::{self, Failures, Group};
use super::waiting::{Wait, left};
use api::wire::client::{Listing, Selector, TaskView};
use api::wire::requests::job::{JobAnswer, JobOrder, jobs, order, query};
use api::wire::requests::list::{tasks, tasks_before};
use base::{Mono, Outcome, Phase, Wall, counted, words};
use llts_client::{Client, ClientError};
use proc::clock;
use term::exit::Failure;
use term::output::{note, to_value};
use term::session::Session;
use term::style::{BAD, PLAIN};
use term::table::{Column, Give, Omit, Table};
use term::{exit, times};

/// How many failed tasks of each outcome are examined; this many take some seconds.
const LOOKED_AT: u64 = 100_000;

/// Jobs per page of `llts jobs`.
const JOBS: u64 = 50;

/// Tasks per request.
const PAGE: u64 = 1000;

#[derive(Args, Debug)]
pub(super) struct JobsArgs {
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = JOBS)]
    limit: u64,
    /// Number of jobs to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Shows its progress, the run times of its tasks, and its failures, grouped by exit code and last line of stderr, in which numbers, \
paths and quoted parts may differ. \
`llts list --job NAME` lists its tasks; `wait`, `kill`, `retry`, `pause` and `resume` take --job NAME, too.")]
pub(super) struct JobArgs {
    /// Name of the job; without one, all jobs are listed, as by `llts jobs`
    #[arg(id = "job", value_name = "NAME")]
    name: Option<String>,
}

/// `llts jobs`: all jobs, newest first.
pub(super) fn list(session: &mut Session, args: &JobsArgs) -> Result<u8, Failure> {
    let Listing { total, rows } = session.client()?.ask(&jobs(args.offset, args.limit))?;
    if session.out.is_json() {
        let jobs: Vec<Value> = rows.iter().map(|job| to_value(job.fields())).collect();
        session.out.value(&json!({ "total": total, "jobs": jobs }));
        return Ok(0);
    }
    let now = clock::now().wall;
    let jobs: Vec<_> = rows.iter().collect();
    session.out.table(&table_of(&jobs, now, session.out.look().is_terminal));
    session.out.next_page("jobs", args.offset, rows.len(), total);
    Ok(0)
}

/// The table of jobs. For a program, it has counts only, always in the same columns.
pub(super) fn table_of(jobs: &[&JobAnswer], now: Wall, is_terminal: bool) -> Table {
    let number = |name| Column::new(name).number();
    let mut columns = vec![Column::new("JOB").gives(Give::Middle(8)), number("TASKS"), number("WAITING").rank(2)];
    columns.extend([
        number("RUNNING").rank(1),
        number("FINISHED").rank(5),
        number("SUCCEEDED").rank(6),
        number("FAILED"),
        number("KILLED").omitted_if(Omit::Zero),
    ]);
    columns.push(Column::new("SUBMITTED").rank(7));
    if is_terminal {
        columns.splice(2..2, [number("DONE")]);
        columns.extend([number("RATE").omitted_if(Omit::Empty), number("LEFT").omitted_if(Omit::Empty)]);
        columns.push(number("P50").rank(4).omitted_if(Omit::Empty));
    }
    let mut table = Table::of(columns);
    for job in jobs {
        let (total, done) = (job.total(), job.in_phase(Phase::Finished));
        let (failed, killed) = (job.failed(), job.with_outcome(Outcome::Killed));
        let submitted = job.submitted_at().map(times::local).unwrap_or_default();
        let counts = [job.in_phase(Phase::Waiting), with_agents(job), done, job.with_outcome(Outcome::Succeeded)];
        let plain = |text: String| (PLAIN, text);
        let mut cells = vec![plain(job.name().to_owned()), plain(total.to_string())];
        if is_terminal {
            cells.push(plain(format!("{} %", (done * 100).checked_div(total).unwrap_or_default())));
        }
        cells.extend(counts.map(|count| plain(count.to_string())));
        cells.push((if failed > 0 { BAD } else { PLAIN }, failed.to_string()));
        cells.push(plain(killed.to_string()));
        cells.push(plain(submitted));
        if is_terminal {
            let pace = Pace::of(job, now);
            let is_open = job.ended_at().is_none();
            let rate = pace.rate.filter(|_| is_open).map(|rate| format!("{rate:.1}/s"));
            cells.push(plain(rate.unwrap_or_default()));
            cells.push(plain(pace.left.map(times::short).unwrap_or_default()));
            cells.push(plain(job.run_p50().map(seconds_of).map(times::short).unwrap_or_default()));
        }
        table.styled_row(cells);
    }
    table
}

/// `llts job NAME`.
pub(super) fn run(session: &mut Session, args: &JobArgs) -> Result<u8, Failure> {
    let Some(name) = &args.name else { return list(session, &JobsArgs { limit: JOBS, offset: 0 }) };
    let client = session.client()?;
    let job = client.ask(&query(name, None))?;
    let pace = Pace::of(&job, clock::now().wall);
    let (failures, are_all) = failures_of(&client, &job)?;
    if !are_all {
        note(&format!("the counts of failures are those of the newest {LOOKED_AT} tasks of each outcome"));
    }
    if session.out.is_json() {
        let mut value = to_value(job.fields());
        if let Value::Object(members) = &mut value {
            members.extend(pace.members());
            members.insert("failures".to_owned(), failures.iter().map(Group::value).collect());
        }
        session.out.value(&value);
        return Ok(0);
    }
    session.out.table(&facts(&job, &pace));
    if !failures.is_empty() {
        session.out.line("");
        let is_terminal = session.out.look().is_terminal;
        session.out.table(&failures::table(&failures, is_terminal));
    }
    Ok(0)
}

fn facts(job: &JobAnswer, pace: &Pace) -> Table {
    let mut table = Table::pairs();
    let (done, total) = (job.in_phase(Phase::Finished), job.total());
    let percent = (done * 100).checked_div(total).unwrap_or_default();
    table.row(["job", job.name()]);
    table.row(["progress", &format!("{done} of {total} tasks have finished ({percent} %)")]);
    let counts = Phase::ALL.into_iter().map(|phase| (words::phase(phase), job.in_phase(phase)));
    let counts =
        counts.chain(Outcome::ALL.into_iter().map(|outcome| (words::outcome(outcome), job.with_outcome(outcome))));
    let counts = counts.filter(|(word, count)| *count > 0 && *word != words::phase(Phase::Finished));
    let counts: Vec<_> = counts.map(|(word, count)| format!("{} {count}", word.to_lowercase())).collect();
    table.row(["tasks", &counts.join(", ")]);
    if let Some(at) = job.submitted_at() {
        table.row(["submitted", &times::local(at)]);
    }
    if let Some(at) = job.ended_at() {
        table.row(["ended", &times::local(at)]);
    }
    if let Some(rate) = pace.rate {
        table.row(["rate", &format!("{rate:.1} tasks/s")]);
    }
    if let Some(left) = pace.left {
        table.row(["left", &format!("about {}", times::duration(left))]);
    }
    if let (Some(p50), Some(p90), Some(max)) = (job.run_p50(), job.run_p90(), job.run_max()) {
        let [p50, p90, max] = [p50, p90, max].map(|seconds| times::duration(seconds_of(seconds)));
        table.row(["run times", &format!("p50 {p50}, p90 {p90}, max {max}")]);
    }
    if let Some(reason) = job.reason() {
        table.row(["stopped", reason]);
    }
    table
}

/// Converts a number of seconds from another process, which may be invalid.
pub(super) fn seconds_of(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

pub(super) fn with_agents(job: &JobAnswer) -> u64 {
    [Phase::Dispatched, Phase::Preparing, Phase::Running, Phase::Ended].map(|phase| job.in_phase(phase)).iter().sum()
}

/// One line about a job that a command waits for.
fn progress(job: &JobAnswer, now: Wall) -> String {
    let (done, total) = (job.in_phase(Phase::Finished), job.total());
    let left = Pace::of(job, now).left.map(|left| format!("{} left  ", times::duration(left))).unwrap_or_default();
    let failed = Some(job.failed()).filter(|failed| *failed > 0).map(|failed| format!("  failed {failed}"));
    let failed = failed.unwrap_or_default();
    format!("{left}job {}: {done}/{total} finished{failed}  running {}", job.name(), with_agents(job))
}

/// The speed of a job, from its first submit until its end or now.
#[derive(Debug, PartialEq)]
pub(super) struct Pace {
    /// Finished tasks per second.
    pub(super) rate: Option<f64>,
    /// The estimated time until all tasks have finished; `None` if none waits.
    pub(super) left: Option<Duration>,
}

impl Pace {
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    pub(super) fn of(job: &JobAnswer, now: Wall) -> Self {
        let (done, total) = (job.in_phase(Phase::Finished), job.total());
        let took = job.submitted_at().map(|at| job.ended_at().unwrap_or(now).since(at).as_secs_f64());
        let rate = took.filter(|took| *took > 0.0 && done > 0).map(|took| done as f64 / took);
        let open = total.saturating_sub(done);
        // The rate tells nothing of the last runs, which may be the longest.
        let has_waiting = open > with_agents(job);
        let left = rate.filter(|_| has_waiting).map(|rate| seconds_of(open as f64 / rate));
        Self { rate, left }
    }

    fn members(&self) -> Map<String, Value> {
        let left = self.left.map(|left| left.as_secs_f64());
        Map::from_iter([("rate".to_owned(), json!(self.rate)), ("seconds_left".to_owned(), json!(left))])
    }
}

/// The failed tasks of a job by exit code and last line, the most frequent first. The flag is false if some were not examined.
fn failures_of(client: &Client, job: &JobAnswer) -> Result<(Vec<Group>, bool), ClientError> {
    let (mut groups, mut are_all) = (Failures::default(), true);
    for outcome in
        Outcome::ALL.into_iter().filter(|outcome| outcome.counts_as_failed() && job.with_outcome(*outcome) > 0)
    {
        are_all &= look_at(client, job.name(), outcome, |task| groups.add_task(task))?;
    }
    Ok((groups.sorted(), are_all))
}

/// Examines the tasks of a job with this outcome, newest first. Returns false if there are more than [`LOOKED_AT`].
fn look_at(client: &Client, job: &str, outcome: Outcome, mut look: impl FnMut(&TaskView)) -> Result<bool, ClientError> {
    let selector = Selector::all().and_job(job).and_outcome(outcome);
    let (mut seen, mut last) = (0, None);
    while seen < LOOKED_AT {
        let limit = PAGE.min(LOOKED_AT - seen);
        let page =
            last.as_deref().map_or_else(|| tasks(&selector, 0, limit), |before| tasks_before(&selector, before, limit));
        let rows = client.ask(&page)?.rows;
        let Some(oldest) = rows.last() else { return Ok(true) };
        (last, seen) = (Some(oldest.id().to_owned()), seen + rows.len() as u64);
        rows.iter().for_each(&mut look);
    }
    Ok(false)
}

/// Changes all tasks of a job, and prints their number.
pub(super) fn change(session: &mut Session, name: &str, what: &JobOrder, done: &str) -> Result<u8, Failure> {
    let client = session.client()?;
    let before = client.ask(&query(name, None))?;
    let concerned = change::order_job(session, &client, &before, &order(name, what))?;
    if let Some(warning) = concerned.warning() {
        note(warning);
    }
    let count = concerned.count();
    if session.out.is_json() {
        session.out.value(&json!({ "job": name, "result": done, "count": count, "warning": concerned.warning() }));
    } else {
        let tasks = counted(count, "task");
        session.out.line(format_args!("{done} {tasks} of job {name}"));
    }
    Ok(if concerned.warning().is_some() { exit::REFUSED } else { 0 })
}

/// Waits until all tasks of a job have finished. Exits with the code of the worst one.
pub(super) fn wait(session: &mut Session, wait: &mut Wait, name: &str, until: Option<Mono>) -> Result<u8, Failure> {
    let client = session.client()?;
    let ended = wait.wait(
        until,
        |until, interrupt| client.wait_for_job(name, until, interrupt),
        |job| job.ended_at().is_some(),
        ("Ctrl-C leaves; the job goes on", |job: &JobAnswer| Ok(progress(job, clock::now().wall))),
    )?;
    let Some(job) = ended else { return Err(left(&format!("job {name} goes on"))) };
    if session.out.is_json() {
        session.out.value(&to_value(job.fields()));
    } else {
        session.out.table(&facts(&job, &Pace { rate: None, left: None }));
    }
    if job.ended_at().is_none() {
        note(&format!(
            "{} of the {} tasks of job {name} have not finished",
            job.total() - job.in_phase(Phase::Finished),
            job.total()
        ));
        return Ok(exit::TIMED_OUT);
    }
    let mut worst = 0;
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Succeeded) {
        if job.with_outcome(outcome) > 0 {
            // Skipped, killed and lost tasks have no exit code of their own.
            worst = worst.max(exit::FAILED);
            look_at(&client, name, outcome, |task| worst = worst.max(exit::of_task(task).0))?;
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Fields;

    #[test]
    fn the_pace_is_that_since_the_first_submit() {
        let job = |done: u32, end: Option<f64>| -> JobAnswer {
            let fields =
                Fields::new().with(words::TOTAL, 10u32).with("FINISHED", done).with(words::SUBMIT_TIME, 1000.0);
            end.into_iter().fold(fields, |fields, at| fields.with(words::END_TIME, at)).into()
        };
        let now = Wall::from_micros(1_004_000_000);
        assert_eq!(Pace::of(&job(0, None), now), Pace { rate: None, left: None });
        assert_eq!(Pace::of(&job(2, None), now), Pace { rate: Some(0.5), left: Some(Duration::from_secs(16)) });
        let last: JobAnswer = job(9, None).fields().clone().with("RUNNING", 1u32).into();
        assert_eq!(Pace::of(&last, now).left, None, "the last one may run for long");
        assert_eq!(Pace::of(&job(10, Some(1002.0)), now), Pace { rate: Some(5.0), left: None });
    }
}
