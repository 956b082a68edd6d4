//! The result of a measurement as a table in Markdown, and as JSON.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use base::Wall;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{BenchError, Machine, Measured, Row, Spread, Unit};

const HEAD: [&str; 7] = ["case", "what", "measured", "against", "ratio", "goal", "met"];

/// The results of all cases.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) at: Wall,
    pub(crate) is_quick: bool,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// Prints the table, or JSON for `-`; writes JSON into any other named file.
    pub(crate) fn print(&self, json: Option<&Path>) -> Result<(), BenchError> {
        let text = match json {
            Some(path) if path == Path::new("-") => format!("{}\n", self.to_json()),
            Some(path) => {
                let written = fs::write(path, format!("{:#}\n", self.to_json()));
                written.map_err(BenchError::io(format!("write {}", path.display())))?;
                self.to_markdown()
            }
            None => self.to_markdown(),
        };
        std::io::stdout().write_all(text.as_bytes()).map_err(BenchError::io("write to stdout"))
    }

    /// The cells are padded, so that a terminal shows columns.
    fn to_markdown(&self) -> String {
        let rows: Vec<[String; HEAD.len()]> = self.rows.iter().map(cells).collect();
        let head = HEAD.map(str::to_owned);
        let length = |column: usize| {
            let cells = rows.iter().chain([&head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or_default()
        };
        let widths: [usize; HEAD.len()] = std::array::from_fn(length);
        let line = |cells: &[String; HEAD.len()]| {
            let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule = widths.map(|width| "-".repeat(width));
        let lines = [&head, &rule].into_iter().chain(&rows).map(line);
        format!("{}\n\n{}", self.about(), lines.collect::<String>())
    }

    /// The machine, the date and the command.
    fn about(&self) -> String {
        let Machine { processor, cores, kernel, load, .. } = &self.machine;
        let command = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        let command = command.collect::<Vec<_>>().join(" ");
        let quick = if self.is_quick { " With `--quick`: the numbers say nothing about speed." } else { "" };
        format!(
            "{processor}, {cores} cores, Linux {kernel}, load {load} before the start; {}; llts {}; `llts-bench {command}`. \
             Each number is the median of alternating rounds (least to greatest).{quick}",
            self.date(),
            env!("CARGO_PKG_VERSION"),
        )
    }

    fn date(&self) -> String {
        let at = i64::try_from(self.at.micros()).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok());
        at.map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
    }

    fn to_json(&self) -> Value {
        let Machine { processor, cores, kernel, load, is_in_memory } = &self.machine;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "date": self.date(),
            "quick": self.is_quick,
            "machine": {
                "processor": processor,
                "cores": cores,
                "kernel": kernel,
                "load": load,
                "folder_in_memory": is_in_memory,
            },
            "rows": self.rows.iter().map(row_to_json).collect::<Vec<_>>(),
        })
    }
}

fn row_to_json(row: &Row) -> Value {
    let case = row.case().name();
    let row = match row {
        Row::Measured(_, row) => row,
        Row::Skipped(_, why) => return json!({ "case": case, "skipped": why }),
        Row::Failed(_, why) => return json!({ "case": case, "failed": why }),
    };
    let spread = |spread: &Spread| json!({ "median": spread.median, "min": spread.min, "max": spread.max });
    let rival = row.rival.as_ref().map(|rival| json!({ "name": rival.name, "numbers": spread(&rival.spread) }));
    json!({
        "case": case,
        "what": row.what,
        "unit": row.unit.name(),
        "numbers": spread(&row.spread),
        "rival": rival,
        "ratio": row.ratio,
        "goal": row.goal.as_ref().map(|goal| &goal.text),
        "met": row.goal.as_ref().map(|goal| goal.is_met),
    })
}

fn cells(row: &Row) -> [String; HEAD.len()] {
    let case = row.case().name().to_owned();
    let instead = |what: String| [case.clone(), what].into_iter().chain(std::iter::repeat(String::new()));
    let row = match row {
        Row::Measured(_, row) => row,
        Row::Skipped(_, why) => return filled(instead(format!("skipped: {why}"))),
        Row::Failed(_, why) => return filled(instead(format!("failed: {why}"))),
    };
    let Measured { unit, spread, rival, ratio, goal, .. } = row;
    let rival = rival.as_ref().map(|rival| format!("{} {}", rival.name, show(*unit, &rival.spread)));
    let (text, met) = goal.as_ref().map(|goal| (goal.text.clone(), if goal.is_met { "yes" } else { "no" })).unzip();
    [
        case,
        row.what.clone(),
        show(*unit, spread),
        rival.unwrap_or_default(),
        ratio.map(|ratio| Unit::Ratio.show(ratio)).unwrap_or_default(),
        text.unwrap_or_default(),
        met.unwrap_or_default().to_owned(),
    ]
}

fn filled(mut cells: impl Iterator<Item = String>) -> [String; HEAD.len()] {
    std::array::from_fn(|_| cells.next().unwrap_or_default())
}

fn show(unit: Unit, spread: &Spread) -> String {
    let Spread { median, min, max } = *spread;
    if min == max {
        return unit.show(median);
    }
    format!("{} ({} to {})", unit.show(median), unit.show(min), unit.show(max))
}
