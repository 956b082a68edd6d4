//! `llts prompt create` from the command line.

use std::fs;

use crate::prompt_worker::sandbox::{Sandbox, names};

#[test]
fn one_file_for_each_line() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("work.txt"), "Summarise it.").unwrap();
    fs::write(sandbox.path("list.txt"), "https://example.org/a\n\nb c\n").unwrap();
    let said = sandbox.start(&["create", "work.txt", "list.txt"]).said().ok();
    let created = ["task_001_httpsexample.orga.txt", "task_002_bc.txt"];
    assert_eq!(names(&sandbox.path(".tasks/pending")), created);
    assert_eq!(said.out, created.map(|name| format!("./.tasks/pending/{name}\n")).concat());
    let said = sandbox.start(&["create", "work.txt", "list.txt", "--output", "wire"]).said().ended(2);
    assert!(said.err.contains("line 1 of the target list: ") && said.err.contains("is there already"), "{said:?}");
    let said = sandbox.start(&["create", "work.txt", "list.txt", "--clear", "--output", "wire"]).said();
    let value = said.json();
    assert_eq!(value["created"], serde_json::json!(created));
}
