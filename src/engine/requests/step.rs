//! STEP/PROVIDING and STEP/COMPLETE: a running task hands a location on; a step ends early.

use super::{Code, Controller, Refusal, Reply};
use api::wire::requests::step::Providing;
use base::{GraphEvent, GraphId, Now, Phase, PortName, StepName, nearest_hint};

impl Controller {
    /// A running main task announces a location.
    pub(super) fn provide(&mut self, now: Now, providing: Providing) -> Result<Reply, Refusal> {
        let Providing { task, round, port, location } = providing;
        let record = self.known(task)?;
        let not_allowed = |why: String| Err(Refusal::new(Code::NotAllowed, why));
        let Some(place) = record.place() else { return not_allowed(format!("task {task} is not one of a step graph")) };
        if let Some(sub_input) = &place.prepares {
            return not_allowed(format!(
                "task {task} prepares the sub input {sub_input} of step {}: only main tasks provide",
                place.step
            ));
        }
        if let Some(round) = round.filter(|round| *round != record.round) {
            return not_allowed(format!("task {task} is in round {}, not in round {round}", record.round));
        }
        if matches!(record.stored_state().phase(), Phase::Waiting | Phase::Ended | Phase::Finished) {
            return not_allowed(format!("task {task} does not run, so it provides nothing"));
        }
        let (round, id) = (record.round.0, place.graph);
        let Some(graph) = self.graphs.get(id) else { return Err(Refusal::no_such_graph(id)) };
        let Some(slot) = graph.slot(place) else { return Err(Refusal::no_such_graph(id)) };
        let plan = graph.run.scheduler().graph().step(slot.step);
        let Some(output) = plan.outputs.iter().position(|output| output.name == port) else {
            let hint = match plan.outputs.is_empty() {
                true => "; it has none".to_owned(),
                false => nearest_hint(port.as_str(), plan.outputs.iter().map(|output| PortName::as_str(&output.name))),
            };
            let message = format!("step {} has no output {port}{hint}", plan.name);
            return Err(Refusal::new(Code::BadField, message));
        };
        let output = u32::try_from(output).unwrap_or(u32::MAX);
        let event = GraphEvent::Announced { slot, round, output, location };
        if self.graph_event(now, id, event) {
            return Ok(Reply::Done);
        }
        not_allowed(format!("graph {id} ends: nothing more of it starts"))
    }

    /// A step ends early. One that has ended, or is about to, stays as it is.
    pub(super) fn complete_step(&mut self, now: Now, id: GraphId, name: &StepName) -> Result<Reply, Refusal> {
        let Some(graph) = self.graphs.get(id) else { return Err(Refusal::no_such_graph(id)) };
        let Some(step) = graph.step(name) else {
            let names = graph.accepted.document.steps.iter().map(|step| step.name.as_str());
            let message = format!("graph {id} has no step {name}{}", nearest_hint(name.as_str(), names));
            return Err(Refusal::new(Code::InvalidTaskId, message));
        };
        self.graph_event(now, id, GraphEvent::Complete(step));
        Ok(Reply::Done)
    }
}
