//! Runs the suites in other languages, each a script that gets the real binary.

use std::process::{Command, Stdio};

#[track_caller]
fn passes(script: &str) {
    let path = format!("{}/{script}", env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(path).env("SERVICE_BINARY", env!("CARGO_BIN_EXE_llts")).stdin(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("{script} cannot be started: {error}"));
    assert!(status.success(), "see the output of {script} above");
}

/// The conformance suite: pyzmq, from what the documents say alone.
#[test]
fn the_service_conforms_to_its_documents() {
    passes("tests/python/run.sh");
}

/// Built as a wheel, installed into an empty environment, and tested there.
#[test]
fn the_python_client_keeps_its_promises() {
    passes("clients/python/test.sh");
}

/// In a Chromium, as its users see it.
#[test]
fn the_page_shows_the_service_and_acts() {
    passes("tests/page/run.sh");
}

#[test]
fn the_examples_in_other_languages_run() {
    passes("examples/clients/test.sh");
}
