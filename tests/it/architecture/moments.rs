//! Where the shell compares moments: what is due when is for engines to decide, and the shell waits until they say.

use std::collections::BTreeSet;

use crate::architecture::source::Source;

/// Files of the shell that compare moments nevertheless, and why.
pub(crate) const ALLOWED: [(&str, &str); 26] = [
    (
        "src/agent/process/stay.rs",
        "tools that stay are processes of the shell between two tasks, when no engine knows of them",
    ),
    ("src/agent/process/stay/tool.rs", "the memory of a tool is believed for MEASURE_INTERVAL, as a cache does it"),
    ("src/proc/process/kept.rs", "numbers of processes are believed for CERTAIN, as a cache does it"),
    ("src/agent/process/guard_keeper.rs", "the guard is a process of the shell: no engine knows of it"),
    (
        "src/controller/archives/thread.rs",
        "the room of the disk is believed for ROOM_LOOK_INTERVAL, as a cache does it",
    ),
    (
        "src/controller/process/idle.rs",
        "an end without work also depends on connections and pushes, which no one engine knows",
    ),
    ("src/proc/systemd.rs", "signs of life are for the manager of the process: no engine knows of it"),
    ("src/controller/process/leading.rs", "a lease is renewed by a commit, and the engine says when one can begin"),
    ("src/controller/process/stopping.rs", "a stop is one call, bounded by ANSWERS_MAX"),
    ("src/agent/process/sources.rs", "an answer of a source is believed for RECHECK_INTERVAL, as a cache does it"),
    ("src/zmtp/curve_keys/folder.rs", "keys are a folder of the shell, looked at again after a pause"),
    ("src/zmtp/sockets/ending.rs", "arms one timer for each peer with what the engines of that peer ask for"),
    ("src/zmtp/sockets/listeners.rs", "a listener rests when the system has no descriptor left"),
    ("src/zmtp/sockets/ports.rs", "a close is one call, bounded by LINGER"),
    ("src/zmtp/sockets/requester.rs", "an exchange is one call, bounded by its caller"),
    ("src/service/join.rs", "an invitation is one call, bounded by its validity"),
    ("src/proc/logging/rotating.rs", "the wait for a lock is one call, bounded by LOCK_MAX"),
    ("src/proc/process/cgroup.rs", "a kill is one call, bounded by the death of what it kills"),
    ("src/proc/process/record/file.rs", "a proof is one call, bounded by the death of what it looks for"),
    (
        "src/prompts/master/process.rs",
        "the folder is looked at again after a pause where the kernel tells no news of it",
    ),
    ("src/service/supervisor/stop.rs", "a stop is one call, bounded by DEATHS_MAX"),
    ("src/tdf/shell/manage.rs", "leases are held on between callbacks, each of which is one call"),
    (
        "src/tdf/shell/server.rs",
        "three periods of one loop; what a round moves is decided in tdf::engine by the time of Redis",
    ),
    ("src/api/tools/archive/input.rs", "an unpacking is one call on a thread of its own, bounded by UNPACK_TIMEOUT"),
    ("src/api/tools/cache.rs", "a tool in use is marked as such in the file system, now and then"),
    ("src/api/tools/folder.rs", "the folder is looked at again after a pause where the kernel tells no news of it"),
];

/// The lines of a file of the shell that compare a moment with something.
pub(crate) fn comparisons(source: &Source) -> Vec<usize> {
    let moments = moments(&source.code);
    let is_moment = |operand: &str| moments.contains(operand);
    let mut found = Vec::new();
    for (at, _) in source.code.match_indices(['<', '>']) {
        let (before, after) = (&source.code[..at], &source.code[at + 1..]);
        // rustfmt puts blanks around a comparison, and none around what is generic.
        let after = after.strip_prefix('=').unwrap_or(after);
        if !before.ends_with(char::is_whitespace) || !after.starts_with(char::is_whitespace) {
            continue;
        }
        if is_moment(last_name(before.trim_end())) || is_moment(name_of(after.trim_start())) {
            found.push(1 + before.matches('\n').count());
        }
    }
    found
}

/// The names that hold a `Mono` in this code, or perhaps do: those that are declared so, and what is made of them by `let`.
fn moments(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["mono".to_owned()]);
    // A field whose declaration stands in another file.
    if code.contains("self.now") {
        names.insert("now".to_owned());
    }
    for (at, _) in code.match_indices("Mono") {
        let before = code[..at].trim_end_matches(['&', ' ']);
        let before = before.strip_suffix("Option<").unwrap_or(before).trim_end();
        if let Some(before) = before.strip_suffix(':').filter(|before| !before.ends_with(':')) {
            names.insert(last_name(before).to_owned());
        }
    }
    for (at, _) in code.match_indices("let ") {
        let statement = code[at + 4..].split(';').next().unwrap_or_default();
        let Some((name, value)) = statement.split_once(" = ") else { continue };
        // The time since a moment is none.
        let is_made_of_one = words(value).any(|word| names.contains(word)) && !value.contains(".since(");
        if is_made_of_one && words(name).eq([name]) {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The last name of the path that ends here: of `self.looked` it is `looked`.
fn last_name(text: &str) -> &str {
    let text = text.trim_end_matches(')');
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.rfind(|letter| !is_part(letter)).map_or(text, |at| &text[at + 1..])
}

/// The last name of the path that begins here: of `self.looked + PAUSE` it is `looked`.
fn name_of(text: &str) -> &str {
    let is_part = |letter: char| letter.is_alphanumeric() || "_.:()*&".contains(letter);
    last_name(text.split(|letter| !is_part(letter)).next().unwrap_or_default())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}
