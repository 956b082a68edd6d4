//! The rules of the design as tests: the permitted imports, the calls that an engine must not make, the place of wire words,
//! the banned phrases of comments and texts.
//!
//! Each rule is shown to fail on a made-up source, so that a green run means something.

#[path = "architecture/phrases.rs"]
mod phrases;
#[path = "architecture/rules.rs"]
mod rules;
#[path = "architecture/source.rs"]
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

#[test]
fn the_sources_keep_the_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    assert!(files.len() > 10, "src/ was not found: {files:?}");
    let violations: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let text = fs::read_to_string(file).expect("a source");
            check(&file.strip_prefix(root).expect("below the root").to_string_lossy(), &text)
        })
        .collect();
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
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

/// The violations of one file; files of tests have none.
fn check(path: &str, text: &str) -> Vec<String> {
    let is_test = path.trim_end_matches(".rs").split('/').any(|part| part == "tests" || part.ends_with("_tests"));
    if is_test {
        return Vec::new();
    }
    let source = Source::new(path, text);
    // Other programs are outside of the layers: they use the public interface of the library.
    let rules = if path.starts_with("src/bin/") { Vec::new() } else { rules::violations(&source) };
    [rules, phrases::violations(&source)].concat()
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
fn libzmq_stands_in_one_file() {
    for code in ["use zmq::Socket;", "use zmq::{Context, Socket};", "fn f() -> ::zmq::Error { zmq::Error::EAGAIN }"] {
        for path in ["src/client.rs", "src/shell/transport.rs", "src/shell/push/wire.rs", "src/cli/up.rs"] {
            refuses(path, code, "the crate zmq stands outside src/shell/zmq.rs");
        }
        accepts("src/shell/zmq.rs", code);
        accepts("src/client.rs", &format!("#[cfg(test)]\nmod tests {{ {code} }}"));
    }
    for (path, code) in [
        ("src/shell/door/zmtp.rs", "use super::super::zmq::LIBRARY;"),
        ("src/shell/controller.rs", "use super::zmq::LIBRARY;"),
        ("src/cli/up.rs", "fn f() { crate::shell::zmq::f(); }"),
    ] {
        refuses(path, code, "shell::zmq is known to src/shell/transport.rs only");
    }
    refuses(
        "src/shell/controller.rs",
        "#[cfg(feature = \"libzmq\")]\nfn f() {}",
        ":2: the feature libzmq is asked for",
    );
    accepts("src/shell/transport.rs", "#[cfg(feature = \"libzmq\")]\nconst A: B = super::zmq::LIBRARY;");
    accepts("src/shell/mod.rs", "pub mod zmq;\nfn f(zmq: u8) {}");
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
    refuses("src/engine/push/delivery.rs", "fn f() { log::warn!(\"full\"); }", "log is banned here");
    accepts("src/engine/slot/kill.rs", "fn f() { log::warn!(\"full\"); }");
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
    for path in ["src/shell/utils.rs", "src/shell/common/mod.rs", "src/shell/task_manager.rs", "src/types/misc.rs"] {
        refuses(path, "", "says nothing");
    }
    refuses("src/other/mod.rs", "", "other is no layer");
    refuses("src/shell/long.rs", &"fn f() {}\n".repeat(399), ":400: 401 lines without tests are too many");
    accepts("src/shell/long.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}", "fn f() {}\n".repeat(500)));
    assert_eq!(
        check("src/shell/x.rs", "fn f() {}\n"),
        ["src/shell/x.rs:1: the file does not say what it is; begin it with //!"]
    );
}
