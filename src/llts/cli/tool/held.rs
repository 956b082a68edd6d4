//! `llts tool list`, `show`, `rm` and `log`: the tools that the controller holds.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use super::super::Session;
use super::super::caller::{caller, command_line};
use api::config::Config;
use api::wire::requests::tool;
use api::wire::requests::tool::ToolRow;
use api::wire::tool_manifest;
use base::ToolName;
use controller::archives::{REMEDY, defective};
use llts_client::{Client, ClientError};
use proc::clock;
use term::exit::Failure;
use term::output::{note, to_value};
use term::table::Table;
use term::times;

/// Digits of a version in a table.
const DIGITS: usize = 12;

pub(super) fn list(session: &mut Session) -> Result<(), Failure> {
    let rows = session.client()?.all(tool::list)?;
    note_defective(session, &rows);
    if session.out.is_json() {
        let values: Vec<Value> = rows.iter().map(|row| to_value(row.fields())).collect();
        session.out.value(&json!({ "total": values.len(), "tools": values }));
        return Ok(());
    }
    let mut table = Table::new(&["TOOL", "VERSION", "BYTES", "SINCE", "AGENTS", "TASKS", "BY"]);
    for row in &rows {
        let agents = agents(row);
        let cells = [
            row.name(),
            short(row),
            &row.size().to_string(),
            &since(row),
            &agents,
            &row.pinned().to_string(),
            row.by(),
        ];
        table.row(cells);
    }
    session.out.table(&table);
    Ok(())
}

/// Notes invalid archives in the tools folder, which the table lacks. Archives that the controller has read are not read again.
fn note_defective(session: &Session, rows: &[ToolRow]) {
    let is_sound = |tool: &ToolName, file: &Metadata| {
        let row = rows.iter().find(|row| row.name() == tool.as_str() && row.size() == file.len());
        // Any write changes this time, even if the other times are reset.
        let changed = u64::try_from(file.ctime() * 1_000_000 + file.ctime_nsec() / 1_000).unwrap_or_default();
        row.and_then(ToolRow::since).is_some_and(|since| since.micros() >= changed)
    };
    let Config { paths, archive, .. } = &session.config;
    for one in defective(&paths.tools_dir, archive, is_sound) {
        note(&format!("{one}; {REMEDY}"));
    }
}

/// Which agents can run a tool.
fn agents(row: &ToolRow) -> String {
    let able = able(row);
    if row.is_damaged() { format!("{able}; damaged in the store: pack or push it again") } else { able }
}

fn able(row: &ToolRow) -> String {
    match (row.own(), row.fetching()) {
        (0, fetching) => format!("{fetching} fetch it"),
        (own, 0) => format!("{own} have it"),
        (own, fetching) => format!("{own} have it, {fetching} fetch it"),
    }
}

fn short(row: &ToolRow) -> &str {
    row.digest().get(..DIGITS).unwrap_or("removed")
}

fn since(row: &ToolRow) -> String {
    let now = clock::now().wall;
    row.since().map(|since| format!("{} ago", times::duration(now.since(since)))).unwrap_or_default()
}

pub(super) fn show(session: &mut Session, name: &ToolName) -> Result<(), Failure> {
    let row = session.client()?.ask(&tool::show(name))?;
    if session.out.is_json() {
        session.out.fields(row.fields());
        return Ok(());
    }
    let mut table = Table::pairs();
    table.row(["tool", row.name()]);
    table.row(["version", row.digest()]);
    table.row(["size", &format!("{} bytes", row.size())]);
    table.row(["since", &row.since().map(times::local).unwrap_or_default()]);
    table.row(["by", row.by()]);
    table.row(["agents", &agents(&row)]);
    table.row(["tasks", &format!("{} that have not finished", row.pinned())]);
    session.out.table(&table);
    if let Some(about) = about(&row) {
        session.out.line(format_args!("\n{}", about.trim_end()));
    }
    session.out.line("\nfiles");
    for file in row.files().lines() {
        let (bytes, path) = file.split_once(' ').unwrap_or_default();
        session.out.line(format_args!("  {bytes:>10}  {path}"));
    }
    Ok(())
}

/// The description and parameters of a tool, for people; `None` if it has neither.
fn about(row: &ToolRow) -> Option<String> {
    let manifest = tool_manifest::parse(row.manifest()).ok().filter(|_| !row.manifest().is_empty())?;
    let mut text = format!("{}\n", manifest.description);
    let lines = tool_manifest::lines(&manifest);
    if !lines.is_empty() {
        text.push_str("\nparameters\n");
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
        let widths = (width(0), width(1));
        for [name, terms, about] in &lines {
            let line = format!("  {name:<0$}  {terms:<1$}  {about}", widths.0, widths.1);
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    Some(text)
}

/// A tool's own description, for `llts run TOOL --help`; `None` if the controller does not answer or has no such tool.
pub(in crate::cli) fn help(client: &Client, name: &ToolName) -> Option<String> {
    about(&client.ask(&tool::show(name)).ok()?)
}

pub(super) fn remove(session: &mut Session, name: &ToolName) -> Result<(), Failure> {
    session.client()?.ask(&tool::remove(name, &caller(&command_line())))?;
    if session.out.is_json() {
        session.out.value(&json!({ "tool": name.as_str(), "removed": true }));
    } else {
        session.out.line(format_args!("removed {name}"));
    }
    Ok(())
}

pub(super) fn log(session: &mut Session, name: &ToolName) -> Result<(), Failure> {
    let rows = rows(&session.client()?, name)?;
    if session.out.is_json() {
        let values: Vec<Value> = rows.iter().map(|row| to_value(row.fields())).collect();
        session.out.value(&json!({ "total": values.len(), "changes": values }));
        return Ok(());
    }
    let mut table = Table::new(&["WHEN", "VERSION", "BYTES", "BY"]);
    for row in &rows {
        let at = row.since().map(times::local).unwrap_or_default();
        table.row([at.as_str(), short(row), &row.size().to_string(), row.by()]);
    }
    session.out.table(&table);
    Ok(())
}

fn rows(client: &Client, name: &ToolName) -> Result<Vec<ToolRow>, ClientError> {
    Ok(client.ask(&tool::log(name))?.rows)
}
