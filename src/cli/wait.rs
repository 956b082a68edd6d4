//! `llts wait`: wait until tasks have finished.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::Session;
use super::exit::{self, Failure};
use super::output::{note, to_value};
use super::table::Table;
use crate::client::{Client, ClientError, Waited};
use crate::protocol::client::{Selector, TaskView};
use crate::shell::clock;
use crate::types::Mono;

#[derive(Args, Debug)]
#[command(after_help = "Exits as the worst of the tasks did; 5 if one is not known, 124 if the time is over.")]
pub(super) struct WaitArgs {
    /// The tasks
    #[arg(value_name = "TASK", required = true)]
    ids: Vec<String>,
    /// How long to wait for all of them together [default: for ever]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// How the wait for one task ended.
enum End {
    Finished(TaskView),
    Expired(TaskView),
    Unknown(String),
}

pub(super) fn run(session: &mut Session, args: &WaitArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let until = args.timeout.map(|timeout| clock::now().mono + timeout);
    let ends = args.ids.iter().map(|id| wait(&client, id, until)).collect::<Result<Vec<_>, _>>()?;
    let mut worst = 0;
    let mut table = Table::pairs();
    let mut values = Vec::new();
    for (id, end) in args.ids.iter().zip(&ends) {
        let (code, sentence) = judge(id, end);
        worst = worst.max(code);
        if let Some(sentence) = sentence {
            note(&sentence);
        }
        if let End::Finished(task) | End::Expired(task) = end {
            let exit = task.exit_code().map(|code| code.to_string()).unwrap_or_default();
            table.row([task.id(), task.outcome().unwrap_or(task.status()), &exit]);
            values.push(to_value(task.fields()));
        } else {
            values.push(json!({ "task": id, "error": "no such task" }));
        }
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(values));
    } else {
        session.out.table(&table);
    }
    Ok(worst)
}

fn wait(client: &Client, id: &str, until: Option<Mono>) -> Result<End, ClientError> {
    match client.wait(&Selector::task(id), until, None) {
        Ok(Waited::Finished(task)) => Ok(End::Finished(task)),
        Ok(Waited::Expired(task)) => Ok(End::Expired(task)),
        Ok(Waited::Interrupted) => unreachable!("nothing interrupts this wait"),
        Err(ClientError::Reply(reply)) if reply.is_no_such_task() => Ok(End::Unknown(reply.to_string())),
        Err(error) => Err(error),
    }
}

fn judge(id: &str, end: &End) -> (u8, Option<String>) {
    match end {
        End::Finished(task) => exit::of_task(task),
        End::Expired(task) => (exit::TIMED_OUT, Some(format!("{id} is still {}", task.status()))),
        End::Unknown(sentence) => (exit::NO_SUCH_TASK, Some(format!("{id}: {sentence}"))),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "it is no number of seconds, such as 60 or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::words;
    use crate::types::Fields;

    #[test]
    fn each_end_has_its_code() {
        let task = |code: i32| Fields::new().with(words::TASK_ID, "T").with(words::EXIT_CODE, code).into();
        assert_eq!(judge("T", &End::Finished(task(7))), (7, None));
        assert_eq!(judge("T", &End::Finished(task(-9))).0, 137);
        let running: TaskView = Fields::new().with(words::STATUS, "RUNNING").into();
        assert_eq!(judge("T", &End::Expired(running)), (124, Some("T is still RUNNING".into())));
        assert_eq!(judge("T", &End::Unknown("no task".into())).0, 5);
    }

    #[test]
    fn a_time_is_a_number_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "x", "-1", "inf", "nan", "1e30", "1s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
