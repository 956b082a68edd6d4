//! The result of a measurement as a table for a terminal, as Markdown, and as JSON.

use std::fs;
use std::path::Path;

use chrono::DateTime;
use serde_json::{Value, json};

use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::table::Table;
use crate::shell::bench::{Machine, Measured, Row, Spread, Unit, transport_word};
use crate::types::Wall;

const HEAD: [&str; 7] = ["CASE", "WHAT", "MEASURED", "AGAINST", "RATIO", "TO REACH", "MET"];

/// All that was found.
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) at: Wall,
    pub(super) is_quick: bool,
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// Prints the results, and writes them as JSON where they are wanted.
    pub(super) fn print(&self, out: &mut Output, json: Option<&Path>, markdown: bool) -> Result<(), Failure> {
        let to_stdout = json == Some(Path::new("-"));
        if let Some(path) = json.filter(|_| !to_stdout) {
            let text = format!("{:#}\n", self.to_json());
            fs::write(path, text)
                .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
        }
        if to_stdout || out.is_json() {
            out.value(&self.to_json());
        } else if markdown {
            out.text(&self.to_markdown());
        } else {
            let mut table = Table::new(&HEAD);
            self.rows.iter().for_each(|row| table.row(cells(row)));
            out.table(&table);
        }
        Ok(())
    }

    fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", self.about());
        text.push_str(&line(&HEAD.map(str::to_lowercase)));
        text.push_str(&line(&HEAD.map(|_| "---".to_owned())));
        for row in &self.rows {
            text.push_str(&line(&cells(row)));
        }
        text
    }

    /// The machine, the date and the command.
    fn about(&self) -> String {
        let Machine { processor, cores, kernel, load, .. } = &self.machine;
        let command = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        let command = command.collect::<Vec<_>>().join(" ");
        let quick = if self.is_quick { " With `--quick`: the numbers say nothing about speed." } else { "" };
        format!(
            "{processor}, {cores} cores, Linux {kernel}, load {load} before the start; {}; llts {}; `llts {command}`. \
             Each number is the median of alternating rounds (least to greatest).{quick}",
            self.date(),
            env!("CARGO_PKG_VERSION"),
        )
    }

    fn date(&self) -> String {
        let at = i64::try_from(self.at.micros()).ok().and_then(DateTime::from_timestamp_micros);
        at.map(|at| at.format("%Y-%m-%d").to_string()).unwrap_or_default()
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
        "transport": row.transport.map(transport_word),
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
        row.title(),
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
