//! Places the steps of a drawing. The layer of a step is the length of the longest way to it from a start. Within a layer, the order has
//! few crossings (the method of Sugiyama, with the barycentre rule).
//!
//! A connection that skips layers has a bend in each, so that it is drawn between the steps and not through them.

use std::collections::BTreeMap;

use base::StepIndex;
use engine::graph::Graph;

/// Passes over all layers. Further passes hardly remove another crossing.
const SWEEPS: usize = 8;

/// Maximum number of bends in a drawing. Further connections are straight lines, so that a large graph stays a small
/// drawing.
const BENDS_MAX: usize = 100_000;

/// A place in a drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Its layer, from 0.
    pub(super) layer: usize,
    /// Its row within the layer, from 0; half rows are possible.
    pub(super) row: f64,
}

/// A drawn connection. Two steps have at most one of each kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// The upstream step.
    pub(super) from: StepIndex,
    /// The downstream step.
    pub(super) to: StepIndex,
    /// Whether all its connections go to sub inputs.
    pub(super) is_sub: bool,
    /// The places that the line passes between the two steps.
    pub(super) bends: Vec<Place>,
}

/// The places of all steps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// The places of the steps, by their numbers.
    pub(super) steps: Vec<Place>,
    /// The connections.
    pub(super) lines: Vec<Line>,
    /// Number of layers.
    pub(super) layers: usize,
    /// Number of rows of the longest layer.
    pub(super) rows: usize,
}

impl Layout {
    /// Places the steps of a graph.
    pub(super) fn of(graph: &Graph) -> Self {
        let layer_of = layers(graph);
        let mut grid = Grid {
            above: vec![Vec::new(); layer_of.len()],
            below: vec![Vec::new(); layer_of.len()],
            layers: Vec::new(),
        };
        grid.layers.resize(layer_of.iter().max().map_or(0, |last| last + 1), Vec::new());
        for (node, layer) in layer_of.iter().enumerate() {
            grid.layers[*layer].push(node);
        }
        let mut lines = Vec::new();
        let mut bends_left = BENDS_MAX;
        for ((from, to), is_sub) in connections(graph) {
            let between = layer_of[from.at()] + 1..layer_of[to.at()];
            let mut bends = Vec::new();
            if let Some(left) = bends_left.checked_sub(between.len()) {
                bends_left = left;
                bends = grid.connect(from.at(), to.at(), between);
            }
            lines.push((from, to, is_sub, bends));
        }
        grid.order();
        let rows = grid.layers.iter().map(Vec::len).max().unwrap_or_default();
        let places = grid.places(rows);
        let line = |(from, to, is_sub, bends): (_, _, _, Vec<usize>)| Line {
            from,
            to,
            is_sub,
            bends: bends.into_iter().map(|node| places[node]).collect(),
        };
        let lines = lines.into_iter().map(line).collect();
        Self { steps: places[..layer_of.len()].to_vec(), lines, layers: grid.layers.len(), rows }
    }
}

/// The layer of each step.
fn layers(graph: &Graph) -> Vec<usize> {
    let mut layer_of = vec![0; graph.steps().len()];
    let mut waits_for: Vec<usize> = graph.indexes().map(|step| graph.upstream(step).count()).collect();
    let mut free: Vec<StepIndex> = graph.indexes().filter(|step| waits_for[step.at()] == 0).collect();
    while let Some(step) = free.pop() {
        for next in graph.downstream(step) {
            layer_of[next.at()] = layer_of[next.at()].max(layer_of[step.at()] + 1);
            waits_for[next.at()] -= 1;
            if waits_for[next.at()] == 0 {
                free.push(next);
            }
        }
    }
    layer_of
}

/// The pairs of connected steps, each with whether all of its connections go to sub inputs.
fn connections(graph: &Graph) -> BTreeMap<(StepIndex, StepIndex), bool> {
    let mut pairs = BTreeMap::new();
    for step in graph.indexes() {
        let plan = graph.step(step);
        for (input, number) in plan.inputs.iter().zip(0..) {
            for source in &input.sources {
                let only_sub = pairs.entry((source.step, step)).or_insert(true);
                *only_sub &= plan.is_sub(number);
            }
        }
    }
    pairs
}

/// Steps and bends as nodes. Every line goes from one layer to the next.
struct Grid {
    /// For each node, the connected nodes in the layer before.
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The nodes of each layer in their order.
    layers: Vec<Vec<usize>>,
}

impl Grid {
    /// Connects two nodes by a bend in each layer between them. Returns the bends.
    fn connect(&mut self, from: usize, to: usize, between: std::ops::Range<usize>) -> Vec<usize> {
        let mut bends = Vec::with_capacity(between.len());
        let mut last = from;
        for layer in between {
            let bend = self.above.len();
            self.above.push(vec![last]);
            self.below.push(Vec::new());
            self.below[last].push(bend);
            self.layers[layer].push(bend);
            bends.push(bend);
            last = bend;
        }
        self.below[last].push(to);
        self.above[to].push(last);
        bends
    }

    /// Orders the nodes of each layer by the average place of their neighbours, downwards and upwards in turn.
    fn order(&mut self) {
        let mut place = vec![0.0; self.above.len()];
        for layer in &self.layers {
            settle(layer, &mut place);
        }
        let count = self.layers.len();
        for sweep in 0..SWEEPS {
            let is_down = sweep % 2 == 0;
            for at in 0..count {
                let at = if is_down { at } else { count - 1 - at };
                let neighbours = if is_down { &self.above } else { &self.below };
                let middle = |node: usize| {
                    let near = &neighbours[node];
                    let sum: f64 = near.iter().map(|other| place[*other]).sum();
                    #[expect(clippy::cast_precision_loss, reason = "a drawing of so many lines has no exact places")]
                    let count = near.len() as f64;
                    if near.is_empty() { place[node] } else { sum / count }
                };
                let mut keyed: Vec<(f64, usize)> = self.layers[at].iter().map(|node| (middle(*node), *node)).collect();
                keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
                self.layers[at] = keyed.into_iter().map(|(_, node)| node).collect();
                settle(&self.layers[at], &mut place);
            }
        }
    }

    /// The places of all nodes, with each layer in the middle of the rows.
    fn places(&self, rows: usize) -> Vec<Place> {
        let mut places = vec![Place { layer: 0, row: 0.0 }; self.above.len()];
        for (layer, nodes) in self.layers.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a drawing has fewer rows than a float has exact numbers")]
            let first = (rows - nodes.len()) as f64 / 2.0;
            for (node, row) in nodes.iter().zip(0_u32..) {
                places[*node] = Place { layer, row: first + f64::from(row) };
            }
        }
        places
    }
}

/// Gives the nodes of a layer places from 0 to 1, so that layers of different lengths can be compared.
fn settle(layer: &[usize], place: &mut [f64]) {
    #[expect(clippy::cast_precision_loss, reason = "only the order counts")]
    let step = 1.0 / layer.len() as f64;
    for (node, number) in layer.iter().zip(0_u32..) {
        place[*node] = (f64::from(number) + 0.5) * step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::wire::graph::{Document, GraphRules};
    use api::wire::rules::DefaultPolicies;
    use base::GraphLimits;
    use base::json::FieldLimits;
    use serde_json::{Map, Value, json};

    /// The steps, each with the steps that it takes an input from.
    fn graph(steps: &[(&str, &[&str])]) -> Graph {
        let input = |(at, from): (usize, &&str)| (format!("i{at}"), json!([format!("{from}.out")]));
        let step = |(name, from): &(&str, &[&str])| {
            let inputs: Map<String, Value> = from.iter().enumerate().map(input).collect();
            ((*name).to_owned(), json!({ "inputs": inputs, "operation": "t", "tasks": 1 }))
        };
        let text = json!({ "steps": steps.iter().map(step).collect::<Map<_, _>>() }).to_string();
        let limits = GraphLimits { bytes_max: 10_000, steps_max: 10, connections_max: 100, tasks_max: 100 };
        let rules = GraphRules { graph: limits, fields: FieldLimits::TRUSTED, defaults: DefaultPolicies::default() };
        Graph::new(&Document::parse(&text, &rules).unwrap()).unwrap()
    }

    #[test]
    fn a_drawing_has_a_layer_for_each_length_of_way() {
        let graph = graph(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["a", "c"]), ("e", &["a"])]);
        let layout = Layout::of(&graph);
        let layers: Vec<usize> = layout.steps.iter().map(|place| place.layer).collect();
        assert_eq!(layers, [0, 1, 2, 3, 1]);
        let long = layout.lines.iter().find(|line| (line.from, line.to) == (StepIndex(0), StepIndex(3))).unwrap();
        assert_eq!(long.bends.iter().map(|bend| bend.layer).collect::<Vec<_>>(), [1, 2]);
        let mut places: Vec<(usize, String)> =
            layout.steps.iter().map(|place| (place.layer, place.row.to_string())).collect();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), 5, "no two steps share a place");
    }

    #[test]
    fn a_drawing_of_two_parallel_ways_has_no_crossing() {
        let graph = graph(&[("a", &[]), ("b", &[]), ("c", &["b"]), ("d", &["a"]), ("e", &["d"]), ("f", &["c"])]);
        let layout = Layout::of(&graph);
        for one in &layout.lines {
            for other in layout
                .lines
                .iter()
                .filter(|other| layout.steps[other.from.0 as usize].layer == layout.steps[one.from.0 as usize].layer)
            {
                let row = |step: StepIndex| layout.steps[step.0 as usize].row;
                let crosses = (row(one.from) - row(other.from)) * (row(one.to) - row(other.to)) < 0.0;
                assert!(!crosses, "{one:?} crosses {other:?}");
            }
        }
    }
}
