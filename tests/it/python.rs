//! Runs the conformance suite in tests/python: the real binary, driven by pyzmq from what the documents say alone.

use std::process::{Command, Stdio};

#[test]
fn the_service_conforms_to_its_documents() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/run.sh");
    let status = Command::new(script).env("SERVICE_BINARY", env!("CARGO_BIN_EXE_llts")).stdin(Stdio::null()).status();
    assert!(status.expect("tests/python/run.sh can be started").success(), "see the output of pytest above");
}

/// The client: built as a wheel, installed into an empty environment, and tested there.
#[test]
fn the_python_client_keeps_its_promises() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python/test.sh");
    let status = Command::new(script).env("SERVICE_BINARY", env!("CARGO_BIN_EXE_llts")).stdin(Stdio::null()).status();
    assert!(status.expect("clients/python/test.sh can be started").success(), "see the output of pytest above");
}
