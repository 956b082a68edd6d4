//! TASK/SUBMIT (docs/sources/controller.md, 2.1): a client submits a task.

pub mod many;

use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Code, Kind, Refusal, Request, Rules, json, query, words};
use crate::wire::command::Surroundings;
use crate::wire::typed::{bad, seconds, truth};
use crate::wire::{address, command, policy, relations, source, task, task_files};
use base::json::ObjectWriter;
use base::{
    Fields, FileName, Policy, PolicyField, PushAddress, Relations, Scalar, TaskFiles, TaskId, TaskInput, TaskRecord,
    ToolName,
};

/// The folder for inputs of senders that may not send commands, in the folder in which the run starts. No interpreter searches it
/// for programs.
pub const IN_FOLDER: &str = "in";

/// Submits a task.
pub const TASK_SUBMIT: Kind = Kind::order("TASK/SUBMIT", |mut reader| {
    let wait = reader.wait()?;
    reader.fields.remove(words::WAIT);
    Ok(Request::Submit(Box::new(Submit { wait, ..read(reader.fields, reader.rules)? })))
});

/// A task to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    /// Name of the tool, or the built-in operation for commands.
    pub tool: ToolName,
    /// All submitted fields, without the names that the service sets itself.
    pub fields: Fields,
    /// The address for pushes.
    pub address: Option<PushAddress>,
    /// The parent task, whose end ends this one.
    pub parent: Option<Parent>,
    /// The policy of the task.
    pub policy: Arc<Policy>,
    /// Its job and its dependencies, if it has any.
    pub relations: Option<Arc<Relations>>,
    /// The files that travel with it, if it names any.
    pub files: Option<Arc<TaskFiles>>,
    /// Whether the submit is refused if certainly no agent has its tool. It is not one of `fields`, because it concerns only the
    /// submit.
    pub requires_tool: bool,
    /// How long the answer may wait for the end of the task. It is not one of `fields` either.
    pub wait: Option<Duration>,
    /// Whether its sender may send commands.
    pub is_trusted: bool,
    /// The submitted names that the service sets itself.
    pub ignored: Vec<String>,
    /// The names that look like fields of the service but are unknown: fields of a newer version, or mistyped. They become
    /// parameters.
    pub unknown: Vec<String>,
}

impl Submit {
    /// Removes the parent, because it is unknown.
    pub fn forget_parent(&mut self) {
        self.parent = None;
        self.fields.remove(words::FATHER_ID);
    }

    /// Whether it has text for a shell.
    pub(in crate::wire) fn has_command(&self) -> bool {
        self.tool.is_command() || (self.tool.is_source() && source::has_input(&self.fields))
    }

    /// Whether its source is not checked.
    pub(in crate::wire) fn is_unchecked(&self) -> bool {
        self.tool.is_source() && source::is_unchecked(&self.fields)
    }

    /// Moves the inputs into [`IN_FOLDER`], except those that the tool expects in their place. True if any was moved.
    ///
    /// # Errors
    /// When two inputs then have the same place, or a place is too long.
    pub fn confine_inputs(&mut self, is_expected: impl Fn(&FileName) -> bool) -> Result<bool, Refusal> {
        let Some(files) = &self.files else { return Ok(false) };
        let stays = |name: &FileName| is_expected(name) || name.parts().next().is_some_and(|part| part == IN_FOLDER);
        if files.inputs.iter().all(|input| stays(&input.name)) {
            return Ok(false);
        }
        let place = |input: &TaskInput| {
            let name = &input.name;
            let place = if stays(name) { Ok(name.clone()) } else { FileName::new(&format!("{IN_FOLDER}/{name}")) };
            let refused = |why| Refusal::new(Code::BadField, format!("{}: {IN_FOLDER}/{name} {why}", words::IN));
            Ok(TaskInput { name: place.map_err(refused)?, ..input.clone() })
        };
        let inputs = files.inputs.iter().map(place).collect::<Result<Vec<_>, Refusal>>()?;
        let twice =
            inputs.iter().enumerate().find(|(at, input)| inputs[..*at].iter().any(|other| other.name == input.name));
        if let Some((_, input)) = twice {
            let name = input.name.as_str();
            return Err(Refusal::new(Code::BadField, format!("{}: the name {name:?} stands there twice", words::IN)));
        }
        self.fields.set(words::IN, task_files::inputs_text(inputs.iter()));
        self.files = task_files::read(&self.fields)?;
        Ok(true)
    }

    /// `__SUBMIT_KEY__` as JSON.
    #[must_use]
    pub fn submit_key(&self) -> Option<String> {
        let key = self.fields.get(words::SUBMIT_KEY)?;
        json::value_of(&json::members(&Fields::new().with(words::SUBMIT_KEY, key.clone()))).map(str::to_owned)
    }

    /// The submitted fields as members of a JSON object.
    #[must_use]
    pub fn members(&self) -> Arc<str> {
        json::members(&self.fields).into()
    }
}

/// The value of `__FATHER_ID__`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// A valid task id.
    Task(TaskId),
    /// A text that is not a task id.
    NoTask(String),
}

fn read(mut fields: Fields, rules: &Rules) -> Result<Submit, Refusal> {
    let tool = tool(&fields)?;
    let mut ignored = Vec::new();
    fields.retain(|name, _| {
        let ours = task::is_ours(name);
        if ours {
            ignored.push(name.to_owned());
        }
        !ours
    });
    let requires_tool = truth(&fields, words::REQUIRE_TOOL)? == Some(true);
    fields.remove(words::REQUIRE_TOOL);
    let tool = if source::submitted(&mut fields, &rules.sources)? { ToolName::source() } else { tool };
    let address = address::read(&fields, rules)?;
    let parent = fields.get(words::FATHER_ID).map(|value| {
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.map_or_else(|| Parent::NoTask(value.to_string()), Parent::Task)
    });
    let policy = policy::read(&fields, rules.defaults.of(&tool))?;
    seconds(&fields, words::EXPECTED_DURATION)?;
    let files = task_files::read(&fields)?;
    let policy = task_files::require(policy, files.as_ref());
    let relations = relations::read(&fields, rules.submits.terms_max)?;
    if let Some(key) = fields.get(words::SUBMIT_KEY).filter(|key| key.as_text().is_none_or(str::is_empty)) {
        return Err(bad(words::SUBMIT_KEY, key, "a non-empty text, different for each task"));
    }
    let unknown = fields.iter().map(|(name, _)| name).filter(|name| is_unknown(name)).map(str::to_owned).collect();
    Ok(Submit {
        tool,
        fields,
        address,
        parent,
        policy,
        relations,
        files,
        requires_tool,
        wait: None,
        is_trusted: false,
        ignored,
        unknown,
    })
}

/// The work of a task: its tool, or the built-in operation for commands.
fn tool(fields: &Fields) -> Result<ToolName, Refusal> {
    let refused = |message: String| Err(Refusal::new(Code::BadOperation, message));
    let named = || command::WORK.into_iter().filter(|word| fields.get(word).is_some());
    match (named().count(), fields.get(words::OPERATION)) {
        (1, Some(Scalar::Text(name))) => {
            let tool = ToolName::new(name).or_else(|error| refused(format!("__OPERATION__ {error}")))?;
            command::read(fields).map(|_| tool)
        }
        (1, Some(other)) => refused(format!("__OPERATION__ {other} is not a text; set it to the tool to run")),
        (1, None) => command::read(fields).map(|_| ToolName::command()),
        (0, _) => refused(
            "__OPERATION__ is missing; set it to the tool to run, for example \"helloworld\", or __COMMAND__ to a command"
                .to_owned(),
        ),
        _ => {
            let several: Vec<&str> = named().collect();
            refused(format!("{} exclude one another; send one of them", several.join(" and ")))
        }
    }
}

/// Whether a name has the form of a service's field, but is not a field of a submit.
fn is_unknown(name: &str) -> bool {
    const KNOWN: [&str; 11] = [
        words::OPERATION,
        words::GIVEN_ID,
        words::FATHER_ID,
        words::ADDRESS,
        words::ADDRESS_KEY,
        words::SUBMIT_KEY,
        words::EXPECTED_DURATION,
        words::JOB,
        words::JOB_MAX_FAILS,
        words::JOB_PUSH,
        words::AFTER,
    ];
    let inner = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    let of_our_form =
        inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
    let is_known = name == words::ALLOWED_SOURCES
        || KNOWN.contains(&name)
        || command::WORDS.contains(&name)
        || source::WORDS.contains(&name)
        || task_files::WORDS.contains(&name)
        || policy::field(name).is_some();
    of_our_form && !is_known
}

/// A task to submit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// Name of the tool; `None` where `parameters` has a command.
    pub tool: Option<String>,
    /// The id chosen by the submitter.
    pub given_id: Option<String>,
    /// The parent task, whose end ends this one.
    pub parent: Option<String>,
    /// The address to which state changes are pushed.
    pub address: Option<String>,
    /// The public key of the receiver, in Z85: pushes to it then use CURVE only.
    pub address_key: Option<String>,
    /// The submit key: the same key returns the same task.
    pub submit_key: Option<String>,
    /// The job that it belongs to.
    pub job: Option<JobOf>,
    /// The terms that must be met before it starts.
    pub after: Vec<String>,
    /// All other fields, including the policy.
    pub parameters: Fields,
}

/// The job of a task to submit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobOf {
    /// Name of the job.
    pub name: String,
    /// The number of failed tasks at which the job stops.
    pub fails_max: Option<u32>,
    /// Whether the state of the job is pushed to the address of the task.
    pub is_pushed: bool,
}

impl Submission {
    /// A submission without parameters.
    #[must_use]
    pub fn new(tool: impl Into<String>) -> Self {
        Self { tool: Some(tool.into()), ..Self::default() }
    }

    /// Makes the controller refuse the submit if no agent has the tool. Otherwise it accepts the task, which then ends with -129.
    #[must_use]
    pub fn requiring_tool(self) -> Self {
        self.with(words::REQUIRE_TOOL, true)
    }

    /// A command: the program and its arguments.
    #[must_use]
    pub fn command(words: &[String]) -> Self {
        Self::default().with(words::COMMAND, command::command_text(words))
    }

    /// A line for `sh`.
    #[must_use]
    pub fn shell(line: impl Into<String>) -> Self {
        Self::default().with(words::SHELL, line.into())
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.parameters.set(name, value);
        self
    }

    /// Lets the agent fetch the program from this source. `sha256` is in hexadecimal digits. `input` stands behind run.sh in the
    /// line for the shell.
    #[must_use]
    pub fn fetched(self, source: &str, sha256: Option<&str>, input: Option<&[u8]>) -> Self {
        let sha256 = sha256.map(|sha256| (words::SOURCE_SHA256, sha256.to_owned()));
        let given = sha256.into_iter().chain(input.map(source::input_field));
        given.fold(self.with(words::SOURCE, source), |submission, (name, value)| submission.with(name, value))
    }

    /// Sets the standard input of a command.
    #[must_use]
    pub fn reading(self, text: impl Into<String>) -> Self {
        self.with(words::STDIN, text.into())
    }

    /// Names the socket through which the client passes the standard streams of a command.
    #[must_use]
    pub fn streaming(self, name: impl Into<String>) -> Self {
        self.with(words::STREAMS, name.into())
    }

    /// Sets the surroundings of a command.
    #[must_use]
    pub fn surrounded(self, surroundings: &Surroundings) -> Self {
        let fields = surroundings.fields();
        fields.iter().fold(self, |submission, (name, value)| submission.with(name, value.clone()))
    }

    /// Sets one more field of the policy: one of [`base::Policy::FIELDS`], with its value in the form of the wire,
    /// where times are in seconds or unix seconds. The controller's defaults apply to the others.
    #[must_use]
    pub fn demanding(self, field: &PolicyField, value: impl Into<Scalar>) -> Self {
        self.with(field.word, value)
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> Ask<Submitted> {
        let mut ask = TASK_SUBMIT.ask();
        if let Some(tool) = &self.tool {
            ask = ask.with(words::OPERATION, tool.as_str());
        }
        for (name, value) in self.parameters.iter().filter(|(name, _)| !is_reserved(name)) {
            ask = ask.with(name, value.clone());
        }
        let named = [
            (words::GIVEN_ID, &self.given_id),
            (words::FATHER_ID, &self.parent),
            (words::ADDRESS, &self.address),
            (words::ADDRESS_KEY, &self.address_key),
            (words::SUBMIT_KEY, &self.submit_key),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                ask = ask.with(name, value.as_str());
            }
        }
        if let Some(JobOf { name, fails_max, is_pushed }) = &self.job {
            ask = ask.with(words::JOB, name.as_str());
            ask = fails_max.iter().fold(ask, |ask, max| ask.with(words::JOB_MAX_FAILS, *max));
            ask = if *is_pushed { ask.with(words::JOB_PUSH, true) } else { ask };
        }
        if self.after.is_empty() { ask } else { ask.with(words::AFTER, self.after.join(",")) }
    }
}

/// Whether a field is part of the request itself, so that it cannot be a parameter of a task.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    [words::TYPE, words::OPERATION].contains(&name)
}

/// An accepted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Id of the task.
    pub id: String,
    /// A warning about the parts of the submit that were changed.
    pub warning: Option<String>,
    /// Whether it had been accepted before, with the same key.
    pub duplicate: bool,
}

impl From<Fields> for Submitted {
    fn from(fields: Fields) -> Self {
        let text = |name| fields.text(name).map(str::to_owned);
        let (id, warning) = (text(words::TASK_ID).unwrap_or_default(), text(words::WARNING));
        Self { id, warning, duplicate: fields.flag(words::DUPLICATE) }
    }
}

/// Writes an accepted task in the form of a query, for a submit that has waited for its end.
pub(in crate::wire) fn write_called(
    record: &TaskRecord,
    warning: Option<&str>,
    duplicate: bool,
    writer: &mut ObjectWriter<'_>,
) {
    query::write(record, 1, writer);
    write_extras(warning, duplicate, writer);
}

/// Writes the id of an accepted task.
pub(in crate::wire) fn write(task: TaskId, warning: Option<&str>, duplicate: bool, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &task.to_string());
    write_extras(warning, duplicate, writer);
}

fn write_extras(warning: Option<&str>, duplicate: bool, writer: &mut ObjectWriter<'_>) {
    if duplicate {
        writer.literal(words::DUPLICATE, true);
    }
    writer.maybe_text(words::WARNING, warning);
}
