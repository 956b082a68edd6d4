//! Values of prompts in the command, and targets in shell scripts: text stays text, whatever a shell would make of it.

use std::fs;

use crate::prompt_worker::master::Master;
use crate::prompt_worker::sandbox::{Sandbox, names};

/// Each would do harm as a part of a script.
const TEXTS: [&str; 6] = [
    "a b  c",
    "it's \"quoted\"",
    "$(touch harm) `touch harm` $HOME",
    "one\ntwo\n",
    "; touch harm #",
    "-n \\ * ~ & | < > é",
];

#[test]
fn a_prompt_is_one_word_in_a_script_and_its_name_as_well() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "printf '%s|' \"{{prompt}}\" '{{name}}' \"$#\"; cat {{file}}";
    let _worker = sandbox.worker(master.address(), &[], script);
    let mut peer = master.join();
    for (number, text) in TEXTS.into_iter().enumerate() {
        let name = if text.contains('\n') { format!("{number}") } else { format!("{number} {text}") };
        peer.request(&name, text);
        peer.hears("DONE");
        assert_eq!(sandbox.text(&format!(".tasks/done/{name}.out")), format!("{text}|{name}|0|{text}"));
    }
    // A name with a line end is none for a file.
    peer.request("x\ntouch harm", "text");
    peer.hears("DONE");
    assert!(names(&sandbox.path(".tasks/done")).iter().any(|name| name.starts_with("task_") && name.ends_with(".out")));
    assert!(!sandbox.path("harm").exists());
}

#[test]
fn the_raw_form_is_read_by_the_shell_and_other_arguments_are_as_they_are() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let script = "echo {{raw:prompt}}; printf '%s' \"$1\"";
    let options = ["--", "sh", "-c", script, "sh", "{{prompt}}"];
    let _worker = sandbox.start_at("worker", master.address(), &options);
    let mut peer = master.join();
    peer.request("a.txt", "$((40 + 2))");
    peer.hears("DONE");
    assert_eq!(sandbox.text(".tasks/done/a.txt.out"), "42\n$((40 + 2))");
    peer.request("b.txt", &"x".repeat(200_000));
    let failed = peer.hears("FAILED");
    assert!(failed["msg"].as_str().unwrap().contains("read PROMPT_FILE or the standard input instead"), "{failed}");
    peer.request("c.txt", "1");
    peer.hears("DONE");
}

#[test]
fn a_script_for_each_target_gets_it_as_one_word() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    let targets: Vec<&str> = TEXTS.into_iter().filter(|text| !text.contains('\n')).collect();
    fs::write(sandbox.path("work"), "Count it.").unwrap();
    fs::write(sandbox.path("targets"), targets.join("\n")).unwrap();
    fs::write(sandbox.path("script"), "#!/bin/sh\nprintf '%s|' {{target}} {{prompt}}\n").unwrap();
    sandbox.start(&["create", "work", "targets", "--template", "script"]).said().ok();
    let _worker = sandbox.start_at("worker", master.address(), &["--", "sh"]);
    let mut peer = master.join();
    let waiting = names(&sandbox.path(".tasks/pending"));
    for (name, target) in waiting.iter().zip(targets) {
        peer.request(name, &sandbox.text(&format!(".tasks/pending/{name}")));
        peer.hears("DONE");
        assert_eq!(sandbox.text(&format!(".tasks/done/{name}.out")), format!("{target}|Count it.|"));
    }
    assert!(!sandbox.path("harm").exists());
}

#[test]
fn a_command_that_no_quoting_makes_safe_is_refused_before_anything_runs() {
    let (sandbox, master) = (Sandbox::new(), Master::new());
    sandbox
        .start_at("worker", master.address(), &["--", "sh", "-c", "echo `echo {{prompt}}`"])
        .said()
        .failed(2, "{{prompt}} is in backticks");
}
