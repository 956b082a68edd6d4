//! The outputs of tasks, with the real binary: whole and byte for byte, while they are written and long after, and what is said
//! when bytes are missing.

mod disk;
mod endless;
mod keeping;
mod killed;
mod live;
use crate::cli::sandbox;
mod whole;

use std::process::Output;

use sandbox::Sandbox;

/// Numbers from 1 to this one, a line each, as `seq` prints them.
fn numbers(last: u32) -> Vec<u8> {
    (1..=last).flat_map(|number| format!("{number}\n").into_bytes()).collect()
}

/// Runs `llts` to its end, and returns its bytes.
fn output(sandbox: &Sandbox, line: &str) -> Output {
    sandbox.command(line).output().expect("its output")
}

/// A sandbox with more in its configuration.
fn configured(more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.append("config.toml", more);
    sandbox
}

/// Submits a task, waits for its end, and returns its id.
fn finished(sandbox: &Sandbox, task: &str) -> String {
    let id = sandbox.ok(&format!("submit {task}")).line().to_owned();
    sandbox.llts(&format!("wait {id}"));
    id
}

/// What a command has written to stderr.
fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
