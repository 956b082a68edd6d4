//! What Cargo cannot hold of the design: the calls that an engine must not make, the place of wire words, the columns of requests,
//! the banned phrases of comments and texts, the pages that comments cite. Who may import whom is in the manifests of the crates.
//!
//! Each rule is shown to fail on a made-up source, so that a green run means something.

mod columns;
mod moments;
mod phrases;
mod references;
mod rules;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

#[test]
fn the_sources_keep_the_rules() {
    let sources = sources();
    assert!(sources.len() > 10, "src/ was not found");
    let mut violations: Vec<String> = sources.iter().flat_map(violations).collect();
    violations.extend(columns::violations(&sources));
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

/// A reader of the repository alone cannot follow a comment to a missing page.
#[test]
fn each_comment_cites_what_the_repository_has() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "tests", "bench", "benches", "clients/rust", "fuzz/fuzz_targets"] {
        collect(&root.join(folder), &["rs", "py", "toml", "lua"], &mut files);
    }
    let (mut found, mut cited) = (Vec::new(), 0);
    for file in files.iter().filter(|file| !file.ends_with("architecture/mod.rs") && !file.ends_with("references.rs")) {
        let text = fs::read_to_string(file).expect("a source");
        let path = file.strip_prefix(root).expect("below the root").to_string_lossy();
        cited += text.matches("docs/sources/").count() + text.matches("docs/design/").count();
        found.extend(references::violations(root, &path, &text));
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    assert!(cited > 100, "only {cited} pages are cited");
}

#[test]
fn a_citation_that_leads_nowhere_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = |code: &str| references::violations(root, "src/base/id.rs", code);
    for (code, expected) in [
        ("/// HAZARDS row A10.", "src/base/id.rs:1: \"HAZARDS\" is no page of this repository"),
        ("//! x\n/// An id (document, section 3.2).", "src/base/id.rs:2: \"(document,\""),
        ("/// See docs/design/hazard.md.", "there is no docs/design/hazard.md"),
        ("/// It ends (docs/design/hazards.md, A1, A99).", "docs/design/hazards.md has no A99"),
        ("/// docs/sources/controller.md, 2.9.", "docs/sources/controller.md has no 2.9"),
    ] {
        let found = found(code);
        assert!(found.len() == 1 && found[0].contains(expected), "{code}: {found:?}");
    }
    let good =
        "/// It ends (docs/design/hazards.md, A1, A10): see docs/sources/controller.md, 2.7.\nlet x = (document, 2);";
    assert_eq!(found(good), Vec::<String>::new());
}

/// The files that the rules are about: those of the program and of the Rust client.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "clients/rust/src"] {
        collect(&root.join(folder), &["rs"], &mut files);
    }
    let source = |file: &PathBuf| {
        let path = file.strip_prefix(root).expect("below the root").to_string_lossy();
        let text = fs::read_to_string(file).expect("a source");
        (!is_test(&path)).then(|| Source::new(&path, &text))
    };
    files.iter().filter_map(source).collect()
}

/// Adds the files below `folder` whose names have one of these endings.
fn collect(folder: &Path, endings: &[&str], files: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, endings, files);
        } else if path.extension().is_some_and(|extension| endings.iter().any(|ending| extension == *ending)) {
            files.push(path);
        }
    }
}

/// Files of tests keep no rules.
fn is_test(path: &str) -> bool {
    path.trim_end_matches(".rs").split('/').any(|part| ["tests", "benches"].contains(&part) || part.ends_with("_tests"))
}

/// The violations of one file.
fn check(path: &str, text: &str) -> Vec<String> {
    if is_test(path) { Vec::new() } else { violations(&Source::new(path, text)) }
}

fn violations(source: &Source) -> Vec<String> {
    [rules::violations(source), phrases::violations(source)].concat()
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
        found("src/agent/slot/kill.rs", "\n\nuse std::process::Command;"),
        ["src/agent/slot/kill.rs:4: std::process is banned in engine; emit an effect instead"]
    );
}

#[test]
fn nothing_but_the_remover_removes_a_folder() {
    for code in
        ["fn f() { std::fs::remove_dir_all(x); }", "fn f() { fs::remove_dir_all(x); }", "use std::fs::remove_dir_all;"]
    {
        refuses("src/proc/ephemeral.rs", code, "use proc::files::removal");
    }
    accepts("src/proc/ephemeral.rs", "#[cfg(test)]\nmod tests { fn f() { std::fs::remove_dir_all(x); } }");
}

#[test]
fn libzmq_is_a_peer_of_tests_only() {
    for code in ["use zmq::Socket;", "use zmq::{Context, Socket};", "fn f() -> ::zmq::Error { zmq::Error::EAGAIN }"] {
        refuses("src/proc/transport.rs", code, "the crate zmq is for tests");
        accepts("clients/rust/src/client.rs", &format!("#[cfg(test)]\nmod tests {{ {code} }}"));
    }
    accepts("src/proc/mod.rs", "fn f(zmq: u8) {}");
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
        refuses("src/agent/slot/kill.rs", code, expected);
    }
    refuses("src/zmtp/push/delivery.rs", "fn f() { log::warn!(\"full\"); }", "log is banned in engine");
    accepts("src/agent/slot/kill.rs", "use std::time::Duration;\nuse rand::Rng;\nlet fs = process(net);");
    accepts("src/proc/spawn.rs", "use std::process::Command;\nuse std::time::Instant;");
}

#[test]
fn words_of_the_wire_stand_in_one_place() {
    for code in [
        "const A: &str = \"__TASK_ID__\";",
        "const A: &[u8] = b\"{\\\"__TASK_ID__\\\":1}\";",
        "const A: &str = r#\"{\"__TASK_ID__\":1}\"#;",
    ] {
        refuses("src/proc/push.rs", code, "src/proc/push.rs:2: the wire word __TASK_ID__");
        accepts("src/base/words.rs", code);
    }
    accepts("src/proc/push.rs", "/// `__TASK_ID__`\nconst A: &str = \"______\"; // \"__TASK_ID__\"");
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
        refuses("src/base/id.rs", code, expected);
        refuses("src/main.rs", code, expected);
        accepts("src/base/id.rs", &format!("#[cfg(test)]\nmod tests {{\n{code}\n}}"));
    }
    for code in [
        "/// The farm is overgrown, at most by a user who has time.",
        "/// Decides what is sent. | module | what it does |",
        "/// Which\n/// of them.\nconst A: &str = \"so_far\";",
        "fn so(far: u8) { nobody() }",
    ] {
        accepts("src/base/id.rs", code);
    }
}

#[test]
fn test_code_is_not_looked_at_and_what_follows_it_is() {
    let test = "#[cfg(test)]\nmod tests {\n    const A: &str = \"__A__ }\";\n    use std::fs; fn f() { '}' }\n}\n";
    accepts("src/agent/slot/kill.rs", test);
    refuses("src/agent/slot/kill.rs", &format!("{test}use std::fs;"), ":7: std::fs is banned");
    refuses("src/agent/slot/kill.rs", "#[cfg(test)]\nmod tests;\nuse std::fs;", ":4: std::fs is banned");
    accepts("src/agent/slot/tests.rs", "use std::fs;");
    accepts("src/agent/slot/kill.rs", "#![cfg(test)]\nuse std::fs;");
}

#[test]
fn literals_do_not_confuse_the_reader() {
    for code in ["const Q: char = '\"';", "const Q: char = '\\'';", "fn f<'a>(x: &'a str) {}", "let r#type = \"\\\"\";"]
    {
        refuses("src/agent/slot/kill.rs", &format!("{code}\nuse std::fs;"), ":3: std::fs is banned");
    }
}

#[test]
fn files_are_named_opened_and_bounded() {
    for path in [
        "src/proc/utils.rs",
        "src/proc/common/mod.rs",
        "src/proc/task_manager.rs",
        "src/base/misc.rs",
        "clients/rust/src/client/operators.rs",
        "src/zmtp/push/names.rs",
        "src/zmtp/push/check.rs",
        "src/llts/cli/helpers/mod.rs",
    ] {
        refuses(path, "", "says nothing");
    }
    accepts("src/zmtp/push/host_names.rs", "");
    refuses("src/proc/long.rs", &"fn f() {}\n".repeat(499), ":500: 501 lines without tests are too many");
    accepts("src/proc/long.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}", "fn f() {}\n".repeat(500)));
    assert_eq!(
        check("src/proc/x.rs", "fn f() {}\n"),
        ["src/proc/x.rs:1: the file does not say what it is; begin it with //!"]
    );
}

#[test]
fn only_engines_compare_moments() {
    for code in [
        "fn f(now: Mono, at: Mono) -> bool { at <= now }",
        "fn f(&self) -> bool { self.at.is_some_and(|at| at <= self.now.mono) }",
        "struct A { due: Option<Mono> }\nfn f(a: A, x: T) -> bool { a.due > x }",
        "fn f() { let end = clock::now().mono + PAUSE; if x() >= end {} }",
        "fn f(now: &Mono) -> bool { self.looked + PAUSE\n    < *now }",
    ] {
        refuses("src/agent/process/run.rs", code, "this file compares moments");
        accepts("src/agent/slot/run.rs", code);
        accepts("src/prompts/master/process.rs", code);
    }
    accepts(
        "src/agent/process/run.rs",
        "fn f<T: Into<Mono>>(now: Mono, at: Option<Mono>) -> Duration { let left = at.since(now); left.max(TEN) }\n\
         fn g(size: usize) -> bool { size < MAX }",
    );
}

#[test]
fn a_request_is_a_column() {
    let column = |name: &str| {
        [columns::WIRE, columns::ENGINE, columns::CLI].map(|folder| Source::new(&format!("{folder}/{name}.rs"), ""))
    };
    assert_eq!(columns::violations(&column("hold")), Vec::<String>::new());
    assert_eq!(columns::violations(&column("heartbeat")[..2]), Vec::<String>::new(), "agents say it");
    for (missing, expected) in
        ["has no file of this name", "has no file of this name", "offer the request there"].iter().enumerate()
    {
        let mut files = Vec::from(column("hold"));
        files.remove(missing);
        let found = columns::violations(&files);
        assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
    }
}
