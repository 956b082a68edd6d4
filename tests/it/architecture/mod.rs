//! The rules of the design as tests: the permitted imports, the calls that an engine must not make, the place of wire words,
//! the banned phrases of comments and texts.
//!
//! Each rule is shown to fail on a made-up source, so that a green run means something.

mod moments;
mod phrases;
mod rules;
mod shell;
mod source;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

#[test]
fn the_sources_keep_the_rules() {
    let sources = sources();
    assert!(sources.len() > 10, "src/ was not found");
    let mut violations: Vec<String> = sources.iter().flat_map(violations).collect();
    // Other programs are outside of the layers: they use the public interface of the library.
    let library: Vec<Source> = sources.into_iter().filter(|source| !is_program(&source.path)).collect();
    violations.extend(tree::violations(&library, shell::SHELL));
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn what_is_allowed_is_needed() {
    let sources = sources();
    for (path, why) in moments::ALLOWED {
        let source = sources.iter().find(|source| source.path == path);
        let is_needed = source.is_some_and(|source| !moments::comparisons(source).is_empty());
        assert!(is_needed, "{path} compares no moments any more: take it out of the list ({why})");
    }
}

/// The files of src/ that the rules are about.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    let source = |file: &PathBuf| {
        let path = file.strip_prefix(root).expect("below the root").to_string_lossy();
        let text = fs::read_to_string(file).expect("a source");
        (!is_test(&path)).then(|| Source::new(&path, &text))
    };
    files.iter().filter_map(source).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Files of tests keep no rules.
fn is_test(path: &str) -> bool {
    path.trim_end_matches(".rs").split('/').any(|part| part == "tests" || part.ends_with("_tests"))
}

fn is_program(path: &str) -> bool {
    path.starts_with("src/bin/")
}

/// The violations of one file.
fn check(path: &str, text: &str) -> Vec<String> {
    if is_test(path) { Vec::new() } else { violations(&Source::new(path, text)) }
}

fn violations(source: &Source) -> Vec<String> {
    let rules = if is_program(&source.path) { Vec::new() } else { rules::violations(source) };
    [rules, phrases::violations(source)].concat()
}

/// The violations of a made-up tree of files, each with its code, and of a table of the shell.
fn found_in_tree(files: &[(&str, &str)], shell: &[(&str, &[&str])]) -> Vec<String> {
    let sources: Vec<Source> =
        files.iter().map(|(path, code)| Source::new(path, &format!("//! A file.\n{code}\n"))).collect();
    tree::violations(&sources, shell)
}

/// The violations of a made-up file, whose line 2 is `code`.
fn found(path: &str, code: &str) -> Vec<String> {
    check(path, &format!("//! A file.\n{code}\n"))
}

#[track_caller]
fn refuses(path: &str, code: &str, expected: &str) {
    let found = found(path, code);
    let place = format!("{path}:");
    assert!(found.iter().any(|text| text.starts_with(&place) && text.contains(expected)), "{code}: {found:?}");
}

#[track_caller]
fn accepts(path: &str, code: &str) {
    assert_eq!(found(path, code), Vec::<String>::new(), "{code}");
}

#[test]
fn a_message_names_file_line_rule_and_fix() {
    assert_eq!(
        found("src/engine/slot/kill.rs", "\n\nuse std::process::Command;"),
        ["src/engine/slot/kill.rs:4: std::process is banned in engine; emit an effect instead"]
    );
}

#[test]
fn imports_go_to_the_left_only() {
    for (path, code) in [
        ("src/types/id.rs", "use crate::protocol::Word;"),
        ("src/config/mod.rs", "use crate::protocol::Word;"),
        ("src/protocol/mod.rs", "use crate::config::Config;"),
        ("src/engine/slot/kill.rs", "use crate::{types::Now, shell::clock};"),
        ("src/engine/slot/kill.rs", "use crate::{\n    types::Now,\n    shell::{clock, lock},\n};"),
        ("src/engine/slot/kill.rs", "fn f() { crate::shell::clock::now(); }"),
        ("src/engine/slot/kill.rs", "use super::super::super::shell::clock;"),
        ("src/engine/mod.rs", "use super::shell::clock;"),
        ("src/shell/mod.rs", "use crate::cli::run;"),
        ("src/shell/mod.rs", "use crate::client::Client;"),
        ("src/client.rs", "use crate::engine::slot::Slot;"),
        ("src/cli/up.rs", "use crate::main::x;"),
    ] {
        refuses(path, code, "must not import");
    }
    for (path, code) in [
        ("src/engine/slot/kill.rs", "use crate::{types::Now, config::Config, protocol::Word};"),
        ("src/engine/slot/kill.rs", "use super::super::slot::Effect;"),
        ("src/client.rs", "use crate::{config::Config, shell::clock};"),
        ("src/cli/up.rs", "use crate::client::Client;"),
        ("src/lib.rs", "pub mod shell;\npub use crate::client::Client;"),
        ("src/main.rs", "fn main() { llts::cli::run(); }"),
        (
            "src/types/id.rs",
            "// crate::shell\n/* crate::shell /* x */ crate::cli */\nconst A: &str = \"crate::shell\";",
        ),
    ] {
        accepts(path, code);
    }
}

#[test]
fn engines_do_not_import_one_another() {
    refuses(
        "src/engine/slot/kill.rs",
        "use crate::engine::master::Worker;",
        "engine::slot must not import engine::master",
    );
    refuses(
        "src/engine/slot/kill.rs",
        "use super::super::master::Worker;",
        "engine::slot must not import engine::master",
    );
    accepts(
        "src/engine/slot/kill.rs",
        "use crate::engine::timers::Timers;\nuse crate::engine::{Effect, slot::run::Run};",
    );
}

#[test]
fn nothing_but_the_remover_removes_a_folder() {
    for code in
        ["fn f() { std::fs::remove_dir_all(x); }", "fn f() { fs::remove_dir_all(x); }", "use std::fs::remove_dir_all;"]
    {
        refuses("src/shell/ephemeral.rs", code, "use shell::removal");
    }
    accepts("src/shell/ephemeral.rs", "#[cfg(test)]\nmod tests { fn f() { std::fs::remove_dir_all(x); } }");
}

#[test]
fn libzmq_is_a_peer_of_tests_only() {
    for code in ["use zmq::Socket;", "use zmq::{Context, Socket};", "fn f() -> ::zmq::Error { zmq::Error::EAGAIN }"] {
        refuses("src/shell/transport.rs", code, "the crate zmq is for tests");
        accepts("src/client.rs", &format!("#[cfg(test)]\nmod tests {{ {code} }}"));
    }
    accepts("src/shell/mod.rs", "fn f(zmq: u8) {}");
}

#[test]
fn an_engine_touches_nothing_of_the_world() {
    for (code, expected) in [
        ("use std::{fmt, fs};", "std::fs is banned"),
        ("use std::{collections::{BTreeMap, BTreeSet}, net::IpAddr};", "std::net is banned"),
        ("fn f() { ::std::thread::yield_now(); }", "std::thread is banned"),
        ("fn f() { std::process::exit(1) }", "std::process is banned"),
        ("use std::env;", "std::env is banned"),
        ("use zmq::Socket;", "zmq is banned"),
        ("use nix::unistd::Pid;", "nix is banned"),
        ("use rustix::fs;", "rustix is banned"),
        ("fn f(x: libc::c_int) {}", "libc is banned"),
        ("fn f() { rand::rng(); }", "rand::rng is banned"),
        ("fn f() { thread_rng(); }", "thread_rng is banned"),
        ("use std::time::{Duration, Instant};", "Instant is banned"),
        ("fn f(at: SystemTime) {}", "SystemTime is banned"),
    ] {
        refuses("src/engine/slot/kill.rs", code, expected);
    }
    refuses("src/engine/push/delivery.rs", "fn f() { log::warn!(\"full\"); }", "log is banned in engine");
    accepts("src/engine/slot/kill.rs", "use std::time::Duration;\nuse rand::Rng;\nlet fs = process(net);");
    accepts("src/shell/spawn.rs", "use std::process::Command;\nuse std::time::Instant;");
}

#[test]
fn wire_words_stand_in_protocol_only() {
    for code in [
        "const A: &str = \"__TASK_ID__\";",
        "const A: &[u8] = b\"{\\\"__TASK_ID__\\\":1}\";",
        "const A: &str = r#\"{\"__TASK_ID__\":1}\"#;",
    ] {
        refuses("src/shell/push.rs", code, "src/shell/push.rs:2: the wire word __TASK_ID__");
        accepts("src/protocol/words.rs", code);
    }
    accepts("src/shell/push.rs", "/// `__TASK_ID__`\nconst A: &str = \"______\"; // \"__TASK_ID__\"");
}

#[test]
fn comments_and_texts_have_no_banned_phrases() {
    for (code, expected) in [
        ("/// None so far.", ":2: the phrase `so far` is banned in comments and texts; write `yet`"),
        ("/// None so\n/// far.", ":2: the phrase `so far`"),
        (
            "/// A line.\n/// Ten at the most.",
            ":3: the phrase `at the most` is banned in comments and texts; write `at most`",
        ),
        ("fn f() {} // At the least one.", "write `at least`"),
        ("fn f() {\n    // Whoever asks.\n}", ":3: the phrase `whoever`"),
        ("/* The run is over. */", "write `has ended` or `has passed`"),
        ("const A: &str = \"nobody asks\";", ":2: the phrase `nobody`"),
        ("const A: &str = \"a user and \\\n  somebody\";", ":3: the phrase `somebody`"),
        ("/// Read by anybody.", "write `any user`"),
        ("/// For everybody, always.", "write `every user`"),
        ("/// Who has asked.", "the phrase `who` is banned in comments and texts; write the noun"),
        ("/// A line. What is left.", "the phrase `what is` is banned in comments and texts; write the noun"),
        ("/// Which.\nconst A: u8 = 1;", ":2: the comment `which` alone says nothing; say the shape and the unit"),
        ("/// Why.", "the comment `why` alone"),
    ] {
        refuses("src/types/id.rs", code, expected);
        refuses("src/bin/bench/main.rs", code, expected);
        accepts("src/types/id.rs", &format!("#[cfg(test)]\nmod tests {{\n{code}\n}}"));
    }
    for code in [
        "/// The farm is overgrown, at most by a user who has time.",
        "/// Decides what is sent. | module | what it does |",
        "/// Which\n/// of them.\nconst A: &str = \"so_far\";",
        "fn so(far: u8) { nobody() }",
    ] {
        accepts("src/types/id.rs", code);
    }
}

#[test]
fn test_code_is_not_looked_at_and_what_follows_it_is() {
    let test = "#[cfg(test)]\nmod tests {\n    const A: &str = \"__A__ }\";\n    use std::fs; fn f() { '}' }\n}\n";
    accepts("src/engine/slot/kill.rs", test);
    refuses("src/engine/slot/kill.rs", &format!("{test}use std::fs;"), ":7: std::fs is banned");
    refuses("src/engine/slot/kill.rs", "#[cfg(test)]\nmod tests;\nuse std::fs;", ":4: std::fs is banned");
    accepts("src/engine/slot/tests.rs", "use std::fs;");
    accepts("src/engine/slot/kill.rs", "#![cfg(test)]\nuse std::fs;");
}

#[test]
fn literals_do_not_confuse_the_reader() {
    for code in ["const Q: char = '\"';", "const Q: char = '\\'';", "fn f<'a>(x: &'a str) {}", "let r#type = \"\\\"\";"]
    {
        refuses("src/engine/slot/kill.rs", &format!("{code}\nuse std::fs;"), ":3: std::fs is banned");
    }
}

#[test]
fn files_are_named_opened_and_bounded() {
    for path in [
        "src/shell/utils.rs",
        "src/shell/common/mod.rs",
        "src/shell/task_manager.rs",
        "src/types/misc.rs",
        "src/client/operators.rs",
        "src/engine/push/names.rs",
        "src/engine/push/check.rs",
        "src/cli/helpers/mod.rs",
    ] {
        refuses(path, "", "says nothing");
    }
    accepts("src/engine/push/host_names.rs", "");
    refuses("src/other/mod.rs", "", "other is no layer");
    refuses("src/shell/long.rs", &"fn f() {}\n".repeat(499), ":500: 501 lines without tests are too many");
    accepts("src/shell/long.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}", "fn f() {}\n".repeat(500)));
    assert_eq!(
        check("src/shell/x.rs", "fn f() {}\n"),
        ["src/shell/x.rs:1: the file does not say what it is; begin it with //!"]
    );
}

#[test]
fn modules_import_one_another_in_one_direction() {
    for (files, circle) in [
        (
            &[
                ("src/protocol/mod.rs", ""),
                ("src/protocol/task.rs", "use super::history;"),
                ("src/protocol/history.rs", "use super::task::Filter;"),
            ][..],
            "history -> task -> history is a circle in protocol",
        ),
        (
            &[
                ("src/engine/slot/run.rs", "use super::hold::lease_over;"),
                ("src/engine/slot/hold.rs", "use crate::engine::{timers, slot::link::Link};"),
                ("src/engine/slot/link.rs", "fn f() { super::run::g(); }"),
            ],
            "hold -> link -> run -> hold is a circle in engine::slot",
        ),
        (
            &[
                ("src/engine/timers.rs", "use super::slot::Slot;"),
                ("src/engine/slot/mod.rs", ""),
                ("src/engine/slot/run.rs", "use crate::engine::timers::Timers;"),
            ],
            "slot -> timers -> slot is a circle in engine",
        ),
    ] {
        let found = found_in_tree(files, &[]);
        assert!(found.len() == 1 && found[0].contains(circle), "{found:?}");
    }
    let tree = [
        ("src/protocol/mod.rs", "pub use task::Task;"),
        ("src/protocol/task.rs", "use super::{Code, words};\n#[cfg(test)]\nmod tests { use super::super::history; }"),
        ("src/protocol/history.rs", "use super::task;\nuse super::Task;"),
        ("src/protocol/words.rs", ""),
    ];
    assert_eq!(found_in_tree(&tree, &[]), Vec::<String>::new());
}

#[test]
fn the_folders_of_the_shell_are_ordered() {
    let tree = [
        ("src/shell/clock.rs", ""),
        ("src/shell/lock.rs", "use super::clock;"),
        ("src/shell/agent/mod.rs", "use crate::shell::lock::Lock;"),
        ("src/shell/agent/run.rs", "use super::super::clock::now;"),
    ];
    let table: &[(&str, &[&str])] = &[("clock", &[]), ("lock", &["clock"]), ("agent", &["clock", "lock"])];
    assert_eq!(found_in_tree(&tree, table), Vec::<String>::new());
    for (table, expected) in [
        (
            &[("clock", &[][..]), ("lock", &["clock"]), ("agent", &["lock"])][..],
            "src/shell/agent/run.rs:1: shell::agent must not import shell::clock",
        ),
        (&[("clock", &[]), ("lock", &["clock"])], "src/shell/agent/mod.rs:1: shell::agent must not import shell::lock"),
        (&[("lock", &["clock"]), ("clock", &[]), ("agent", &["clock", "lock"])], "clock, which is no row above it"),
        (
            &[("clock", &[]), ("lock", &["clock"]), ("guard", &["lock"]), ("agent", &["clock", "lock"])],
            "guard may import lock and does not",
        ),
    ] {
        let found = found_in_tree(&tree, table);
        assert!(found.iter().any(|violation| violation.contains(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn the_shell_compares_no_moments() {
    for code in [
        "fn f(now: Mono, at: Mono) -> bool { at <= now }",
        "fn f(&self) -> bool { self.at.is_some_and(|at| at <= self.now.mono) }",
        "struct A { due: Option<Mono> }\nfn f(a: A, x: T) -> bool { a.due > x }",
        "fn f() { let end = clock::now().mono + PAUSE; if x() >= end {} }",
        "fn f(now: &Mono) -> bool { self.looked + PAUSE\n    < *now }",
    ] {
        refuses("src/shell/agent/run.rs", code, "the shell compares moments");
        accepts("src/engine/slot/run.rs", code);
        accepts("src/shell/prompt.rs", code);
    }
    accepts(
        "src/shell/agent/run.rs",
        "fn f<T: Into<Mono>>(now: Mono, at: Option<Mono>) -> Duration { let left = at.since(now); left.max(TEN) }\n\
         fn g(size: usize) -> bool { size < MAX }",
    );
}

#[test]
fn a_request_is_a_column() {
    let column =
        |name: &str| [PROTOCOL_REQUESTS, ENGINE_REQUESTS, "src/cli"].map(|folder| format!("{folder}/{name}.rs"));
    let found = |files: &[String]| {
        let files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "")).collect();
        found_in_tree(&files, &[])
    };
    assert_eq!(found(&column("hold")), Vec::<String>::new());
    assert_eq!(found(&column("heartbeat")[..2]), Vec::<String>::new(), "agents say it");
    for (missing, expected) in
        ["has no file of this name", "has no file of this name", "offer the request there"].iter().enumerate()
    {
        let mut files = column("hold").to_vec();
        files.remove(missing);
        let found = found(&files);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}

const PROTOCOL_REQUESTS: &str = "src/protocol/requests";
const ENGINE_REQUESTS: &str = "src/engine/controller/requests";
