//! TASK/SUBMIT (document, section 2.1): a client has a tool run.

use std::sync::Arc;

use super::{Ask, Code, Kind, Reader, Refusal, Request, json, words};
use crate::protocol::json::ObjectWriter;
use crate::protocol::typed::bad;
use crate::protocol::{address, policy, task};
use crate::types::{Fields, Policy, PolicyField, PushAddress, Scalar, TaskId, ToolName};

/// Run a tool.
pub const TASK_SUBMIT: Kind = Kind::order("TASK/SUBMIT", |reader| Ok(Request::Submit(Box::new(read(reader)?))));

/// A task to be accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Submit {
    /// The tool to run.
    pub tool: ToolName,
    /// Everything that was sent, but for the names that the service sets itself.
    pub fields: Fields,
    /// Where to push states to.
    pub address: Option<PushAddress>,
    /// The task whose end ends this one.
    pub parent: Option<Parent>,
    /// What it demands of its life.
    pub policy: Arc<Policy>,
    /// The names that were sent although the service sets them itself.
    pub ignored: Vec<String>,
    /// The names that look like fields of the service and are none: those of a newer one, or mistyped. They are parameters.
    pub unknown: Vec<String>,
}

impl Submit {
    /// Takes the father out: nobody knows it.
    pub fn forget_parent(&mut self) {
        self.parent = None;
        self.fields.remove(words::FATHER_ID);
    }

    /// `__SUBMIT_KEY__` as JSON.
    #[must_use]
    pub fn submit_key(&self) -> Option<String> {
        let key = self.fields.get(words::SUBMIT_KEY)?;
        task::value_of(&json::members(&Fields::new().with(words::SUBMIT_KEY, key.clone()))).map(str::to_owned)
    }

    /// What was submitted as members of a JSON object.
    #[must_use]
    pub fn members(&self) -> Arc<str> {
        json::members(&self.fields).into()
    }
}

/// What `__FATHER_ID__` named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent {
    /// An id that a task may have.
    Task(TaskId),
    /// Something that is no id.
    NoTask(String),
}

fn read(Reader { mut fields, rules, .. }: Reader<'_>) -> Result<Submit, Refusal> {
    let tool = match fields.get(words::OPERATION) {
        None => Err("__OPERATION__ is missing; name the tool to run, for example \"helloworld\"".to_owned()),
        Some(Scalar::Text(name)) => ToolName::new(name).map_err(|error| format!("__OPERATION__ {error}")),
        Some(other) => Err(format!("__OPERATION__ {other} is not a text; name the tool to run")),
    };
    let tool = tool.map_err(|message| Refusal::new(Code::BadOperation, message))?;
    let mut ignored = Vec::new();
    fields.retain(|name, _| {
        let ours = task::is_ours(name);
        if ours {
            ignored.push(name.to_owned());
        }
        !ours
    });
    let address = address::read(&fields, rules)?;
    let parent = fields.get(words::FATHER_ID).map(|value| {
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.map_or_else(|| Parent::NoTask(value.to_string()), Parent::Task)
    });
    let policy = policy::read(&fields, &rules.defaults)?;
    if let Some(key) = fields.get(words::SUBMIT_KEY).filter(|key| key.as_text().is_none_or(str::is_empty)) {
        return Err(bad(words::SUBMIT_KEY, key, "a text that is not empty, chosen anew for each task"));
    }
    let unknown = fields.iter().map(|(name, _)| name).filter(|name| is_unknown(name)).map(str::to_owned).collect();
    Ok(Submit { tool, fields, address, parent, policy, ignored, unknown })
}

/// Whether a name has the form of those of the service, and a submit has no field of that name.
fn is_unknown(name: &str) -> bool {
    const KNOWN: [&str; 6] =
        [words::OPERATION, words::GIVEN_ID, words::FATHER_ID, words::ADDRESS, words::ADDRESS_KEY, words::SUBMIT_KEY];
    let inner = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    let of_our_form =
        inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
    of_our_form && !KNOWN.contains(&name) && policy::field(name).is_none()
}

/// A task to submit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Submission {
    /// The tool to run.
    pub tool: String,
    /// The id that the submitter chose.
    pub given_id: Option<String>,
    /// The task whose end ends this one.
    pub parent: Option<String>,
    /// Where changes of its state are pushed to.
    pub address: Option<String>,
    /// The public key of who is there, in Z85: it is pushed to with CURVE then, and never without.
    pub address_key: Option<String>,
    /// The same key returns the same task.
    pub submit_key: Option<String>,
    /// Everything else, what it demands of its life among it.
    pub parameters: Fields,
}

impl Submission {
    /// A submission without parameters.
    #[must_use]
    pub fn new(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), ..Self::default() }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Scalar>) -> Self {
        self.parameters.set(name, value);
        self
    }

    /// Demands one thing more of its life: a field of [`crate::types::Policy::FIELDS`], with its value as the wire has it, which is
    /// in seconds, or unix seconds, for times. What is not demanded is for the controller to say.
    #[must_use]
    pub fn demanding(self, field: &PolicyField, value: impl Into<Scalar>) -> Self {
        self.with(&policy::word(field), value)
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> Ask<Submitted> {
        let mut ask = TASK_SUBMIT.ask().with(words::OPERATION, self.tool.as_str());
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
        ask
    }
}

/// Whether a field says what the request is, so that it cannot be a parameter of a task.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    [words::TYPE, words::OPERATION].contains(&name)
}

/// An accepted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its id.
    pub id: String,
    /// What was not taken as it was sent.
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

/// Writes which task was accepted.
pub(in crate::protocol) fn write(task: TaskId, warning: Option<&str>, duplicate: bool, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &task.to_string());
    if duplicate {
        writer.literal(words::DUPLICATE, true);
    }
    writer.maybe_text(words::WARNING, warning);
}
