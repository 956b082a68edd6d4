//! `llts prompt status`: the numbers of waiting, running and finished prompts, the workers, and the progress.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::files::create::TASKS;
use crate::files::status;
use crate::files::status::Counts;
use crate::files::talk::RequestError;
use crate::wire::{FromWorker, Pace, Status, WorkerState, WorkerStatus};
use base::printable;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::{Output, note};
use term::session::Session;
use term::style::Look;
use term::table::Table;
use term::{exit, times};
use zmtp::json::json_dial::Server;

/// The maximum width of the progress bar, and its width in a pipe.
const BAR_COLUMNS_MAX: usize = 60;

#[derive(Args, Debug)]
#[command(after_help = "\
If no master answers, the files below DIR are counted. With --watch on a terminal, the
picture is drawn again each second; elsewhere a line is written for each change. It ends
with Ctrl-C, or with the master.")]
pub(crate) struct StatusArgs {
    /// The master's host
    #[arg(default_value = "localhost")]
    host: String,
    /// The master's port [default: prompt.PORT]
    port: Option<u16>,
    /// The folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// Update the display until interrupted
    #[arg(long)]
    watch: bool,
}

pub(crate) fn run(session: &mut Session, args: &StatusArgs) -> Result<u8, Failure> {
    // Before a signal can arrive.
    let mut signals = if args.watch { Some(Signals::install(&STOP).map_err(Failure::failed)?) } else { None };
    let mut shown = None;
    let master = super::server(session, &args.host, args.port)?;
    loop {
        let status = match ask(session, &master) {
            Ok(status) => status,
            Err(error @ RequestError::Refused { .. }) => return Err(refused(&error)),
            Err(error @ RequestError::NoMaster { .. }) => {
                return without_master(session, args, &error, shown.is_some());
            }
        };
        let news = Some(Counts::from(&status)) != shown;
        shown = Some(Counts::from(&status));
        let Some(signals) = &mut signals else {
            show(&mut session.out, &status);
            return Ok(0);
        };
        watch(&mut session.out, &status, news);
        if !session.out.redraws(signals) {
            return Ok(0);
        }
    }
}

fn ask(session: &Session, master: &Server) -> Result<Status, RequestError> {
    let secret = super::secret(session);
    status::request(master, &FromWorker::Status { secret }, session.config.client.reply_timeout)
}

/// The folders still show the progress.
fn without_master(
    session: &mut Session,
    args: &StatusArgs,
    error: &RequestError,
    was_there: bool,
) -> Result<u8, Failure> {
    let root = super::root(session, args.root_dir.as_deref());
    let folder = root.join(TASKS);
    let counts = match status::count(&root) {
        Ok(counts) => counts,
        // The master was on another machine: its last status is already shown.
        Err(_) if was_there => {
            note("the prompt master has ended");
            return Ok(0);
        }
        Err(cause) => {
            let sentence = format!("{error}; and {}: {cause}", folder.display());
            return Err(Failure::new(exit::NO_CONTROLLER, sentence));
        }
    };
    if session.out.is_json() {
        session.out.value(&value(counts, None));
    } else {
        let picture = picture(counts, session.out.columns());
        session.out.redraw(&picture);
    }
    // After the picture, which would otherwise be drawn over the wrong lines.
    let why = if was_there { "the prompt master has ended".to_owned() } else { error.to_string() };
    note(&format!("{why}; counting the files in {}", folder.display()));
    Ok(0)
}

/// The failure of a command that gets no answer of a master.
pub(super) fn refused(error: &RequestError) -> Failure {
    let code = match error {
        RequestError::Refused { .. } => exit::REFUSED,
        RequestError::NoMaster { .. } => exit::NO_CONTROLLER,
    };
    Failure::new(code, error.to_string())
}

pub(super) fn show(out: &mut Output, status: &Status) {
    if out.is_json() {
        out.value(&value(status.into(), Some(status)));
    } else {
        let picture = whole(status, out.columns());
        out.redraw(&picture);
    }
}

/// A terminal shows the present state; a pipe gets the changes.
fn watch(out: &mut Output, status: &Status, news: bool) {
    if out.columns().is_some() && !out.is_json() {
        show(out, status);
    } else if !news {
        // Only ages have changed.
    } else if out.is_json() {
        show(out, status);
    } else {
        out.line(numbers(status.into()));
    }
}

fn value(counts: Counts, status: Option<&Status>) -> Value {
    let Counts { pending, working, done, failed } = counts;
    let workers = status.map(|status| {
        let worker = |worker: &crate::wire::WorkerStatus| {
            let seconds = worker.age.as_secs_f64();
            json!({
                "id": worker.id, "state": worker.state, "file": worker.file, "age_seconds": seconds,
                "resting_seconds": worker.resting.map(|time| time.as_secs_f64()), "reason": worker.reason,
            })
        };
        status.workers.iter().map(worker).collect::<Vec<_>>()
    });
    json!({
        "master": status.is_some(),
        "pending": pending,
        "working": working,
        "done": done,
        "failed": failed,
        "running_seconds": status.map(|status| status.running_for.as_secs_f64()),
        "workers": workers.unwrap_or_default(),
        "median_seconds": status.and_then(|status| Some(status.pace.median?.as_secs_f64())),
        "per_hour": status.and_then(|status| status.pace.per_hour),
        "rest_seconds": status.and_then(|status| Some(status.pace.rest?.as_secs_f64())),
        "timed_out": status.map(|status| status.timed_out),
        "cost_usd": status.and_then(|status| Some(status.cost?.dollars())),
        "max_cost_usd": status.and_then(|status| Some(status.cost_max?.dollars())),
        "paused": status.and_then(|status| status.paused.clone()),
        "closed_gates": status.map(|status| seconds_by_name(&status.gates)).unwrap_or_default(),
        "away": status.map(|status| seconds_by_name(&status.away)).unwrap_or_default(),
    })
}

fn seconds_by_name(times: &[(String, Duration)]) -> serde_json::Map<String, Value> {
    times.iter().map(|(name, time)| (name.clone(), json!(time.as_secs_f64()))).collect()
}

/// How fast prompts end, in one line; empty before enough have ended.
fn pace(status: &Status) -> String {
    let Pace { median, per_hour: Some(per_hour), rest } = status.pace else { return String::new() };
    let run = median.map(|time| format!(", usually {} each", times::duration(time))).unwrap_or_default();
    let rest = rest.filter(|_| status.pending + status.working > 0);
    let rest = rest.map(|time| format!("; about {} left", times::duration(time))).unwrap_or_default();
    format!("{per_hour:.0} prompts an hour{run}{rest}\n")
}

/// The cost of the prompts and the number that ran out of time, in one line each.
fn losses(status: &Status) -> String {
    let cost = status.cost.map(|cost| format!("the prompts have cost {cost}"));
    let cost = cost.map(|text| status.cost_max.map_or(text.clone(), |max| format!("{text} of {max}")) + "\n");
    let late = (status.timed_out > 0).then(|| format!("{} of the failures are time-outs\n", status.timed_out));
    cost.into_iter().chain(late).collect()
}

/// The reasons why prompts wait, in one line each. A worker is a stranger: its text must not control a terminal.
fn obstacles(status: &Status) -> String {
    let paused = status.paused.iter().map(|reason| format!("no prompt is handed out: {reason}"));
    let gates = status.gates.iter().map(|(gate, time)| format!("{gate} is limited for {}", times::duration(*time)));
    let away = status.away.iter().map(|(file, time)| {
        format!("{file} is with a worker without a connection, for {} more", times::duration(*time))
    });
    let reasons = status.workers.iter().filter_map(|worker| {
        Some(format!("{} rests for {}: {}", worker.id, times::duration(worker.resting?), worker.reason.as_ref()?))
    });
    let plain = |line: String| printable(&line);
    paused.chain(gates).chain(away).chain(reasons).map(|line| plain(line) + "\n").collect()
}

fn whole(status: &Status, columns: Option<usize>) -> String {
    let mut text = picture(status.into(), columns);
    let busy = status.workers.iter().filter(|worker| worker.state != WorkerState::Idle).count();
    let (workers, time) = (status.workers.len(), times::duration(status.running_for));
    let noun = if workers == 1 { "worker" } else { "workers" };
    text.push_str(&format!("{workers} {noun}, {busy} busy; the master runs for {time}\n"));
    text.push_str(&pace(status));
    text.push_str(&losses(status));
    text.push_str(&obstacles(status));
    if workers > 0 {
        let mut table = Table::new(&["WORKER", "STATE", "FOR", "FILE"]);
        for worker in &status.workers {
            let file = worker.file.as_deref().unwrap_or_default();
            table.row([worker.id.as_str(), word(worker), &times::duration(worker.age), file]);
        }
        text.push('\n');
        text.push_str(&table.show(Look::plain(columns)));
    }
    text
}

fn picture(counts: Counts, columns: Option<usize>) -> String {
    format!("{}\n{}\n", bar(counts, columns), numbers(counts))
}

fn numbers(counts: Counts) -> String {
    let Counts { pending, working, done, failed } = counts;
    format!("{pending} pending, {working} working, {done} done, {failed} failed")
}

/// The finished part of all prompts. Full only when all have finished.
fn bar(counts: Counts, columns: Option<usize>) -> String {
    let ended = counts.done.saturating_add(counts.failed);
    let all = ended.saturating_add(counts.pending).saturating_add(counts.working);
    let part = |whole: u64| {
        let part = u128::from(ended) * u128::from(whole) / u128::from(all.max(1));
        u64::try_from(part).unwrap_or(whole)
    };
    let text = format!(" {:3} % of {all}", part(100));
    let room = columns.unwrap_or(usize::MAX).saturating_sub(text.len() + 2).min(BAR_COLUMNS_MAX);
    if room < 4 {
        return text.trim_start().to_owned();
    }
    let filled = usize::try_from(part(room as u64)).unwrap_or(room);
    format!("[{}{}]{text}", "#".repeat(filled), "-".repeat(room - filled))
}

const fn word(worker: &WorkerStatus) -> &'static str {
    match worker.state {
        WorkerState::Idle if worker.resting.is_some() => "resting",
        WorkerState::Idle => "idle",
        WorkerState::Requesting => "requesting",
        WorkerState::Working => "working",
        WorkerState::Disconnecting => "disconnecting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts = Counts { pending: 1, working: 1, done: 5, failed: 1 };

    #[test]
    fn a_bar_fits_and_is_full_only_at_the_end() {
        assert_eq!(bar(COUNTS, Some(25)), "[#########---]  75 % of 8");
        assert_eq!(bar(COUNTS, Some(9)), "75 % of 8");
        assert_eq!(bar(COUNTS, None).len(), BAR_COLUMNS_MAX + 2 + "  75 % of 8".len());
        let nearly = Counts { pending: 1, done: 9_999, ..Counts::default() };
        assert!(bar(nearly, None).contains("#-]  99 %"), "{}", bar(nearly, None));
        assert!(bar(Counts { done: 3, ..Counts::default() }, None).contains("##] 100 %"));
        assert!(bar(Counts::default(), None).contains("[--"));
        let most = Counts { done: u64::MAX, failed: u64::MAX, pending: 0, working: 0 };
        assert!(bar(most, None).contains("100 %"));
    }

    #[test]
    fn what_holds_prompts_up_is_said_in_one_line_each() {
        let second = Duration::from_secs(1);
        let worker = WorkerStatus {
            id: "box-1".to_owned(),
            state: WorkerState::Idle,
            file: None,
            age: second,
            resting: Some(9 * second),
            reason: Some("the disk\n\u{1b}[2J is full".to_owned()),
        };
        let status = Status {
            pending: 3,
            pace: Pace { median: Some(2 * second), per_hour: Some(720.0), rest: Some(15 * second) },
            paused: Some("by order".to_owned()),
            gates: vec![("claude".to_owned(), 60 * second)],
            away: vec![("a.txt".to_owned(), 30 * second)],
            workers: vec![worker],
            ..Status::default()
        };
        let text = whole(&status, None);
        for line in [
            "720 prompts an hour, usually 2.0 s each; about 15.0 s left",
            "no prompt is handed out: by order",
            "claude is limited for 1 min 0 s",
            "a.txt is with a worker without a connection, for 30.0 s more",
            "box-1 rests for 9.0 s: the disk\u{fffd}\u{fffd}[2J is full",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(text.contains("box-1   resting"), "{text}");
    }

    #[test]
    fn the_whole_names_each_worker_with_its_file() {
        let worker = |id: &str, state, file: Option<&str>| WorkerStatus {
            id: id.to_owned(),
            state,
            file: file.map(str::to_owned),
            age: Duration::from_secs(3),
            resting: None,
            reason: None,
        };
        let status = Status {
            pending: 1,
            working: 1,
            done: 5,
            failed: 1,
            running_for: Duration::from_secs(90),
            workers: vec![
                worker("box-1", WorkerState::Working, Some("a.txt")),
                worker("box-2", WorkerState::Idle, None),
            ],
            ..Status::default()
        };
        let text = whole(&status, Some(60));
        assert!(text.contains("1 pending, 1 working, 5 done, 1 failed\n2 workers, 1 busy; "), "{text}");
        assert!(text.contains("\nbox-1   working  3.0 s  a.txt\nbox-2   idle     3.0 s  -\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60));
        let value = value(COUNTS, Some(&status));
        assert_eq!((&value["workers"][0]["state"], &value["master"]), (&json!("working"), &json!(true)));
    }
}
