//! The rules that no file shows by itself: circles of modules, the order inside the shell, and the columns of requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::architecture::rules::{absolute, modules};
use crate::architecture::source::Source;

/// The requests of agents, which the command line does not offer.
const OF_AGENTS: [&str; 5] = ["apply", "exit", "heartbeat", "report", "serve"];

const PROTOCOL: &str = "src/protocol/requests";
const ENGINE: &str = "src/engine/controller/requests";

/// Of the modules below one module, who imports whom, and where.
type Siblings<'a> = BTreeMap<(String, String), &'a str>;

/// Every violation of the tree that these files are.
pub(crate) fn violations(sources: &[Source], shell: &[(&str, &[&str])]) -> Vec<String> {
    let imports = imports(sources);
    let mut found = Vec::new();
    for (parent, siblings) in &imports {
        check_circles(&parent.join("::"), siblings, &mut found);
    }
    check_shell(imports.get(&["shell".to_owned()][..]).unwrap_or(&BTreeMap::new()), shell, &mut found);
    check_columns(sources, &mut found);
    found
}

/// The imports between modules of the same module, with all that is inside of each counted as its own.
fn imports(sources: &[Source]) -> BTreeMap<Vec<String>, Siblings<'_>> {
    let mut known = BTreeSet::new();
    for source in sources {
        let modules = modules(&source.path);
        known.extend((1..=modules.len()).map(|length| modules[..length].to_vec()));
    }
    let mut imports: BTreeMap<Vec<String>, Siblings<'_>> = BTreeMap::new();
    for source in sources {
        let from = modules(&source.path);
        for (_, path) in &source.paths {
            let mut to = absolute(path, &from);
            while !to.is_empty() && !known.contains(&to) {
                to.pop();
            }
            let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other)) = (from.get(common), to.get(common)) {
                let siblings = imports.entry(from[..common].to_vec()).or_default();
                siblings.entry((one.clone(), other.clone())).or_insert(&source.path);
            }
        }
    }
    imports
}

fn check_circles(parent: &str, siblings: &Siblings<'_>, found: &mut Vec<String>) {
    for ((one, other), file) in siblings {
        let Some(way) = way(siblings, other, one) else { continue };
        // Each circle is told once, by the first of its modules.
        if way.iter().all(|module| one <= module) {
            let way = way.join(" -> ");
            let inside = if parent.is_empty() { "the crate" } else { parent };
            found.push(format!(
                "{file}:1: {one} -> {way} is a circle in {inside}; move what they share into a module that imports none of them"
            ));
        }
    }
}

/// The shortest way from one module to another by imports, both among it.
fn way(siblings: &Siblings<'_>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![from.to_owned()]]);
    let mut seen = BTreeSet::from([from.to_owned()]);
    while let Some(way) = ways.pop_front() {
        let last = way.last()?;
        if last == to {
            return Some(way);
        }
        for (_, next) in siblings.keys().filter(|(one, _)| one == last) {
            if seen.insert(next.clone()) {
                ways.push_back([&way[..], std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

fn check_shell(siblings: &Siblings<'_>, table: &[(&str, &[&str])], found: &mut Vec<String>) {
    for (row, (module, allowed)) in table.iter().enumerate() {
        for name in *allowed {
            if !table[..row].iter().any(|(above, _)| above == name) {
                found.push(format!(
                    "tests/it/architecture/shell.rs: {module} may import {name}, which is no row above it; reorder"
                ));
            }
            if !siblings.contains_key(&((*module).to_owned(), (*name).to_owned())) {
                found.push(format!(
                    "tests/it/architecture/shell.rs: {module} may import {name} and does not; take it out of the row"
                ));
            }
        }
    }
    for ((one, other), file) in siblings {
        let row = table.iter().find(|(module, _)| module == one);
        if !row.is_some_and(|(_, allowed)| allowed.contains(&other.as_str())) {
            found.push(format!(
                "{file}:1: shell::{one} must not import shell::{other}; pass it in as a value, or say so in tests/it/architecture/shell.rs"
            ));
        }
    }
}

fn check_columns(sources: &[Source], found: &mut Vec<String>) {
    let [protocol, engine, cli] = [PROTOCOL, ENGINE, "src/cli"].map(|folder| files(sources, folder));
    for name in protocol.symmetric_difference(&engine) {
        let (has, lacks) = if protocol.contains(name) { (PROTOCOL, ENGINE) } else { (ENGINE, PROTOCOL) };
        found
            .push(format!("{has}/{name}.rs:1: {lacks} has no file of this name; a request is a column of equal names"));
    }
    for name in protocol.iter().filter(|name| !OF_AGENTS.contains(name) && !cli.contains(*name)) {
        found.push(format!("{PROTOCOL}/{name}.rs:1: src/cli has no file of this name; offer the request there"));
    }
}

/// The names of the files of a folder, but for those of its module and of its tests. A file may be a folder with its parts.
fn files<'a>(sources: &'a [Source], folder: &str) -> BTreeSet<&'a str> {
    let names =
        sources.iter().filter_map(|source| source.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs"));
    let names = names.map(|name| name.strip_suffix("/mod").unwrap_or(name));
    names.filter(|name| !name.contains('/') && !["mod", "tests"].contains(name)).collect()
}
