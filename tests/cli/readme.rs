//! The commands of the README: each is one that this program has, and names a tool that is there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The lines of all blocks for a shell, each without its comment and what surrounds `llts`.
fn commands() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).expect("a README");
    let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let line = |line: &str| {
        let line = line.split(" #").next().unwrap_or(line).replace("target/release/llts ", "llts ");
        let line = line.replace("cargo run --release -- ", "llts ");
        let command = line.trim_start_matches("id=$(").trim_end_matches([')', '&', ' ']).to_owned();
        command.strip_prefix("llts ").map(str::to_owned)
    };
    blocks.flat_map(str::lines).filter_map(line).collect()
}

#[test]
fn each_command_of_the_readme_is_one_of_this_program() {
    let commands = commands();
    assert!(commands.len() > 25, "{commands:?}");
    for command in commands {
        // Arguments are read up to --help, which is before the words behind -- and lines for sh.
        let own = [" -- ", " --sh ", " --input ", " | "]
            .iter()
            .fold(&*command, |own, end| own.split(end).next().unwrap_or_default());
        let mut llts = Command::new(env!("CARGO_BIN_EXE_llts"));
        let said = llts.args(own.split_whitespace()).arg("--help").stdin(Stdio::null()).output().expect("started");
        assert!(said.status.success(), "llts {command}: {}", String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn each_tool_that_the_readme_runs_is_there_or_made_before() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools");
    let mut made: Vec<String> = Vec::new();
    for command in commands() {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["tool", "new", folder] => made.extend(folder.strip_prefix("tools/").map(str::to_owned)),
            // A command in place of a tool.
            ["run" | "submit", option, ..] if option.starts_with('-') || words.contains(&"--source") => {}
            ["run" | "submit", tool, ..] => {
                let is_there = tools.join(tool).join("run.sh").exists() || made.iter().any(|name| name == tool);
                assert!(is_there, "llts {command}: there is no tool {tool}");
            }
            _ => {}
        }
    }
}
