//! One step of a document: its work, its ports, and the number of its tasks.

use std::collections::{BTreeMap, BTreeSet};

use super::GraphRules;
use super::fields::{check_size, is_of_a_command, parameters, policy};
use super::node::Node;
use super::table::{Place, Table, bad};
use crate::wire::{command, policy, source, typed};
use base::code::{Code, Refusal, shown};
use base::{Fields, PortName, Scalar, StepName, ToolName, nearest_hint, words};

/// The keys of a step.
const KEYS: [&str; 10] = [
    "operation",
    "command",
    "parameters",
    "policy",
    "inputs",
    "sub_inputs",
    "outputs",
    "tasks",
    "prepare",
    "propagate",
];

/// The name of the output of a step that names none.
const OUTPUT: &str = "out";

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDocument {
    /// Its name.
    pub name: StepName,
    /// What its tasks do.
    pub work: Work,
    /// Its main inputs, in the order of the document.
    pub inputs: Vec<Port>,
    /// Its sub inputs, in the order of the document.
    pub sub_inputs: Vec<Port>,
    /// Its outputs; no name stands twice.
    pub outputs: Vec<PortName>,
    /// Its main tasks.
    pub tasks: TaskCount,
    /// Whether it is told to end early when all its downstream steps have ended.
    pub propagates: bool,
}

impl StepDocument {
    /// All inputs: the main ones, then the sub inputs.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.inputs.iter().chain(&self.sub_inputs)
    }

    /// Whether it has a main task for each partition of an input.
    #[must_use]
    pub const fn is_per_partition(&self) -> bool {
        matches!(self.tasks, TaskCount::PerPartition(_))
    }
}

/// The work of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// None: its inputs go to its outputs.
    Exchange,
    /// Tasks with these fields of a submit: the tool or the command, the policy, the parameters.
    Tasks(Fields),
}

/// The number of the main tasks of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskCount {
    /// This many.
    Number(u32),
    /// One for each partition that this main input gets.
    PerPartition(PortName),
}

/// One input of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name, unique among the inputs of its step.
    pub name: PortName,
    /// The outputs that it takes: at least one, each once.
    pub sources: Vec<Source>,
    /// The number of tasks that prepare a sub input; 0 for a main input.
    pub tasks: u32,
}

/// An output of a step, as an input names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The step.
    pub step: StepName,
    /// Its output.
    pub port: PortName,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.step, self.port)
    }
}

/// Reads one step. `common` is the policy of the graph.
pub(super) fn read(name: StepName, node: Node, common: &Fields, rules: &GraphRules) -> Result<StepDocument, Refusal> {
    let mut table = Table::of(Place::Step(name.clone()), node, &KEYS)?;
    let work = work(&mut table, common, rules)?;
    let inputs = ports(&mut table, "inputs")?;
    let mut sub_inputs = ports(&mut table, "sub_inputs")?;
    let mains: BTreeSet<&PortName> = inputs.iter().map(|port| &port.name).collect();
    if let Some(port) = sub_inputs.iter().find(|port| mains.contains(&port.name)) {
        return Err(bad(&table.place, format_args!("the port {} is an input and a sub input; rename one", port.name)));
    }
    prepare(&mut table, &mut sub_inputs)?;
    let outputs = outputs(&mut table)?;
    let tasks = if work == Work::Exchange { TaskCount::Number(0) } else { tasks(&mut table, &inputs)? };
    let propagates = match table.take("propagate") {
        None => true,
        Some(Node::Scalar(Scalar::Bool(truth))) => truth,
        Some(other) => return Err(table.bad("propagate", &other, "true or false")),
    };
    Ok(StepDocument { name, work, inputs, sub_inputs, outputs, tasks, propagates })
}

/// The files beside the folder of a tool that runs a task of a step. The folder has the name of the tool, so a tool cannot have
/// these names.
const FILES_OF_A_TASK: [&str; 4] = ["inputs", "provide", "out", "finish"];

/// The work of a step, with the fields of its tasks.
fn work(table: &mut Table, common: &Fields, rules: &GraphRules) -> Result<Work, Refusal> {
    let (operation, command) = (table.text("operation")?, table.take("command"));
    let mut fields = Fields::new();
    let tool = match (operation, command) {
        (Some(_), Some(_)) => {
            return Err(bad(&table.place, "operation and command exclude one another; use one of them"));
        }
        (None, None) => {
            // None of these keys makes sense for a step without tasks.
            let strays = ["parameters", "policy", "tasks", "prepare", "sub_inputs"].into_iter();
            return match strays.map(|key| (key, table.take(key))).find(|(_, node)| node.is_some()) {
                Some((key, _)) => Err(of_an_exchange(table, key)),
                None => Ok(Work::Exchange),
            };
        }
        (Some(name), None) => {
            let tool = ToolName::new(&name).map_err(|error| Refusal {
                code: Code::BadOperation,
                ..bad(&table.place, format_args!("operation {error}"))
            })?;
            if FILES_OF_A_TASK.contains(&name.as_str()) {
                let what = format!(
                    "the tool {name} would run in ../{name}, which a task of a step needs for itself; rename the tool"
                );
                return Err(Refusal { code: Code::BadOperation, ..bad(&table.place, what) });
            }
            fields.set(words::OPERATION, name);
            tool
        }
        (None, Some(words)) => {
            fields.set(words::COMMAND, command_text(table, words)?);
            ToolName::command()
        }
    };
    let (own, parameters) = (policy(table)?, parameters(table)?);
    for (name, value) in common.iter().filter(|(name, _)| own.get(name).is_none()).chain(own.iter()) {
        // The fields of the common policy that concern commands are for steps with a command only.
        if own.get(name).is_some() || tool.is_command() || !is_of_a_command(name) {
            fields.push(name.to_owned(), value.clone());
        }
    }
    let about = |refusal: Refusal| Refusal { code: refusal.code, ..bad(&table.place, &refusal.message) };
    policy::read(&fields, rules.defaults.of(&tool)).map_err(about)?;
    command::read(&fields).map_err(about)?;
    source::check(&fields).map_err(about)?;
    typed::seconds(&fields, words::EXPECTED_DURATION).map_err(about)?;
    for (name, value) in parameters.iter() {
        fields.push(name.to_owned(), value.clone());
    }
    check_size(&fields, &rules.fields).map_err(about)?;
    Ok(Work::Tasks(fields))
}

fn of_an_exchange(table: &Table, key: &str) -> Refusal {
    let what =
        format!("{key} has no meaning without operation or command: such a step has no tasks, it hands its inputs on");
    bad(&table.place, what)
}

/// The program and its arguments, in the form of a submit.
fn command_text(table: &Table, node: Node) -> Result<String, Refusal> {
    const WANTED: &str = "a list of texts: the program, which is not empty, then its arguments";
    let items = match node {
        Node::List(items) if items.is_empty() => {
            return Err(bad(&table.place, format_args!("command is empty; it must be {WANTED}")));
        }
        Node::List(items) => items,
        other => return Err(table.bad("command", &other, WANTED)),
    };
    let text = |item: Node| match item {
        Node::Scalar(Scalar::Text(text)) if text.contains('\0') => {
            Err(bad(&table.place, "command: an element contains a NUL character, which no argument can"))
        }
        Node::Scalar(Scalar::Text(text)) => Ok(text),
        other => Err(table.bad("command: an element", &other, "a text")),
    };
    let items = items.into_iter().map(text).collect::<Result<Vec<String>, Refusal>>()?;
    Ok(command::command_text(&items))
}

/// The ports below one key, each with its sources.
fn ports(table: &mut Table, key: &str) -> Result<Vec<Port>, Refusal> {
    let Some(node) = table.take(key) else { return Ok(Vec::new()) };
    let read = |(name, node): (String, Node)| {
        let name = port_name(table, key, &name)?;
        let wanted = "a list of at least one output, each as \"step.port\"";
        let Node::List(items) = node else { return Err(table.bad(&format!("{key}: {name}"), &node, wanted)) };
        let mut seen = BTreeSet::new();
        let mut sources = Vec::with_capacity(items.len());
        for item in items {
            let source = source(table, key, &name, &item)?;
            if !seen.insert(source.clone()) {
                let what = format!("{key}: {name} takes {source} twice; once is enough");
                return Err(bad(&table.place, what));
            }
            sources.push(source);
        }
        if sources.is_empty() {
            return Err(bad(&table.place, format_args!("{key}: {name} is empty; it must be {wanted}")));
        }
        Ok(Port { name, sources, tasks: u32::from(key == "sub_inputs") })
    };
    table.members(key, node)?.into_iter().map(read).collect()
}

fn source(table: &Table, key: &str, port: &PortName, item: &Node) -> Result<Source, Refusal> {
    let text = match item {
        Node::Scalar(Scalar::Text(text)) => text,
        other => return Err(table.bad(&format!("{key}: an element of {port}"), other, "a text \"step.port\"")),
    };
    let names = text
        .split_once('.')
        .and_then(|(step, port)| Some(Source { step: StepName::new(step).ok()?, port: PortName::new(port).ok()? }));
    names.ok_or_else(|| {
        let what =
            format!("{key}: {port} takes {}; write the name of a step, a dot, and the name of its output", shown(text));
        bad(&table.place, what)
    })
}

fn port_name(table: &Table, key: &str, name: &str) -> Result<PortName, Refusal> {
    PortName::new(name).map_err(|error| bad(&table.place, format_args!("{key}: {error}")))
}

/// The numbers of the tasks that prepare the sub inputs.
fn prepare(table: &mut Table, sub_inputs: &mut [Port]) -> Result<(), Refusal> {
    let Some(node) = table.take("prepare") else { return Ok(()) };
    let mut by_name: BTreeMap<String, &mut Port> =
        sub_inputs.iter_mut().map(|port| (port.name.to_string(), port)).collect();
    for (name, value) in table.members("prepare", node)? {
        let Some(port) = by_name.get_mut(&name) else {
            let hint = nearest_hint(&name, by_name.keys().map(String::as_str));
            return Err(bad(&table.place, format_args!("prepare: {} is not a sub input{hint}", shown(&name))));
        };
        port.tasks = count(&value).ok_or_else(|| table.bad(&format!("prepare: {name}"), &value, COUNT))?;
    }
    Ok(())
}

fn outputs(table: &mut Table) -> Result<Vec<PortName>, Refusal> {
    let Some(node) = table.take("outputs") else { return Ok(vec![port_name(table, "outputs", OUTPUT)?]) };
    let Node::List(items) = node else { return Err(table.bad("outputs", &node, "a list of names")) };
    let mut names = Vec::with_capacity(items.len());
    let mut seen = BTreeSet::new();
    for item in items {
        let Node::Scalar(Scalar::Text(text)) = &item else {
            return Err(table.bad("outputs: an element", &item, "a name"));
        };
        let name = port_name(table, "outputs", text)?;
        if !seen.insert(name.clone()) {
            return Err(bad(&table.place, format_args!("outputs: {name} stands twice; once is enough")));
        }
        names.push(name);
    }
    Ok(names)
}

/// The wanted form of a number of tasks.
const COUNT: &str = "a whole number from 0 to 4294967295";

fn tasks(table: &mut Table, inputs: &[Port]) -> Result<TaskCount, Refusal> {
    let Some(node) = table.take("tasks") else { return Ok(TaskCount::Number(1)) };
    if let Node::Scalar(Scalar::Text(name)) = &node {
        let port = inputs.iter().find(|port| port.name.as_str() == name);
        return port.map(|port| TaskCount::PerPartition(port.name.clone())).ok_or_else(|| {
            let hint = nearest_hint(name, inputs.iter().map(|port| port.name.as_str()));
            bad(&table.place, format_args!("tasks is {}, which is not a main input{hint}", shown(name)))
        });
    }
    let count = count(&node).ok_or_else(|| table.bad("tasks", &node, format_args!("{COUNT}, or a main input")))?;
    Ok(TaskCount::Number(count))
}

fn count(node: &Node) -> Option<u32> {
    match node {
        Node::Scalar(scalar) => u32::try_from(scalar.as_u64()?).ok(),
        Node::List(_) | Node::Table(_) => None,
    }
}
