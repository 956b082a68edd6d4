//! The rules of the design, each with a message that names the place, the rule and the fix.

use crate::architecture::moments;
use crate::architecture::source::Source;

/// Lines of a file without its tests: beyond it, split along sub-state. That a function has at most 70 is for clippy to say
/// (`too-many-lines-threshold` in clippy.toml).
const LINES_MAX: usize = 500;

/// Where only decisions are: no clock, no file, no socket, no thread, no log.
const ENGINES: [&str; 16] = [
    "src/agent/slot",
    "src/api/guest",
    "src/base/journal",
    "src/base/timers",
    "src/engine",
    "src/engine/graph",
    "src/controller/history/rules",
    "src/lists/engine",
    "src/llts/map",
    "src/service/plan",
    "src/proc/ladder",
    "src/prompts/master/engine",
    "src/prompts/worker/engine",
    "src/tdf/engine",
    "src/zmtp/endpoint",
    "src/zmtp/engine",
];

/// Where words of the wire may stand.
const WIRE: [&str; 8] = [
    "src/api/guest/task",
    "src/api/wire",
    "src/base/json",
    "src/base/words",
    "src/lists/wire",
    "src/prompts/wire",
    "src/tdf/wire",
    "src/zmtp/envelope",
];

/// Where moments may be compared besides the engines: values, texts and what a user sees.
const TIMELESS: [&str; 7] =
    ["clients/rust/src", "src/api/config", "src/base", "src/llts/cli", "src/main", "src/term", "src/zmtp/push"];

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
    let is_engine = is_in(&source.path, &ENGINES) || is_in(&source.path, &["src/zmtp/push"]);
    for (line, path) in &source.paths {
        let place = format!("{}:{line}", source.path);
        if is_engine {
            check_engine(&place, path, &mut found);
            if path.len() > 1 && path[0] == "log" {
                found.push(format!("{place}: log is banned in engine; note the line in the journal of the engine"));
            }
        }
        // A single word is a local name.
        if path.len() > 1 && path[0] == "zmq" {
            found.push(format!("{place}: the crate zmq is for tests; use api::transport"));
        }
        if path.last().is_some_and(|name| name == "remove_dir_all") {
            found.push(format!("{place}: remove_dir_all goes into what is mounted; use proc::files::removal instead"));
        }
    }
    let is_free = is_engine || is_in(&source.path, &TIMELESS) || is_in(&source.path, &WIRE) || is_cli(&source.path);
    if !is_free && !moments::ALLOWED.iter().any(|(file, _)| *file == source.path) {
        for line in moments::comparisons(source) {
            found.push(format!(
                "{}:{line}: this file compares moments; let an engine say what is due, or say why in \
                 tests/it/architecture/moments.rs",
                source.path
            ));
        }
    }
    if !is_in(&source.path, &WIRE) {
        for (line, text) in &source.strings {
            let words = wire_words(text).into_iter();
            found.extend(words.map(|word| {
                let place = format!("{}:{line}", source.path);
                format!(
                    "{place}: the wire word {word} stands outside the wire; use its constant (src/base/words.rs) instead"
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
}

/// Whether a file is one of these modules, or a part of one.
fn is_in(path: &str, modules: &[&str]) -> bool {
    let is_of = |module: &&str| path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    modules.iter().any(is_of)
}

/// Whether a file is the command line of a column.
fn is_cli(path: &str) -> bool {
    path.split('/').any(|part| part.trim_end_matches(".rs") == "cli")
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
