//! `llts submit`: hand a task over and print its id.

use clap::Args;
use serde_json::Value;

use super::Session;
use super::exit::Failure;
use super::output::note;
use super::parameter::{self, Parameter};
use crate::protocol::client::Submission;
use crate::types::ToolName;

/// What a task is made of; `run` takes the same.
#[derive(Args, Debug)]
pub(super) struct TaskArgs {
    /// The tool to run
    #[arg(value_name = "TOOL")]
    tool: String,
    #[arg(value_name = "KEY=VALUE", help = parameter::HELP, value_parser = parameter::parse)]
    parameters: Vec<Parameter>,
    /// An id of your own, to find the task by
    #[arg(long, value_name = "ID")]
    given_id: Option<String>,
    /// The task whose end ends this one
    #[arg(long, value_name = "TASK")]
    father: Option<String>,
    /// Where changes of its state are pushed to: a DEALER socket that you have bound
    #[arg(long, value_name = "tcp://IP:PORT")]
    address: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct SubmitArgs {
    #[command(flatten)]
    task: TaskArgs,
}

impl TaskArgs {
    pub(super) fn submission(&self) -> Result<Submission, Failure> {
        ToolName::new(&self.tool).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Submission {
            tool: self.tool.clone(),
            given_id: self.given_id.clone(),
            parent: self.father.clone(),
            address: self.address.clone(),
            parameters: parameter::collect(&self.parameters)?,
        })
    }
}

pub(super) fn run(session: &mut Session, args: &SubmitArgs) -> Result<u8, Failure> {
    let submission = args.task.submission()?;
    let submitted = session.client()?.submit(&submission)?;
    if let Some(warning) = &submitted.warning {
        note(warning);
    }
    if session.out.is_json() {
        session.out.value(&serde_json::json!({
            "task": submitted.id,
            "warning": submitted.warning.map_or(Value::Null, Value::String),
        }));
    } else {
        session.out.line(&submitted.id);
    }
    Ok(0)
}
