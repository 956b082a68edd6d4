//! A request reads from left to right: its form on the wire, what the controller does, what a user types.

use std::collections::BTreeSet;

use crate::architecture::source::Source;

/// The requests of agents, which the command line does not offer.
const OF_AGENTS: [&str; 5] = ["apply", "exit", "heartbeat", "report", "serve"];

pub(crate) const WIRE: &str = "src/api/wire/requests";
pub(crate) const ENGINE: &str = "src/engine/requests";
pub(crate) const CLI: &str = "src/llts/cli";

/// The requests that are no columns: a request is a file of the same name in the wire, in the engine and at the command line.
pub(crate) fn violations(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let [protocol, engine, cli] = [WIRE, ENGINE, CLI].map(|folder| files(sources, folder));
    for name in protocol.symmetric_difference(&engine) {
        let (has, lacks) = if protocol.contains(name) { (WIRE, ENGINE) } else { (ENGINE, WIRE) };
        found
            .push(format!("{has}/{name}.rs:1: {lacks} has no file of this name; a request is a column of equal names"));
    }
    for name in protocol.iter().filter(|name| !OF_AGENTS.contains(name) && !cli.contains(*name)) {
        found.push(format!("{WIRE}/{name}.rs:1: {CLI} has no file of this name; offer the request there"));
    }
    found
}

/// The names of the files of a folder, but for those of its module and of its tests. A file may be a folder with its parts.
fn files<'a>(sources: &'a [Source], folder: &str) -> BTreeSet<&'a str> {
    let names =
        sources.iter().filter_map(|source| source.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs"));
    let names = names.map(|name| name.strip_suffix("/mod").unwrap_or(name));
    names.filter(|name| !name.contains('/') && !["mod", "tests"].contains(name)).collect()
}
