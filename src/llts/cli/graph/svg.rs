//! A graph as a drawing: the layers of [`Layout`] from left to right, sub inputs as dashed lines, exchanges as ovals.

use std::fmt::Write as _;

use super::document::Drawn;
use super::dot::{colour, tasks};
use super::layout::{Layout, Line, Place};
use api::wire::graph::state;

/// Width of a letter in pixels. It is that of a wide letter at this size, because the reader's font is unknown.
const LETTER: f64 = 7.8;
const PADDING: f64 = 14.0;
const BOX_HEIGHT: f64 = 40.0;
const ROW_HEIGHT: f64 = 64.0;
const GAP: f64 = 72.0;
const MARGIN: f64 = 24.0;
const TITLE_HEIGHT: f64 = 28.0;

const STYLE: &str = "  <style>
    text { font: 13px ui-monospace, monospace; text-anchor: middle; fill: #1c2430 }
    text.tasks { font-size: 10px; fill: #5a6675 }
    text.title { font-size: 15px; text-anchor: start }
    .step { fill: #eef2f7; stroke: #8795a6 }
    .line { fill: none; stroke: #8795a6; stroke-width: 1.3; marker-end: url(#arrow) }
    .sub { stroke-dasharray: 5 4 }
  </style>
  <defs>
    <marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">
      <path d=\"M0,0 L8,4 L0,8 z\" fill=\"#8795a6\"/>
    </marker>
  </defs>
";

/// The horizontal extent of a layer.
#[derive(Clone, Copy)]
struct Column {
    left: f64,
    width: f64,
}

/// The drawing.
pub(super) fn text(drawn: &Drawn) -> String {
    let graph = &drawn.graph;
    let layout = Layout::of(graph);
    let columns = columns(drawn, &layout);
    let right = columns.last().map_or(0.0, |column| column.left + column.width) + MARGIN;
    let rows = u32::try_from(layout.rows).unwrap_or(u32::MAX);
    let (width, height) = (right, MARGIN * 2.0 + TITLE_HEIGHT + f64::from(rows) * ROW_HEIGHT);
    let title = escaped(&drawn.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\">\n  <title>{title}</title>\n{STYLE}  <text class=\"title\" x=\"{MARGIN}\" y=\"{MARGIN}\">{title}</text>\n"
    );
    for line in &layout.lines {
        let class = if line.is_sub { "line sub" } else { "line" };
        // Writing into a String cannot fail.
        let _ = writeln!(out, "  <path class=\"{class}\" d=\"{}\"/>", path(line, &layout, &columns));
    }
    for (step, place) in graph.steps().iter().zip(&layout.steps) {
        let (column, middle) = (columns[place.layer], y(*place));
        let (centre, top) = (column.left + column.width / 2.0, middle - BOX_HEIGHT / 2.0);
        let (tasks, radius) = match tasks(step.main, &step.inputs) {
            Some(tasks) => (tasks, 6.0),
            None => ("exchange".to_owned(), BOX_HEIGHT / 2.0),
        };
        let (mut fill, mut tasks) = (String::new(), tasks);
        if let Some(reached) = drawn.state(&step.name) {
            fill = format!(" style=\"fill: {}\"", colour(reached));
            tasks = format!("{}, {tasks}", state(reached).to_lowercase());
        }
        let _ = writeln!(
            out,
            "  <rect class=\"step\"{fill} x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\"/>\n  \
             <text x=\"{centre:.1}\" y=\"{:.1}\">{}</text>\n  <text class=\"tasks\" x=\"{centre:.1}\" y=\"{:.1}\">{}</text>",
            column.left,
            column.width,
            middle - 2.0,
            escaped(step.name.as_str()),
            middle + 12.0,
            escaped(&tasks)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The columns of the layers, each as wide as its longest text.
fn columns(drawn: &Drawn, layout: &Layout) -> Vec<Column> {
    let mut letters = vec![8; layout.layers];
    for (step, place) in drawn.graph.steps().iter().zip(&layout.steps) {
        // The second line is smaller.
        let reached = drawn.state(&step.name).map_or(0, |reached| state(reached).len() + 2);
        let tasks = (tasks(step.main, &step.inputs).map_or(8, |tasks| tasks.len()) + reached) * 4 / 5;
        letters[place.layer] = letters[place.layer].max(step.name.as_str().len()).max(tasks);
    }
    let mut left = MARGIN;
    let column = |letters: usize| {
        let width = f64::from(u32::try_from(letters).unwrap_or(u32::MAX)) * LETTER + PADDING * 2.0;
        let column = Column { left, width };
        left += width + GAP;
        column
    };
    letters.into_iter().map(column).collect()
}

fn y(place: Place) -> f64 {
    MARGIN + TITLE_HEIGHT + (place.row + 0.5) * ROW_HEIGHT
}

/// A line from the right side of a step to the left side of the next one, level where it passes a layer.
fn path(line: &Line, layout: &Layout, columns: &[Column]) -> String {
    let (from, to) = (layout.steps[line.from.0 as usize], layout.steps[line.to.0 as usize]);
    let mut at = (columns[from.layer].left + columns[from.layer].width, y(from));
    let mut path = format!("M{:.1},{:.1}", at.0, at.1);
    let mut curve = |to: (f64, f64), from: (f64, f64)| {
        let half = (to.0 - from.0) / 2.0;
        let _ =
            write!(path, " C{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}", from.0 + half, from.1, to.0 - half, to.1, to.0, to.1);
    };
    for bend in &line.bends {
        let (column, level) = (columns[bend.layer], y(*bend));
        curve((column.left, level), at);
        at = (column.left + column.width, level);
        curve(at, (column.left, level));
    }
    curve((columns[to.layer].left, y(to)), at);
    path
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
