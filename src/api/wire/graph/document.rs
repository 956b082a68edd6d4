//! The whole document: its keys and its limits.

use super::step::{self, StepDocument, TaskCount};
use super::table::{Place, Table, bad};
use super::{GraphRules, fields, node};
use base::code::{Code, Refusal};
use base::{GraphLimits, StepName};

/// Number of values allowed per possible step: room for its keys, its ports and some parameters.
const VALUES_PER_STEP: usize = 32;

/// Longest name of a graph.
const NAME_BYTES_MAX: usize = 256;

/// A document whose steps are valid, each by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// A text for people.
    pub name: Option<String>,
    /// The steps, in the order of the document.
    pub steps: Vec<StepDocument>,
}

/// Refuses a document that is too long.
///
/// # Errors
/// -1008
pub fn check_bytes(bytes: usize, limits: &GraphLimits) -> Result<(), Refusal> {
    let max = limits.bytes_max;
    if bytes <= max {
        return Ok(());
    }
    Err(too_many(format!("the graph has {bytes} bytes; at most {max} are accepted (GRAPH_BYTES_MAX)")))
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// -1006 for an invalid name of a tool; -1008 when a limit is exceeded; -1007 for everything else. The sentence names the
    /// step.
    pub fn parse(text: &str, rules: &GraphRules) -> Result<Self, Refusal> {
        let limits = &rules.graph;
        check_bytes(text.len(), limits)?;
        if !node::is_json(text) && text.len() > limits.toml_bytes_max() {
            let (bytes, max) = (text.len(), limits.toml_bytes_max());
            return Err(too_many(format!(
                "the graph has {bytes} bytes of TOML; at most {max} are accepted (a sixteenth of GRAPH_BYTES_MAX); write it as JSON"
            )));
        }
        let values_max = limits.steps_max.saturating_mul(VALUES_PER_STEP).saturating_add(limits.connections_max);
        let mut table = Table::of(Place::Graph, node::read(text, values_max)?, &["name", "steps", "policy"])?;
        let name = table.text("name")?;
        if name.as_ref().is_some_and(|name| name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control)) {
            return Err(bad(
                &Place::Graph,
                format_args!("name has more than {NAME_BYTES_MAX} bytes, or a control character"),
            ));
        }
        let policy = fields::policy(&mut table)?;
        let steps = table.take("steps").map(|steps| table.members("steps", steps)).transpose()?.unwrap_or_default();
        if steps.is_empty() {
            return Err(bad(&Place::Graph, "has no steps; give it a table `steps` with at least one"));
        }
        if steps.len() > limits.steps_max {
            let (count, max) = (steps.len(), limits.steps_max);
            return Err(too_many(format!("the graph has {count} steps; at most {max} are accepted (GRAPH_STEPS_MAX)")));
        }
        let read = |(name, node): (String, _)| {
            let name = StepName::new(&name).map_err(|error| bad(&Place::Graph, format_args!("steps: {error}")))?;
            step::read(name, node, &policy, rules)
        };
        let document = Self { name, steps: steps.into_iter().map(read).collect::<Result<_, _>>()? };
        document.check_counts(limits)?;
        Ok(document)
    }

    /// The number of connections between steps.
    #[must_use]
    pub fn connections(&self) -> usize {
        let of_step = |step: &StepDocument| step.ports().map(|port| port.sources.len()).sum::<usize>();
        self.steps.iter().map(of_step).sum()
    }

    /// The number of tasks that is known before the graph runs. A step with a task for each partition adds more later.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.steps.iter().map(tasks_of).fold(0, usize::saturating_add)
    }

    fn check_counts(&self, limits: &GraphLimits) -> Result<(), Refusal> {
        let (connections, max) = (self.connections(), limits.connections_max);
        if connections > max {
            return Err(too_many(format!(
                "the graph has {connections} connections; at most {max} are accepted (GRAPH_CONNECTIONS_MAX)"
            )));
        }
        let (tasks, max) = (self.tasks(), limits.tasks_max);
        if tasks > max {
            let largest = self.steps.iter().max_by_key(|step| tasks_of(step));
            let of_step = largest.map(|step| format!("; step {} has {} of them", step.name, tasks_of(step)));
            return Err(too_many(format!(
                "the graph has {tasks} tasks; at most {max} are accepted (GRAPH_TASKS_MAX){}",
                of_step.unwrap_or_default()
            )));
        }
        Ok(())
    }
}

/// Number of tasks of a step that are known before it runs.
fn tasks_of(step: &StepDocument) -> usize {
    let main = if let TaskCount::Number(count) = step.tasks { count } else { 0 };
    let prepare = step.sub_inputs.iter().map(|port| port.tasks);
    prepare.chain([main]).map(|count| usize::try_from(count).unwrap_or(usize::MAX)).fold(0, usize::saturating_add)
}

fn too_many(message: String) -> Refusal {
    Refusal::new(Code::LimitReached, message)
}
