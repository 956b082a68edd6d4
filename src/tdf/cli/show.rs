//! `llts tdf show CFG ID`: all that is known of a task.

use clap::Args;
use serde_json::Value;

use base::tdf::TaskId;
use term::exit;
use term::exit::Failure;
use term::output::Output;
use term::session::Session;
use term::table::Table;

#[derive(Args, Debug)]
#[command(override_usage = "llts tdf show [OPTIONS] CFG ID")]
pub(crate) struct ShowArgs {
    /// The path of a configuration file, and the id of a task
    #[arg(value_name = "CFG ID")]
    arguments: Vec<String>,
}

pub(crate) fn run(session: &mut Session, args: &ShowArgs) -> Result<u8, Failure> {
    let [file, id] = super::exactly(&args.arguments, [super::CFG, "ID: the id of a task, such as 17"])?;
    let id: TaskId = id.parse().map_err(|error| Failure::failed(format!("{id:?} is no id of a task: {error}")))?;
    let task = super::connect(file)?.task(id).map_err(|error| super::failure(&error))?;
    let Some(task) = task else {
        return Err(Failure::new(exit::NO_SUCH_TASK, format!("there is no task {id} in this namespace")));
    };
    let task = task.to_json();
    if session.out.is_json() {
        session.out.value(&task);
    } else {
        show(&mut session.out, &task);
    }
    Ok(0)
}

fn show(out: &mut Output, task: &Value) {
    let mut table = Table::pairs();
    let rounds = task.get("rounds").and_then(Value::as_array).cloned().unwrap_or_default();
    let log = task.get("log").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, value) in task.as_object().into_iter().flatten().filter(|(_, value)| !value.is_array()) {
        table.row([name.clone(), text(value)]);
    }
    out.table(&table);
    for round in &rounds {
        out.line("");
        let mut table = Table::pairs();
        let fields = round.as_object().into_iter().flatten();
        let (texts, others): (Vec<_>, Vec<_>) =
            fields.partition(|(name, _)| ["output", "error"].contains(&name.as_str()));
        for (name, value) in others {
            table.row([name.clone(), text(value)]);
        }
        out.table(&table);
        for (name, value) in texts {
            out.line(format_args!("{name}:"));
            out.text(&text(value));
        }
    }
    out.line("");
    log.iter().for_each(|line| out.line(text(line)));
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
