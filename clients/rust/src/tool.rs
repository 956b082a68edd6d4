//! A kit for tools that stay (docs/stay.md): a program that an agent starts once, and that gets its tasks one after the other.
//!
//! ```no_run
//! use llts_client::tool::{Answer, ServeError, serve};
//!
//! fn main() -> Result<(), ServeError> {
//!     let mut count = 0;                                     // stays from task to task, as a loaded model does
//!     serve(|task| {
//!         count += 1;
//!         let name = task.text("name").ok_or("the parameter name is missing")?;
//!         Ok(Answer::value(&format!("hello {name}, you are number {count}"))?)
//!     })
//! }
//! ```
//!
//! The program is the `run.sh` of the tool, or that starts it with `exec`. Its `tool.toml` has `[stay]`.
//!
//! | the handler | the task |
//! |---|---|
//! | returns an [`Answer`] | ends with its exit code, report and value |
//! | returns an error, or panics | ends with the exit code 1, and the text as its report |
//! | returns [`Killed`], most often by [`Task::check`] | ends with the exit code 143 |
//!
//! What a handler prints is the output of its task: stdout is flushed before the answer. A handler that may run for long looks at
//! [`Task::is_killed`], or waits for [`Task::as_fd`](Task#impl-AsFd-for-Task) beside its other descriptors. One that does not is ended
//! with its process.

mod line;

use std::any::Any;
use std::error::Error;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use line::{Line, Said};

/// The exit code of a task that was killed, as a shell has it for SIGTERM.
const KILLED: u8 = 143;

/// Why a tool cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It was not started as a tool that stays.
    #[error(
        "{} does not name a socket: a tool that stays has [stay] in its tool.toml, and is run by an agent",
        line::VARIABLE
    )]
    NoAgent,
    /// This process serves already, or has served.
    #[error("the connection to the agent was taken before")]
    Taken,
    /// The connection has failed.
    #[error("cannot talk to the agent: {0}")]
    Io(#[from] io::Error),
    /// The agent has sent something else.
    #[error("the agent has sent a line that is not of this protocol: {0}")]
    Unknown(String),
}

/// The error of a handler that has given its task up because it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("killed")]
pub struct Killed;

/// The answer to a task. The default one is a success without a value.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    value: Option<Box<RawValue>>,
    report: String,
    exit_code: u8,
}

impl Answer {
    /// A success with this value, which comes back as JSON (`__VALUE__`).
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn value(value: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self { value: Some(to_raw_value(value)?), ..Self::default() })
    }

    /// As it is, with a text for people (`__REPORT_LOG__`).
    #[must_use]
    pub fn with_report(self, report: impl Into<String>) -> Self {
        Self { report: report.into(), ..self }
    }

    /// As it is, with an exit code: 0 is a success, 75 defers the task, any other one is a failure.
    #[must_use]
    pub fn with_exit_code(self, exit_code: u8) -> Self {
        Self { exit_code, ..self }
    }

    fn failure(report: String) -> Self {
        Self { report, exit_code: 1, value: None }
    }
}

/// A task that its tool has to answer.
#[derive(Debug)]
pub struct Task {
    id: String,
    round: u32,
    folder: Option<PathBuf>,
    fields: Map<String, Value>,
    line: Arc<Line>,
}

impl Task {
    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of its round, from 0.
    #[must_use]
    pub const fn round(&self) -> u32 {
        self.round
    }

    /// The folder of the task, if its tool asks for one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The content of its `task.json`: the parameters under their names.
    #[must_use]
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// A parameter that is a text. Those of the command line all are.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// The parameters, as a type of the tool.
    ///
    /// # Errors
    /// When one is missing, or of another type.
    pub fn parameters<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        T::deserialize(Value::Object(self.fields.clone()))
    }

    /// Whether the task is to be given up: it is killed, or the agent has gone.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.line.tells_end_of(&self.id)
    }

    /// The same as an error, for a `?` in a loop.
    ///
    /// # Errors
    /// [`Killed`]
    pub fn check(&self) -> Result<(), Killed> {
        if self.is_killed() { Err(Killed) } else { Ok(()) }
    }

    /// Pauses for so long, or until the task is to be given up; whether it is.
    #[must_use]
    pub fn wait_for_kill(&self, timeout: Duration) -> bool {
        self.line.wait(timeout);
        self.is_killed()
    }
}

/// A descriptor that is readable when the task is to be given up. Only this kit reads from it.
impl AsFd for Task {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}

/// Calls the handler for each task, until the agent ends this tool. It returns then, and the program should end.
///
/// # Errors
/// [`ServeError`], when the agent has not started this program as a tool that stays, or is no such agent.
pub fn serve(mut handler: impl FnMut(&Task) -> Result<Answer, Box<dyn Error>>) -> Result<(), ServeError> {
    let line = Arc::new(Line::take()?);
    // Output from before the first task belongs to none.
    let _ = io::stdout().flush();
    line.ready()?;
    while let Some(said) = line.next()? {
        match said {
            Said::Task { id, round, folder, fields } => {
                let task = Task { id, round, folder, fields, line: Arc::clone(&line) };
                let answer = handle(&mut handler, &task);
                // What the task has written belongs to it, and must not arrive after its end. Without a stdout there is nothing to lose.
                let _ = io::stdout().flush();
                if !line.done(&task, &answer)? {
                    return Ok(());
                }
            }
            // Its task was answered before.
            Said::Kill { .. } => {}
            Said::Stop => return Ok(()),
        }
    }
    Ok(())
}

fn handle(handler: &mut impl FnMut(&Task) -> Result<Answer, Box<dyn Error>>, task: &Task) -> Answer {
    match catch_unwind(AssertUnwindSafe(|| handler(task))) {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.is::<Killed>() => Answer::failure(error.to_string()).with_exit_code(KILLED),
        Ok(Err(error)) => Answer::failure(with_causes(&*error)),
        Err(panic) => Answer::failure(format!("the tool has panicked: {}", message(&*panic))),
    }
}

/// An error and its causes, each on a line.
fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}\ncaused by: {cause}"))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
