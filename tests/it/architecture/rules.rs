//! The rules of the design, each with a message that names the place, the rule and the fix.

use crate::architecture::moments;
use crate::architecture::source::Source;

/// Lines of a file without its tests: beyond it, split along sub-state. That a function has at most 70 is for clippy to say
/// (`too-many-lines-threshold` in clippy.toml).
const LINES_MAX: usize = 500;

/// What each layer may import besides itself.
const LAYERS: [(&str, &[&str]); 8] = [
    ("types", &[]),
    ("config", &["types"]),
    ("protocol", &["types"]),
    ("engine", &["types", "config", "protocol"]),
    ("shell", &["types", "config", "protocol", "engine"]),
    // At the level of the shell: it uses the shell's clock and sockets, but no engine decides for a client.
    ("client", &["types", "config", "protocol", "shell"]),
    ("cli", &["types", "config", "protocol", "engine", "shell", "client"]),
    ("main", &["types", "config", "protocol", "engine", "shell", "client", "cli"]),
];

/// What an engine must not touch, and what to do instead.
const BANNED_IN_ENGINE: [(&[&str], &str); 12] = [
    (&["std", "process"], EFFECT),
    (&["std", "fs"], EFFECT),
    (&["std", "net"], EFFECT),
    (&["std", "thread"], EFFECT),
    (&["std", "env"], "take the value as an argument"),
    (&["zmq"], EFFECT),
    (&["nix"], EFFECT),
    (&["rustix"], EFFECT),
    (&["libc"], EFFECT),
    (&["rand", "rng"], RANDOM),
    (&["rand", "random"], RANDOM),
    (&["rand", "thread_rng"], RANDOM),
];
const EFFECT: &str = "emit an effect instead";
const RANDOM: &str = "take the random number or its source as an argument";

/// Names that give time or chance away wherever they stand.
const BANNED_NAMES_IN_ENGINE: [(&str, &str); 3] = [
    ("Instant", "take `now: Now` as an argument"),
    ("SystemTime", "take `now: Now` as an argument"),
    ("thread_rng", RANDOM),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "misc", "manager", "managers"];

/// Names that say nothing alone: whose, or of what?
const EMPTY_ALONE: [&str; 3] = ["operators", "names", "check"];

/// Every violation in `source`, as `file:line: rule; fix`.
pub(crate) fn violations(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    check_file(source, &mut found);
    let modules = modules(&source.path);
    let layer = modules.first().map_or("lib", String::as_str);
    for (line, path) in &source.paths {
        let place = format!("{}:{line}", source.path);
        let absolute = absolute(path, &modules);
        if let Some(target) = absolute.first().and_then(|module| LAYERS.iter().find(|(name, _)| name == module)) {
            check_import(&place, layer, target.0, &mut found);
            check_engine_import(&place, &modules, &absolute, &mut found);
        }
        if layer == "engine" {
            check_engine(&place, path, &mut found);
            if path.len() > 1 && path[0] == "log" {
                found.push(format!("{place}: log is banned in engine; note the line in the journal of the engine"));
            }
        }
        // A single word is a local name.
        if path.len() > 1 && path[0] == "zmq" {
            found.push(format!("{place}: the crate zmq is for tests; use the ports and links of shell::transport"));
        }
        if path.last().is_some_and(|name| name == "remove_dir_all") {
            found.push(format!("{place}: remove_dir_all goes into what is mounted; use shell::removal instead"));
        }
    }
    if layer == "shell" && !moments::ALLOWED.iter().any(|(file, _)| *file == source.path) {
        for line in moments::comparisons(source) {
            found.push(format!(
                "{}:{line}: the shell compares moments; let an engine say what is due, or say why in \
                 tests/it/architecture/moments.rs",
                source.path
            ));
        }
    }
    if layer != "protocol" {
        for (line, text) in &source.strings {
            let words = wire_words(text).into_iter();
            found.extend(words.map(|word| {
                let place = format!("{}:{line}", source.path);
                format!(
                    "{place}: the wire word {word} stands outside protocol; use the constant of src/protocol instead"
                )
            }));
        }
    }
    found
}

fn check_file(source: &Source, found: &mut Vec<String>) {
    let path = &source.path;
    let stems = path.trim_end_matches(".rs").split('/');
    if let Some(stem) =
        stems.clone().find(|stem| EMPTY_ALONE.contains(stem) || stem.split('_').any(|word| EMPTY_NAMES.contains(&word)))
    {
        found.push(format!("{path}:1: the name {stem} says nothing; name the file after what it holds"));
    }
    if source.lines > LINES_MAX {
        let lines = source.lines;
        found.push(format!(
            "{path}:{LINES_MAX}: {lines} lines without tests are too many; split the file along sub-state"
        ));
    }
    if !source.first_line.starts_with("//!") {
        found.push(format!("{path}:1: the file does not say what it is; begin it with //!"));
    }
    let layer = modules(path).first().cloned();
    if let Some(layer) = layer.filter(|layer| !LAYERS.iter().any(|(name, _)| name == layer)) {
        found.push(format!("{path}:1: {layer} is no layer; move the file into one of those of DESIGN section 3"));
    }
}

/// The modules of a file: `src/engine/slot/mod.rs` is `engine::slot`; the root has none.
pub(crate) fn modules(path: &str) -> Vec<String> {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut modules: Vec<String> = inside.split('/').map(str::to_owned).collect();
    modules.pop_if(|last| last == "mod" || (inside == "lib" && last == "lib"));
    modules
}

/// A path from the root of the crate; empty if it leads elsewhere.
pub(crate) fn absolute(path: &[String], modules: &[String]) -> Vec<String> {
    let supers = path.iter().take_while(|word| *word == "super").count();
    match path[0].as_str() {
        "crate" | "llts" => path[1..].to_vec(),
        "super" => [&modules[..modules.len().saturating_sub(supers)], &path[supers..]].concat(),
        _ => Vec::new(),
    }
}

fn check_import(place: &str, from: &str, to: &str, found: &mut Vec<String>) {
    let allowed = LAYERS.iter().find(|(name, _)| *name == from).map(|(_, allowed)| *allowed);
    if from != to && allowed.is_some_and(|allowed| !allowed.contains(&to)) {
        found.push(format!(
            "{place}: {from} must not import {to}; move what both need into a layer to the left, or pass it in as a value"
        ));
    }
}

/// Engines share `timers`, `gate`, `journal`, `run` and `graph`, and otherwise never import one another.
fn check_engine_import(place: &str, modules: &[String], absolute: &[String], found: &mut Vec<String>) {
    let ([engine, own, ..], [target, other, ..]) = (modules, absolute) else { return };
    // Types of engine/mod.rs are everybody's; what begins with a small letter there is a module.
    let is_module = other.starts_with(char::is_lowercase);
    if engine == "engine"
        && target == "engine"
        && is_module
        && own != other
        && !["timers", "gate", "journal", "run", "graph", "hosted"].contains(&other.as_str())
    {
        found.push(format!(
            "{place}: engine::{own} must not import engine::{other}; share it in types or engine::timers"
        ));
    }
}

fn check_engine(place: &str, path: &[String], found: &mut Vec<String>) {
    for (banned, fix) in BANNED_IN_ENGINE {
        if path.iter().map(String::as_str).take(banned.len()).eq(banned.iter().copied()) {
            found.push(format!("{place}: {} is banned in engine; {fix}", banned.join("::")));
        }
    }
    for (banned, fix) in BANNED_NAMES_IN_ENGINE {
        if path.iter().any(|word| word == banned) && path[..] != ["rand", banned] {
            found.push(format!("{place}: {banned} is banned in engine; {fix}"));
        }
    }
}

/// Each `__WORD__` of capitals in a text.
fn wire_words(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter == '_' || letter.is_ascii_uppercase() || letter.is_ascii_digit();
    let runs = text.split(|letter| !is_part(letter));
    let framed =
        |run: &&str| run.len() > 4 && run.starts_with("__") && run.ends_with("__") && *run != "_".repeat(run.len());
    runs.filter(framed).collect()
}
