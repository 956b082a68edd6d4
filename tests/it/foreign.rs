//! Runs the suites in other languages, each a script that gets the real binary.

use std::process::{Command, Stdio};

/// Runs a script, and gives it these arguments.
#[track_caller]
fn passes(script: &str, arguments: &[&str]) {
    let root = env!("CARGO_MANIFEST_DIR");
    let mut command = Command::new(format!("{root}/{script}"));
    // Where the plugin `part` is.
    command.env("PYTHONPATH", format!("{root}/tests")).env("SERVICE_BINARY", env!("CARGO_BIN_EXE_llts"));
    let status = command.args(arguments).stdin(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("{script} cannot be started: {error}"));
    assert!(status.success(), "see the output of {script} above");
}

/// A suite is several tests here, of which each takes some seconds: they run beside one another, and none is taken for one that hangs.
macro_rules! suite {
    ($(#[$about:meta])* $name:ident, $script:literal, $($part:ident)+) => {
        $(#[$about])*
        mod $name {
            const PARTS: &[&str] = &[$(stringify!($part)),+];

            $(#[test]
            fn $part() {
                let part = 1 + PARTS.iter().position(|name| *name == stringify!($part)).expect("one of them");
                super::passes($script, &["-p", "part", "--part", &format!("{part}/{}", PARTS.len())]);
            })+
        }
    };
}

suite! {
    /// The conformance suite: pyzmq, from what the documents say alone.
    the_service_conforms_to_its_documents, "tests/python/run.sh", part_1 part_2 part_3 part_4
}

suite! {
    /// Built as a wheel, installed into an empty environment, and tested there.
    the_python_client_keeps_its_promises, "clients/python/test.sh", part_1 part_2 part_3 part_4
}

suite! {
    /// In a Chromium, as its users see it.
    the_page_shows_the_service_and_acts, "tests/page/run.sh", part_1 part_2 part_3 part_4
}

#[test]
fn the_examples_in_other_languages_run() {
    passes("examples/clients/test.sh", &[]);
}
